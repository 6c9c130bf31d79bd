"""reduce_array: kernels of all sizes, types and storage orders are right, alone and together, and faults are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.mutants.judging import proof_code
from tilegen.errors import SpecError
from tilegen.ops.reduce_array.parts_meant import cut_elements
from tilegen.pipeline import Built, BuiltProgram, build, load, load_kernel
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec.data import Spec
from tilegen.spec.printing import print_spec
from tilegen.spec.program import Program
from tilegen.verifying.programs import run_together

Array = np.ndarray[Any, Any]
OPS: dict[str, Callable[..., Array]] = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


def array(dtype: str, *shape: Any, **more: str) -> dict[str, Any]:
    return {"scope": "global", "dtype": dtype, "shape": list(shape), **more}


def spec_of(
    shape: tuple[Any, ...], axis: Any, op: str = "sum", dtypes: tuple[str, str] = ("float32", "float32"), **more: Any
) -> dict[str, Any]:
    """A spec of one array, in which what is reduced disappears but where ``result`` says the shape."""
    axes = range(len(shape)) if axis == "all" else axis if isinstance(axis, list) else [axis]
    left = [n for d, n in enumerate(shape) if d not in axes] or [1]
    layout, params = more.pop("layout", None), more.pop("params", {})
    source = array(dtypes[0], *shape, **({"layout": layout} if layout else {}))
    call = {"dst": "Y", "axis": axis, "op": op}
    buffers = {"X": source, **more.pop("beside", {}), "Y": array(dtypes[1], *more.pop("result", left))}
    call |= {} if "expr" in more else {"src": "X"}
    return {
        "kernel": "reduced", "arch": more.pop("arch", "sm_90"), "params": params, "buffers": buffers,
        "ops": [{"reduce_array": call | more}],
    }  # fmt: skip


def passes_of(built: Built | BuiltProgram) -> tuple[Built, ...]:
    return built.passes if isinstance(built, BuiltProgram) else (built,)


def check_proved(built: Built | BuiltProgram) -> None:
    """Every kernel was compared with what it means on whole arrays, and nothing is left open."""
    assert built.warnings == ()
    for one in passes_of(built):
        assert one.spec.whole is not None and one.proof.runs
        assert not any(note.startswith("not proven") for note in one.proof.notes)


# ---------------------------------------------------------------- problems of all kinds
SAME = {name: (name, name) for name in ("float64", "float16", "bfloat16", "int32", "int64")}
PROBLEMS: dict[str, dict[str, Any]] = {
    "short rows": {"shape": (100, 30), "axis": 1, "result": (100, 1)},
    "long rows": {"shape": (5, 9000), "axis": 1, "op": "max", "parts": 1},
    "rows by columns": {"shape": (100, 70), "axis": 1, "layout": "col", "dtypes": ("bfloat16", "float32")},
    "rows with gaps": {"shape": (64, 100), "axis": 1, "layout": "S[(64,100):(128,1)]", "op": "min"},
    "one element": {"shape": (1, 1), "axis": 1},
    "rows of one": {"shape": (70, 1), "axis": 1, "dtypes": SAME["int32"], "op": "max"},
    "columns": {"shape": (50, 30), "axis": 0, "op": "prod", "result": (1, 30)},
    "columns by columns": {"shape": (50, 300), "axis": 0, "layout": "col", "dtypes": SAME["float64"]},
    "columns in parts": {"shape": (3000, 40), "axis": 0, "dtypes": SAME["bfloat16"]},
    "parts, one of them short": {"shape": (1000, 30), "axis": 0, "parts": 3, "threads": 64, "op": "max"},
    "rows in parts": {"shape": (3, 50_000), "axis": 1, "op": "min"},
    "all": {"shape": (300, 300), "axis": "all"},
    "all by columns": {"shape": (300, 257), "axis": [0, 1], "layout": "col", "dtypes": SAME["float16"], "op": "max"},
    "all of one dimension": {"shape": (50_000,), "axis": 0, "result": (1,)},
    "all of little": {"shape": (7, 5), "axis": "all", "result": (1, 1), "op": "prod"},
    "bytes": {"shape": (500, 300), "axis": 1, "dtypes": ("int8", "int32")},
    "the largest byte": {"shape": (500, 33), "axis": 0, "dtypes": ("int8", "int8"), "op": "max"},
    "unsigned": {"shape": (50, 3000), "axis": 1, "dtypes": ("uint32", "uint32"), "op": "min"},
    "int32 in int64": {"shape": (50, 300), "axis": 1, "dtypes": ("int32", "int64")},
    "the least int64": {"shape": (50, 3000), "axis": 1, "dtypes": SAME["int64"], "op": "max"},
    "float8": {"shape": (70, 5000), "axis": 1, "dtypes": ("float8_e4m3fn", "float32"), "op": "max"},
    "float32 in float64": {"shape": (1000, 33), "axis": 0, "dtypes": ("float32", "float64")},
    "squares": {"shape": (70, 5000), "axis": 1, "expr": "x * x", "with": {"x": "X"}},
    "values on the way": {"shape": (70, 50), "axis": 1, "expr": "i = exp(x); gathered = i + 1; gathered * i",
                          "with": {"x": "X"}},
    "a dot product": {"shape": (300, 400), "axis": "all", "expr": "x * y", "with": {"x": "X", "y": "Z"},
                      "beside": {"Z": array("float16", 300, 400)}},
    "a count": {"shape": (300, 5000), "axis": 1, "expr": "where(x > 0, 1, 0)", "with": {"x": "X"},
                "dtypes": ("float32", "int64")},
    "a param": {"shape": (70, 50), "axis": 0, "expr": "where(X > cut, 1.0, 0.0)", "with": {"X": "X"},
                "params": {"cut": {"dtype": "float32", "default": 0.5}}},
    "an old arch": {"shape": (2000, 64), "axis": 0, "parts": 4, "arch": "sm_80"},
    "any number of rows": {"shape": ("M", 100), "axis": 1, "params": {"M": {"default": 300, "max": 4096}}},
    "rows of any length": {"shape": (20, "N"), "axis": 1, "params": {"N": {"default": 900, "max": 9000}}},
    "columns of any length": {"shape": ("M", 70), "axis": 0, "op": "max", "parts": 5,
                              "params": {"M": {"default": 2000, "max": 9000}}},
    "any matrix": {"shape": ("M", "N"), "axis": "all", "parts": 7,
                   "params": {"M": {"default": 100, "max": 512}, "N": {"default": 333, "max": 512}}},
}  # fmt: skip


@pytest.mark.sweep(5)
@pytest.mark.parametrize("what", PROBLEMS)
def test_kernels_are_proved_alone_and_run_together(what: str) -> None:
    built = build(spec_of(**PROBLEMS[what]))
    check_proved(built)
    if isinstance(built, BuiltProgram):
        assert [one.name for one in built.spec.passes] == ["parts", "total"]
        assert run_together(built, 1)


def draw_problem(seed: int) -> dict[str, Any]:
    """A problem of at most 20000 elements."""
    random = Random(f"reduce {seed}")
    m, n = (random.choice([1, 2, 3, 8, 17, 31, 64, 100, 129, 200]) for _ in range(2))
    m, n = random.choice([(m, n), (m * 100, max(1, n // 100)), (max(1, m // 100), n * 100)])
    dtype = random.choice(["float32", "float64", "float16", "bfloat16", "int8", "int16", "uint8", "int32", "int64"])
    wide = {"float16": "float32", "bfloat16": "float32", "int8": "int32", "uint8": "int64"}.get(dtype, dtype)
    pins = {"threads": random.choice([32, 96, 128, 512])} if random.random() < 0.3 else {}
    return {
        "shape": (m, n), "axis": random.choice([0, 1, "all"]), "op": random.choice([*OPS]),
        "dtypes": (dtype, random.choice([dtype, wide])), "layout": random.choice(["row", "col"]), **pins,
    }  # fmt: skip


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", range(60))
def test_a_drawn_problem_is_proved(seed: int) -> None:
    check_proved(build(spec_of(**draw_problem(seed))))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, "all"])
def test_passes_come_to_what_numpy_comes_to(op: str, axis: Any) -> None:
    shape = {0: (1000, 40), 1: (3, 20_000), "all": (130, 200)}[axis]
    built = build(spec_of(shape, axis, op, ("bfloat16", "float32"), parts=4))
    assert isinstance(built, BuiltProgram)

    def against(X: Array) -> Array:
        found = OPS[op](X, axis=None if axis == "all" else axis)
        return np.atleast_1d(found)

    assert len(run_together(built, 1, against=against)) == 2


def test_parts_are_all_elements_once() -> None:
    """They are the composed meaning's only step that neither pass shows."""
    for count, step, parts in ((1, 64, 1), (1000, 300, 4), (1000, 300, 7), (4096, 1024, 4)):
        cut = [cut_elements(count, step, part) for part in range(parts)]
        assert [i for one in cut for i in one] == list(range(count))


