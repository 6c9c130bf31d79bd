"""Small specs that were once wrong, refused or broken, each with what is wanted in its first line; and their kinds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tilegen.errors import ProofError, TilegenError
from tilegen.ops import operand
from tilegen.pipeline import Built
from tilegen.proofs.runs import check_run, list_runs

SPECS = sorted((Path(__file__).parent / "defects").glob("*.yaml"))


def verify(built: Built) -> None:
    for run in list_runs(built.spec, built.plan):
        for seed in (2, 3):
            check_run(built.spec, built.plan, run, seed)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_what_is_wanted(path: Path) -> None:
    wanted = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# want: ").split()
    if wanted[0] == "error":
        assert [d.code for d in refusal_of(TilegenError, tilegen.build, path).diagnostics] == [wanted[1]]
        return
    built = tilegen.build(path)
    verify(built)
    if "text" in wanted:
        assert wanted[wanted.index("text") + 1] in built.source.split("__device__", 1)[-1]


# ---------------------------------------------------------------- swizzles on global arrays
def draw_swizzled(seed: int) -> str:
    rng = random.Random(seed)
    rows, columns = rng.choice([(4, 64), (8, 32), (16, 16), (2, 128), (3, 64), (8, 8)])
    bits = rng.choice([(0, 3, 3), (2, 2, 2), (3, 3, 3), (0, 2, 4), (1, 3, 4), (2, 1, 3)])
    strides = rng.choice([f"({columns},1)", f"(1,{rows})"])
    layout = f', layout: "Swizzle{bits} o S[({rows},{columns}):{strides}]"'
    x, y = rng.choice([("", layout), (layout, ""), (layout, layout)])
    dtype, threads = rng.choice(["uint8", "bool", "float16", "float32", "float64"]), rng.choice([32, 64])
    head = f"kernel: swizzled\nthreads: {threads}\n"
    buffers = (
        f"buffers:\n  X: {{scope: global, dtype: {dtype}, shape: [{rows}, {columns}]{x}}}\n"
        f"  Y: {{scope: global, dtype: {dtype}, shape: [{rows}, {columns}]{y}}}\n"
    )
    tile = f"  t: {{scope: shared, dtype: {dtype}, shape: [{rows}, {columns}], layout: %s}}\n"
    return head + rng.choice([
        buffers + "ops:\n  - copy: {src: X, dst: Y}\n",
        f"grid: {{bx: {rows}}}\n{buffers}" + 'ops:\n  - copy: {src: "X[bx]", dst: "Y[bx]"}\n',
        buffers + tile % "row" + "ops:\n  - copy: {src: X, dst: t}\n  - sync: cta\n  - copy: {src: t, dst: Y}\n",
        buffers + tile % "auto" + "ops:\n  - copy: {src: X, dst: t}\n  - sync: cta\n  - copy: {src: t, dst: Y}\n",
    ])  # fmt: skip


@pytest.mark.sweep(5)
@pytest.mark.parametrize("seed", range(40))
def test_a_swizzle_on_a_global_array_is_carried_out(seed: int) -> None:
    verify(tilegen.build(draw_swizzled(seed)))


@pytest.mark.parametrize("name", ["global_swizzle", "global_swizzle_unseen", "broadcast_hides_cases",
                                  "bool_tells_nothing_apart"])  # fmt: skip
def test_a_plan_that_ignores_a_swizzle_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operand, "is_swizzled", lambda buffer: False)
    with pytest.raises(ProofError, match="TG420"):
        tilegen.build(Path(__file__).parent / "defects" / f"{name}.yaml")


# ---------------------------------------------------------------- strides that repeat or interleave
@pytest.mark.parametrize("layout", ["S[(M,64):(0,1)]", "S[(M,64):(64,0)]", "S[(M,64):(0,0)]", "S[(M,64):(32,1)]",
                                    "S[(M,64):(1,3)]"])  # fmt: skip
def test_every_case_is_proved_whatever_the_strides_of_what_is_read(layout: str) -> None:
    text = (
        "kernel: strides\nthreads: 64\ngrid: {bx: M}\nparams: {M: {default: 8, max: 1000}}\nbuffers:\n"
        f'  X: {{scope: global, dtype: float32, shape: [M, 64], layout: "{layout}"}}\n'
        "  Y: {scope: global, dtype: float32, shape: [M, 64]}\n"
        'ops:\n  - copy: {src: "X[bx]", dst: "Y[bx]"}\n'
    )
    built = tilegen.build(text)
    assert [dict(case)["M"] for case, _ in built.proof.runs][:3] == [8, 1, 11]
    verify(built)


# ---------------------------------------------------------------- clips
@pytest.mark.parametrize("dst", ["Y[bx*64 + tx : +1]", "Y[bx*64 + tx]"])
@pytest.mark.parametrize("length", [1, 40, 64, 100, 129])
def test_a_clip_guards_an_element_of_each_thread(dst: str, length: int) -> None:
    text = (
        f"kernel: clipped\nthreads: 64\ngrid: {{bx: {-(-length // 64)}}}\nbuffers:\n"
        f"  X: {{scope: global, dtype: float32, shape: [{length}]}}\n"
        f"  Y: {{scope: global, dtype: float32, shape: [{length}]}}\n"
        f'ops:\n  - copy: {{scope: thread, src: "{dst.replace("Y", "X")}", dst: "{dst}", edge: clip}}\n'
    )
    verify(tilegen.build(text))


@pytest.mark.parametrize("rows", [1, 5, 8, 13])
def test_a_clip_guards_a_row_of_each_warp(rows: int) -> None:
    text = (
        f"kernel: clipped\nthreads: 128\ngrid: {{bx: {-(-rows // 4)}}}\nbuffers:\n"
        f"  X: {{scope: global, dtype: float32, shape: [{rows}, 64]}}\n"
        f"  Y: {{scope: global, dtype: float32, shape: [{rows}, 64]}}\n"
        'ops:\n  - copy: {scope: warp, src: "X[bx*4 + warpid]", dst: "Y[bx*4 + warpid]", edge: clip}\n'
    )
    verify(tilegen.build(text))


ROWS_OF_TURNS = """kernel: turns
threads: 32
params: {M: {default: %(m)d, max: %(most)d}}
grid: {bx: 4}
buffers:
  X: {scope: global, dtype: float32, shape: [M, 16]}
  Y: {scope: global, dtype: float32, shape: [4, M, 16], partial: true}
