"""Dropout's words are those of Philox4x32-10: Random123's known answers, NumPy's generator (of 64 bits), g++."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from text.run import compile_changed, compile_plans, requires_runner

from tilegen.arithmetic import TYPED
from tilegen.dtypes import bits_dtype, numpy_dtype
from tilegen.pipeline import Built, build, load
from tilegen.reference import run_reference
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of
from tilegen.verifying.images import list_ctas

SPEC = "specs/dropout.yaml"
# Random123 1.14, tests/kat_vectors: philox4x32 10 rounds, counter, key, and what comes of them.
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)  # fmt: skip
BITS = 0xFFFFFFFF


def make_block(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """The block of a counter, in Python's integers (Salmon and others, Parallel Random Numbers: As Easy as 1, 2, 3)."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (y >> 32) ^ b ^ k, y & BITS, (x >> 32) ^ d ^ m, x & BITS
        k, m = (k + 0x9E3779B9) & BITS, (m + 0xBB67AE85) & BITS
    return a, b, c, d


@pytest.mark.parametrize(("counter", "key", "block"), KNOWN)
def test_the_oracle_has_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], block: tuple[int, ...]
) -> None:
    assert make_block(counter, key) == block


def rounds_of_any() -> dict[str, Any]:
    """The rounds of the spec, as they stand there, over counters and keys that arrays give."""
    loaded = load(SPEC, params={"N": 64})
    assert isinstance(loaded, Spec)
    text = next(line for line in loaded.text.split("  - for: {r: 10}\n")[1].split("  - for: {w: 4}")[:1])
    assert "seed + uint32(r) * 0x9E3779B9" in text and "uint32(r) * 0xBB67AE85" in text
    import yaml

    body = yaml.safe_load("- for: {r: 10}\n  unroll: true\n" + "\n".join(x[2:] for x in text.splitlines()[1:]))
    (call,) = body[0]["do"]
    expr = call["elementwise"]["expr"].replace("seed +", "k0 +").replace("^ uint32(r)", "^ k1 + uint32(r)")
    call["elementwise"]["expr"] = expr
    call["elementwise"]["with"] |= {"k0": "k[0]", "k1": "k[1]"}
    array = {"scope": "global", "dtype": "uint32"}
    return {
        "kernel": "rounds", "threads": 32, "buffers": {
            "C": array | {"shape": [4, 64]}, "K": array | {"shape": [2, 64]}, "Y": array | {"shape": [4, 64]},
            "c": {"scope": "register", "dtype": "uint32", "shape": [4, 64], "layout": "S[(4, 32, 2):(2, 1@tx, 1)]"},
            "k": {"scope": "register", "dtype": "uint32", "shape": [2, 64], "layout": "S[(2, 32, 2):(2, 1@tx, 1)]"},
        },
        "ops": [
            {"copy": {"src": "C", "dst": "c"}}, {"copy": {"src": "K", "dst": "k"}}, *body,
            {"copy": {"src": "c", "dst": "Y"}},
        ],
    }  # fmt: skip


