"""What each thread holds of a matrix in registers, in numbers: layouts of one function are equal here, whatever they
are written as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilegen.index import Index
from tilegen.layouts import Iter, TileLayout, tile_of
from tilegen.ops.operand import Operand, Refused, parts_of
from tilegen.scopes import THREAD_AXES
from tilegen.spec.data import Region

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Held:
    """The registers of a region: ``elements`` (threads, registers), as row * columns + column, -1 where there is none.

    Threads count from the first of an instance, registers from ``base``, that of the region's first element.
    """

    operand: Operand
    shape: tuple[int, int]
    elements: Numbers
    base: Index


def matrix_of(region: Region) -> tuple[int, int]:
    """The two dimensions of a buffer that a region keeps: its rows and columns."""
    rows, columns = (d for d, kept in enumerate(region.kept) if kept)
    return rows, columns


def shape_of_matrix(region: Region) -> tuple[int, int]:
    """Its rows and columns, in elements."""
    rows, columns = matrix_of(region)
    return region.lengths[rows], region.lengths[columns]


def find_places(operand: Operand) -> dict[str, Numbers]:
    """How far behind the first element of a matrix each lies, by axis, shape (rows, columns); axes that move none left
    out.

    Raises Refused for a region that cuts across the iters of the layout.
    """
    shape = shape_of_matrix(operand.region)
    return {axis: place.reshape(shape) for axis, place in find_region_places(operand).items()}


def find_region_places(operand: Operand) -> dict[str, Numbers]:
    """The same of a region of any dimensions, of the shape of those that are longer than 1. Raises Refused."""
    shape = tuple(int(n) for n in operand.lengths)
    at = np.indices(shape, np.int64)
    places: dict[str, Numbers] = {}
    for k, parts in enumerate(parts_of(operand)):
        for p in parts:
            if not isinstance(p.stride, int):
                raise Refused(
                    f"the region {operand.region.text} cuts across the iters of {operand.buffer.name}'s layout"
                )
            places[p.axis] = places.get(p.axis, np.zeros(shape, np.int64)) + at[k] // p.weight % p.extent * p.stride
    return places


def hold(operand: Operand, threads: int) -> Held:
    """What each of an instance's threads holds. Raises Refused where that is not the same wherever the region begins.

    ``threads`` of one instance of the op's scope.
    """
    region, buffer = operand.region, operand.buffer
    shape, places = shape_of_matrix(region), find_places(operand)
    begin = buffer.layout.place(region.begins, buffer.counted_shape)
    base, register = begin.pop("m", 0), places.pop("m", np.zeros(shape, np.int64))
    thread = np.zeros(shape, np.int64)
    for axis in {*places, *begin}:
        first = begin.get(axis, 0)
        if not isinstance(first, int):
            raise Refused(f"the region {region.text} moves along the thread axis {axis} by {first}")
        thread = thread + (places.get(axis, 0) + first) * THREAD_AXES[axis].unit
    replica = tile_of(buffer.layout).replica
    return Held(operand, shape, _scatter(buffer.name, replica, thread, register, threads), base)


def table_of(layout: TileLayout, shape: tuple[int, int], threads: int) -> Numbers | None:
    """The elements of a matrix under a layout, as those of a Held; None where its threads are not so many.

    >>> table_of(TileLayout((Iter(2, 1, "laneid"), Iter(2, 1))), (2, 2), 2).tolist()
    [[0, 1], [2, 3]]
    """
    place = layout.place(tuple(np.indices(shape, np.int64)), shape)
    register = np.broadcast_to(np.asarray(place.pop("m", 0), np.int64), shape)
    thread = np.broadcast_to(
        sum((x * THREAD_AXES[axis].unit for axis, x in place.items()), np.zeros(shape, np.int64)), shape
    )
    try:
        return _scatter("a layout", layout.replica, thread, register, threads)
    except Refused:
        return None


def _scatter(name: str, replica: Sequence[Iter], thread: Numbers, register: Numbers, threads: int) -> Numbers:
    """The table of (thread, register) from those of every element, and of its copies. Raises Refused."""
    copies = np.zeros(1, np.int64)
    for i in replica:
        assert isinstance(i.extent, int) and isinstance(i.stride, int)
        copies = (copies[:, None] + np.arange(i.extent) * i.stride * THREAD_AXES[i.axis].unit).reshape(-1)
    owners = (thread.reshape(-1) + copies[:, None]).reshape(-1)
    if owners.max() >= threads:
        raise Refused(f"{name} is held by thread {owners.max()} of {threads}")
    elements = np.full((threads, int(register.max()) + 1), -1, np.int64)
    elements[owners, np.tile(register.reshape(-1), len(copies))] = np.tile(np.arange(thread.size), len(copies))
    if np.count_nonzero(elements >= 0) < owners.size:
        raise Refused(f"two elements of {name} meet in one register of a thread")
    return elements
