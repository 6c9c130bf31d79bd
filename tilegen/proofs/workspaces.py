"""What a pass of a program reads of a workspace was written: whole, by a pass before it, under the same condition.

Or by the CTA itself, where no pass before writes the workspace: then it holds nothing in the runs of the pass, and a
read of what the CTA has not written is a fault there (TG404). What another CTA writes is refused for the whole grid
(TG405).
A pass is proved for all that a workspace may hold, as for any array that it reads, and its proof counts the owners of
what it writes. So equal values compose: what is left to ask is that every element that a pass reads has a writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen.errors import Diagnostic, Mark, ProofError
from tilegen.index import to_c
from tilegen.plan import Plan, arrays
from tilegen.proofs.prove import Proof
from tilegen.spec.data import Call
from tilegen.spec.outline import outline
from tilegen.spec.program import Pass, Program


def check_workspaces(program: Program, proved: Sequence[tuple[Plan, Proof]]) -> None:
    """Raises ProofError TG429 for each workspace of which a pass reads what no pass before it has surely written."""
    errors = list[Diagnostic]()
    for at, (one, (plan, _)) in enumerate(zip(program.passes, proved, strict=True)):
        for memory in arrays(plan):
            is_own = memory.is_unwritten and memory.access == "inout"  # what it reads it wrote: its runs show that
            if one.spec.buffer(memory.name).traits.is_brought and memory.access != "out" and not is_own:
                before = list(zip(program.passes[:at], proved[:at], strict=True))
                errors += _find_unwritten(one, memory.name, before)
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
        if name in unwritten:
            reasons.append(f"pass '{writer.name}' {unwritten[name]}")
        elif writer.when is not True and writer.when != reader.when:
            where = "is never launched" if writer.when is False else f"is launched only where {to_c(writer.when)}"
            reasons.append(f"pass '{writer.name}' {where}")
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
