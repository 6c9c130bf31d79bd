"""Kernels that start while the one before still runs, on a GPU: each link of a chain reads what the last one wrote."""

from __future__ import annotations

from typing import Any

import pytest

import tilegen

pytestmark = pytest.mark.gpu

BLOCK, CTAS, LINKS = 4096, 800, 60
SPEC = """
kernel: add_one
arch: sm_90
overlap: previous
grid: {bx: CTAS}
threads: 256
params: {CTAS: 800, BLOCK: 4096}
buffers:
  X: {scope: global, dtype: int32, shape: [CTAS * BLOCK]}
  Y: {scope: global, dtype: int32, shape: [CTAS * BLOCK]}
  r: {scope: register, dtype: int32, shape: [BLOCK], layout: auto}
ops:
  - wait: previous
  - copy: {src: "X[(CTAS - 1 - bx)*BLOCK : +BLOCK]", dst: r}
  - elementwise: {dst: r, expr: "r + 1"}
  - copy: {src: r, dst: "Y[(CTAS - 1 - bx)*BLOCK : +BLOCK]"}
"""


@pytest.mark.parametrize("way", ["calls", "graph"])
def test_a_chain_of_kernels_is_in_order(way: str) -> None:
    """Every link reads what the one before wrote, last CTA first: one that did not wait would read old numbers."""
    cupy: Any = pytest.importorskip("cupy")
    kernel = tilegen.compile(SPEC)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x, y = (cupy.zeros(CTAS * BLOCK, cupy.int32) for _ in range(2))
        kernel(x, y)
        stream.synchronize()
        x[...] = 0
        if way == "graph":
            stream.begin_capture()
        for link in range(LINKS):
            kernel(*((x, y) if link % 2 == 0 else (y, x)))
        if way == "graph":
            stream.end_capture().launch(stream)
        stream.synchronize()
    assert (cupy.asnumpy(x) == LINKS).all() and (cupy.asnumpy(y) == LINKS - 1).all()
