"""Committed specs, changed so that they are likely to build: kernels that nobody wrote, by number."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path as File
from typing import Any

import yaml

from tests.mutants.table import SIZES, SPECS
from tilegen.dtypes import DTYPES

Path = tuple[str | int, ...]
Json = Any  # what YAML holds: mappings, lists, texts and numbers
_NUMBER = re.compile(r"(?<![\w.@])\d+(?![\w.])")
_LAYOUTS = ("auto", "row", "col", "Swizzle(3,3,3)", "Swizzle(2,3,3)", "Swizzle(2,2,3)", "Swizzle(3,4,3)")
_FIELDS: dict[str, tuple[Json, ...]] = {
    "edge": ("clip",), "async": (True,), "cache": ("stream",), "when": ("bx > 0", "tx < 32", "true"), "unroll": (True,),
    "accumulate": (True, False), "scope": ("cta", "warp", "thread", "warpgroup"), "axis": (0, 1), "width": (1, 2),
    "variant": ("tma", "cp_async", "register_tile", "shifted", "scalar", "reg", "gmem_smem"),
}  # fmt: skip


def change_spec(number: int) -> dict[str, Json]:
    """A spec, small enough for a quick look, with one to three changes."""
    draw = random.Random(number)
    path: File = draw.choice(SPECS)
    spec = json.loads(json.dumps(yaml.safe_load(path.read_text(encoding="utf-8"))))
    for name, size in SIZES.get(path.stem, {}).items():
        _resize(spec["params"], name, size)
    for _ in range(draw.choice((1, 1, 2, 3))):
        draw.choice(_CHANGES)(draw, spec)
    return spec


def _walk(node: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    yield path, node
    for key, part in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from _walk(part, (*path, key))


def _put(node: Json, path: Path, value: Json) -> None:
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value


def _resize(params: Json, name: str, size: int) -> None:
    if isinstance(params[name], dict):
        params[name]["default"] = size
    else:
        params[name] = size


def _other(draw: random.Random, number: int) -> int:
    near = 2 * number, number // 2, number // 2, number + 1, number - 1, number * 3 // 2, number + 8
    return max(1, draw.choice(near))


# ---------------------------------------------------------------- changes
def _change_number(draw: random.Random, spec: Json) -> None:
    """A number of shapes, regions, loops or the launch, everywhere or in one place."""
    parts = [(p, x) for p, x in _walk(spec) if p and p[0] not in ("params", "arch", "kernel") and "dtype" not in p]
    spots = [(p, x, None) for p, x in parts if isinstance(x, int) and not isinstance(x, bool)]
    spots += [(p, x, m) for p, x in parts if isinstance(x, str) for m in _NUMBER.finditer(x)]
    if not spots:
        return
    old = draw.choice([int(m[0]) if m else x for _, x, m in spots])
    new, chosen = _other(draw, old), [s for s in spots if (int(s[2][0]) if s[2] else s[1]) == old]
    if draw.random() < 0.4:
        chosen = [draw.choice(chosen)]
    for path, text, found in sorted(chosen, key=lambda s: -s[2].start() if s[2] else 0):  # the last in a text first
        now = next((x for p, x in _walk(spec) if p == path), text)
        _put(spec, path, new if found is None else now[: found.start()] + str(new) + now[found.end() :])


def _change_size(draw: random.Random, spec: Json) -> None:
    params = {k: v for k, v in spec.get("params", {}).items() if not (isinstance(v, dict) and "dtype" in v)}
    if not params:
        return _change_number(draw, spec)
    name = draw.choice(sorted(params))
    size = params[name]["default"] if isinstance(params[name], dict) else params[name]
    if draw.random() < 0.5:
        step = draw.choice((1, 2, 8, 32))
        spec["params"][name] = {"default": max(1, size // step) * step, "max": 1 << 16, "multiple_of": step}
    else:
        _resize(spec["params"], name, draw.choice((size + 1, max(1, size - 1), size + 8, size + 64, 2 * size)))
    return None


def _change_layout(draw: random.Random, spec: Json) -> None:
    buffer = draw.choice([b for b in spec["buffers"].values() if "view" not in b])
    buffer["layout"] = draw.choice(_LAYOUTS)


def _change_type(draw: random.Random, spec: Json) -> None:
    """Of all buffers of a type, or of one."""
    old = draw.choice(sorted({b["dtype"] for b in spec["buffers"].values() if "dtype" in b}))
    same = [b for b in spec["buffers"].values() if b.get("dtype") == old]
    new = draw.choice([n for n, d in DTYPES.items() if d.bytes == DTYPES[old].bytes or draw.random() < 0.3])
    for buffer in [draw.choice(same)] if draw.random() < 0.3 else same:
        buffer["dtype"] = new


def _change_order(draw: random.Random, spec: Json) -> None:
    """A statement left out, done twice, or done after the one that follows it."""
    bodies = [x for p, x in _walk(spec["ops"]) if isinstance(x, list) and x and (not p or p[-1] == "do")]
    body = draw.choice(bodies)
    at, kind = draw.randrange(len(body)), draw.choice(("leave out", "twice", "exchange"))
    if kind == "leave out" and len(body) > 1:
        del body[at]
    elif kind == "twice":
        body.insert(at, json.loads(json.dumps(body[at])))
    else:
        body[at : at + 2] = body[at : at + 2][::-1]


def _change_field(draw: random.Random, spec: Json) -> None:
    fields = [x for p, x in _walk(spec["ops"]) if p and isinstance(p[-1], str) and isinstance(x, dict) and x]
    if not fields:
        return
    call = draw.choice(fields)
    if draw.random() < 0.5:
        del call[draw.choice(sorted(call))]
    else:
        name = draw.choice([n for n in _FIELDS if n in call] or sorted(_FIELDS))
        call[name] = draw.choice(_FIELDS[name])


def _change_arch(draw: random.Random, spec: Json) -> None:
    spec["arch"] = draw.choice(("sm_80", "sm_89", "sm_90", "sm_90a"))


_CHANGES: tuple[Callable[[random.Random, Json], None], ...] = (
    *[_change_number] * 6, *[_change_size] * 3, *[_change_layout] * 3, *[_change_type] * 2, *[_change_order] * 3,
    *[_change_field] * 3, _change_arch,
)  # fmt: skip
