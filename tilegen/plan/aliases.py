"""Which arrays of a launch may share bytes: the one declaration for calls from Python and launchers in C++."""

from __future__ import annotations

from collections.abc import Sequence


def pairs_apart(accesses: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Every two arrays, by number, that may not share a byte: one of them is written.

    ``accesses``: of each array in | out | inout. A proof takes each array as memory of its own. What the caller
    promises of an array (``values``), and reads of it that the L1 keeps (``.nc``), hold while nothing writes there.

    >>> pairs_apart(["in", "in", "out"])
    ((0, 2), (1, 2))
    """
    numbered = [(i, j) for j in range(len(accesses)) for i in range(j)]
    return tuple((i, j) for i, j in numbered if accesses[i] != "in" or accesses[j] != "in")
