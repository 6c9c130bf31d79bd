"""Wrong scans, each found by the proof of its kernel: what comes before, what lanes and warps exchange, carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

import tilegen
from tests.faults.steps import NOT_PLANTED, drop, is_sync, list_steps, mutate, put_steps, turn
from tests.faults.verdicts import proof_code
from tilegen.arithmetic import Element
from tilegen.errors import SpecError
from tilegen.index import Formula, add, equal, less, sub
from tilegen.ops import scanning
from tilegen.pipeline import load
from tilegen.plan import Block, Compute, Map, Move, Plan, Repeat, Shuffle, Step, Sync, When
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec.data import Spec
from tilegen.spec.printing import print_spec

Change = Callable[[Plan], Plan]


def load_scan(threads: int = 128, dtype: str = "int32", own: int = 4, rows: int = 1, **fields: Any) -> Spec:
    """Three chunks of rows, one after the other, with a carry; from the end where ``reverse`` says so."""
    n = threads * own // rows
    chunk = f"({'2 - i' if fields.get('reverse') else 'i'})*{n}"
    tile = {"scope": "register", "dtype": dtype, "layout": "auto"}
    array = {"scope": "global", "dtype": dtype}
    layout = f"S[({rows}, {threads // rows}, {own}):({threads // rows}@tx, 1@tx, 1)]"
    spec = tilegen.load({
        "kernel": "scanned", "threads": threads, "grid": {"bx": 2},
        "buffers": {
            "X": {**array, "shape": [2, rows, 3 * n]}, "Y": {**array, "shape": [2, rows, 3 * n]},
            "T": {**array, "shape": [2, rows, 1]}, "x": {**tile, "shape": [rows, n], "layout": layout},
            "c": {**tile, "shape": [rows, 1]},
        },
        "ops": [
            {"fill": {"dst": "c", "value": 0}},
            {"for": {"i": 3}, "do": [
                {"copy": {"src": f"X[bx, :, {chunk} : +{n}]", "dst": "x"}},
                {"scan": {"src": "x", "dst": "x", "axis": 1, "op": "sum", "carry": "c", **fields}},
                {"copy": {"src": "x", "dst": f"Y[bx, :, {chunk} : +{n}]"}},
            ]},
            {"copy": {"src": "c", "dst": "T[bx]"}},
        ],
    })  # fmt: skip
    assert isinstance(spec, Spec)
    return spec


KERNELS: dict[str, dict[str, Any]] = {
    "warps": {}, "floats": {"dtype": "float32"}, "exclusive": {"exclusive": True}, "reverse": {"reverse": True},
    "reverse and exclusive": {"reverse": True, "exclusive": True}, "one warp": {"threads": 32}, "rows": {"rows": 4},
}  # fmt: skip


def find_code(plan: Plan, spec: Spec) -> str:
    return proof_code(lambda: prove(spec, plan))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_scans_that_are_spoilt_here_are_right(kernel: str) -> None:
    spec = load_scan(**KERNELS[kernel])
    assert find_code(plan_spec(spec), spec) == ""


# ---------------------------------------------------------------- which steps
def steps(match: Callable[[Step], bool], change: Callable[[Any], Sequence[Step]], nth: int | None = None) -> Change:
    """Other steps inside of the scan: for all that match, or for the nth."""

    def of_block(block: Block) -> tuple[Step, ...]:
        found = [path for path, step in list_steps(block.body) if match(step)]
        assert found, NOT_PLANTED
        body = block.body
        for path in reversed(found if nth is None else [found[nth]]):
            body = put_steps(body, path, change)
        return (replace(block, body=body),)

    return lambda plan: mutate(plan, lambda s: isinstance(s, Block) and s.name.startswith("scan_"), of_block)


def writes(name: str, kind: type = Compute) -> Callable[[Step], bool]:
    return lambda step: isinstance(step, kind) and step.dst.memory.name.startswith(name)


def guards(name: str, kind: type = Compute) -> Callable[[Step], bool]:
    """A condition on one step, which writes registers of a name."""
    return lambda step: isinstance(step, When) and len(step.body) == 1 and writes(name, kind)(step.body[0])


def is_exchange(step: Step) -> bool:
    return isinstance(step, Shuffle) and step.way in ("up", "down")


def is_broadcast(step: Step) -> bool:
    return isinstance(step, Shuffle) and step.way in ("set", "clear")


def is_own(step: Step) -> bool:
    """The loop over own elements, in which each is taken and what came of it is kept."""
    return isinstance(step, Repeat) and {type(s) for s in step.body} == {Compute, Move}


def reads_scratch(step: Step) -> bool:
    return isinstance(step, Move) and step.src.memory.name.startswith("scratch")


# ---------------------------------------------------------------- by what
def shift(by: int) -> Callable[[When], tuple[Step, ...]]:
    """Lanes ask for so many lanes more before them, or behind, than they do."""

    def change(step: When) -> tuple[Step, ...]:
        condition = step.condition
        assert isinstance(condition, Formula) and condition.symbol == "<"
        return (replace(step, condition=less(add(condition.args[0], by), condition.args[1])),)

    return change


def twice(step: Step) -> tuple[Step, ...]:
    return step, step


def swap(words: dict[str, str]) -> Callable[[Shuffle], tuple[Step, ...]]:
    return lambda step: (replace(step, way=words[step.way]),)


def read_next(step: Move) -> tuple[Step, ...]:
    """Of what parts left the last ones, in the place of all."""
    taken = replace(step, src=replace(step.src, at=(add(step.src.at[0], 1),)), elems=1)
    return tuple(replace(taken, dst=replace(step.dst, at=(k,))) for k in range(step.elems))


def leave_elsewhere(step: Move) -> tuple[Step, ...]:
    """A part is left in the place of the one that faces it."""
    return (replace(step, dst=replace(step.dst, at=(sub(3, step.dst.at[0]),))),)


def unguard(step: When) -> tuple[Step, ...]:
    return step.body


def ask_next(step: When) -> tuple[Step, ...]:
    """A part takes what came before the one ahead of it."""
    condition = step.condition
    assert isinstance(condition, Formula) and condition.symbol == "=="
    return (replace(step, condition=equal(condition.args[0], add(condition.args[1], 1))),)


# What is wrong, in which kernels, and the change. Numbers are those of the rules' list.
ALL, OF_WARPS = tuple(KERNELS), ("warps", "floats", "exclusive", "reverse", "reverse and exclusive")
OF_ONE = ("one warp", "rows")
FAULTS: dict[str, tuple[tuple[str, ...], Change]] = {
    "30 inclusive for exclusive, or the other way": (
        ALL, steps(is_own, lambda loop: (replace(loop, body=loop.body[::-1]),)),
    ),
    "31 the lanes' step 16 is missing": (ALL, steps(guards("upto_lane"), drop, 4)),
    "31 the exchange with lanes 16 away is missing": (ALL, steps(is_exchange, drop, 4)),
    "31 the first step of lanes is missing": (ALL, steps(guards("upto_lane"), drop, 0)),
    "32 what warps left is read before they met": (OF_WARPS, steps(is_sync("cta"), drop, 1)),
    "32 what warps left is overwritten by the next trip": (OF_WARPS, steps(is_sync("cta"), drop, 0)),
    "32 warps meet, and not the CTA": (OF_WARPS, steps(is_sync("cta"), lambda s: (Sync("warp"),), 1)),
    "33 the carry lies before elements twice": (ALL, steps(writes("before"), twice)),
    "33 the total has the carry twice": (OF_ONE, steps(writes("acc"), twice, -1)),
    "34 the carry stays what it was": (ALL, steps(writes("c"), drop)),
    "34 the carry is taken without the last warp": (OF_WARPS, steps(writes("run"), drop, -1)),
    "the total of half a warp": (("warps", "floats", "exclusive", *OF_ONE), steps(is_broadcast, turn(lanes=15))),
    "the total of the other end": (ALL, steps(is_broadcast, swap({"set": "clear", "clear": "set"}))),
    "borders of warps: the first lane takes its own": (ALL, steps(guards("before", Move), unguard)),
    "borders of warps: the second lane has nothing before it": (ALL, steps(guards("before", Move), shift(1))),
    "lanes: one more than has some before it takes": (ALL, steps(guards("upto_lane"), shift(-1), 0)),
    "lanes: one fewer takes": (ALL, steps(guards("upto_lane"), shift(1), 2)),
    "lanes: the near half does not take": (ALL, steps(guards("upto_lane"), shift(15), 0)),
    "lanes exchange the other way": (ALL, steps(is_exchange, swap({"up": "down", "down": "up"}), 2)),
    "lanes are told one lane too far away": (ALL, steps(is_exchange, turn(lanes=2), 0)),
    "what lanes before have is missing": (ALL, steps(guards("before", Move), drop)),
    "a warp's total lies in another's place": (OF_WARPS, steps(writes("scratch", Move), leave_elsewhere)),
    "the parts of another warp are read": (OF_WARPS, steps(reads_scratch, read_next)),
    "a part more than lies before is taken": (OF_WARPS, steps(guards("front", Move), ask_next)),
    "the second warp takes what the first has": (OF_WARPS, steps(guards("front", Move), drop, 1)),
    "each lane leaves a total": (("rows",), steps(is_broadcast, drop)),
    "what changes nothing is 1": (ALL, steps(lambda s: isinstance(s, Map), turn(value=1), 0)),
    "the last of the own elements is not counted": (
        ALL, steps(is_own, lambda loop: (replace(loop, count=loop.count - 1),)),
    ),
    "an element is counted twice": (
        ALL, steps(is_own, lambda loop: (replace(loop, body=(*loop.body, loop.body[0])),)),
    ),
    "what lies before is left out": (
        ALL, steps(writes("x"), lambda s: (Compute(s.dst, Element(0, s.dst.memory.dtype), (s.srcs[1],)),)),
    ),
}  # fmt: skip
CASES = [(fault, kernel) for fault, (kernels, _) in FAULTS.items() for kernel in kernels]


@pytest.mark.sweep(30)
@pytest.mark.parametrize(("fault", "kernel"), CASES)
def test_a_fault_is_found(fault: str, kernel: str) -> None:
    spec = load_scan(**KERNELS[kernel])
    assert find_code(FAULTS[fault][1](plan_spec(spec)), spec)


def test_own_elements_that_are_no_neighbours_are_found_where_nobody_refuses_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """35: two stretches of four, half a row apart."""
    given = print_spec(load_scan())
    layout = '"S[(1, 128, 4):(128@tx, 1@tx, 1)]"'
    text = given.replace("[1, 512]", "[1, 1024]").replace("*512 : +512", "*1024 : +1024").replace("1536", "3072")
    assert layout in text, text
    apart = text.replace(layout, '"S[(2, 128, 4):(4, 1@tx, 1)]"')
    with pytest.raises(SpecError, match="no neighbours along axis 1"):
        plan_spec(load(apart))
    monkeypatch.setattr(scanning, "check_neighbours", lambda own, places: None)
    spec = load(apart.replace("int32", "int64"))  # of the other one the answer is kept
    assert isinstance(spec, Spec)
    assert find_code(plan_spec(spec), spec)
