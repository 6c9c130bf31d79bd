"""What else writes the arrays that a kernel reads: the kernels before it, and for tables the kernel itself."""

from __future__ import annotations

from tilegen.arch import ARCHES
from tilegen.spec.data import FollowStatement, LetStatement, RoleBlock, Spec
from tilegen.spec.findings import Findings
from tilegen.spec.outline import outline, walk_statements, written_roots
from tilegen.spec.tables import Read


def check_overlap(spec: Spec, findings: Findings) -> None:
    """Reports TG122 where 'overlap: previous' and 'wait: previous' are not both there, or cannot be."""
    waits = [s for s in walk_statements(spec.ops) if isinstance(s, FollowStatement)]
    if not spec.overlaps:
        for wait in waits:
            message = "'wait: previous' in a kernel that starts when the one before it has ended"
            findings.report("TG122", message, wait.mark, "add 'overlap: previous', or leave it out")
        return
    if "dependent_launch" not in ARCHES[spec.arch].features:
        message = f"{spec.arch} has no dependent launch"
        findings.report("TG122", message, spec.overlaps_mark, "it came with sm_90")
    if not waits:
        message = "'overlap: previous', and nothing waits for the kernels before"
        findings.report("TG122", message, spec.overlaps_mark, "write '- wait: previous' before what touches arrays")


def check_tables(spec: Spec, findings: Findings) -> None:
    """Reports TG126 for a table that the kernel writes, TG440 for one that is read before ``wait: previous``."""
    written, waited = written_roots(spec), set[str]()
    for placed in outline(spec).placed:
        s = placed.statement
        if isinstance(s, FollowStatement):
            is_always = all(isinstance(nest, RoleBlock) for nest in placed.around)
            waited |= {placed.role} if is_always else set()
        for _, read in s.entries if isinstance(s, LetStatement) else ():
            if not isinstance(read, Read):
                continue
            if read.array in written:
                message = f"a let reads '{read.array}', and the kernel writes it"
                findings.report("TG126", message, read.mark, "a kernel before this one may write it")
            if spec.overlaps and waited.isdisjoint(("", placed.role)):
                message = f"a let reads '{read.array}' while the kernel before may still write it"
                findings.report("TG440", message, read.mark, "write '- wait: previous' before the let")
