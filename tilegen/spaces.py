"""Where values lie: the memory spaces, and what is asked of each.

A buffer of a spec names its space as ``scope``, a memory of a plan as ``space``; both have the row as ``traits``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

SECTORS, WAVEFRONTS = "sectors", "wavefronts"  # what the accesses of a warp are counted in


@dataclass(frozen=True)
class Space:
    """A memory space.

    ``words`` name it in messages. ``owner``: whose a memory of it is, a thread's, a CTA's or the grid's; nobody else
    addresses it, and it is gone with its owner. ``state`` is the state space in which instructions address it, a name
    of PTX (``plan/instructions.py`` says which take it). ``figure``: what accesses are counted in, "" where they meet
    neither banks nor sectors. ``align_bytes``: memories are allocated in units of so many bytes, and begin at a
    multiple of them; 0 where the buffer says what they begin at.

    ``is_pooled``: all memories lie in one array of bytes, where tilegen places them, two of them on the same bytes if
    it is asked to. ``is_passed``: the launcher passes a pointer. ``is_callers``: contents, layout and promises of the
    values are the caller's. ``has_cells``: elements lie in lanes and columns, and no byte addresses them.
    """

    name: str
    words: str
    owner: str
    state: str
    figure: str = ""
    align_bytes: int = 0
    is_pooled: bool = False
    is_passed: bool = False
    is_callers: bool = False
    has_cells: bool = False

    @cached_property
    def is_held(self) -> bool:
        """Does each thread hold elements of its own, which have no address and whose owners the layout says?"""
        return self.owner == "thread"

    @cached_property
    def is_array(self) -> bool:
        """Is a memory an array of the grid, of which a CTA takes parts?

        Its extents may be known at launch alone, a region may pass its ends, other CTAs and kernels touch it.
        """
        return self.owner == "grid"

    @cached_property
    def is_brought(self) -> bool:
        """Does the launcher bring a memory, which holds nothing of anybody before, and nothing afterwards?"""
        return self.is_array and not self.is_callers

    @cached_property
    def has_sectors(self) -> bool:
        """Do accesses go through the L2 cache, sector by sector?"""
        return self.figure == SECTORS

    @cached_property
    def has_banks(self) -> bool:
        """Do accesses meet in banks, so that layouts swizzle or pad?"""
        return self.figure == WAVEFRONTS

    def round_up(self, size_bytes: int) -> int:
        """The bytes that a memory of so many takes.

        >>> SPACES["shared"].round_up(20)
        32
        """
        return -(-size_bytes // self.align_bytes) * self.align_bytes


GLOBAL = Space("global", "global memory", "grid", "global", SECTORS, is_passed=True, is_callers=True)
WORKSPACE = Space("workspace", "a workspace", "grid", "global", SECTORS, is_passed=True)  # nobody's contents before
SHARED = Space("shared", "shared memory", "cta", "shared", WAVEFRONTS, 16, is_pooled=True)
REGISTER = Space("register", "registers", "thread", "register", align_bytes=16)  # declared for the widest access
TMEM = Space("tmem", "tensor memory", "cta", "tmem", has_cells=True)
SPACES = {space.name: space for space in (GLOBAL, WORKSPACE, SHARED, REGISTER, TMEM)}
