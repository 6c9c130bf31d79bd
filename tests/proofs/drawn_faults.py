"""Kernels drawn at random, and faults that few CTAs, trips or sizes show: what a proof of a few runs has to find too.

A kernel copies whole rows through shared memory or registers, in one or two loops, at up to two sizes. Rows that are
the same in most places are drawn on purpose: a plan that takes one for the other is right, but in a few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROWS = 640  # of X; those that are drawn end below
_ALONG_X = 60  # CTAs at most, where there are several along y
_FEW = 0.12  # of all places at most, where a step is taken

Points = Mapping[str, NDArray[np.int64]]  # the value of each name in every size, CTA and trip


# ---------------------------------------------------------------- expressions, as a spec writes them
def draw_term(r: Random, names: Sequence[str], depth: int) -> str:
    """A value that is never negative: sums, smaller and larger ones, remainders of remainders, choices."""
    x = r.choice(names)
    if depth == 0:
        return x if r.random() < 0.8 else str(r.randrange(6))
    a, b = draw_term(r, names, depth - 1), draw_term(r, names, depth - 1)
    n, k = r.randrange(1, 14), r.randint(2, 7)
    return r.choice([
        f"({a} + {b})", f"({a} * {k} + {b})", f"min({a}, {b})", f"max({a}, {n})", f"min({a}, {n})", f"({a}) // {k}",
        f"({a}) % {k}", f"({a} + {n}) % {n + k} % {k}", f"({a}) // {k} % {k}", f"({a}) * ({b})",
        f"where({draw_condition(r, names, 0)}, {a}, {b})", f"({a} + where({draw_condition(r, names, 0)}, {n}, 0))",
        f"({a} * {k}) // {k + 1}",
    ])  # fmt: skip


def draw_condition(r: Random, names: Sequence[str], depth: int) -> str:
    """A comparison, or two; with ``depth`` of what another one selects."""
    a, b, n = draw_term(r, names, depth), draw_term(r, names, 0), r.randrange(14)
    one = r.choice([
        f"({a} == {n})", f"({a} < {n})", f"({a} > {n})", f"({a} == {b})", f"({a} < {b})", f"({a} + {n} == {b})",
        f"({a} + {b} == {n})", f"({a} != {n})", f"({a} % {r.randint(2, 7)} == {n % 5})",
        f"({r.randint(2, 5)}*{b} == {a} + {n})",
    ])  # fmt: skip
    if depth > 0 and r.random() < 0.5:
        return f"({one} {r.choice(['and', 'and', 'or'])} {draw_condition(r, names, depth - 1)})"
    return one


def draw_step(r: Random, names: Sequence[str]) -> str:
    """0 in most places, as it is meant; with a comparison or without one."""
    a, n, k = draw_term(r, names, r.choice([0, 0, 1])), r.randrange(2, 30), r.choice([5, 7, 11, 13])
    x, y = r.choice(names), r.choice(names)
    return r.choice([
        f"where({draw_condition(r, names, r.choice([0, 1, 1]))}, {r.randint(1, 3)}, 0)", f"({a}) // {n}",
        f"(max({a}, {n}) - {n})", f"({a}) % {k} // {k - 1}", f"{x}*{y} % {k} // {k - 1}",
        f"({x} + {n})*{y} % {k} // {k - 1}", f"min(({a}) // {n}, 1)", f"({x} + {k}*{y} + {n}) % 17 // 16",
        f"where({draw_condition(r, names, 1)}, {x}, {x} + 1) - {x}", f"({a}) % {k * 2 + 1} % {k} // {k - 1}",
    ])  # fmt: skip


def evaluate_text(text: str, at: Mapping[str, Any]) -> Any:
    """The values of an expression; its comparisons stand in parentheses."""
    code = text.replace(" and ", " & ").replace(" or ", " | ").replace("not (", "~(")
    known = {"min": np.minimum, "max": np.maximum, "where": np.where, "ceil": lambda x: x}
    return eval(code, known, dict(at))  # of what is drawn here


def list_points(sizes: Mapping[str, int], axes: Sequence[tuple[str, str]]) -> Points:
    """Every size, and at each of them every CTA and trip: the values of each name."""
    grid = np.meshgrid(*(np.arange(1, most + 1) for most in sizes.values()), indexing="ij") if sizes else []
    at = {name: x.ravel() for name, x in zip(sizes, grid, strict=True)} or {"": np.zeros(1, np.int64)}
    for name, count in axes:
        each = np.maximum(np.broadcast_to(evaluate_text(count, at), next(iter(at.values())).shape), 0)
        start = np.repeat(np.cumsum(each) - each, each)
        at = {old: np.repeat(x, each) for old, x in at.items()}
        at[name] = np.arange(len(start)) - start
    return at


def draw_few(r: Random, names: Sequence[str], at: Points, most: float = _FEW) -> str:
    """A step that is 1 to 3 in few of the points, and 0 elsewhere."""
    for _ in range(40):
        text = draw_step(r, names)
        found = np.broadcast_to(evaluate_text(text, at), at[names[0]].shape)
        if found.min() == 0 and 0 < found.max() <= 3 and 0 < (found != 0).mean() <= most:
            return text
    k = r.randrange(len(at[names[0]]))
    few = " and ".join(f"({n} == {at[n][k]})" for n in r.sample(list(names), min(len(names), r.randint(1, 3))))
    return f"where({few}, 1, 0)"


# ---------------------------------------------------------------- kernels
@dataclass(frozen=True)
class Op:
    """A copy of a row of X to a place (``is_load``), or from a place to a row of Y, and a sync where ``sync`` holds.

    ``place``: a slot of A, or "" for registers. ``is_own``: the row that is loaded is one of Y, perhaps written before.
    ``cta``: whose rows of Y they are, as a number; "" for the CTA's own.
    """

    is_load: bool
    row: str
    place: str
    when: str = ""
    sync: str = ""
    is_own: bool = False
    cta: str = ""


@dataclass(frozen=True)
class Segment:
    """Ops inside of loops, the outermost first, each with its count."""

    loops: tuple[tuple[str, str], ...]
    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Kernel:
    """``sizes``: how large each may be, from 1 on. ``rows``: how many of Y a CTA has, of ``ctas`` at most."""

    sizes: Mapping[str, int]
    default: Mapping[str, int]
    grid: tuple[tuple[str, str], ...]
    slots: int
    segments: tuple[Segment, ...]
    rows: int
    ctas: int

    def names(self, s: Segment, depth: int | None = None) -> list[str]:
        """What an expression of a segment may name, within so many of its loops."""
        return [*self.sizes, *(axis for axis, _ in self.grid), *(name for name, _ in s.loops[:depth])]

    def points(self, s: Segment, depth: int | None = None) -> Points:
        return list_points(self.sizes, [*self.grid, *s.loops[:depth]])

    def number(self, bx: str = "bx") -> str:
        """Which CTA of all it is."""
        return f"(by*{_ALONG_X} + {bx})" if len(self.grid) > 1 else bx

    def write(self) -> str:
        """Its spec."""
        params = ", ".join(f"{n}: {{default: {self.default[n]}, max: {most}}}" for n, most in self.sizes.items())
        ops = [op for s in self.segments for op in s.ops]
        lines = ["kernel: drawn", "threads: 32", *([f"params: {{{params}}}"] if params else [])]
        grid = ", ".join(f'{axis}: "{count}"' for axis, count in self.grid)
        lines += [f"grid: {{{grid}}}", "buffers:"]
        shapes = f"[{ROWS}, 128]}}", f"[{self.ctas * self.rows}, 128], partial: true}}"
        lines += [
            f"  {name}: {{scope: global, dtype: float32, shape: {x}" for name, x in zip("XY", shapes, strict=True)
        ]
        if any(op.place for op in ops):
            lines.append(f"  A: {{scope: shared, dtype: float32, shape: [{self.slots}, 128]}}")
        if not all(op.place for op in ops):
            lines.append("  q: {scope: register, dtype: float32, shape: [128], layout: auto}")
        lines.append("ops:")
        for s in self.segments:
            indent = "  "
            for name, count in s.loops:
                lines += [f'{indent}- for: {{{name}: "{count}"}}', f"{indent}  do:"]
                indent += "    "
            lines += [f"{indent}{line}" for op in s.ops for line in self._lines_of(op)]
        return "\n".join(lines) + "\n"

    def _lines_of(self, op: Op) -> list[str]:
        place = f"A[{op.place}]" if op.place else "q"
        own = f"Y[{op.cta or self.number()}*{self.rows} + {op.row}]"
        src, dst = (own if op.is_own else f"X[{op.row}]", place) if op.is_load else (place, own)
        when, met = (f', when: "{op.when}"' if op.when else ""), ([f'  when: "{op.sync}"'] if op.sync else [])
        return [f'- copy: {{src: "{src}", dst: "{dst}"{when}}}', "- sync: cta", *met]


# How many CTAs along x, how many trips a loop makes, and how many rows of Y a store in it writes at most.
_WAYS: dict[str, tuple[list[str], list[str], int]] = {
    "small": (["5", "12", "30", "50"], ["1", "3", "4", "7", "20", "bx % 3 + 1", "min(bx + 1, 6)", "bx // 2"], 26),
    "wide": (["70", "100", "130", "300"], ["1", "2", "3", "bx % 3"], 4),
    "long": (["1", "2", "3", "9"], ["34", "50", "67", "100", "40 + bx", "where(bx == 0, 51, 50)"], 104),
    "sized": (["2", "4", "9"], ["1", "3", "7", "min(bx + 1, 6)"], 26),
}
_SHAPES = ["flat", "loop", "loop", "nest", "two", "loop and flat", "flat and loop"]


def draw_kernel(r: Random) -> tuple[Kernel, list[str]]:
    """A right kernel, with the steps that its rows take."""
    sizes: dict[str, int] = r.choice([{}, {}, {"N": r.choice([12, 24, 40])}, {"N": r.choice([9, 12, 20]), "M": 6}])
    ctas, counts, each = _WAYS["sized" if sizes else r.choice(["small", "small", "wide", "long"])]
    if sizes:
        counts = [*counts, *(x for n in sizes for x in (f"min({n}, 6)", f"{n} % 4 + 1", f"min({n}, bx + 1)"))]
    bx = r.choice(
        [x for n in sizes for x in (n, f"{n} + 3", f"({n} + 1) // 2")] if sizes and r.random() < 0.4 else ctas
    )
    grid = (("bx", bx), *([("by", r.choice("234"))] if each == 26 and r.random() < 0.25 else []))
    count, again = r.choice(counts), r.choice(["2", "3"])
    outer = r.choice(["2", "3", "bx % 2 + 1", *(f"min({n}, 3)" for n in sizes)])
    shape, slots = r.choice(_SHAPES), r.choice([1, 1, 2, 3, 4])
    loops: list[tuple[tuple[str, str], ...]] = {
        "flat": [()], "loop": [(("t", count),)], "nest": [(("o", outer), ("t", count))],
        "two": [(("t", count),), (("s", again),)],
        "loop and flat": [(("t", count),), ()], "flat and loop": [(), (("t", count),)],
    }[shape]  # fmt: skip
    kernel = Kernel(sizes, {n: r.randint(1, most) for n, most in sizes.items()}, grid, slots, (), 0, 0)
    segments, steps, bases, stores = [], list[str](), list[str](), 0
    for around in loops:
        s = Segment(around, ())
        names, at = kernel.names(s), kernel.points(s)
        trip, turns = (around[-1][0], f"o*{each} + " if len(around) > 1 else "") if around else ("0", "")
        for _ in range(r.choice([1, 2, 2, 3])):
            row = base = _draw_base(r, names, bases)
            bases.append(base)
            if r.random() < 0.7:
                steps.append(draw_few(r, names, at))
                row = f"{base} + {steps[-1]}"
            place = r.choice(["0", f"{trip} % {slots}", f"({trip} + {r.randrange(3)}) % {slots}", f"bx % {slots}"])
            store = Op(False, f"{stores * each} + {turns}{trip}", "" if r.random() < 0.2 else place)
            load = replace(store, is_load=True, row=row)
            if r.random() < 0.08:
                load = replace(load, row=store.row + row[len(base) :], is_own=True)
            s = replace(s, ops=(*s.ops, load, store))
            stores += 3 if turns else 1
        if r.random() < 0.15:  # all loads first
            s = replace(s, ops=tuple(sorted(s.ops, key=lambda op: not op.is_load)))
        segments.append(s)
    if r.random() < 0.75:  # a load that is left out leaves other data
        early = r.choice(["0", "3", "bx % 3", *(base for base in bases if not re.search(r"\b[ots]\b", base))])
        places = dict.fromkeys([*map(str, range(slots)), *(op.place for s in segments for op in s.ops if not op.place)])
        segments.insert(0, Segment((), tuple(Op(True, early, place) for place in places)))
    most = _ALONG_X * 4 if len(grid) > 1 else int(bx) if bx.isdigit() else 46
    return replace(kernel, segments=tuple(segments), rows=stores * each + 8, ctas=most), steps


def _draw_base(r: Random, names: Sequence[str], before: Sequence[str]) -> str:
    """A row: often one that another load has."""
    known = [row for row in before if set(re.findall(r"\b[ots]\b", row)) <= {*names}]
    if known and r.random() < 0.6:
        return r.choice(known)
    x, y = r.choice(names), r.choice(names)
    return r.choice([
        "0", "3", x, f"({x} + {y})", f"({x}) // {r.randint(2, 5)}", f"({x} + {y}) // 3", f"{x} % 3", f"min({x}, 4)",
    ])  # fmt: skip


# ---------------------------------------------------------------- faults
class Drawn(NamedTuple):
    """Two specs, the meant and the planned one, with names of the kernel's form and of the fault."""

    meant: str
    planned: str
    kind: str
    fault: str


