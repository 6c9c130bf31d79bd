"""Faults of kernels that accumulate, each found by the proofs of the kernel that was right without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.atomics.kernels import (
    CLEAR,
    PUT,
    READ,
    SYNC,
    boxes_by_tma,
    global_sums,
    rows_by_index,
    shared_sums,
)
from tests.faults.steps import mutate, with_steps
from tests.faults.verdicts import build_codes, proof_code
from tilegen.arithmetic import Apply, Element
from tilegen.index import Var, add, equal, less, mod
from tilegen.interpret import interpret
from tilegen.pipeline import build
from tilegen.plan import (
    FILL,
    MOVE,
    RED,
    Block,
    Compute,
    Map,
    Move,
    Plan,
    Ref,
    Step,
    Tma,
    When,
    effects,
    flatten,
    register_memory,
)
from tilegen.proofs import prove
from tilegen.proofs.floats import float_inputs

TEXTS = {
    "shared": shared_sums(), "global": global_sums(), "integers": global_sums("min", "int32"),
    "rows": rows_by_index(), "boxes": boxes_by_tma(), "boxes of integers": boxes_by_tma("max", "int32"),
}  # fmt: skip


def is_update(step: Step) -> bool:
    return isinstance(step, Move) and step.via.function != ""


def is_box(step: Step) -> bool:
    return isinstance(step, Tma) and step.function != ""


def found(text: str, change: Callable[[Plan], Plan]) -> str:
    """The code of what the proofs of a kernel say of a change of its plan."""
    built = build(text)
    return proof_code(lambda: prove(built.spec, change(built.plan)))


@pytest.mark.parametrize("name", TEXTS)
def test_the_kernels_are_right(name: str) -> None:
    assert build_codes(TEXTS[name]) == set()


# ---------------------------------------------------------------- what the author may leave out
SYNCS = {
    "between clear and add": CLEAR + PUT + SYNC + READ,
    "between add and read": CLEAR + SYNC + PUT + READ,
    "the clear": PUT + SYNC + READ,
    "between add and another function": CLEAR + SYNC + PUT + PUT.replace("add", "max") + SYNC + READ,
    "before a plain store": CLEAR + SYNC + PUT + "  - fill: {dst: \"s[4:12]\", value: 1}\n" + SYNC + READ,
}  # fmt: skip


@pytest.mark.parametrize("fault", SYNCS)
def test_what_is_not_ordered_is_found(fault: str) -> None:
    """Faults 23 and 24 of the list, and their kin."""
    ops, dtype = SYNCS[fault], "int32" if "function" in fault else "float32"
    assert build_codes(shared_sums(ops, dtype)) == ({"TG404"} if fault == "the clear" else {"TG403"})


def test_two_functions_behind_a_sync() -> None:
    ops = CLEAR + SYNC + PUT + SYNC + PUT.replace("add", "max") + SYNC + READ
    assert build_codes(shared_sums(ops, "int32")) == set()


def test_tma_sees_what_was_fenced() -> None:
    assert build_codes(boxes_by_tma(fence="")) == {"TG424"}


SEND = '  - copy: {src: s, dst: "Y[bx]", variant: tma, async: true}\n  - wait: 0\n'
FENCE = "  - sync: async\n"


def test_tma_sends_what_threads_have_added_up_once_each_has_fenced() -> None:
    assert build_codes(shared_sums(CLEAR + SYNC + PUT + FENCE + SYNC + SEND)) == set()
    assert build_codes(shared_sums(CLEAR + SYNC + PUT + SYNC + SEND)) == {"TG424"}
    assert build_codes(shared_sums(CLEAR + SYNC + FENCE + PUT + SYNC + SEND)) == {"TG424"}
    assert build_codes(shared_sums(CLEAR + SYNC + PUT + FENCE + SEND)) == {"TG403"}
    one = (
        FENCE.replace("async\n", "async, when: warpid == 0\n")
        .replace("sync: async,", "{sync: async,")
        .replace("0\n", "0}\n")
    )
    assert build_codes(shared_sums(CLEAR + SYNC + PUT + one + SYNC + SEND)) == {"TG424"}


BY_THREADS = """kernel: by_threads
arch: sm_80
grid: {bx: 4}
threads: 64
buffers:
  X: {scope: global, dtype: int32, shape: [256]}
  S: {scope: global, dtype: int32, shape: [8]}
  s: {scope: shared, dtype: int32, shape: [8]}
  x: {scope: register, dtype: int32, shape: [1], layout: "S[1:1]"}
ops:
  - fill: {dst: s, value: 0}
  - sync: cta
  - copy: {scope: thread, src: "X[bx*64 + tx]", dst: x}
  - copy: {scope: thread, src: x, dst: "s[tx % 8]", accumulate: add}
  - sync: cta
  - copy: {src: s, dst: S, accumulate: add}
