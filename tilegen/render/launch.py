"""What a launch needs: shared memory, grid, block, cluster and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tilegen.index import Index, evaluate, mul, multiple, to_c
from tilegen.plan import (
    ADDRESS_BYTES,
    BARRIER_BYTES,
    TMA_UNIT_BYTES,
    Barrier,
    Memory,
    Plan,
    TensorMap,
    all_steps,
    arguments,
    arrays,
    effects,
    tensor_maps,
)
from tilegen.render.c_text import elems_of
from tilegen.render.names import fresh

STATIC_SHARED_LIMIT = 48 * 1024  # bytes; beyond it CUDA gives shared memory only at launch


@dataclass(frozen=True)
class SharedUse:
    """How shared memory is declared: arrays of their own, or pointers into one pool (``pool`` is its name)."""

    memories: tuple[Memory, ...]
    bytes: int
    dynamic: bool
    pool: str
    align: int
    barriers: tuple[tuple[Barrier, int], ...] = ()  # with their places in the pool, if there is one
    tensor_base: int | None = None  # the place of the address of tensor memory, None where the kernel has none


def plan_shared(plan: Plan) -> SharedUse:
    """One array per shared memory, unless two overlap or all together exceed what CUDA declares statically."""
    used = {r.memory.name for step in all_steps(plan) for r in effects(step).refs}
    memories = tuple(m for m in plan.memories if m.traits.is_pooled and m.name in used)
    spans = sorted((m.offset_bytes, m.offset_bytes + elems_of(m) * m.elem_bytes) for m in memories)
    bytes_ = max((end for _, end in spans), default=0)
    barriers = []
    for b in plan.barriers:
        start = -(-bytes_ // BARRIER_BYTES) * BARRIER_BYTES
        barriers.append((b, start))
        bytes_ = start + b.slots * BARRIER_BYTES
    base = -(-bytes_ // ADDRESS_BYTES) * ADDRESS_BYTES if plan.tensor_columns else None
    bytes_ = bytes_ if base is None else base + ADDRESS_BYTES
    pooled = bytes_ > STATIC_SHARED_LIMIT or any(a[1] > b[0] for a, b in pairwise(spans))
    pool = fresh("smem", {m.name for m in plan.memories} | {plan.name}) if pooled else ""
    aligns = (
        [m.align_bytes for m in memories]
        + [BARRIER_BYTES for _ in barriers]
        + ([ADDRESS_BYTES] if base is not None else [])
    )
    align = max(aligns, default=16)
    return SharedUse(memories, bytes_, bytes_ > STATIC_SHARED_LIMIT, pool, align, tuple(barriers), base)


def launch_info(plan: Plan, params: Mapping[str, int | float] | None = None) -> dict[str, Any]:
    """What a caller needs to launch the kernel, as JSON data; runtime parameters not given have their defaults.

    ``args`` are in the kernel's order: pointers with the bytes behind them, then values, then TMA's descriptors, with
    what the driver needs to encode each (lists have the innermost dimension first; strides are of the others).

    >>> from tilegen.index import Var
    >>> from tilegen.plan import Param, Role
    >>> launch_info(Plan("k", "sm_90", (Var("M", 65) // 8, 1, 1), (), (Role("all", 32, ()),),
    ...                  (Param("M", "int32", 64, Var("M", 65)),)), {"M": 16})["grid"]
    [2, 1, 1]
    """
    values = {p.name: (params or {}).get(p.name, p.default) for p in plan.params}
    shared = plan_shared(plan)
    args: list[dict[str, Any]] = []
    for m in arrays(plan):
        size = mul(m.span, m.elem_bytes)
        args.append({
            "name": m.name, "kind": "pointer", "dtype": m.dtype, "access": m.access, "align_bytes": m.align_bytes,
            "bytes": int(evaluate(size, values)), "bytes_expression": to_c(size),
        })  # fmt: skip
    given = arguments(plan.params)
    args += [{"name": p.name, "kind": "value", "dtype": p.dtype, "value": values[p.name]} for p in given]
    args += [_tensor_map_data(m, values) for m in tensor_maps(plan)]
    return {
        "kernel": plan.name, "arch": plan.arch, "grid": [int(evaluate(x, values)) for x in plan.grid],
        "grid_expression": [to_c(x) for x in plan.launched_grid], "block": [plan.threads, 1, 1],
        "cluster": list(plan.cluster), **({"overlap": "previous"} if plan.overlaps else {}),
        "dynamic_shared_bytes": shared.bytes if shared.dynamic else 0,
        "static_shared_bytes": 0 if shared.dynamic else shared.bytes, "args": args,
    }  # fmt: skip


def _stride_bytes(memory: Memory, d: int) -> Index:
    """Nobody goes along a dimension of 1, but the driver wants multiples of 16 bytes there too."""
    stride = mul(memory.pitches[d], memory.elem_bytes)
    return TMA_UNIT_BYTES if memory.shape[d] == 1 and multiple(stride) % TMA_UNIT_BYTES else stride


def _tensor_map_data(m: TensorMap, values: Mapping[str, int | float]) -> dict[str, Any]:
    """A descriptor's arguments, in the driver's order (CUDA Driver API, cuTensorMapEncodeTiled)."""
    memory, dims = m.memory, list(reversed(m.dims))
    extents = [memory.shape[d] for d in dims]
    strides = [_stride_bytes(memory, d) for d in dims[1:]]
    return {
        "name": m.name, "kind": "tensor_map", "array": memory.name, "dtype": memory.dtype,
        "elem_bytes": memory.elem_bytes, "dims": [int(evaluate(n, values)) for n in extents],
        "dims_expression": [to_c(n) for n in extents], "strides_bytes": [int(evaluate(n, values)) for n in strides],
        "strides_bytes_expression": [to_c(n) for n in strides], "box": list(reversed(m.box)),
        "element_strides": [1] * len(dims), "swizzle_bytes": m.swizzle_bytes,
        **({"rounds_to": "tf32"} if m.rounds else {}),
        **({"type": m.type} if m.type else {}),
    }  # fmt: skip
