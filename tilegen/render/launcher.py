"""The launcher of a kernel: a header for C++ programs that checks its arguments, computes the grid and launches."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from tilegen.decisions import count_words
from tilegen.dtypes import DTYPES
from tilegen.index import INT_LIMIT, Formula, Index, Var, bound, evaluate, mul, to_c, variables
from tilegen.plan import (
    CHECK_MACRO,
    CHECKING_THREADS,
    ENTERS,
    LOOKS,
    MOST_CHECKING_CTAS,
    MOST_RESIDENT,
    RESIDENT_CTAS,
    CountedCtas,
    Memory,
    Param,
    Plan,
    ProgramPlan,
    PromiseCheck,
    TensorMap,
    Trust,
    arguments,
    arrays,
    list_checks,
    say_if_false,
    tensor_maps,
)
from tilegen.render.apart import Check, check_apart
from tilegen.render.c_text import comment_lines, fold_line, int_type
from tilegen.render.checks import count_elements, render_checks
from tilegen.render.launch import launch_info, plan_shared
from tilegen.render.names import fresh
from tilegen.render.page import templates
from tilegen.scopes import GRID_LIMITS

# What C++ programs call the elements that the kernel's header-free text holds as plain words, and who declares it.
_HOST_TYPES = {
    "float16": ("__half", "cuda_fp16.h"), "bfloat16": ("__nv_bfloat16", "cuda_bf16.h"),
    "float8_e4m3fn": ("__nv_fp8_e4m3", "cuda_fp8.h"), "float8_e5m2": ("__nv_fp8_e5m2", "cuda_fp8.h"),
    "float8_e8m0fnu": ("__nv_fp8_e8m0", "cuda_fp8.h"),
} | {name: (f"{name}_t", "stdint.h") for name in DTYPES if name.rstrip("0123456789") in ("int", "uint")}  # fmt: skip
_OWN_NAMES = (
    "stream", "error", "grid", "block", "arguments", "attributes", "find_encoder", "encode", "status", "dims",
    "strides", "box", "steps", "device", "count", "config", "attribute", "counted",
)  # fmt: skip
_CHECKING_NAMES = (
    "stream", "captured", "status", "freed", "count", "slots", "first", "memory", "bytes", "mask", "table", "wanted",
    "grid", "block", "turn", "arguments",
)  # fmt: skip
_DATA_TYPES = {n: f"CU_TENSOR_MAP_DATA_TYPE_UINT{8 * n}" for n in (1, 2, 4, 8)}  # TMA moves bits
_TFLOAT32 = "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32"  # and rounds float32 to it
_SWIZZLES = {0: "CU_TENSOR_MAP_SWIZZLE_NONE"} | {n: f"CU_TENSOR_MAP_SWIZZLE_{n}B" for n in (32, 64, 128)}
_NONE: Mapping[str, Any] = {}
_PLACES = ("apart", "late_checks", "workspace_checks")  # what asks where arrays lie
_ACCESS = {"in": "read", "out": "written", "inout": "read and written"}


def render_launcher(plan: Plan) -> str:
    """The header ``<kernel>.h``: ``cudaError_t launch_<kernel>(pointers, parameters, stream)`` for nvcc, and for a C++
    compiler that links what nvcc made of ``<kernel>.cu``. The same plan gives the same bytes.
    """
    apart = [*check_apart(arrays(plan))]
    described = describe_kernel(plan, apart=apart)
    described |= {"promised": describe_checks(plan, described["params"], described["own"]["stream"])}
    return write_header(_describe(plan), [plan], [described])


def write_header(
    header: Iterable[str], plans: Sequence[Plan], kernels: Sequence[Mapping[str, Any]],
    program: Mapping[str, Any] = _NONE,
) -> str:  # fmt: skip
    """The header of some kernels; ``program``: what the template takes of all of them together."""
    includes = {"algorithm"} if any(one.get("compares") for one in (*kernels, program)) else set[str]()
    asked = " ".join(text for one in (*kernels, program) for key in _PLACES for text, _ in one.get(key, ()))
    text = templates().get_template("launcher.h.j2").render(
        header=[piece for line in header for piece in comment_lines(line)],
        includes=sorted({*(i for plan in plans for i in _list_includes(plan)), *includes}),
        maps=any(tensor_maps(plan) for plan in plans), kernels=kernels, program=program,
        promised=[one["promised"] for one in (*kernels, program) if one.get("promised")],
        overlap="TILEGEN_OVERLAP(" in asked, interleave="TILEGEN_INTERLEAVE(" in asked,
    )  # fmt: skip
    return "\n".join(folded for line in text.strip().splitlines() for folded in fold_line(line)) + "\n"


def describe_kernel(
    plan: Plan, counted: CountedCtas | None = None, apart: Sequence[Check] = ()
) -> dict[str, Any]:  # fmt: skip
    """What the template takes of one kernel.

    ``counted``: of whose CTAs later kernels are told how many there are. ``apart``: what is asked of where its arrays
    lie, which of several kernels is asked once for all.
    """
    compares = takes_min_or_max([*map(to_c, plan.launched_grid), *(condition for condition, _ in apart)])
    args = launch_info(plan)["args"]
    taken, shared = {plan.name, *(arg["name"] for arg in args)}, plan_shared(plan)
    values = [*map(write_value, arguments(plan.params))]
    return {
        "name": plan.name, "declared": _list_declared(plan),
        "params": [*(write_pointer(m, host_type(m.dtype)[0]) for m in arrays(plan)), *values], "given": values,
        "checks": [
            *map(check_pointer, arrays(plan)), *(c for p in arguments(plan.params) for c in check_param(p)),
            *check_grid(plan),
        ],
        "apart": apart, "promised": {},
        "own": {name: fresh(name, taken) for name in _OWN_NAMES},
        "grid": [to_c(x) for x in plan.launched_grid], "resident": _resident_texts(plan), "compares": compares,
        "overlaps": plan.overlaps, "threads": plan.threads,
        "maps": [_map_texts(a) for a in args if a["kind"] == "tensor_map"],
        "arguments": [f"&{arg['name']}" for arg in args], "dynamic_bytes": shared.bytes if shared.dynamic else 0,
        "counted": counted and {
            "function": f"count_ctas_of_{plan.name}", "axis": "xyz"[counted.axis],
            "extent": to_c(plan.launched_grid[counted.axis]),
        },
    }  # fmt: skip


def describe_checks(plan: Plan | ProgramPlan, declared: Sequence[str], stream: str) -> dict[str, Any]:
    """What the template takes of the checks of a launch, whose function has these parameters, and the stream under that
    name; {} where nothing is promised.
    """
    checks = list_checks(plan)
    if not checks:
        return {}
    names = [text.split()[-1].lstrip("*") for text in declared]
    own = {name: fresh(name, {*names, plan.name, *(c.name for c in checks)}) for name in _CHECKING_NAMES}
    described = [_describe_check(c, own) for c in checks]
    return {
        "macro": CHECK_MACRO, "function": f"check_promises_of_{plan.name}", "own": own, "checks": described,
        "params": [*declared, f"cudaStream_t {own['stream']} = 0"], "call": [*names, stream],
        "text": render_checks(checks, "static").rstrip(), "threads": CHECKING_THREADS, "most": MOST_CHECKING_CTAS,
        "compares": takes_min_or_max(c["count"] for c in described),
    }  # fmt: skip


def _describe_check(check: PromiseCheck, own: Mapping[str, str]) -> dict[str, Any]:
    promise = check.promise
    given = [promise.array, own["memory"], own["table"], own["mask"], own["turn"], *(p.name for p in check.params)]
    return {
        "name": check.name, "array": promise.array, "says": promise.says, "is_distinct": check.is_distinct,
        "count": count_elements(promise), "turns": [ENTERS, LOOKS] if check.is_distinct else [LOOKS],
        "arguments": [f"&{name}" for name in given],
    }  # fmt: skip


def host_type(dtype: str) -> tuple[str, str]:
    """An element type as a C++ program has it, and the header that declares it ("" for what needs none).

    >>> host_type("float16"), host_type("int64"), host_type("float32")
    (('__half', 'cuda_fp16.h'), ('int64_t', 'stdint.h'), ('float', ''))
    """
    return _HOST_TYPES.get(dtype, (DTYPES[dtype].c, ""))


def _list_includes(plan: Plan) -> list[str]:
    named = {include for m in arrays(plan) if (include := host_type(m.dtype)[1])}
    return sorted(named | ({"cuda.h"} if tensor_maps(plan) else set()))


def _list_declared(plan: Plan) -> list[str]:
    """The kernel's parameters. Its own file defines TensorMap: a declaration needs no more than the name of a type."""
    pointers = [write_pointer(m, DTYPES[m.dtype].storage) for m in arrays(plan)]
    maps = [f"const __grid_constant__ TensorMap {m.name}" for m in tensor_maps(plan)]
    return [*pointers, *map(write_value, arguments(plan.params)), *maps]


