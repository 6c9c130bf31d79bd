"""What tensor cores are given of an op: matrix descriptors, and the instruction's of tcgen05, as data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tilegen.decisions import COLUMNS, draw_table, wrap_line
from tilegen.dtypes import DTYPES
from tilegen.index import Index, add, mul, substitute
from tilegen.index.linear import linear
from tilegen.layouts import find_atom
from tilegen.ops.tensor_instruction import describe_instruction
from tilegen.plan import (
    Block,
    MatrixDescriptor,
    Plan,
    Ref,
    Repeat,
    Step,
    TensorCopy,
    TensorMma,
    Wgmma,
    all_steps,
    effects,
)
from tilegen.plan.instruction_descriptor import decode_instruction

_MOST_STARTS = 4
Data = Mapping[str, Any]
Trips = Mapping[str, Index]


def list_descriptors(plan: Plan, op: int) -> list[dict[str, Any]]:
    """The descriptors of an operation, by operand, buffer and how the matrix lies; [] where it has none.

    ``starts``: where the matrices begin, in bytes of the buffer, before the swizzle; ``step_bytes`` from each to the
    next, None where they do not follow one another evenly. ``engine``: what reads them. ``mode``: the swizzle's number,
    in bits 62 and 63 of wgmma's, 61 to 63 of tcgen05's.
    """
    found: dict[tuple[str, str, MatrixDescriptor], dict[Index, None]] = {}
    for block, step, trips in _list_started(plan, op):
        for operand, ref, lies in _list_operands(step):
            if lies is not None:
                name, start = _find_start(block, ref, trips)
                found.setdefault((operand, name, lies), {})[start] = None
    return [
        {
            "operand": operand, "buffer": name, "engine": lies.engine, "rows": lies.rows, "along": lies.along,
            "leading_bytes": lies.leading_bytes, "stride_bytes": lies.stride_bytes, "swizzle_bytes": lies.swizzle_bytes,
            "mode": lies.mode, "uses_leading": lies.uses_leading, "step_bytes": _find_step([*starts]),
            "starts": [str(start) for start in starts],
        }
        for (operand, name, lies), starts in found.items()
    ]  # fmt: skip


def describe_started(plan: Plan, op: int) -> dict[str, Any]:
    """What one run of an operation starts on a tensor core by tcgen05.mma, as JSON data; {} for another operation.

    ``instruction_descriptors`` are the different ones in their order: their 32 ``bits``, and what those decode to.
    """
    steps = [step for _, step, _ in _list_started(plan, op) if isinstance(step, TensorMma)]
    if not steps:
        return {}
    atom = find_atom(steps[0].atom)
    numbers = dict.fromkeys(describe_instruction(step).encode() for step in steps)
    return {
        "instruction": steps[0].via.name, "kind": atom.ptx_kind, "atom": atom.name, "shape": list(atom.shape),
        "ctas": steps[0].ctas, "count": len(steps), "a_in_tensor_memory": steps[0].a_lies is None,
        "instruction_descriptors": [_decode(number, atom.ptx_kind) for number in numbers],
    }  # fmt: skip


def _decode(number: int, kind: str) -> dict[str, Any]:
    said = decode_instruction(number, kind)
    scaled = {"factors": said.factors, "a_factor": said.a_factor, "b_factor": said.b_factor} if said.factors else {}
    return {
        "bits": f"0x{number:08x}", "m": said.m, "n": said.n, "a": said.a, "b": said.b, "c": said.c,
        "a_along": said.a_along, "b_along": said.b_along,
    } | scaled  # fmt: skip


def _list_started(plan: Plan, op: int) -> Iterator[tuple[Block, Step, Trips]]:
    """What tensor cores are given in one run of an operation, in order, with the trip of each loop that an op adds."""
    for block in dict.fromkeys(s for s in all_steps(plan) if isinstance(s, Block) and s.op == op):
        yield from ((block, step, trips) for step, trips in _unfold(block.body, {}))


def _unfold(steps: Iterable[Step], trips: Trips) -> Iterator[tuple[Step, Trips]]:
    for step in steps:
        if isinstance(step, Wgmma | TensorMma | TensorCopy):
            yield step, trips
        elif isinstance(step, Repeat) and isinstance(step.count, int):
            for trip in range(step.count):
                yield from _unfold(step.body, {**trips, step.var.name: trip})
        else:
            yield from _unfold(effects(step).body, trips)


def _list_operands(step: Step) -> tuple[tuple[str, Ref, MatrixDescriptor | None], ...]:
    if isinstance(step, TensorCopy):
        return (("src", step.src, step.src_lies),)
    assert isinstance(step, Wgmma | TensorMma)
    return ("a", step.a, step.a_lies), ("b", step.b, step.b_lies)


def _find_start(block: Block, ref: Ref, trips: Trips) -> tuple[str, Index]:
    """The buffer in which a place of a function lies, and the byte of it."""
    base = next((actual for formal, actual in block.args if formal.name == ref.memory.name), None)
    offset = substitute(ref.offset, trips)
    at: Index = offset if base is None else add(base.offset, offset)
    memory = ref.memory if base is None else base.memory
    return memory.name, mul(at, DTYPES[memory.dtype].bytes)


def _find_step(starts: Sequence[Index]) -> int | None:
    """Bytes from each place to the next, where all are as far apart."""
    steps = set[int | None]()
    for a, b in pairwise(starts):
        apart = linear(b)
        for factor, count in linear(a).items():
            apart[factor] = apart.get(factor, 0) - count
        steps.add(apart.pop(1, 0) if not any(count for factor, count in apart.items() if factor != 1) else None)
    return steps.pop() if len(steps) == 1 else None


# ---------------------------------------------------------------- text
def draw_descriptors(found: Sequence[Data], started: Data) -> list[str]:
    """What is started by tcgen05, a table of an op's descriptors, and what is proved of them; [] where it has none."""
    return [*_say_started(started), *_draw_table(found)]


