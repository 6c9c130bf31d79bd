"""Which elements the lanes of a warp take at each step of a permutation: a search over F2.

The elements of a tile are numbered by bits. An access by 32 lanes touches ``step + span(lane vectors)``, so where both
sides' addresses are XOR-linear in the bits, its bank conflicts depend on the five lane vectors alone: an access is free
of conflicts when no two lanes of a phase (32, 16 or 8 lanes for up to 4, 8, 16 bytes) meet in one bank in different
words. ``search_lanes`` builds the vectors column by column, backtracking; where sides are not XOR-linear it tries lane
vectors of one bit each and says that the search was bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from math import perm

import numpy as np
from numpy.typing import NDArray

from tilegen import access
from tilegen.decisions import Cost, compare_costs
from tilegen.index import Index, mul, xor
from tilegen.ops.pins import NotHad
from tilegen.spaces import Space

LANE_BITS = 5
_NODES = 400  # partial bases extended before the search gives up
_SUBSETS = 300  # choices of five single bits tried where addresses are not linear

_CONSTRUCTED = "constructed over F2"
_AT_FLOOR = "no access has more wavefronts or sectors than its floor"
# What a search that did not reach the floor left out.
_NOT_LINEAR = "sums of bits were not tried, since addresses are no XOR of bits"
_FIRST = "other sums of bits that leave no conflicts were not measured"
_NONE = "none of all sums of bits leave no conflicts, and how many each leaves was not measured"
_GAVE_UP = f"of sums of bits only {_NODES} beginnings an order were tried"

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Side:
    """One phase of a permutation: byte address of every element number (bits, low first), and how it is accessed.

    ``addresses`` has shape (2**bits,): numbers of vector accesses, if ``width_bytes`` is a vector. All of it happens
    ``repeats`` times.
    """

    addresses: Ints
    width_bytes: int
    space: Space
    kind: str  # ld | st
    repeats: int = 1

    @property
    def lanes_per_phase(self) -> int:
        return 32 if self.width_bytes <= 4 else 16 if self.width_bytes == 8 else 8


@dataclass(frozen=True)
class LaneMap:
    """Element number = XOR of the lane's and the step's vectors. ``cost``: (sectors, wavefronts) over all steps."""

    lanes: tuple[int, ...]
    steps: tuple[int, ...]
    cost: tuple[int, int]
    floor: tuple[int, int]
    proof: str

    @property
    def reaches_floor(self) -> bool:
        return self.cost == self.floor


def is_linear(addresses: Ints) -> bool:
    """Is address(u ^ v) == address(u) ^ address(v) ^ address(0) for all numbers?

    >>> is_linear(np.arange(8) * 4), is_linear(np.arange(8) * 12)
    (True, False)
    """
    seen = addresses[:1] ^ addresses[0]
    bit = 1
    while bit < len(addresses):
        seen = np.concatenate([seen, seen ^ (addresses[bit] ^ addresses[0])])
        bit *= 2
    return bool((seen == (addresses ^ addresses[0])).all())


def search_lanes(sides: Sequence[Side], orders: Sequence[Sequence[int]]) -> LaneMap:
    """The cheapest lane map found. ``orders``: preferences, each all the bits, most wanted in a lane first."""
    bits = len(orders[0])
    best: LaneMap | None = None
    limit = _NOT_LINEAR
    if all(is_linear(s.addresses) for s in sides):
        for order in orders:
            lanes, limit = _columns(sides, order)
            if lanes is not None:
                best = _better(best, _measured(sides, bits, lanes, _CONSTRUCTED))
                if best.reaches_floor:
                    return _with_proof(best, f"{_CONSTRUCTED}; {_AT_FLOOR}")
            elif limit == _NONE:
                break
    tried = 0
    for lanes in _single_bits(orders):
        tried += 1
        best = _better(best, _measured(sides, bits, lanes, ""))
        if best.reaches_floor:
            return _with_proof(best, f"one bit of the element's number for each of the lane's; {_AT_FLOOR}")
    assert best is not None
    return _with_proof(best, f"{_say_bounded(best, tried, perm(bits, LANE_BITS))}; {limit}")


def measure_pinned(sides: Sequence[Side], bits: int, lanes: tuple[int, ...], searched: LaneMap) -> LaneMap:
    """The lane map with these lane vectors beside the one that was searched. Raises NotHad for vectors that are none.

    With as many vectors as a lane's number has bits, none the sum of others, below 2**bits.
    """
    if lanes == searched.lanes:
        return searched
    if len(lanes) != LANE_BITS or not all(0 < v < 1 << bits for v in lanes) or len(set(_span(lanes).tolist())) < 32:
        reason = f"lanes are five numbers of 1 to {(1 << bits) - 1}, none of them the xor of others"
        raise NotHad("lanes", reason, [list(searched.lanes)])
    found = _measured(sides, bits, lanes, "")
    figures = compare_costs(Cost(*found.cost), Cost(*searched.cost)) or "the same cost"
    return _with_proof(found, f"beside a pin, at {figures}")


def _say_bounded(best: LaneMap, tried: int, total: int) -> str:
    """How far a search came that did not reach the floor: ``tried`` of ``total`` ways to give a lane single bits."""
    figures = zip(("sectors", "wavefronts"), best.cost, best.floor, strict=True)
    above = " and ".join(f"{n} {name} above a floor of {least}" for name, n, least in figures if n > least)
    choices = f"{tried} of {total} choices of five bits"
    how = best.proof or f"bounded: the best of {choices}"
    return f"{how}; {above}" + (f"; bounded: {choices} were no better" if best.proof else "")


def _with_proof(m: LaneMap, proof: str) -> LaneMap:
    return LaneMap(m.lanes, m.steps, m.cost, m.floor, proof)


def _better(a: LaneMap | None, b: LaneMap) -> LaneMap:
    return b if a is None or b.cost < a.cost else a


def _single_bits(orders: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Five single bits for the lanes: the preferred ones first, then every combination, up to a bound."""
    seen: set[tuple[int, ...]] = set()
    for order in orders:
        chosen = tuple(1 << b for b in order[:LANE_BITS])
        if chosen not in seen:
            seen.add(chosen)
            yield chosen
    for chosen in combinations([1 << b for b in orders[0]], LANE_BITS):
        if len(seen) >= _SUBSETS:
            return
        if chosen not in seen:
            seen.add(chosen)
            yield chosen


