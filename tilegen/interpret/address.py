"""From a Ref to flat element offsets: the printed text evaluated, checked against the coordinates and the memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilegen.index import INT_LIMIT, Var, evaluate, to_c
from tilegen.interpret.fault import DISAGREE, MALFORMED, MISALIGNED, OUT_OF_BOUNDS, OVERFLOW, RANGE, REGISTER_INDEX
from tilegen.interpret.reading import MemoryPlace, Root, Text, read_address
from tilegen.interpret.site import Site
from tilegen.plan import Memory, Ref

ACCESS_BYTES = (1, 2, 4, 8, 16)  # what one load or store can move


def value_of(text: Text, site: Site) -> Any:
    """The value of a text over the role's axis. Its variables and dividends are checked for the group's threads."""
    frame, group = site.frame, site.group
    if not text.variables:
        return text.value
    for var in text.variables:
        known = frame.known.get(var.name)
        if known is not var and known != var:
            check_range(var, frame.env.get(var.name), site)
    value = evaluate(text.value, frame.env)
    for dividend, condition in text.dividends:
        part, counts = group.pick(evaluate(dividend, frame.env)), group.pick(evaluate(condition, frame.env))
        bad = np.logical_and(part < 0, counts)
        if np.any(bad):
            message = f"{to_c(dividend)} is {at(part, first(bad))}: what is divided must not be negative"
            site.fail(RANGE, message, first(bad))
    return value


def check_range(var: Var, value: Any, site: Site) -> None:
    """``least <= value < bound`` in steps of ``step``, for the group's threads: the C text was simplified by that."""
    if value is None:
        site.fail(MALFORMED, f"{var.name} is not defined here")
    value = site.group.pick(value)
    low, high = extremes(value)
    if var.least <= low and high < var.bound and (var.step == 1 or not np.any(value % var.step)):
        return
    bad = (value < var.least) | (value >= var.bound) | (value % var.step != 0)
    step = f" in steps of {var.step}" if var.step > 1 else ""
    thread = first(bad)
    site.fail(RANGE, f"{var.name} = {at(value, thread)} leaves [{var.least}, {var.bound}){step}", thread)


def check_int(text: Text, value: Any, site: Site) -> None:
    """A text without size_t or long long is computed in int."""
    low, high = (0, 0) if text.is_wide else extremes(value)
    if high >= INT_LIMIT or low < -INT_LIMIT:
        bad = (value >= INT_LIMIT) | (value < -INT_LIMIT)
        site.fail(OVERFLOW, f"{to_c(text.value)} = {at(value, first(bad))} overflows an int", first(bad))


def extremes(value: Any) -> tuple[int, int]:
    """The least and the greatest of the values of the threads."""
    return (int(value.min()), int(value.max())) if isinstance(value, np.ndarray) else (value, value)


def first(bad: Any) -> int:
    """The position of the first true entry."""
    return int(np.argmax(bad)) if isinstance(bad, np.ndarray) else 0


def at(value: Any, thread: int) -> int:
    """One thread's value."""
    return int(value[thread]) if isinstance(value, np.ndarray) else int(value)


# ---------------------------------------------------------------- finding
def find(ref: Ref, site: Site) -> MemoryPlace:
    """The root and place of a Ref, unchecked, over the role's axis."""
    place = site.frame.places.get(ref.memory.name)
    if place is None:
        site.fail(MALFORMED, f"memory {ref.memory.name} does not exist here")
    address = read_address(ref)
    if not place.is_formal and ref.memory is not place.root.memory:
        place = site.view(ref.memory)
    root = place.root
    if ref.memory.elem_bytes != root.memory.elem_bytes:
        have = f"{root.memory.name} ({root.memory.dtype})"
        site.fail(MALFORMED, f"{ref.memory.name} ({ref.memory.dtype}) stands for {have}: element sizes differ")
    if root.memory.traits.is_held and not address.names <= site.frame.constants:
        names = ", ".join(sorted(address.names - site.frame.constants))
        message = f"the index of register {ref.memory.name} uses {names}, which is no unrolled constant"
        site.fail(REGISTER_INDEX, f"{message}: the array would live in local memory")
    coordinates = tuple(value_of(c, site) for c in address.coordinates)
    if address.offset is None:
        own = coordinates[0]
        check_int(address.coordinates[0], site.group.pick(own), site)
    else:
        own = value_of(address.offset, site)
        check_int(address.offset, site.group.pick(own), site)
    same = ref.memory is root.memory or ref.memory.pitches == root.memory.pitches
    if place.coordinates is None or not same:
        return MemoryPlace(root, (place.flat + own,) if root.is_row else None, place.flat + own)
    both = tuple(a + b for a, b in zip(place.coordinates, coordinates, strict=True))
    return MemoryPlace(root, both, place.flat + own)


