"""Whether two arrays share memory: bytes from the first to the last at once, element by element where those meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_MOST_WORK = 1 << 20  # candidates of the exact search; beyond it two arrays count as sharing memory


def share_elements(a: Sequence[int], b: Sequence[int], places: tuple[int, int], elem_bytes: tuple[int, int]) -> bool:
    """Whether an element of one array lies on one of the other.

    ``a`` and ``b`` are shape and strides one after the other (in elements), ``places`` the pointers. Nothing is read.

    >>> left, right = (4, 8, 16, 1), (4, 8, 16, 1)  # the halves of rows of 16
    >>> share_elements(left, right, (4096, 4096 + 8 * 4), (4, 4)), share_elements(left, right, (4096, 4124), (4, 4))
    (False, True)
    """
    views = [_view(form, place, n) for form, place, n in zip((a, b), places, elem_bytes, strict=True)]
    try:
        return bool(np.shares_memory(views[0], views[1], max_work=_MOST_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides fail to step over what lies inside: then two elements may be one, and who writes last wins.

    >>> overlaps_itself((4, 8), (8, 1)), overlaps_itself((4, 8), (4, 1))
    (False, True)
    """
    reach = 1
    for stride, extent in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


def _view(form: Sequence[int], place: int, elem_bytes: int) -> Any:
    rank = len(form) // 2
    steps = tuple(n * elem_bytes for n in form[rank:])
    return np.asarray(_Memory(place, tuple(form[:rank]), steps, f"|V{elem_bytes}"))


class _Memory:
    """Memory that NumPy may measure and never reads."""

    def __init__(self, place: int, shape: tuple[int, ...], steps: tuple[int, ...], typestr: str):
        self.__array_interface__ = {
            "version": 3, "data": (place, True), "shape": shape, "strides": steps, "typestr": typestr,
        }  # fmt: skip
