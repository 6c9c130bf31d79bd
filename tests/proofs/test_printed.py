"""The proofs are of the printed text: a fault in printing an address is found, in what runs and for all values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.verdicts import proof_code, refusal_of
from tests.interpret.kernels import kernel, values
from tests.mutants.table import SPECS
from tilegen.index import Formula, Index, Var, add, mul
from tilegen.interpret import FaultFound, interpret
from tilegen.pipeline import load
from tilegen.plan import Memory, Move, Plan, Ref, flat_memory, memories, subscript
from tilegen.planner import plan_spec
from tilegen.proofs import prove, unproven_ranges
from tilegen.proofs.runs import check_run, list_runs
from tilegen.render import render

OTHER_TEXT, DISAGREES = "TG416", "TG411"
Print = Callable[[Ref], Index]


def drop_a_term(ref: Ref) -> Index:
    """Of the first product of a sum only the sum's first term."""
    return change_product(subscript(ref), lambda x: Formula("*", (x.args[0].args[0], x.args[1]), x.bound))


def change_product(x: Index, change: Callable[[Formula], Index]) -> Index:
    def is_factored(y: Index) -> bool:
        return isinstance(y, Formula) and y.symbol == "*" and isinstance(y.args[0], Formula) and y.args[0].symbol == "+"

    if is_factored(x):
        return change(x)  # type: ignore[arg-type]
    if isinstance(x, Formula) and x.symbol == "+":
        return Formula("+", tuple(change(p) if is_factored(p) else p for p in x.args), x.bound)
    return x


def lose_width(ref: Ref) -> Index:
    """It is computed in an int, whatever it may be."""
    x = subscript(ref)
    narrow = change_product(x, lambda p: Formula(p.symbol, p.args, 2))
    return replace(narrow, bound=2) if isinstance(narrow, Formula) and narrow is not x else x


def one_further(ref: Ref) -> Index:
    return add(subscript(ref), 1) if ref.memory.space == "global" and len(ref.at) > 1 else subscript(ref)


def other_pitch(ref: Ref) -> Index:
    """Every dimension but the last by the pitch of the one after it."""
    pitches = (*ref.memory.pitches[1:], ref.memory.pitches[-1])
    return subscript(Ref(replace(ref.memory, pitches=pitches), ref.at))


def drop_a_constant(ref: Ref) -> Index:
    x = subscript(ref)
    has_one = isinstance(x, Formula) and x.symbol == "+" and isinstance(x.args[-1], int)
    return Formula("+", (*x.args[:-1], 0), x.bound) if has_one else x  # type: ignore[union-attr]


def print_by(monkeypatch: pytest.MonkeyPatch, print_: Print) -> None:
    """Addresses are printed so, wherever a module has taken the function in."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tilegen.") and getattr(module, "subscript", None) is subscript:
            monkeypatch.setattr(module, "subscript", print_)


FAULTS = {
    "rows_any_size": (drop_a_term, one_further, other_pitch),
    "transpose_any_size": (drop_a_term, lose_width, other_pitch),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name, faults in FAULTS.items() for fault in faults])
def test_an_address_that_is_printed_wrongly(monkeypatch, name, fault):
    path = next(p for p in SPECS if p.stem == name)
    spec = load(str(path))
    plan = plan_spec(spec)
    right = render(plan)
    print_by(monkeypatch, fault)
    assert render(plan) != right, "nothing was planted"
    assert proof_code(lambda: prove(spec, plan)) == OTHER_TEXT
    if fault is not lose_width:  # only arrays beyond 2 GiB show that
        assert proof_code(lambda: [check_run(spec, plan, run) for run in list_runs(spec, plan)]) != ""


BY, BX, TX = Var("by", 8), Var("bx", 8), Var("tx", 32)
ARRAY = Memory("X", "float32", (64, 512), (512, 1), "global", "in")
PLACE = ARRAY[BY * 8 + 3, BX * 64 + TX + 1]


def read_place() -> Plan:
    """Made anew: what a plan's texts are is kept with it."""
    move = Move(flat_memory("q", "float32", 16, "register")[0], Ref(ARRAY, PLACE.at))
    return kernel(move, memories=(ARRAY,), grid=(8, 8, 1))


@pytest.mark.parametrize("fault", [drop_a_term, one_further, other_pitch, drop_a_constant])
def test_what_runs_is_what_is_printed(monkeypatch, fault):
    assert unproven_ranges(read_place()) == ()
    interpret(read_place(), [(1, 2, 0)], {"X": values}, {})
    print_by(monkeypatch, fault)
    assert [f.code for f in unproven_ranges(read_place())] == [OTHER_TEXT]
    assert refusal_of(FaultFound, interpret, read_place(), [(1, 2, 0)], {"X": values}, {}).fault.code == DISAGREES


def test_a_module_that_prints_has_the_function_of_the_plan():
    """There is one, so what is replaced above is all of it."""
    having = [name for name, m in sys.modules.items() if name.startswith("tilegen.") and hasattr(m, "subscript")]
    assert {sys.modules[name].subscript for name in having} == {memories.subscript}
    assert {"tilegen.interpret.reading", "tilegen.render.c_text", "tilegen.proofs.accesses"} <= set(having)


def test_a_runtime_pitch_is_a_factor_of_the_text():
    n = Var("N", 1 << 16, 8, 8)
    array = Memory("X", "float32", (64, n), (n, 1), "global", "in")
    assert str(subscript(array[BY * 8 + 3, TX])) == "(by * 8 + 3) * N + tx"
    assert subscript(array[BY * 8, TX]) == add(mul(BY * 8, n), TX)
