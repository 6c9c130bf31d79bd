"""tiled_mma against CuTe: hashes of who owns what, and a brute force of CuTe's formula on drawn tilings."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session import examples
from tilegen.arch import ARCHES
from tilegen.errors import LayoutError
from tilegen.layouts import (
    ATOMS,
    MmaTiling,
    canonicalize,
    count_outside,
    count_registers,
    covered_shape,
    cute,
    find_atom,
    fragment_of,
    is_injective,
    lay_out_mma,
    list_owned,
    mma_fragment,
    modes_of_tiling,
    parse,
    read_mma,
    size,
    span,
    tile_mma,
    tiled_mma,
)
from tilegen.layouts.constructors import element_bits

from .recorded import load_cases, load_document, parameters

FILE = "cute_tiled_mma.json"
CASES = parameters(load_cases(FILE))
OPERANDS = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}  # as CuTe orders them: B is (N, K)


def build(value: Any) -> Any:
    return cute.CuteLayout(value["shape"], value["stride"]) if isinstance(value, dict) else value


def tiling_of(case: dict[str, Any]) -> MmaTiling:
    atoms = case["atom_layout_mnk"]
    layout = cute.CuteLayout(atoms["shape"], atoms["stride"])
    return tile_mma(case["atom"]["name"], layout, [build(p) for p in case["permutation_mnk"]], case["tile_mnk"])


def as_cute(owned: Any, operand: str) -> Any:
    """tilegen's B is (K, N)."""
    return owned[:, :, ::-1] if operand == "B" else owned


# ---------------------------------------------------------------- what CuTe answered
@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("case", CASES)
def test_ownership_is_cutes(case: dict[str, Any], operand: str) -> None:
    tiling, answer = tiling_of(case), case[operand]
    owned = as_cute(list_owned(tiling, operand), operand).tolist()
    for thread, first in answer["threads"].items():
        assert owned[int(thread)][: len(first)] == first
    digest = hashlib.sha256(json.dumps(owned, separators=(",", ":")).encode()).hexdigest()
    assert digest == answer["sha256_all_threads"]
    assert len(owned) == tiling.threads == case["n_threads"]
    assert count_registers(tiling, operand) == answer["values_per_thread"]
    assert count_outside(tiling, operand) == answer["out_of_tile_slots"]
    copies = prod(i.extent for i in lay_out_mma(tiling, operand).replica)  # type: ignore[misc]
    assert [copies] == answer["owners_per_element"]
    assert tuple(m.period for m in modes_of_tiling(tiling)) == tuple(case["tile_size_mnk"])


def test_the_formula_of_the_data_is_the_one_that_is_tested() -> None:
    assert "pi(i) = perm_layout(i mod P) + P*(i div P)" in load_document(FILE)["about"]["formula"]


# ---------------------------------------------------------------- a brute force, from CuTe's own layouts of the atoms
def at(layout: dict[str, Any], index: int) -> int:
    """A CuTe layout at a flat index, the first leaf the fastest."""
    place = 0
    for extent, stride in zip(flat(layout["shape"]), flat(layout["stride"]), strict=True):
        place, index = place + index % extent * stride, index // extent
    return place


def flat(tree: Any) -> list[int]:
    return [x for branch in tree for x in flat(branch)] if isinstance(tree, (list, tuple)) else [tree]


