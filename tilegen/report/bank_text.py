"""One access drawn: a grid of 32 banks per phase for shared memory, a list of sectors for global memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilegen.access import BANK_BYTES, BANKS, LINE_BYTES, SECTOR_BYTES
from tilegen.cost.cp_async import CP_ASYNC
from tilegen.describe import count_words, printable
from tilegen.report.table import draw_table, lane_ranges
from tilegen.report.text import KINDS

Data = Mapping[str, Any]


def access_text(shown: Data) -> str:
    """The page of one access: what it is, where it was looked at, and the drawing."""
    what = f"{shown['space']} {KINDS[shown['kind']]} of {shown['buffer']}"
    lines = [
        f"access #{shown['access']} of {shown['kernel']}: {what}, "
        f"{count_words(shown['width_bytes'], 'byte', 'bytes')} a {'row' if shown['kind'] == 'tma' else 'lane'}",
        printable(f"op {shown['op']}: {shown['text']} ({shown['variant']})"),
    ]
    cta = ", ".join(map(str, shown["cta"]))
    if shown["warp"] is None:
        return "\n".join([*lines, f"CTA ({cta}) leaves it out: no thread is active"])
    trips = "".join(f", {name} = {k}" for name, k in shown["loops"].items())
    if shown["kind"] == "tma":
        figure = "wavefronts" if shown["space"] == "shared" else "sectors"
        rows = f"{count_words(shown['rows'], 'row', 'rows')} of {shown['width_bytes']} bytes, {shown[figure]} {figure}"
        return "\n".join([*lines, f"a box that TMA moves, no lane of a warp: {rows}"])
    lines.append(f"seen in CTA ({cta}), warp {shown['warp']}{trips}")
    return "\n".join(lines + (_banks(shown) if shown["space"] == "shared" else _sectors(shown)))


def _banks(shown: Data) -> list[str]:
    merged = ", two phases served as one" if shown["merged"] else ""
    lines = [
        f"{count_words(shown['wavefronts'], 'wavefront', 'wavefronts')} in "
        f"{count_words(shown['floor'], 'phase', 'phases')}{merged}: "
        f"{count_words(shown['conflicts'], 'conflict', 'conflicts')}"
    ]
    if shown["kind"] in CP_ASYNC:
        lines.append("cp.async also depends on where it reads; the phases are those of a store of the same bytes")
    for number, phase in enumerate(shown["phases"], 1):
        lines += ["", *_phase(number, phase)]
    return [*lines, "", *_legend(shown["phases"])]


def _phase(number: int, phase: Data) -> list[str]:
    words = phase["words"]
    rows = sorted({w["word"] // BANKS for w in words})
    at = {(w["word"] // BANKS, w["bank"]): w["lanes"] for w in words}
    width = max(4, *(len(str(row * LINE_BYTES)) for row in rows))
    lines = [
        f"phase {number}: lanes {lane_ranges(phase['lanes'])}, "
        f"{count_words(phase['wavefronts'], 'wavefront', 'wavefronts')}",
        f"  {'bank':>{width}} |" + "".join(f"{bank:>2} " for bank in range(BANKS)).rstrip(),
    ]
    for row in rows:
        cells = "".join(_cell(at.get((row, bank), ())) for bank in range(BANKS))
        lines.append(f"  {row * LINE_BYTES:>{width}} |{cells}".rstrip())
    if phase["wavefronts"] > 1:
        filled = [sum((row, bank) in at for row in rows) for bank in range(BANKS)]
        lines.append(f"  {'sum':>{width}} |" + "".join(f"{n:>2} " if n else " . " for n in filled).rstrip())
    return lines


def _cell(lanes: Sequence[int]) -> str:
    """The lane that touches a word; + where more lanes do."""
    return f"{lanes[0]:>2}{'+' if len(lanes) > 1 else ' '}" if lanes else " . "


def _legend(phases: Sequence[Data]) -> list[str]:
    lines = [f"a row is {LINE_BYTES} bytes of the buffer from the byte at its left; a cell is the lane of that word"]
    if any(len(w["lanes"]) > 1 for phase in phases for w in phase["words"]):
        lines.append(f"+  more lanes touch the same {BANK_BYTES}-byte word: no conflict")
    if any(phase["wavefronts"] > 1 for phase in phases):
        lines.append("sum  distinct words of a bank: the largest is the phase's wavefronts")
    return lines


def _sectors(shown: Data) -> list[str]:
    rows = [
        (str(s["sector"] * SECTOR_BYTES), lane_ranges(s["lanes"]), f"{s['bytes']} of {SECTOR_BYTES}")
        for s in shown["touched"]
    ]
    return [
        f"{count_words(shown['sectors'], 'sector', 'sectors')} for {shown['bytes']} bytes, "
        f"which {count_words(shown['floor'], 'sector', 'sectors')} could hold",
        "",
        *draw_table(("from byte", "lanes", "bytes used"), rows, 2, "  "),
    ]
