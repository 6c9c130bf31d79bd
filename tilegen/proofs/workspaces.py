"""What a pass of a program reads was written: of a workspace by a pass before it, whole, under the same condition.

Or by the CTA itself, where no pass before writes the workspace: then it holds nothing in the runs of the pass, and a
read of what the CTA has not written is a fault there (TG404). What another CTA writes is refused for the whole grid
(TG405).
A pass is proved for all that a workspace may hold, as for any array that it reads, and its proof counts the owners of
what it writes. So equal values compose: what is left to ask is that every element that a pass reads has a writer.

Outputs likewise: an array that the passes write before any reads it belongs to the program, not to the caller. At every
size a pass that writes it is launched before each that reads it, and before the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen.errors import Diagnostic, Mark, ProofError
from tilegen.index import Index, any_of, not_, to_c, variables
from tilegen.index.outcomes import find_outcomes
from tilegen.plan import Plan, arrays
from tilegen.proofs.boundary_sizes import say_case
from tilegen.proofs.finding import NO_OWNER
from tilegen.proofs.prove import Proof
from tilegen.proofs.written_parts import is_part_written
from tilegen.spec.data import Buffer, Call
from tilegen.spec.outline import outline
from tilegen.spec.program import Pass, Program


def check_written(program: Program, proved: Sequence[tuple[Plan, Proof]]) -> None:
    """Raises ProofError: TG429 for each workspace of which a pass reads what no pass before it has surely written,
    TG418 for each output that some launch leaves unwritten.
    """
    errors = list[Diagnostic]()
    for at, (one, (plan, _)) in enumerate(zip(program.passes, proved, strict=True)):
        for memory in arrays(plan):
            is_own = memory.is_unwritten and memory.access == "inout"  # what it reads it wrote: its runs show that
            if one.spec.buffer(memory.name).traits.is_brought and memory.access != "out" and not is_own:
                before = list(zip(program.passes[:at], proved[:at], strict=True))
                errors += _find_unwritten(one, memory.name, before)
    for buffer in program.arrays:
        if not buffer.partial:
            errors += _find_left_out(program, buffer, [plan for plan, _ in proved])
    if errors:
        raise ProofError(errors)


def _find_unwritten(
    reader: Pass, name: str, before: Sequence[tuple[Pass, tuple[Plan, Proof]]]
) -> Iterator[Diagnostic]:  # fmt: skip
    """What is wrong with a pass that reads a workspace; nothing where one pass before it writes all of it."""
    reasons: list[str] = []
    hint = f"write all of '{name}' in a pass before '{reader.name}'"
    for writer, (plan, proof) in before:
        if not any(m.name == name and m.access != "in" for m in arrays(plan)):
            continue
        unwritten = dict(proof.unwritten)
        if name in unwritten and is_part_written(writer.spec, plan, reader.spec, name):
            unwritten = {}
        if name in unwritten:
            reasons.append(f"pass '{writer.name}' {unwritten[name]}")
        elif writer.when is not True and writer.when != reader.when:
            reasons.append(f"pass '{writer.name}' {_say_launched(writer)}")
            hint = f"give pass '{reader.name}' the same 'when'"
        else:
            return
    written_by_itself = any(r.buffer.root == name for call in outline(reader.spec).calls for r in call.written)
    if not reasons:
        reasons.append("only this pass writes it" if written_by_itself else "no pass before it writes it")
    message = f"pass '{reader.name}' reads the workspace '{name}', but {'; '.join(reasons)}"
    yield Diagnostic("TG429", message, _find_reading(reader, name), hint)


def _find_reading(reader: Pass, name: str) -> Mark | None:
    """Where a pass reads a workspace first."""
    calls: Sequence[Call] = outline(reader.spec).calls
    marks = (r.mark or call.mark for call in calls for r in call.read if r.buffer.root == name)
    return next(marks, reader.mark)


# ---------------------------------------------------------------- outputs
def _find_left_out(program: Program, buffer: Buffer, plans: Sequence[Plan]) -> Iterator[Diagnostic]:
    """What is wrong with an array that a pass writes before any reads it: the first reader, or the end of a launch,
    that may come before a pass that wrote the array. Nothing of an array that the caller fills.
    """
    written = list[Pass]()
    hint = f"let a pass without 'when' write '{buffer.name}' first, or say 'partial: true' on the buffer"
    for one, plan in zip(program.passes, plans, strict=True):
        access = next((m.access for m in arrays(plan) if m.name == buffer.name), "")
        if access == "out":
            written.append(one)
        elif access and not written:
            return
        elif access and (why := _say_unlaunched(written, not_(one.when))):
            yield Diagnostic(NO_OWNER, f"pass '{one.name}' reads '{buffer.name}', but {why}", one.mark, hint)
            return
    if written and (why := _say_unlaunched(written, False)):
        yield Diagnostic(NO_OWNER, f"a launch may leave '{buffer.name}' unwritten: {why}", buffer.mark, hint)


def _say_unlaunched(written: Sequence[Pass], needless: Index) -> str:
    """When none of the passes is launched, and ``needless`` does not hold; "" where one of them always is."""
    whens = (needless, *(one.when for one in written))
    holds = any_of(*whens)
    if holds is True or any(not_(when) in whens for when in whens):
        return ""
    said = ", ".join(f"pass '{one.name}' {_say_launched(one)}" for one in written)
    names = sorted(variables(holds), key=lambda v: v.name)
    outcomes = find_outcomes([holds], [], names) if names else None
    if outcomes is None:
        return said
    if outcomes.undecided or not outcomes.are_all:
        return f"{said}, and nothing shows that this is always so"
    sizes = [shown[0] for (one,), shown in zip(outcomes.rows.tolist(), outcomes.shown, strict=True) if not one]
    case = {v.name: int(n) for v, n in zip(names, sizes[0], strict=True)} if sizes else {}
    return f"with {say_case(case)} {said}" if sizes else ""


def _say_launched(one: Pass) -> str:
    return "is never launched" if one.when is False else f"is launched only where {to_c(one.when)}"