# ---------------------------------------------------------------- what is chosen
def count_parts(**problem: Any) -> int:
    loaded = load(spec_of(**problem))
    first = loaded.passes[0].spec if isinstance(loaded, Program) else loaded
    picked = next(c.picked for c in first.choices if c.question == "reduce_array")
    assert isinstance(picked, dict)
    return int(picked["parts"])


def test_few_results_of_many_elements_are_shared_and_others_are_not() -> None:
    assert count_parts(shape=(1 << 24,), axis="all") > 132
    assert count_parts(shape=(65536, 512), axis=0) > 8
    assert count_parts(shape=(64, 1 << 20), axis=1) > 1
    assert count_parts(shape=(8192, 4096), axis=1) == 1
    assert count_parts(shape=(64, 1 << 20), axis=0) == 1
    assert count_parts(shape=(100, 100), axis="all") == 1


def test_one_part_is_one_kernel_also_in_a_pass() -> None:
    given = spec_of((1 << 16,), "all")
    assert isinstance(load(given), Program)
    with pytest.raises(SpecError, match="write 'parts: 1'"):
        load_kernel(given, what="a page")
    one = load(spec_of((1 << 16,), "all", parts=1))
    assert isinstance(one, Spec)
    given |= {"passes": [{"name": "only", "ops": given.pop("ops")}]}
    loaded = load(given)
    assert isinstance(loaded, Program) and loaded.passes[0].spec.ops == one.ops


