"""Named axes, iters that walk along one each, and integers that may be known at run time only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tilegen.errors import LayoutError
from tilegen.index import Formula, Index, Var, count_operators, div, mod, mul, multiple, terms, xor
from tilegen.near_words import find_near
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, OP_SCOPES, SCOPES, THREAD_AXES

# The threads in one of each scope that has a fixed number.
THREADS_IN = {name: SCOPES[name].threads for name in OP_SCOPES if SCOPES[name].threads}


@dataclass(frozen=True)
class Axis:
    """A named coordinate. A thread axis counts ``sub`` (thread, warp, ...) inside ``scope``; others have neither.

    >>> AXES["wid_in_wg"]
    Axis(name='wid_in_wg', kind='thread', scope='warpgroup', sub='warp')
    """

    name: str
    kind: str  # grid | cluster | thread | memory
    scope: str = ""
    sub: str = ""


def _scope_of(threads: int) -> str:
    return next((name for name, n in THREADS_IN.items() if n == threads), "cta")


_TABLE = (
    *(Axis(name, "grid") for name in CTA_AXES),
    *(Axis(name, "cluster") for name in CLUSTER_AXES),
    *(Axis(axis.name, "thread", _scope_of(axis.span), _scope_of(axis.unit)) for axis in THREAD_AXES.values()),
    *(Axis(name, "memory") for name in ("m", "P", "F", "Bank", "TLane", "TCol")),
)
AXES = {axis.name: axis for axis in _TABLE}
AXIS_ORDER = {name: position for position, name in enumerate(AXES)}


def require_axis(name: str) -> Axis:
    """The axis of that name.

    Raises LayoutError (TG104) with the nearest name when there is none.

    >>> require_axis("laneid").scope
    'warp'
    """
    if axis := AXES.get(name):
        return axis
    near = find_near(name, AXES) or find_near(name.lower().replace("_", ""), AXES)
    hint = f"did you mean '{near}'?" if near else f"axes are {' '.join(AXES)}"
    raise LayoutError(f"there is no axis '{name}'", hint=hint, code="TG104")


# ---------------------------------------------------------------- iters
@dataclass(frozen=True)
class Iter:
    """``extent`` positions on ``axis``, ``stride`` apart: component c adds c * stride.

    ``extent`` and ``stride`` are ints, or Index for what is known at run time only. ``stride`` counts elements on a
    memory axis and lanes, warps, ... on a thread axis. Raises LayoutError for extents < 1 and negative strides.

    >>> print(Iter(8, 4, "laneid"))
    8:4@laneid
    """

    extent: Index
    stride: Index
    axis: str = "m"

    def __post_init__(self) -> None:
        require_axis(self.axis)
        object.__setattr__(self, "extent", require_index(self.extent, "an extent", 1))
        object.__setattr__(self, "stride", require_index(self.stride, "a stride", 0))

    def __str__(self) -> str:
        return f"{spell(self.extent)}:{spell_at(self.stride, self.axis)}"


Iters = tuple[Iter, ...]


# ---------------------------------------------------------------- integers
def is_symbolic(x: Any) -> bool:
    """Whether ``x`` is an expression over variables.

    >>> is_symbolic(Var("M", 9)), is_symbolic(8)
    (True, False)
    """
    return isinstance(x, (Var, Formula))


def require_index(x: Any, what: str, at_least: int) -> Index:
    """``x`` as an int or Index that is not below ``at_least``.

    Raises LayoutError when it is neither, or is too small.

    >>> require_index(np.int64(8), "an extent", 1)
    8
    """
    if isinstance(x, (Var, Formula)):
        return x
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
        raise LayoutError(f"{what} is an integer, not {x!r}")
    if x < at_least:
        raise LayoutError(f"{what} is at least {at_least}, not {x}")
    return int(x)


def require_shape(shape: Sequence[Any]) -> tuple[Index, ...]:
    """The extents of a buffer as ints and Index.

    Raises LayoutError for what is neither, and for extents < 1.

    >>> require_shape([np.int64(8), 64])
    (8, 64)
    """
    return tuple(n if type(n) is int and n > 0 else require_index(n, "an extent", 1) for n in shape)


def require_known(x: Index, what: str) -> int:
    """``x``, which must be known at build time.

    Raises LayoutError when it depends on runtime variables.

    >>> require_known(8, "an extent")
    8
    """
    if isinstance(x, int):
        return x
    raise LayoutError(f"{what} must be known at build time, not {spell(x)}")


# ---------------------------------------------------------------- text
_SPELLINGS = {"/": "//"}


def spell(x: Index) -> str:
    """The text of an integer expression, as the notation reads it.

    >>> spell(Var("M", 64) * 4 + 1)
    'M * 4 + 1'
    """
    if not isinstance(x, Formula):
        return str(x)
    return f" {_SPELLINGS.get(x.symbol, x.symbol)} ".join(_spell_operand(a, x.symbol) for a in x.args)


def _spell_operand(x: Index, parent: str) -> str:
    bare = not isinstance(x, Formula) or (parent == "+" and x.symbol == "*")
    return spell(x) if bare else f"({spell(x)})"


def spell_at(x: Index, axis: str) -> str:
    """``x@axis``; the default axis m is not written.

    >>> spell_at(4, "laneid"), spell_at(4, "m")
    ('4@laneid', '4')
    """
    text = f"({spell(x)})" if isinstance(x, Formula) else spell(x)
    return text if axis == "m" else f"{text}@{axis}"


def spell_iters(letter: str, iters: Iters) -> str:
    """``S[8:1]`` for one iter, ``S[(8, 2):(4@laneid, 1)]`` for more.

    >>> spell_iters("R", (Iter(2, 4, "warpid"),))
    'R[2:4@warpid]'
    """
    extents = [spell(i.extent) for i in iters]
    strides = [spell_at(i.stride, i.axis) for i in iters]
    if len(iters) == 1:
        return f"{letter}[{extents[0]}:{strides[0]}]"
    return f"{letter}[({', '.join(extents)}):({', '.join(strides)})]"


# ---------------------------------------------------------------- products, splits, sums
def product(extents: Iterable[Index]) -> Index:
    """The product of extents (1 for none).

    >>> product([2, 3, 4])
    24
    """
    result: Index = 1
    for extent in extents:
        result = mul(result, extent)
    return result


def row_major_strides(shape: Sequence[Index]) -> list[Index]:
    """Strides of a dense array whose last dimension is the fastest: s_k = n_(k+1) * ... * n_last.

    >>> row_major_strides([2, 3, 4])
    [12, 4, 1]
    """
    return [product(shape[k + 1 :]) for k in range(len(shape))]


def quotient(x: Any, n: Index) -> Any:
    """x // n for ints, arrays and Index; arrays shift when n is a power of two.

    >>> quotient(9, 4)
    2
    """
    if is_symbolic(n):
        return div(x, n)
    if isinstance(x, np.ndarray) and isinstance(n, int) and n & (n - 1) == 0:
        return x >> (n.bit_length() - 1)
    return x // n


def remainder(x: Any, n: Index) -> Any:
    """x % n for ints, arrays and Index; arrays mask when n is a power of two.

    >>> remainder(9, 4)
    1
    """
    if is_symbolic(n):
        return mod(x, n)
    if isinstance(x, np.ndarray) and isinstance(n, int) and n & (n - 1) == 0:
        return x & (n - 1)
    return x % n


def xor_bits(x: Any, source: int, target: int, count: int) -> Any:
    """x ^ (((x >> source) % 2**count) << target) for ints, arrays and Index alike; the two bit fields are disjoint.

    >>> xor_bits(0b101000, 3, 0, 3)
    45
    """
    if count == 0:
        return x
    if is_symbolic(x):
        return _xor_index(x, source, target, count)
    return x ^ (((x >> source) & ((1 << count) - 1)) << target)


@lru_cache(maxsize=4096, typed=True)
def _xor_index(x: Index, source: int, target: int, count: int) -> Index:
    """The expression with the fewer operators: XOR above the bits that both fields leave alone, or on all of x."""
    low = min(source, target)
    above = div(x, 1 << low)
    bits = mod(div(above, 1 << (source - low)), 1 << count)
    mask = mul(bits, 1 << (target - low)) if target > low else bits
    apart = mul(xor(above, mask), 1 << low) + mod(x, 1 << low)
    whole = xor(x, mul(mask, 1 << low))
    return whole if count_operators(whole) < count_operators(apart) else apart


def split(x: Any, extents: Sequence[Index]) -> list[Any]:
    """The components of ``x``, slowest first: c_k = (x // (e_(k+1) * ... * e_last)) % e_k.

    The slowest component is not reduced: inside the range that changes nothing, and it saves an operation.

    >>> split(13, [4, 2, 2])
    [3, 0, 1]
    """
    components = []
    for extent in reversed(extents[1:]):
        components.append(remainder(x, extent))
        x = quotient(x, extent)
    return [x, *reversed(components)] if extents else []


def flatten(coords: Sequence[Any], shape: Sequence[Index]) -> Any:
    """The row-major flat index: x_0 * n_1 * ... * n_last + ... + x_last.

    >>> flatten((1, 2), (3, 4))
    6
    """
    flat: Any = 0
    for x, stride in zip(coords, row_major_strides(shape), strict=True):
        flat = flat + x * stride
    return flat


def divide_exactly(a: Index, b: Index) -> Index | None:
    """a / b when b is known to divide a, else None.

    >>> divide_exactly(12, 4), divide_exactly(4, 12)
    (3, None)
    """
    if isinstance(b, int) and multiple(a) % b == 0:
        return div(a, b)
    (ca, left), (cb, right) = _factor(a), _factor(b)
    for f in right:
        if f not in left:
            return None
        left.remove(f)
    return mul(product(left), ca // cb) if ca % cb == 0 else None


def _factor(x: Index) -> tuple[int, list[Index]]:
    """``x`` as a constant times factors that are no products."""
    found = terms(x)
    if len(found) != 1:
        return 1, [x]
    coefficient, rest = found[0]
    return coefficient, _unfold(rest)


def _unfold(x: Index) -> list[Index]:
    if isinstance(x, Formula) and x.symbol == "*":
        return [f for a in x.args for f in _unfold(a)]
    return [] if isinstance(x, int) else [x]
