"""Ranges of integers that ops compute: sound for every content, and as narrow as clamps and remainders make them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from tilegen.arithmetic import FUNCTIONS, Apply, Element, Literal, Node, Whole
from tilegen.arithmetic.functions import type_of
from tilegen.arithmetic.intervals import ValueRange, is_within, range_of_type
from tilegen.arithmetic.measuring import Known, measure_tree
from tilegen.arithmetic.typed import evaluate_typed
from tilegen.arithmetic.values import draw_values
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.errors import ProofError
from tilegen.index import Var, evaluate, minimum, mul
from tilegen.pipeline import build, load
from tilegen.proofs.value_ranges import find_value_ranges, measure_calls
from tilegen.reference import run_reference
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of
from tilegen.spec.program import Program
from tilegen.verifying.images import list_ctas

COMPUTED = ("int32", "int64", "uint32", "uint64")
_MOST = 48  # elements that a tree is evaluated on


# ---------------------------------------------------------------- the law of trees
@dataclass
class Drawn:
    """Draws trees over three operands of a type, two integers of the place and numbers."""

    random: Random
    type: str

    def number(self, depth: int) -> Node:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf()
        name = self.random.choice([n for n, row in FUNCTIONS.items() if self.type in row.takes and self.gives(n)])
        if name == "where":
            return Apply(name, (self.truth(depth - 1), *(self.number(depth - 1) for _ in range(2))), self.type)
        sources = FUNCTIONS[name].sources
        return Apply(name, tuple(self.number(depth - 1) for _ in range(sources)), self.type)

    def gives(self, name: str) -> bool:
        return type_of(name, (self.type,)) == self.type and FUNCTIONS[name].sources > 0 and name != self.type

    def truth(self, depth: int) -> Node:
        if depth > 0 and self.random.random() < 0.4:
            name = self.random.choice(["and", "or", "not"])
            return Apply(name, tuple(self.truth(depth - 1) for _ in range(FUNCTIONS[name].sources)), "bool")
        name = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        return Apply(name, (self.number(max(0, depth - 1)), self.number(max(0, depth - 1))), "bool")

    def leaf(self) -> Node:
        kind = self.random.randrange(6)
        if kind < 3:
            return Element(kind, self.type)
        if kind == 3:
            return Whole(self.random.randrange(2), self.type)
        low, top = range_of_type(self.type).numbers
        near = self.random.choice([0, 1, -1, 2, 5, 31, 32, 33, 64, 100, low, top, self.random.randint(low, top)])
        return Literal(min(max(near, low), top), self.type)

    def range(self) -> ValueRange:
        low, top = range_of_type(self.type).numbers
        kind = self.random.randrange(4)
        if kind == 0:
            return ValueRange(low, top + 1)
        at = self.random.choice([0, -3, 1, low, top - 9, self.random.randint(low, top)])
        at = min(max(at, low), top)
        return ValueRange(at, min(at + self.random.choice([1, 2, 9, 100, 1 << 20]), top + 1))


def draw_elements(random: Random, own: ValueRange, dtype: str) -> np.ndarray[Any, Any]:
    """Values of a range, both ends and 0 among them."""
    low, top = own.numbers
    near = [low, top, min(low + 1, top), max(top - 1, low), *([0] if low <= 0 <= top else [])]
    drawn = near + [random.randint(low, top) for _ in range(_MOST - len(near))]
    random.shuffle(drawn)
    return np.array(drawn, numpy_dtype(dtype))


@pytest.mark.parametrize("type_", COMPUTED)
@pytest.mark.parametrize("seed", range(40))
def test_no_tree_leaves_its_range(type_: str, seed: int) -> None:
    random = Random(f"{type_} {seed}")
    for _ in range(25):
        drawn = Drawn(random, type_)
        tree, ranges = drawn.number(4), [drawn.range() for _ in range(3)]
        elements = [draw_elements(random, own, type_) for own in ranges]
        names = [Var("i", 48), Var("N", 100, 1, 1)]
        at = np.arange(_MOST), np.int64(random.randint(1, 99))
        params = {"i": at[0], "N": at[1]}
        known = Known(ranges, names, frozenset({"N"}))
        found = measure_tree(tree, known)
        assert found is not None
        values = evaluate_typed(tree, elements, [params[v.name] for v in names], {}, type_)
        low, high = (int(evaluate(end, {"N": int(at[1])})) for end in (found.low, found.high))
        got = [int(x) for x in np.broadcast_to(values, (_MOST,))]
        assert low <= min(got) <= max(got) < high, f"{tree}: {min(got)} to {max(got)}, said {found}"


def test_law_tells_a_wrong_interval() -> None:
    """The law is no law if a range that forgets the sign passes."""
    tree = Apply("-", (Element(0, "int32"), Element(1, "int32")), "int32")
    found = measure_tree(tree, Known([ValueRange(0, 4), ValueRange(0, 9)]))
    assert found is not None and found.numbers == (-8, 3)


# ---------------------------------------------------------------- what is narrow
X = Element(0, "int32")


def whole_of(expr: str, **more: Any) -> ValueRange:
    """The range of Y after ``Y = expr`` with x in 0 : 100, y in -5 : 50 and a param N of up to 1000."""
    buffers = {name: {"scope": "global", "dtype": "int32", "shape": [64]} for name in ("x", "y", "Y")}
    buffers["x"] |= {"values": "0 : 100"}
    buffers["y"] |= {"values": "-5 : N"}
    spec = {"kernel": "k", "threads": 32, "params": {"N": {"default": 50, "max": 1000}}, "buffers": buffers}
    spec["ops"] = [{"elementwise": {"dst": "Y", "expr": expr, **more}}]
    return find_value_ranges(load(spec))["Y"]


@pytest.mark.parametrize(
    "expr, said",
    [
        ("max(x - y, 0)", "0 : 105"),
        ("min(max(y, 0), 63)", "0 : min(N - 1, 63) + 1"),
        ("where(x < 64, x, 64)", "0 : 65"),
        ("where(y >= 0 and y < 64, y, -1)", "-1 : min(N - 1, 63) + 1"),
        ("where(not (y < 0), y, 0)", "0 : N"),
        ("where(y == -5, 0, y)", "-4 : N"),
        ("where(x < N, x, N - 1)", "0 : N"),
        ("where(index(0) < 10, index(0), 10)", "0 : 11"),
        ("(x + 127) // 128", "0 : 2"),
        ("y % 16 + x // 10 * 2", "0 : 34"),
        ("min(y, N - 1) + 5", "0 : N + 5"),
        ("-x", "-99 : 1"),
        ("abs(y - 10)", "0 : 990"),
    ],
)
def test_ranges_of_expressions(expr: str, said: str) -> None:
    assert str(whole_of(expr)) == said


def test_a_maximum_less_one_of_its_sides_has_none() -> None:
    """``max(a, b) - b`` is never negative, and intervals do not see it: ``max(a - b, 0)`` says it (V3)."""
    assert whole_of("max(x, y) - y").numbers[0] < 0
    assert whole_of("max(x - y, 0)").numbers[0] == 0


def test_reads_past_an_edge_are_in_the_range() -> None:
    buffers = {
        "X": {"scope": "global", "dtype": "int32", "shape": ["N"], "values": "3 : 9"},
        "Y": {"scope": "global", "dtype": "int32", "shape": ["N"]},
    }
    spec = {"kernel": "k", "threads": 32, "grid": {"bx": "ceil(N / 64)"}, "buffers": buffers}
    spec["params"] = {"N": {"default": 100, "max": 1000}}
    op = {"dst": "Y[bx*64 : +64]", "expr": "x", "with": {"x": "X[bx*64 : +64]"}, "edge": "clip"}
    spec["ops"] = [{"elementwise": op}]
    assert str(find_value_ranges(load(spec))["Y"]) == "0 : 9"
    spec["ops"] = [{"elementwise": op | {"pad": 20}}]
    assert str(find_value_ranges(load(spec))["Y"]) == "3 : 21"


def program_of(ops: list[Any], **registers: str) -> dict[str, Any]:
    """A kernel over x in 0 : 9 with registers of int32, by name their ``values``."""
    buffers: dict[str, Any] = {
        "x": {"scope": "global", "dtype": "int32", "shape": [64], "values": "0 : 9"},
        "Y": {"scope": "global", "dtype": "int32", "shape": [64]},
    }
    for name, values in registers.items():
        said = {"values": values} if values else {}
        shape = [1] if name == "s" else [64]
        buffers[name] = {"scope": "register", "dtype": "int32", "shape": shape, "layout": "auto"} | said
    return {"kernel": "k", "threads": 32, "buffers": buffers, "ops": ops}


def test_ops_in_order() -> None:
    """What a register held before it was written whole does not count, under a condition it does."""
    ops: list[Any] = [
        {"elementwise": {"dst": "r", "expr": "x - 100"}},
        {"elementwise": {"dst": "r", "expr": "max(r, 0)"}},
        {"elementwise": {"dst": "Y", "expr": "r"}},
    ]
    spec = load(program_of(ops, r=""))
    assert isinstance(spec, Spec)
    assert str(find_value_ranges(spec)["r"]) == "-100 : 1"  # all that it ever held
    assert [str(one.written["dst"]) for one in measure_calls(spec)] == ["-100 : -91", "0 : 1", "0 : 1"]
    ops[1] = {"when": "laneid < 16", "do": [{"elementwise": {"scope": "thread", **ops[1]["elementwise"]}}]}
    threads = program_of(ops, r="")
    threads["buffers"]["r"] |= {"shape": [2]}
    for at in (0, 2):
        ops[at]["elementwise"] |= {"scope": "thread", "dst": ["r", "", "Y[laneid*2 : +2]"][at]}
    ops[0]["elementwise"] |= {"expr": "a - 100", "with": {"a": "x[laneid*2 : +2]"}}
    del threads["buffers"]["r"]["layout"]
    found = measure_calls(load(threads))  # type: ignore[arg-type]
    assert [str(one.written["dst"]) for one in found] == ["-100 : -91", "0 : 1", "-100 : 1"]


@pytest.mark.parametrize("trips, said", [(10, "0 : 81"), (100, "-2147483648 : 2147483648")])
def test_loops_widen(trips: int, said: str) -> None:
    ops = [
        {"fill": {"dst": "r", "value": 0}},
        {"for": {"i": trips}, "do": [{"elementwise": {"dst": "r", "expr": "r + x"}}]},
        {"copy": {"src": "r", "dst": "Y"}},
    ]
    assert str(find_value_ranges(load(program_of(ops, r="")))["Y"]) == said


def test_values_of_a_register_are_what_a_loop_keeps() -> None:
    ops = [
        {"fill": {"dst": "r", "value": 0}},
        {"for": {"i": 100}, "do": [{"elementwise": {"dst": "r", "expr": "(r + x) % 64"}}]},
        {"copy": {"src": "r", "dst": "Y"}},
    ]
    assert str(find_value_ranges(load(program_of(ops, r="0 : 64")))["Y"]) == "0 : 64"
    assert build(program_of(ops, r="0 : 64")).source


def test_reduce() -> None:
    ops = [
        {"reduce": {"src": "x", "dst": "s", "axis": 0, "op": "sum"}},
        {"elementwise": {"dst": "Y", "expr": "s"}},
    ]
    assert str(find_value_ranges(load(program_of(ops, s="")))["Y"]) == "0 : 513"
    ops[0] = {"reduce": {"src": "x", "dst": "r", "index": "s", "axis": 0, "op": "argmax"}}
    spec = program_of(ops, r="", s="")
    spec["buffers"]["r"]["shape"] = [1]
    assert str(find_value_ranges(load(spec))["Y"]) == "0 : 64"


def test_pieces_never_fall() -> None:
    buffers = {
        "o": {"scope": "global", "dtype": "int32", "shape": [65], "offsets": "T"},
        "Y": {"scope": "global", "dtype": "int32", "shape": [64]},
    }
    spec = {"kernel": "k", "threads": 32, "params": {"T": {"default": 50, "max": 1000}}, "buffers": buffers}
    of = {"hi": "o[1 : +64]", "lo": "o[0 : +64]"}
    spec["ops"] = [{"elementwise": {"dst": "Y", "expr": "(hi - lo + 127) // 128", "with": of}}]
    assert str(find_value_ranges(load(spec))["Y"]) == "0 : ((T + 127) >> 7) + 1"
    spec["ops"] = [{"elementwise": {"dst": "Y", "expr": "lo - hi", "with": of}}]
    assert find_value_ranges(load(spec))["Y"].numbers[0] < 0


def two_passes(expr: str, values: str) -> dict[str, Any]:
    """A pass that writes a workspace, and one that reads it."""
    said = {"values": values} if values else {}
    return {
        "kernel": "k", "arch": "sm_90", "buffers": {
            "x": {"scope": "global", "dtype": "int32", "shape": [64]},
            "w": {"scope": "workspace", "dtype": "int32", "shape": [64]} | said,
            "Y": {"scope": "global", "dtype": "int32", "shape": [64]},
        },
        "passes": [
            {"name": "one", "threads": 32, "ops": [{"elementwise": {"dst": "w", "expr": expr}}]},
            {"name": "two", "threads": 32, "ops": [{"elementwise": {"dst": "Y", "expr": "w + 1"}}]},
        ],
    }  # fmt: skip


def test_workspaces_of_a_program() -> None:
    program = load(two_passes("min(max(x, 0), 9)", ""))
    assert isinstance(program, Program)
    found = find_value_ranges(program)
    assert (str(found["w"]), str(found["Y"])) == ("0 : 10", "1 : 11")
    alone = find_value_ranges(program.passes[1].spec)
    assert alone["w"] == range_of_type("int32")
    given = find_value_ranges(program.passes[1].spec, {"w": ValueRange(0, 10)})
    assert str(given["Y"]) == "1 : 11"


def test_values_of_a_workspace_are_shown() -> None:
    assert build(two_passes("min(max(x, 0), 9)", "0 : 10"))
    found = find_value_ranges(load(two_passes("min(max(x, 0), 5)", "0 : 10")).passes[1].spec)  # type: ignore[union-attr]
    assert str(found["Y"]) == "1 : 11"
    with pytest.raises(ProofError) as error:
        build(two_passes("max(x, 0)", "0 : 10"))
    (shown,) = error.value.diagnostics
    assert shown.code == "TG442"
    assert "'w' holds values 0 : 10, and this elementwise writes 0 : 2147483648" in shown.message
    assert "'max(0, min(.., 9))'" in shown.hint and "'values' of 'x'" in shown.hint


# ---------------------------------------------------------------- the law of specs
def run_with_drawn(spec: Spec, seed: int) -> dict[str, tuple[Any, Any]]:
    case = {p.name: int(p.default) for p in spec.params}
    inputs = {}
    for b in spec.buffers:
        if b.traits.is_array and b.values is not None:
            inputs[b.name] = draw_values(b.values.at(case), b.dtype, b.name, seed)
    return run_reference(spec, list_ctas(launch_of(spec, case).grid), inputs, case)


def draw_spec(random: Random) -> dict[str, Any]:
    """Ops in a row over registers of integer types, in loops and under conditions, each with an output."""
    types = [d.name for d in DTYPES.values() if d.kind in ("int", "uint") and d.bits < 64]
    chosen = [random.choice(types) for _ in range(3)]
    buffers: dict[str, Any] = {}
    for k, dtype in enumerate(chosen):
        low, top = range_of_type(dtype).numbers
        at = random.choice([max(low, -3), 0, 1, low, top - 8])
        values = f"{at} : {min(at + random.choice([2, 9, 100]), top + 1)}"
        buffers[f"X{k}"] = {"scope": "global", "dtype": dtype, "shape": [64], "values": values}
        buffers[f"r{k}"] = {"scope": "register", "dtype": dtype, "shape": [64], "layout": "auto"}
        buffers[f"Y{k}"] = {"scope": "global", "dtype": dtype, "shape": [64]}
    ops: list[Any] = [{"copy": {"src": f"X{k}", "dst": f"r{k}"}} for k in range(3)]
    for _ in range(random.randrange(1, 6)):
        a, b, c = (random.randrange(3) for _ in range(3))
        expr = random.choice([
            "r{a} + r{b}", "max(r{a} - r{b}, 0)", "r{a} * 3 - r{b}", "where(r{a} < r{b}, r{a}, 7)", "r{a} // 5",
            "r{a} % 12", "where(index(0) < 9, r{b}, index(0))", "min(r{a}, r{b})", "abs(r{a})", "-r{b}",
            "where(r{a} == r{b} or r{a} > 20, r{b}, r{a})",
            "mulhi(r{a} * 77, r{b}) ^ r{a}", "r{a} << 3 | r{b} >> 1", "~r{a} & r{b}",
        ])  # fmt: skip
        if "uint32" in (chosen[a], chosen[b]):  # which meets no int32
            words = [f"uint32(r{k})" if chosen[k] != "uint32" else f"r{k}" for k in (a, b)]
            expr = expr.replace("abs", "popcount").replace(", index(0))", ", uint32(index(0)))")
            expr = expr.replace("r{a}", words[0]).replace("r{b}", words[1])
        expr = expr.format(a=a, b=b)
        op: dict[str, Any] = {"elementwise": {"dst": f"r{c}", "expr": expr}}
        if random.random() < 0.3:
            op = {"cast": {"src": f"r{a}", "dst": f"r{c}"}} if a != c and chosen[a] != chosen[c] else op
        if random.random() < 0.3:
            op = {"for": {f"i{len(ops)}": random.choice([1, 3, 20])}, "do": [op]}
        elif random.random() < 0.3:
            op = {"when": f"bx < {random.randrange(3)}", "do": [op]}
        ops.append(op)
    ops += [{"copy": {"src": f"r{k}", "dst": f"Y{k}"}} for k in range(3)]
    return {"kernel": "k", "threads": 32, "grid": {"bx": 1}, "buffers": buffers, "ops": ops}


@pytest.mark.parametrize("seed", range(60))
def test_no_spec_leaves_its_ranges(seed: int) -> None:
    random = Random(f"spec {seed}")
    spec = load(draw_spec(random))
    assert isinstance(spec, Spec)
    found: Mapping[str, ValueRange] = find_value_ranges(spec)
    for drawn in range(3):
        for name, (_, bits) in run_with_drawn(spec, drawn).items():
            values = [int(x) for x in np.ascontiguousarray(bits).view(numpy_dtype(spec.buffer(name).dtype))]
            low, top = found[name].numbers
            assert low <= min(values) <= max(values) <= top, (
                f"{name}: {min(values)} to {max(values)}, said {found[name]}"
            )


def test_within() -> None:
    n = Var("N", 100, 1, 1)
    assert is_within(ValueRange(0, n), ValueRange(0, mul(n, 2)))
    assert is_within(ValueRange(0, minimum(n, 7)), ValueRange(0, 7))
    assert not is_within(ValueRange(0, n), ValueRange(0, 50))


# ---------------------------------------------------------------- scans, and what atomics leave
@pytest.mark.parametrize(
    "fields, said, carried",
    [
        ({"op": "sum"}, "0 : 513", "0 : 513"),
        ({"op": "sum", "exclusive": True}, "0 : 505", "0 : 513"),
        ({"op": "max"}, "0 : 9", "0 : 9"),
        ({"op": "min"}, "0 : 9", "0 : 1"),
    ],
)
def test_scans(fields: dict[str, Any], said: str, carried: str) -> None:
    ops = [
        {"fill": {"dst": "s", "value": 0}},
        {"copy": {"src": "x", "dst": "r"}},
        {"scan": {"src": "r", "dst": "r", "axis": 0, "carry": "s", **fields}},
        {"copy": {"src": "r", "dst": "Y"}},
    ]
    spec = load(program_of(ops, r="", s=""))
    assert isinstance(spec, Spec)
    written = measure_calls(spec)[2].written
    assert (str(written["dst"]), str(written["carry"])) in ((said, carried), ("0 : 1", carried))
    for drawn in range(3):
        at, bits = run_with_drawn(spec, drawn)["Y"]
        low, top = written["dst"].numbers
        assert len(at) == 64 and low <= bits.view(np.int32).min() <= bits.view(np.int32).max() <= top


@pytest.mark.parametrize(
    "function, said", [("add", "-2147483648 : 2147483648"), ("max", "3 : 9"), ("min", "0 : 4"), ("or", "0 : 16")]
)
def test_what_atomics_leave(function: str, said: str) -> None:
    ops: list[Any] = [
        {"fill": {"dst": "t", "value": 3}},
        {"sync": "cta"},
        {"copy": {"src": "x", "dst": "t", "accumulate": function}},
        {"sync": "cta"},
        {"copy": {"src": "t", "dst": "Y"}},
    ]
    spec = program_of(ops)
    spec["buffers"]["t"] = {"scope": "shared", "dtype": "int32", "shape": [64]}
    found = find_value_ranges(load(spec))["Y"]
    whole = ValueRange(*map(int, said.split(" : ")))
    assert is_within(whole, found), f"{found}"


def test_floats_have_no_range() -> None:
    """Beside integers: filled with an infinity, made of integers, and reduced of them."""
    ops: list[Any] = [
        {"fill": {"dst": "f", "value": "-inf"}},
        {"elementwise": {"dst": "f", "expr": "x + 1"}},
        {"cast": {"src": "x", "dst": "f"}},
        {"elementwise": {"dst": "Y", "expr": "f"}},
        {"reduce": {"src": "x", "dst": "g", "axis": 0, "op": "sum"}},
        {"scan": {"src": "x", "dst": "f", "axis": 0, "op": "sum"}},
    ]
    spec = program_of(ops)
    spec["buffers"] |= {
        name: {"scope": "register", "dtype": "float32", "shape": [n], "layout": "auto"}
        for name, n in (("f", 64), ("g", 1))
    }
    found = find_value_ranges(load(spec))
    assert set(found) == {"x", "Y"} and found["Y"] == range_of_type("int32")
