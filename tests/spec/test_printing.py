"""What print_spec writes loads as an equal spec and builds to the same kernel: every spec, and random ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from specs.kernels import build_again, build_spec, every_spec

from tests.session import examples
from tests.spec.test_expressions import VALUES, conditions, numbers, parse
from tests.spec.test_spec_fuzz import RICH, mutated
from tilegen.errors import SpecError, TilegenError
from tilegen.index import Formula, Index, Var, evaluate, xor
from tilegen.ops import ALL_OPS
from tilegen.pipeline import expand, load, output_texts
from tilegen.planner import plan_spec
from tilegen.render import render
from tilegen.spec import load as load_alone
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.findings import Flawed
from tilegen.spec.outline import outline
from tilegen.spec.printing import print_spec
from tilegen.spec.program import Program
from tilegen.spec.spelling import spell_index


def below_the_header(text: str) -> str:
    return text.split("\n\n", 1)[1]


def check(spec: Spec, read: Callable[[str], Spec] = load) -> None:
    text = print_spec(spec)
    assert read(text) == spec, text
    assert print_spec(replace(read(text), notes=spec.notes)) == text


def check_passes(program: Program) -> None:
    """A pass has the constants that its text names, and what is printed names none."""
    text = print_spec(program)
    again = load_alone(text, ALL_OPS)
    assert isinstance(again, Program)
    for one, its in zip(again.passes, program.passes, strict=True):
        assert replace(one.spec, constants=()) == replace(its.spec, constants=()), text
    assert print_spec(again) == text


# ---------------------------------------------------------------- every spec
@pytest.mark.sweep(6)
@every_spec
def test_a_printed_spec_loads_as_it_was(path: Path) -> None:
    check(load_alone(path, ALL_OPS), lambda text: load_alone(text, ALL_OPS))
    check(build_spec(path).spec)
    check(expand(build_spec(path).spec))


@pytest.mark.sweep(6)
@every_spec
def test_a_printed_spec_builds_to_the_same_kernel(path: Path, tmp_path: Path) -> None:
    built = build_spec(path)
    printed = tmp_path / path.name
    printed.write_text(print_spec(expand(built.spec)), encoding="utf-8")
    again = build_again(printed, built)
    for name, text in output_texts(built).items():
        if not name.endswith(".json"):
            mine = output_texts(again)[name]
            assert below_the_header(mine) == below_the_header(text)
            assert mine == text or built.spec.whole, "only an op on whole arrays is not named in the header"
    assert not any(isinstance(p.statement, WholeCall) for p in outline(again.spec).placed)


@pytest.mark.sweep(21)
@every_spec
def test_a_printed_spec_leaves_nothing_open_and_keeps_to_the_page(path: Path) -> None:
    spec = expand(build_spec(path).spec)
    text = print_spec(spec)
    assert not re.search(r"\bauto\b", text.replace(spec.kernel, ""))
    assert text.count("variant:") == sum("variant" in type(c.fields).model_fields for c in outline(spec).calls)
    long = [line for line in text.splitlines() if len(line) > 120]
    assert all(re.match(r" +(src|dst|layout|expr): ", line) for line in long), "what is one value cannot be broken"


def test_a_rich_spec() -> None:
    check(load_alone(RICH, ALL_OPS), lambda text: load_alone(text, ALL_OPS))


STATEMENTS = """\
kernel: "off"
arch: sm_90
params: {n: {default: 8, max: 64}, y: {dtype: float32, default: 1.0e-7}}
grid: {bx: (ceil(n / 4) + n % 3) * 2}
cluster: {cbx: 2}
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [n * 4, 128], layout: "S[(n*4,128):(136,1)]", align: 32, partial: true}
  s: {scope: shared, dtype: float32, shape: [4, 128], layout: "Swizzle(2,3,3) o S[(4,128):(128,1)]"}
  rows: {view: s, layout: row}
  bytes: {view: rows, dtype: uint8}
  wide: {view: rows, shape: [2, 256]}
  turned: {view: wide, axes: [1, 0], dtype: int32}
ops:
  - for: {k: [1, n, 2], j: 2}
    do: []
  - for: {k: 3}
    do:
      - for: {j: 2}
        unroll: true
        do:
          - copy: {src: "X[k, 0 : +64]", dst: "s[k, 0 : +64]", async: true, when: bx < 3 and not (k == 1 or j > 0)}
  - {commit: true, when: warpid == 0}
  - commit
  - wait: 2 - 1
    when: bx != 1 or bx == 0 or 3 > bx
  - {sync: cluster, when: true}
  - {sync: async, when: warpid < 2}
  - fill: {dst: "s[2]", value: 1.0e-7, when: n == 3}
  - fill: {dst: "s[3]", value: -.inf, scope: cta}
  - copy: {src: "X[0:4]", dst: s, variant: tma, barrier: "full[n % 3]"}
  - wait: {barrier: "full[(n + 1) % 3]"}
