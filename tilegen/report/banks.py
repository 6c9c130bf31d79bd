"""One access of a kernel in full: which lane of a warp touches which bank and word, or which sector; and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tilegen import access
from tilegen.access import BANK_BYTES, BANKS, LINE_BYTES, RED, SECTOR_BYTES, BankTable
from tilegen.cost.accesses import Access
from tilegen.cost.asynchronous import CP_ASYNC, TMA, WHOLE, count_cp_async, floor_cp_async
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.count import WarpOffsets, count_access, first_warp_offsets
from tilegen.decisions import COLUMNS, count_words, draw_table, printable, wrap_line
from tilegen.plan import Launch, Plan
from tilegen.report.text import KINDS, lane_ranges
from tilegen.spaces import SPACES

Data = Mapping[str, Any]
_CHUNK = 16  # bytes that a swizzle leaves together


def numbered_accesses(plan: Plan) -> list[Access]:
    """The accesses of a plan in the order in which explain lists them, op by op."""
    found = compiled_accesses(plan)
    return [a for k in range(len(plan.operations)) for a in found if a.op == k]


def explain_access(plan: Plan, launch: Launch, number: int) -> dict[str, Any]:
    """Access ``number`` (from 1) of the first warp of the interior CTA that carries it out, at the first loop step.

    Shared: phases of {lanes, wavefronts, words: [{bank, word, lanes}]}, words counted from the start of the buffer.
    Global: sectors of {sector, lanes, bytes}. The phases of cp.async are those of a store. TMA's boxes and the
    matrices of wgmma and tcgen05 have only rows, and in shared memory ``runs`` of [first byte, bytes], row after row.
    Raises ValueError for a number that explain does not list.
    """
    accesses = numbered_accesses(plan)
    if not 1 <= number <= len(accesses):
        raise ValueError(f"{plan.name} has accesses 1 to {len(accesses)}, not {number}")
    a = accesses[number - 1]
    first = first_warp_offsets(a, launch, launch.interior)
    operation = plan.operations[a.op]
    head = {
        "kernel": plan.name, "arch": plan.arch, "access": number, "op": a.op + 1, "text": operation.text,
        "variant": operation.variant, "buffer": a.memory.name, "space": a.memory.space, "kind": a.kind,
        "width_bytes": a.width_bytes, "cta": list(launch.interior), "warp": first.warp if first else None,
        "loops": dict(first.loops) if first else {}, "offsets": list(first.offsets) if first else [],
    }  # fmt: skip
    if first is None:
        return head
    if a.kind in WHOLE:
        return head | _box(a, launch, max(first.offsets))
    return head | (_banks(a, first) if a.memory.traits.has_banks else _sectors(a, first))


def _box(a: Access, launch: Launch, start: int) -> dict[str, Any]:
    """A box that TMA moves, or a matrix of wgmma or tcgen05: no lane touches it, so that there is no table.

    What there is are its rows, and what they count.
    """
    counted = count_access(a, launch, launch.interior)
    boxes, rows = max(1, counted.instructions), prod(n for n, _ in a.rows)
    figures: dict[str, Any] = {"rows": rows, "sectors": counted.sectors // boxes}
    if not a.memory.traits.has_banks:
        return figures
    return figures | {"wavefronts": counted.wavefronts // boxes, "runs": _runs(a, start, rows * a.width_bytes)}


def _runs(a: Access, start: int, size: int) -> list[list[int]]:
    """Where a box or a matrix lies in its buffer, which begins at a multiple of the swizzle's pattern."""
    if a.matrix is None:
        return [[start, size]]  # TMA packs the rows, and its swizzle stays inside of the box
    elements = a.matrix.offsets() if a.matrix.along == "k" else a.matrix.offsets().T
    chunks = a.matrix.swap_chunks(start + elements).ravel()[:: _CHUNK // a.matrix.elem_bytes].tolist()
    runs = [[int(chunks[0]), _CHUNK]]
    for byte in chunks[1:]:
        if byte == sum(runs[-1]):
            runs[-1][1] += _CHUNK
        else:
            runs.append([byte, _CHUNK])
    return runs


def _banks(a: Access, first: WarpOffsets) -> dict[str, Any]:
    table: BankTable = access.bank_table("st" if a.partner or a.kind == RED else a.kind, a.width_bytes, first.offsets)
    phases = [
        {
            "lanes": list(phase.lanes),
            "wavefronts": phase.wavefronts,
            "words": [
                {"bank": bank, "word": word.index, "lanes": list(word.lanes)}
                for bank, words in enumerate(phase.banks)
                for word in words
            ],
        }
        for phase in table.phases
    ]
    wavefronts, floor = table.wavefronts, len(table.phases)
    if a.partner:
        both = a.kind, a.width_bytes, np.array([first.offsets]), np.array([first.partner])
        wavefronts, floor = int(count_cp_async(*both)[0][0]), int(floor_cp_async(*both)[0])
    return {
        "wavefronts": wavefronts, "floor": floor, "conflicts": wavefronts - floor, "merged": table.merged,
        "phases": phases,
    }  # fmt: skip


def _sectors(a: Access, first: WarpOffsets) -> dict[str, Any]:
    touched: dict[int, list[int]] = {}
    for lane, offset in enumerate(first.offsets):
        if offset >= 0:
            touched.setdefault(offset // access.SECTOR_BYTES, []).append(lane)
    needed = len({offset for offset in first.offsets if offset >= 0}) * a.width_bytes
    rows = [
        {"sector": sector, "lanes": lanes, "bytes": len({first.offsets[lane] for lane in lanes}) * a.width_bytes}
        for sector, lanes in sorted(touched.items())
    ]
    sectors = len(rows)
    if a.partner:
        sectors = int(count_cp_async(a.kind, a.width_bytes, np.array([first.partner]), np.array([first.offsets]))[1][0])
    return {"sectors": sectors, "floor": -(-needed // access.SECTOR_BYTES), "bytes": needed, "touched": rows}


# ---------------------------------------------------------------- drawn: a grid of banks a phase, a list of sectors
def access_text(shown: Data) -> str:
    """The page of one access: what it is, where it was looked at, and the drawing."""
    what = f"{shown['space']} {KINDS[shown['kind']]} of {shown['buffer']}"
    lines = [
        f"access #{shown['access']} of {shown['kernel']}: {what}, "
        f"{count_words(shown['width_bytes'], 'byte', 'bytes')} a {'row' if shown['kind'] in WHOLE else 'lane'}",
        *wrap_line(printable(f"op {shown['op']}: {shown['text']} ({shown['variant']})")),
    ]
    cta = ", ".join(map(str, shown["cta"]))
    if shown["warp"] is None:
        return "\n".join([*lines, f"CTA ({cta}) leaves it out: no thread is active"])
    trips = "".join(f", {name} = {k}" for name, k in shown["loops"].items())
    if shown["kind"] in WHOLE:
        figure = SPACES[shown["space"]].figure
        rows = f"{count_words(shown['rows'], 'row', 'rows')} of {shown['width_bytes']} bytes, {shown[figure]} {figure}"
        what = "a box that TMA moves" if shown["kind"] == TMA else f"a matrix that {shown['kind']} reads"
        return "\n".join([*lines, f"{what}, no lane of a warp: {rows}"])
    lines += wrap_line(f"seen in CTA ({cta}), warp {shown['warp']}{trips}")
    return "\n".join(lines + (_bank_lines(shown) if SPACES[shown["space"]].has_banks else _sector_lines(shown)))


def _bank_lines(shown: Data) -> list[str]:
    merged = ", two phases served as one" if shown["merged"] else ""
    lines = [
        f"{count_words(shown['wavefronts'], 'wavefront', 'wavefronts')} in "
        f"{count_words(shown['floor'], 'phase', 'phases')}{merged}: "
        f"{count_words(shown['conflicts'], 'conflict', 'conflicts')}"
    ]
    if shown["kind"] in CP_ASYNC:
        lines.append("cp.async also depends on where it reads; the phases are those of a store of the same bytes")
    for number, phase in enumerate(shown["phases"], 1):
        lines += ["", *_phase_lines(number, phase)]
    return [*lines, "", *_legend(shown["phases"])]


def _phase_lines(number: int, phase: Data) -> list[str]:
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


def _sector_lines(shown: Data) -> list[str]:
    rows = [
        (str(s["sector"] * SECTOR_BYTES), lane_ranges(s["lanes"]), f"{s['bytes']} of {SECTOR_BYTES}")
        for s in shown["touched"]
    ]
    return [
        f"{count_words(shown['sectors'], 'sector', 'sectors')} for {shown['bytes']} bytes, "
        f"which {count_words(shown['floor'], 'sector', 'sectors')} could hold",
        "",
        *draw_table(("from byte", "lanes", "bytes used"), rows, 2, "  ", COLUMNS),
    ]