def draw(r: Random) -> Drawn | None:
    """A kernel, and the same with a fault; None where no CTA does anything, or nothing was done."""
    kernel, steps = draw_kernel(r)
    where = r.choice([k for k, s in enumerate(kernel.segments) if not all(op.is_load for op in s.ops)])
    s = kernel.segments[where]
    names, at = kernel.names(s), kernel.points(s)
    if not len(at[names[0]]):
        return None
    fault = r.choice([*_FAULTS])
    known = [step for step in steps if {*re.findall(r"\b(?:[otsNM]|b[xy])\b", step)} <= {*names}]
    step = r.choice(known) if known and r.random() < 0.3 else draw_few(r, names, at)
    changed = _FAULTS[fault](r, kernel, s, f"({step})")
    planned = replace(kernel, segments=(*kernel.segments[:where], *changed, *kernel.segments[where + 1 :]))
    kind = " ".join("".join(name for name, _ in s.loops) or "-" for s in kernel.segments)
    drawn = Drawn(kernel.write(), planned.write(), f"{kind} {''.join(kernel.sizes)}", fault)
    return drawn if drawn.meant != drawn.planned else None


Fault = Callable[[Random, Kernel, Segment, str], Sequence[Segment]]
_FAULTS: dict[str, Fault] = {}


