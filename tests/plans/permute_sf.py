"""permute_layout of two 4x32 float32 tiles by one warp, staged through shared memory (XOR k = 2)."""

from __future__ import annotations

from tilegen.index import Index, Var
from tilegen.plan import Block, Memory, Move, Plan, Repeat, Role, Step, Sync, flat_memory
from tilegen.proofs.owned_boxes import Owned

lane, r, s, i = Var("laneid", 32), Var("r", 4), Var("s", 2), Var("i", 2)


def build(offset_bytes: int = 1024) -> Plan:
    """``offset_bytes``: where B lies; 0 makes the permute in place."""
    src_g = Memory("In", "float32", (2, 128), (128, 1), "global", "in")
    dst_g = Memory("Out", "float32", (2, 128), (128, 1), "global", "out")
    a = flat_memory("A", "float32", 256, "shared")
    b = flat_memory("B", "float32", 256, "shared", offset_bytes=offset_bytes)
    regs = flat_memory("regs", "float32", 4, "register")
    word = flat_memory("word", "float32", 4, "register")
    src, dst = flat_memory("src", "float32", 128, "shared"), flat_memory("dst", "float32", 128, "shared")
    row = r ^ ((lane >> 3) & 3)  # xor k = 2: shift 3, mask 3

    def slot(rows: int, columns: int) -> Index:
        element = lane + row * 32
        return element // 32 * rows + element % 32 * columns

    permute = Block(
        "permute_layout",
        ((src, a[s * 128]), (dst, b[s * 128])),
        (
            Repeat(r, 4, (Move(regs[r], src[slot(32, 1)]),), unroll=True),
            Sync("warp"),
            Repeat(r, 4, (Move(dst[slot(1, 4)], regs[r]),), unroll=True),
        ),
        registers=(regs,),
        op=2,
    )

    def copy(name: str, op: int, *moves: Move) -> Block:
        return Block(name, (), (Repeat(i, 2, moves, unroll=True),), registers=(word,), op=op)

    steps: tuple[Step, ...] = (
        copy("load", 0, Move(word[0], src_g[i, lane * 4], 4), Move(a[i * 128 + lane * 4], word[0], 4)),
        Sync("warp"),
        Repeat(s, 2, (permute,)),
        Sync("warp"),
        copy("store", 3, Move(word[0], b[i * 128 + lane * 4], 4), Move(dst_g[i, lane * 4], word[0], 4)),
    )
    return Plan("permute_sf", "sm_90", (1, 1, 1), (src_g, dst_g, a, b), (Role("all", 32, steps),))


def owned(plan: Plan) -> tuple[Owned, ...]:
    """The two tiles of Out, which its one CTA writes."""
    return (Owned(plan.memories[1], (0, 0), (2, 128)),)