"""


def test_threads_that_meet_in_one_element() -> None:
    """Fault 26: of lanes with one index the add of one is lost."""
    assert build_codes(BY_THREADS) == set()

    def spare_one(step: Move) -> tuple[Step, ...]:
        return (When(less(Var("tx", 64), 63), (step,)),)

    assert found(BY_THREADS, lambda p: mutate(p, is_update, spare_one, nth=0)) == "TG420"
    assert found(BY_THREADS, lambda p: mutate(p, is_update, store, nth=0)) == "TG408"
    assert build_codes(BY_THREADS.replace("  - fill: {dst: s, value: 0}\n  - sync: cta\n", "")) == {"TG404"}


# ---------------------------------------------------------------- what a plan may do wrong
def store(step: Move) -> tuple[Step, ...]:
    return (replace(step, via=MOVE),)


def lose_between_stores(step: Move) -> tuple[Step, ...]:
    """Read, add and store: what another adds between is lost."""
    dtype = step.dst.memory.dtype
    old = register_memory("old", dtype, step.elems)
    tree = Apply("+", (Element(0, dtype), Element(1, dtype)), dtype)
    each = (Ref(old, (k,)) for k in range(step.elems))
    own = (Ref(step.src.memory, (add(step.src.at[0], k),)) for k in range(step.elems))
    sums = tuple(Compute(o, tree, (o, x)) for o, x in zip(each, own, strict=True))
    return (Move(old[0], step.dst, step.elems), *sums, Move(step.dst, old[0], step.elems))


def with_registers(plan: Plan, change: Callable[[Move], tuple[Step, ...]]) -> Plan:
    """The plan with updates changed, whose functions have registers of the change's own."""
    first = next(s for role in plan.roles for s in flatten(role.steps) if is_update(s))
    assert isinstance(first, Move)
    own = register_memory("old", first.dst.memory.dtype, first.elems)

    def updates(step: Step) -> bool:
        return isinstance(step, Block) and any(is_update(s) for s in flatten(step.body))

    widened = mutate(plan, updates, lambda s: (replace(s, registers=(*s.registers, own)),))
    return mutate(widened, is_update, change)


def other_function(step: Move) -> tuple[Step, ...]:
    return (replace(step, via=RED["max" if step.via.function == "min" else "min"]),)


def test_an_atomic_printed_as_a_store() -> None:
    """Fault 25: in shared memory a race, in global memory elements that were to be updated; wherever one alone is."""
    assert found(TEXTS["shared"], lambda p: mutate(p, is_update, store)) == "TG403"
    assert found(TEXTS["shared"], lambda p: mutate(p, is_update, store, nth=1)) == "TG403"
    for name in ("global", "integers", "rows"):
        assert found(TEXTS[name], lambda p: mutate(p, is_update, store)) in ("TG405", "TG420"), name
    assert found(TEXTS["global"], lambda p: mutate(p, is_update, store, nth=2)) == "TG405"
    assert found(TEXTS["boxes"], lambda p: mutate(p, is_box, lambda s: (replace(s, function=""),))) in (
        "TG405",
        "TG422",
    )


@pytest.mark.parametrize("name", ["shared", "global"])
def test_an_update_lost_between_two_stores(name: str) -> None:
    codes = {"shared": "TG403", "global": "TG405"}
    assert found(TEXTS[name], lambda p: with_registers(p, lose_between_stores)) == codes[name]


def test_another_function() -> None:
    """With one contribution to an element the sum of contributions is the same, whatever the function."""
    for text in (global_sums("min", "int32"), rows_by_index("max", "uint32")):
        assert found(text, lambda p: mutate(p, is_update, other_function)) == "TG420"
    assert found(TEXTS["boxes of integers"], lambda p: mutate(p, is_box, _other_box)) == "TG420"
    assert found(TEXTS["global"], lambda p: mutate(p, is_update, other_function)) == "TG412", "no GPU has it of floats"


def _other_box(step: Tma) -> tuple[Step, ...]:
    return (replace(step, function="min"),)


def test_a_contribution_lost_and_one_made_twice() -> None:
    text = TEXTS["global"]
    assert found(text, lambda p: mutate(p, is_update, lambda s: (), nth=1)) == "TG420"
    assert found(text, lambda p: mutate(p, is_update, lambda s: (s, s), nth=1)) == "TG420"
    assert found(TEXTS["boxes"], lambda p: mutate(p, is_box, lambda s: (s, s))) == "TG420"
    once = mutate(build(text).plan, is_update, lambda s: (s, s), nth=0)
    assert proof_code(lambda: prove(build(text).spec, mutate(once, is_update, lambda s: (), nth=2))) == "TG420"


def test_twice_is_not_once_of_minima() -> None:
    """A GPU would not show it, and another kernel might: the exact run does."""
    assert found(TEXTS["integers"], lambda p: mutate(p, is_update, lambda s: (s, s), nth=0)) == "TG420"


