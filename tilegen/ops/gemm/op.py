"""gemm: d = epilogue(a b), whole arrays; sizes, storage orders, types and the epilogue are the caller's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tilegen.arch import ARCHES
from tilegen.errors import Flaw
from tilegen.ops.gemm.problem import MOST_PARTS
from tilegen.ops.gemm.reference import multiply_whole
from tilegen.ops.op import WholeOp, fields_picked, find_uncomputed
from tilegen.ops.strided import plain_strides
from tilegen.spec.data import Buffer, Spec, WholeCall
from tilegen.spec.form import WholeFields, operand_field
from tilegen.spec.program import Program

_Size = int | None
_LATER = {
    "split_k": "write 'split': as many CTAs as it says share K, or as many as 'split: auto' finds best",
    "stream_k": "leave it out: CTAs share whole tiles, and 'ctas' says how many do",
    "groups": "give products of one size a batch, [batch, M, K], and those of others a spec each",
}


class GemmFields(WholeFields):
    a: str = Field(description="[M, K], or [batch, M, K]")
    b: str = Field(description="[K, N], or [batch, K, N]")
    d: str = Field(description="[M, N], or [batch, M, N]; written")
    c: str | None = Field(default=None, description="[M, N], or what stretches over it: times beta, it is added")
    bias: str | None = Field(default=None, description="[N], added to each row, or [M, 1], to each column")
    alpha: str | int | float = Field(default=1, description="what products are multiplied by: a number or a param")
    beta: str | int | float = Field(default=1, description="what c is multiplied by: a number or a param")
    epilogue: str | None = Field(
        default=None,
        description="what d is: an elementwise expression of acc (a b), c, bias, params and 'with' names; "
        "by default alpha * acc + beta * c + bias",
    )
    named: dict[str, str] = Field(default={}, alias="with", description="name: array, for names that epilogue uses")
    math: Literal["exact", "tf32"] = Field(default="exact", description="tf32: float32 is multiplied as tfloat32")
    variant: Literal["auto", "rows", "simt", "mma_sync", "wgmma", "tcgen05"] = Field(
        default="auto", description="what multiplies; rows: threads share the sums of one column, or one row"
    )
    tile: list[Annotated[int, Field(ge=1)]] | None = Field(
        default=None, min_length=3, max_length=3, description="M, N and K of a CTA's tile"
    )
    atom: str = Field(default="auto", description="the instruction, as mma has it")
    atoms: list[int] | str | None = Field(default=None, description="atoms side by side: their layout in the CTA")
    permutation: list[int | str | None] | None = Field(
        default=None, min_length=3, max_length=3, description="what the tiling covers of each dimension, or R=n"
    )
    load: Literal["tma", "cp_async", "threads"] | None = Field(default=None, description="what brings k-tiles")
    stages: _Size = Field(default=None, ge=1, le=16, description="k-tiles in shared memory")
    order: _Size = Field(default=None, ge=1, le=256, description="rows of tiles that CTAs take together")
    panel: _Size = Field(default=None, ge=8, le=256, description="columns of d that leave together, by wgmma")
    cluster: Literal[1, 2] | None = Field(default=None, description="CTAs that share tiles of b")
    ctas: _Size = Field(default=None, ge=1, le=65535, description="CTAs that share the tiles of d")
    k_parts: _Size = Field(
        default=None, ge=1, le=32, description="warps that share K: each multiplies its part of every k-tile"
    )
    split: Annotated[int, Field(ge=1, le=MOST_PARTS)] | Literal["auto"] | None = Field(
        default=None,
        description="CTAs that share K: each multiplies a part, and a second pass adds up their sums; by default 1",
    )
    turned: bool | None = Field(default=None, description="make the transpose of d, of the transposes of b and a")
    overlap: Literal["previous"] | None = Field(
        default=None, description="previous: the kernel starts while the one before it still runs"
    )


def _check(fields: GemmFields, arrays: Mapping[str, Buffer]) -> Flaw | None:
    """What is wrong with a call."""
    for field, array in arrays.items():
        if plain_strides(array) is None:
            return Flaw("TG301", f"gemm takes arrays with one stride a dimension, not {array.layout}", field)
    a, b, d = (arrays[name] for name in ("a", "b", "d"))
    ranks = {name: len(arrays[name].shape) for name in ("a", "b", "d")}
    if ranks["d"] == 3 and fields.split not in (None, 1, "auto"):
        message = "'split' of a batch of products is not yet supported"
        return Flaw("TG190", message, "split", "leave it out, or give each product a spec of its own")
    for name, rank in ranks.items():
        if rank not in (2, 3):
            message = f"gemm takes matrices, or batches of them: {name} has {rank} dimensions"
            return Flaw("TG212", message, name, "[M, K] by [K, N] into [M, N], each with a batch before it or without")
    if ranks["d"] == 2 and 3 in (ranks["a"], ranks["b"]):
        message = f"'{d.name}' has no batch, and what it is made of has"
        return Flaw("TG212", message, "d", "give it a batch before M and N")
    (m, k), (kb, n) = a.shape[-2:], b.shape[-2:]
    if k != kb:
        message = f"gemm multiplies M x K by K x N: a has {_say(a)}, b has {_say(b)}"
        field = "a" if a.shape[-2] == kb and (k, n) == d.shape[-2:] else "b"
        exchanged = field == "a" or (k == n and (m, kb) == d.shape[-2:])
        hint = _exchange_hint(arrays[field]) if exchanged else f"K is {k} of a and {kb} of b: make them equal"
        return Flaw("TG212", message, field, hint)
    if d.shape[-2:] != (m, n):
        message = f"the product of {_say(a)} and {_say(b)} is [.., {m}, {n}], but d has {_say(d)}"
        return Flaw(
            "TG212", message, "d", _exchange_hint(d) if d.shape[-2:] == (n, m) else f"give '{d.name}' {m} by {n}"
        )
    for name in ("a", "b"):
        if ranks[name] == 3 and arrays[name].shape[0] != d.shape[0]:
            return Flaw("TG212", f"{name} has a batch of {arrays[name].shape[0]}, d of {d.shape[0]}", name)
    for field, array in arrays.items():
        if field not in ("a", "b", "d") and not _stretches(array, d):
            message = f"'{array.name}' has the shape {_say(array)}, which does not stretch over d's {_say(d)}"
            return Flaw("TG212", message, field, "shapes are compared from the right, extents of 1 stretch")
    if d.name in (a.name, b.name):
        return Flaw("TG205", f"'{d.name}' cannot be a factor of itself: CTAs would read what others wrote", "d")
    if fields.epilogue is not None and not fields.epilogue.strip():
        return Flaw("TG111", "an expression is missing here", "epilogue", "write 'acc', or remove the key")
    others = {name: array for name, array in arrays.items() if name not in ("a", "b")}
    return _find_unnamed(fields) or _check_types(fields, a, b) or find_uncomputed(others)


def _exchange_hint(array: Buffer) -> str:
    """How an array is declared that holds the matrix with its dimensions exchanged."""
    *batch, rows, columns = array.shape
    shape = f"[{', '.join(map(str, (*batch, columns, rows)))}]"
    if batch:
        return f"give '{array.name}' the shape {shape}, and a layout with the strides of both exchanged"
    layouts = {"": "col", "row": "col", "col": "row"}
    if array.layout_text not in layouts:
        return f"give '{array.name}' the shape {shape}, and its layout the strides of both exchanged"
    return f"give '{array.name}' the shape {shape} and 'layout: {layouts[array.layout_text]}', which is the same memory"


def _find_unnamed(fields: GemmFields) -> Flaw | None:
    """What is given and makes no difference, because the epilogue does not name it."""
    by_default = {"alpha", "bias", *(["beta", "c"] if fields.c else [])}
    words = by_default if fields.epilogue is None else set(re.findall(r"[A-Za-z_]\w*", fields.epilogue))
    given = [*(n for n in ("alpha", "beta", "c", "bias") if n in fields.model_fields_set), *fields.named]
    for name in given:
        if name not in words:
            what = "the epilogue does not name" if fields.epilogue is not None else "no epilogue names"
            field = operand_field(name) if name in fields.named else name
            return Flaw("TG302", f"{what} '{name}', so it makes no difference", field, "remove it")
    return None


def _check_types(fields: GemmFields, a: Buffer, b: Buffer) -> Flaw | None:
    eights = {"float8_e4m3fn", "float8_e5m2"}
    if a.dtype != b.dtype and not {a.dtype, b.dtype} <= eights:
        return Flaw("TG212", f"gemm does not multiply {a.dtype} by {b.dtype}", "b", f"give '{b.name}' {a.dtype}")
    known = ("float64", "float32", "float16", "bfloat16", "int8", *sorted(eights))
    if a.dtype not in known:
        return Flaw("TG301", f"gemm does not multiply {a.dtype}", "a", f"types that it does are {', '.join(known)}")
    if fields.math == "tf32" and a.dtype != "float32":
        return Flaw("TG302", f"tf32 is how float32 may be multiplied, and a is {a.dtype}", "math", "remove it")
    return None


def _stretches(array: Buffer, d: Buffer) -> bool:
    """From the right, is each extent d's or 1?"""
    pairs = zip(array.shape[::-1], d.shape[::-1], strict=False)
    return len(array.shape) <= len(d.shape) and all(x in (1, y) for x, y in pairs)


def _say(buffer: Buffer) -> str:
    return f"[{', '.join(map(str, buffer.shape))}]"


def _divides(fields: GemmFields) -> str:
    return "" if fields.split in (None, 1) else "split"


def _expand(spec: Spec, call: WholeCall) -> Spec | Program:
    from tilegen.ops.gemm.expand import expand_gemm  # specs that are only read do without

    return expand_gemm(spec, call)


def _list_candidates(call: WholeCall, spec: Spec) -> list[tuple[dict[str, Any], float]]:
    from tilegen.ops.gemm.choose import list_candidates  # specs that are only read do without

    return list_candidates(call, ARCHES[spec.arch])


OP = WholeOp(
    "gemm",
    GemmFields,
    ("a", "b", "c", "bias"),
    ("d",),
    _check,
    optional=("c", "bias"),
    taken=("acc", "alpha", "beta", "c", "bias"),
    later=_LATER,
    divides=_divides,
    named="named",
    expand=_expand,
    reference=multiply_whole,
    pins=fields_picked,
    candidates=_list_candidates,
)
