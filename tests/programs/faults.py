"""Faults of programs, each beside the text or the plan without it: the table of docs/passes.md is made of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tests.faults.parts import change_memories
from tests.faults.steps import drop, is_a, mutate
from tests.faults.texts import change_text
from tests.meaning import PASSES, Array
from tests.programs.kernels import BY_NAME
from tilegen.index import add, mod
from tilegen.plan import Block, Follow, Memory, Plan, Ref, Step

change = partial(change_text, most=1)
Function = Callable[..., Any]


def read_program(name: str, *pairs: tuple[str, str]) -> str:
    """The text of a spec with passes, changed wherever the old parts stand."""
    return change_text(BY_NAME[name].read_text(encoding="utf-8"), *pairs)


# ---------------------------------------------------------------- programs that are right
SUM = read_program("sum_all", ("default: 100000", "default: 9000"))
SUM_BY_TWO = change_text(SUM, ("1024", "2"))
SUM_WHERE_LARGE = change(
    SUM, ("  - name: tiles\n", "  - name: tiles\n    when: N > 5000\n"),
    ("  - name: total\n", "  - name: total\n    when: N > 5000\n"), ("shape: [1]}", "shape: [1], partial: true}"),
)  # fmt: skip
SUM_EARLY = change(
    SUM, ("    ctas_per_sm: 4\n", "    ctas_per_sm: 4\n    overlap: previous\n"),
    ("    ops:\n", "    ops:\n      - wait: previous\n"),
)  # fmt: skip
SPLIT = read_program(
    "gemm_split_k", ("N: 512, K: 4096", "N: 128, K: 512"), ("N // 512", "1"), ("bx*512 : +512", "bx*128 : +128"),
    ("512]", "128]"),
)  # fmt: skip
UNEQUAL = change(SPLIT, ("K: 512", "K: 704"))  # 11 k-tiles for 4 CTAs
WIDE = change(SPLIT, ("N: 128", "N: 256"), ("sum\n    grid: {bx: 1", "sum\n    grid: {bx: N // 128"))
# A has a scale for every 128 columns, B for every 128 rows: the partial sums of each CTA are of one pair of scales.
SCALED = change(
    SPLIT, ("kernel: gemm_split_k", "kernel: gemm_scaled"), ("bias: {scope: global, dtype: float32, shape: [N]}",
    "scale: {scope: global, dtype: float32, shape: [P]}"),
    ('- copy: {src: "sums[0, by*2 : +2, bx*128 : +128]", dst: acc}',
     '- elementwise: {dst: acc, expr: "x * s", with: {x: "sums[0, by*2 : +2, bx*128 : +128]", s: "scale[0 : +1]"}}'),
    ('"acc + x", with: {x: "sums[p, by*2 : +2, bx*128 : +128]"',
     '"fma(x, s, acc)", with: {x: "sums[p, by*2 : +2, bx*128 : +128]", s: "scale[p : +1]"'),
    ('- elementwise: {dst: "D[by*2 : +2, bx*128 : +128]", expr: "acc + b", with: {b: "bias[bx*128 : +128]"}}',
     '- cast: {src: acc, dst: "D[by*2 : +2, bx*128 : +128]"}'),
)  # fmt: skip
ADDED = """
kernel: added
params: {M: {default: 64, multiple_of: 32, max: 65536}}
buffers:
  X: {scope: global, dtype: float32, shape: [M]}
  Y: {scope: global, dtype: float32, shape: [M]}
  w: {scope: workspace, dtype: float32, shape: [M]}
