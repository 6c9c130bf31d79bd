"""The matrix descriptors of an op's wgmmas: the numbers that the hardware is given, as data and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilegen.decisions import COLUMNS, draw_table, wrap_line
from tilegen.dtypes import DTYPES
from tilegen.index import Index, add, mul
from tilegen.plan import Block, MatrixDescriptor, Plan, Ref, Wgmma, all_steps, flatten

_MOST_STARTS = 4


def list_descriptors(plan: Plan, op: int) -> list[dict[str, Any]]:
    """The descriptors of an operation, by operand, buffer and how the matrix lies; [] where it has none.

    ``starts``: where the matrices begin, in bytes of the buffer, before the swizzle. ``mode``: bits 62 and 63.
    """
    found: dict[tuple[str, str, MatrixDescriptor], list[str]] = {}
    for block in (s for s in all_steps(plan) if isinstance(s, Block) and s.op == op):
        for step in flatten(block.body):
            if isinstance(step, Wgmma):
                for operand, ref, lies in (("a", step.a, step.a_lies), ("b", step.b, step.b_lies)):
                    if lies is not None:
                        name, start = _find_start(block, ref)
                        starts = found.setdefault((operand, name, lies), [])
                        starts += [start] if start not in starts else []
    return [
        {
            "operand": operand, "buffer": name, "rows": lies.rows, "along": lies.along,
            "leading_bytes": lies.leading_bytes, "stride_bytes": lies.stride_bytes, "swizzle_bytes": lies.swizzle_bytes,
            "mode": lies.mode, "uses_leading": lies.uses_leading, "starts": starts,
        }
        for (operand, name, lies), starts in found.items()
    ]  # fmt: skip


def _find_start(block: Block, ref: Ref) -> tuple[str, str]:
    """The buffer in which a place of a function lies, and the byte of it, as an expression."""
    base = next((actual for formal, actual in block.args if formal.name == ref.memory.name), None)
    offset: Index = ref.offset if base is None else add(base.offset, ref.offset)
    memory = ref.memory if base is None else base.memory
    return memory.name, str(mul(offset, DTYPES[memory.dtype].bytes))


def draw_descriptors(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of an op's descriptors; [] where it has none."""
    if not found:
        return []
    rows, begins = [], []
    for d in found:
        starts = ", ".join(d["starts"][:_MOST_STARTS]) + (", .." if len(d["starts"]) > _MOST_STARTS else "")
        swizzle = f"{d['swizzle_bytes']} B" if d["swizzle_bytes"] else "none"
        leading = str(d["leading_bytes"]) if d["uses_leading"] else f"{d['leading_bytes']} (unused)"
        rows.append((
            d["operand"], d["buffer"], "K" if d["along"] == "k" else "M" if d["operand"] == "a" else "N",
            leading, str(d["stride_bytes"]), swizzle, str(d["mode"]),
        ))  # fmt: skip
        begins += wrap_line(f"    {d['operand']} begins at byte {starts} of {d['buffer']}", 6)
    head = ("", "buffer", "along", "leading bytes", "stride bytes", "swizzle", "mode")
    note = "leading and stride byte offsets are 16 bytes a step in the 64 bits; mode: bits 62 and 63"
    return ["  matrix descriptors", *draw_table(head, rows, 3, "    ", COLUMNS), *begins, *wrap_line(f"    {note}", 4)]
