"""Views of registers: the same registers of the same threads under other coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen import layouts
from tilegen.index import evaluate
from tilegen.scopes import SCOPES, THREAD_AXES
from tilegen.spec.data import Buffer
from tilegen.spec.findings import Flawed
from tilegen.spec.nodes import Node
from tilegen.spec.placing import MAX_REGISTER_BYTES, layout_axes, owner_scope


def check_same_registers(layout: Any, root: Buffer, threads: int, what: str, node: Node) -> None:
    """A view of registers names the same registers of the same threads, each by one element; raises TG115."""
    if owner_scope(layout) != owner_scope(root.layout):
        raise Flawed("TG115", f"{what} and '{root.name}' belong to different threads", node.mark)
    mine, others = (_registers_of(x, owner_scope(layout), threads) for x in (layout, root.layout))
    for found, name in ((mine, what), (others, f"'{root.name}'")):
        if len(np.unique(found)) < len(found):
            message = f"two elements of {name} lie in one register of a thread, so none has a place that it keeps"
            raise Flawed("TG115", message, node.mark, "a view of registers under another layout is one-to-one")
    if not np.array_equal(np.sort(mine), np.sort(others)):
        message = f"{what} names other registers than '{root.name}': its threads, or the registers of one, differ"
        raise Flawed("TG115", message, node.mark, "each thread keeps its registers, and only their coordinates change")


def _registers_of(layout: Any, scope: str, threads: int) -> Any:
    """Every (thread, register) that an element or a copy of it lies in, as one number each, in no order."""
    tile = layouts.tile_of(layout)
    whole = layouts.TileLayout((*tile.shard, *tile.replica), (), tile.offset)
    count = int(evaluate(layouts.size(whole), {}))
    place = whole.place([np.arange(count)], (count,))
    registers = place.get("m", 0) if (finish := layouts.finish_of(layout)) is None else finish(place.get("m", 0))
    named = sorted({axis for axis in layout_axes(layout) if axis != "m"}, key=list(THREAD_AXES).index)
    thread = sum((np.asarray(place.get(axis, 0)) * THREAD_AXES[axis].unit for axis in named), np.zeros(count, np.int64))
    rest = _threads_beside(named, SCOPES[scope].size(threads))
    held = np.add.outer(np.broadcast_to(thread, count), rest)
    return (held * (MAX_REGISTER_BYTES + 1) + np.broadcast_to(registers, count)[:, None]).ravel()


def _threads_beside(named: list[str], threads: int) -> Any:
    """The threads of an instance that are 0 on every named axis: all of them hold what the axes say."""
    number = np.arange(threads)
    for axis in named:
        row = THREAD_AXES[axis]
        at = number // row.unit
        number = number[(at % (row.span // row.unit) if row.span else at) == 0]
    return number
