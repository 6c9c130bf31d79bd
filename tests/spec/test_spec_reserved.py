"""Names that a spec may not give because generated kernels define them."""

from __future__ import annotations

import re
from pathlib import Path

import tilegen
from tilegen.ops.mma.atoms import WGMMA_ROWS
from tilegen.spec.names import PRELUDE, reserved_reason

TEMPLATES = Path(tilegen.__file__).parent / "templates"


def test_every_function_of_the_prelude_is_reserved() -> None:
    text = (TEMPLATES / "prelude.cuh.j2").read_text()
    macros = re.findall(r"^//% macro (\w+)\(\)", text, re.M)
    assert set(macros) == PRELUDE
    tensor = re.findall(r"^//% macro (\w+)\(name, ctas", text, re.M)
    assert tensor and all(reserved_reason(name + end) for name in tensor for end in ("", "_pair"))
    products = set(re.findall(r"^//% macro (\w+)\(name, n, a, b\)", text, re.M))
    assert products == {row.prelude for row in WGMMA_ROWS.values()}
    for name in products:
        assert reserved_reason(name.replace("nN", "n64") + "_ar_bn")
    defined = re.findall(r"^(?:template.*> )?__device__ __forceinline__ [\w ]+?(\w+)\(", text, re.M)
    assert "keep_register" in defined and all(reserved_reason(name) for name in defined)


def test_a_swizzled_atom_repeats_over_a_larger_buffer() -> None:
    text = """kernel: atoms
threads: 32
buffers:
  X: {scope: global, dtype: float16, shape: [16, 64]}
  s: {scope: shared, dtype: float16, shape: [16, 64], layout: "%s"}
ops: []
"""
    repeated, plain = (tilegen.load(text % layout) for layout in ("Swizzle(3,3,3) o S[512:1]", "Swizzle(3,3,3)"))
    assert repeated.buffer("s").layout == plain.buffer("s").layout
