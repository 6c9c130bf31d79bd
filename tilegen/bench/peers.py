"""The peers as a table: what a user would call instead, by name. One that cannot take part is named with the reason."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

from tilegen import gpu
from tilegen.bench import torch_products, tuned_products
from tilegen.bench.libraries import load_library, on_stream, pick_fastest
from tilegen.bench.meaning import Meaning, NotApplicable, Peer, Prepared, Task, is_copy, require_meaning
from tilegen.bench.tiling import OUTER_DIMS, Tiling, cut_permute, is_wide, tile_shapes
from tilegen.index.runs import Run


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


@dataclass(frozen=True)
class Absent:
    """A peer that took no part, and why."""

    name: str
    reason: str


def choose_peers(against: Sequence[str], is_product: bool = False, is_alone: bool = False) -> tuple[Peer, ...]:
    """The named peers, and the copy beside what is no product; without names, those for it that are quick to start.

    ``is_alone``: without names none, for there are peers of the user's own.

    >>> [p.name for p in choose_peers(["torch.compile"])], [p.name for p in choose_peers([])]
    (['copy', 'torch.compile'], ['copy', 'torch', 'cupy', 'triton'])
    >>> [p.name for p in choose_peers([], is_product=True)]
    ['cublas', 'torch', 'triton']

    Raises KeyError for an unknown name.
    """
    for name in against:
        if name not in NAMES:
            raise KeyError(name)
    able = [p.name for p in PEERS if (p.multiply if is_product else p.prepare) is not None]
    usual = [] if is_alone else [p.name for p in PEERS if p.name in able and not p.is_asked]
    wanted = {*(against or usual)}
    wanted |= set() if is_product else {"copy"}
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


# ---------------------------------------------------------------- PyTorch and Triton
LARGE_BYTES = 32 << 20  # arrays from here on are worth a longer search


def prepare_torch(task: Task) -> Prepared:
    """``y.copy_(x.permute(axes))``, eagerly."""
    torch, meaning = load_library("torch"), require_meaning(task)
    pairs = [(x.permute(meaning.axes), y) for x, y in _tensors(torch, task, meaning)]

    def permute(k: int) -> None:
        source, target = pairs[k % len(pairs)]
        target.copy_(source)

    return Prepared(on_stream(torch, task, permute))


def prepare_compiled(task: Task) -> Prepared:
    """The same, compiled for these shapes."""
    torch, meaning = load_library("torch"), require_meaning(task)
    pairs = list(_tensors(torch, task, meaning))
    axes = meaning.axes
    with suppress(AttributeError):
        torch._dynamo.reset()  # a fresh start for each kernel: else the limit of recompilations is reached

    def permute_into(source: Any, target: Any) -> None:
        target.copy_(source.permute(axes))

    compiled = torch.compile(permute_into, dynamic=False)

    def permute(k: int) -> None:
        compiled(*pairs[k % len(pairs)])

    return Prepared(on_stream(torch, task, permute))


def _tensors(torch: Any, task: Task, meaning: Meaning) -> Iterator[tuple[Any, Any]]:
    """Source and target of every set as tensors over the same memory."""
    if not torch.cuda.is_available():
        raise NotApplicable("torch finds no GPU")
    for source, target in task.pairs:
        yield (
            torch.from_dlpack(gpu.view_elems(source, meaning.shape, meaning.elem_bytes)),
            torch.from_dlpack(gpu.view_elems(target, meaning.target_shape, meaning.elem_bytes)),
        )


# ---------------------------------------------------------------- triton
def prepare_triton(task: Task) -> Prepared:
    """The kernels of ``triton_kernels``, the fastest of some tile shapes and numbers of warps."""
    meaning = require_meaning(task)
    load_library("triton")
    torch, kernels = load_library("torch"), load_library("tilegen.bench.triton_kernels")
    tiling = None if is_copy(meaning) else cut_permute(meaning)
    if tiling is not None and len(tiling.outer) > OUTER_DIMS:
        raise NotApplicable(f"more than {OUTER_DIMS + 2} dimensions are left after merging")
    pairs = [tuple(t.view(torch.int64) if meaning.elem_bytes == 16 else t for t in p)
             for p in _tensors(torch, task, meaning)]  # fmt: skip
    made = _copies(kernels, pairs) if tiling is None else _permutes(kernels, pairs, tiling, meaning)
    return pick_fastest(torch, task, made)


def _copies(kernels: Any, pairs: list[Any]) -> Iterator[tuple[str, Callable[[int], None]]]:
    count = pairs[0][0].numel()
    for block in (1024, 4096, 8192):
        for warps in (4, 8):

            def copy(k: int, block: int = block, warps: int = warps) -> None:
                source, target = pairs[k % len(pairs)]
                kernels.copy_flat[(-(-count // block),)](source, target, count, BLOCK=block, num_warps=warps)

            yield f"blocks of {block}, {warps} warps", copy


def _permutes(
    kernels: Any, pairs: list[Any], tiling: Tiling, meaning: Meaning
) -> Iterator[tuple[str, Callable[[int], None]]]:
    is_large = meaning.array_bytes >= LARGE_BYTES
    sizes = permute_arguments(tiling)
    planes = prod(d.extent for d in tiling.outer)
    shapes = tile_shapes(tiling, (1024, 4096, 16384) if is_large else (1024, 4096), (4, 8) if is_large else (4,))
    for shape in shapes:
        grid = (planes * -(-tiling.rows.extent // shape.rows) * -(-tiling.cols.extent // shape.cols),)
        constants = {"ROWS": shape.rows, "COLS": shape.cols, "WIDE": is_wide(tiling, shape), "num_warps": shape.warps}

        def permute(k: int, grid: tuple[int] = grid, constants: dict[str, Any] = constants) -> None:
            kernels.permute_tiles[grid](*pairs[k % len(pairs)], *sizes, **constants)

        yield str(shape), permute


def permute_arguments(tiling: Tiling) -> tuple[int, ...]:
    """Sizes and strides in the order of ``triton_kernels.permute_tiles``."""
    rows, cols = tiling.rows, tiling.cols
    outer = [*tiling.outer, *[Run(1, (0, 0))] * (OUTER_DIMS - len(tiling.outer))]
    return (
        rows.extent, cols.extent, *(d.strides[side] for side in (0, 1) for d in (rows, cols)),
        *(d.extent for d in outer), *(d.strides[side] for side in (0, 1) for d in outer),
    )  # fmt: skip


PEERS = (
    Peer("copy", "cudaMemcpyAsync, device to device, of as many bytes", prepare_copy, writes_target=False),
    Peer("cublas", "torch.mm, addmm, _scaled_mm or _int_mm, whichever carries a product out", None,
         multiply=torch_products.prepare_cublas),
    Peer("torch", "y.copy_(x.permute(axes)) of PyTorch; a product with its epilogue, operation by operation",
         prepare_torch, multiply=torch_products.prepare_eager),
    Peer("torch.compile", "the same, compiled for these shapes (slow to start, so only where it is named)",
         prepare_compiled, is_asked=True, multiply=torch_products.prepare_compiled),
    Peer("cupy", "y[...] = x.transpose(axes) of CuPy", prepare_cupy),
    Peer("triton", "a plain Triton kernel, the fastest of some tile shapes and numbers of warps", prepare_triton,
         multiply=tuned_products.prepare_triton),
)  # fmt: skip
NAMES = tuple(peer.name for peer in PEERS)
