"""Floats: what a kernel wrote lies within the bound that its spec's meaning has, element for element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from tilegen.arithmetic import TYPED
from tilegen.arithmetic.bounded import Bounded, make_bounded
from tilegen.arithmetic.bounds import Bound, find_beyond
from tilegen.arithmetic.hashes import mix, salt
from tilegen.arithmetic.values import draw_values
from tilegen.dtypes import DTYPES, FACTOR, numpy_dtype, powers_of_two
from tilegen.errors import Diagnostic, ProofError
from tilegen.index import Index, variables
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.interpret import Unsteady, interpret
from tilegen.interpret.threads import Cta
from tilegen.kept import keep
from tilegen.ops import OPS
from tilegen.ops.op import COMPUTES
from tilegen.plan import (
    Compute,
    Map,
    Memory,
    Mma,
    Plan,
    TensorMma,
    Wgmma,
    When,
    arrays,
    begin,
    default_values,
    flatten,
    walk,
)
from tilegen.proofs.columns import Column
from tilegen.proofs.composed import TooMany, compose_inputs, find_composed
from tilegen.proofs.observed import asked_by_tree
from tilegen.reference import Array, Input, run_reference
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, THREAD_AXES
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline

BEYOND = "TG427"
_FLOATS = 1 << 13  # floats that elements are drawn from: a power of two, few enough for a processor's caches
_GOLDEN = (5**0.5 - 1) / 2  # multiples of it lie evenly in any stretch of them
_AGAIN = np.array([0.0, 1.0, -1.0, 0.5])  # floats that come again and again
_SMALL = 8  # integers are drawn from -8 to 7, or from 0 to 7


@dataclass(frozen=True)
class Closeness:
    """How near an array came to its bound: of the element that came nearest, its error and its bound.

    ``unclaimed`` of its ``elements`` have no bound.
    """

    name: str
    elements: int
    unclaimed: int
    error: float
    bound: float

    def __str__(self) -> str:
        free = f", {self.unclaimed} of {self.elements} elements without a bound" if self.unclaimed else ""
        if not self.bound:
            return f"float: {self.name}: {'exact' if self.unclaimed < self.elements else 'nothing claimed'}{free}"
        return f"float: {self.name}: largest error {self.error:.2g} of its bound {self.bound:.2g}{free}"


def computes(spec: Spec) -> bool:
    """Has the spec an op that computes, so that its floats are to be checked too?

    Not where it has none, and what it does depends on what passes before have made.
    """
    if find_composed(spec) and not any(DTYPES[b.dtype].kind in ("float", "complex") for b in spec.buffers):
        return False
    return any(OPS[call.op].exactness_of(call) == COMPUTES for call in outline(spec).calls)


@keep
def list_conditions(plan: Plan) -> tuple[Column, ...]:
    """Each condition that says whether, or how, something is computed.

    What an exact run has found right may lose digits in one case, and not in another.
    """
    found: list[Column] = []
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            step, at = visit.step, visit.position
            asked: Iterable[Index] = ()
            if isinstance(step, When) and any(isinstance(inner, _COMPUTING) for inner in flatten(step.body)):
                asked = (step.condition,)
            elif isinstance(step, Compute):
                asked = asked_by_tree(step.tree, step.wholes)
            found += [Column((at.expand(x),), at.loops, at.guards) for x in asked if not isinstance(x, int)]
    return tuple(dict.fromkeys(found))


def names_in_conditions(plan: Plan) -> tuple[frozenset[str], ...]:
    """The variables of each condition."""
    return tuple(dict.fromkeys(frozenset(v.name for x in c.seen for v in variables(x)) for c in list_conditions(plan)))


_COMPUTING = (Compute, Map, Mma, Wgmma, TensorMma)


Held = tuple[Array, Bound]  # sorted offsets, and what lies there
_NOTHING: Mapping[str, Held] = {}


def draw_elements(memory: Memory, case: Mapping[str, int], seed: int = 1) -> Input:
    """Elements of an array by index, of the values that its caller promises, if there are such."""
    if memory.values is not None:
        return draw_values(memory.values.at(case), memory.dtype, memory.name, seed)
    return draw_floats(memory.name, memory.dtype, seed)


def draw_floats(name: str, dtype: str, seed: int = 1) -> Input:
    """Elements of an array by index: floats of ``_list_floats``, powers of two, small integers, truth values."""
    kind, target = DTYPES[dtype].kind, numpy_dtype(dtype)
    word = salt(f"floats {name} {seed}")

    def values(index: Array) -> Array:
        drawn = mix(np.asarray(index).astype(np.uint64), word)
        if dtype == FACTOR:
            return powers_of_two((drawn >> np.uint64(32)).astype(np.int64))
        if kind in ("float", "complex"):
            floats: Array = _list_floats(dtype)[(drawn & np.uint64(_FLOATS - 1)).astype(np.intp)]
            return floats
        if kind == "bool":
            truth: Array = (drawn >> np.uint64(63)).astype(target)
            return truth
        small: Array = (drawn % np.uint64(_SMALL * (2 if kind == "int" else 1))).astype(np.int64)
        whole: Array = (small - (_SMALL if kind == "int" else 0)).astype(target)
        return whole

    return values


@cache
def _list_floats(dtype: str) -> Array:
    """Normal floats; one in eight is of a few that come again, so that two which are compared may be equal."""
    k = np.arange(_FLOATS)
    u, v = (k + 0.5) / _FLOATS, k * _GOLDEN % 1.0
    normal = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
    real = np.where(k % 8 == 0, _AGAIN[k // 8 % len(_AGAIN)], normal)
    floats: Array = real + 1j * np.roll(real, 3) if DTYPES[dtype].kind == "complex" else real
    return floats.astype(numpy_dtype(dtype))


def float_inputs(
    plan: Plan, seed: int = 1, params: Mapping[str, int] | None = None, spec: Spec | None = None
) -> dict[str, Input]:  # fmt: skip
    """``draw_elements`` for every global array that the kernel reads. ``params``: their defaults where not given.

    ``spec``: that of the plan, where passes before the kernel bring arrays: their elements are of the values that are
    proved of them.
    """
    case = default_values(plan.params) | dict(params or {})
    proved = {b.name: b.values for b in spec.buffers if not b.traits.is_callers} if spec else {}
    read = (replace(m, values=m.values or proved.get(m.name)) for m in arrays(plan) if m.access != "out")
    return {m.name: draw_elements(m, case, seed) for m in read}


@dataclass(frozen=True)
class FloatRun:
    """What runs with floats: CTAs, typed elements of each array that is read, exactly known, params, and trips."""

    ctas: Sequence[Cta]
    inputs: Mapping[str, Input]
    params: Mapping[str, int]
    trips: Trips = ALL_TRIPS


def run_bounded(
    spec: Spec, run: FloatRun, is_host: bool = False, is_tight: bool = True, held: Mapping[str, Held] = _NOTHING
) -> dict[str, Held]:  # fmt: skip
    """What the spec means by the CTAs, with bounds: per array the offsets written and the values there.

    ``held``: elements of arrays that a kernel before has written, with their own bounds. ``is_host``: for code that a
    C++ compiler made for the CPU. ``is_tight`` as ``make_bounded`` has it.
    """
    domain = make_bounded((b.dtype for b in spec.buffers), is_host, is_tight)

    def known(name: str, index: Array) -> Array:
        dtype = spec.buffer(name).dtype
        exact = domain.given(run.inputs[name](index), dtype)
        return _lay_bounds(domain, exact, index, held.get(name), dtype)

    dressed: dict[str, Callable[[Array], Array]] = {name: partial(known, name) for name in run.inputs}
    written = run_reference(spec, run.ctas, dressed, run.params, run.trips, domain)
    return {name: (at, domain.decode(bits, spec.buffer(name).dtype)) for name, (at, bits) in written.items()}


def _lay_bounds(domain: Bounded, exact: Array, index: Array, held: Held | None, dtype: str) -> Array:
    """Elements at some offsets, those that are held in the place of the exact ones."""
    if held is None:
        return exact
    at, bound = held
    near, is_there = find_places(at, index)
    of_kernel = domain.encode(Bound(bound.value[near], bound.error[near]), dtype)
    return np.where(is_there, of_kernel, exact).astype(exact.dtype)  # NumPy leaves out the bytes between pairs


def find_places(at: Array, index: Array) -> tuple[Array, Array]:
    """Where offsets stand among sorted ones, any place for one that does not, and which do.

    >>> near, is_there = find_places(np.array([2, 5]), np.array([5, 3]))
    >>> int(near[0]), is_there.tolist()
    (1, [True, False])
    """
    near = np.minimum(np.searchsorted(at, index), len(at) - 1)
    return near, at[near] == index


def compare_floats(
    name: str, at: Array, got: Array, want: Bound, code: str = BEYOND, where: Callable[[int], str] = lambda at: "",
) -> Closeness:  # fmt: skip
    """Raise ProofError (TG427) at the first element that is further from its value than its bound.

    ``where``: words for an element at an offset.
    """
    wrong, part = find_beyond(got, want)
    if wrong.any():
        first = int(wrong.argmax())
        value, error = float(want.value[first]), float(want.error[first])
        place = f"{name}{where(int(at[first]))}"
        message = f"{place} is {float(got[first])!r} at element offset {int(at[first])}, not {value!r} +- {error:.3g}"
        raise ProofError(Diagnostic(code, f"{message} ({int(wrong.sum())} of {len(at)} elements)"))
    free = int(np.isinf(want.error).sum())
    if not len(part) or free == len(part):
        return Closeness(name, len(part), free, 0.0, 0.0)
    bounded = np.where(np.isinf(want.error), 0.0, want.error)
    nearest = int(part.argmax()) if part.max() > 0 else int(bounded.argmax())
    bound = float(bounded[nearest])
    return Closeness(name, len(part), free, float(max(part[nearest], 0.0)) * bound, bound)


def _draw_before(spec: Spec, params: Mapping[str, int], seed: int) -> dict[str, Input]:
    """Elements of the caller's arrays that passes before read."""
    found: dict[str, Input] = {}
    for one in spec.before if find_composed(spec) else ():
        case = default_values(one.spec.params) | dict(params)
        for b in one.spec.buffers:
            if b.traits.is_callers and b.root == b.name:
                found[b.name] = draw_elements(
                    Memory(b.name, b.dtype, b.shape, b.shape, b.scope, values=b.values), case, seed
                )
    return found


