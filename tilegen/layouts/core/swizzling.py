"""The XOR permutation of addresses that a SwizzleLayout stands for."""

from __future__ import annotations

from typing import Any, Protocol

from tilegen.index import Index, count_operators, div, mod, mul, xor
from tilegen.layouts.core.iters import is_symbolic


class Bits(Protocol):
    """The numbers of a SwizzleLayout."""

    @property
    def per_element(self) -> int: ...
    @property
    def swizzle_len(self) -> int: ...
    @property
    def atom_len(self) -> int: ...
    @property
    def inner(self) -> bool: ...


def permute_address(swizzle: Bits, address: Any) -> Any:
    """The swizzled address of an int, an array or an Index, in elements.

    With x = address >> M: ((x ^ ((x >> S) % 2**B)) << M) | address % 2**M, and for ``inner=False`` the term
    (x % 2**B) << S is XORed in instead.

    >>> from tilegen.layouts.core.values import SwizzleLayout
    >>> permute_address(SwizzleLayout(0, 2, 3, inner=False), 3)
    27
    """
    if swizzle.swizzle_len == 0:
        return address
    if is_symbolic(address):
        return _permute_index(swizzle, address)
    mask, low = (1 << swizzle.swizzle_len) - 1, swizzle.per_element
    if swizzle.inner:
        return address ^ (((address >> (low + swizzle.atom_len)) & mask) << low)
    return address ^ (((address >> low) & mask) << (low + swizzle.atom_len))


def _permute_index(swizzle: Bits, address: Index) -> Index:
    """The expression with the fewer operators: XOR on the part above the low M bits, or on the whole address."""
    unit = 1 << swizzle.per_element
    x = div(address, unit)
    if swizzle.inner:
        mask = mod(div(x, 1 << swizzle.atom_len), 1 << swizzle.swizzle_len)
    else:
        mask = mul(mod(x, 1 << swizzle.swizzle_len), 1 << swizzle.atom_len)
    apart = mul(xor(x, mask), unit) + mod(address, unit)
    whole = xor(address, mul(mask, unit))
    return whole if count_operators(whole) < count_operators(apart) else apart
