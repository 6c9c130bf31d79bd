"""How a scan of whole arrays is carried out: threads, lines and elements that a CTA takes, and in how many passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.access import WARP_LANES
from tilegen.arch import Arch
from tilegen.arch.data import typical_device
from tilegen.decisions import Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, SpecError
from tilegen.index import evaluate
from tilegen.ops.scan_array.problem import WholeScan
from tilegen.spec.data import WholeCall

_THREADS = 256
_WIDEST = 16  # bytes that a thread reads at once
_AHEAD, _AHEAD_BYTES = 8, 128  # parts that a thread loads before it scans the first, and bytes of all of them
_MOST_THREADS = 1024  # of a CTA, where there are fewer lines than multiprocessors
_DOWN_THREADS, _OWN, _OWN_BYTES = 512, 16, 64  # where columns are scanned: and what a thread owns of one
_RUN = 128  # bytes of a row that neighbouring threads read, where columns are scanned
_FEWEST_OF_ANY = 4096  # elements at a time of few lines, where their length is known at the launch alone
_FEWEST_CHUNKS = 4  # of a line that CTAs share


@dataclass(frozen=True)
class ScanRecipe:
    """A CTA takes chunks of ``elements`` of ``kept`` lines. ``passes``: 1 or 3.

    In one pass it loads ``ahead`` chunks before it scans the first. Of three passes each has one, in so many parts.
    """

    threads: int
    kept: int
    elements: int
    ahead: int = 1
    passes: int = 1

    def __str__(self) -> str:
        lines = f"{self.kept} lines" if self.kept > 1 else "a line"
        return f"chunks of {self.elements} elements of {lines}, {self.threads} threads"


def choose_recipe(call: WholeCall, problem: WholeScan, defaults: Mapping[str, int], arch: Arch) -> ScanRecipe:
    """The recipe for the sizes at the defaults of params. Raises SpecError (TG302) for pins that cannot be.

    One kernel where there are lines for all multiprocessors, else three passes.
    """
    pinned, passes = call.fields.threads, call.fields.passes
    shared = choose_shared(problem, defaults, pinned)
    kept, line = _sizes(problem, defaults)
    if passes == "auto":
        ctas = -(-kept // shared.kept)
        is_long = line >= _FEWEST_CHUNKS * shared.elements
        passes = 3 if is_long and ctas < typical_device(arch.name).sm_count else 1
    elif passes == 3 and isinstance(problem.line, int) and line <= shared.elements:
        message = f"'passes: 3' of lines of {line} elements: a CTA takes {shared.elements} at a time, so none is shared"
        raise SpecError(Diagnostic("TG302", message, call.mark_of("passes"), "take 'passes: 1'"))
    return shared if passes == 3 else choose_own(problem, defaults, arch, pinned)


def _sizes(problem: WholeScan, defaults: Mapping[str, int]) -> tuple[int, int]:
    kept, line = (max(1, int(evaluate(n, dict(defaults)))) for n in (problem.kept, problem.line))
    return kept, line


def choose_shared(problem: WholeScan, defaults: Mapping[str, int], pinned: int | None = None) -> ScanRecipe:
    """The recipe of three passes: CTAs take a chunk each."""
    if problem.is_along:
        threads, ahead = pinned or _THREADS, _most_ahead(problem)
        return ScanRecipe(threads, 1, threads * _width(problem) * ahead, ahead, passes=3)
    threads = pinned or _DOWN_THREADS
    wide = _choose_width(problem, defaults, threads)
    return ScanRecipe(threads, wide, threads * _most_own(problem) // wide, passes=3)


def choose_own(
    problem: WholeScan, defaults: Mapping[str, int], arch: Arch, pinned: int | None = None
) -> ScanRecipe:  # fmt: skip
    """The recipe of one kernel: a CTA has whole lines, several where they are short."""
    kept, line = _sizes(problem, defaults)
    width = _width(problem)
    if not problem.is_along:
        threads = pinned or _DOWN_THREADS
        wide = _choose_width(problem, defaults, threads)
        elements = min(_next_power(line), threads * _most_own(problem) // wide)
        return ScanRecipe(pinned or max(WARP_LANES, min(threads, wide * elements)), wide, elements)
    is_idle = kept < typical_device(arch.name).sm_count
    line = max(line, _FEWEST_OF_ANY) if is_idle and not isinstance(problem.line, int) else line
    threads = pinned or (min(_MOST_THREADS, max(WARP_LANES, _next_power(line) // width)) if is_idle else _THREADS)
    chunk = min(threads * width, max(width, _next_power(line)))
    rows = min(_next_power(kept), threads * width // chunk)
    threads = pinned or max(WARP_LANES, rows * chunk // width)
    return ScanRecipe(threads, rows, chunk, min(_most_ahead(problem), -(-line // chunk)))


def _width(problem: WholeScan) -> int:
    """Elements that a thread reads at once."""
    return max(1, _WIDEST // DTYPES[problem.src.dtype].bytes)


def _most_ahead(problem: WholeScan) -> int:
    return max(1, min(_AHEAD, _AHEAD_BYTES // (_width(problem) * DTYPES[problem.sums].bytes)))


def _most_own(problem: WholeScan) -> int:
    return min(_OWN, _OWN_BYTES // problem.most_bytes)


def _choose_width(problem: WholeScan, defaults: Mapping[str, int], threads: int) -> int:
    """Columns of a CTA: a run of bytes in memory, or all."""
    kept, _ = _sizes(problem, defaults)
    return min(_next_power(kept), max(1, _RUN // DTYPES[problem.src.dtype].bytes), threads)


def _next_power(n: int) -> int:
    return 1 << (n - 1).bit_length()


def describe_choice(call: WholeCall, recipe: ScanRecipe) -> Choice:
    """What ``explain`` says of it."""
    picked: dict[str, Any] = {"threads": recipe.threads, "box": [recipe.kept, recipe.elements], "passes": recipe.passes}
    pinned = [name for name, free in (("threads", None), ("passes", "auto")) if getattr(call.fields, name) != free]
    why = "lines and elements of each that a CTA takes at a time; three passes where there are few lines, each long"
    return Choice("scan_array", picked, (), f"{why}; pinned: {', '.join(pinned)}" if pinned else why)
