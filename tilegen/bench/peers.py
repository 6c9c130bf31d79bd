"""The peers as a table: what a user would call instead, by name. One that cannot take part is named with the reason."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from tilegen import gpu
from tilegen.bench.task import NotApplicable, Peer, Prepared, Task, require_meaning
from tilegen.bench.torch_peers import prepare_compiled, prepare_torch, prepare_triton


def prepare_copy(task: Task) -> Prepared:
    """``cudaMemcpyAsync`` of as many bytes as the kernel reads and writes."""

    def copy(k: int) -> None:
        gpu.copy_bytes(*task.copies[k % len(task.copies)])

    return Prepared(copy)


def prepare_cupy(task: Task) -> Prepared:
    """``y[...] = x.transpose(axes)``."""
    meaning = require_meaning(task)
    pairs = [
        (
            gpu.view_elems(source, meaning.shape, meaning.elem_bytes).transpose(meaning.axes),
            gpu.view_elems(target, meaning.target_shape, meaning.elem_bytes),
        )
        for source, target in task.pairs
    ]

    def permute(k: int) -> None:
        source, target = pairs[k % len(pairs)]
        target[...] = source

    return Prepared(permute)


PEERS = (
    Peer("copy", "cudaMemcpyAsync, device to device, of as many bytes", prepare_copy, writes_target=False),
    Peer("torch", "y.copy_(x.permute(axes)) of PyTorch", prepare_torch),
    Peer("torch.compile", "the same, compiled for these shapes (slow to start, so only where it is named)",
         prepare_compiled, is_asked=True),
    Peer("cupy", "y[...] = x.transpose(axes) of CuPy", prepare_cupy),
    Peer("triton", "a plain Triton kernel, the fastest of some tile shapes and numbers of warps", prepare_triton),
)  # fmt: skip
NAMES = tuple(peer.name for peer in PEERS)


@dataclass(frozen=True)
class Absent:
    """A peer that took no part, and why."""

    name: str
    reason: str


def choose_peers(against: Sequence[str]) -> tuple[Peer, ...]:
    """The named peers and the copy; without names, all that are quick to start. Raises KeyError for an unknown name.

    >>> [p.name for p in choose_peers(["torch.compile"])], [p.name for p in choose_peers([])]
    (['copy', 'torch.compile'], ['copy', 'torch', 'cupy', 'triton'])
    """
    for name in against:
        if name not in NAMES:
            raise KeyError(name)
    wanted = {"copy", *(against or [peer.name for peer in PEERS if not peer.is_asked])}
    return tuple(peer for peer in PEERS if peer.name in wanted)


def nearest_peer(name: str) -> str:
    """The peer whose name is most alike.

    >>> nearest_peer("Triton"), nearest_peer("torch_compile")
    ('triton', 'torch.compile')
    """
    return (difflib.get_close_matches(name.lower(), NAMES, 1, 0.0) or [NAMES[0]])[0]


def describe_absence(name: str, error: Exception) -> Absent:
    """Why a peer that failed is absent, on one line.

    >>> describe_absence("torch", ModuleNotFoundError("No module named 'torch'", name="torch")).reason
    'torch is not installed'
    >>> describe_absence("triton", RuntimeError("out of resources\\nmore")).reason
    'RuntimeError: out of resources'
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Absent(name, f"{error.name} is not installed")
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    kind = "" if isinstance(error, (NotApplicable, ImportError)) else f"{type(error).__name__}: "
    return Absent(name, f"{kind}{said}"[:200].strip() or type(error).__name__)
