"""Tensor memory as explain shows it: the lanes and columns of each buffer, and what is allocated for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilegen.arch import ARCHES
from tilegen.decisions import COLUMNS, Operation, draw_table, wrap_line
from tilegen.plan import Plan, find_allocator
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import outline
from tilegen.spec.tensor_memory import cells_of, place_columns

LANES_DRAWN, COLUMNS_DRAWN = 16, 8  # cells that one character of the map stands for


def describe_tensor_memory(spec: Spec, plan: Plan) -> dict[str, Any]:
    """``tensor_memory`` as JSON data: its columns, those allocated, and each tmem buffer in the order of the text.

    ``lanes`` and ``columns`` are ranges of those that hold something. Columns count from the buffer's first,
    ``first_column``, and ``taken`` is how many it has. ``copies`` are the places of each element, ``packed`` the
    elements that share a column. ``written_by`` and ``read_by`` list ops by their numbers: the field that names the
    buffer or a view of it, the instruction, the role, the first and the last warp. ``allocator`` is the warp of the CTA
    that allocates, with its role and its number there. {} for a spec without such buffers.
    """
    has = ARCHES[spec.arch].tensor_memory
    if has is None or not any(b.traits.has_cells for b in spec.buffers):
        return {}
    places = place_columns(spec.buffers, spec.arch)
    rows: list[dict[str, Any]] = []
    for name, first in places.first.items():
        buffer = spec.buffer(name)
        cells, uses = cells_of(buffer), _list_uses(spec, plan, name)
        rows.append({
            "buffer": name, "dtype": buffer.dtype, "shape": list(buffer.shape),
            "lanes": list_ranges(cells.lanes), "columns": list_ranges(cells.columns),
            "first_column": first, "taken": cells.reach, "copies": cells.copies, "packed": cells.packed,
            "written_by": [use for use, writes in uses if writes],
            "read_by": [use for use, writes in uses if not writes],
        })  # fmt: skip
    found = {
        "lanes": has.lanes, "columns": has.columns, "least_columns": has.least_columns, "taken": places.taken,
        "allocated": places.allocated, "allocator": _find_allocator(plan), "cta_group": plan.cta_group,
    }  # fmt: skip
    return {"tensor_memory": found | {"buffers": rows}}


def _find_allocator(plan: Plan) -> dict[str, Any]:
    warp, first = find_allocator(plan), 0
    for role in plan.roles:
        warps = -(-role.threads // SCOPES["warp"].threads)
        if warp < first + warps:
            return {"warp": warp, "role": role.name if len(plan.roles) > 1 else "", "warp_in_role": warp - first}
        first += warps
    raise ValueError(f"{plan.name} has no warp {warp}")


def _list_uses(spec: Spec, plan: Plan, name: str) -> list[tuple[dict[str, Any], bool]]:
    """The ops that name a buffer, or a view of it: each field, and whether the op writes there. What adds up writes."""
    found = []
    for number, (call, operation) in enumerate(zip(outline(spec).calls, plan.operations, strict=True), 1):
        warps = SCOPES[call.scope].size(spec.threads_of(call.role)) // SCOPES["warp"].threads
        for field, region in call.regions.items():
            if region.buffer.root == name:
                use = {
                    "op": number, "name": call.op, "line": operation.line, "field": field,
                    "instruction": _instruction_of(operation, call), "role": call.role, "warps": [0, max(0, warps - 1)],
                }  # fmt: skip
                found.append((use, field in call.fields_written))
    return found


def _instruction_of(operation: Operation, call: Call) -> str:
    """What moves cells, as the op's plan says it; of a product the variant."""
    said = [c.picked for c in operation.choices if c.question == "instruction"]
    return str(said[0]) if said else operation.variant


# ---------------------------------------------------------------- text
_MOST_RANGES = 6  # of lanes or columns
_MOVES = ("tcgen05.ld ", "tcgen05.st ")


def say_tensor_memory(found: Mapping[str, Any]) -> list[str]:
    """Lanes and columns of each buffer in the one allocation of a CTA, and who writes and reads it, as explain says.

    ``found`` is ``tensor_memory`` of ``describe_tensor_memory``.
    """
    rows = [
        (
            b["buffer"], b["dtype"], _say_ranges(b["lanes"]), _say_ranges(b["columns"], b["first_column"]),
            str(b["copies"]), _say_uses(b["written_by"]), _say_uses(b["read_by"]),
        )
        for b in found["buffers"]
    ]  # fmt: skip
    head = ("", "type", "in lanes", "in columns", "copies", "written by", "read by")
    packed = {b["dtype"]: f"{b['packed']} of {b['dtype']}" for b in found["buffers"] if b["packed"] > 1}
    by = found["allocator"]
    who = f"warp {by['warp_in_role']} of role {by['role']}" if by["role"] else f"warp {by['warp']}"
    who += ", of each CTA of a pair" if found["cta_group"] > 1 else ""
    taken = f"{found['taken']} of {found['columns']} columns taken"
    notes = [f"an allocation is a power of two from {found['least_columns']} on, in all {found['lanes']} lanes"]
    notes += [f"elements in a column of one lane: {', '.join(packed.values())}"] if packed else []
    return [
        *wrap_line(f"tensor memory: {taken}, one allocation of {found['allocated']}, by {who}"),
        *draw_table(head, rows, len(head), "  ", COLUMNS), *wrap_line(f"  {'; '.join(notes)}", 2),
        *wrap_line("  another kernel that holds columns on the multiprocessor makes the allocation wait", 2),
        *(line for drawn in draw_map(found) for line in wrap_line(f"  {drawn}", 2)),
    ]  # fmt: skip