def _map_texts(arg: Mapping[str, Any]) -> dict[str, Any]:
    """What the driver encodes a descriptor from, as C, of what the manifest says of it."""
    return {
        "name": arg["name"], "array": arg["array"], "rank": len(arg["dims"]), "box": arg["box"],
        "dims": [_wide(text) for text in arg["dims_expression"]],
        "strides": [_wide(text) for text in arg["strides_bytes_expression"]] or [0],  # of one dimension, none is read
        "steps": arg["element_strides"], "data_type": _type_of(arg),
        "swizzle": _SWIZZLES[arg["swizzle_bytes"]],
    }  # fmt: skip


def _type_of(arg: Mapping[str, Any]) -> str:
    if "type" in arg:
        return f"CU_TENSOR_MAP_DATA_TYPE_{arg['type'].upper()}"
    return _TFLOAT32 if "rounds_to" in arg else _DATA_TYPES[arg["elem_bytes"]]


def _wide(text: str) -> str:
    """An expression as the driver takes it.

    >>> _wide("640"), _wide("M"), _wide("M * 4")
    ('640', '(cuuint64_t)M', '(cuuint64_t)(M * 4)')
    """
    if text.isdecimal():
        return text
    return f"(cuuint64_t){text}" if text.isidentifier() else f"(cuuint64_t)({text})"