def check_floats(
    spec: Spec, plan: Plan, ctas: Sequence[Cta], params: Mapping[str, int], seed: int = 1, trips: Trips = ALL_TRIPS
) -> tuple[Closeness, ...]:
    """Run CTAs in NumPy in the kernel's own types and compare with the bounds of the spec's meaning.

    Of loops that ``trips`` cuts, few trips run, unless what is computed depends on them: hazards are not looked for
    here. Only what an exact run has found right before: the same elements are written. Raises ProofError TG427.
    """
    inputs = float_inputs(plan, seed, params)
    try:
        inputs |= compose_inputs(spec, _draw_before(spec, params, seed) | inputs, params, TYPED)
    except TooMany:
        return ()
    others = {*CTA_AXES, *CLUSTER_AXES, *THREAD_AXES, *params}
    is_steady = all(names <= others for names in names_in_conditions(plan))
    try:
        outcome = interpret(plan, ctas, inputs, params, few := trips.fewest() if is_steady else trips)
        trips = few
    except Unsteady:
        outcome = interpret(plan, ctas, inputs, params, trips)
    wanted = run_bounded(spec, FloatRun(outcome.ctas, inputs, params, trips))
    found = []
    for name, (at, want) in sorted(wanted.items()):
        got_at, got = outcome.written[name]
        assert np.array_equal(at, got_at), f"{name}: the float run writes other elements than the exact one"
        found.append(compare_floats(name, at, got, want))
    return tuple(found)
