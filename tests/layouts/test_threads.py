"""fuse_into_tx: the same threads by one number, in every launch in which the axes say which threads they are."""

from __future__ import annotations

from random import Random

import pytest

from tilegen.errors import LayoutError
from tilegen.index import evaluate
from tilegen.layouts import (
    Iter,
    TileLayout,
    canonicalize,
    fuse_into_tx,
    parse,
    size,
    tcgen05_atom_layout,
    wg_local_layout,
    wgmma_accumulator,
)
from tilegen.scopes import THREAD_AXES, thread_variables

NAMES = (*THREAD_AXES, "m")
LAUNCHES = (16, 32, 64, 96, 128, 160, 256, 384)


def axes_of(threads: int) -> list[dict[str, int]]:
    """Of each thread of a launch its number on every axis, as the text of a kernel computes them."""
    return [
        {name: int(evaluate(x, {"tx": t})) for name, x in thread_variables(threads).items()} for t in range(threads)
    ]


NUMBERED = {threads: axes_of(threads) for threads in LAUNCHES}


def find_threads(place: dict[str, int], threads: int) -> list[int]:
    """The threads of a launch that a place is in, by the axes that it names."""
    named = {axis: x for axis, x in place.items() if axis in THREAD_AXES}
    return [t for t, own in enumerate(NUMBERED[threads]) if all(own[axis] == x for axis, x in named.items())]


def memory_of(place: dict[str, int]) -> dict[str, int]:
    return {axis: x for axis, x in place.items() if axis not in THREAD_AXES}


def named_axes(layout: TileLayout) -> set[str]:
    used = {i.axis for i in (*layout.shard, *layout.replica)} | {axis for axis, _ in layout.offset}
    return used & set(THREAD_AXES)


CHAINS = (("tx",), ("laneid",), ("tid_in_wg",), ("warpid", "laneid"), ("wgid", "tid_in_wg"), ("wid_in_wg", "laneid"),
          ("wgid", "wid_in_wg", "laneid"))  # fmt: skip


def draw(random: Random) -> TileLayout:
    """Most layouts name axes that count inside each other, some any of them."""
    names = (*random.choice(CHAINS), "m") if random.random() < 0.8 else NAMES

    def draw_iters(most: int) -> list[Iter]:
        return [Iter(random.choice((1, 2, 4)), random.choice((1, 2, 4, 8)), random.choice(names))
                for _ in range(random.randint(0, most))]  # fmt: skip

    offset = {random.choice(names): random.choice((1, 2, 3))} if random.random() < 0.3 else {}
    begun = [Iter(1 if random.random() < 0.5 else 2, 1, name) for name in names[:-1]] if names is not NAMES else []
    return TileLayout.from_iters([*draw_iters(4), *begun, Iter(2, 1, random.choice(names))], draw_iters(1), offset)


def say_place(thread: int, place: dict[str, int]) -> tuple[int, list[tuple[str, int]]]:
    """The thread, and what is not 0 on other axes."""
    return thread, sorted((axis, x) for axis, x in place.items() if x and axis not in THREAD_AXES)


def share_threads(layout: TileLayout) -> bool:
    """Do two of its axes count the same threads?"""
    own = [THREAD_AXES[name] for name in named_axes(layout)]
    ranges = [(a.unit, a.span or 1 << 20) for a in own]
    return any(a < d and c < b for k, (a, b) in enumerate(ranges) for c, d in ranges[:k])