# ---------------------------------------------------------------- construction over F2
def _columns(sides: Sequence[Side], order: Sequence[int]) -> tuple[tuple[int, ...] | None, str]:
    """Five lane vectors such that no phase of any shared side has a conflict, or None; and what was left out."""
    shared = [s for s in sides if s.space.has_banks]
    phases = tuple(s.lanes_per_phase.bit_length() - 1 for s in shared)
    return _find_columns(tuple(order), phases, tuple(_clashes(s).tobytes() for s in shared))


@lru_cache(maxsize=1024)
def _find_columns(
    order: tuple[int, ...], shared_phases: tuple[int, ...], clashes: tuple[bytes, ...]
) -> tuple[tuple[int, ...] | None, str]:  # fmt: skip
    """The same by what it depends on, which many layouts have in common: of each side the bits of a phase's lanes, and
    which numbers clash, a byte for each.
    """
    candidates = _preferred(order)
    numbers = np.arange(1 << len(order))
    phases = (LANE_BITS, *shared_phases)
    budget = [_NODES]

    def extend(lanes: tuple[int, ...], taken: NDArray[np.bool_]) -> tuple[int, ...] | None:
        """``taken``, a row for what must differ and for each side: would a number do harm beside the span of lanes?"""
        if len(lanes) == LANE_BITS:
            return lanes
        budget[0] -= 1
        if budget[0] < 0:
            return None
        rows = [row for row, bits in zip(taken, phases, strict=True) if len(lanes) < bits]
        harmful = np.logical_or.reduce(rows)
        for v in candidates[~harmful[candidates]].tolist():
            # Beside a span that v doubles, a number does harm if it did, or if it did once v was added to it.
            wider = taken | taken[:, numbers ^ v] if len(lanes) + 1 < LANE_BITS else taken
            found = extend((*lanes, v), wider)
            if found is not None or budget[0] < 0:
                return found
        return None

    found = extend((), np.stack([numbers == 0, *(np.frombuffer(row, np.bool_) for row in clashes)]))
    return found, _FIRST if found else _GAVE_UP if budget[0] < 0 else _NONE


