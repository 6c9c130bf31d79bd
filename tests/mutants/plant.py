"""Mutants of a plan: each differs in one place: a sync dropped, an address moved, a condition that asks for more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import prod
from typing import Any

from tilegen.arithmetic import Apply, Node
from tilegen.errors import ProofError
from tilegen.index import Formula, Index, Var, add, conjuncts, div, evaluate, every, less, mod, mul, sub
from tilegen.index.courses import ALL_TRIPS
from tilegen.interpret import corners, interpret
from tilegen.plan import (
    Arrive,
    Await,
    Block,
    Commit,
    Compute,
    Map,
    Mma,
    Move,
    Plan,
    Ref,
    Shuffle,
    Step,
    Sync,
    Tma,
    Wait,
    When,
    default_values,
    effects,
)
from tilegen.proofs import prove
from tilegen.proofs.meaning import parameter_cases, proving_domain, proving_inputs
from tilegen.proofs.runs import check_run, list_runs
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

KINDS = (
    "sync dropped", "commit dropped", "wait dropped", "wait weakened", "other phase", "bytes announced", "box",
    "global address", "shared address",
    "other integer", "other function", "other lanes",
    "register index", "base of a function", "half away", "one residue", "swizzle dropped", "guard tightened",
)  # fmt: skip
EQUIVALENT = {
    "sync dropped": "orders nothing", "guard tightened": "asks the same of every thread",
    "half away": "fills the same elements",
}  # fmt: skip
_RESIDUE = 3  # of bx: one CTA in so many is wrong
_ALL_CTAS = 512  # a grid of at most so many runs whole, to see whether a condition asks the same


@dataclass(frozen=True)
class Mutant:
    """``kind`` is one of KINDS; ``where`` says which step, and what was done to it; ``of`` what was changed."""

    kind: str
    where: str
    plan: Plan
    of: str  # the instruction that was changed, or the kind of step


@dataclass(frozen=True)
class Verdict:
    """``found``: the code of the proof that reported the mutant; ``run``: the code that running alone gives it.

    A mutant that no proof reports has a ``reason`` why it is the same kernel; without one it survives, which is a bug.
    """

    found: str
    run: str
    reason: str = ""

    @property
    def survives(self) -> bool:
        return not (self.found or self.reason)


def plant(plan: Plan) -> Iterator[Mutant]:
    """Every mutant of a plan, in the order of its steps."""
    for number, role in enumerate(plan.roles):
        far = int(evaluate(plan.grid[0], default_values(plan.params))) >= _RESIDUE
        for kind, where, steps, of in _variants(role.steps, ""):
            if kind == "one residue" and not far:
                continue
            roles = (*plan.roles[:number], replace(role, steps=steps), *plan.roles[number + 1 :])
            yield Mutant(kind, where, replace(plan, roles=roles), of)


def _variants(steps: tuple[Step, ...], path: str) -> Iterator[tuple[str, str, tuple[Step, ...], str]]:
    """(kind, where, steps, what was changed) with one change in the steps or below them."""
    for i, step in enumerate(steps):
        before, after = steps[:i], steps[i + 1 :]
        here = f"{path}{i}.{type(step).__name__}"
        row = effects(step).instruction
        of = row.name if row else type(step).__name__
        for kind, what, changed in _changes(step):
            yield kind, f"{here}: {what}", (*before, *changed, *after), of
        for kind, where, body, of in _variants(effects(step).body, f"{here}/"):
            yield kind, where, (*before, replace(step, body=body), *after), of  # type: ignore[call-arg]


Change = tuple[str, str, tuple[Step, ...]]


def _changes(step: Step) -> Iterator[Change]:
    """The mutations of one step: those of its kind, and each of its operands at another place."""
    yield from CHANGES.get(type(step), lambda step: ())(step)
    for field, ref, put in OF_OPERANDS.get(type(step), lambda step: ())(step):
        kind = _kind(ref, field)
        for what, moved in _shifted(ref):
            yield kind, f"{field} {what}".strip(), (put(moved),)
        for kind, what, moved in _displaced(ref, field):
            yield kind, f"{field} {what}".strip(), (put(moved),)


def _of_wait(step: Wait) -> Iterator[Change]:
    yield "wait dropped", f"{step.queue}, {step.pending}", ()
    yield "wait weakened", f"{step.queue}, {step.pending + 1}", (replace(step, pending=step.pending + 1),)


def _of_await(step: Await) -> Iterator[Change]:
    yield "wait dropped", f"for {step.slot.barrier.name}", ()
    yield "other phase", f"of {step.slot.barrier.name}", (replace(step, parity=mod(add(step.parity, 1), 2)),)


def _of_arrive(step: Arrive) -> Iterator[Change]:
    for announced in (0, step.bytes // 2, step.bytes + 16):
        yield "bytes announced", f"{step.slot.barrier.name} {announced}", (replace(step, bytes=announced),)


def _of_compute(step: Compute) -> Iterator[Change]:
    """Each function of the tree as another, each integer one more."""
    for n, x in enumerate(step.wholes):
        if isinstance(x, (Var, Formula)):
            wholes = (*step.wholes[:n], add(x, 1), *step.wholes[n + 1 :])
            yield "other integer", f"number {n} + 1", (replace(step, wholes=wholes),)
    for what, tree in _other_trees(step.tree):
        yield "other function", what, (replace(step, tree=tree),)


_OTHER = {"+": "-", "-": "+", "*": "+", "/": "*", "<": "<=", "<=": "<", "exp2": "exp", "max": "min", "min": "max"}


def _other_trees(node: Node) -> Iterator[tuple[str, Node]]:
    if not isinstance(node, Apply):
        return
    if node.function in _OTHER:
        other = _OTHER[node.function]
        yield f"{node.function} as {other}", replace(node, function=other)
    for n, arg in enumerate(node.args):
        for what, changed in _other_trees(arg):
            yield what, replace(node, args=(*node.args[:n], changed, *node.args[n + 1 :]))


CHANGES: dict[type, Callable[[Any], Iterable[Change]]] = {
    Sync: lambda step: [("sync dropped", step.scope, ())],
    Commit: lambda step: [("commit dropped", step.queue, ())],
    Wait: _of_wait,
    Await: _of_await,
    Arrive: _of_arrive,
    Compute: _of_compute,
    Shuffle: lambda step: [("other lanes", f"{step.lanes ^ 1}", (replace(step, lanes=step.lanes ^ 1 or 2),))],
    When: lambda step: [
        ("guard tightened", what, (replace(step, condition=asked),)) for what, asked in _tightened(step.condition)
    ],
    Move: lambda step: [
        ("guard tightened", what, (replace(step, valid=asked),)) for what, asked in _tightened(step.valid)
    ],
}

Operand = tuple[str, Ref, Callable[[Ref], Step]]  # the field, the place, the step with another place there


def _of_map(step: Map | Compute) -> Iterator[Operand]:
    yield "dst", step.dst, lambda ref: replace(step, dst=ref)
    for n, src in enumerate(step.srcs):
        yield f"src{n or ''}", src, lambda ref, n=n: replace(step, srcs=(*step.srcs[:n], ref, *step.srcs[n + 1 :]))  # type: ignore[misc]


def _of_tma(step: Tma) -> Iterator[Operand]:
    yield step.map.name, Ref(step.map.memory, step.at), lambda ref: replace(step, at=ref.at)
    yield "", step.shared, lambda ref: replace(step, shared=ref)


def _of_block(step: Block) -> Iterator[Operand]:
    for n, (formal, actual) in enumerate(step.args):
        if isinstance(actual, Ref):
            yield f"{formal.name} at", actual, lambda ref, n=n, formal=formal: replace(  # type: ignore[misc]
                step, args=(*step.args[:n], (formal, ref), *step.args[n + 1 :])
            )


OF_OPERANDS: dict[type, Callable[[Any], Iterable[Operand]]] = {
    Move: lambda step: [
        ("dst", step.dst, lambda ref: replace(step, dst=ref)), ("src", step.src, lambda ref: replace(step, src=ref)),
    ],
    Map: _of_map,
    Compute: _of_map,
    Shuffle: lambda step: [
        ("dst", step.dst, lambda ref: replace(step, dst=ref)), ("src", step.src, lambda ref: replace(step, src=ref)),
    ],
    Mma: lambda step: [
        (name, getattr(step, name), lambda ref, name=name: replace(step, **{name: ref})) for name in ("c", "a", "b")
    ],
    Tma: _of_tma,
    Block: _of_block,
}  # fmt: skip


def _kind(ref: Ref, field: str) -> str:
    if field.endswith("_map") or "_map_" in field:
        return "box"
    if field.endswith(" at"):
        return "base of a function"
    return "register index" if ref.memory.space == "register" else f"{ref.memory.space} address"


def _shifted(ref: Ref) -> Iterator[tuple[str, Ref]]:
    """The reference with one more, and with one less, in one of its coordinates. No Index is a negative number."""
    for d, x in enumerate(ref.at):
        for what, changed in (("+ 1", add(x, 1)), ("- 1", sub(x, 1) if x != 0 else None)):
            if changed is not None:
                at = (*ref.at[:d], changed, *ref.at[d + 1 :])
                yield f"{ref.memory.name}[{d}] {what}", Ref(ref.memory, at)


def _displaced(ref: Ref, field: str) -> Iterator[tuple[str, str, Ref]]:
    """(kind, what, place): half an extent away, round the end, so that only the meaning is wrong; a function's base so
    for one residue of bx alone; without a swizzle."""
    for d, (x, n) in enumerate(zip(ref.at, ref.memory.shape, strict=True)):
        if not isinstance(n, int) or n < 2 or ref.memory.space == "register":
            continue
        places = [("half away", f"{ref.memory.name}[{d}] + {n // 2}", mod(add(x, n // 2), n))]
        if field.endswith(" at"):
            third = div(mod(Var("bx", 1 << 20), _RESIDUE), _RESIDUE - 1)
            places.append(("one residue", f"{ref.memory.name}[{d}]", mod(add(x, mul(third, n // 2)), n)))
        plain = _drop_swizzle(x)
        places += [("swizzle dropped", f"{ref.memory.name}[{d}]", plain)] if plain != x else []
        for kind, what, place in places:
            yield kind, f"{what} ({kind})", Ref(ref.memory, (*ref.at[:d], place, *ref.at[d + 1 :]))


def _drop_swizzle(x: Index) -> Index:
    """The expression with the left side alone of each XOR in its sum."""
    if isinstance(x, Formula) and x.symbol == "^":
        return x.args[0]  # type: ignore[no-any-return]
    if isinstance(x, Formula) and x.symbol == "+":
        return reduce(add, map(_drop_swizzle, x.args))
    return x


def _tightened(condition: Index) -> Iterator[tuple[str, Index]]:
    """The condition with one more asked of one of its comparisons: the last row left out."""
    parts = conjuncts(condition)
    for k, part in enumerate(parts):
        if isinstance(part, Formula) and part.symbol == "<":
            left, right = part.args
            yield f"{part} tightened", every(*parts[:k], less(add(left, 1), right), *parts[k + 1 :])


# ---------------------------------------------------------------- judging
def judge(spec: Spec, plan: Plan, mutant: Mutant) -> Verdict:
    """What the proofs say of a mutant, and of one that passes them whether it is the same kernel."""
    found = proof_code(lambda: prove(spec, mutant.plan))
    run = proof_code(lambda: [check_run(spec, mutant.plan, run) for run in list_runs(spec, mutant.plan)])
    if found or mutant.kind not in EQUIVALENT:
        return Verdict(found, run)
    cases = [(corners(launch_of(spec, case).grid), case) for case in parameter_cases(spec)]
    if mutant.kind != "sync dropped":
        cases = [(every_cta(launch_of(spec, case).grid) or ctas, case) for ctas, case in cases]
    same = all(_same_images(spec, plan, mutant.plan, ctas, case) for ctas, case in cases)
    return Verdict("", run, EQUIVALENT[mutant.kind] if same else "")


def every_cta(grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """The CTAs of a grid; none of one that is too large."""
    return list(product(*map(range, grid))) if prod(grid) <= _ALL_CTAS else []  # type: ignore[arg-type]


def proof_code(proof: Callable[[], object]) -> str:
    """The code of the first thing that a proof finds; "" if it finds nothing."""
    try:
        proof()
    except ProofError as error:
        return error.diagnostics[0].code
    return ""


def _same_images(
    spec: Spec, plan: Plan, other: Plan, ctas: Sequence[tuple[int, int, int]], case: dict[str, int]
) -> bool:
    """Do both plans run without a fault and write the same elements with the same bits, whatever is read?"""
    domain = proving_domain(spec)
    for inputs in proving_inputs(spec, plan, case):
        mine, theirs = (interpret(p, ctas, inputs, case, ALL_TRIPS, domain).written for p in (plan, other))
        if mine.keys() != theirs.keys():
            return False
        if any(a.tobytes() != b.tobytes() for n in mine for a, b in zip(mine[n], theirs[n], strict=True)):
            return False
    return True
