"""Integers of expressions on a GPU: shift counts of any size, upper halves of products, and Philox's known answers."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest
from specs.test_philox import KNOWN, draw_counters, make_block, rounds_of_any
from text.test_integers import COUNT, TYPES, build_drawn, draw_inputs, draw_texts, read_by_python

from tilegen import gpu
from tilegen.dtypes import numpy_dtype
from tilegen.gpu.device import probe_device
from tilegen.pipeline import Built, build
from tilegen.verifying import compile_for, launch_case

DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)]


def run_on_gpu(built: Built, inputs: dict[str, Any], results: dict[str, int]) -> dict[str, Any]:
    """The bytes of arrays that a kernel writes; ``results``: how many bytes each has."""
    cubin = compile_for(gpu.require_gpu(), built)
    images = {name: np.ascontiguousarray(x).reshape(-1).view(np.uint8) for name, x in inputs.items()}
    return dict(gpu.run_images(cubin, launch_case(built, {}), images, results))


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("seed", range(3))
def test_drawn_expressions(type_: str, seed: int) -> None:
    bits = int(type_[-2:])
    texts = [*draw_texts(seed, type_), "x << y", "x >> y", f"x << {bits}", f"x >> {bits}", "mulhi(x, y)"]
    built, inputs = build_drawn(type_, texts), draw_inputs(Random(f"gpu {type_} {seed}"), type_)
    read = {name: own for name, own in inputs.items() if any(re.search(rf"\b{name}\b", text) for text in texts)}
    got = run_on_gpu(built, read, {f"R{k}": COUNT * bits // 8 for k in range(len(texts))})
    for k, text in enumerate(texts):
        want = [read_by_python(text, type_, inputs, at) for at in range(COUNT)]
        assert np.ascontiguousarray(got[f"R{k}"]).view(numpy_dtype(type_)).ravel().tolist() == want, text


def test_philox_has_the_known_answers() -> None:
    counters, keys = draw_counters()
    built = build(rounds_of_any())
    assert isinstance(built, Built)
    found = run_on_gpu(built, {"C": counters, "K": keys}, {"Y": counters.nbytes})["Y"]
    words = np.ascontiguousarray(found).view(np.uint32).reshape(4, 64)
    for at, (_, _, block) in enumerate(KNOWN):
        assert tuple(words[:, at].tolist()) == block
    for at in range(64):
        assert tuple(words[:, at].tolist()) == make_block(tuple(counters[:, at].tolist()), tuple(keys[:, at].tolist()))
