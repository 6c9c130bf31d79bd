"""PyTorch and Triton as peers: imported when one is prepared. They work on the stopwatch's stream, on CuPy's memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from math import prod
from typing import Any

from tilegen import gpu
from tilegen.bench.meaning import Meaning, is_copy
from tilegen.bench.task import NotApplicable, Prepared, Task, require_meaning
from tilegen.bench.tiling import OUTER_DIMS, Dim, Tiling, cut_permute, is_wide, tile_shapes

LARGE_BYTES = 32 << 20  # arrays from here on are worth a longer search
_TRIES = 5


def load_library(name: str) -> Any:
    """A module of torch or triton. Raises ImportError where it is not installed or does not start."""
    try:
        return import_module(name)
    except ImportError:
        raise
    except Exception as error:  # a broken installation shows in many ways, all of them at import
        raise ImportError(f"{name} does not start: {error}") from error


# ---------------------------------------------------------------- torch
def prepare_torch(task: Task) -> Prepared:
    """``y.copy_(x.permute(axes))``, eagerly."""
    torch, meaning = load_library("torch"), require_meaning(task)
    pairs = [(x.permute(meaning.axes), y) for x, y in _tensors(torch, task, meaning)]

    def permute(k: int) -> None:
        source, target = pairs[k % len(pairs)]
        target.copy_(source)

    return Prepared(_on_stream(torch, task, permute))


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

    return Prepared(_on_stream(torch, task, permute))


def _tensors(torch: Any, task: Task, meaning: Meaning) -> Iterator[tuple[Any, Any]]:
    """Source and target of every set as tensors over the same memory."""
    if not torch.cuda.is_available():
        raise NotApplicable("torch finds no GPU")
    for source, target in task.pairs:
        yield (
            torch.from_dlpack(gpu.view_elems(source, meaning.shape, meaning.elem_bytes)),
            torch.from_dlpack(gpu.view_elems(target, meaning.target_shape, meaning.elem_bytes)),
        )


def _on_stream(torch: Any, task: Task, work: Callable[[int], None]) -> Callable[[int], None]:
    stream = torch.cuda.ExternalStream(task.watch.stream.ptr)

    def run(k: int) -> None:
        with torch.cuda.stream(stream):
            work(k)

    return run


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
    return _fastest(torch, task, made)


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
    planes = prod(d.size for d in tiling.outer)
    shapes = tile_shapes(tiling, (1024, 4096, 16384) if is_large else (1024, 4096), (4, 8) if is_large else (4,))
    for shape in shapes:
        grid = (planes * -(-tiling.rows.size // shape.rows) * -(-tiling.cols.size // shape.cols),)
        constants = {"ROWS": shape.rows, "COLS": shape.cols, "WIDE": is_wide(tiling, shape), "num_warps": shape.warps}

        def permute(k: int, grid: tuple[int] = grid, constants: dict[str, Any] = constants) -> None:
            kernels.permute_tiles[grid](*pairs[k % len(pairs)], *sizes, **constants)

        yield str(shape), permute


def permute_arguments(tiling: Tiling) -> tuple[int, ...]:
    """Sizes and strides in the order of ``triton_kernels.permute_tiles``."""
    rows, cols = tiling.rows, tiling.cols
    outer = [*tiling.outer, *[Dim(1, 0, 0)] * (OUTER_DIMS - len(tiling.outer))]
    return (
        rows.size, cols.size, rows.source_stride, cols.source_stride, rows.target_stride, cols.target_stride,
        *(d.size for d in outer), *(d.source_stride for d in outer), *(d.target_stride for d in outer),
    )  # fmt: skip


def _fastest(torch: Any, task: Task, made: Iterator[tuple[str, Callable[[int], None]]]) -> Prepared:
    """The candidate with the least median time; those that do not compile are passed over unless all are."""
    best: tuple[float, Prepared] | None = None
    failed: Exception | None = None
    for detail, work in made:
        candidate = _on_stream(torch, task, work)
        try:
            taken = _time_shortly(task, candidate)
        except Exception as error:  # a tile that needs more shared memory than there is, for example
            failed = failed or error
            continue
        if best is None or taken < best[0]:
            best = (taken, Prepared(candidate, detail))
    if best is None:
        raise failed or NotApplicable("no tile fits")
    return best[1]


def _time_shortly(task: Task, candidate: Callable[[int], None]) -> float:
    candidate(0)
    times: list[float] = [task.watch.time_us(lambda k=k: candidate(k)) for k in range(_TRIES)]
    return statistics.median(times)
