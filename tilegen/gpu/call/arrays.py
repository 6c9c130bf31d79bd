"""An array as a call sees it, and what a library of arrays must offer to be called with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.dtypes import FACTOR

Part = tuple[Any, ...]  # hashable: all that decides whether a call is right but where the arrays lie
Match = Callable[[Any], int]  # an array -> where it lies, if it is of one known form; else 0
# dtype -> what its bits are called where a library lacks it
RAW_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", FACTOR: "uint8"}


@dataclass(frozen=True)
class Seen:
    """An array: ``strides`` in elements, ``device`` the GPU whose memory it is (None: no GPU's)."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    pointer: int
    is_writable: bool = True
    fault: str = ""  # why its memory is not what it seems, with the fix after a semicolon
    stream: int | None = None  # a stream that it says it is being made on


@dataclass(frozen=True)
class Library:
    """How arrays of a library are read: ``match`` on every call, ``read`` where that finds something else than in the
    call before, ``look`` when a call is of a new kind.

    ``match(array)`` gives a function that knows this array's form again: it finds a pointer in an array of which
    ``read`` says the same part, and 0 in any other.

    ``stream(device)`` is the stream that its user has made current. ``allocate(shape, strides, dtype, device)`` gives a
    function that makes uninitialised arrays. ``syncs(array, stream)`` makes the stream wait for what fills the array,
    where it is on the reader to ask for that. Each is None where the library has no such thing.
    """

    name: str
    read: Callable[[Any], tuple[Part, int]]
    look: Callable[[Any], Seen]
    match: Callable[[Any], Match]
    stream: Callable[[int], int] | None
    allocate: Callable[..., Callable[[], Any]] | None = None
    syncs: Callable[[Any, int], Any] | None = None


def match_by_reading(read: Callable[[Any], tuple[Part, int]], array: Any) -> Match:
    """How an array's form is known again where nothing is faster than to read all of it."""
    kind, (part, _) = type(array), read(array)

    def match(other: Any) -> int:
        if type(other) is not kind:
            return 0
        found, pointer = read(other)
        return pointer if found == part else 0

    return match


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense row-major array, in elements.

    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))
