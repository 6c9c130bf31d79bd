"""The peers of PyTorch and Triton on the CPU, where both are installed: their own code, on NumPy's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilegen.bench.meaning import Meaning, Task
from tilegen.bench.peers import describe_absence, prepare_torch, prepare_triton

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import contextlib, sys
from types import SimpleNamespace
import numpy as np
import torch
from fakes import FakeWatch
from tilegen.bench.meaning import Meaning
from tilegen.bench.meaning import Task
from tilegen.bench import peers as torch_peers

is_available = torch.cuda.is_available
torch.cuda.ExternalStream = lambda pointer: pointer
torch.cuda.stream = lambda stream: contextlib.nullcontext()
watch = FakeWatch(stream=SimpleNamespace(ptr=1))
prepare = getattr(torch_peers, sys.argv[1])
for shape, axes in (((5, 7), (1, 0)), ((3, 4, 5), (2, 0, 1)), ((2, 3, 5), (1, 0, 2)), ((6, 7), (0, 1))):
    for size in (1, 2, 4, 8, 16):
        rng = np.random.default_rng(size)
        pairs = []
        for _ in range(2):
            source = rng.integers(0, 256, int(np.prod(shape)) * size, np.uint8)
            pairs.append((source, np.full_like(source, 0xA5)))
        meaning = Meaning("X", "Y", shape, axes, size)
        torch.cuda.is_available = lambda: True
        prepared = prepare(Task(meaning, tuple(pairs), (), watch))
        torch.cuda.is_available = is_available
        for k, (source, target) in enumerate(pairs):
            target[:] = 0xA5
            prepared.candidate(k)
            want = source.reshape(*shape, size).transpose(*axes, len(shape)).reshape(-1)
            assert np.array_equal(target, want), (shape, axes, size)
print("all equal", bool(prepared.detail))
"""
needs_torch = pytest.mark.skipif(not (find_spec("torch") and find_spec("triton")), reason="torch and triton are absent")


@needs_torch
@pytest.mark.parametrize(("peer", "searched"), [("torch", False), ("compiled", False), ("triton", True)])
def test_a_peer_permutes_every_size_of_element(peer: str, searched: bool) -> None:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'bench'}", "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", RUN, f"prepare_{peer}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.stdout.strip() == f"all equal {searched}", done.stderr[-3000:]


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_its_peers_are_absent() -> None:
    task = Task(Meaning("X", "Y", (2, 3), (1, 0), 4), (), (), None)
    with pytest.raises(ImportError) as caught:
        prepare_torch(task)
    assert describe_absence("torch", caught.value).reason == "torch is not installed"
    with pytest.raises(ImportError):
        prepare_triton(task)
