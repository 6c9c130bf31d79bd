"""The rendered text itself, executed by g++: what the interpreter cannot see is how statements print."""

from __future__ import annotations

from itertools import product

import ml_dtypes  # noqa: F401 - registers bfloat16 and float8 with NumPy
import numpy as np
import pytest

from text.plans import (
    build_cast,
    build_fill,
    build_fragment,
    build_matrices,
    build_permute_sf,
    build_pool,
    build_runtime_copy,
    build_transpose,
)
from text.run import POISON, compile_by_gxx, requires_gxx
from tilegen.arithmetic import TYPED
from tilegen.dtypes import DTYPES, bits_dtype, numpy_dtype
from tilegen.layouts import ldmatrix_fragment
from tilegen.plan import CP_ASYNC, flat_memory

pytestmark = requires_gxx
CASTS = [(a, b) for a, b in product(DTYPES, DTYPES)]


def bits(x):
    return np.ascontiguousarray(x).view(bits_dtype(x.dtype.itemsize))


def random_image(dtype, elems, seed=0):
    raw = np.random.default_rng(seed).integers(0, 256, elems * DTYPES[dtype].bytes, np.uint8)
    return (raw & 1 if dtype == "bool" else raw).view(numpy_dtype(dtype))


PERMUTED = ("bool", "uint8", "float16", "float32", "float64", "complex128")


def test_permute_sf_of_every_width():
    for dtype, runner in zip(PERMUTED, compile_by_gxx([build_permute_sf(d) for d in PERMUTED]), strict=True):
        x = random_image(dtype, 256)
        expected = x.reshape(2, 4, 32).transpose(0, 2, 1).ravel()
        assert (bits(runner.run({"In": x})["Out"]) == bits(expected)).all(), dtype


def test_transpose_with_edges():
    x = random_image("float32", 132 * 200)
    y = compile_by_gxx([build_transpose(132, 200)])[0].run({"X": x})["Y"]
    assert (bits(y).reshape(200, 132) == bits(x).reshape(132, 200).T).all()


def test_some_ctas_only():
    x = random_image("float32", 132 * 200)
    y = bits(compile_by_gxx([build_transpose(132, 200)])[0].run({"X": x}, ctas=[(3, 2, 0)])["Y"]).reshape(200, 132)
    assert (y[192:, 128:] == bits(x).reshape(132, 200).T[192:, 128:]).all()
    assert (y[:192].view(np.uint8) == POISON).all()


@pytest.mark.parametrize(("M", "N"), [(5, 70), (1, 1), (3, 32), (2, 33)])
def test_runtime_sizes_with_a_pitch(M, N):
    x = random_image("int32", (M - 1) * (N + 3) + N)
    y = compile_by_gxx([build_runtime_copy()])[0].run({"X": x}, {"M": M, "N": N})["Y"]
    assert all((y[m * N : m * N + N] == x[m * (N + 3) : m * (N + 3) + N]).all() for m in range(M))


def test_a_thread_that_never_arrives_is_reported():
    from tilegen.index import Var, less
    from tilegen.plan import Plan, Role, Sync, when

    plan = Plan("stuck", "sm_90", (1, 1, 1), (), (Role("all", 64, when(less(Var("tx", 64), 7), Sync("cta"))),))
    with pytest.raises(AssertionError, match="barrier"):
        compile_by_gxx([plan])[0].run({})


def test_a_copy_in_flight_brings_nothing_before_its_wait():
    from tilegen.index import Var
    from tilegen.plan import Commit, Memory, Move, Plan, Role, Wait

    t, S = Var("tx", 32), flat_memory("S", "float32", 32, "shared")
    X, Y = (Memory(n, "float32", (32,), (1,), "global", access=a) for n, a in (("X", "in"), ("Y", "out")))
    steps = (Move(S[t], X[t], via=CP_ASYNC), Commit("cp.async"), Wait("cp.async", 0), Move(Y[t], S[t]))
    late = (*steps[:2], Wait("cp.async", 1), steps[3])
    x = random_image("float32", 32)
    right, early = compile_by_gxx([
        Plan(name, "sm_90", (1, 1, 1), (X, Y, S), (Role("all", 32, body),))
        for name, body in (("right", steps), ("early", late))
    ])  # fmt: skip
    assert (bits(right.run({"X": x})["Y"]) == bits(x)).all()
    assert (early.run({"X": x})["Y"].view(np.uint8) == POISON).all()


# ---- casts
ENDS = [0.5, 1.5, 127, 127.5, 128, 255.5, 256, 32767.5, 65535.5, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e30, np.inf]
BEYOND = [*ENDS, *(-x for x in ENDS), np.nan, -0.0]  # what integers end at, and what is none


