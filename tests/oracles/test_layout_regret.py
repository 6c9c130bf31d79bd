"""The chooser against brute force: over 240 access sets drawn by a seed, no layout of the families costs less."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tests.oracles import layout_brute
from tests.oracles.access_sets import AccessSet, draw_sets
from tilegen import access
from tilegen.choose.layout_families import enumerate_layouts
from tilegen.choose.shared_layouts import choose_shared_layout

SETS = draw_sets(240)


def place(layout, shape) -> np.ndarray:
    """The element address of every element, from the layout alone."""
    rows, columns = np.indices(shape).reshape(2, -1)
    return np.asarray(layout.place((rows, columns), shape)["m"], np.int64)


@pytest.mark.parametrize("drawn", SETS, ids=lambda s: s.name.replace(" ", "_"))
def test_regret_is_zero(drawn: AccessSet) -> None:
    layout, choice = choose_shared_layout(drawn.shape, drawn.elem_bytes, drawn.accesses)
    mine = layout_brute.Placed(choice.picked, place(layout, drawn.shape))
    cost = layout_brute.count(mine.addresses, drawn.elem_bytes, list(drawn.accesses))
    assert cost is not None, "the pick cuts a vector"
    assert len(np.unique(mine.addresses)) == prod(drawn.shape)
    others = [
        (found, p.span, p.name)
        for p in layout_brute.every_layout(*drawn.shape, drawn.elem_bytes)
        if (found := layout_brute.count(p.addresses, drawn.elem_bytes, list(drawn.accesses))) is not None
    ]
    assert (cost, mine.span) == min(others)[:2], (choice.picked, min(others))
    picked = next(c for c in choice.candidates if c.verdict == "picked")
    assert picked.cost is not None and (picked.cost.wavefronts, picked.cost.shared_bytes) == (
        cost, mine.span * drawn.elem_bytes,
    )  # fmt: skip


def test_the_families_are_those_of_the_brute_force() -> None:
    for shape, size in (((16, 20), 1), ((32, 64), 4), ((8, 33), 16), ((24, 40), 2)):
        mine = {place(f.layout, shape).tobytes() for f in enumerate_layouts(shape, size)}
        assert mine == {p.addresses.tobytes() for p in layout_brute.every_layout(*shape, size)}


def test_the_brute_force_counts_as_the_model_does() -> None:
    """Both follow the measured rules; they are written apart."""
    for drawn in SETS[:60]:
        for a in drawn.accesses:
            offsets = np.where(a.elements >= 0, a.elements * drawn.elem_bytes, -1)
            width = a.width_elems * drawn.elem_bytes
            assert (layout_brute.wavefronts(a.kind, width, offsets) == access.wavefronts(a.kind, width, offsets)).all()


def test_the_corpus_is_worth_its_name() -> None:
    """It has conflicts that only one family removes, and picks of every family."""
    picked = [choose_shared_layout(s.shape, s.elem_bytes, s.accesses)[1].picked for s in SETS]
    assert {"row", "S[(", "Swi"} <= {p[:3] for p in picked}
    assert len({(s.shape, s.dtype) for s in SETS}) > 60
    assert SETS[0].name == draw_sets(1)[0].name
