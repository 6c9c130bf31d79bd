"""Which fragments of a and b multiply into which of c."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilegen.index import Index, multiple
from tilegen.layouts import MmaAtom
from tilegen.ops.held import Held, Numbers
from tilegen.ops.mma.fragments import read_fragments
from tilegen.ops.operand import Refused


class Misfit(Exception):
    """The registers of an operand are not those that the atom needs; ``field`` names it, the text says why."""

    def __init__(self, field: str, reason: str):
        super().__init__(reason)
        self.field = field


@dataclass(frozen=True)
class ProductFit:
    """The products of one group of threads: c[i][j] += a[i][k] b[k][j], as registers counted from each region's first.

    ``groups``: how many atoms lie along M and N at once, in all of the instance's threads.
    """

    c: tuple[tuple[int, ...], ...]
    a: tuple[tuple[int, ...], ...]
    b: tuple[tuple[int, ...], ...]
    groups: tuple[int, int]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Atoms of a group along M, N and K."""
        return len(self.c), len(self.c[0]), len(self.a[0])


def fit_atom(atom: MmaAtom, held: dict[str, Held]) -> ProductFit:
    """How ``a``, ``b`` and ``c`` consist of one another's fragments. Raises Misfit.

    Every group of the atom's threads must find the rows of its c in its a and the columns in its b, and along K each
    element once, in the same registers as every other group.
    """
    parts = {}
    for field, operand in (("c", "C"), ("a", "A"), ("b", "B")):
        try:
            parts[field] = read_fragments(held[field], atom, operand)
        except Refused as reason:
            raise Misfit(field, str(reason)) from None
        _check_words(field, atom, held[field], parts[field].at)
    c, a, b = parts["c"], parts["a"], parts["b"]
    c_rows, a_rows = _number(c.rows, a.rows)
    c_columns, b_columns = _number(c.columns, b.columns)
    a_steps, b_steps = _number(a.columns, b.rows)
    down, across = _first_of_each(c_rows, "c"), _first_of_each(c_columns, "c")
    along = _first_of_each(a_steps, "a")
    if len(along) * atom.shape[2] != held["a"].shape[1]:
        message = f"a thread holds {len(along) * atom.shape[2]} of the {held['a'].shape[1]} columns of a"
        raise Misfit("a", f"{message}: its sums would be parts of c, and nobody adds those up")
    table_c = _pair("c", c_rows, c_rows[:, down], c_columns, c_columns[:, across])
    table_a = _pair("a", a_rows, c_rows[:, down], a_steps, a_steps[:, along])
    table_b = _pair("b", b_steps, a_steps[:, along], b_columns, c_columns[:, across])
    tables = ((c, table_c), (a, table_a), (b, table_b))
    at = [tuple(tuple(part.at[q] for q in row) for row in table) for part, table in tables]
    m, n, _ = atom.shape
    groups = (held["c"].shape[0] // (m * len(down)), held["c"].shape[1] // (n * len(across)))
    return ProductFit(at[0], at[1], at[2], groups)


def _check_words(field: str, atom: MmaAtom, held: Held, at: tuple[int, ...]) -> None:
    """Fragments begin at whole 32-bit registers."""
    per_word = max(1, 4 // held.operand.elem_bytes)
    base: Index = held.base
    if multiple(base) % per_word or any(q % per_word for q in at):
        message = f"{held.operand.region.text} begins at element {base} of a thread's registers"
        raise Misfit(field, f"{message}: {atom.stem} takes whole 32-bit registers")


def _number(*lists: Numbers) -> tuple[Numbers, ...]:
    """The same number for equal lists of rows (or columns), over (groups, fragments) of several operands."""
    flat = np.concatenate([x.reshape(-1, x.shape[-1]) for x in lists])
    seen: dict[bytes, int] = {}
    numbers = np.array([seen.setdefault(one.tobytes(), len(seen)) for one in flat])
    ends = np.cumsum([x.shape[0] * x.shape[1] for x in lists])[:-1]
    return tuple(n.reshape(x.shape[:2]) for n, x in zip(np.split(numbers, ends), lists, strict=True))


def _first_of_each(numbers: Numbers, field: str) -> list[int]:
    """The first fragment with each list of rows (or columns); raises Misfit where that differs between groups."""
    first = (numbers[:, :, None] == numbers[:, None, :]).argmax(2)
    if np.any(first != first[0]):
        raise Misfit(field, "not all threads hold the fragments in the same order")
    return list(dict.fromkeys(first[0].tolist()))


def _pair(field: str, left: Numbers, lefts: Numbers, right: Numbers, rights: Numbers) -> list[list[int]]:
    """The fragment of each pair of ``lefts`` and ``rights``, the same in all groups; raises Misfit."""
    is_it = (left[:, None, None, :] == lefts[:, :, None, None]) & (right[:, None, None, :] == rights[:, None, :, None])
    if np.any(is_it.sum(3) != 1) or is_it[0].sum() != left.shape[1]:
        raise Misfit(field, "not every thread holds, in fragments, what it multiplies and nothing else")
    found = is_it.argmax(3)
    if np.any(found != found[0]):
        raise Misfit(field, "not all threads hold the fragments in the same order")
    table: list[list[int]] = found[0].tolist()
    return table
