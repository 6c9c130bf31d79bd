"""The search for 'auto' layouts against brute force: of drawn access sets, and of drawn specs as they are built."""

from __future__ import annotations

import os

import numpy as np
import pytest
from specs.kernels import ROOT

from tests.oracles import layout_brute
from tests.oracles.access_sets import AccessSet, draw_sets
from tests.oracles.layout_regret import (
    FAMILIES,
    SETS,
    SPECS,
    draw_specs,
    every_form_layout,
    measure,
    measure_whole,
    place,
    print_linear,
    print_table,
    print_wholes,
)
from tilegen import access

DOC = ROOT / "docs" / "layout-chooser.md"


@pytest.mark.sweep(6)
@pytest.mark.parametrize("drawn", SETS, ids=lambda s: s.name.replace(" ", "_"))
def test_regret_is_zero(drawn: AccessSet) -> None:
    row = measure(drawn)
    assert row.cost == row.best, "wavefronts, then bytes"
    assert row.claimed == row.cost, "what the chooser says of its pick"
    assert row.linear == -1 or row.floor <= row.linear


@pytest.mark.slow
@pytest.mark.parametrize(("way", "text"), draw_specs(SPECS), ids=lambda s: s if "\n" not in s else "")
def test_a_built_spec_has_no_better_layout(way: str, text: str) -> None:
    whole = measure_whole(way, text)
    assert whole.picked == whole.least


def test_the_families_are_those_of_the_brute_force() -> None:
    for shape, size in (((16, 20), 1), ((32, 64), 4), ((8, 33), 16), ((24, 40), 2)):
        mine = {place(f.layout, shape).tobytes() for f in every_form_layout(shape, size)}
        assert mine == {p.addresses.tobytes() for p in layout_brute.every_layout(*shape, size)}


def test_the_brute_force_counts_as_the_model_does() -> None:
    """Both follow the measured rules; they are written apart."""
    for drawn in SETS[:60]:
        for a in drawn.accesses:
            offsets = np.where(a.elements >= 0, a.elements * drawn.elem_bytes, -1)
            width = a.width_elems * drawn.elem_bytes
            assert (layout_brute.wavefronts(a.kind, width, offsets) == access.wavefronts(a.kind, width, offsets)).all()


@pytest.mark.slow
def test_the_corpus_is_worth_its_name() -> None:
    """Every family is picked somewhere, no family alone would do, and the draw is the seed's."""
    rows = [measure(s) for s in SETS]
    assert {r.picked for r in rows} == set(FAMILIES)
    for family in FAMILIES:
        assert any(r.least.get(family, r.best) > r.best for r in rows)
    assert len({(s.shape, s.dtype) for s in SETS}) > 60
    assert [s.name for s in draw_sets(9)] == [s.name for s in SETS[:9]]


@pytest.mark.slow
def test_the_docs_have_this_table() -> None:
    rows = [measure(s) for s in SETS]
    wholes = [measure_whole(way, spec) for way, spec in draw_specs(SPECS)]
    wanted = f"{print_table(rows)}\n\n{print_linear(rows)}\n\n{print_wholes(wholes)}\n"
    text = DOC.read_text(encoding="utf-8")
    head, rest = text.split("<!-- regret -->\n")
    _, tail = rest.split("<!-- end of regret -->")
    if os.environ.get("UPDATE_GOLDEN") == "1":
        text = f"{head}<!-- regret -->\n{wanted}<!-- end of regret -->{tail}"
        DOC.write_text(text, encoding="utf-8")
    assert wanted in text, "the table is stale: UPDATE_GOLDEN=1 rewrites it"
