"""Kernels of specs/ compute what they are for: run in NumPy in their own types, against functions of float64."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from specs.kernels import ROOT, SPECS, Draft, draft_sized

from tests.meaning import MEANINGS, Meaning
from tilegen.dtypes import DTYPES
from tilegen.errors import ProofError
from tilegen.interpret import interpret
from tilegen.ops import ALL_OPS
from tilegen.plan import arrays
from tilegen.proofs.against import ask_meaning
from tilegen.proofs.floats import Closeness, FloatRun, computes, draw_elements, draw_floats, run_bounded
from tilegen.reference import Array, Input
from tilegen.spec import load as read
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.outline import launch_of

CASES = [(name, sizes) for name, meaning in MEANINGS.items() for sizes in meaning.sizes]
every_case = pytest.mark.parametrize(
    "name,sizes", CASES, ids=[f"{n}-{'-'.join(f'{k}{v}' for k, v in s.items())}".strip("-") for n, s in CASES]
)


def test_every_spec_that_computes_has_a_meaning() -> None:
    """A whole-array op has its own meaning; a function beside it is a second one."""
    specs = {path.stem: read(path, ALL_OPS) for path in SPECS}
    computing = {name for name, spec in specs.items() if computes(spec)}
    whole = {name for name, spec in specs.items() if any(isinstance(s, WholeCall) for s in spec.ops)}
    assert not computing - set(MEANINGS), "these compute: say what in tests/meaning.py"
    assert not set(MEANINGS) - computing - whole, "no spec that computes has these names"


@pytest.mark.sweep(2)
@every_case
def test_a_kernel_computes_what_it_is_for(name: str, sizes: Mapping[str, int]) -> None:
    found = compare(name, sizes, MEANINGS[name], corner=False)
    assert not any(f.unclaimed for f in found), found


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", MEANINGS)
def test_infinity_and_the_largest_number_are_what_they_mean(name: str) -> None:
    compare(name, MEANINGS[name].sizes[-1], MEANINGS[name], corner=True)


def draft_named(name: str, sizes: Mapping[str, int]) -> Draft:
    """The kernel at a size: what runs here is looked at whole, so nothing is proved before."""
    return draft_sized(ROOT / "specs" / f"{name}.yaml", tuple(sizes.items()))


def compare(name: str, sizes: Mapping[str, int], meaning: Meaning, corner: bool) -> list[Closeness]:
    """The kernel of every CTA against the function, every element of every output. Raises ProofError."""
    kernel = draft_named(name, sizes)
    spec, case = kernel.spec, {p.name: int(p.default) for p in kernel.spec.params if p.var is not None}
    memories = [m for m in arrays(kernel.plan) if m.access != "out"]
    inputs = draw_inputs(spec, [m.name for m in memories], meaning, corner)
    inputs |= {m.name: draw_elements(m, case) for m in memories if m.values is not None}
    x, y, z = launch_of(spec, case).grid
    ctas = [(i, j, k) for k, j, i in product(range(z), range(y), range(x))]
    written = interpret(kernel.plan, ctas, inputs, case).written
    bounds = run_bounded(spec, FloatRun(ctas, inputs, case), is_tight=False)
    claims = ask_meaning(meaning.function, spec, case, inputs, tuple(sorted(written)))
    found = []
    for output, (at, got) in sorted(written.items()):
        meant_at, _ = claims.values[output]
        assert np.array_equal(at, meant_at), f"{output}: the kernel writes other elements than it has"
        found.append(claims.compare(output, at, got, bounds[output][1]))
    return found


def draw_inputs(spec: Spec, names: list[str], meaning: Meaning, corner: bool) -> dict[str, Input]:
    """Normal floats; as a corner the first array has -inf and the largest number in its first row."""
    inputs = {name: draw_floats(name, spec.buffer(name).dtype) for name in names}
    first = next((n for n in names if DTYPES[spec.buffer(n).dtype].kind == "float"), None)
    if corner and first is not None:
        drawn = inputs[first]

        def special(index: Array) -> Array:
            with np.errstate(over="ignore"):
                dtype = drawn(index).dtype
                values = np.where(index == 0, meaning.largest, np.where(index == 5, -np.inf, drawn(index)))
                return values.astype(dtype)

        inputs[first] = special
    return inputs


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", MEANINGS)
def test_another_meaning_is_found(name: str) -> None:
    """A fifth more than the function says: more than any type's rounding."""
    meaning = MEANINGS[name]

    def other(**given: Array) -> dict[str, Array]:
        known = inspect.signature(meaning.function).parameters
        result = meaning.function(**{k: v for k, v in given.items() if k in known})
        by_name = result if isinstance(result, dict) else {output: result}
        return {k: 1.2 * v for k, v in by_name.items()}

    output = next(m.name for m in arrays(draft_named(name, meaning.sizes[0]).plan) if m.access != "in")
    with pytest.raises(ProofError, match="TG428"):
        compare(name, meaning.sizes[0], replace(meaning, function=other), corner=False)
