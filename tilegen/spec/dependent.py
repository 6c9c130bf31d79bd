"""Dependent launch: a kernel that starts while the one before it still runs, and waits before it touches arrays."""

from __future__ import annotations

from tilegen.arch import ARCHES
from tilegen.spec.data import FollowStatement, Spec
from tilegen.spec.findings import Findings
from tilegen.spec.outline import walk_statements


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