def _describe(plan: Plan) -> Iterator[str]:
    call = ", ".join([*(m.name for m in arrays(plan)), *(p.name for p in arguments(plan.params))])
    yield f"launch_{plan.name}: launches the kernel of {plan.name}.cu; generated by tilegen for {plan.arch}."
    yield ""
    yield f'    #include "{plan.name}.cu"   // or compile it by itself and link it'
    yield f'    #include "{plan.name}.h"'
    yield f"    cudaError_t error = launch_{plan.name}({call}, stream);"
    yield ""
    yield from (describe_array(m) for m in arrays(plan))
    yield from (f"{p.name}: {describe_param(p, [plan])}" for p in arguments(plan.params))
    yield from (_describe_map(m) for m in tensor_maps(plan))
    yield from say_promises(plan.trust)
    yield (
        f"{say_apart(arrays(plan))}The launch is asynchronous"
        + (", and may start while the kernel before it in the stream still runs" if plan.overlaps else "")
        + ". It returns "
        "cudaErrorMisalignedAddress for a pointer that is not aligned as said here"
        + (f", cudaErrorInvalidValue for {' or '.join(invalid)}" if (invalid := _list_invalid(plan)) else "")
        + (", cudaErrorInvalidConfiguration for more CTAs than can be launched" if any(check_grid(plan)) else "")
        + (", and what CUDA says of a descriptor that it does not encode." if tensor_maps(plan) else ".")
    )


def say_promises(trust: Trust) -> Iterator[str]:
    """Lines about what a caller promises: how it is checked, and what it does where it is false."""
    yield from say_if_false(trust, f"#define {CHECK_MACRO} before this header is included")
    if trust.promised:
        yield (
            f"With {CHECK_MACRO} a launch waits for the device, and returns TILEGEN_FALSE_PROMISE for a false promise, "
            "having launched nothing; while its stream is captured, cudaErrorStreamCaptureUnsupported."
        )


def say_apart(of: Sequence[Memory]) -> str:
    """A sentence about arrays that may share no byte, "" where all may."""
    return "What is written must share no byte with another array. " if any(check_apart(of)) else ""


def _list_invalid(plan: Plan) -> list[str]:
    found = ["a parameter out of its range"] if arguments(plan.params) else []
    found += ["an array that is written and shares bytes with another"] if any(check_apart(arrays(plan))) else []
    return found