@cache
def _preferred(order: tuple[int, ...]) -> Ints:
    """Every nonzero number, single bits in the order of preference first, then sums of few bits."""
    numbers = np.arange(1, 1 << len(order), dtype=np.int64)
    ranked = np.zeros_like(numbers)  # the same numbers with their bits in the order of preference
    for rank, bit in enumerate(order):
        ranked |= (numbers >> bit & 1) << rank
    members = np.bitwise_count(numbers)
    return numbers[np.lexsort((ranked, members))]


def _clashes(side: Side) -> NDArray[np.bool_]:
    """Per difference of element numbers: do two elements so far apart share a bank without sharing its word?"""
    unit = max(4, side.width_bytes)
    words = (side.addresses ^ side.addresses[0]) // unit
    clash: NDArray[np.bool_] = (words % (128 // unit) == 0) & (words != 0)
    return clash


# ---------------------------------------------------------------- measuring
def _measured(sides: Sequence[Side], bits: int, lanes: tuple[int, ...], proof: str) -> LaneMap:
    steps = _complete(lanes, bits)
    numbers = _span(lanes)[None, :] ^ _span(steps)[:, None]
    cost, floor = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for s in sides:
        at = s.addresses[numbers]
        if s.space.has_sectors:
            found = np.sum(access.sectors(s.width_bytes, at)), 0
            least = len(np.unique(s.addresses // 32)), 0
        else:
            found = 0, np.sum(access.wavefronts(s.kind, s.width_bytes, at))
            least = 0, np.sum(access.phases(s.kind, s.width_bytes, at))
        cost += np.array(found, np.int64) * s.repeats
        floor += np.array(least, np.int64) * s.repeats
    return LaneMap(lanes, steps, (int(cost[0]), int(cost[1])), (int(floor[0]), int(floor[1])), proof)


def _span(vectors: Sequence[int]) -> Ints:
    out = np.zeros(1, np.int64)
    for v in vectors:
        out = np.concatenate([out, out ^ v])
    return out


def _complete(lanes: Sequence[int], bits: int) -> tuple[int, ...]:
    """Single bits that make the lane vectors a basis, low bits first."""
    taken = set(_span(lanes).tolist())
    steps: list[int] = []
    for b in range(bits):
        if 1 << b not in taken:
            steps.append(1 << b)
            taken |= {t ^ 1 << b for t in taken}
    return tuple(steps)


# ---------------------------------------------------------------- printing
def apply_vectors(number: Index, vectors: Sequence[int], bits: int) -> Index:
    """XOR of ``vectors[k]`` over the set bits k of ``number``, as shifts and masks of runs of bits.

    >>> from tilegen.index import Var
    >>> lane = Var("laneid", 32)
    >>> print(apply_vectors(lane, (1, 2, 4, 40, 80), 7))
    (laneid >> 3) * 32 + laneid
    """
    runs: list[Index] = []
    for shift in range(-LANE_BITS - bits, bits + 1):
        members = [k for k, v in enumerate(vectors) if 0 <= k + shift < bits and v >> (k + shift) & 1]
        runs.extend(_run(number, first, last, shift) for first, last in _consecutive(members))
    out: Index = 0
    for run in sorted(runs, key=lambda r: str(r)):
        out = xor(out, run)
    return out


def _consecutive(members: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = None
    for k, m in enumerate(members):
        first = m if first is None else first
        if k + 1 == len(members) or members[k + 1] != m + 1:
            yield first, m
            first = None


def _run(number: Index, first: int, last: int, shift: int) -> Index:
    """Bits first..last of the number, moved up by ``shift``."""
    part = number // (1 << first) % (1 << (last - first + 1))
    return mul(part, 1 << (first + shift))
