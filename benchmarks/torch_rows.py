"""What specs that compute on rows are in PyTorch: eagerly, compiled, and in float64 to compare both with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Function = Callable[..., Any]
CHUNK_BYTES = 1 << 28  # of rows that are compared at once, in float64
# How far an element may be from float64's, in parts of itself and of the mean of its row: some roundings of its type.
# The functions round in between as they like; what tilegen's kernel may do is held to its own bound as well.
TOLERANCE = {"bfloat16": 2.0**-6, "float32": 2.0**-13, "float8_e4m3fn": 2.0**-3}
EPSILONS = {"rmsnorm": 1e-6, "layernorm": 1e-5}  # as the specs have them


def row_functions(torch: Any) -> dict[str, Function]:
    """By spec, what a user of PyTorch would write: inputs in the order of the spec's arrays, its outputs in theirs."""
    from_here = torch.nn.functional

    def softmax_rows(x: Any) -> Any:
        return (torch.softmax(x, -1),)

    def rmsnorm(x: Any, w: Any) -> Any:
        return (from_here.rms_norm(x, (x.shape[-1],), w, EPSILONS["rmsnorm"]),)

    def layernorm(x: Any, w: Any, b: Any) -> Any:
        return (from_here.layer_norm(x, (x.shape[-1],), w, b, EPSILONS["layernorm"]),)

    def swiglu(x: Any) -> Any:
        gate, value = x.chunk(2, -1)
        return (from_here.silu(gate) * value,)

    def quantize_rows(x: Any) -> Any:
        scale = x.abs().amax(-1, keepdim=True).float().clamp_min(1e-12) / 448.0
        return (x / scale).to(torch.float8_e4m3fn), scale[:, 0]

    return {f.__name__: f for f in (softmax_rows, rmsnorm, layernorm, swiglu, quantize_rows)}


def exact_functions(torch: Any) -> dict[str, Function]:
    """The same on float64, without any rounding to another type."""

    def quantize_rows(x: Any) -> Any:
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448.0
        return x / scale, scale[:, 0]

    return row_functions(torch) | {"quantize_rows": quantize_rows}


def compare_rows(
    torch: Any, exact: Function, inputs: Sequence[Any], outputs: Sequence[Any], dtypes: Sequence[str]
) -> tuple[str, float]:
    """("", the largest error in parts of what is allowed), or what is wrong; every element of every output.

    ``inputs``: the first has the rows, others are of one row. An output that nobody wrote is NaN, which is wrong.
    """
    x, *others = inputs
    wide = [other.double() for other in others]
    step, worst = max(1, CHUNK_BYTES // (8 * x.shape[1])), 0.0
    for first in range(0, x.shape[0], step):
        wanted = exact(x[first : first + step].double(), *wide)
        for number, (output, want, dtype) in enumerate(zip(outputs, wanted, dtypes, strict=True)):
            got = output[first : first + step].to(torch.float32).double()
            size = want.abs()
            allowed = TOLERANCE[dtype] * (size + size.mean(-1, keepdim=True))
            off = (got - want).abs()
            if not bool((off <= allowed).all()):
                wrong = ~(off <= allowed)
                at = wrong.flatten().long().argmax()
                place = f"element {int(at)} from row {first} on of output {number}"
                was, should = float(got.flatten()[at]), float(want.flatten()[at])
                return f"{place} is {was!r}, not {should!r} ({int(wrong.sum())} there)", float("inf")
            worst = max(worst, float((off / allowed.clamp_min(1e-300)).max()))
    return "", worst


def compile_ways(torch: Any, function: Function, is_autotuned: bool) -> Mapping[str, Callable[[], Function]]:
    """By name, what makes each way of calling a function; the compiler starts afresh for every one of them."""

    def compiled(mode: str) -> Function:
        torch._dynamo.reset()
        made: Function = torch.compile(function, dynamic=False, mode=mode)
        return made

    ways: dict[str, Callable[[], Function]] = {
        "torch": lambda: function, "torch.compile": lambda: compiled("default"),
    }  # fmt: skip
    if is_autotuned:
        ways["torch.compile max-autotune"] = lambda: compiled("max-autotune-no-cudagraphs")
    return ways
