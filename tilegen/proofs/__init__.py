"""Proofs: every access in range and aligned, no element with two owners, what is written is what the spec means."""

from tilegen.proofs.finding import Finding
from tilegen.proofs.meetings import unproven_meetings
from tilegen.proofs.owned_boxes import Owned
from tilegen.proofs.partition import check_partition, find_unowned
from tilegen.proofs.prove import Proof, RanWith, may_take_long, prove
from tilegen.proofs.ranges import unproven_ranges

__all__ = [
    "Finding", "Owned", "Proof", "RanWith", "check_partition", "find_unowned", "may_take_long", "prove",
    "unproven_meetings", "unproven_ranges",
]  # fmt: skip
