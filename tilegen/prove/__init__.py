"""Proofs for the whole grid: every access inside its memory and aligned, no element of an output with two owners."""

from tilegen.prove.finding import Finding
from tilegen.prove.partition import check_partition
from tilegen.prove.ranges import unproven_ranges

__all__ = ["Finding", "check_partition", "unproven_ranges"]
