"""Several results of one op, executed: the bits that an op of its own would have made of each, by other text."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import tilegen
from text.run import compile_plans, requires_runner
from tilegen.dtypes import numpy_dtype
from tilegen.pipeline import Built

ROWS, COLUMNS = 6, 40
LEAVES = ("x", "w", "2.0", "index(1)", "bx + 1")
FORMS = ("{} + {}", "{} * {}", "max({}, {})", "{} - {}")


def draw_values(
    rng: random.Random, count: int, leaves: tuple[str, ...] = LEAVES, more: tuple[str, ...] = ("where(x < {}, {}, w)",),
    around: str = "{}",
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Values for names r0, r1, .., of which each may use those before it, and the same with these written out."""
    said, written = list[str](), list[str]()
    for k in range(count):
        known = [*leaves, *(f"r{j}" for j in range(k))]
        form = rng.choice([*FORMS, *more]).format(rng.choice(leaves), rng.choice(known))
        form = around.format(form)
        said.append(form)
        written.append(re.sub(r"r(\d)", lambda m: f"({written[int(m[1])]})", form))
    return said, written


def draw_elementwise(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A kernel with several results in memories of all kinds, some where a source is, and one with an op for each."""
    rng = random.Random(seed)
    count, threads = rng.randint(2, 4), rng.choice([32, 64, 96])
    said, written = draw_values(rng, count)
    is_held, is_clipped = rng.random() < 0.6, rng.random() < 0.4
    rows = ROWS
    extent = 2 * ROWS - 2 if is_clipped else 2 * ROWS

    def box(name: str, first: int = 0) -> str:
        begin = f"bx * {rows}" + (f" + {first}" if first else "")
        return f"{name}[{begin} : +{rows}]"

    def array(dtype: str, more: int = 0) -> dict[str, Any]:
        return {"scope": "global", "dtype": dtype, "shape": [extent + more, COLUMNS]}

    edge = {"edge": "clip"} if is_clipped else {}
    register = {"scope": "register", "shape": [rows, COLUMNS], "layout": "auto"}
    inputs = {"X": array("float32"), "W": {"scope": "global", "dtype": "float16", "shape": [COLUMNS]}}
    several: dict[str, Any] = {**inputs}
    alone: dict[str, Any] = {**inputs}
    ops: list[Any] = []
    sources, dst, stores = {"x": box("X"), "w": "W"}, dict[str, str](), list[Any]()
    if is_held:
        several["held"] = {**register, "dtype": "float32"}
        ops.append({"copy": {"src": box("X"), "dst": "held", **edge}})
        sources["x"] = "held"
    single = []
    for k in range(count):
        dtype, first = rng.choice(["float32", "float16", "int8", "float64"]), rng.choice([0, 3])
        place = rng.choice(["global", "global", "shared", "register", "held"])
        name, out = f"t{k}", f"Y{k}"
        if place == "held" and is_held and "held" not in dst.values():
            place, dtype, name = "register", "float32", "held"
        elif place == "held":
            place = "global"
        partial = {"partial": True} if first else {}
        several[out] = alone[out] = array(dtype, first) | partial
        if place == "global":
            dst[f"r{k}"] = box(out, first)
        else:
            own = register if place == "register" else {"scope": "shared", "shape": [rows, COLUMNS]}
            several.setdefault(name, {**own, "dtype": dtype})
            dst[f"r{k}"] = name
            stores.append({"copy": {"src": name, "dst": box(out, first), **edge}})
        own_with = {"x": box("X"), "w": "W"}
        used = {n: v for n, v in own_with.items() if re.search(rf"\b{n}\b", written[k])}
        single.append({"elementwise": {"dst": box(out, first), "expr": written[k], "with": used, **edge}})
    text = "; ".join(f"r{k} = {value}" for k, value in enumerate(said))
    used = {n: v for n, v in sources.items() if re.search(rf"\b{n}\b", text)}
    is_there = any("[" in region for region in (*dst.values(), *used.values()))
    ops.append({"elementwise": {"dst": dst, "expr": text, "with": used, **(edge if is_there else {})}})
    head = {"kernel": "several", "threads": threads, "grid": {"bx": 2}}
    return (
        {**head, "buffers": several, "ops": [*ops, {"sync": "cta"}, *stores]},
        {**head, "buffers": alone, "ops": single},
    )


def run_both(pairs: list[tuple[Built, Built]], inputs: dict[str, Any]) -> None:
    runners = compile_plans([built.plan for pair in pairs for built in pair])
    for k, (one, _) in enumerate(pairs):
        got, want = (runner.run(dict(inputs)) for runner in runners[2 * k : 2 * k + 2])
        for name in want:
            assert np.array_equal(got[name].view(np.uint8), want[name].view(np.uint8)), (k, name, one.source)


@requires_runner
@pytest.mark.sweep(1)
@pytest.mark.parametrize("seed", range(12))
def test_every_result_is_what_an_op_of_its_own_makes(seed: int) -> None:
    pairs = [tuple(map(tilegen.build, draw_elementwise(2 * seed + k))) for k in range(2)]
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2 * ROWS, COLUMNS)).astype(np.float32) * 40
    weights = rng.normal(size=COLUMNS).astype(numpy_dtype("float16"))
    run_both(pairs, {"X": values, "W": weights})  # type: ignore[arg-type]


# ---------------------------------------------------------------- reductions
OPS = ("sum", "max", "min", "prod", "argmax", "argmin")


def draw_reduce(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Several results of one reduction, and one with a reduction for each: of integers, where no order shows."""
    rng = random.Random(seed)
    threads, shape, axis = rng.choice([32, 40, 64, 96, 256]), [rng.choice([1, 3, 8]), rng.choice([5, 32, 100])], 1
    if rng.random() < 0.3:
        shape, axis = shape[::-1], 0
    left = [1 if d == axis else n for d, n in enumerate(shape)]
    count, is_named = rng.randint(2, 4), rng.random() < 0.6
    said, written = draw_values(rng, count, ("x", "x", "3"), ("abs({}) + {}",), "x + ({})")
    ops = [rng.choice(OPS) for _ in range(count)]
    ops = [ops[0]] * count if rng.random() < 0.2 else ops
    held = rng.random() < 0.4

    def tile(scope: str, extents: list[int], dtype: str = "int32") -> dict[str, Any]:
        return {"scope": scope, "dtype": dtype, "shape": extents, **({"layout": "auto"} if scope == "register" else {})}

    source = "held" if held else "X"
    first: list[Any] = [{"copy": {"src": "X", "dst": "held"}}] if held else []
    buffers = {"X": tile("global", shape)} | ({"held": tile("register", shape)} if held else {})
    dst, index, single, stores = dict[str, str](), dict[str, str](), list[Any](), list[Any]()
    for k, op in enumerate(ops):
        dtype = rng.choice(["int32", "int64", "float64"])
        buffers |= {f"t{k}": tile("register", left, dtype), f"Y{k}": tile("global", left, dtype)}
        dst[f"r{k}"] = f"t{k}"
        stores.append({"copy": {"src": f"t{k}", "dst": f"Y{k}"}})
        of = {"expr": written[k], "with": {"x": source}} if is_named else {"src": source}
        more = {}
        if op.startswith("arg"):
            buffers |= {f"i{k}": tile("register", left), f"I{k}": tile("global", left)}
            index[f"r{k}"], more = f"i{k}", {"index": f"i{k}"}
            stores.append({"copy": {"src": f"i{k}", "dst": f"I{k}"}})
        single.append({"reduce": {**of, "dst": f"t{k}", "op": op, "axis": axis, **more}})
    text = "; ".join(f"r{k} = {value}" for k, value in enumerate(said))
    of = {"expr": text, "with": {"x": source}} if is_named else {"src": source}
    how = ops[0] if len(set(ops)) == 1 else {f"r{k}": op for k, op in enumerate(ops)}
    together = {"reduce": {**of, "dst": dst, "op": how, "axis": axis, **({"index": index} if index else {})}}
    head = {"kernel": "reduced", "threads": threads, "buffers": buffers}
    return {**head, "ops": [*first, together, *stores]}, {**head, "ops": [*first, *single, *stores]}


@pytest.mark.slow
@requires_runner
@pytest.mark.parametrize("seed", range(12))
def test_every_result_is_what_a_reduction_of_its_own_makes(seed: int) -> None:
    for k in range(2):
        pair = tuple(map(tilegen.build, draw_reduce(2 * seed + k)))
        values = np.random.default_rng(seed).integers(-9, 9, pair[0].spec.buffer("X").shape).astype(np.int32)
        run_both([pair], {"X": values})  # type: ignore[list-item]
        meetings = [built.source.split("extern")[0].count("__syncthreads();") for built in pair]
        assert meetings[0] <= meetings[1]


# ---------------------------------------------------------------- what is refused
def two_results(first: str, second: str, **more: Any) -> dict[str, Any]:
    """Two results that are written to these, nine times."""
    register = {"scope": "register", "dtype": "float32", "shape": [32]}
    arrays = {
        "X": {"scope": "global", "dtype": "float32", "shape": [32]},
        "Y": {"scope": "global", "dtype": "float32", "shape": [80], "partial": True},
        "a": {**register, "layout": "S[32:1@tx]"}, "b": {**register, "layout": "S[32:1@laneid] + R[2:1@warpid]"},
        "s": {"scope": "shared", "dtype": "float32", "shape": [2, 32]},
    }  # fmt: skip
    said = {"dst": {"r": first, "q": second}, "expr": "r = x; q = x + 1.0", "with": {"x": "X"}, **more}
    body = [{"elementwise": said}, {"sync": "cta"}]
    return {"kernel": "two", "threads": 64, "buffers": arrays, "ops": [{"for": {"i": 9}, "do": body}]}


@pytest.mark.parametrize(("first", "second", "code", "said"), [
    ("Y[4*i : +32]", "Y[16 : +32]", "TG403", "two of its results may lie there"),  # in the third trip
    ("Y[32 * (i // 8) : +32]", "Y[0 : +32]", "TG408", "each result has elements of its own"),  # by one thread
    ("s[i % 2]", "s[i // 8]", "TG408", "each result has elements of its own"),
    ("Y[i : +32]", "Y[i + 4 : +32]", "TG212", "overlap"),  # in every trip, as the text says
    ("a", "b", "TG301", "are owned by different threads"),
])  # fmt: skip
def test_two_results_have_no_place_in_common(first: str, second: str, code: str, said: str) -> None:
    with pytest.raises(tilegen.TilegenError) as caught:
        tilegen.build(two_results(first, second))
    (found,) = caught.value.diagnostics
    assert found.code == code and said in f"{found.message} {found.hint}"


def test_results_side_by_side_are_proved() -> None:
    tilegen.build(two_results("Y[i : +32]", "Y[i + 32 : +32]"))
