"""Random layouts and accesses with what Python computes of them: the contract that the page's own model is held to."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from math import prod
from typing import Any

from tilegen import access, drawing
from tilegen.errors import LayoutError

PATTERNS = ("row", "column", "ldmatrix1", "ldmatrix2", "ldmatrix4")
THREAD_AXES = ("laneid", "warpid", "tx", "wgid", "tid_in_wg", "wid_in_wg")
OTHER_AXES = ("TLane", "TCol", "P", "F", "Bank", "bx", "cbx")
Drawn = tuple[str, list[int] | None]


def draw_cases(count: int, seed: int = 1) -> dict[str, Any]:
    """``count`` layouts, some of which cannot be, and as many accesses, each with Python's answer; plain JSON data."""
    rng = random.Random(seed)
    drawn = [rng.choice(FORMS)(rng) for _ in range(count)]
    cases = [_layout_case(text, shape, rng) for text, shape in drawn]
    return json.loads(json.dumps({"layouts": cases, "accesses": [_access_case(rng) for _ in range(count)]}))


# ---------------------------------------------------------------- texts
def _split(rng: random.Random, n: int) -> list[int]:
    """Extents whose product is n."""
    parts = []
    while n > 1 and rng.random() < 0.7:
        f = rng.choice([d for d in range(2, n + 1) if n % d == 0])
        parts.append(f)
        n //= f
    parts.append(n)
    rng.shuffle(parts)
    return parts


