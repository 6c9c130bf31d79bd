"""Do two trips of a loop write an element of an array? The spec's boxes say so, those at places of tables too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilegen.plan import Plan, default_values
from tilegen.proofs.bids import MOST_BOXES
from tilegen.proofs.owned_boxes import written_boxes
from tilegen.proofs.partition import line_up
from tilegen.proofs.tables import own_by_number
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import outline


def are_owned_apart(spec: Spec, plan: Plan, array: str, loop: str, case: Mapping[str, int]) -> bool:
    """Does no CTA write an element of an array in two trips of a loop, nor outside of it? False, too, if not known.

    Boxes at places of tables are compared by the numbers of their elements, as they are for owners. Loops of one name
    are several: what two of them write is not told apart.
    """
    by_number = own_by_number([o for o in written_boxes(spec) if o.memory.name == array])
    writers = {box.op for box in by_number.boxes}
    around = [p.meant.loops for p in outline(spec).placed if isinstance(p.statement, Call) and p.number in writers]
    loops = {one.number for own in around for one in own if one.trip.name == loop}
    if by_number.wrong or len(loops) != 1:
        return False
    lined = line_up(plan, by_number.boxes, default_values(plan.params) | dict(case), MOST_BOXES)
    if isinstance(lined, str) or not all(loop in bid.axes for bid in lined.bids):
        return False
    cells, trip = lined.cells, np.zeros(len(lined.cells.cell), np.int64)
    for n, bid in enumerate(lined.bids):
        inner = [extent for _, extent in [*bid.axes.items()][[*bid.axes].index(loop) + 1 :]]
        own = cells.bid == n
        trip[own] = cells.trip[cells.box[own]] // int(np.prod(inner, dtype=np.int64)) % bid.axes[loop]
    order = np.lexsort((trip, cells.cta, cells.cell))
    cell, cta, trip = cells.cell[order], cells.cta[order], trip[order]
    return not bool(np.any((cell[1:] == cell[:-1]) & (cta[1:] == cta[:-1]) & (trip[1:] != trip[:-1])))