ops:
  - let: {rows: ceil(M / %(tile)d)}
  - for: {t: rows}
    do:
      - let: {u: rows - 1 - t, row: "where(%(turn)s, %(one)s, %(other)s)"}
      - when: %(when)s
        do:
          - copy: {src: "X[row*%(tile)d%(off)s : +%(tile)d]", dst: "Y[bx, row*%(tile)d%(off)s : +%(tile)d]", edge: clip}
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_a_clip_is_proved_whatever_picks_its_rows(seed: int) -> None:
    """Rows that a condition picks, in a loop, under a condition that narrows the loop's variable."""
    rng = random.Random(seed)
    tile, m = rng.choice([4, 8, 16]), rng.randint(1, 60)
    one, other = rng.sample(["t", "u", "t + 1", "u - 1", "max(t, u)", "min(t + 2, rows - 1)"], 2)
    verify(tilegen.build(ROWS_OF_TURNS % {
        "m": m, "most": rng.choice([64, 500]), "tile": tile, "one": one, "other": other,
        "turn": rng.choice(["bx == 0", "bx % 2 == 1", "t % 2 == 0", "bx + t < 3"]),
        "when": rng.choice(["t > 0", "t < rows - 1", "t != 1", "bx < 3", "t > bx"]),
        "off": rng.choice(["", "", " - 3", f" - {tile}", " + 2"]),
    }))  # fmt: skip


def test_a_pitch_that_is_shorter_than_its_row_is_proved_as_it_is() -> None:
    text = (
        "kernel: pitch\nthreads: 32\nparams: {ld: {default: 8, max: 16}}\ngrid: {bx: 4}\nbuffers:\n"
        '  X: {scope: global, dtype: float32, shape: [4, 32], layout: "S[(4,32):(ld,1)]"}\n'
        "  Y: {scope: global, dtype: float32, shape: [4, 32]}\n"
        'ops:\n  - copy: {src: "X[bx]", dst: "Y[bx]"}\n'
    )
    built = tilegen.build(text)
    assert {"ld": 8} in [dict(case) for case, _ in built.proof.runs]


