"""Plans that compute other integers than their spec says: each is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.steps import change_steps, is_a, with_steps
from tests.faults.verdicts import proof_code
from tilegen.arithmetic import Apply, Literal, Node
from tilegen.index import add
from tilegen.pipeline import load
from tilegen.plan import Compute, Plan
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec.data import Spec

Change = Callable[[Node], Node]


def spec_of(expr: str, **more: Any) -> Spec:
    array = {"scope": "global", "dtype": "uint32", "shape": [64]}
    buffers = {"x": array, "y": array, "Y": array}
    params = {"seed": {"dtype": "uint32", "default": 3}}
    ops = [{"for": {"r": 4}, "do": [{"elementwise": {"dst": "Y[r*16 : +16]", "expr": expr, "with": {
        "a": "x[r*16 : +16]", "b": "y[r*16 : +16]"}}}]}]  # fmt: skip
    used = {"params": params} if "seed" in expr else {}
    loaded = load({"kernel": "k", "threads": 32, "buffers": buffers, "ops": ops, **used, **more})
    assert isinstance(loaded, Spec)
    return loaded


def change_trees(plan: Plan, change: Change) -> Plan:
    """The plan with every node of its trees changed, those inside first."""

    def walk(node: Node) -> Node:
        inside = replace(node, args=tuple(map(walk, node.args))) if isinstance(node, Apply) else node
        return change(inside)

    steps = change_steps(plan.roles[0].steps, is_a(Compute), lambda step: (replace(step, tree=walk(step.tree)),))
    return with_steps(plan, *steps)


def as_signed(*names: str) -> Change:
    """A function of numbers without a sign computed with one."""

    def change(node: Node) -> Node:
        if not (isinstance(node, Apply) and node.function in names and node.args[-1].type == "uint32"):
            return node
        args = tuple(Apply("int32", (arg,), "int32") if arg.type == "uint32" else arg for arg in node.args)
        if node.type == "bool":
            return Apply(node.function, args, "bool")
        return Apply("uint32", (Apply(node.function, args, "int32"),), "uint32")

    return change


def renamed(old: str, new: str) -> Change:
    def change(node: Node) -> Node:
        return replace(node, function=new) if isinstance(node, Apply) and node.function == old else node

    return change


def counted(by: Callable[[int], int]) -> Change:
    """Shifts by another count."""

    def change(node: Node) -> Node:
        if isinstance(node, Apply) and node.function in ("<<", ">>") and isinstance(node.args[1], Literal):
            return replace(node, args=(node.args[0], Literal(by(int(node.args[1].value)), "uint32")))
        return node

    return change


def exchanged(name: str) -> Change:
    def change(node: Node) -> Node:
        return replace(node, args=node.args[::-1]) if isinstance(node, Apply) and node.function == name else node

    return change


def dropped(name: str) -> Change:
    """A function of one argument left out."""
    return lambda node: node.args[0] if isinstance(node, Apply) and node.function == name else node


FAULTS: dict[str, tuple[str, Change]] = {
    "39, mulhi signed": ("mulhi(0xD2511F53, a) ^ b", as_signed("mulhi")),
    "40, a shift count modulo 32": ("(a << 32) + b", counted(lambda n: n % 32)),
    "a logical shift as an arithmetic one": ("a >> 5", as_signed(">>")),
    "compared as signed": ("where(a < b, a, b)", as_signed("<")),
    "the smaller one as signed": ("min(a, b)", as_signed("min")),
    "rotated the other way": ("a << 13 | a >> 19", counted(lambda n: 32 - n)),
    "xor printed as or": ("a ^ b", renamed("^", "|")),
    "a sum for a xor": ("a ^ b", renamed("^", "+")),
    "zeros counted from the other end": ("clz(a)", renamed("clz", "popcount")),
    "a quotient as signed": ("a // 3", as_signed("//")),
    "sides of a shift exchanged": ("a << b", exchanged("<<")),
    "the lower half for the upper one": ("mulhi(a, b)", renamed("mulhi", "*")),
    "bits that are not flipped": ("~a & b", dropped("~")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_other_functions_are_refused(name: str) -> None:
    expr, change = FAULTS[name]
    spec = spec_of(expr)
    plan = plan_spec(spec)
    assert proof_code(lambda: prove(spec, plan)) == ""
    assert proof_code(lambda: prove(spec, change_trees(plan, change))) in ("TG420", "TG427")


def test_the_key_of_the_next_round_is_refused() -> None:
    spec = spec_of("a ^ seed + uint32(r) * 0x9E3779B9")
    plan = plan_spec(spec)

    def later(step: Any) -> Any:
        return (replace(step, wholes=tuple(add(x, 1) for x in step.wholes)),)

    steps = change_steps(plan.roles[0].steps, is_a(Compute), later)
    assert proof_code(lambda: prove(spec, plan)) == ""
    assert proof_code(lambda: prove(spec, with_steps(plan, *steps))) == "TG420"


def test_integers_of_the_place_wrap() -> None:
    """What is known without memory is the machine's: -1 of uint32 is its largest number."""
    spec = spec_of("a + (uint32(r) - 1) // 2")
    plan = plan_spec(spec)
    assert proof_code(lambda: prove(spec, plan)) == ""
    assert proof_code(lambda: prove(spec, change_trees(plan, as_signed("//")))) == "TG420"