"""


def test_every_kind_of_statement_and_of_view() -> None:
    spec = load_alone(STATEMENTS, ALL_OPS)
    check(spec, lambda text: load_alone(text, ALL_OPS))
    text = print_spec(spec)
    for line in (
        'kernel: "off"', "  - for: {k: [1, n, 2], j: 2}", "    do: []", "  - commit: true", "    when: warpid == 0",
        '  - wait: {barrier: "full[(n + 1) % 3]"}', "    when: bx != 1 or bx == 0 or bx < 3", "  - wait: 1",
        "  bytes: {view: s, shape: [4, 512], dtype: uint8, layout: row}", "  wide: {view: rows, shape: [2, 256]}",
        "  turned: {view: wide, axes: [1, 0], dtype: int32}", "grid: {bx: ceil(n / 4) * 2 + n % 3 * 2}",
        "  - sync: cluster",
    ):  # fmt: skip
        assert line in text.splitlines(), text


@dataclass(frozen=True)
class Unheard:
    """A kind of statement that nobody knows."""


def test_what_is_not_known_is_refused() -> None:
    spec = load_alone("kernel: k\nthreads: 32\nops: []\n", ALL_OPS)
    with pytest.raises(TypeError, match="Unheard"):
        print_spec(replace(spec, ops=(Unheard(),)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"operator '\^'"):
        spell_index(xor(Var("a", 8), Var("b", 8)))
    assert spell_index(-1) == "0 - 1"


# ---------------------------------------------------------------- random ones
@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(numbers(3), conditions(3)), VALUES)
def test_an_expression_is_read_back(text: str, values: dict[str, int]) -> None:
    try:
        index = parse(text).index
    except Flawed:
        return  # it divides by what may be 0
    spelled = spell_index(index)
    again = parse(spelled).index
    assert again == index and type(again) is type(index), spelled
    assert evaluate(again, values) == evaluate(index, values)


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(numbers(3), conditions(3)))
def test_no_parentheses_but_those_that_are_needed(text: str) -> None:
    """Without any pair it is another expression, or none."""
    try:
        index = parse(text).index
    except Flawed:
        return
    assume(isinstance(index, Formula))
    spelled = spell_index(index)
    for start, end in pairs(spelled):
        bare = f"{spelled[:start]} {spelled[start + 1 : end]} {spelled[end + 1 :]}"
        assert read(bare) != index, (spelled, bare)


def pairs(text: str) -> Iterator[tuple[int, int]]:
    """Where parentheses open and close, those of ceil left out."""
    opened: list[int] = []
    for at, character in enumerate(text):
        if character == "(":
            opened.append(at)
        elif character == ")" and not text[: (start := opened.pop())].endswith("ceil"):
            yield start, at


def read(text: str) -> Index | None:
    try:
        return parse(text).index
    except Flawed:
        return None


@settings(max_examples=examples(200), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_a_mutated_spec_that_loads_is_printed(text: str) -> None:
    try:
        spec = load_alone(text + "\n", ALL_OPS)
    except TilegenError:
        return
    if isinstance(spec, Program):
        check_passes(spec)
    else:
        check(spec, lambda printed: load_alone(printed, ALL_OPS))


def draw_permute(pick: random.Random) -> str:
    """Any rank, sizes known and unknown, names that clash with those of tiles, some fields pinned."""
    rank = pick.choice([1, 2, 2, 3, 3, 4, 5, 6, 8])
    axes = pick.sample(range(rank), rank)
    names = pick.choice(["ABCDEFGH", ("tile", "M", "cuda", "K", "Y_turned", "tile_turned", "H", "tile2")])
    params, shape = [], []
    for d in range(rank):
        kind = pick.choice(["max", "multiple", "constant", "plain", "plain", "open" if rank < 4 else "plain"])
        value = pick.choice([1, 2, 3, 5, 16, 37, 64])
        said = {
            "max": f"{{default: {value}, max: 65536}}",
            "multiple": f"{{default: {value * 8}, multiple_of: 8, max: 4096}}",
            "constant": str(value), "open": f"{{default: {value}}}", "plain": "",
        }[kind]  # fmt: skip
        params += [f"{names[d]}: {said}"] if said else []
        shape.append(names[d] if said else str(value))
    layout = pick.choice(["", "", "", ", layout: col"])
    if rank == 2 and pick.random() < 0.3:
        layout = f', layout: "S[({shape[0]},{shape[1]}):({shape[1]} + 8,1)]"'
    more = pick.choice(
        ["", "", ", cache: stream", ", threads: 64", ", turn: store", ", turn: load", ", layout: row", ", layout: col",
         ', layout: "Swizzle(3,3,3)"', ", variant: tiled", ", variant: direct", ", variant: scalar"]
    )  # fmt: skip
    arrays = [(pick.choice(["X", "X_"]), shape, layout), (pick.choice(["Y", "Y_"]), [], "")]
    dtype = pick.choice(["uint8", "float16", "float32", "complex128"])
    lines = [f"  {arrays[0][0]}: {{scope: global, dtype: {dtype}, shape: [{', '.join(shape)}]{layout}}}\n"]
    lines += [f"  {arrays[1][0]}: {{scope: global, dtype: {dtype}, shape: [{', '.join(shape[a] for a in axes)}]}}\n"]
    head = f"kernel: permuted\nparams: {{{', '.join(params)}}}\nbuffers:\n{''.join(lines)}"
    return f"{head}ops:\n  - permute: {{src: {arrays[0][0]}, dst: {arrays[1][0]}, axes: {axes}{more}}}\n"


@pytest.mark.sweep(2)
@pytest.mark.parametrize("seed", [*range(30), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(30, 60))])
def test_random_permutes(seed: int) -> None:
    text = draw_permute(random.Random(seed))
    try:
        spec = load(text)
        source = render(plan_spec(spec))
    except SpecError:
        return  # pins that cannot be, sizes that no layout holds
    expanded = expand(spec)
    check(expanded)
    printed = print_spec(expanded)
    assert below_the_header(render(plan_spec(load(printed)))) == below_the_header(source), printed
