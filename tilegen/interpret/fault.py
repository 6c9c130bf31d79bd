"""What the interpreter finds wrong with a plan: one frozen Fault, carried by the ProofError that reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilegen.errors import Diagnostic, ProofError

OUT_OF_BOUNDS = "TG401"
MISALIGNED = "TG402"
RACE = "TG403"
UNWRITTEN = "TG404"
TWO_CTAS = "TG405"
PARTIAL_SYNC = "TG406"
REGISTER_INDEX = "TG407"
SAME_STEP = "TG408"
OVERFLOW = "TG409"
RANGE = "TG410"
DISAGREE = "TG411"
MALFORMED = "TG412"
DEADLOCK = "TG413"
IN_FLIGHT = "TG422"
NEVER_AWAITED = "TG423"
UNFENCED = "TG424"
MISCOUNTED = "TG425"
PHASE_UNKNOWN = "TG434"
ENDED = "TG435"
REGISTERS_IN_FLIGHT = "TG438"
REGISTERS_UNFENCED = "TG439"
BEFORE_PREVIOUS = "TG440"
NO_NUMBER = "TG445"


@dataclass(frozen=True)
class Fault:
    """One fault: ``message`` says what and where; the other fields say it to programs.

    ``op`` is the plan's operation that met the fault and ``other_op`` the one that it clashes with (-1: none).
    ``needs_sync`` is the narrowest scope whose sync between the two would order them ("": no sync would); ``insert``
    are the statements of a spec that would, in their order. ``barrier`` names the mbarrier that a thread waits for.
    """

    code: str
    message: str
    op: int = -1
    other_op: int = -1
    needs_sync: str = ""
    insert: tuple[str, ...] = ()
    barrier: str = ""
    cta: tuple[int, ...] | None = None
    warp: int = -1
    lane: int = -1
    loops: Mapping[str, int] = field(default_factory=dict, hash=False)


class Unsteady(Exception):
    """Trips of a loop cannot be left out: what is in flight at its boundary is not the same from period to period."""


class FaultFound(ProofError):
    """The interpreter stopped at a fault (``fault``)."""

    def __init__(self, fault: Fault):
        self.fault = fault
        super().__init__(Diagnostic(fault.code, fault.message))

    def __reduce__(self) -> tuple[type[FaultFound], tuple[Fault]]:
        """As another process takes it."""
        return FaultFound, (self.fault,)