def _spell(numbers: list[Any]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"({', '.join(map(str, numbers))})"


def _iters(rng: random.Random, letter: str, extents: list[int], axes: tuple[str, ...]) -> str:
    strides = [f"{rng.choice((0, 1, 2, 3, 4, 8, 16, 32, 64))}" for _ in extents]
    named = [s if (axis := rng.choice(axes)) == "m" else f"{s}@{axis}" for s in strides]
    return f"{letter}[{_spell(extents)}:{_spell(named)}]"


def _tile(rng: random.Random) -> Drawn:
    """Any strides on any axes, replicas and offsets, and a shape that may split it anew."""
    axes = rng.choice((("m",), ("m", *THREAD_AXES), ("laneid", "warpid", "m"), OTHER_AXES, ("TLane", "TCol")))
    size = rng.choice((1, 8, 24, 36, 60, 64, 128, 224))
    text = _iters(rng, "S", _split(rng, size), axes)
    if rng.random() < 0.3:
        text += f" + {_iters(rng, 'R', _split(rng, rng.choice((2, 3, 4, 6))), axes)}"
    if rng.random() < 0.3:
        text += f" + {rng.choice((1, 5, 16))}" + (f"@{axis}" if (axis := rng.choice(axes)) != "m" else "")
    shape = _split(rng, size) if rng.random() < 0.5 else None
    return text, [*shape, 2] if shape and rng.random() < 0.05 else shape  # some shapes do not fit


def _memory(rng: random.Random) -> Drawn:
    """A tile of rows and columns in shared memory: pitched, swizzled, row- or column-major."""
    rows, columns = rng.choice((8, 16, 32, 40, 64)), rng.choice((8, 16, 32, 33, 64, 128))
    pitch = columns + rng.choice((0, 0, 0, 1, 2, 4, 8))
    strides = (pitch, 1) if rng.random() < 0.7 else (1, rows)
    text = f"S[({rows}, {columns}):({strides[0]}, {strides[1]})]"
    if rng.random() < 0.6:
        bits = rng.randint(0, 3)
        inner = "" if rng.random() < 0.8 else ", inner=False"
        text = f"Swizzle({rng.randint(0, 4)}, {bits}, {rng.randint(max(0, bits - 1), 5)}{inner}) o {text}"
    elif rng.random() < 0.2:
        text += f" + {rng.choice((4, 8, 64))}"
    return text, None


def _bare_swizzle(rng: random.Random) -> Drawn:
    bits, shape = rng.randint(0, 3), rng.choice((None, [8, 64], [16, 32], [4, 4, 16]))
    if rng.random() < 0.2:
        return rng.choice(("row", "col", " row ")), shape
    if rng.random() < 0.3:
        return f"Swizzle<{bits},{rng.randint(0, 3)},{bits + rng.randint(0, 2)}>", shape
    return f"Swizzle({rng.randint(0, 3)}, {bits}, {bits + rng.randint(0, 2)})", shape


def _cute(rng: random.Random) -> Drawn:
    def tree(depth: int) -> tuple[str, str]:
        if depth == 0 or rng.random() < 0.5:
            return str(rng.choice((1, 2, 3, 4, 8))), str(rng.choice((0, 1, 2, 4, 8, 16, 64)))
        pairs = [tree(depth - 1) for _ in range(rng.randint(1, 3))]
        return f"({','.join(a for a, _ in pairs)})", f"({','.join(b for _, b in pairs)})"

    shape, stride = tree(2)
    text = shape if rng.random() < 0.2 else f"{shape}:{stride}"
    if rng.random() < 0.3:
        bits = rng.randint(1, 3)
        unit = rng.choice(("", "", " elements", " bytes"))
        between = rng.choice((" o ", " o 0 o ", " o 16 o "))
        sign = rng.choice(("", "-"))
        text = f"Sw<{bits},{rng.randint(0, 4)},{sign}{rng.randint(max(1, bits - 1), 4)}>{unit}{between}{text}"
    return text, None


def _padded(rng: random.Random) -> Drawn:
    shape = [rng.choice((4, 8, 16, 32)), rng.choice((8, 16, 32, 64))]
    intervals = rng.sample((4, 8, 32, 64, 128, 256), rng.randint(1, 2))
    pairs = [[n, rng.choice((1, 2, 4, 8))] for n in intervals]
    order = rng.choice(([1, 0], [0, 1]))
    if rng.random() < 0.7:
        ctas = rng.choice(("", "", ", [[1, 0]]", ", cga_layout=[[0, 0]]"))
        return f"PaddedSharedLayout.with_identity_for({pairs}, {shape}, {order}{ctas})", None
    bases = [[1 << k, 0] for k in range(shape[0].bit_length() - 1)] + [
        [0, 1 << k] for k in range(shape[1].bit_length() - 1)
    ]
    rng.shuffle(bases)
    return f"PaddedSharedLayout({pairs}, {bases}, [], {shape})", None


def _gluon(rng: random.Random) -> Drawn:
    power = lambda most: 1 << rng.randint(0, most)  # noqa: E731 - as short as its uses
    order = rng.choice(([1, 0], [0, 1]))
    ctas = rng.choice(("", "", "", ", [[1, 0]]", ", [[0, 1], [1, 0]]"))
    shape = [1 << rng.randint(2, 6), 1 << rng.randint(2, 7)]
    if rng.random() < 0.4:
        lanes = rng.choice(([8, 4], [4, 8], [32, 1], [1, 32], [2, 16]))
        blocked = f"[{power(2)}, {power(3)}], {lanes}, [{power(1)}, {power(2)}], {order}{ctas}"
        return f"BlockedLayout({blocked})", shape if rng.random() < 0.95 else None
    if rng.random() < 0.5:
        return f"SwizzledSharedLayout({power(3)}, {power(2)}, {power(3)}, {order}{ctas})", shape
    width, bits = rng.choice((0, 32, 64, 128)), rng.choice((8, 16, 32))
    transposed = rng.choice(("", ", transposed=True"))
    return f"NVMMASharedLayout({width}, {bits}, 2{transposed})", shape


def _linear(rng: random.Random) -> Drawn:
    names = rng.choice((("offset",), ("register", "lane"), ("register", "lane", "warp")))
    rank, used = rng.choice((1, 2)), {}
    for name in names:
        used[name] = [[rng.choice((0, 1, 2, 3, 4, 8)) for _ in range(rank)] for _ in range(rng.randint(1, 4))]
    shape = rng.choice(("", "", f", shape={[16] * rank}"))
    return f"LinearLayout({', '.join(f'{name}={bases}' for name, bases in used.items())}{shape})", None


def _invertible(rng: random.Random) -> Drawn:
    """Bases that hold every element: shuffled units, each XORed with some before it, and a few copies."""
    rows, columns = 1 << rng.randint(1, 3), 1 << rng.randint(2, 5)
    units = [[1 << k, 0] for k in range(rows.bit_length() - 1)] + [[0, 1 << k] for k in range(columns.bit_length() - 1)]
    rng.shuffle(units)
    for k in range(1, len(units)):
        if rng.random() < 0.5:
            other = rng.choice(units[:k])
            units[k] = [a ^ b for a, b in zip(units[k], other, strict=True)]
    if rng.random() < 0.3:
        return f"LinearLayout(offset={units})", None
    cut = rng.randint(0, len(units))
    copies = [[0, 0]] * rng.randint(0, 2)
    return f"LinearLayout(register={units[:cut]}, lane={units[cut:] + copies}, shape=[{rows}, {columns}])", None


def _wrong(rng: random.Random) -> Drawn:
    texts = (
        "S[(8, 2):(4@lanid, 1)]", "S[8", "S[(8, 2):(1)]", "Swizzle(3, 3)", "Swizzle(3, 3, 2) o S[8]", "(8,(2,4):1",
        "S[(8, 4):(1@laneid, 1)] + R[2]]", "(8,2):(1,2,3)", "Swizzle(1, 1, 1) o S[8:1@laneid]", "T[8]", "S[8:1] - 2",
    )  # fmt: skip
    return rng.choice(texts), None


FORMS: tuple[Callable[[random.Random], Drawn], ...] = (
    _tile, _tile, _tile, _memory, _memory, _memory, _bare_swizzle, _cute, _cute, _padded, _gluon, _linear, _invertible,
    _wrong,
)  # fmt: skip


# ---------------------------------------------------------------- answers
def _layout_case(text: str, shape: list[int] | None, rng: random.Random) -> dict[str, Any]:
    bits = rng.choice((8, 16, 16, 32, 64, 4))
    try:
        subject = drawing.read_subject(text, shape)
        size = prod(subject.shape)
        flats = {0, size - 1, *(rng.randrange(size) for _ in range(3))}
        coords = [[int(x) for x in _unflatten(flat, subject.shape)] for flat in sorted(flats)]
        found = [drawing.locate(subject, coord, bits)["places"] for coord in coords]
    except LayoutError:
        return {"text": text, "shape": shape, "bits": bits, "coords": [], "patterns": [], "answer": _REFUSED}
    places = [sorted(" ".join(f"{axis}={p[axis]}" for axis in sorted(p)) for p in copies) for copies in found]
    patterns = list(PATTERNS)
    answer = {"shape": list(subject.shape), "places": places, "patterns": [_count(subject, bits, p) for p in patterns]}
    return {"text": text, "shape": shape, "bits": bits, "coords": coords, "patterns": patterns, "answer": answer}


_REFUSED = {"error": "LayoutError"}


def _unflatten(flat: int, shape: tuple[int, ...]) -> list[int]:
    coord = []
    for n in reversed(shape):
        flat, x = divmod(flat, n)
        coord.append(x)
    return coord[::-1]


def _count(subject: drawing.Subject, bits: int, pattern: str) -> Any:
    """What Python counts over the whole tile, or that it refuses; no instruction at all is no count."""
    try:
        found = drawing.find_banks(subject, bits, "ldmatrix" if pattern.startswith("ldmatrix") else pattern)
    except LayoutError:
        return "LayoutError"
    except ValueError:
        return "RangeError"
    of = [i for i in found["instructions"] if pattern in (i["kind"], found["access"])]
    if not of:
        return {"count": 0, "least": None, "most": 0, "sum": 0, "floor": 0}
    one = of[0]
    return {"count": one["count"], **one["wavefronts"], "floor": one["floor"]}


def _access_case(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(("ld", "ld", "st", *access.MATRIX_ROWS))
    width = 16 if kind in access.MATRIX_ROWS else rng.choice(access.WIDTHS)
    stride, twist = rng.choice((0, 1, 2, 3, 8, 33)), rng.choice((0, 1, 2))
    offsets = [width * (((lane >> twist) * stride + rng.choice((0, 0, 1))) % 512) for lane in range(32)]
    if rng.random() < 0.3:
        offsets = [width * rng.randrange(256) for _ in range(32)]
    if rng.random() < 0.3 and kind in ("ld", "st"):
        offsets = [x if rng.random() < 0.7 else -1 for x in offsets]
    answer = {"wavefronts": access.wavefronts(kind, width, offsets), "phases": access.phases(kind, width, offsets)}
    answer["sectors"] = access.sectors(width, offsets)
    return {"kind": kind, "width": width, "offsets": offsets, "answer": answer}