def draw_counters() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Those of the known answers first, and any."""
    rng = np.random.default_rng(7)
    counters, keys = (rng.integers(0, 1 << 32, (n, 64), np.uint32) for n in (4, 2))
    for at, (counter, key, _) in enumerate(KNOWN):
        counters[:, at], keys[:, at] = counter, key
    return counters, keys


@requires_runner
def test_the_rounds_give_the_known_answers() -> None:
    """By the spec's own meaning, and by the kernel's text."""
    counters, keys = draw_counters()
    built = build(rounds_of_any())
    assert isinstance(built, Built)
    found = compile_plans([built.plan])[0].run({"C": counters, "K": keys})["Y"].reshape(4, 64)
    for at, (_, _, block) in enumerate(KNOWN):
        assert tuple(found[:, at].tolist()) == block
    for at in range(64):
        assert tuple(found[:, at].tolist()) == make_block(counters[:, at].tolist(), keys[:, at].tolist())


@requires_runner
def test_the_rounds_of_64_bits_are_those_of_numpy() -> None:
    """NumPy has Philox4x64-10, the same rounds with other numbers: uint64 beside uint32."""
    spec = rounds_of_any()
    spec["buffers"] = {name: own | {"dtype": "uint64"} for name, own in spec["buffers"].items()}
    op = next(op for op in spec["ops"] if "for" in op)["do"][0]["elementwise"]
    for old, new in (
        ("0xCD9E8D57", "0xCA5A826395121157"), ("0xD2511F53", "0xD2E7470EE14C6C93"),
        ("uint32(r) * 0x9E3779B9", "uint64(r) * 0x9E3779B97F4A7C15"),
        ("uint32(r) * 0xBB67AE85", "uint64(r) * 0xBB67AE8584CAA73B"),
    ):  # fmt: skip
        assert old in op["expr"]
        op["expr"] = op["expr"].replace(old, new)
    rng = np.random.default_rng(11)
    counters, keys = (rng.integers(0, 1 << 64, (n, 64), np.uint64, endpoint=False) for n in (4, 2))
    built = build(spec)
    assert isinstance(built, Built)
    found = compile_plans([built.plan])[0].run({"C": counters, "K": keys})["Y"].reshape(4, 64)
    for at in range(64):
        before = counters[:, at].copy()
        before[0] -= np.uint64(1)  # NumPy counts up first
        drawn = np.random.Philox(counter=before, key=keys[:, at]).random_raw(4)
        assert found[:, at].tolist() == drawn.tolist()


ROUND_FAULTS = {
    "the key of the next round": ("(unsigned)r *", "(unsigned)(r + 1) *"),
    "mulhi signed": ("__umulhi(", "(unsigned)__mulhi("),
    "multipliers exchanged": ("3449720151u", "3528531795u"),
    "one word not renewed": ("c[f + 6] = 3528531795u * c[f];", ""),
}


@requires_runner
@pytest.mark.parametrize("name", ROUND_FAULTS)
def test_wrong_rounds_are_found(name: str) -> None:
    counters, keys = draw_counters()
    built = build(rounds_of_any())
    assert isinstance(built, Built)
    found = compile_changed(built.plan, ROUND_FAULTS[name]).run({"C": counters, "K": keys})["Y"].reshape(4, 64)
    assert any(tuple(found[:, at].tolist()) != block for at, (_, _, block) in enumerate(KNOWN))


# ---------------------------------------------------------------- the stream of the kernel
def find_words(count: int, seed: int, stream: int, offset: int) -> np.ndarray[Any, Any]:
    """The words of so many elements, by the oracle."""
    blocks = [make_block((block, offset, stream, 0), (seed, 0)) for block in range(-(-count // 4))]
    return np.array(blocks, np.uint32).ravel()[:count]


def drop(x: np.ndarray[Any, Any], case: dict[str, Any], seed: int, stream: int, offset: int) -> np.ndarray[Any, Any]:
    kept = find_words(len(x), seed, stream, offset) < np.uint32(case["keep"])
    scaled = (x.astype(np.float32) * np.float32(case["scale"])).astype(x.dtype)
    return np.where(kept, scaled, np.zeros(1, x.dtype))


@pytest.mark.parametrize("spec_path", [SPEC, "specs/dropout_f32.yaml"])
@pytest.mark.parametrize(("seed", "stream", "offset"), [(1234, 0, 0), (0, 0, 0), (0xFFFFFFFF, 7, 0x80000001)])
def test_the_kernel_draws_the_stream(spec_path: str, seed: int, stream: int, offset: int) -> None:
    """The spec's meaning on whole CTAs and a part of one, for params of all bits."""
    given = {"N": 2048 + 40, "seed": seed, "stream": stream, "offset": offset}
    spec = load(spec_path, params=given)
    assert isinstance(spec, Spec)
    dtype = spec.buffer("X").dtype
    case = {p.name: p.default for p in spec.params}
    x = np.random.default_rng(3).standard_normal(given["N"]).astype(numpy_dtype(dtype))
    ctas = list_ctas(launch_of(spec, {"N": given["N"]}).grid)
    at, bits = run_reference(spec, ctas, {"X": lambda k: x[k]}, {"N": given["N"]}, domain=TYPED)["Y"]
    assert at.tolist() == list(range(given["N"]))
    wanted, raw = drop(x, case, seed, stream, offset), bits_dtype(x.itemsize)
    assert bits.view(raw).tolist() == wanted.view(raw).tolist()


@requires_runner
def test_the_text_draws_the_stream() -> None:
    built = build(SPEC, params={"N": 4096 + 8})
    assert isinstance(built, Built)
    case = {p.name: p.default for p in built.plan.params}
    x = np.random.default_rng(3).standard_normal(4104).astype(numpy_dtype("bfloat16"))
    given = {"seed": 0x9E3779B9, "stream": 3, "offset": 0xFFFFFFFF}
    found = compile_plans([built.plan])[0].run({"X": x}, given)["Y"]
    wanted = drop(x, case, **given)
    assert found.view(np.uint16).tolist() == wanted.view(np.uint16).tolist()