def _say_started(started: Data) -> list[str]:
    """Kind, shape and number of the products, and the descriptor of the instruction in hexadecimal and in words."""
    if not started:
        return []
    first, last = started["instruction_descriptors"][0], started["instruction_descriptors"][-1]
    m, n, k = started["shape"]
    says = f"{first['c']} of {first['a']} and {first['b']}, {_say_majors(first, started['a_in_tensor_memory'])}"
    if "factors" in first:
        ids = [one["a_factor"] for one in (first, last)]
        says += f", factors {first['factors']}, {f'ids {ids[0]} to {ids[1]}' if ids[0] != ids[1] else f'id {ids[0]}'}"
    pair = " of both CTAs of a pair, started in the even one" if started["ctas"] > 1 else ""
    text = f"  tcgen05.mma.{started['kind']}: {started['count']} x m{m}n{n}k{k}{pair}, idesc {first['bits']} ({says})"
    cells = "    a: in tensor memory, row r in lane r, the elements of a row packed in its columns"
    return [*wrap_line(text), *(wrap_line(cells) if started["a_in_tensor_memory"] else [])]


def _say_majors(said: Data, a_in_cells: bool) -> str:
    a, b = (said[f"{operand}_along"].upper() for operand in ("a", "b"))
    if a_in_cells:
        return f"b {b}-major"
    return f"both {a}-major" if a == b else f"a {a}-major, b {b}-major"


def _draw_table(found: Sequence[Data]) -> list[str]:
    if not found:
        return []
    rows, begins = [], []
    for d in found:
        starts = ", ".join(d["starts"][:_MOST_STARTS]) + (", .." if len(d["starts"]) > _MOST_STARTS else "")
        swizzle = f"{d['swizzle_bytes']} B" if d["swizzle_bytes"] else "none"
        leading = str(d["leading_bytes"]) if d["uses_leading"] else f"{d['leading_bytes']} (unused)"
        along = "K" if d["along"] == "k" else "N" if d["operand"] == "b" else "M"
        rows.append((
            d["operand"], d["buffer"], along, leading, str(d["stride_bytes"]), swizzle, str(d["mode"]),
            "-" if d["step_bytes"] is None else str(d["step_bytes"]),
        ))  # fmt: skip
        begins += wrap_line(f"    {d['operand']} begins at byte {starts} of {d['buffer']}", 6)
    head = ("", "buffer", "along", "leading bytes", "stride bytes", "swizzle", "mode", "bytes a step")
    bits = "61 to 63" if found[0]["engine"] == "tcgen05" else "62 and 63"
    note = f"leading and stride byte offsets are 16 bytes a step in the 64 bits; mode: bits {bits}"
    read = [f"{len(d['starts'])} x {d['rows']} rows of {d['operand']}" for d in found]
    proved = f"proved: {' and '.join(read)} are read where the layouts say, element by element"
    return [
        "  matrix descriptors", *draw_table(head, rows, 3, "    ", COLUMNS), *begins, *wrap_line(f"    {note}", 4),
        *wrap_line(f"    {proved}", 4),
    ]  # fmt: skip