def fault(make: Fault) -> Fault:
    _FAULTS[make.__name__.strip("_").replace("_", " ")] = make
    return make


def _pick(r: Random, s: Segment, is_load: bool) -> int:
    """One op; seldom the first of all loads, which nobody can leave out."""
    found = [k for k, op in enumerate(s.ops) if op.is_load == is_load]
    return found[-1] if len(found) > 1 and r.random() < 0.7 else r.choice(found)


def _with(s: Segment, k: int, *ops: Op) -> list[Segment]:
    return [replace(s, ops=(*s.ops[:k], *ops, *s.ops[k + 1 :]))]


@fault
def _load_left_out(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    k = _pick(r, s, True)
    return _with(s, k)


@fault
def _load_left_out_where(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    """In few places, or in all but a few: there what was loaded before may be the same."""
    k = _pick(r, s, True)
    trip = s.loops[-1][0] if s.loops else ""
    whens = [f"{step} == 0", f"{step} > 0"]
    if trip:
        whens += [f"{trip} == 0", f"{trip} > 0", f"{trip} % 2 == 0", f"{trip} < {kernel.slots}"] * 2
    if len(s.loops) > 1:
        whens += ["o == 0", "o == 0 or t > 0", "o > 0 or t == 0"] * 2
    return _with(s, k, replace(s.ops[k], when=r.choice(whens)))


@fault
def _load_elsewhere(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    k = _pick(r, s, True)
    return _with(s, k, replace(s.ops[k], row=f"{s.ops[k].row} + {step}"))


@fault
def _load_without_step(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    k = _pick(r, s, True)
    return _with(s, k, replace(s.ops[k], row=_base_of(s.ops[k].row)))


def _base_of(row: str) -> str:
    """The row without the step that was drawn for it."""
    depth = 0
    for k, c in enumerate(row):
        depth += (c == "(") - (c == ")")
        if depth == 0 and row[k : k + 3] == " + ":
            return row[:k]
    return row


@fault
def _load_of_another(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    """The row of another op."""
    loads = [k for k, op in enumerate(s.ops) if op.is_load]
    k, other = r.choice(loads), r.choice(loads)
    return _with(s, k, replace(s.ops[k], row=s.ops[other].row))


@fault
def _another_slot(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    k = r.randrange(len(s.ops))
    op = s.ops[k]
    place = op.place and f"({op.place} + {step}) % {kernel.slots}"
    if s.loops and r.random() < 0.4 and op.place:
        trip = s.loops[-1][0]
        place = f"where({trip} == 0, {op.place}, ({op.place} + {kernel.slots - 1}) % {kernel.slots})"
    return _with(s, k, replace(op, place=place))


@fault
def _store_left_out_where(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    k = _pick(r, s, False)
    return _with(s, k, replace(s.ops[k], when=f"{step} == 0"))


@fault
def _writers_exchanged(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    """Two CTAs write one another's rows, with or without one another's loads."""
    a, b = r.sample(range(5), 2)
    other = f"where(bx == {a}, {b}, where(bx == {b}, {a}, bx))"
    k = _pick(r, s, False)
    return _with(s, k, replace(s.ops[k], cta=kernel.number(r.choice([other, f"max(bx - {step}, 0)"]))))


@fault
def _store_elsewhere(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    k = _pick(r, s, False)
    return _with(s, k, replace(s.ops[k], row=f"{s.ops[k].row} + {step}"))


@fault
def _sync_left_out_where(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    k = r.randrange(len(s.ops))
    return _with(s, k, replace(s.ops[k], sync=f"{step} == 0"))


@fault
def _trips_other(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    """A trip more or fewer in few CTAs or sizes; or the last left out."""
    if not s.loops:
        return _load_left_out(r, kernel, s, step)
    d = r.randrange(len(s.loops))
    few = draw_few(r, kernel.names(s, d), kernel.points(s, d), 0.3)
    name, count = s.loops[d]
    count = r.choice([f"({count}) + {few}", f"max(({count}) - ({few}), 0)", f"({count}) - where(({count}) > 1, 1, 0)"])
    return [replace(s, loops=(*s.loops[:d], (name, count), *s.loops[d + 1 :]))]


@fault
def _load_before_the_loop(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    """What the first trip needs, or what is needed from the start of the inner loop on."""
    if not s.loops:
        return _load_left_out(r, kernel, s, step)
    k = _pick(r, s, True)
    name, _ = s.loops[-1]
    first = replace(s.ops[k], row=_at(s.ops[k].row, name, "0"), place=_at(s.ops[k].place, name, "0"))
    if len(s.loops) > 1:
        first = replace(first, row=_at(first.row, "o", "0"), place=_at(first.place, "o", "0"))
    return [Segment((), (first,)), *_with(s, k)]


def _at(text: str, name: str, value: str) -> str:
    return re.sub(rf"\b{name}\b", value, text)


@fault
def _ops_exchanged(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    """Two loads, or two stores, change places."""
    is_load = r.random() < 0.5
    found = [k for k, op in enumerate(s.ops) if op.is_load == is_load]
    a, b = (found[0], found[-1])
    ops = list(s.ops)
    ops[a], ops[b] = ops[b], ops[a]
    return [replace(s, ops=tuple(ops))]


@fault
def _two_faults(r: Random, kernel: Kernel, s: Segment, step: str) -> Sequence[Segment]:
    """A load with a fault, and a store with another."""
    (one,) = _load_without_step(r, kernel, s, step)
    (two,) = r.choice([_another_slot, _store_left_out_where, _load_left_out_where])(r, kernel, one, step)
    return [two]