# ---------------------------------------------------------------- permutes of sizes without a max
@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 30))])
def test_permutes_of_any_sizes_build(seed: int) -> None:
    rng = random.Random(seed)
    rank = rng.randint(2, 5)
    shape = [rng.choice(["M", "N", "K", 2, 3, 16]) for _ in range(rank)]
    axes = rng.sample(range(rank), rank)
    turned = [shape[a] for a in axes]
    dtype = rng.choice(["uint8", "float16", "float32", "float64"])
    sizes = {name: rng.choice([7, 32, 100, 129]) for name in "MNK"}
    verify(tilegen.build(
        f"kernel: any\nparams: {{{', '.join(f'{n}: {{default: {v}}}' for n, v in sizes.items())}}}\nbuffers:\n"
        f"  X: {{scope: global, dtype: {dtype}, shape: [{', '.join(map(str, shape))}]}}\n"
        f"  Y: {{scope: global, dtype: {dtype}, shape: [{', '.join(map(str, turned))}]}}\n"
        f"ops:\n  - permute: {{src: X, dst: Y, axes: {axes}}}\n"
    ))  # fmt: skip


# ---------------------------------------------------------------- elements that nobody owns
CONDITIONS = ["bx >= 0", "bx != {k}", "t + 1 < {end}", "t % 3 != 1", "t * 2 + bx < {k} + 9", "bx % 2 == 0 and t < {k}"]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("seed", range(80))
def test_rows_that_nobody_writes_are_counted_and_named(seed: int) -> None:
    rng = random.Random(seed)
    ctas, k, columns = rng.choice([1, 2, 5, 90]), rng.randint(0, 4), rng.choice([1, 5, 32])
    rows = rng.randint(ctas, ctas + 100)
    at_launch = rng.random() < 0.5
    begin, step = ("0", 1) if at_launch else ("bx", rng.choice([ctas, ctas, ctas + 1]))
    shape, params, ctas = ("N", f"params: {{N: {{default: {rows}}}}}\n", 1) if at_launch else (str(rows), "", ctas)
    condition = rng.choice(CONDITIONS).format(k=k, end=shape)
    text = (
        f"kernel: rows\nthreads: 32\ngrid: {{bx: {ctas}}}\n{params}buffers:\n"
        f"  X: {{scope: global, dtype: float32, shape: [{shape}, {columns}]}}\n"
        f"  Y: {{scope: global, dtype: float32, shape: [{shape}, {columns}]}}\n"
        f"ops:\n  - for: {{t: [{begin}, {shape}, {step}]}}\n    do:\n"
        f'      - copy: {{src: "X[t]", dst: "Y[t]", when: "{condition}"}}\n'
    )
    for n in (rows, 1, 11) if at_launch else (rows,):
        starts = [(bx, t) for bx in range(ctas) for t in range(bx * (not at_launch), n, step)]
        written = {t for bx, t in starts if eval(condition, {"N": n, "bx": bx, "t": t})}
        left = [r for r in range(n) if r not in written]
        if left:
            (found,) = refusal_of(ProofError, tilegen.build, text).diagnostics
            used = f" with N = {n}" if at_launch else ""
            counts = f"{len(left) * columns} of {n * columns} elements of Y have no owner{used}"
            assert (found.code, found.message) == ("TG418", f"{counts}, the first is Y[{left[0]}, 0]")
            break
    else:
        verify(tilegen.build(text))
    verify(tilegen.build(text.replace("  Y: {", "  Y: {partial: true, ")))


CAPPED = """kernel: capped
threads: 32
params: {M: {default: 1000, max: 100000}}
grid: {bx: %s}
buffers:
  X: {scope: global, dtype: float32, shape: [M, 32]}
  Y: {scope: global, dtype: float32, shape: [M, 32]}
ops:
  - copy: {scope: warp, src: "X[bx*4 : +4]", dst: "Y[bx*4 : +4]", edge: clip, when: %s}
"""


@pytest.mark.parametrize(
    ("grid", "condition", "said"),
    [("250", "bx >= 0", "3168000 of 3200000 elements of Y have no owner with M = 100000, the first is Y[1000, 0]"),
     ("ceil(M / 4)", "M % 7 != 3", "96 of 96 elements of Y have no owner with M = 3, the first is Y[0, 0]")],
)  # fmt: skip
def test_holes_at_sizes_that_only_a_launch_has_are_found(grid: str, condition: str, said: str) -> None:
    with pytest.raises(ProofError, match="TG418") as caught:
        tilegen.build(CAPPED % (grid, condition))
    assert [d.message for d in caught.value.diagnostics] == [said]
    verify(tilegen.build(CAPPED % ("ceil(M / 4)", "bx >= 0")))
