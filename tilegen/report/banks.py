"""One access of a kernel in full, as JSON data: which lane of a warp touches which bank and word, or which sector."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilegen import access
from tilegen.access import BankTable
from tilegen.cost.accesses import Access, accesses_of
from tilegen.cost.boxes import TMA
from tilegen.cost.count import WarpOffsets, count_access, first_warp_offsets
from tilegen.cost.cp_async import count_cp_async, floor_cp_async
from tilegen.plan import Launch, Plan


def numbered_accesses(plan: Plan) -> list[Access]:
    """The accesses of a plan in the order in which explain lists them, op by op."""
    found = accesses_of(plan)
    return [a for k in range(len(plan.operations)) for a in found if a.op == k]


def explain_access(plan: Plan, launch: Launch, number: int) -> dict[str, Any]:
    """Access ``number`` (from 1) of the first warp of the interior CTA that carries it out, at the first loop step.

    Shared: phases of {lanes, wavefronts, words: [{bank, word, lanes}]}, words counted from the start of the buffer.
    Global: sectors of {sector, lanes, bytes}. The phases of cp.async are those of a store; TMA's boxes have only rows.
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
    if a.kind == TMA:
        return head | _box(a, launch)
    return head | (_banks(a, first) if a.memory.space == "shared" else _sectors(a, first))


def _box(a: Access, launch: Launch) -> dict[str, Any]:
    """A box that TMA moves: no lane touches it, so there is no table, only its rows and what they count."""
    counted = count_access(a, launch, launch.interior)
    boxes, rows = max(1, counted.instructions), prod(n for n, _ in a.rows)
    figure = {"wavefronts": counted.wavefronts // boxes} if a.memory.space == "shared" else {}
    return {"rows": rows, "sectors": counted.sectors // boxes} | figure


def _banks(a: Access, first: WarpOffsets) -> dict[str, Any]:
    table: BankTable = access.bank_table("st" if a.partner else a.kind, a.width_bytes, first.offsets)
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
