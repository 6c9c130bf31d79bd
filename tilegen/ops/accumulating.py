"""What ops with the field ``accumulate`` have in common: what is written is updated atomically, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tilegen.arch import ARCHES, Arch
from tilegen.decisions import Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.plan import find_updates, list_updates
from tilegen.spec.accumulated import find_unordered
from tilegen.spec.data import Buffer, Call, Region, Spec
from tilegen.spec.form import list_fields

Accumulate = Literal["add", "min", "max", "and", "or", "xor"]
AccumulateField = Annotated[
    Accumulate | None,
    Field(
        description="dst, in global or shared memory, is updated atomically by this function, in any order, instead of "
        "being written"
    ),
]
_IN_REGISTERS = {"add": "x + y", "min": "min(x, y)", "max": "max(x, y)"}  # what an expression does instead
_BITS = ("and", "or", "xor")
ORDER = "order of sums"  # the question that explain answers of floats that are added atomically
CheckTypes = Callable[[Any, Mapping[str, Region]], Flaw | None]


def check_accumulate(written: tuple[str, ...], check: CheckTypes) -> CheckTypes:
    """``check`` of an op's types, and what is wrong with what it accumulates into, by the fields that it writes."""

    def check_both(fields: Any, regions: Mapping[str, Region]) -> Flaw | None:
        if fields.accumulate is not None:
            for name in list_fields(regions, written):
                if (flaw := find_flaw(fields.accumulate, regions[name].buffer, name)) is not None:
                    return flaw
        return check(fields, regions)

    return check_both


def find_flaw(function: str, buffer: Buffer, field: str) -> Flaw | None:
    """What is wrong with accumulating into a buffer, whatever the arch; the place is the ``field`` that names it."""
    if buffer.traits.is_held:
        text = _IN_REGISTERS.get(function)
        hint = f"'elementwise: {{dst: x, expr: \"{text}\"}}' does it in registers" if text else "store to memory"
        message = f"'accumulate' updates global or shared memory, and '{buffer.name}' is in registers"
        return Flaw("TG212", message, field, hint)
    if find_updates(function, buffer.dtype, buffer.traits.state):
        return None
    dtype = DTYPES[buffer.dtype]
    message = f"no GPU updates {buffer.dtype} atomically by '{function}': '{buffer.name}'"
    if dtype.kind == "float" and dtype.bits > 8:
        hint = "floats have 'add' alone; " + (
            "bits are those of integers: let a view name them"
            if function in _BITS
            else "'reduce' finds it without atomics"
        )
    elif dtype.kind in ("int", "uint"):
        hint = f"integers of 32 and 64 bits can be: {'int32' if dtype.kind == 'int' else 'uint32'}"
    else:
        hint = "int32, uint32, int64, uint64, and with 'add' float16, bfloat16, float32, float64 can be"
    return Flaw("TG213", message, field, hint)


def list_order(call: Call) -> tuple[Choice, ...]:
    """What explain says of the order in which a call's floats are added to memory, () where no order counts."""
    if call.accumulates != "add" or all(DTYPES[r.buffer.dtype].kind != "float" for r in call.written):
        return ()
    why = "floats are added as threads come, so two runs may differ in the last bits; the bound is that of any order"
    return (Choice(ORDER, "any", (), why),)


def say_unordered(spec: Spec) -> tuple[str, ...]:
    """A note for the head of a kernel whose arrays hold such sums, () for any other."""
    names = sorted(find_unordered(spec))
    if not names:
        return ()
    does = "holds" if len(names) == 1 else "hold"
    return (
        f"{', '.join(names)} {does} sums of floats that are added in any order: two runs may differ in the last bits.",
    )


def refuse_update(call: Call, arch: Arch) -> str | None:
    """Why an arch cannot update what the call accumulates into, or None."""
    for region in call.written if call.accumulates else ():
        buffer = region.buffer
        if not list_updates(call.accumulates, buffer.dtype, buffer.traits.state, arch.features):
            first = next((a.name for a in ARCHES.values() if _has(call.accumulates, buffer, a)), None)
            came = f", which came with {first}" if first else ""
            return f"{arch.name} has no atomic '{call.accumulates}' of {buffer.dtype}{came}: add into float32"
    return None


def _has(function: str, buffer: Buffer, arch: Arch) -> bool:
    return bool(list_updates(function, buffer.dtype, buffer.traits.state, arch.features))