def describe_array(memory: Memory) -> str:
    """An array on one line of a header's comment."""
    layout = f", {memory.note}" if memory.note else ""
    size = mul(memory.span, memory.elem_bytes)
    sized = f", {count_words(size, 'byte', 'bytes')}" if isinstance(size, int) else ""
    aligned = f", aligned to {count_words(memory.align_bytes, 'byte', 'bytes')}"
    return f"{memory.name}: {memory.dtype}{layout}{sized}{aligned}, {_ACCESS[memory.access]}"


def describe_param(param: Param, plans: Sequence[Plan]) -> str:
    """A parameter's range in words, as far as all grids can be launched."""
    if param.var is None:
        return param.dtype
    multiple = f" in steps of {param.var.step}" if param.var.step > 1 else ""
    return f"{param.var.least} to {min(_find_largest(param.var, plan) for plan in plans)}{multiple}"


def _find_largest(var: Var, plan: Plan) -> int:
    """The largest value with which the grid can be launched where all other parameters have their least.

    A grid that does not grow with the value, at the values that the search meets, leaves the value its own bound.
    """
    others = {RESIDENT_CTAS: prod(plan.cluster)} | {p.name: p.var.least for p in plan.params if p.var is not None}
    values = range(var.least, var.bound, var.step)

    def fits(value: int) -> bool:
        counts = (int(evaluate(n, others | {var.name: value})) for n in plan.launched_grid)
        return all(count <= most for count, most in zip(counts, GRID_LIMITS, strict=True))

    beyond = bisect_left(values, True, key=lambda value: not fits(value))
    return values[max(0, beyond - 1)]


def _describe_map(m: TensorMap) -> str:
    swizzle = f"{m.swizzle_bytes}-byte swizzle" if m.swizzle_bytes else "no swizzle"
    rounds = ", rounded to tf32" if m.rounds else ""
    what = f"the kernel's TMA descriptor of {m.memory.name}, boxes of {list(m.box)}, {swizzle}{rounds}"
    return f"{m.name}: {what}; encoded here"


def write_pointer(memory: Memory, c: str) -> str:
    """An array as a parameter of a C++ function."""
    return f"{'const ' if memory.access == 'in' else ''}{c} *{memory.name}"


def write_value(param: Param) -> str:
    """A runtime parameter as one of a C++ function."""
    return f"{int_type(param.var) if param.var else DTYPES[param.dtype].c} {param.name}"


def takes_min_or_max(texts: Iterable[str]) -> bool:
    """Does one of some expressions in C?"""
    return any(re.search(r"\b(min|max)\(", text) for text in texts)


def _resident_texts(plan: Plan) -> dict[str, Any]:
    """What says how many CTAs fit at once, {} where no launch asks."""
    named = {v.name for n in plan.launched_grid for v in variables(n)}
    if RESIDENT_CTAS not in named:
        return {}
    size = prod(plan.cluster)
    return {"name": RESIDENT_CTAS, "cluster": list(plan.cluster), "ctas": size, "most": MOST_RESIDENT // size * size}


def check_pointer(memory: Memory) -> tuple[str, str]:
    """A condition in C under which a pointer is refused, and the error."""
    return f"(size_t){memory.name} % {memory.align_bytes}", "cudaErrorMisalignedAddress"


def check_grid(plan: Plan) -> Iterator[tuple[str, str]]:
    """CTAs that a dim3 would not hold, or CUDA not launch: a count that wraps would leave the rest undone."""
    for count, most in zip(plan.launched_grid, GRID_LIMITS, strict=True):
        if bound(count) - 1 > most:
            text = to_c(count) if bound(count) <= 1 << 64 else _in_double(count)
            yield f"{text} > {most}", "cudaErrorInvalidConfiguration"


def _in_double(count: Index) -> str:
    """A count that could wrap in size_t: its sums and products as double, exact up to far more than is launched."""
    if isinstance(count, Formula) and count.symbol in "+*":
        return f" {count.symbol} ".join(f"({_in_double(a)})" for a in count.args)
    return f"(double)({to_c(count)})"


def check_param(param: Param) -> Iterator[tuple[str, str]]:
    """What the kernel was proved for: outside of it, its vectors are misaligned and its indices leave int."""
    if param.var is None:
        return
    conditions = [f"{param.name} < {param.var.least}"]
    conditions += [f"{param.name} > {param.var.bound - 1}"] if param.var.bound < INT_LIMIT else []
    conditions += [f"{param.name} % {param.var.step}"] if param.var.step > 1 else []
    yield " || ".join(conditions), "cudaErrorInvalidValue"