def numbers(src, dst):
    """256 values of src, every kind of rounding among them; NaN only for integer types, which make 0 of it."""
    rng = np.random.default_rng(1)
    s, d = DTYPES[src], DTYPES[dst]
    if s.kind == "bool":
        return rng.integers(0, 2, 256).astype("bool")
    if s.kind in ("int", "uint"):
        whole = np.iinfo(src)
        x = rng.integers(whole.min, whole.max, 256, dtype=src, endpoint=True)
        return np.where(np.arange(256) % 2, x, (x % 127).astype(src)).astype(src)
    if d.kind in ("int", "uint", "bool"):
        low = 0 if s.kind == "complex" and d.kind == "uint" else -100
        x = np.where(np.arange(256) % 4, rng.uniform(low, 120, 256), 0)
        if d.kind != "bool" and s.kind == "float":
            x[: len(BEYOND)] = BEYOND
        with np.errstate(all="ignore"):
            return x.astype(numpy_dtype(src))
    x = rng.standard_normal(256) * 2.0 ** rng.integers(-30, 20, 256)
    x[:64] = np.arange(64) * 2.0**-11 + 2.0**-6 * (np.arange(64) % 3)  # ties and subnormals of the small types
    x[64:128] = 1 + np.arange(64) * 2.0**-9 + 2.0**-40 * (np.arange(64) % 3 - 1)
    x[128:140] = [448, 464, 465, 480, 57344, 61439, 61440, 65504, 65520, 1e6, np.inf, -np.inf]
    x = np.where(np.arange(256) % 5 == 0, -x, x)
    with np.errstate(all="ignore"):
        if s.kind == "complex":
            return (np.nan_to_num(x) + 2j).astype(src)
        y = x.astype(numpy_dtype(src))
        return np.where(np.isnan(y.astype("f8")), numpy_dtype(src).type(1), y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_every_cast_is_what_the_op_means():
    runners = compile_by_gxx([build_cast(a, b) for a, b in CASTS])
    for (a, b), runner in zip(CASTS, runners, strict=True):
        x = numbers(a, b)
        y, expected = runner.run({"In": x})["Out"], TYPED.convert(x, a, b)
        different = np.flatnonzero(bits(y) != bits(expected))
        assert not different.size, (
            f"{a} to {b}: {x[different[:4]]} became {y[different[:4]]}, not {expected[different[:4]]}"
        )


@pytest.mark.filterwarnings("ignore")
def test_float8_without_the_instruction():
    """Before sm_89 the prelude converts float8 in plain integer code, which g++ can run."""
    from dataclasses import replace

    pairs = [(a, b) for f in ("float8_e4m3fn", "float8_e5m2") for a, b in (("float32", f),)] + [
        ("float8_e4m3fn", "float32")
    ]
    runners = compile_by_gxx([replace(build_cast(a, b, 4, 1024), arch="sm_80") for a, b in pairs], prelude=True)
    around = np.arange(256, dtype=np.uint8)
    for (a, b), runner in zip(pairs, runners, strict=True):
        if a == "float32":  # every number of the type, every tie, and the floats beside
            exact = np.sort(around.view(numpy_dtype(b)).astype("f4"))
            exact = exact[np.isfinite(exact)]
            ties = (exact[1:] + exact[:-1]) / 2
            x = np.concatenate(
                [
                    exact,
                    ties,
                    np.nextafter(ties, np.float32(1e9)),
                    np.nextafter(ties, np.float32(-1e9)),
                    np.float32([464, 465, 61439, 61440, 1e30, -1e30, np.inf, -np.inf, np.nan]),
                ]
            )
        else:
            x = around.view(numpy_dtype(a))
        x = np.resize(x, 4096)
        y, expected = runner.run({"In": x})["Out"], x.astype(numpy_dtype(b))
        same = (bits(y) == bits(expected)) | (np.isnan(y.astype("f4")) & np.isnan(expected.astype("f4")))
        assert same.all(), (a, b, x[~same][:4], y[~same][:4], expected[~same][:4])


FILLS = [("float32", 0.1), ("float32", 1e-30), ("float32", -np.inf), ("float64", 1 / 3), ("float64", np.inf),
         ("float16", 1.5),
         ("bfloat16", -3.0), ("float8_e4m3fn", 448), ("float8_e5m2", np.inf), ("int32", -(2**31)), ("int64", -(2**63)),
         ("uint32", 2**32 - 1), ("uint64", 2**64 - 1), ("int8", -128), ("bool", True), ("complex64", 1 - 2j),
         ("complex128", 0.1 + 3j), ("float32", 0), ("float32", -0.0)]  # fmt: skip


def test_fills_are_exact():
    for (dtype, value), runner in zip(FILLS, compile_by_gxx([build_fill(d, v) for d, v in FILLS]), strict=True):
        y = runner.run({})["Out"]
        assert (bits(y) == bits(np.full(y.shape, value, numpy_dtype(dtype)))).all(), (dtype, value)


FRAGMENTS = ("bool", "uint8", "float16", "float32", "float64")


def test_fragments_in_registers():
    for dtype, runner in zip(FRAGMENTS, compile_by_gxx([build_fragment(d) for d in FRAGMENTS]), strict=True):
        vec = 16 // DTYPES[dtype].bytes
        x = random_image(dtype, 64 * vec)
        expected = x.reshape(2, 32, vec).transpose(1, 2, 0).ravel()
        assert (bits(runner.run({"In": x})["Out"]) == bits(expected)).all(), dtype


def test_a_pool_with_two_views():
    x = random_image("uint32", 16384)
    assert (compile_by_gxx([build_pool()])[0].run({"In": x})["Out"] == x).all()


def test_matrices_both_ways():
    """What ldmatrix leaves in each lane's registers is the layout of that name; stmatrix puts it back."""
    cases = [(n, trans) for n in (1, 2, 4) for trans in (False, True)]
    for (n, trans), runner in zip(cases, compile_by_gxx([build_matrices(*c) for c in cases]), strict=True):
        x = random_image("uint16", 2 * 64 * n, seed=n)
        images = runner.run({"In": x})
        assert np.array_equal(images["Out"], x)
        held, tiles = images["Held"].reshape(2, 32, 2 * n), x.reshape(2, n, 8, 8)
        for at in np.ndindex(n, 8, 8):
            home = ldmatrix_fragment(n, trans).place(at, (n, 8, 8))
            assert np.array_equal(held[:, home["laneid"], home["m"]], tiles[:, *at]), (n, trans, at)
