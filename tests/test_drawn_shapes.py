"""Shapes drawn at random: extents of 1 that do not count, views that turn, arrays of many dimensions."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tilegen.errors import SpecError
from tilegen.proofs.runs import check_run, list_runs


def prove(spec: dict[str, Any]) -> None:
    built = tilegen.build(spec)
    for run in list_runs(built.spec, built.plan):
        check_run(built.spec, built.plan, run, 2)


def kernel(threads: int, buffers: dict[str, Any], *ops: Any) -> dict[str, Any]:
    return {"kernel": "drawn", "arch": "sm_80", "threads": threads, "buffers": buffers, "ops": [*ops]}


def array(dtype: str, shape: list[int]) -> dict[str, Any]:
    return {"scope": "global", "dtype": dtype, "shape": shape}


# ---------------------------------------------------------------- extents of 1
def spread(rng: random.Random, shape: list[int]) -> list[int]:
    """The shape with extents of 1 in any places."""
    out = list(shape)
    for _ in range(rng.randint(0, 3)):
        out.insert(rng.randint(0, len(out)), 1)
    return out or [1]


def draw_with_ones(seed: int) -> dict[str, Any]:
    """An elementwise over arrays and registers of equal shapes but for extents of 1, and over one that stretches."""
    rng = random.Random(seed)
    shape = [rng.choice([2, 3, 5, 8, 16]) for _ in range(rng.randint(0, 3))]
    dtype = rng.choice(["float32", "float16", "int32"])
    places = {name: spread(rng, shape) for name in "XYZr"}
    buffers: dict[str, Any] = {name: array(dtype, places[name]) for name in "XYZ"}
    buffers["r"] = {"scope": "register", "dtype": dtype, "shape": places["r"], "layout": "auto"}
    buffers["W"] = array(dtype, [n if rng.random() < 0.5 else 1 for n in places["Y"]])
    compute = {"dst": "Y", "expr": "x * r + z - w", "with": {"x": "X", "z": "Z", "w": "W"}}
    return kernel(rng.choice([32, 64, 128]), buffers, {"copy": {"src": "X", "dst": "r"}}, {"elementwise": compute})


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", range(40))
def test_extents_of_one_do_not_count_where_shapes_are_equal(seed: int) -> None:
    prove(draw_with_ones(seed))


# ---------------------------------------------------------------- turned views of registers
def draw_turned(seed: int) -> dict[str, Any]:
    """A tile that one thread, some or all own, read and written through views with turned axes."""
    rng = random.Random(seed)
    rank = rng.randint(2, 3)
    shape = [rng.choice([1, 2, 3, 4, 8, 16]) for _ in range(rank)]
    axes = rng.sample(range(rank), rank)
    turned = [shape[a] for a in axes]
    dtype = rng.choice(["bfloat16", "float32", "float64", "int32"])
    buffers = {
        "X": array(dtype, shape), "Y": array(dtype, turned), "q": {"view": "p", "axes": axes},
        "p": {"scope": "register", "dtype": dtype, "shape": shape, "layout": "auto"},
    }  # fmt: skip
    out: Any = {"elementwise": {"dst": "Y", "expr": "q + 1"}}
    if rng.random() < 0.3:
        out = {"copy": {"src": "q", "dst": "Y"}}
    more = [{"elementwise": {"dst": "q", "expr": "q * 2"}}] if rng.random() < 0.5 else []
    return kernel(rng.choice([32, 64, 128]), buffers, {"copy": {"src": "X", "dst": "p"}}, *more, out)


@pytest.mark.sweep(6)
@pytest.mark.parametrize("seed", range(40))
def test_a_turned_view_of_registers_is_its_threads_alone(seed: int) -> None:
    prove(draw_turned(seed))


# ---------------------------------------------------------------- arrays that run along different dimensions
def draw_ragged(seed: int) -> dict[str, Any]:
    """An elementwise or cast between rows and columns, at edges that cut tiles, beginning before the array at times."""
    rng = random.Random(seed)
    rows, columns = rng.choice([16, 32, 64]), rng.choice([16, 32])
    m, n = rng.choice([rows, 5, 40, 72, 96]), rng.choice([columns, 7, 24, 40, 64])
    x, a, y = (rng.choice(["uint8", "float16", "float32", "float64"]) for _ in range(3))
    early = rng.choice([0, 0, 0, 1, 4])
    at = f"[by*{rows} - {early} : +{rows}, bx*{columns} : +{columns}]"
    buffers = {"X": array(x, [n, m]), "A": array(a, [m, n]), "Y": array(y, [m, n])}
    buffers["Xt"] = {"view": "X", "axes": [1, 0]}
    op: Any = {"cast": {"src": f"Xt{at}", "dst": f"Y{at}", "edge": "clip"}}
    if x == y or rng.random() < 0.7:
        given = {"x": f"Xt{at}", "a": f"A{at}"} if rng.random() < 0.5 else {"x": f"Xt{at}"}
        expr = "x + a" if "a" in given else "x + 1"
        op = {"elementwise": {"dst": f"Y{at}", "expr": expr, "with": given, "edge": "clip"}}
    spec = kernel(rng.choice([32, 64, 96, 128]), buffers, op)
    return {**spec, "grid": {"bx": -(-n // columns), "by": -(-(m + early) // rows)}}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("seed", range(40))
def test_boxes_at_edges_and_beside_them(seed: int) -> None:
    prove(draw_ragged(seed))


# ---------------------------------------------------------------- an array through a tile of the op's own
def turn(m: int, n: int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    buffers = {"X": array(dtype, [n, m]), "Xt": {"view": "X", "axes": [1, 0]}, "Y": array(dtype, [m, n])}
    at = "[by*64 : +64, bx*64 : +64]"
    op = {"dst": f"Y{at}", "expr": "x + 1", "with": {"x": f"Xt{at}"}, "edge": "clip", **more}
    spec = kernel(256, buffers, {"elementwise": op})
    return {**spec, "grid": {"bx": -(-n // 64), "by": -(-m // 64)}}


def count_of(spec: dict[str, Any]) -> tuple[str, int, int]:
    """The partition, and the sectors of a CTA with those that hold what it touches."""
    op = tilegen.explain(spec)["ops"][0]
    partition = next(c["picked"] for c in op["choices"] if c["question"] == "partition")
    return partition, sum(t["sectors"] for t in op["traffic"]), sum(t["sectors_floor"] for t in op["traffic"])


@pytest.mark.parametrize(("dtype", "plain"), [("float32", 2.0), ("float16", 3.5), ("uint8", 3.5)])
def test_a_turned_tile_of_odd_rows_goes_through_shared_memory(dtype: str, plain: float) -> None:
    spec = turn(327, 331, dtype)
    partition, sectors, floor = count_of(spec)
    assert " in a tile of rows of " in partition and sectors <= 1.35 * floor
    prove(spec)
    prove(turn(327, 331, dtype, partition=partition))
    without = partition.partition(";")[0]
    _, more, _ = count_of(turn(327, 331, dtype, partition=without))
    assert more > plain * floor and "__shared__" not in tilegen.build(turn(327, 331, dtype, partition=without)).source


def test_a_tile_is_taken_only_where_it_is_cheaper() -> None:
    """Vectors on both sides need none; nor do threads that do not meet."""
    assert " in a tile of rows of " not in count_of(turn(320, 328))[0]
    single = turn(327, 331, scope="warp")
    single["threads"] = 64
    op = single["ops"][0]["elementwise"]
    op["dst"], op["with"] = (
        text.replace("by*64 : +64", "by*64 + warpid*32 : +32") for text in (op["dst"], op["with"]["x"])
    )
    op["with"] = {"x": op["with"]}
    assert " in a tile of rows of " not in count_of(single)[0]
    prove(single)


def test_a_tile_that_is_not_there_is_refused_with_the_nearest() -> None:
    found = refusal_of(
        SpecError, tilegen.build, turn(327, 331, partition="1 of Xt's at once; Y in a tile of rows of 63")
    )
    assert [d.code for d in found.diagnostics] == ["TG302"] and "rows of 65" in found.diagnostics[0].hint
    found = refusal_of(
        SpecError, tilegen.build, turn(320, 328, partition="1 of Xt's at once; Y in a tile of rows of 65")
    )
    assert "no array goes through shared memory here" in found.diagnostics[0].message


def test_a_tile_leaves_room_for_what_the_spec_wants() -> None:
    """As many CTAs on one multiprocessor, and shared buffers that fill it."""
    wanted = {**turn(327, 331), "ctas_per_sm": 8}
    assert " in a tile of rows of " in count_of(wanted)[0]  # 16.3 KiB and 1 KiB of the system's, of 164 KiB
    assert " in a tile of rows of " not in count_of({**wanted, "ctas_per_sm": 12, "threads": 128})[0]
    full = turn(327, 331)
    full["buffers"]["s"] = {"scope": "shared", "dtype": "uint8", "shape": [160 * 1024]}
    assert " in a tile of rows of " not in count_of(full)[0]


def sum_row() -> dict[str, Any]:
    buffers = {"X": array("float32", [1, 512]), "Y": array("float32", [1, 1])}
    buffers["q"] = {"scope": "register", "dtype": "float32", "shape": [1, 1], "layout": "auto"}
    total = {"reduce": {"src": "X", "dst": "q", "axis": 1, "op": "sum"}}
    return kernel(128, buffers, total, {"copy": {"src": "q", "dst": "Y"}})


@pytest.mark.parametrize("plain", [sum_row(), turn(131, 67)], ids=["reduce", "elementwise"])
def test_shared_memory_of_an_op_lies_behind_the_buffers_of_its_own_spec(plain: dict[str, Any]) -> None:
    """Two specs, one after the other, that are equal but for the length of a buffer that the op does not touch."""
    for length in (256, 1024):
        s = {"scope": "shared", "dtype": "float32", "shape": [length]}
        more = {"s": s, "V": array("float32", [length])}
        first = " and ".join(f"{axis} == 0" for axis in plain.get("grid", {})) or "true"
        out = {"copy": {"src": "s", "dst": "V", "when": first}}
        ops = [{"fill": {"dst": "s", "value": 1}}, *plain["ops"], {"sync": "cta"}, out]
        built = tilegen.build({**plain, "buffers": plain["buffers"] | more, "ops": ops})
        (scratch,) = (m for m in built.plan.memories if m.name.startswith("scratch"))
        assert scratch.offset_bytes == 4 * length


def test_ops_one_after_the_other_and_in_a_loop_take_turns_in_their_tile() -> None:
    spec = turn(131, 67)
    given = {"x": "Xt[t*64 : +64, bx*64 : +64]"}
    first = {**spec["ops"][0]["elementwise"], "dst": "Y[t*64 : +64, bx*64 : +64]", "with": given}
    again = {**first, "dst": "Z[t*64 : +64, bx*64 : +64]", "expr": "2 * x"}
    spec["buffers"]["Z"] = array("float32", [131, 67])
    del spec["grid"]["by"]
    spec["ops"] = [{"for": {"t": 3}, "do": [{"elementwise": first}, {"elementwise": again}]}]
    assert tilegen.build(spec).source.count("__syncthreads();") == 4
    prove(spec)


# ---------------------------------------------------------------- several operands of one array
def draw_channels(seed: int) -> dict[str, Any]:
    """An elementwise of some channels of an array, each an operand, written to some of another's, or of its own."""
    rng = random.Random(seed)
    channels, pixels, rows = rng.choice([2, 3, 4, 5]), rng.choice([8, 12, 32, 33]), rng.choice([1, 3, 4])
    x, y = (rng.choice(["uint8", "float16", "float32"]) for _ in range(2))
    read = rng.sample(range(channels), rng.randint(1, channels))
    buffers: dict[str, Any] = {"X": array(x, [4 * rows, pixels, channels])}
    if is_apart := rng.random() < 0.7:
        buffers["Y"] = {**array(y, [4 * rows, pixels, channels]), "partial": True}
    written = rng.sample(range(channels) if is_apart else read, rng.randint(1, min(3, len(read))))
    taken = rows + rng.choice([0, 0, 1])  # rows that divide the array's, or do not
    at = f"bx*{taken} : +{taken}, :"
    total = " + ".join(f"{n + 1}*c{k}" for n, k in enumerate(read))
    op = {
        "dst": {f"d{k}": f"{'Y' if is_apart else 'X'}[{at}, {k}]" for k in written},
        "expr": "; ".join(f"d{k} = {total} + {k}" for k in written),
        "with": {f"c{k}": f"X[{at}, {k}]" for k in read}, "edge": "clip" if taken > rows else "error",
    }  # fmt: skip
    spec = kernel(rng.choice([32, 64, 128]), buffers, {"elementwise": op})
    return {**spec, "grid": {"bx": -(-4 * rows // taken)}}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("seed", range(40))
def test_channels_side_by_side_are_moved_together(seed: int) -> None:
    prove(draw_channels(seed))


def widths_of(dst: dict[str, str], given: dict[str, str], channels: int) -> list[tuple[str, str, int]]:
    buffers = {name: array("float16", [4, 64, channels]) for name in ("X", "Y")}
    buffers["Y"]["partial"] = True
    expr = "; ".join(f"{name} = {' + '.join(given)}" for name in dst)
    op = {"elementwise": {"dst": dst, "expr": expr, "with": given, "partition": "4 of Y's at once"}}
    accesses = tilegen.explain(kernel(32, buffers, op))["ops"][0]["accesses"]
    return [(a["buffer"], a["kind"], a["width_bytes"]) for a in accesses]


def test_which_operands_are_one_access() -> None:
    """All channels are, and some where these are neighbours; a gap between two stays one."""
    both, one = {"u": "Y[:, :, 0]", "v": "Y[:, :, 1]"}, {"u": "Y[:, :, 1]"}
    pair = {"a": "X[:, :, 0]", "b": "X[:, :, 1]"}
    assert widths_of(both, pair, 2) == [("X", "ld", 16), ("Y", "st", 16)]
    assert widths_of(both, pair, 4) == [("X", "ld", 4), ("Y", "st", 4)]
    assert widths_of(both, {"a": "X[:, :, 1]", "b": "X[:, :, 2]"}, 4) == [("X", "ld", 2), ("Y", "st", 4)]
    assert widths_of(one, {"a": "X[:, :, 0]", "b": "X[:, :, 2]"}, 4) == [("X", "ld", 2), ("X", "ld", 2), ("Y", "st", 2)]
    turned = {"b": "X[:, :, 1]", "a": "X[:, :, 0]", "again": "X[:, :, 1]"}
    assert widths_of(one, turned, 2) == [("X", "ld", 16), ("X", "ld", 2), ("Y", "st", 2)]


# ---------------------------------------------------------------- many dimensions
def draw_many_dimensions(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    rank = rng.randint(9, 24)
    shape = [1] * rank
    for k in rng.sample(range(rank), min(rank, 13)):
        shape[k] = rng.choice([1, 2, 2, 3])
    axes = rng.sample(range(rank), rank)
    if rng.random() < 0.3:  # runs that stay together
        axes = [*range(rank // 2, rank), *range(rank // 2)]
    dtype = rng.choice(["uint8", "float16", "float32", "complex64", "complex128"])
    buffers = {"X": array(dtype, shape), "Y": array(dtype, [shape[a] for a in axes])}
    return {
        "kernel": "drawn", "arch": "sm_90", "buffers": buffers,
        "ops": [{"permute": {"src": "X", "dst": "Y", "axes": axes}}],
    }  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("seed", range(24))
def test_a_permute_of_many_dimensions_merges_them_first(seed: int) -> None:
    prove(draw_many_dimensions(seed))