def _say_ranges(ranges: Sequence[Sequence[int]], first: int = 0) -> str:
    shown = [str(first + a) if a == b else f"{first + a}-{first + b}" for a, b in ranges[:_MOST_RANGES]]
    return " ".join([*shown, "..."] if len(ranges) > _MOST_RANGES else shown)


def _say_uses(uses: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(dict.fromkeys(map(_say_use, uses))) or "no op"


def _say_use(use: Mapping[str, Any]) -> str:
    """An op, and how it gets at the buffer: of loads and stores the warps too, each of which reaches 32 lanes.

    >>> use = {"name": "cast", "line": 9, "field": "src", "instruction": "tcgen05.ld 32x32b.x64", "role": "r"}
    >>> _say_use(use | {"warps": [0, 3]}), _say_use(use | {"name": "mma", "field": "sfa", "instruction": "tcgen05"})
    ('cast (line 9), 32x32b.x64, warps 0-3 of role r', 'mma (line 9), sfa')
    """
    line, how = f" (line {use['line']})" if use["line"] else "", use["instruction"]
    if how.startswith(_MOVES):
        (first, last), role = use["warps"], f" of role {use['role']}" if use["role"] else ""
        return f"{use['name']}{line}, {how.split()[1]}, warps {first}-{last}{role}"
    if how.startswith("tcgen05.cp "):
        return f"{use['name']}{line}, cp {how.split()[1]}"
    return f"{use['name']}{line}, {use['field']}"


def draw_map(found: Mapping[str, Any]) -> list[str]:
    """What lies where: a character for 16 lanes x 8 columns, a line for lanes that are alike, over all columns.

    ``found`` is ``tensor_memory`` of ``describe_tensor_memory``. The first buffer is A where it fills all cells, a
    where some; "." is allocated and empty, "_" free. Where two buffers share a character, the first is shown.

    >>> half = {"lanes": [[0, 63]], "columns": [[0, 19]], "first_column": 0, "taken": 20, "buffer": "acc"}
    >>> print("\\n".join(draw_map({"lanes": 128, "columns": 64, "allocated": 32, "buffers": [half]})))
    each character is 16 lanes x 8 columns; A: acc, small where a part is filled; . allocated, _ free
    lanes 0-63    AAa.____
    lanes 64-127  ....____
    """
    names = ", ".join(f"{_letter(k)}: {b['buffer']}" for k, b in enumerate(found["buffers"]))
    unit = f"each character is {LANES_DRAWN} lanes x {COLUMNS_DRAWN} columns"
    head = f"{unit}; {names}, small where a part is filled; . allocated, _ free"
    lines: list[tuple[int, str]] = []  # the first lane, and what is drawn
    for lane in range(0, found["lanes"], LANES_DRAWN):
        text = "".join(_draw_cells(found, lane, column) for column in range(0, found["columns"], COLUMNS_DRAWN))
        if not lines or lines[-1][1] != text:
            lines.append((lane, text))
    ends = [*(lane for lane, _ in lines[1:]), found["lanes"]]
    labels = [f"lanes {lane}-{end - 1}" for (lane, _), end in zip(lines, ends, strict=True)]
    width = max(map(len, labels))
    return [head, *(f"{label.ljust(width)}  {text}" for label, (_, text) in zip(labels, lines, strict=True))]


def _draw_cells(found: Mapping[str, Any], lane: int, column: int) -> str:
    """The character of the cells from this lane and column on."""
    for k, b in enumerate(found["buffers"]):
        filled = _count_within(b["lanes"], lane, LANES_DRAWN) * _count_within(
            b["columns"], column - b["first_column"], COLUMNS_DRAWN
        )
        if filled:
            return _letter(k) if filled == LANES_DRAWN * COLUMNS_DRAWN else _letter(k).lower()
    return "." if column < found["allocated"] else "_"


def _letter(number: int) -> str:
    return chr(ord("A") + number % 26)  # 128 buffers of 4 columns at most


def _count_within(ranges: Sequence[Sequence[int]], first: int, count: int) -> int:
    return sum(max(0, min(b, first + count - 1) - max(a, first) + 1) for a, b in ranges)


def list_ranges(numbers: tuple[int, ...]) -> list[list[int]]:
    """Ascending numbers as [first, last] of each run without a gap.

    >>> list_ranges((0, 1, 2, 32, 33))
    [[0, 2], [32, 33]]
    """
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return runs
