"""A row of the table of instructions: which opcodes it reads, where PTX defines them, and what carries them out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilegen.ptx.machine import Machine
from tilegen.ptx.state import Lanes
from tilegen.ptx.text import Instruction

Step = Callable[[Lanes], Any]
# Made once for each instruction of a kernel: operands are looked up then, and a step carries it out for some lanes.
Build = Callable[[Machine, Instruction, "re.Match[str]"], Step]
LANES, WARPS, WARPGROUPS, CONTROL = "lanes", "warps", "warpgroups", "control"


@dataclass(frozen=True)
class Row:
    """``pattern`` matches the whole opcode. ``section``: of the PTX ISA 9.0, with the instruction's name.

    ``who``: each lane by itself, whole warps or warpgroups together, or ``CONTROL``: lanes that may have to wait.
    """

    pattern: re.Pattern[str]
    section: str
    build: Build
    who: str = LANES


def row(pattern: str, section: str, build: Build, who: str = LANES) -> Row:
    """A row of the table, its pattern without spaces."""
    return Row(re.compile(re.sub(r"\s+", "", pattern)), section, build, who)
