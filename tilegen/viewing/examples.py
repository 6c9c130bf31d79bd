"""A spec as a preset: its buffers, and what the first warp of each access touches, as short as a page of many has it.

examples.json has those of specs/, for whoever has the package alone; `make golden` rewrites it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tilegen.decisions import printable
from tilegen.errors import LayoutError
from tilegen.plan import Launch, Plan
from tilegen.report import explain_access
from tilegen.spec.data import Buffer, Spec
from tilegen.viewing.presets import preset_of

MOST_ELEMENTS = 1 << 18  # of a buffer that is drawn
Data = Mapping[str, Any]


def example_of(spec: Spec, plan: Plan, launch: Launch, explained: Data) -> dict[str, Any]:
    """A spec's {name, note, ops, layouts, accesses} as JSON data; accesses are numbered as explain numbers them."""
    numbered = [(k, op, access) for k, op in enumerate(explained["ops"], 1) for access in op["accesses"]]
    return {
        "name": plan.name, "note": _first_remark(spec.text), "ops": [printable(op["text"]) for op in explained["ops"]],
        "layouts": [layout for b in spec.buffers if (layout := _layout_of(b))],
        "accesses": [_drawn(explain_access(plan, launch, n), k) for n, (k, _, _) in enumerate(numbered, 1)],
    }  # fmt: skip


def _first_remark(text: str) -> str:
    """The first comment of a spec, which says what it does."""
    return next((line for line in text.splitlines() if line.startswith("#")), "").lstrip("# ").rstrip()


def _layout_of(buffer: Buffer) -> dict[str, Any] | None:
    """A buffer of a CTA or of its threads; None for one in global memory, and for what is too large to look at."""
    shape = [n for n in buffer.shape if isinstance(n, int)]
    if buffer.traits.is_array or len(shape) != len(buffer.shape) or not shape or prod(shape) > MOST_ELEMENTS:
        return None
    try:
        preset = preset_of(buffer.name, buffer.name, buffer.layout, shape, buffer.dtype)
    except LayoutError:
        return None
    return {
        "name": buffer.name, "scope": buffer.scope, "text": preset.text, "shape": shape, "dtype": buffer.dtype,
    }  # fmt: skip


def _drawn(seen: Data, op: int) -> dict[str, Any]:
    """An access: ``at`` are the bytes of its lanes, of a box or a matrix in shared memory of its 16-byte chunks."""
    loops = "".join(f", {name} = {trip}" for name, trip in seen["loops"].items())
    chunks = [byte for start, size in seen.get("runs", ()) for byte in range(start, start + size, 16)]
    record = {
        "op": op, "buffer": seen["buffer"], "space": seen["space"], "kind": seen["kind"], "width": seen["width_bytes"],
        "at": pack_numbers(chunks if "rows" in seen else seen["offsets"]), "rows": seen.get("rows"),
        "where": "" if seen["warp"] is None else f"warp {seen['warp']}{loops}",
        "wavefronts": seen.get("wavefronts"), "sectors": seen.get("sectors"), "floor": seen.get("floor"),
    }  # fmt: skip
    return {key: value for key, value in record.items() if value not in (None, "", [])}


def pack_numbers(numbers: Sequence[int]) -> Any:
    """Numbers in a few: {"add": ..} or {"xor": ..} holds the first, and what each bit of an index adds or XORs to it.

    >>> pack_numbers([8, 10, 12, 14]), pack_numbers([5, 4, 6, 7]), pack_numbers([1, 2, 4, 9])
    ({'add': [8, 2, 4]}, {'xor': [5, 1, 3]}, [1, 2, 4, 9])
    """
    size = len(numbers)
    if size < 4 or size & (size - 1) or min(numbers) < 0:
        return list(numbers)
    first, bits = numbers[0], range(size.bit_length() - 1)
    for name in ("add", "xor"):
        steps = [numbers[1 << k] - first if name == "add" else numbers[1 << k] ^ first for k in bits]
        packed = {name: [first, *steps]}
        if unpack_numbers(packed) == list(numbers):
            return packed
    return list(numbers)


def unpack_numbers(packed: Any) -> list[int]:
    """What ``pack_numbers`` packed.

    >>> unpack_numbers({"xor": [5, 1, 2]})
    [5, 4, 7, 6]
    """
    if isinstance(packed, list):
        return packed
    [(name, (first, *steps))] = packed.items()
    found = [first]
    for step in steps:
        found += [value + step if name == "add" else value ^ step for value in found]
    return found


def write_examples(examples: Mapping[str, Data]) -> str:
    """The text of examples.json: a line for each spec, by name."""
    lines = [json.dumps(examples[name], separators=(",", ":"), ensure_ascii=False) for name in sorted(examples)]
    return "[\n" + ",\n".join(lines) + "\n]\n"
