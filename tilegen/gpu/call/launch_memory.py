"""The memory of one launch: its configuration, its arguments and their addresses, laid out for the driver once.

A launch writes a stream and the pointers, a word each, and calls. They are taken from a list and put back, so threads
that call at the same time never share one, even while the driver reads it without Python's lock.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from tilegen.gpu.driver import (
    ATTRIBUTE_BYTES,
    CONFIG_ATTRIBUTES_AT,
    CONFIG_BYTES,
    CONFIG_STREAM_AT,
    write_overlap,
)

_CELL_BYTES = 8  # each pointer and parameter has a cell of its own, a word
STREAM_WORD, FIRST_POINTER_WORD = CONFIG_STREAM_AT // _CELL_BYTES, CONFIG_BYTES // _CELL_BYTES
MAP_BYTES, _MAP_ALIGN_BYTES = 128, 64  # CUtensorMap, cuda.h


@dataclass(frozen=True)
class LaunchForm:
    """What the launches of one kind of call have in common.

    The kernel's arguments are pointers, then ``params`` (a struct code, and the value; None where it varies from call
    to call), then tensor maps.
    """

    grid: tuple[int, int, int]
    threads: int
    dynamic_bytes: int
    pointers: int
    params: tuple[tuple[str, Any], ...] = ()
    maps: int = 0
    overlaps: bool = False

    @property
    def cells(self) -> tuple[int, ...]:
        """Where each pointer and parameter lies, in bytes."""
        return tuple(CONFIG_BYTES + _CELL_BYTES * k for k in range(self.pointers + len(self.params)))

    @cached_property
    def map_places(self) -> tuple[int, ...]:
        """Where each tensor map lies, in bytes."""
        first = -(-self.end_of_cells // _MAP_ALIGN_BYTES) * _MAP_ALIGN_BYTES
        return tuple(first + MAP_BYTES * k for k in range(self.maps))

    @property
    def end_of_cells(self) -> int:
        """Where the last pointer or parameter ends, in bytes."""
        return CONFIG_BYTES + _CELL_BYTES * (self.pointers + len(self.params))

    @property
    def end_of_maps(self) -> int:
        """Where all arguments end, in bytes: there the attribute lies of a launch that overlaps."""
        return self.map_places[-1] + MAP_BYTES if self.maps else self.end_of_cells

    @cached_property
    def all_maps(self) -> struct.Struct:
        """The tensor maps together."""
        return struct.Struct(f"={MAP_BYTES * self.maps}s")


class LaunchMemory(NamedTuple):
    """``words`` start with a CUlaunchConfig, where ``config`` points; ``arguments`` points to all addresses."""

    words: Any
    config: Any
    arguments: Any


def make_memory(form: LaunchForm) -> LaunchMemory:
    """Memory with everything written that does not vary."""
    places = (*form.cells, *form.map_places)
    end = form.end_of_maps
    memory = _aligned_memory(end + ATTRIBUTE_BYTES if form.overlaps else end)
    struct.pack_into("=7I", memory, 0, *form.grid, form.threads, 1, 1, form.dynamic_bytes)
    for (code, value), at in zip(form.params, form.cells[form.pointers :], strict=True):
        if value is not None:
            struct.pack_into(f"={code}", memory, at, value)
    start = ctypes.addressof(memory)
    addresses = (ctypes.c_void_p * len(places))(*(start + at for at in places))
    if form.overlaps:
        struct.pack_into("=QQ", memory, CONFIG_ATTRIBUTES_AT, start + end, 1)
        write_overlap(memory, end)
    return LaunchMemory(memory, ctypes.byref(memory), ctypes.byref(addresses))


def _aligned_memory(size: int) -> Any:
    raw = bytearray(size + _MAP_ALIGN_BYTES)
    start = ctypes.addressof(ctypes.c_char.from_buffer(raw))
    return (ctypes.c_uint64 * (size // _CELL_BYTES)).from_buffer(raw, -start % _MAP_ALIGN_BYTES)


def write_launch(memory: LaunchMemory, stream: int, pointers: Sequence[int]) -> None:
    """What differs from launch to launch of one kind: the stream and the pointers of all arrays."""
    memory.words[STREAM_WORD] = stream
    memory.words[FIRST_POINTER_WORD : FIRST_POINTER_WORD + len(pointers)] = pointers


def as_argument(handle: ctypes.c_void_p) -> Any:
    """A handle of the driver's in the form that ctypes passes on fastest: a reference, made once. Nothing reads it."""
    return ctypes.byref(ctypes.c_char.from_address(handle.value or 0))


def write_params(form: LaunchForm, memory: LaunchMemory, values: Sequence[float]) -> None:
    """The parameters that vary from call to call, into its memory."""
    cells = zip(form.params, form.cells[form.pointers :], strict=True)
    varying = [(code, at) for (code, value), at in cells if value is None]
    for (code, at), value in zip(varying, values, strict=True):
        struct.pack_into(f"={code}", memory.words, at, value)


def write_maps(form: LaunchForm, memory: LaunchMemory, images: bytes) -> None:
    """The tensor maps of a call, each MAP_BYTES as the driver encoded it, one behind the other, into its memory."""
    form.all_maps.pack_into(memory.words, form.map_places[0], images)
