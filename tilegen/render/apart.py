"""What a launcher in C++ asks of where arrays lie: none that is written may share a byte with another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen.index import Formula, Index, add, evaluate, mul, to_c, variables
from tilegen.plan import Memory, pairs_apart

Check = tuple[str, str]  # a condition in C under which a launch is refused, and the error
_ERROR = "cudaErrorInvalidValue"


def check_apart(arrays: Sequence[Memory]) -> Iterator[Check]:
    """For every two arrays that may not share a byte, when they do.

    Ranges of bytes are compared, from an array's first element to its last. Two arrays with gaps between their rows may
    also lie in one another's gaps, as the halves of a matrix's columns do.

    >>> X = Memory("X", "float32", (8, 16), (16, 1), "global", "in")
    >>> Y = Memory("Y", "float32", (8, 16), (16, 1), "global", "out")
    >>> list(check_apart([X, Y]))
    [('TILEGEN_OVERLAP(Y, 512, X, 512)', 'cudaErrorInvalidValue')]
    >>> wide = [Memory(m.name, m.dtype, m.shape, (32, 1), m.space, m.access) for m in (X, Y)]
    >>> [condition for condition, _ in check_apart(wide)]
    ['TILEGEN_OVERLAP(Y, 960, X, 960) && !TILEGEN_INTERLEAVE(Y, 64, 128, X, 64, 128)']
    """
    for i, j in pairs_apart([m.access for m in arrays]):
        a, b = (arrays[j], arrays[i]) if arrays[j].access != "in" else (arrays[i], arrays[j])
        condition = f"TILEGEN_OVERLAP({a.name}, {_bytes(a, a.span)}, {b.name}, {_bytes(b, b.span)})"
        rows = [_find_rows(m) for m in (a, b)]
        if all(rows):
            said = ", ".join(", ".join([m.name, *r]) for m, r in zip((a, b), rows, strict=True))
            condition += f" && !TILEGEN_INTERLEAVE({said})"
        yield condition, _ERROR


def check_workspace(workspace: str, size: str, arrays: Sequence[Memory]) -> Iterator[Check]:
    """A workspace of ``size`` bytes (C) is written: when it shares a byte with an array."""
    for m in arrays:
        yield f"TILEGEN_OVERLAP({workspace}, {size}, {m.name}, {_bytes(m, m.span)})", _ERROR


def _bytes(memory: Memory, elems: Index) -> str:
    return to_c(mul(elems, memory.elem_bytes))


def _find_rows(memory: Memory) -> tuple[str, ...]:
    """Bytes of a row, and from row to row, of an array that may have gaps between rows; () for others.

    Elements of rows that are so far apart lie, modulo that, in the bytes of one row: of the least such distance.
    """
    for values in _try_sizes(memory):
        sized = sorted((int(evaluate(n, values)), d) for d, n in enumerate(memory.pitches) if memory.shape[d] != 1)
        reach = 1
        for pitch, d in sized:
            if pitch > reach:
                row = _span_within(memory, memory.pitches[d])
                return _bytes(memory, row), _bytes(memory, memory.pitches[d])
            reach += pitch * (int(evaluate(memory.shape[d], values)) - 1)
    return ()


def _try_sizes(memory: Memory) -> Iterator[dict[str, int]]:
    """Values of what the array's form names, in two orders: pitches that may be more than is needed are so in one."""
    named = {v.name: v for n in (*memory.shape, *memory.pitches) for v in variables(n)}
    for names in (list(named), list(reversed(named))):
        yield {name: named[name].least + named[name].step * (k + 2) for k, name in enumerate(names)}


def _span_within(memory: Memory, pitch: Index) -> Index:
    """Elements from the first to the last, without the dimensions that go on in whole ``pitch``."""
    last: Index = 0
    for extent, step in zip(memory.shape, memory.pitches, strict=True):
        if not _is_multiple(step, pitch):
            last = add(last, mul(add(extent, -1) if isinstance(extent, int) else extent - 1, step))
    return add(last, 1)


def _is_multiple(step: Index, pitch: Index) -> bool:
    if isinstance(step, int) and isinstance(pitch, int):
        return step % pitch == 0
    return step == pitch or (isinstance(step, Formula) and step.symbol == "*" and pitch in step.args)
