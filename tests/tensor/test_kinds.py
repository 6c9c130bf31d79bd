"""mma into tensor memory, of every kind without factors: proved, multiplied with numbers, compiled for sm_100a."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import tilegen
from tests.faults.verdicts import refusal_of
from tests.tensor.kinds import Kind, spec_of_kind
from tilegen.arithmetic.products import cut_to_tfloat32, round_to_tfloat32
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.errors import SpecError
from tilegen.gpu import compile_cubin, find_compilers
from tilegen.interpret import interpret
from tilegen.pipeline import Built
from tilegen.plan import TensorMma
from tilegen.render import render

E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
_TYPES = {
    "bf16": Kind("bfloat16", "bfloat16"), "f16": Kind("float16", "float16", n=72), "e4m3": Kind(E4M3, E4M3),
    "e5m2": Kind(E5M2, E5M2, n=96), "e4m3 by e5m2": Kind(E4M3, E5M2), "s8": Kind("int8", "int8", "int32", n=48),
    "u8": Kind("uint8", "uint8", "int32", n=32), "u8 by s8": Kind("uint8", "int8", "int32"),
}  # fmt: skip
_LIES = {"": (False, False), ", a along M": (True, False), ", b along N": (False, True), ", both": (True, True)}
KINDS = {
    f"{name}{how}": Kind(k.a, k.b, k.sums, k.atom, k.n, *lies)
    for name, k in _TYPES.items()
    for how, lies in _LIES.items()
    if not (lies[1] and k.n % 16)  # TMA has no such row of 8-bit types, and f16 of 72 columns is tried along K
} | {"tf32": Kind("float32", "float32", atom="tcgen05.m128n64k8"), "s8, 24": Kind("int8", "int8", "int32", n=24)}
INSTRUCTIONS = {"bfloat16": "f16", "float16": "f16", E4M3: "f8f6f4", E5M2: "f8f6f4", "int8": "i8", "uint8": "i8",
                "float32": "tf32"}  # fmt: skip
every_kind = pytest.mark.parametrize("name", KINDS)


@cache
def built(name: str) -> Built:
    """Proved: ``build`` compares the tiles with what the ops mean."""
    found = tilegen.build(spec_of_kind(KINDS[name]))
    assert isinstance(found, Built) and found.proof.runs
    return found


def draw(kind: Kind, seed: int = 3) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """a and b of small numbers that every type holds, so that sums are exact; of unsigned types none below 0."""
    rng, k = np.random.default_rng(seed), 256 // DTYPES[kind.a].bytes
    a, b = (
        rng.integers(0 if dtype == "uint8" else -3, 4, shape).astype(numpy_dtype(dtype))
        for dtype, shape in ((kind.a, (128, k)), (kind.b, (k, kind.n)))
    )
    return a, b


def multiply(one: Built, kind: Kind, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """D as the interpreter makes it, with every check on."""
    held = {"A": (a.T if kind.a_turned else a).reshape(-1), "B": (b if kind.b_turned else b.T).reshape(-1)}
    given = {name: (lambda at, x=x: x[at]) for name, x in held.items()}
    at, values = interpret(one.plan, [(0, 0, 0)], given).written["D"]
    assert np.array_equal(at, np.arange(128 * kind.n))
    return values.view(numpy_dtype(kind.sums)).reshape(128, kind.n)


@pytest.mark.sweep(6)
@every_kind
def test_sums_are_those_of_the_matrices(name: str) -> None:
    kind, one = KINDS[name], built(name)
    a, b = draw(kind)
    found = multiply(one, kind, a, b).astype(np.float64)
    assert np.array_equal(found, a.astype(np.float64) @ b.astype(np.float64))
    assert f"tcgen05_mma_{INSTRUCTIONS[kind.a]}" in render(one.plan)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", [name for name in KINDS if not name.startswith("tf32")])
def test_descriptors_say_how_operands_lie(name: str) -> None:
    kind = KINDS[name]
    [product] = {(x.a_lies.along, x.b_lies.along) for x in list_products(built(name).plan)}
    assert product == ("mn" if kind.a_turned else "k", "mn" if kind.b_turned else "k")


def list_products(part: Any) -> list[TensorMma]:
    """The products of a plan, wherever they stand."""
    if isinstance(part, TensorMma):
        return [part]
    if isinstance(part, tuple):
        return [x for one in part for x in list_products(one)]
    inside = [getattr(part, name) for name in ("roles", "steps", "body") if hasattr(part, name)]
    return [x for one in inside for x in list_products(one)]


def test_tf32_drops_the_last_bits_of_a_float32() -> None:
    kind, rng = KINDS["tf32"], np.random.default_rng(5)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((128, 64), (64, 64)))
    cut, whole = (x(a).astype(np.float64) @ x(b).astype(np.float64) for x in (cut_to_tfloat32, round_to_tfloat32))
    error = np.abs(multiply(built("tf32"), kind, a, b) - cut)
    assert error.max() < 3e-5 < np.abs(cut - whole).max() / 50


@pytest.mark.skipif(not find_compilers(), reason="neither NVRTC nor nvcc is here")
@pytest.mark.sweep(3)
@every_kind
def test_every_kind_compiles(name: str) -> None:
    one = built(name)
    cubin = compile_cubin(render(one.plan), one.plan.arch, one.plan.name)
    assert (cubin.stack_bytes, cubin.spill_store_bytes, cubin.spill_load_bytes) == (0, 0, 0)


# ---------------------------------------------------------------- what is refused
@pytest.mark.parametrize(("kind", "said"), [
    (Kind("float32", "float32"), "as tf32 it does where 'atom' says so"),
    (Kind("float32", "float32", atom="tcgen05.m128n64k8", a_turned=True), "only elements of 1 or 2 bytes"),
    (Kind("float16", "float16", "float16"), "sums of float16 in tensor memory are not yet supported"),
    (Kind("bfloat16", "bfloat16", n=20), "steps of 8 along N, and N is 20"),
])  # fmt: skip
def test_kinds_that_there_are_not(kind: Kind, said: str) -> None:
    caught = refusal_of(SpecError, tilegen.build, spec_of_kind(kind))
    assert any(said in finding.message for finding in caught.diagnostics)


def test_bytes_along_n_take_steps_of_16() -> None:
    """Of a tile of 32 columns, 24 are multiplied: along K they are, along N not."""
    for turned in (False, True):
        spec = spec_of_kind(Kind("int8", "int8", "int32", n=32, b_turned=turned))
        whole = tilegen.build(spec)
        assert isinstance(whole, Built)
        for name in ("sa", "sb"):
            spec["buffers"][name]["layout"] = str(whole.spec.buffer(name).layout)
        product, store = spec["ops"][1]["do"][0]["do"][1]["mma"], spec["ops"][2]["do"]
        product |= {"b": "sb[k, :, 0 : +24]", "c": "acc[:, 0 : +24]"}
        spec["buffers"]["h"]["shape"] = [128, 24]
        spec["buffers"]["D"]["partial"] = True
        store[1]["copy"]["src"], store[2]["copy"]["dst"] = "acc[:, 0 : +24]", "D[:, 0 : +24]"
        if not turned:
            tilegen.build(spec)
            continue
        caught = refusal_of(SpecError, tilegen.build, spec)
        assert re.search(r"sb\[k, :, 0 : \+24\]: n.* 24 elements", caught.diagnostics[0].message)