passes:
  - name: clear
    grid: {bx: M // 32}
    threads: 32
    ops:
      - fill: {scope: cta, dst: "w[bx*32 : +32]", value: 0}
  - name: add
    grid: {bx: M // 32}
    threads: 32
    ops:
      - elementwise: {scope: cta, dst: "w[bx*32 : +32]", expr: "y + x",
                      with: {y: "w[bx*32 : +32]", x: "X[bx*32 : +32]"}}
  - name: leave
    grid: {bx: M // 32}
    threads: 32
    ops:
      - copy: {scope: cta, src: "w[bx*32 : +32]", dst: "Y[bx*32 : +32]"}
"""
TWO_WAYS = """
kernel: two_ways
params: {N: {default: 64, multiple_of: 32, max: 4096}}
buffers:
  X: {scope: global, dtype: float32, shape: [N]}
  Y: {scope: global, dtype: float32, shape: [N]}
passes:
  - name: few
    when: N <= 96
    grid: {bx: N // 32}
    threads: 32
    ops: [{copy: {scope: cta, src: "X[bx*32 : +32]", dst: "Y[bx*32 : +32]"}}]
  - name: many
    when: N > 96
    grid: {bx: N // 32}
    threads: 32
    ops: [{copy: {scope: cta, src: "X[bx*32 : +32]", dst: "Y[bx*32 : +32]"}}]
"""
ATTENTION = read_program("attention_backward", ("BH: 2", "BH: 1"), ("default: 300", "default: 130"))


def gemm_scaled(A: Array, B: Array, scale: Array) -> Array:
    """Two k-tiles of 64 for each scale."""
    blocks = np.einsum("mpk,pkn->pmn", A.reshape(len(A), len(scale), -1), B.reshape(len(scale), -1, B.shape[1]))
    return np.einsum("pmn,p->mn", blocks, scale)


MEANT: dict[str, Function] = PASSES | {
    "gemm_scaled": gemm_scaled, "added": lambda X: X, "two_ways": lambda X: X,
}  # fmt: skip
GROUPED = read_program(
    "grouped_gemm", ("default: 640", "default: 300"), ("E: 4, N: 512, K: 256", "E: 3, N: 512, K: 64")
)


# ---------------------------------------------------------------- faults of the text
@dataclass(frozen=True)
class Fault:
    """Changes to a text that is right, and what is said of the wrong one. The design has a ``number`` for some."""

    right: str
    change: tuple[tuple[str, str], ...]
    code: str
    said: str = ""
    number: int = 0

    @property
    def wrong(self) -> str:
        return change(self.right, *self.change)


LEAVE = '- copy: {src: s, dst: "parts[bx : +1]"}'
WAIT = "      - wait: previous\n"
FIRST_PART = '- copy: {src: "sums[0, by*2 : +2, bx*128 : +128]", dst: acc}'
SUMS = '- copy: {scope: warpgroup, src: acc, dst: "sums[bz'
BUILT: Mapping[str, Fault] = {
    "a pass that is skipped and read": Fault(
        SUM, (("  - name: tiles\n", "  - name: tiles\n    when: N > 5000\n"),),
        "TG429", "pass 'total' reads the workspace 'parts', but pass 'tiles' is launched only where 5000 < N",
    ),
    "a pass that reads under a condition of its own": Fault(
        SUM_WHERE_LARGE, (("name: total\n    when: N > 5000\n", "name: total\n    when: N > 4000\n"),),
        "TG429", "pass 'tiles' is launched only where", 44,
    ),
    "a part under a condition that its reader has not": Fault(
        SUM, ((LEAVE, LEAVE.replace("}", ", when: bx < 2}")),), "TG429", "pass 'tiles' leaves parts[2] unwritten", 44
    ),
    "the clearing pass is skipped": Fault(
        ADDED, (("  - name: clear\n", "  - name: clear\n    when: M > 64\n"),),
        "TG429", "pass 'add' reads the workspace 'w', but pass 'clear' is launched only where 64 < M", 45,
    ),
    "the clearing pass leaves the last CTA's part": Fault(
        ADDED, (('"w[bx*32 : +32]", value: 0', '"w[bx*32 : +32]", value: 0, when: bx < M // 32 - 1'),),
        "TG429", "pass 'clear' leaves w[32] unwritten", 45,
    ),
    "no wait for the pass before": Fault(SUM, ((WAIT, ""),), "TG122", "nothing waits for the kernels before", 46),
    "a second pass that reads before the first ends": Fault(
        SUM, ((WAIT, ""), ("      - copy: {src: s, dst: Y}\n", f"{WAIT}      - copy: {{src: s, dst: Y}}\n")),
        "TG440", "parts", 46,
    ),
    "a workspace that the next launch overwrites too early": Fault(
        SUM_EARLY, ((WAIT, ""), (f"      {LEAVE}\n", f"      {LEAVE}\n{WAIT}")), "TG440", "may still write or read",
    ),
    "an empty part": Fault(
        UNEQUAL, (("k1: (bz + 1) * kt // P", "k1: (bz + 1) * (kt // P)"),), "TG404", "acc[0] is read before", 49,
    ),
    "an element that no CTA writes": Fault(
        SUM, ((LEAVE, LEAVE.replace("}", ", when: bx > 0}")),), "TG429", "pass 'tiles' leaves parts[0] unwritten",
    ),
    "a last element that no CTA writes": Fault(
        SUM, (
            ("[tiles.bx_count]}", "[tiles.bx_count + 1]}"),
            ("ceil(tiles.bx_count / 1024)", "ceil((tiles.bx_count + 1) / 1024)"),
        ),
        "TG429", "unwritten",
    ),
    "a workspace that nobody writes": Fault(
        SUM, (('dst: "parts[bx : +1]"', 'dst: "Y[0 : +1]", when: bx == 0'),), "TG429", "no pass before it writes it",
    ),
    "a part that two CTAs write": Fault(
        SPLIT, (('dst: "sums[bz, by*128', 'dst: "sums[bz // 2, by*128'),), "TG417", "sums",
    ),
    "parts two apart": Fault(
        SPLIT, (('dst: "sums[bz, by*128', 'dst: "sums[bz * 2 % P, by*128'),),
        "TG417", "sums[0, 0, 0] is owned by CTA (0, 0, 0) and by CTA (0, 0, 2)",
    ),
    "parts that leave one of the sums out": Fault(
        SPLIT, (("grid: {bx: N // 128, by: M // 128, bz: P}", "grid: {bx: N // 128, by: M // 128, bz: P - 1}"),),
        "TG429", "pass 'parts' leaves sums[3, 0, 0] unwritten",
    ),
    "sums of a part past the last": Fault(
        SPLIT, (("- for: {p: [1, P]}", "- for: {p: [1, P + 1]}"),), "TG207", "sums",
    ),
    "a size at which no pass writes the output": Fault(
        TWO_WAYS, (("when: N <= 96", "when: N < 96"),),
        "TG418", "a launch may leave 'Y' unwritten: with N = 96 pass 'few' is launched only where N < 96",
    ),
    "padding that is not written": Fault(
        ATTENTION, (('"L[by, row : +4]", expr', '"L[by, row : +4]", when: row + 4 <= S, expr'),),
        "TG429", "pass 'delta' leaves L[0, 128] unwritten", 61,
    ),
    "tiles of experts without the guard that keeps them apart": Fault(
        GROUPED, (("when: prior <= x ", "when: 0 <= x "),), "TG441", "nothing tells these apart", 17
    ),
    "tiles of rows that overlap": Fault(
        GROUPED, (("offsets[e] + i*128", "offsets[e] + i*127"),), "TG417", "D[0, 127, 0] is owned by"
    ),
    "the rows of another expert's end": Fault(
        GROUPED, (('"offsets[e + 1]"', '"offsets[min(e + 2, E)]"'),), "TG441", "the piece of offsets", 8
    ),
    "a map that is read before the pass before ends": Fault(
        GROUPED, (("      - wait: previous   # by every thread, as all read the map\n", ""),),
        "TG440", "a let reads 'total' while the kernel before may still write it", 19,
    ),
    "a ragged tile that TMA stores": Fault(
        GROUPED, (("variant: tma, when: r + 64 <= end}", "variant: tma, when: r < end}"),),
        "TG207", "the region ends", 11,
    ),
    "a whole tile that is a row too long": Fault(
        GROUPED, (("when: r + 64 <= end}", "when: r + 63 <= end}"),), "TG441", "D", 9
    ),
    "a ragged tile without its limit": Fault(
        GROUPED, (('"D[r : +64 < end, n*256', '"D[r : +64, n*256'),), "TG441", "D", 10
    ),
    "counts that are read before they are there": Fault(GROUPED, (("      - sync: cta\n", ""),), "TG403", "ends"),
    "an expert that there is not": Fault(
        GROUPED, (('"min(z, E - 1)"', '"z"'),), "TG442", "'expert' holds values 0 : 3", 4
    ),
    "stages counted from 0 in each tile": Fault(
        GROUPED, (("first: t // bx_count * kt", "first: t * kt"),), "TG413", "free"
    ),
}  # fmt: skip
COMPARED: Mapping[str, Fault] = {
    "the pass's own count of CTAs for that of the pass before": Fault(
        SUM_BY_TWO, (("ceil(tiles.bx_count / 2)", "ceil(bx_count / 2)"),), "TG428", "Y[0] is", 47
    ),
    "tiles counted down": Fault(
        SUM, (('"ceil(N / 4096)", bx_count', '"N // 4096", bx_count'),), "TG428", "Y[0] is", 48
    ),
    "used parts counted down": Fault(
        SUM, (("ceil(tiles.bx_count / 1024)", "tiles.bx_count // 1024"),), "TG428", "Y[0] is 0.0", 48
    ),
    "unequal parts that lose a k-tile each": Fault(
        UNEQUAL, (("k1: (bz + 1) * kt // P", "k1: k0 + kt // P"),), "TG428", "D[0, 0] is", 49
    ),
    "unequal parts that both have a k-tile": Fault(
        UNEQUAL, (("k1: (bz + 1) * kt // P", 'k1: "min((bz + 1) * kt // P + 1, kt)"'),), "TG428", "D[0, 0] is", 49
    ),
    "sums from part 1 on": Fault(SPLIT, ((FIRST_PART, "- fill: {dst: acc, value: 0}"),), "TG428", "D[0, 0] is", 50),
    "the scale of another k-block": Fault(SCALED, (("scale[p : +1]", "scale[p - 1 : +1]"),), "TG428", "D[0, 0] is", 62),
    "an epilogue in both passes": Fault(
        SPLIT, (
            (SUMS, '- elementwise: {scope: warpgroup, dst: acc, expr: "acc + b", with: {b: "bias[bx*128 : +128]"}}\n'
             f"          {SUMS}"),
        ),
        "TG428", "D[0, 0] is",
    ),
    "a neighbour's rows of the parts": Fault(
        SPLIT, (('x: "sums[p, by*2 : +2', 'x: "sums[p, (by + 1) * 2 % M : +2'),), "TG428", "D[0, 0] is",
    ),
    "one part twice, another not": Fault(
        SPLIT, (('x: "sums[p, by*2 : +2', 'x: "sums[(p + 1) % P, by*2 : +2'),), "TG428", "D[0, 0] is",
    ),
    "columns of a neighbouring CTA": Fault(
        WIDE, (("wgid*64 : +64, bx*128 : +128]", "wgid*64 : +64, (N // 128 - 1 - bx)*128 : +128]"),),
        "TG428", "D[0, 0] is",
    ),
    "tiles that begin a row late": Fault(
        GROUPED, (("offsets[e] + i*128", "offsets[e] + i*128 + 1"),), "TG428", "D[0, 0] is written by no CTA"
    ),
    "columns of a matrix swapped": Fault(
        GROUPED, (('"B[e, n*256', '"B[e, (tn - 1 - n)*256'),), "TG428", "D[0, 0] is"
    ),
    "the matrix of another expert": Fault(
        GROUPED, (('"B[e, n*256', '"B[min(e + 1, E - 1), n*256'),), "TG428", "D[0, 0] is", 1
    ),
    "tiles of whole length that nobody stores": Fault(
        GROUPED, (("when: r + 64 <= end}", "when: r + 64 < end}"),), "TG428", "is written by no CTA", 12
    ),
    "tiles of a row less that nobody stores": Fault(
        GROUPED, (("when: r + 64 > end}", "when: r + 63 > end}"),), "TG428", "is written by no CTA"
    ),
    "tiles counted down, of experts": Fault(
        GROUPED, (("(hi - lo + 127) // 128", "(hi - lo) // 128"),), "TG428", "is written by no CTA", 16
    ),
    "tiles of the next expert": Fault(GROUPED, (("index(0) >= x", "index(0) > x"),), "TG428", "is written by no CTA"),
    "tiles before an expert with its own": Fault(
        GROUPED, (("min(upto - n, 524288)", "min(upto, 524288)"),), "TG428", "is written by no CTA"
    ),
    "the last tile of rows left out": Fault(
        GROUPED, (('"min(total[0], ', '"min(max(total[0] - 1, 0), '),), "TG428", "is written by no CTA"
    ),
    # 0 would do: rows of Q and dO past S are zeros, and what is multiplied by them may be any finite number.
    "padding of -inf for inf": Fault(ATTENTION, (("x, inf)", "x, -inf)"),), "TG428", "is nan", 61),
}  # fmt: skip
# No faults: the same terms in another order, which is the same in every run.
SAME: Mapping[str, Fault] = {
    "a clamp that the guard makes needless": Fault(GROUPED, (('"max(x - prior, 0)"', '"x - prior"'),), ""),
    "parts in the other order": Fault(SPLIT, (('x: "sums[p, by*2', 'x: "sums[P - p, by*2'),), ""),
    "each part at another's place, by both passes": Fault(
        SPLIT, (('dst: "sums[bz, by*128', 'dst: "sums[P - 1 - bz, by*128'),), ""
    ),
}  # fmt: skip


# ---------------------------------------------------------------- faults of the plan
@dataclass(frozen=True)
class Planted:
    """A change to the plan of one pass of a program, and the code of the proof that finds it."""

    text: str
    of: str
    change: Callable[[Plan], Plan]
    code: str
    number: int = 0


def _widen(m: Memory) -> Memory:
    """The workspace with rows that lie farther apart than the other pass has them."""
    if m.name != "sums" or len(m.pitches) != 3:  # a function of the plan knows its own part of it
        return m
    return replace(m, pitches=(m.pitches[0], add(m.pitches[1], 128), 1))


def _read_next(plan: Plan, name: str, d: int = 0) -> Plan:
    """The plan whose functions are given an array from one element further along a dimension, round its end."""

    def move_on(x: Any) -> Any:
        if not isinstance(x, Ref) or x.memory.name != name:
            return x
        return Ref(x.memory, (*x.at[:d], mod(add(x.at[d], 1), x.memory.shape[d]), *x.at[d + 1 :]))

    def change_call(step: Block) -> tuple[Step, ...]:
        return (replace(step, args=tuple((formal, move_on(given)) for formal, given in step.args)),)

    return mutate(plan, is_a(Block), change_call)


PLANTED: Mapping[str, Planted] = {
    "the wait left out": Planted(SUM, "total", lambda p: mutate(p, is_a(Follow), drop), "TG440", 46),
    "an early launch of a pass that waits for nothing": Planted(
        SUM, "tiles", lambda p: replace(p, overlaps=True), "TG416", 64
    ),
    "rows of the workspace further apart in one pass": Planted(
        SPLIT, "sum", lambda p: change_memories(p, _widen), "TG416"
    ),
    "the scale of the next k-block": Planted(
        SCALED, "sum", lambda p: _read_next(p, "scale"), "TG420", 62
    ),
    "the next row of the parts": Planted(SPLIT, "sum", lambda p: _read_next(p, "sums", 1), "TG414"),
}  # fmt: skip
