"""Names that a spec may not give because generated kernels define them."""

from __future__ import annotations

import re
from pathlib import Path

import tilegen
from tilegen.spec.names import PRELUDE

TEMPLATES = Path(tilegen.__file__).parent / "templates"


def test_every_function_of_the_prelude_is_reserved() -> None:
    macros = re.findall(r"^//% macro (\w+)\(\)", (TEMPLATES / "prelude.cuh.j2").read_text(), re.M)
    assert set(macros) == PRELUDE


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