def test_names_of_the_user_stay_and_those_of_the_template_give_way() -> None:
    given = spec_of((100, 3000), 1, expr="found * 2", **{"with": {"found": "X"}})
    given["buffers"] |= {name: array("float32", 4) for name in ("gathered", "found", "X_t")}
    text = print_spec(load(given))
    assert "gathered2 + (found" in text and text.count("gathered:") == 1, text


# ---------------------------------------------------------------- faults
COLUMNS = spec_of((2000, 96), 0, parts=4)
NUMBERS = spec_of((40_000,), "all", "max", parts=5)
FAULTS = {
    "a trip of each part left out": (COLUMNS, 0, "for: {i: 8}", "for: {i: 7}"),
    "parts that begin too early": (COLUMNS, 0, "(first + i)*64", "(first + i - min(by, 1))*64"),
    "one part that begins too early": (COLUMNS, 0, "(first + i)*64", "(first + i - max(min(by, 4 - by) - 1, 0))*64"),
    "parts in another order": (COLUMNS, 0, "(first + i)*64", "((3 - by)*8 + i)*64"),
    "parts that are every so many trips": (COLUMNS, 0, "(first + i)*64", "(by + i*4)*64"),
    "a part of other columns": (COLUMNS, 0, "+64, bx*32", "+64, (2 - bx)*32"),
    "a part that lies elsewhere": (COLUMNS, 0, "parts[by :", "parts[3 - by :"),
    "a part left out": (COLUMNS, 1, "parts[0 : +4,", "parts[0 : +3,"),
    "one part twice": (COLUMNS, 1, "parts[0 : +4,", "parts[min(0, bx - 2) + 2 : +2,"),
    "results of another place": (COLUMNS, 1, "Y[bx*32", "Y[(2 - bx)*32"),
    "another function in the second pass": (COLUMNS, 1, "op: sum", "op: max"),
    "a largest that takes 0 past the end": (NUMBERS, 0, "              pad: -.inf\n", ""),
    "a largest part that takes 0 past the end": (NUMBERS, 1, ", pad: -.inf", ""),
    "a largest that begins at 0": (NUMBERS, 0, "value: -.inf", "value: 0"),
    "numbers that no part has": (NUMBERS, 0, "(first + i)*2048", "(first + max(i, 1))*2048"),
    "the last part left out": (NUMBERS, 1, "parts[0 : +8,", "parts[0 : +4,"),
}  # fmt: skip


@pytest.mark.sweep(6)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    """Its tile ops say what they do, and carry that out: what the pass is for says otherwise."""
    given, number, right, wrong = FAULTS[fault]
    expanded = tilegen.expand(given)
    assert isinstance(expanded, Program)
    text = print_spec(expanded)
    assert right in text, text
    other = load(text.replace(right, wrong))
    assert isinstance(other, Program)
    spoilt = replace(other.passes[number].spec, whole=expanded.passes[number].spec.whole)
    assert proof_code(lambda: prove(spoilt, plan_spec(spoilt))) == "TG420"


def test_the_passes_that_are_spoilt_here_are_right() -> None:
    for given in (COLUMNS, NUMBERS):
        expanded = tilegen.expand(given)
        assert isinstance(expanded, Program)
        again = load(print_spec(expanded))
        assert isinstance(again, Program)
        for meant, one in zip(expanded.passes, again.passes, strict=True):
            spec = replace(one.spec, whole=meant.spec.whole)
            prove(spec, plan_spec(spec))
