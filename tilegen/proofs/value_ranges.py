"""The range of every integer that a kernel computes, by interval arithmetic over the ops that write it.

Statements are followed in order: what an op makes of ranges its row says (``Op.ranges``). An op that writes all of a
buffer forgets what that held; one that writes a part, or under a condition, adds to it. A loop is followed until
nothing is added, at most as often as it has trips; after 16 of them an end that still moves becomes that of the type.
Arrays of the grid, and shared memory of roles that run side by side, hold whatever any op writes, in any order.

Elements that nothing has written have no range: a run that reads them is refused (TG404). ``values`` of
a buffer that ops write is taken for what it holds, and every write is shown to keep it: so it may be what a loop keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilegen.arithmetic.intervals import (
    ValueRange,
    apply_to_ranges,
    has_range,
    is_within,
    join_ranges,
    range_of_type,
)
from tilegen.errors import Diagnostic, Mark
from tilegen.index import bound
from tilegen.kept import keep
from tilegen.ops import OPS
from tilegen.ops.op import MOVES
from tilegen.spec.data import Buffer, Call, Loop, Nest, Region, RoleBlock, Spec, Statement, WhenStatement
from tilegen.spec.outline import outline, written_roots
from tilegen.spec.pads import is_clipped, pad_of
from tilegen.spec.phases import trips_of
from tilegen.spec.program import Program

_PLAIN_TRIPS = 16  # of a loop; then ends that move are those of the type
_Held = dict[str, ValueRange]  # by root, what a buffer may hold; nothing of one that no op has written yet

OUT_OF_VALUES = "TG442"


@dataclass(frozen=True)
class MeasuredCall:
    """A call of a spec with the ranges of the integers that it reads, pads among them, and writes, by field."""

    call: Call
    read: Mapping[str, ValueRange]
    written: Mapping[str, ValueRange]


def find_value_ranges(spec: Spec | Program, given: Mapping[str, ValueRange] | None = None) -> dict[str, ValueRange]:
    """The range of every integer buffer, by the name of its root: of all that is ever written there.

    Of a program: of its arrays and workspaces. ``given``: of what passes before have written. Sound for all contents
    within ``values``; what nothing is known of has the range of its dtype.

    >>> from tilegen.ops import ALL_OPS
    >>> from tilegen.spec import load
    >>> spec = load({
    ...     "kernel": "clamp", "threads": 32, "buffers": {
    ...         "X": {"scope": "global", "dtype": "int32", "shape": [64]},
    ...         "Y": {"scope": "global", "dtype": "int32", "shape": [64]},
    ...     }, "ops": [{"elementwise": {"dst": "Y", "expr": "min(max(X, 0), 9)"}}],
    ... }, ALL_OPS)
    >>> print(find_value_ranges(spec)["Y"])
    0 : 10
    """
    if isinstance(spec, Spec):
        return _measure(spec, tuple((given or {}).items())).held
    known, found = dict(given or {}), dict[str, ValueRange]()
    for one in spec.passes:
        own = find_value_ranges(one.spec, known)
        for name in written_roots(one.spec) & own.keys():
            buffer = one.spec.buffer(name)
            if buffer.traits.is_array:
                found[name] = _join(found.get(name), own[name])
                known[name] = found[name] if buffer.traits.is_brought else range_of_type(buffer.dtype)
    rest = [b for b in spec.buffers if b.root == b.name and b.name not in found and has_range(b.dtype)]
    return found | {b.name: _promised(b) or range_of_type(b.dtype) for b in rest}


def measure_calls(spec: Spec, given: Mapping[str, ValueRange] | None = None) -> tuple[MeasuredCall, ...]:
    """Every call of a spec, by its number, with the ranges of what it reads there and writes.

    These may be narrower than ``find_value_ranges``, which is of all that a buffer ever holds.
    """
    return _measure(spec, tuple((given or {}).items())).calls


@dataclass(frozen=True)
class _Measured:
    held: _Held
    calls: tuple[MeasuredCall, ...]


@keep
def _measure(spec: Spec, given: tuple[tuple[str, ValueRange], ...]) -> _Measured:
    walk = _Walk(spec, dict(given))
    return walk.measure()


def _promised(buffer: Buffer) -> ValueRange | None:
    """What ``values`` says of integers."""
    promise = buffer.values
    return None if promise is None or not has_range(buffer.dtype) else ValueRange(*promise.places)


@dataclass
class _Walk:
    """Follows the statements of a spec.

    ``common``: what is the same for all and in no order, grown until a walk adds nothing. ``ever``: all that each root
    has held; ``calls``: by number, ranges of what it reads and writes.
    """

    spec: Spec
    given: Mapping[str, ValueRange]
    common: _Held = field(default_factory=dict)
    ever: _Held = field(default_factory=dict)
    calls: dict[int, tuple[_Held, _Held]] = field(default_factory=dict)

    def measure(self) -> _Measured:
        for turn in range(1 << 10):
            before = dict(self.common)
            self.ever, self.calls = {}, {}
            self.follow(self.spec.ops, {})
            if self.common == before:
                break
            if turn >= _PLAIN_TRIPS:
                self.common = {name: self.widen(name, before.get(name), own) for name, own in self.common.items()}
        numbered = outline(self.spec).calls
        calls = tuple(MeasuredCall(c, *self.calls.get(k, ({}, {}))) for k, c in enumerate(numbered))
        roots = [b for b in self.spec.buffers if b.root == b.name and has_range(b.dtype)]
        return _Measured({b.name: self.find_ever(b) for b in roots}, calls)

    def find_ever(self, root: Buffer) -> ValueRange:
        """All that is ever written to a root, by passes before too; of one that is only read what it holds."""
        if root.name in _mixed_roots(self.spec) or root.name not in self.ever:
            return self.find_fixed(root) or range_of_type(root.dtype)
        return _join(self.given.get(root.name) if root.traits.is_brought else None, self.ever[root.name])

    # ------------------------------------------------------------ what buffers hold
    def find_fixed(self, root: Buffer) -> ValueRange | None:
        """What a root holds whatever the ops write: its ``values``, or nobody knows what."""
        whole = range_of_type(root.dtype)
        if (said := _promised(root)) is not None:
            return said
        if root.name in _mixed_roots(self.spec):
            return whole
        if root.name not in written_roots(self.spec):
            return self.given.get(root.name, whole)
        is_callers = root.traits.is_callers or (root.traits.is_array and not root.is_unwritten)
        return whole if is_callers and root.name not in self.given else None

    def is_common(self, root: Buffer) -> bool:
        """May others write a root while a CTA, or a role of it, reads?"""
        return root.traits.is_array or bool(self.spec.roles)

    def read(self, region: Region, state: _Held) -> ValueRange | None:
        """What a region holds: None of floats, and of what nothing has been written to so far."""
        root = self.spec.buffer(region.buffer.root)
        if region.buffer.dtype != root.dtype:
            return range_of_type(region.buffer.dtype)
        if (known := self.find_fixed(root)) is not None:
            return known
        parts = [x for x in (state.get(root.name), self.common.get(root.name)) if x is not None]
        if root.traits.is_array and root.name in self.given:
            parts.append(self.given[root.name])
        return join_ranges(parts) if parts else None

    def write(self, call: Call, region: Region, own: ValueRange, state: _Held) -> None:
        root = self.spec.buffer(region.buffer.root)
        self.ever[root.name] = _join(self.ever.get(root.name), own)
        if self.is_common(root):
            self.common[root.name] = _join(self.common.get(root.name), own)
        else:
            is_some = call.when is not True or call.accumulates or call.stores_by_index
            is_all = not is_some and region.lengths == region.buffer.shape == root.shape
            state[root.name] = own if is_all else _join(state.get(root.name), own)

    def update(self, call: Call, region: Region, own: ValueRange, state: _Held) -> ValueRange:
        """The range of a region after a call: of what is written, or of the update of what it held."""
        if not call.accumulates:
            return own
        before, whole = self.read(region, state), range_of_type(region.buffer.dtype)
        if before is None or call.accumulates == "add":  # each as often as there are elements
            return whole
        if call.accumulates in ("min", "max"):
            return join_ranges([before, own])
        symbol = {"and": "&", "or": "|", "xor": "^"}[call.accumulates]
        reach = apply_to_ranges(symbol, [before, own], region.buffer.dtype)
        return join_ranges([before, reach]) if min(before.numbers[0], own.numbers[0]) >= 0 else whole

    def widen(self, name: str, before: ValueRange | None, now: ValueRange) -> ValueRange:
        """``now``, with the ends that moved as far as they go."""
        whole = range_of_type(self.spec.buffer(name).dtype)
        if before is None:
            return now
        low = now.low if now.low == before.low else whole.low
        return ValueRange(low, now.high if now.high == before.high else whole.high)

    # ------------------------------------------------------------ statements
    def follow(self, statements: Sequence[Statement], state: _Held) -> None:
        """Carry out statements on what buffers hold."""
        for s in statements:
            if isinstance(s, Call):
                self.call(s, state)
            elif isinstance(s, Loop):
                self.repeat(s, state)
            elif isinstance(s, WhenStatement | RoleBlock):
                inside = dict(state)
                self.follow(s.body, inside)
                _join_into(state, inside)
            elif isinstance(s, Nest):
                raise TypeError(f"proofs/value_ranges.py does not know {type(s).__name__}")

    def repeat(self, loop: Loop, state: _Held) -> None:
        """The trips of a loop, until one adds nothing. At most so many are told apart as it has."""
        most = bound(trips_of(loop)) - 1
        for trip in range(most):
            before, inside = dict(state), dict(state)
            self.follow(loop.body, inside)
            _join_into(state, inside)
            if state == before:
                return
            if trip >= _PLAIN_TRIPS:
                state |= {name: self.widen(name, before.get(name), own) for name, own in state.items()}

    def call(self, call: Call, state: _Held) -> None:
        if not call.form.index and not any(has_range(region.buffer.dtype) for region in call.written):
            return
        number = outline(self.spec).number_of(call)
        read: dict[str, ValueRange | None] = {}
        for name in call.fields_read:
            region = call.regions[name]
            if has_range(region.buffer.dtype):
                own = self.read(region, state)
                if own is None:
                    return  # nothing has been written there: a later trip may
                read[name] = _pad(call, region, own)
            else:
                read[name] = None
        found = dict(_find_written(call, read, frozenset(p.name for p in self.spec.params)))
        for name in call.fields_written:
            region = call.regions[name]
            if has_range(region.buffer.dtype):
                whole = range_of_type(region.buffer.dtype)
                found[name] = own = self.update(call, region, found.get(name, whole), state)
                self.write(call, region, own, state)
        all_read, all_written = self.calls.setdefault(number, ({}, {}))
        _join_into(all_read, {name: own for name, own in read.items() if own is not None})
        _join_into(all_written, found)


def _find_written(
    call: Call, read: Mapping[str, ValueRange | None], params: frozenset[str]
) -> Mapping[str, ValueRange]:
    """The ranges that an op gives to what it writes."""
    row = OPS[call.op]
    if row.ranges is not None:
        return row.ranges(call, read, params)
    own = [x for x in read.values() if x is not None]
    return dict.fromkeys(call.fields_written, join_ranges(own)) if row.exactness_of(call) == MOVES and own else {}


def _pad(call: Call, region: Region, own: ValueRange) -> ValueRange:
    if not (region.buffer.traits.is_array and is_clipped(call)):
        return own
    pad = int(pad_of(call))
    return join_ranges([own, ValueRange(pad, pad + 1)])


def _join(one: ValueRange | None, other: ValueRange) -> ValueRange:
    return other if one is None or one == other else join_ranges([one, other])


def _join_into(state: _Held, other: Mapping[str, ValueRange]) -> None:
    for name, own in other.items():
        state[name] = _join(state.get(name), own)


@keep
def _mixed_roots(spec: Spec) -> frozenset[str]:
    """The roots to whose bytes something is written as another type."""
    regions = (r for call in outline(spec).calls for r in call.written)
    return frozenset(r.buffer.root for r in regions if r.buffer.dtype != spec.buffer(r.buffer.root).dtype)


# ---------------------------------------------------------------- values that are claimed of what ops write
def check_claimed_values(spec: Spec) -> tuple[Diagnostic, ...]:
    """TG442 for each write of a buffer with ``values`` that may be of another value."""
    found = []
    for one in measure_calls(spec):
        for name, own in one.written.items():
            region = one.call.regions[name]
            root = spec.buffer(region.buffer.root)
            said = _promised(root)
            is_own = root.name in written_roots(spec) and region.buffer.dtype == root.dtype
            if said is not None and not (is_own and is_within(own, said)):
                found.append(_say_beyond(one, root, own, said, region))
    return tuple(dict.fromkeys(found))


def _say_beyond(one: MeasuredCall, root: Buffer, own: ValueRange, said: ValueRange, region: Region) -> Diagnostic:
    message = f"'{root.name}' holds values {said}, and this {one.call.op} writes {own}"
    return Diagnostic(OUT_OF_VALUES, message, _mark_of(one.call), _propose(one, root, said))


def _mark_of(call: Call) -> Mark | None:
    """Where a call says what it writes."""
    known = ("expr", "value", "src")
    return next((call.mark_of(name) for name in known if name in call.nodes), call.mark)


def _propose(one: MeasuredCall, root: Buffer, said: ValueRange) -> str:
    """The nearest repair: a clamp, or a range of what is read."""
    low, top = said.ends
    clamp = f"'max({low}, min(.., {top}))'"
    rest = f", or '.. % {said.high}' of what is not negative" if low == 0 else ""
    unknown = dict.fromkeys(_list_unknown(one))
    ranges = f"; or say 'values' of '{next(iter(unknown))}'" if unknown else ""
    word = "write" if one.call.expression is not None else "write it by elementwise, as"
    return f"{word} {clamp}{rest}{ranges}"


def _list_unknown(one: MeasuredCall) -> Iterator[str]:
    """The buffers that a call reads of which only the type is known."""
    for name, own in one.read.items():
        buffer = one.call.regions[name].buffer
        if own == range_of_type(buffer.dtype):
            yield buffer.root
