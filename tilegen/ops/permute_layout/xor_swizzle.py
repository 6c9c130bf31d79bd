"""The XOR that turns a lane's steps: lane l takes word ``l + 32 * (r ^ ((l >> shift) & mask))`` at step r."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilegen import access
from tilegen.decisions import Candidate, Choice, Cost, compare_costs, judge
from tilegen.ops.permute_layout.lane_search import Side
from tilegen.ops.pins import NotHad, say_known

_LANES = 32


@dataclass(frozen=True)
class Turn:
    """One member of the family: ``k`` bits of the lane from ``shift`` on, and what both phases then cost."""

    k: int
    shift: int
    mask: int
    cost: Cost

    @property
    def pin(self) -> list[int]:
        return [self.k, self.shift]

    @property
    def value(self) -> dict[str, int]:
        return {"k": self.k, "shift": self.shift, "mask": self.mask}


def choose_xor(sides: Sequence[Side], count: int, pinned: list[int] | None = None) -> tuple[Turn, Choice]:
    """The cheapest turn, the smallest k among equals, for a tile of ``count`` words numbered as in ``sides``.

    The seed's family (shift = 5 - k, mask = 2^k - 1) is tried first, then every other shift. ``pinned``: [k, shift].
    Raises NotHad where no turn is that.
    """
    found = [_measure(sides, count, *member) for member in _family(count // _LANES)]
    best = min(found, key=lambda t: (t.cost.sectors, t.cost.wavefronts, t.k))
    if pinned is not None and pinned != best.pin:
        own = next((t for t in found if t.pin == pinned), None)
        if own is None:
            turns = [t.pin for t in found]
            raise NotHad("xor", f"turns [k, shift] are {say_known(turns)}", turns)
        why = f"beside a pin, at {compare_costs(own.cost, best.cost) or 'the same cost'}"
        return own, Choice("xor_k", own.value, tuple(_judge(t, own) for t in found), why)
    reached = (best.cost.sectors, best.cost.wavefronts) == _floor(sides, count)
    proof = f"the best of all {len(found)} turns (shift, mask)"
    proof += "; no access has more wavefronts or sectors than its floor" if reached else ""
    return best, Choice("xor_k", best.value, tuple(_judge(t, best) for t in found), proof)


def _judge(turn: Turn, best: Turn) -> Candidate:
    verdict = judge(turn.cost, best.cost, turn is best)
    if verdict == "the same cost" and turn.k >= best.k:
        verdict += ", a larger k or another shift"
    return Candidate(turn.value, turn.cost, verdict)


def _family(steps: int) -> list[tuple[int, int, int]]:
    bits = min(5, (steps & -steps).bit_length() - 1)  # one bit more would leave the range of steps
    seed = [(k, 5 - k, (1 << k) - 1) for k in range(bits + 1)]
    return seed + [(k, s, (1 << k) - 1) for k in range(1, bits + 1) for s in range(5 - k - 1, -1, -1)]


def _measure(sides: Sequence[Side], count: int, k: int, shift: int, mask: int) -> Turn:
    lane, step = np.arange(_LANES)[None, :], np.arange(count // _LANES)[:, None]
    number = lane + _LANES * (step ^ ((lane >> shift) & mask))
    sectors = wavefronts = 0
    for s in sides:
        at = s.addresses[number]
        if s.space.has_sectors:
            sectors += int(np.sum(access.sectors(s.width_bytes, at)))
        else:
            wavefronts += int(np.sum(access.wavefronts(s.kind, s.width_bytes, at)))
    return Turn(k, shift, mask, Cost(sectors, wavefronts, len(sides) * (count // _LANES)))


def _floor(sides: Sequence[Side], count: int) -> tuple[int, int]:
    """Sectors that hold the tile, and the phases of its accesses."""
    number = np.arange(count).reshape(-1, _LANES)
    sectors = sum(len(np.unique(s.addresses // 32)) for s in sides if s.space.has_sectors)
    phases = (access.phases(s.kind, s.width_bytes, s.addresses[number]) for s in sides if s.space.has_banks)
    return sectors, sum(int(np.sum(p)) for p in phases)
