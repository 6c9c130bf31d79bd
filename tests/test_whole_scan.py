"""scan_array: kernels and passes of all sizes, types and storage orders are right, and faults are found."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.mutants.judging import proof_code
from tests.test_whole_reduce import array, check_proved
from tilegen.interpret import interpret
from tilegen.pipeline import Built, BuiltProgram, build, load
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.floats import draw_floats
from tilegen.spec.data import Spec
from tilegen.spec.printing import print_spec
from tilegen.spec.program import Program
from tilegen.verifying.programs import run_together

Array = np.ndarray[Any, Any]
JOINED: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.fmax, "min": np.fmin}
FIRST = {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf}


def spec_of(
    shape: tuple[Any, ...], axis: int, op: str = "sum", dtypes: tuple[str, str] = ("float32", "float32"), **more: Any
) -> dict[str, Any]:
    """A spec of a scan. ``layouts``: of both arrays; what is left are fields of the op."""
    layouts, params = more.pop("layouts", ("row", "row")), more.pop("params", {})
    arch = more.pop("arch", "sm_90")
    x, y = (array(dtype, *shape, layout=layout) for dtype, layout in zip(dtypes, layouts, strict=True))
    return {
        "kernel": "scanned", "arch": arch, "params": params, "buffers": {"X": x, "Y": y},
        "ops": [{"scan_array": {"src": "X", "dst": "Y", "axis": axis, "op": op, **more}}],
    }  # fmt: skip


def scan(x: Array, axis: int, op: str, exclusive: bool = False, reverse: bool = False) -> Array:
    """By NumPy, in the type of the array."""
    rows = np.moveaxis(x, axis, 0)
    rows = rows[::-1] if reverse else rows
    found = JOINED[op].accumulate(rows, axis=0, dtype=x.dtype)
    if exclusive:
        ends = np.iinfo(x.dtype) if x.dtype.kind == "i" else None
        first = FIRST[op] if ends is None or op in ("sum", "prod") else ends.min if op == "max" else ends.max
        found = np.concatenate([np.full_like(found[:1], first), found[:-1]])
    return np.moveaxis(found[::-1] if reverse else found, 0, axis)


# ---------------------------------------------------------------- problems of all kinds
SAME = {name: (name, name) for name in ("float64", "float16", "bfloat16", "int32", "int64", "int8")}
PROBLEMS: dict[str, dict[str, Any]] = {
    "short rows": {"shape": (100, 30), "axis": 1},
    "rows for all warps": {"shape": (2000, 520), "axis": 1, "exclusive": True},
    "rows for all warps from the end": {"shape": (1100, 700), "axis": 1, "reverse": True, "op": "max"},
    "few rows": {"shape": (9, 3000), "axis": 1, "passes": 1, "op": "min"},
    "few long rows": {"shape": (3, 40_000), "axis": 1, "op": "prod"},
    "few long rows from the end": {"shape": (3, 40_001), "axis": 1, "op": "max", "reverse": True, "exclusive": True},
    "one dimension": {"shape": (70_001,), "axis": 0},
    "one dimension from the end": {"shape": (70_001,), "axis": 0, "reverse": True, "op": "prod"},
    "a little": {"shape": (5,), "axis": 0, "exclusive": True},
    "one element": {"shape": (1, 1), "axis": 1},
    "columns": {"shape": (300, 500), "axis": 0},
    "columns in chunks": {"shape": (3000, 40), "axis": 0, "exclusive": True, "dtypes": SAME["bfloat16"]},
    "columns from the end": {"shape": (2999, 40), "axis": 0, "reverse": True, "op": "min"},
    "rows by columns": {"shape": (100, 70), "axis": 1, "layouts": ("col", "col")},
    "rows that turn": {"shape": (64, 300), "axis": 1, "layouts": ("row", "col"), "dtypes": SAME["float16"]},
    "rows with gaps": {"shape": (64, 100), "axis": 1, "layouts": ("S[(64,100):(128,1)]", "row")},
    "half to float": {"shape": (2, 30_000), "axis": 1, "dtypes": ("float16", "float32")},
    "bytes": {"shape": (50, 300), "axis": 1, "dtypes": ("int8", "int32")},
    "bytes in chunks": {"shape": (50_000,), "axis": 0, "dtypes": ("uint8", "int64"), "exclusive": True},
    "int64": {"shape": (40_000,), "axis": 0, "dtypes": SAME["int64"], "op": "max", "exclusive": True},
    "float64": {"shape": (5, 9000), "axis": 1, "dtypes": SAME["float64"], "passes": 3},
    "an old arch": {"shape": (40_000,), "axis": 0, "arch": "sm_80"},
    "pinned threads": {"shape": (40_000,), "axis": 0, "threads": 128},
    "any length": {"shape": ("N",), "axis": 0, "params": {"N": {"default": 50_000, "max": 1 << 30}}},
    "any number of rows": {"shape": ("M", 512), "axis": 1, "params": {"M": {"default": 3000, "max": 65536}}},
    "rows of any length": {"shape": (3, "N"), "axis": 1, "params": {"N": {"default": 40_000, "max": 100_000}}},
    "columns of any length": {"shape": ("M", 70), "axis": 0, "params": {"M": {"default": 4000, "max": 9000}}},
}  # fmt: skip


@pytest.mark.sweep(5)
@pytest.mark.parametrize("what", PROBLEMS)
def test_kernels_are_proved_alone_and_run_together(what: str) -> None:
    built = build(spec_of(**PROBLEMS[what]))
    check_proved(built)
    if isinstance(built, BuiltProgram):
        assert [one.name for one in built.spec.passes] == ["chunks", "carry", "write"]
        assert run_together(built, 1)


def draw_problem(seed: int) -> dict[str, Any]:
    """A problem of at most 20000 elements."""
    random = Random(f"scan {seed}")
    m, n = (random.choice([1, 2, 3, 8, 17, 31, 64, 100, 129, 200]) for _ in range(2))
    m, n = random.choice([(m, n), (m * 100, max(1, n // 100)), (max(1, m // 100), n * 100)])
    dtype = random.choice(["float32", "float64", "float16", "int16", "int32", "int64"])
    wide = {"float16": "float32", "int16": "int32"}.get(dtype, dtype)
    pins: dict[str, Any] = {"threads": random.choice([32, 128, 512])} if random.random() < 0.3 else {}
    axis = random.choice([0, 1])
    if random.random() < 0.5:
        pins = {"passes": 3, "threads": 32} if (m, n)[axis] > 1024 else {"passes": 1}
    return {
        "shape": (m, n), "axis": axis, "op": random.choice([*JOINED]), "dtypes": (dtype, wide),
        "layouts": (random.choice(["row", "col"]), random.choice(["row", "col"])),
        "exclusive": random.random() < 0.5, "reverse": random.random() < 0.5, **pins,
    }  # fmt: skip


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", range(60))
def test_a_drawn_problem_is_proved(seed: int) -> None:
    check_proved(build(spec_of(**draw_problem(seed))))


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("axis", "op", "exclusive", "reverse"), [*product((0, 1), JOINED, (False, True), (False, True))]
)
def test_passes_come_to_what_numpy_comes_to(axis: int, op: str, exclusive: bool, reverse: bool) -> None:
    shape = (1000, 5) if axis == 0 else (2, 2500)
    built = build(spec_of(shape, axis, op, passes=3, threads=32, exclusive=exclusive, reverse=reverse))
    assert isinstance(built, BuiltProgram)
    lines = run_together(built, 1, against=lambda X: scan(X, axis, op, exclusive, reverse))
    assert len(lines) == 2


@pytest.mark.parametrize("case", [
    {"shape": (300, 150), "axis": 1}, {"shape": (300, 150), "axis": 1, "reverse": True, "exclusive": True},
    {"shape": (3, 2000), "axis": 1, "op": "max", "exclusive": True}, {"shape": (400, 70), "axis": 0, "op": "min"},
    {"shape": (2, 2500), "axis": 1, "reverse": True}, {"shape": (1500,), "axis": 0, "op": "prod", "exclusive": True},
])  # fmt: skip
def test_a_kernel_comes_to_what_numpy_comes_to(case: dict[str, Any]) -> None:
    built = build(spec_of(**case, dtypes=SAME["int32"], passes=1))
    assert isinstance(built, Built)
    shape, values = case["shape"], draw_floats("X", "int32", 3)
    grid = [(x, 0, 0) for x in range(int(built.plan.grid[0]))]  # type: ignore[call-overload]
    at, found = interpret(built.plan, grid, {"X": values}).written["Y"]
    given = values(np.arange(int(np.prod(shape)))).reshape(shape)
    with np.errstate(over="ignore"):
        want = scan(given, **{"op": "sum", **{k: v for k, v in case.items() if k != "shape"}})
    assert found[np.argsort(at)].tolist() == want.reshape(-1).tolist()


# ---------------------------------------------------------------- what is chosen
def count_passes(**problem: Any) -> int:
    loaded = load(spec_of(**problem))
    return len(loaded.passes) if isinstance(loaded, Program) else 1


def test_few_long_lines_take_three_passes() -> None:
    assert count_passes(shape=(1 << 24,), axis=0) == 3
    assert count_passes(shape=(16, 1 << 20), axis=1) == 3
    assert count_passes(shape=(1 << 20, 16), axis=0) == 3
    assert count_passes(shape=(8192, 4096), axis=1) == 1
    assert count_passes(shape=(4096, 8192), axis=0) == 1
    assert count_passes(shape=(1 << 24,), axis=0, passes=1) == 1


def test_names_of_the_user_stay_and_those_of_the_template_give_way() -> None:
    given = spec_of((1 << 16,), 0)
    given["buffers"] = {"x": given["buffers"]["X"], "c": given["buffers"]["Y"], "totals": array("float32", 4)}
    given["ops"][0]["scan_array"] |= {"src": "x", "dst": "c"}
    text = print_spec(load(given))
    assert "x[bx*8192 : +8192]" in text and "totals2[bx" in text and "x2:" in text and "c2:" in text, text


# ---------------------------------------------------------------- faults
NUMBERS = spec_of((60_000,), 0)
MOST = spec_of((60_000,), 0, "max", reverse=True)
COLUMNS = spec_of((3000, 64), 0, exclusive=True)
FAULTS = {
    "chunks of another place": (NUMBERS, 0, "X[bx*8192", "X[(7 - bx)*8192"),
    "a chunk that lies elsewhere": (NUMBERS, 0, "totals[bx :", "totals[7 - bx :"),
    "a largest that takes 0 past the end": (MOST, 0, ", pad: -.inf", ""),
    "inclusive for exclusive between": (NUMBERS, 1, "exclusive: true, ", ""),
    "no carry between": (spec_of((6_000_000,), 0, threads=32), 1, ", carry: c", ""),
    "a largest that begins at 0": (MOST, 1, "value: -.inf", "value: 0"),
    "from the beginning for from the end": (MOST, 1, ", reverse: true", ""),
    "what lies before another chunk": (NUMBERS, 2, "before[chunk :", "before[7 - chunk :"),
    "what lies before the chunk before": (NUMBERS, 2, "before[chunk :", "before[max(chunk - 1, 0) :"),
    "no carry at the end": (NUMBERS, 2, ", carry: c", ""),
    "exclusive for inclusive": (NUMBERS, 2, "op: sum, ", "op: sum, exclusive: true, "),
    "inclusive for exclusive": (COLUMNS, 2, "exclusive: true, ", ""),
    "what lies before other columns": (COLUMNS, 2, "before[chunk : +1, by*32", "before[chunk : +1, (1 - by)*32"),
    "a largest from the end that takes 0 past it": (MOST, 2, ", pad: -.inf", ""),
    "results of another place": (NUMBERS, 2, "Y[chunk*8192", "Y[(7 - chunk)*8192"),
}  # fmt: skip


def expand(given: dict[str, Any]) -> Program:
    expanded = tilegen.expand(given)
    assert isinstance(expanded, Program)
    return expanded


@pytest.mark.sweep(6)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    """Its tile ops say what they do, and carry that out: what the pass is for says otherwise."""
    given, number, right, wrong = FAULTS[fault]
    expanded = expand(given)
    text = print_spec(expanded)
    head, mark, rest = text.partition(f"  - name: {expanded.passes[number].name}")
    assert right in rest, text
    other = load(head + mark + rest.replace(right, wrong, 1))
    assert isinstance(other, Program)
    spoilt = replace(other.passes[number].spec, whole=expanded.passes[number].spec.whole)
    assert proof_code(lambda: prove(spoilt, plan_spec(spoilt))) == "TG420"


def test_the_passes_that_are_spoilt_here_are_right() -> None:
    for given in (NUMBERS, MOST, COLUMNS):
        expanded = expand(given)
        again = load(print_spec(expanded))
        assert isinstance(again, Program)
        for meant, one in zip(expanded.passes, again.passes, strict=True):
            spec = replace(one.spec, whole=meant.spec.whole)
            prove(spec, plan_spec(spec))


ROWS = spec_of((2000, 4096), 1), "X[bx : +1, k*1024", "X[bx : +1, (3 - k)*1024"


def test_a_kernel_of_whole_lines_that_takes_chunks_in_another_order_is_found() -> None:
    given, right, wrong = ROWS
    expanded = tilegen.expand(given)
    assert isinstance(expanded, Spec)
    text = print_spec(expanded)
    assert right in text, text
    spoilt = load(text.replace(right, wrong))
    assert isinstance(spoilt, Spec)
    spoilt = replace(spoilt, whole=expanded.whole)
    assert proof_code(lambda: prove(spoilt, plan_spec(spoilt))) == "TG420"