def check(layout: TileLayout, threads: int) -> bool:
    """Every element in the thread that its place names, under tx as before; False where that is refused."""
    places = [layout.apply(x, shape=(size(layout),)) for x in range(size(layout))]
    whose = [[find_threads(p, threads) for p in copies] for copies in places]
    is_known = all(len(found) == 1 for copies in whose for found in copies)
    try:
        fused = fuse_into_tx(layout, threads)
    except LayoutError:
        spans = [THREAD_AXES[name].span for name in named_axes(layout)]
        in_part = any(span and threads > span and threads % span for span in spans)
        assert not is_known or share_threads(layout) or in_part  # some warp is there in one warpgroup alone
        return False
    if not named_axes(layout):
        assert fused == canonicalize(layout)
        return False
    assert is_known and isinstance(fused, TileLayout) and named_axes(fused) <= {"tx"}
    for x, (copies, found) in enumerate(zip(places, whose, strict=True)):
        before = sorted(say_place(t, p) for p, (t,) in zip(copies, found, strict=True))
        assert before == sorted(say_place(p.get("tx", 0), p) for p in fused.apply(x, shape=(size(layout),)))
    return True


@pytest.mark.parametrize("seed", range(8))
def test_every_element_stays_in_its_thread(seed: int) -> None:
    """Each place names one thread of the launch, and tx is its number; else the function says that it does not."""
    random = Random(seed)
    found = [check(draw(random), random.choice(LAUNCHES)) for _ in range(100)]
    assert sum(found) > 10 and not all(found)


def test_what_is_fused_is_what_was_fused_before() -> None:
    """Where axes connect up to the CTA, canonicalize says the same, as TIRx does."""
    for text, threads in (
        ("S[(2, 8, 2, 4):(2@warpid, 4@laneid, 1@warpid, 1@laneid)]", 128),
        ("S[(2, 2, 8, 2, 2, 4):(2@wgid, 2@wid_in_wg, 4@laneid, 1@wgid, 1@wid_in_wg, 1@laneid)]", 512),
        ("S[(2, 2, 4, 32):(2@wgid, 1@wgid, 32@tid_in_wg, 1@tid_in_wg)]", 512),
    ):
        layout = parse(text)
        assert fuse_into_tx(layout, threads) == canonicalize(layout, fuse_threads="cta")


def test_one_warp_or_warpgroup_is_the_launch() -> None:
    assert str(fuse_into_tx(wg_local_layout(16), 128)) == "S[(128, 16):(1@tx, 1)]"
    assert named_axes(fuse_into_tx(wgmma_accumulator(64), 128)) == {"tx"}  # type: ignore[arg-type]
    atom = tcgen05_atom_layout("16x64b", (128, 64), "float32")
    assert named_axes(fuse_into_tx(atom, 128)) == {"tx"}  # type: ignore[arg-type]
    assert str(fuse_into_tx(parse("S[(8, 4, 2):(4@laneid, 1@laneid, 1)] + 3@m"), 32)) == "S[(32, 2):(1@tx, 1)] + 3"
    swizzled = parse("Swizzle(3, 3, 3) o S[(8, 64)]")
    assert fuse_into_tx(swizzled, 64) == canonicalize(swizzled)


@pytest.mark.parametrize(
    ("text", "threads", "said"),
    [
        ("S[(32, 8):(1@laneid, 1)]", 64, "names one of 32 threads, and a CTA of 64 has several such groups"),
        ("S[(128, 8):(1@tid_in_wg, 1)]", 256, "names one of 128 threads"),
        ("S[4:1@warpid]", 128, "warpid counts groups of 32 threads"),
        ("S[(2, 32):(1@wgid, 1@laneid)]", 256, "wgid counts groups of 128 threads"),
        ("S[(2, 32):(1@tx, 1@laneid)]", 64, "counts threads"),
        ("S[(4, 32):(1@warpid, 1@laneid)]", 64, "warpid reaches 3"),
        ("S[(2, 32):(1@warpid, 2@laneid)]", 64, "laneid reaches 62"),
        ("S[(2, 32):(1@warpid, 1@laneid)] + 1@laneid", 64, "laneid reaches 32"),
    ],
)
def test_what_no_launch_says_is_refused(text: str, threads: int, said: str) -> None:
    with pytest.raises(LayoutError, match=said):
        fuse_into_tx(parse(text), threads)