REPLICATED = """kernel: replicated
arch: sm_90
grid: {bx: 4}
threads: 64
buffers:
  X: {scope: global, dtype: int32, shape: [4, 8]}
  S: {scope: global, dtype: int32, shape: [8]}
  Z: {scope: shared, dtype: int32, shape: [8]}
  x: {scope: register, dtype: int32, shape: [8], layout: "S[8:1@tx] + R[8:8@tx]"}
  e: {scope: register, dtype: int32, shape: [8], layout: "S[8:1@tx] + R[8:8@tx]"}
ops:
  - copy: {src: "X[bx]", dst: x}
  - elementwise: {dst: e, expr: "x + 1"}
  - OP
"""
OPS = {
    "copy": "copy: {src: x, dst: S, accumulate: add}",
    "cast": "cast: {src: x, dst: S, accumulate: add}",
    "elementwise": "elementwise: {dst: S, expr: \"x * e\", accumulate: add}",
}  # fmt: skip


@pytest.mark.parametrize("op", OPS)
def test_each_replica_adds(op: str) -> None:
    """Fault 21: of eight threads that hold one element, the first alone puts it to the array."""
    text = REPLICATED.replace("OP", OPS[op])
    assert build_codes(text) == set()

    def all_of_them(step: When) -> tuple[Step, ...]:
        return step.body

    def guards(step: Step) -> bool:
        return isinstance(step, When) and any(is_update(s) for s in flatten(step.body))

    assert found(text, lambda p: mutate(p, guards, all_of_them)) == "TG420"


def test_cta_by_cta() -> None:
    """CTAs that put one another's rows to an array come to the same sums, and no class of CTAs shows it."""

    def exchange(step: Block) -> tuple[Step, ...]:
        args = []
        for formal, actual in step.args:
            if isinstance(actual, Ref) and actual.memory.name == "X":
                other = mod(add(Var("bx", 4), 1), 4)
                actual = replace(actual, at=(other * 4, *actual.at[1:]))
            args.append((formal, actual))
        return (replace(step, args=tuple(args)),)

    def reads(step: Step) -> bool:
        return isinstance(step, Block) and any(isinstance(a, Ref) and a.memory.name == "X" for _, a in step.args)

    assert found(TEXTS["global"], lambda p: mutate(p, reads, exchange)) == "TG420"


@pytest.mark.parametrize("cta", range(4))
def test_one_cta_of_those_that_share_an_element(cta: int) -> None:
    """Which of them is wrong does not matter: each is compared by itself."""

    def twice_there(step: Move) -> tuple[Step, ...]:
        return (step, When(equal(Var("bx", 4), cta), (step,)))

    assert found(TEXTS["global"], lambda p: mutate(p, is_update, twice_there, nth=3)) == "TG420"


def test_the_other_half_of_a_pair() -> None:
    """Two elements of 16 bits in one word trade places."""

    def swap(step: Move) -> tuple[Step, ...]:
        one = [replace(step, elems=1, dst=_moved(step.dst, 1 - k), src=_moved(step.src, k)) for k in range(2)]
        rest = [replace(step, elems=1, dst=_moved(step.dst, k), src=_moved(step.src, k)) for k in range(2, step.elems)]
        return (*one, *rest)

    assert found(TEXTS["rows"], lambda p: mutate(p, is_update, swap)) == "TG420"


def _moved(ref: Ref, k: int) -> Ref:
    return replace(ref, at=(*ref.at[:-1], add(ref.at[-1], k)))


def test_an_access_that_the_arch_lacks() -> None:
    built = build(rows_by_index())
    assert {s.elems for r in built.plan.roles for s in flatten(r.steps) if is_update(s)} == {8}  # type: ignore[union-attr]
    other = replace(built.plan, arch="sm_80")
    assert proof_code(lambda: interpret(other, [(0, 0, 0)], float_inputs(other))) == "TG412"


def test_a_plan_that_reads_what_it_accumulates_into() -> None:
    def peek(step: Move) -> tuple[Step, ...]:
        return (Move(step.src, step.dst, step.elems), step)

    assert found(TEXTS["global"], lambda p: mutate(p, is_update, peek, nth=0)) == "TG405"


def test_two_proxies() -> None:
    """Threads and TMA update one array: PTX says nothing of how the two meet."""
    text = boxes_by_tma()
    more = '  - copy: {src: s, dst: "S[bx % 2 * 32 : +32, by*32 : +32]", accumulate: add}\n'
    assert build_codes(text + more) == {"TG216"}
    assert found(text, lambda p: _by_a_thread_too(p)) == "TG405"


def _by_a_thread_too(plan: Plan) -> Plan:
    array = next(m for m in plan.memories if m.name == "S")
    one = register_memory("one", "float32", 1)
    steps = (Map(FILL, one[0], value=1.0), When(equal(Var("tx", 128), 0), (Move(array[0, 0], one[0], via=RED["add"]),)))
    widened = replace(plan, memories=(*plan.memories, one))
    return with_steps(widened, *plan.roles[0].steps, *steps)


def test_effects_say_that_an_update_reads_and_writes() -> None:
    step = next(s for r in build(TEXTS["global"]).plan.roles for s in flatten(r.steps) if is_update(s))
    assert [(t.use, t.ref.memory.name) for t in effects(step).touches if t.writes] == [("updates", "S")]
