"""Conversions on a GPU: every number that is special to a type, by the op cast and by elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilegen
from tilegen import gpu
from tilegen.arithmetic import TYPED, round_to
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.gpu.device import probe_device
from tilegen.verifying import compile_for, launch_case

DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)]
NUMBERS = [name for name, dtype in DTYPES.items() if dtype.kind not in ("complex", "bool")]
COMPUTED = [name for name in NUMBERS if name != "uint64"]  # elementwise computes with int64
ROWS, COLUMNS = 8, 256


def list_specials(dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Ends of types, ties, infinities, NaN and numbers between, as far as the type has them; ROWS * COLUMNS of them."""
    rng, target = np.random.default_rng(1), numpy_dtype(dtype)
    if DTYPES[dtype].kind != "float":
        whole = np.iinfo(target)
        drawn = rng.integers(whole.min, whole.max, ROWS * COLUMNS, target, endpoint=True)
        return np.where(np.arange(len(drawn)) % 2, drawn, drawn % 100).astype(target)
    ends = [s * 2.0**k + d for k in (0, 7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1) for s in (1, -1)]
    more = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 448, 464, 465, 57344, 61440, 65504, 65520, 2.5, -2.5, 1e-8]
    drawn = rng.standard_normal(ROWS * COLUMNS) * 2.0 ** rng.integers(-12, 40, ROWS * COLUMNS)
    drawn[: len(ends) + len(more)] = [*ends, *more]
    with np.errstate(all="ignore"):
        return rng.permutation(drawn).astype(target)


def convert_on_gpu(src: str, results: list[str], ops: list[dict[str, Any]]) -> dict[str, Any]:
    """What ops that read X of type ``src`` write: arrays ``to_int8`` and so on, by type."""
    shape = [ROWS, COLUMNS]
    buffers = {f"to_{name}": {"scope": "global", "dtype": name, "shape": shape} for name in results}
    buffers["X"] = {"scope": "global", "dtype": src, "shape": shape}
    built = tilegen.build({"kernel": f"from_{src}", "arch": "sm_90", "threads": 128, "buffers": buffers, "ops": ops})
    image = list_specials(src)
    sizes = {f"to_{name}": image.size * DTYPES[name].bytes for name in results}
    cubin = compile_for(gpu.require_gpu(), built)
    got = gpu.run_images(cubin, launch_case(built, {}), {"X": image.view(np.uint8)}, sizes)
    return {name: np.ascontiguousarray(got[f"to_{name}"]).view(numpy_dtype(name)) for name in results}


def compare(src: str, dst: str, got: Any, want: Any) -> None:
    wide = [x.astype(np.float64) if DTYPES[dst].kind == "float" else x for x in (got, want)]
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    first = np.flatnonzero(~same)[:4]
    assert same.all(), f"{src} to {dst}: {list_specials(src)[first]} became {got[first]}, not {want[first]}"


@pytest.mark.parametrize("src", NUMBERS)
def test_cast_converts_every_number(src: str) -> None:
    results = [name for name in NUMBERS if name != src]
    got = convert_on_gpu(src, results, [{"cast": {"src": "X", "dst": f"to_{name}"}} for name in results])
    for dst in results:
        compare(src, dst, got[dst], TYPED.convert(list_specials(src), src, dst))


@pytest.mark.parametrize("src", COMPUTED)
def test_elementwise_converts_every_number(src: str) -> None:
    results = [name for name in COMPUTED if name != src]
    ops = [{"elementwise": {"dst": f"to_{name}", "expr": "x", "with": {"x": "X"}}} for name in results]
    got = convert_on_gpu(src, results, ops)
    with np.errstate(all="ignore"):
        for dst in results:
            x = list_specials(src)
            wide = x.astype(np.float64 if DTYPES[src].kind == "float" else np.int64)
            compare(src, dst, got[dst], round_to(wide, dst))
