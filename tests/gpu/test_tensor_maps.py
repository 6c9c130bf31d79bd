"""TMA descriptors: what the host hands to the driver. Without a driver, a stand-in takes the driver's place."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tilegen.errors import EnvironmentLack
from tilegen.gpu import encode_tensor_maps, tensor_maps
from tilegen.pipeline import build

SPEC = "specs/copy_tma.yaml"


def test_the_driver_gets_what_the_manifest_says(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def encode(descriptor, dtype, rank, pointer, dims, strides, box, steps, interleave, swizzle, promotion, fill):
        lists = list(dims), list(strides)[: rank - 1], list(box), list(steps)
        calls.append((dtype, rank, pointer.value, *lists, swizzle))
        ctypes.memset(descriptor, len(calls), tensor_maps.DESCRIPTOR_BYTES)
        assert descriptor.value % 64 == 0
        return 0

    monkeypatch.setattr(tensor_maps, "_load_encoder", lambda: encode)
    maps = encode_tensor_maps(build(SPEC).manifest, {"X": 0x1000, "Y": 0x2000})
    assert [(m.dtype, m.nbytes, int(m[0]), int(m[-1])) for m in maps] == [(np.uint8, 128, 1, 1), (np.uint8, 128, 2, 2)]
    assert calls == [(1, 2, base, [320, 200], [640], [64, 64], [1, 1], 3) for base in (0x1000, 0x2000)]


@pytest.mark.slow
def test_runtime_sizes_are_those_of_the_launch() -> None:
    from tilegen.render import launch_info

    plan = build("specs/transpose_tma.yaml").plan
    x, y = (a for a in launch_info(plan, {"M": 64})["args"] if a["kind"] == "tensor_map")
    keys = ("array", "dims", "strides_bytes", "box", "swizzle_bytes")
    assert [x[k] for k in keys] == ["X", [212, 64], [848], [32, 64], 128]
    assert [y[k] for k in keys] == ["Y", [64, 212], [256], [64, 32], 0]


def test_a_refusal_names_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_maps, "_load_encoder", lambda: lambda *args: 1)
    with pytest.raises(ValueError, match=r"cuTensorMapEncodeTiled returns 1 .*'box': \[64, 64\]"):
        encode_tensor_maps(build(SPEC).manifest, {"X": 0, "Y": 0})


def test_without_a_driver_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError("no such library")

    tensor_maps._load_encoder.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(EnvironmentLack) as caught:
        encode_tensor_maps(build(SPEC).manifest, {"X": 0, "Y": 0})
    assert caught.value.diagnostics[0].code == "TG504"
