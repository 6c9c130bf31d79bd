"""What a proof has to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNPROVEN_RANGE = "TG414"
UNPROVEN_ALIGNMENT = "TG415"
UNPROVEN_CLAIM = "TG416"
TWO_OWNERS = "TG417"
NOT_PARTITIONED = "TG418"
NO_OWNER = "TG419"


@dataclass(frozen=True)
class Finding:
    """What could not be proved. ``witness``: values of the variables for which it is really wrong, where found."""

    code: str
    message: str
    severity: str = "error"  # error | note
    op: int = -1
    memory: str = ""
    dimension: int = -1
    expression: str = ""
    extent: str = ""
    witness: Mapping[str, int] | None = field(default=None, hash=False)
