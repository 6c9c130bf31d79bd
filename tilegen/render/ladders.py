"""Exchanges among the lanes of a warp that follow one another, as the one function that a reader knows: warp_sum(x)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.arithmetic import Apply, Element
from tilegen.dtypes import DTYPES
from tilegen.plan import Block, Compute, Ref, Repeat, Shuffle, Step, When, effects, flatten
from tilegen.render.formulas import render_tree
from tilegen.render.page import LaneFold, Page

_GROUPS = {(1, 2, 4, 8, 16): "warp", (1, 2): "quad"}
_WORDS = {"+": "sum", "*": "product", "max": "max", "min": "min"}
_SHUFFLED = ("float32", "float64", "int32", "int64", "uint32", "uint64")  # elements that C has a shuffle for


@dataclass(frozen=True)
class Ladder:
    """``into`` becomes what all lanes have of it, taken by ``function`` from lanes so far apart, one distance after the
    other: what a Shuffle and a Compute each do. A step of the text alone.
    """

    into: Ref
    function: str
    lanes: tuple[int, ...]


def fold_ladders(block: Block) -> Block:
    """The block with its ladders as one step each, and without the registers that only they took."""
    spare, taken = frozenset(m.name for m in block.registers), Counter[str]()
    body = _fold(block.body, spare, taken)
    refs = [{r.memory.name for r in effects(step).refs} for step in flatten(block.body)] if taken else []
    if any(sum(name in names for names in refs) != count for name, count in taken.items()):
        return block  # what lanes gave is read elsewhere
    return replace(block, body=body, registers=tuple(m for m in block.registers if m.name not in taken))


def _fold(steps: Sequence[Step], spare: frozenset[str], taken: Counter[str]) -> tuple[Step, ...]:
    """The steps with ladders folded; ``taken``: how many steps took each register through which lanes exchange."""
    folded: list[Any] = []
    left = list(steps)
    while left:
        step, rungs = left[0], _count_rungs(left, spare)
        if isinstance(step, When) or (isinstance(step, Repeat) and step.unroll):
            folded.append(replace(step, body=_fold(step.body, spare, taken)))
        elif isinstance(step, Shuffle) and rungs:
            folded.append(_join(left[: 2 * rungs]))
            taken[step.dst.memory.name] += 2 * rungs
        else:
            folded.append(step)
        left = left[2 * rungs or 1 :]
    return tuple(folded)


def _join(pairs: Sequence[Any]) -> Ladder:
    return Ladder(pairs[0].src, pairs[1].tree.function, tuple(s.lanes for s in pairs[::2]))


def _count_rungs(steps: Sequence[Step], spare: frozenset[str]) -> int:
    """How many pairs of a Shuffle and a Compute are the rungs of one ladder, from the first step on."""
    seen: set[tuple[Shuffle, Compute]] = set()
    for count, (shuffle, compute) in enumerate(zip(steps[::2], steps[1::2], strict=False)):
        if not isinstance(shuffle, Shuffle) or not isinstance(compute, Compute):
            return count
        seen.add((replace(shuffle, lanes=0), compute))
        if len(seen) > 1 or not _is_rung(shuffle, compute, spare):
            return count
    return len(steps) // 2


def _is_rung(shuffle: Shuffle, compute: Compute, spare: frozenset[str]) -> bool:
    own, other, tree = shuffle.src, shuffle.dst, compute.tree
    dtype = own.memory.dtype
    is_plain = shuffle.way == "xor" and shuffle.elems == 1 and dtype in _SHUFFLED and other.memory.name in spare
    if not is_plain or not isinstance(tree, Apply) or tree.function not in _WORDS:
        return False
    meets = tree == Apply(tree.function, (Element(0, dtype), Element(1, dtype)), dtype)
    return meets and compute.dst == own and compute.srcs == (own, other)


def name_fold(page: Page, ladder: Ladder) -> tuple[str, LaneFold]:
    """What the function of a ladder would be called, and what it is."""
    dtype = ladder.into.memory.dtype
    word = _WORDS[ladder.function]
    group = _GROUPS.get(ladder.lanes)
    name = f"{group}_{word}" if group else f"warp_{word}_over_{'_'.join(map(str, ladder.lanes))}"
    tree = Apply(ladder.function, (Element(0, dtype), Element(1, dtype)), dtype)
    value = render_tree(page, tree, ["x", "__shfl_xor_sync(0xffffffffu, x, lanes)"], [], dtype)
    return name, LaneFold(DTYPES[dtype].c, ladder.lanes, value)
