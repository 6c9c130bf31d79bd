"""Global arrays of any strides: where elements lie, and which lies at a place."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.session import examples
from tilegen.layouts.notation import parse
from tilegen.ops.strided import find_coordinates, find_offsets
from tilegen.spec.data import Buffer

DIMS = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 60)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=examples(400), derandomize=True)
@given(DIMS)
def test_a_place_is_of_the_element_that_lies_there(dims: list[tuple[int, int]]) -> None:
    shape = tuple(n for n, _ in dims)
    text = f"S[({','.join(str(n) for n, _ in dims)}):({','.join(str(s) for _, s in dims)})]"
    array = Buffer("Y", "global", "float32", shape, parse(text), "Y")
    at = np.indices(shape).reshape(len(shape), -1)
    offsets = find_offsets(array, list(at), {})
    assume(len(np.unique(offsets)) == len(offsets))
    assert (np.stack(find_coordinates(array, offsets, {})) == at).all()