def coordinate(mode: dict[str, Any], place: int) -> int:
    """Which atom of a mode lies at a place, through nested modes."""
    found, step = 0, 1
    for extent, stride in zip(flat(mode["shape"]), flat(mode["stride"]), strict=True):
        found += (place // stride % extent if extent > 1 else 0) * step
        step *= extent
    return found


def permute(permutation: Any, i: int) -> int:
    if not isinstance(permutation, dict):
        return i
    period = prod(flat(permutation["shape"]))
    return at(permutation, i % period) + period * (i // period)


def brute_force(atom: dict[str, Any], atoms: list[Any], perms: list[Any], tile: list[int], operand: str) -> Any:
    """owned[thread][register] = [row, column], one element at a time."""
    dims, shape, per_atom = OPERANDS[operand], atom["shape_mnk"], prod(flat(atom["thr_id"]["shape"]))
    tv = atom[f"tv_{operand}"]
    values = prod(flat(tv["shape"][1]))
    counts = [prod(flat(mode["shape"])) for mode in atoms]
    rounds = []
    for d in dims:
        native = shape[d] * counts[d]
        p = prod(flat(perms[d]["shape"])) if isinstance(perms[d], dict) else perms[d] or native
        rounds.append(-(-(-(-tile[d] // p) * p) // native))
    owned = []
    for thread in range(per_atom * prod(counts)):
        lane, place = thread % per_atom, thread // per_atom
        own = []
        for r1, r0, v in product(range(rounds[1]), range(rounds[0]), range(values)):
            index = at(tv, lane + per_atom * v)
            inside = (index % shape[dims[0]], index // shape[dims[0]])
            own.append([
                permute(perms[d], a + shape[d] * (coordinate(atoms[d], place) + counts[d] * r))
                for d, a, r in zip(dims, inside, (r0, r1), strict=True)
            ])  # fmt: skip
        owned.append(own)
    return owned


def dense(shape: Any, order: list[int]) -> dict[str, Any]:
    """Strides that count the leaves in an order: all places once."""
    strides, step = [0] * len(shape), 1
    for leaf in order:
        strides[leaf], step = step, step * shape[leaf]
    return {"shape": shape, "stride": strides}


@st.composite
def drawn_atoms(draw: Any) -> list[dict[str, Any]]:
    """Three modes, a nested one at times, whose leaves lie in any order."""
    leaves = [[draw(st.sampled_from([1, 2, 2, 3])) for _ in range(draw(st.integers(1, 2)))] for _ in "MNK"]
    leaves[2] = [draw(st.sampled_from([1, 1, 2]))]
    whole = dense([n for mode in leaves for n in mode], draw(st.permutations(range(sum(map(len, leaves))))))
    modes, at_leaf = [], 0
    for mode in leaves:
        part = slice(at_leaf, at_leaf + len(mode))
        modes.append({"shape": whole["shape"][part], "stride": whole["stride"][part]})
        at_leaf += len(mode)
    return modes


@st.composite
def drawn_permutation(draw: Any, atom: int, mode: dict[str, Any]) -> Any:
    """None, an int, or a layout whose leaves are the atom, its places and a few rounds, in any order."""
    native = atom * prod(flat(mode["shape"]))
    kind = draw(st.sampled_from(["none", "int", "layout"]))
    if kind == "none":
        return None
    if kind == "int":
        return draw(st.integers(1, 3 * native))
    leaves = [atom, *flat(mode["shape"]), draw(st.sampled_from([1, 2, 3]))]
    return dense(leaves, draw(st.permutations(range(len(leaves)))))


ROWS = {case["atom"]["name"]: case["atom"] for case in load_cases(FILE) if "SM70" not in case["atom"]["name"]}


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.sampled_from(sorted(ROWS)), st.sampled_from(sorted(OPERANDS)))
def test_drawn_tilings_own_what_the_formula_says(data: Any, name: str, operand: str) -> None:
    atom = ROWS[name]
    atoms = data.draw(drawn_atoms())
    perms = [data.draw(drawn_permutation(n, mode)) for n, mode in zip(atom["shape_mnk"], atoms, strict=True)]
    natives = [n * prod(flat(mode["shape"])) for n, mode in zip(atom["shape_mnk"], atoms, strict=True)]
    tile = [data.draw(st.integers(1, 3 * n)) for n in natives]
    layout = cute.join([build(mode) for mode in atoms])
    arguments = (name, layout, [build(p) for p in perms], tile)
    if prod(flat(layout.shape)) * prod(flat(atom["thr_id"]["shape"])) > 1024:
        with pytest.raises(LayoutError, match="a CTA has at most 1024"):
            tile_mma(*arguments)
        return
    tiling = tile_mma(*arguments)
    owned = list_owned(tiling, operand)
    wanted = np.array(brute_force(atom, atoms, perms, tile, operand))
    assert np.array_equal(as_cute(owned, operand), wanted)
    # one-to-one: a thread's registers hold different elements; all are covered, equally often
    covered = covered_shape(tiling, operand)
    numbers = owned[..., 0] * covered[1] + owned[..., 1]
    assert all(len(set(own)) == len(own) for own in numbers.tolist())
    copies = np.bincount(numbers.reshape(-1), minlength=prod(covered))
    assert len(copies) == prod(covered) and len(set(copies.tolist())) == 1
    ends = [tile[d] for d in ((2, 1) if operand == "B" else OPERANDS[operand])]
    assert int((owned >= np.array(ends)).any(axis=-1).sum()) == count_outside(tiling, operand)
    layout = lay_out_mma(tiling, operand)
    assert is_injective(layout) and size(layout) == prod(covered)
    assert parse(str(layout)) == layout


# ---------------------------------------------------------------- the table of atoms
WARPS = [a for a in ATOMS if a.kind == "mma_sync" and a.shape[0] == 16 and a.a != "float64"]


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("atom", WARPS, ids=lambda a: a.name)
def test_fragments_are_those_of_mma_fragment(atom: Any, operand: str) -> None:
    shape = "m{}n{}k{}".format(*atom.shape)
    assert fragment_of(atom, operand) == mma_fragment(shape, operand, dtype=atom.a)


@pytest.mark.parametrize("atom", [a for a in ATOMS if a.kind != "tcgen05"], ids=lambda a: a.name)
def test_an_atoms_threads_hold_each_element_once(atom: Any) -> None:
    m, n, k = atom.shape
    for operand, shape in (("A", (m, k)), ("B", (k, n)), ("C", (m, n))):
        if atom.kind == "wgmma" and operand == "B":
            with pytest.raises(LayoutError, match="no thread holds it"):
                fragment_of(atom, operand)
            continue
        layout = fragment_of(atom, operand)
        assert size(layout) == prod(shape) == atom.threads * span(layout, "m") and is_injective(layout)
        one = tiled_mma(atom, (1, 1, 1), None, operand, atom.shape)
        assert canonicalize(one) == canonicalize(layout)
    assert atom.threads == 1 or cute.size(atom.places) == atom.threads
    features = {f for arch in ARCHES.values() for f in arch.features}
    assert not atom.feature or atom.feature in features
    assert bool(atom.instruction) == (atom.kind != "quad_pair")
    assert find_atom(atom.name) is atom


def test_names_are_of_one_row_each() -> None:
    assert len({atom.name for atom in ATOMS}) == len(ATOMS)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("mma.m16n8k16", "mma.m16n8k16.f32.f16.f16.f32"), ("mma.m16n8k16.bf16", "mma.m16n8k16.f32.bf16.bf16.f32"),
        ("mma.m16n8k8", "mma.m16n8k8.f32.f16.f16.f32"), ("mma.m16n8k8.tf32", "mma.m16n8k8.f32.tf32.tf32.f32"),
        ("mma.m16n8k4", "mma.m16n8k4.f32.tf32.tf32.f32"), ("mma.m16n8k16.f64", "mma.m16n8k16.f64.f64.f64.f64"),
        ("mma.m16n8k32.e5m2", "mma.m16n8k32.f32.e5m2.e5m2.f32"), ("mma.m8n8k4", "mma.m8n8k4.f64.f64.f64.f64"),
        ("mma.m8n8k4.nt", "mma.m8n8k4.nt.f32.f16.f16.f32"), ("wgmma.m64n128k16", "wgmma.m64n128k16.f32.f16.f16"),
        ("UniversalFMA<double,double,double,double>", "fma.f64"),
        ("SM90_16x8x8_F64F64F64F64_TN", "mma.m16n8k8.f64.f64.f64.f64"),
        ("SM70_8x8x4_F16F16F16F16_TN", "mma.m8n8k4.tn.f16.f16.f16.f16"),
    ],
)  # fmt: skip
def test_names_leave_out_types(name: str, full: str) -> None:
    assert find_atom(name).name == full


def test_products_that_one_thread_starts() -> None:
    """PTX ISA, tcgen05 "Supported Matrix Shapes" and "Supported Data Types", of one CTA, without factors."""
    rows = [a for a in ATOMS if a.kind == "tcgen05"]
    for kind, types, depth in (("f16", 3, 16), ("tf32", 1, 8), ("f8f6f4", 8, 32), ("i8", 4, 32)):
        own = [a for a in rows if a.instruction == f"tcgen05.mma.cta_group::1.kind::{kind}"]
        columns = [8, 16, 24, *range(32, 257, 16)] if kind == "i8" else list(range(8, 257, 8))
        assert Counter(a.shape for a in own) == {(m, n, depth): types for m in (64, 128) for n in columns}
        assert {depth * element_bits(t) for a in own for t in (a.a, a.b)} == {256}
    assert {(a.feature, a.capability, a.threads) for a in rows} == {("tcgen05", (10, 0), 1)}
    assert "tcgen05" in ARCHES["sm_100a"].features and all(find_atom(a.name) is a for a in rows)
    for atom, operand in product(rows[:: len(rows) // 50], OPERANDS):
        with pytest.raises(LayoutError, match="no thread holds it"):
            fragment_of(atom, operand)
    assert find_atom("tcgen05.m128n256k16", "bfloat16").name == "tcgen05.m128n256k16.f32.bf16.bf16"
    for atoms in ((1, 1, 1), (2, 1, 1)):
        with pytest.raises(LayoutError, match=r"one thread starts tcgen05\.m64n32k8 for a whole tile"):
            tile_mma("tcgen05.m64n32k8", atoms, None, (128, 32, 8))
    with pytest.raises(LayoutError, match="SM90_128x64x16"):
        find_atom("SM90_128x64x16_F32F16F16F32_TN")


def test_types_choose_among_the_rows_of_a_name() -> None:
    assert find_atom("mma.m16n8k8", "tfloat32", "tfloat32").name == "mma.m16n8k8.f32.tf32.tf32.f32"
    assert find_atom("mma.m16n8k16", "float16", "float16", "float16").name == "mma.m16n8k16.f16.f16.f16.f16"
    assert find_atom("mma.m16n8k32", "uint8", "int8").name == "mma.m16n8k32.s32.u8.s8.s32"
    with pytest.raises(LayoutError, match="does not take A of float32") as caught:
        find_atom("mma.m16n8k16", "float32")
    assert "float16 x float16 -> float32; " in caught.value.hint


# ---------------------------------------------------------------- the text form
FORMS = [
    "tiled_mma('fma.f32', '(16,16,1):(16,1,0)', ('(16,4):(4,1)', '(16,4):(4,1)', None), 'C', (128, 128, 8))",
    "tiled_mma('fma.f32', '(16,16):(16,1)', ('R=4', ' R = 4 ', 'null'), 'C', (128, 128, 8))",
    "tiled_mma('fma.f32', '(16,16,1):(16,1,0)', (R=4, R=2*2, null), operand='C', tile=(128, 128, 8))",
    "tiled_mma('fma.f32', '((4,4),16):((64,16),1)', (R=4, R=4), 'C', (128, 128, 8))",
]


@pytest.mark.parametrize("text", FORMS)
def test_forms_of_one_tiling(text: str) -> None:
    wanted = parse("S[(2, 16, 4, 2, 16, 4):(4, 16@tx, 1, 32, 1@tx, 8)]")
    if "((4,4)" in text:  # 16 atoms along M in another order: 64, 16 instead of 16, 64
        wanted = parse("S[(2, 4, 4, 4, 2, 16, 4):(4, 16@tx, 64@tx, 1, 32, 1@tx, 8)]")
    assert parse(text) == wanted
    found = read_mma(text)
    assert found is not None and lay_out_mma(*found) == wanted and found[1] == "C"


def test_runs_of_tensor_cores() -> None:
    """design: two neighbouring 8-column blocks of a warp are the layout (8,2,2):(1,16,8)."""
    adjacent = tile_mma("mma.m16n8k16", (2, 2, 1), (32, "R=2", 16), (128, 128, 32))
    assert str(adjacent.permutation[1]) == "(8,2,2):(1,16,8)"


def test_an_int_that_divides_changes_nothing() -> None:
    for operand in OPERANDS:
        plain = tiled_mma("mma.m16n8k16", (2, 2, 1), None, operand, (128, 128, 32))
        assert tiled_mma("mma.m16n8k16", (2, 2, 1), (32, 32, 16), operand, (128, 128, 32)) == plain


def test_a_text_that_is_no_tiling() -> None:
    assert read_mma("mma_fragment('m16n8k16', 'C')") is None
    with pytest.raises(LayoutError, match="unexpected"):
        read_mma(FORMS[0] + " o S[8]")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("mma.m16n8k17", 1, None, "C", (16, 8, 16)), "there is no atom 'mma.m16n8k17'", "atoms are fma.f32"),
        (("hmma", (1,), None, "C", (16, 8, 16)), "there is no atom 'hmma'", "atoms are fma.f32, fma.f64"),
        ((7, (1,), None, "C", (16, 8, 16)), "there is no atom 7", ""),
        (("fma.f32", (1,), None, "D", (1, 1, 1)), "an operand is 'A', 'B' or 'C', not 'D'", ""),
        (("fma.f32", (1,), None, ["A"], (1, 1, 1)), "an operand is 'A', 'B' or 'C', not", ""),
        (("fma.f32", 16, None, "C", (1, 1, 1)), "atoms is how many atoms lie along M, N and K, not 16", "(2, 2, 1) or"),
        (("fma.f32", (2, 2, 1, 1), None, "C", (1, 1, 1)), "has 4", ""),
        (("fma.f32", (0, 2), None, "C", (1, 1, 1)), "an extent is at least 1", ""),
        (("fma.f32", (), None, "C", (1, 1, 1)), "an extent is missing in ()", ""),
        (("fma.f32", "(2,2,1):(0,1,0)", None, "C", (1, 1, 1)), "does not put 4 atoms on places 0 to n - 1", "(1,2,4)"),
        (("fma.f32", "(2,2,1):(1,4,0)", None, "C", (1, 1, 1)), "does not put 4 atoms on places 0 to n - 1", "column"),
        (("fma.f32", "(2,2", None, "C", (1, 1, 1)), "atoms '(2,2': expected ')', found the end", "shape:stride"),
        (("fma.f32", "Sw<3,3,3>", None, "C", (1, 1, 1)), "is a swizzle, not shape:stride", ""),
        (("mma.m16n8k16", (8, 8), None, "C", (1, 1, 1)), "are 2048 threads, a CTA has at most 1024", ""),
        (("mma.m8n8k4.nt", (2, 3), None, "C", (1, 1, 1)), "quad pairs fill warps", ""),
        (("fma.f32", (16, 16), (1, 1, 1, 1), "C", (1, 1, 1)), "has an entry for M, N and K, not (1, 1, 1, 1)", ""),
        (("fma.f32", (16, 16), "R=4", "C", (1, 1, 1)), "has an entry for M, N and K, not 'R=4'", ""),
        (("fma.f32", (16, 16), ("R=0",), "C", (1, 1, 1)), "R is at least 1, not 0", ""),
        (("fma.f32", (16, 16), ("R4",), "C", (1, 1, 1)), "the permutation of M, 'R4'", "CuTe's shape:stride"),
        (("fma.f32", (16, 16), (None, 0), "C", (1, 1, 1)), "the permutation of N is at least 1, not 0", ""),
        (("fma.f32", (16, 16), (None, True), "C", (1, 1, 1)), "the permutation of N is True, which", "'R=4' or None"),
        (("fma.f32", (16, 16), ("(16,4):(5,1)",), "C", (1, 1, 1)), "does not put 64 positions on 0 to 63 each", ""),
        (("fma.f32", (16, 16), None, "C", (1, 1)), "a tile (M, N, K) has 3 dimensions, not (1, 1)", ""),
        (("fma.f32", (16, 16), None, "C", (0, 1, 1)), "an extent is at least 1, not 0", ""),
        (("fma.f32", (16, 16), ("(3,16):(16,1)",), "C", (48, 16, 1)), "ownership along M is no layout", "atoms'"),
        (("fma.f32", (16, 16), ("(3,8):(8,1)",), "C", (24, 16, 1)), "no multiple of the 16", "that 16 divides"),
        (("wgmma.m64n64k16", (1, 1), None, "B", (64, 64, 16)), "reads B from shared memory", "mma_shared_layout"),
    ],
)  # fmt: skip
def test_what_is_refused(arguments: Any, message: str, hint: str) -> None:
    with pytest.raises(LayoutError) as caught:
        tiled_mma(*arguments)
    assert message in str(caught.value) and hint in caught.value.hint
