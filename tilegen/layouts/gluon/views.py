"""The two pictures that Gluon prints of a layout, from its bases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.layouts.core.iters import flatten, split
from tilegen.layouts.linear.values import LinearLayout


def tensor_view(linear: LinearLayout) -> str:
    """Who holds each element: ``T<thread>:<register>`` of every copy, or what each offset of shared memory holds.

    One line for each row, brackets for each dimension; ``B<block>:`` comes first where there are several blocks.

    >>> layout = LinearLayout(register=[[0, 1]], lane=[[1, 0]], warp=[], block=[])
    >>> print(tensor_view(layout), end="")
    [[T0:0, T0:1]
    [ T1:0, T1:1]]
    """
    if "offset" in linear.names:
        return _bracket(_memory_entries(linear), linear.shape, ",")
    return _bracket(_owner_entries(linear), linear.shape, ", ")


def hardware_view(linear: LinearLayout) -> str:
    """What each place holds: a line for each register with the elements of all lanes, or one for each offset.

    >>> layout = LinearLayout(register=[[0, 1]], lane=[[1, 0]], warp=[], block=[])
    >>> print(hardware_view(layout), end="")
    Warp0:
    (0,0), (1,0)
    (0,1), (1,1)
    """
    return "".join(_memory_lines(linear) if "offset" in linear.names else _register_lines(linear))


def _elements(linear: LinearLayout, *names: str) -> NDArray[Any]:
    """The flat index of the element at every place, one dimension for each of the inputs ``names``."""
    counts = [linear.in_sizes.get(name, 1) for name in names]
    place = {name: x for name, x in zip(names, np.indices(counts), strict=True) if name in linear.names}
    return np.broadcast_to(flatten(linear.element(**place), linear.shape), counts)


def _owner_entries(linear: LinearLayout) -> list[str]:
    held = _elements(linear, "block", "warp", "lane", "register")
    blocks, _, lanes, _ = held.shape
    owners: list[list[str]] = [[] for _ in range(prod(linear.shape))]
    for (block, warp, lane, register), element in np.ndenumerate(held):
        prefix = f"B{block}:" if blocks > 1 else ""
        owners[element].append(f"{prefix}T{warp * lanes + lane}:{register}")
    width = max(len(name) for names in owners for name in names)
    return ["|".join(name.rjust(width) for name in names) for names in owners]


def _spell(linear: LinearLayout, flat: int, separator: str) -> str:
    pairs = zip(split(int(flat), linear.shape), linear.shape, strict=True)
    return f"({separator.join(str(x).rjust(len(str(n - 1))) for x, n in pairs)})"


def _memory_entries(linear: LinearLayout) -> list[str]:
    return [_spell(linear, x, ":") for x in _elements(linear, "block", "offset").ravel()[: prod(linear.shape)]]


def _bracket(entries: list[str], shape: Sequence[int], separator: str) -> str:
    """Entries as nested lists, one line for each row."""
    parts, rank = [], len(shape)
    for i in range(prod(shape)):
        opened = _trailing(split(i, shape), [0] * rank)
        closed = _trailing(split(i, shape), [n - 1 for n in shape])
        parts.append("[" * opened + (" " * (rank - opened) if opened else "") + entries[i] + "]" * closed)
        parts.append("\n" if closed else separator)
    return "".join(parts)


def _trailing(coord: Sequence[int], ends: Sequence[int]) -> int:
    """How many of the fastest coordinates are at an end, without a gap."""
    count = 0
    while count < len(coord) and coord[-1 - count] == ends[-1 - count]:
        count += 1
    return count


def _memory_lines(linear: LinearLayout) -> Iterator[str]:
    for block, held in enumerate(_elements(linear, "block", "offset")):
        yield f"Block: {block}:\n"
        for offset, element in enumerate(held):
            yield f"Offset: {offset} -> {_spell(linear, element, ',')}\n"


def _register_lines(linear: LinearLayout) -> Iterator[str]:
    held = _elements(linear, "block", "warp", "register", "lane")
    for block, warps in enumerate(held):
        if len(held) > 1:
            yield f"Block{block}:\n"
        for warp, registers in enumerate(warps):
            yield f"Warp{warp}:\n"
            for lanes in registers:
                yield ", ".join(_spell(linear, element, ",") for element in lanes) + "\n"
