"""Why a kernel is right, by whose word: proved by tilegen, promised by its caller, claimed by its author.

One declaration, which the comment of the CUDA text, ``explain``, the C++ header and the manifest all read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.arithmetic.values import Values
from tilegen.index import Index, Var

CHECK_MACRO = "TILEGEN_CHECK_VALUES"  # what makes launchers in C++ check promises, by its name


@dataclass(frozen=True)
class Promise:
    """What the caller promises of the elements of a global array, which no proof can show.

    ``place``: where element ``elem`` lies, of an array of ``shape``, counted row by row.
    """

    array: str
    dtype: str
    values: Values
    shape: tuple[Index, ...]
    elem: Var
    place: Index

    @property
    def says(self) -> str:
        """In words."""
        return self.values.promise

    @property
    def data(self) -> dict[str, Any]:
        """As JSON data; ends of a range are C expressions over params."""
        v = self.values
        found: dict[str, Any] = {"array": self.array, "dtype": self.dtype, "says": self.says}
        if v.pieces is not None:
            return found | {"offsets": str(v.places[1] - 1), "pieces": str(v.pieces)}
        found["values"] = {"low": str(v.low), "high": str(v.high), "step": v.step}
        return found | ({"distinct": True} if v.is_distinct else {})


@dataclass(frozen=True)
class Claim:
    """What the author says of a buffer that the kernel writes: runs look at it, no proof shows it."""

    buffer: str
    says: str


@dataclass(frozen=True)
class Trust:
    """What a kernel rests on. ``proved``: what ``build`` shows, in words, where every promise is kept.

    ``dropped``: accesses that are left out where an element breaks its promise, since their op clips. ``elsewhere``:
    those at an index, which is compared with its array alone: another place of that may be written. ``undefined``:
    those that may be made anywhere.
    """

    proved: tuple[str, ...] = ()
    promised: tuple[Promise, ...] = ()
    claimed: tuple[Claim, ...] = ()
    dropped: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()


def join_trust(parts: Mapping[str, Trust]) -> Trust:
    """That of several kernels in a row, by their names."""

    def join(name: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(x for part in parts.values() for x in getattr(part, name)))

    def join_places(name: str) -> tuple[str, ...]:
        return tuple(f"{kernel}, {x}" for kernel, part in parts.items() for x in getattr(part, name))

    promised = {p.array: p for part in parts.values() for p in part.promised}  # as each that reads the array has it
    return Trust(
        join("proved"), tuple(promised.values()), join("claimed"),
        *map(join_places, ("dropped", "elsewhere", "undefined")),
    )  # fmt: skip


def trust_data(trust: Trust) -> dict[str, Any]:
    """As JSON data: the three kinds apart, and what a false promise does."""
    return {
        "proved": list(trust.proved), "promised": [p.data for p in trust.promised],
        "claimed": [{"buffer": c.buffer, "says": c.says} for c in trust.claimed],
        "if_a_promise_is_false": {
            "dropped": list(trust.dropped), "elsewhere": list(trust.elsewhere), "undefined": list(trust.undefined),
            "says": list(_say_falsehood(trust)),
        },
    }  # fmt: skip


def say_if_false(trust: Trust, checked: str) -> Iterator[str]:
    """Lines of a comment, in capitals where a caller must read them; none where nothing is promised or claimed.

    ``checked``: how a caller has promises checked.
    """
    for claim in trust.claimed:
        yield f"CLAIMED by the author, and not proved, of {claim.buffer}: {claim.says}"
    if trust.promised:
        yield f"A LAUNCH DOES NOT CHECK PROMISES, unless it is asked to ({checked})."
        yield from (f"IF A PROMISE IS FALSE: {line}" for line in _say_falsehood(trust))


def _say_falsehood(trust: Trust) -> Iterator[str]:
    if not trust.promised:
        return
    if trust.undefined:
        count = "THIS" if len(trust.undefined) == 1 else "THESE"
        yield f"{count} MAY READ OR WRITE ANYWHERE, WITHOUT 'edge: clip': {'; '.join(trust.undefined)}"
    if trust.dropped:
        yield f"what these would touch at its places is DROPPED: {'; '.join(trust.dropped)}"
    if trust.elsewhere:
        yield f"what these store may go to ANOTHER PLACE OF THE SAME ARRAY, or be dropped: {'; '.join(trust.elsewhere)}"
    if not trust.undefined and not trust.dropped and not trust.elsewhere:
        yield "results are undefined; no place depends on it"
    elif not trust.undefined:
        yield "all else that is computed is UNDEFINED, and no access leaves its array"