def locate(ref: Ref, elems: int, site: Site) -> tuple[Root, Any]:
    """(root, flat offset of each thread of the group) of an access of ``elems`` elements, every check passed."""
    place, group = find(ref, site), site.group
    root, flat = place.root.seen_by(group), group.pick(place.flat)
    coordinates = None if place.coordinates is None else tuple(group.pick(c) for c in place.coordinates)
    if coordinates is None:
        _check_extent(flat, root.span - elems + 1, f"offset of {root.memory.name}", root.span, elems, site)
    else:
        _check_coordinates(root, coordinates, flat, elems, site)
    if root.memory.traits.is_held:
        return root, flat
    _check_width(root.memory, flat, elems, site)
    return root, root.in_store(group.widen(flat))


def _check_coordinates(root: Root, coordinates: tuple[Any, ...], flat: Any, elems: int, site: Site) -> None:
    name, last = root.memory.name, elems if len(root.shape) == 1 else 1
    for d, (c, extent) in enumerate(zip(coordinates, root.shape, strict=True)):
        _check_extent(c, extent - last + 1, f"index {d} of {name}", extent, last, site)
    if root.is_row:
        if coordinates[0] is not flat and np.any(coordinates[0] != flat):
            _refuse_disagreement(name, coordinates[0], flat, site)
        return
    total = sum(c * p for c, p in zip(coordinates, root.pitches, strict=True))
    if np.any(total != flat):
        _refuse_disagreement(name, total, flat, site)
    if elems > 1:
        _check_vector(root, coordinates, flat, elems, site)


def _check_vector(root: Root, coordinates: tuple[Any, ...], flat: Any, elems: int, site: Site) -> None:
    """Every element of a vector is an element of the memory: it may run on into the next row only where rows touch."""
    each = zip(coordinates, root.shape, root.pitches, strict=True)
    if any(np.all(p == 1) and np.all(c + elems <= n) for c, n, p in each):
        return
    if not all(isinstance(n, int) for n in (*root.shape, *root.pitches)):
        site.fail(OUT_OF_BOUNDS, f"whether a vector of {root.memory.name} leaves its row is seen at one size only")
    rest = np.broadcast_to(flat, site.group.thread.shape)[:, None] + np.arange(elems)
    outside = np.zeros(rest.shape, bool)
    for pitch, extent in sorted(((p, n) for p, n in zip(root.pitches, root.shape, strict=True) if n > 1), reverse=True):
        c, rest = np.divmod(rest, pitch)
        outside |= c >= extent
    outside |= rest != 0
    if outside.any():
        thread = int(np.nonzero(outside)[0][0])
        message = f"{elems} elements of {root.memory.name} from offset {at(flat, thread)} leave their row"
        site.fail(OUT_OF_BOUNDS, message, thread)


def _refuse_disagreement(name: str, want: Any, flat: Any, site: Site) -> None:
    thread = first(want != flat)
    message = f"the offset of {name} prints as {at(flat, thread)}, but its coordinates lie at {at(want, thread)}"
    site.fail(DISAGREE, message, thread)


def _check_extent(c: Any, room: Any, what: str, extent: Any, elems: int, site: Site) -> None:
    low, high = extremes(c)
    if low >= 0 and (high < room if isinstance(room, int) else np.all(c < room)):
        return
    thread = first((c < 0) | (c >= room))
    more = f" .. {at(c, thread) + elems - 1}" if elems > 1 else ""
    site.fail(OUT_OF_BOUNDS, f"{what} is {at(c, thread)}{more}, outside [0, {at(extent, thread)})", thread)


def _check_width(memory: Memory, flat: Any, elems: int, site: Site) -> None:
    size = memory.elem_bytes
    width = elems * size
    if width not in ACCESS_BYTES:
        site.fail(MALFORMED, f"one access of {memory.name} moves {width} bytes; it can move 1, 2, 4, 8 or 16")
    check_start(memory, width, f"{width}-byte access", site)
    byte = flat * size + memory.offset_bytes
    off = byte % width
    if np.any(off):
        thread = first(off != 0)
        message = f"{width}-byte access of {memory.name} at byte {at(byte, thread)}: {at(off, thread)} bytes off"
        site.fail(MISALIGNED, message, thread)


def check_start(memory: Memory, width: int, what: str, site: Site) -> None:
    """A memory begins at a multiple of ``width`` bytes, wherever its text or a caller puts it."""
    if memory.align_bytes % width:
        site.fail(MISALIGNED, f"{what} of {memory.name}, which is aligned to {memory.align_bytes} bytes only")
