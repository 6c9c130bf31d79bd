"""mma: every atom against NumPy, in the interpreter and as text; regions; what is refused, and with which layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from text.run import compile_plans, requires_runner

from tests.faults.steps import is_a, mutate, turn
from tests.faults.verdicts import refusal_of
from tilegen import build
from tilegen.arithmetic import multiply, round_to_tfloat32
from tilegen.dtypes import numpy_dtype
from tilegen.errors import ProofError, SpecError
from tilegen.index import Var, substitute, variables
from tilegen.interpret import interpret
from tilegen.layouts import ATOMS, MmaAtom
from tilegen.ops.mma.atoms import ROWS, element_type
from tilegen.pipeline import Built
from tilegen.plan import Mma, Ref, Repeat, Step
from tilegen.proofs import prove

RNG = np.random.default_rng(7)
SIMT = tuple(a for a in ATOMS if a.kind == "simt")
USED = (*SIMT, *(a for a in ATOMS if a.kind == "mma_sync"))
every_atom = pytest.mark.parametrize("atom", USED, ids=lambda a: a.name)


def make_spec(atom: MmaAtom, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Two atoms along each of M, N and K, by two warps along M (or threads, 8 and 4); copied straight to registers."""
    groups = (2, 1, 1) if atom.threads > 1 else (8, 4, 1)
    tile = tuple(2 * g * s for g, s in zip((*groups[:2], 1), atom.shape, strict=True))
    m, n, k = tile
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    dtypes = {name: element_type(atom, name.upper()) for name in "abc"}
    buffers: dict[str, Any] = {}
    for name, shape in shapes.items():
        layout = f"tiled_mma('{atom.name}', {groups}, None, '{name.upper()}', {tile})"
        buffers[name.upper()] = {"scope": "global", "dtype": dtypes[name], "shape": list(shape)}
        buffers[name] = {"scope": "register", "dtype": dtypes[name], "shape": list(shape), "layout": layout}
    buffers["D"] = {"scope": "global", "dtype": dtypes["c"], "shape": list(shapes["c"])}
    copies = [{"copy": {"src": name.upper(), "dst": name}} for name in "abc"]
    mma = {"a": "a", "b": "b", "c": "c", "atom": atom.name} | (changes or {})
    return {
        "kernel": "k_" + atom.name.replace(".", "_"), "arch": "sm_90", "threads": 64 if atom.threads > 1 else 32,
        "buffers": buffers, "ops": [*copies, {"mma": mma}, {"copy": {"src": "c", "dst": "D"}}],
    }  # fmt: skip


@cache
def built_of(atom: MmaAtom) -> Built:
    return build(make_spec(atom))


@cache
def inputs_of(atom: MmaAtom) -> dict[str, np.ndarray]:
    """Small integers, or quarters of them, so that no order of addition rounds; of tf32, low bits as well."""
    given = {}
    for m in built_of(atom).plan.memories:
        if m.space == "global" and m.name != "D":
            dtype = numpy_dtype(m.dtype)
            values = RNG.integers(0 if dtype.kind == "u" else -9, 10, m.shape)
            given[m.name] = (values if dtype.kind in "iu" else values / 4).astype(dtype)
            if atom.a == "tfloat32" and m.name != "C":
                given[m.name] *= np.float32(1 + 2.0**-13)  # what rounds away
    return given


def expected_of(atom: MmaAtom) -> np.ndarray:
    given = {name: x.astype(np.float64) for name, x in inputs_of(atom).items()}
    if atom.a == "tfloat32":
        for name in "AB":
            given[name] = np.round(given[name] * 4) / 4
    return (given["A"] @ given["B"] + given["C"]).astype(numpy_dtype(atom.c))


# ---------------------------------------------------------------- every atom
@pytest.mark.sweep(8)
@every_atom
def test_the_interpreter_multiplies_as_numpy_does(atom: MmaAtom) -> None:
    images = inputs_of(atom)
    reads: dict[str, Callable[[Any], Any]] = {name: x.reshape(-1).__getitem__ for name, x in images.items()}
    at, bits = interpret(built_of(atom).plan, [(0, 0, 0)], reads).written["D"]
    expected = expected_of(atom)
    assert np.array_equal(at, np.arange(expected.size))
    assert np.array_equal(bits.view(expected.dtype), expected.reshape(-1))


@cache
def runners() -> dict[str, Any]:
    return {r.plan.name: r for r in compile_plans([built_of(atom).plan for atom in USED])}


@pytest.mark.sweep(4)
@requires_runner
@every_atom
def test_the_text_multiplies_as_numpy_does(atom: MmaAtom) -> None:
    images = runners()[built_of(atom).plan.name].run(inputs_of(atom))
    expected = expected_of(atom)
    assert np.array_equal(images["D"].view(expected.dtype), expected.reshape(-1))


@every_atom
def test_choices_say_what_the_steps_are(atom: MmaAtom) -> None:
    """The counts of explain are those of the plan, loop by loop."""
    plan = built_of(atom).plan
    operation = plan.operations[3]
    picked = {c.question: c.picked for c in operation.choices}
    assert picked["atom"] == atom.name and operation.variant == ("simt" if atom.threads == 1 else "mma_sync")
    assert picked["products"] == {
        "per_warp": 8, "per_cta": 8 * plan.threads // 32,
        "flops": 2 * 8 * plan.threads // atom.threads * np.prod(atom.shape),
    }  # fmt: skip
    assert operation.cost.instructions == 8 * plan.threads // 32


def test_accumulate_false_needs_no_c() -> None:
    spec = make_spec(USED[-1], {"accumulate": False})
    spec["ops"] = [op for op in spec["ops"] if op != {"copy": {"src": "C", "dst": "c"}}]
    built = build(spec)
    assert built.plan.operations[2].op == "mma"
    spec["ops"][2]["mma"]["accumulate"] = True
    with pytest.raises(ProofError, match=r"register c\[0\] is read before anything wrote it"):
        build(spec)


# ---------------------------------------------------------------- layouts are compared as functions
def warp_spec(layouts: dict[str, str], *ops: Any) -> dict[str, Any]:
    buffers: dict[str, Any] = {}
    for name in "abc":
        dtype = "float32" if name == "c" else "float16"
        buffers[name] = {"scope": "register", "dtype": dtype, "shape": SHAPES[name], "layout": layouts[name]}
        buffers[name.upper()] = {"scope": "global", "dtype": dtype, "shape": SHAPES[name]}
    loads = [{"copy": {"scope": "warp", "src": name.upper(), "dst": name}} for name in "ab"]
    store = {"copy": {"scope": "warp", "src": "c", "dst": "C"}}
    return {"kernel": "k", "arch": "sm_80", "threads": 32, "buffers": buffers, "ops": [*loads, *ops, store]}


@pytest.mark.parametrize(("zeros", "text"), [
    ({"when": "k < 1", "do": [{"fill": {"dst": "c", "value": 0, "scope": "warp"}}]}, "= hidden_zero();"),
    ({"fill": {"dst": "c", "value": 0, "scope": "warp", "when": "k < 1"}}, "= hidden_zero();"),
    ({"elementwise": {"dst": "c", "expr": "where(k < 1, 0.0, c)", "scope": "warp"}}, "? hidden_zero() : c"),
    ({"fill": {"dst": "c", "value": -0.0, "scope": "warp", "when": "k < 1"}}, "= -0.0;"),
    ({"fill": {"dst": "c", "value": 1, "scope": "warp", "when": "k < 1"}}, "= 1.0;"),
])  # fmt: skip
def test_zeros_of_a_condition_are_hidden_from_a_float64_product(zeros: dict[str, Any], text: str) -> None:
    """However they are said, and they alone: -0 is another number, of a fill that is no other's equal."""
    array, held = {"scope": "global", "dtype": "float64"}, {"scope": "register", "dtype": "float64", "layout": "auto"}
    spec = {
        "kernel": "zeros", "arch": "sm_90", "threads": 32,
        "buffers": {
            "A": {**array, "shape": [16, 40]}, "B": {**array, "shape": [40, 8]}, "D": {**array, "shape": [16, 8]},
            "a": {**held, "shape": [16, 8]}, "b": {**held, "shape": [8, 8]}, "c": {**held, "shape": [16, 8]},
        },
        "ops": [
            {"fill": {"dst": "c", "value": 0, "scope": "warp"}},
            {"for": {"k": 5}, "do": [
                {"copy": {"src": "A[:, k*8 : +8]", "dst": "a", "scope": "warp"}},
                {"copy": {"src": "B[k*8 : +8]", "dst": "b", "scope": "warp"}}, zeros,
                {"mma": {"a": "a", "b": "b", "c": "c", "scope": "warp", "atom": "mma.m16n8k8"}},
            ]},
            {"copy": {"src": "c", "dst": "D", "scope": "warp"}},
        ],
    }  # fmt: skip
    source = build(spec).source
    assert text in source and "c[f] = 0.0;" in source, "what is no condition's is a zero that everybody sees"


FILL = {"fill": {"scope": "warp", "dst": "c", "value": 0}}
FRAGMENTS = {name: f"mma_fragment('m16n8k16', '{name.upper()}', ({s}))" for name, s in
             {"a": "32, 64", "b": "64, 16", "c": "32, 16"}.items()}  # fmt: skip
SHAPES: dict[str, Any] = {"a": [32, 64], "b": [64, 16], "c": [32, 16]}


def loop(mma: dict[str, Any], count: int = 4) -> dict[str, Any]:
    return {"for": {"i": count}, "unroll": True, "do": [{"mma": {"scope": "warp", "c": "c"} | mma}]}


def test_regions_of_fragments_are_fragments() -> None:
    slices = loop({"a": "a[:, i*16 : +16]", "b": "b[i*16 : +16]"})
    build(warp_spec(FRAGMENTS, FILL, slices))
    rows = loop({"a": "a[i*16 : +16]", "b": "b", "c": "c[i*16 : +16]"}, 2)
    build(warp_spec(FRAGMENTS, FILL, rows))


def test_sums_of_all_rows_and_of_some_are_told_apart() -> None:
    """One product on top of another that has more sums: what is owed of them is not the same."""
    sides = {"a": (64, 32), "b": (32, 16), "c": (64, 16)}
    spec = warp_spec({x: f"mma_fragment('m16n8k16', '{x.upper()}', {n})" for x, n in sides.items()}, FILL)
    for name, buffer in spec["buffers"].items():
        buffer["shape"] = list(sides[name.lower()])
    whole = {"mma": {"scope": "warp", "a": "a[:, 0:16]", "b": "b[0:16, 0:8]", "c": "c[:, 0:8]"}}
    some = {"mma": {"scope": "warp", "a": "a[0:32, 16:32]", "b": "b[16:32, 0:8]", "c": "c[0:32, 0:8]"}}
    spec["ops"][3:3] = [whole, some, whole]
    build(spec)


@pytest.mark.parametrize("atom", ["fma.f32", "mma.m16n8k8.tf32"])
@pytest.mark.parametrize("scope", ["warp", "cta"])
def test_the_threads_of_an_instance_own_what_is_chosen(atom: str, scope: str) -> None:
    """Layouts that are left open are those of the op's scope: each warp multiplies a K of its own."""
    k, is_fused = "warpid*8" if scope == "warp" else "0", atom == "fma.f32"
    buffers: dict[str, Any] = {
        name: {"scope": "global", "dtype": "float32", "shape": shape}
        for name, shape in (("A", [32, 16]), ("B", [16, 32]), ("D", [2 if scope == "warp" else 1, 32, 32]))
    }
    shapes = {"a": [32, 8], "b": [8, 32], "c": [32, 32]}
    buffers |= {x: {"scope": "register", "dtype": "float32", "shape": n, "layout": "auto"} for x, n in shapes.items()}
    tiling = {"atoms": [8, 4, 1], "permutation": ["R=4", "R=2", None]} if is_fused and scope == "warp" else {}
    built = build({
        "kernel": "k", "arch": "sm_90", "threads": 64, "buffers": buffers,
        "ops": [
            {"fill": {"scope": scope, "dst": "c", "value": 0}},
            {"copy": {"scope": scope, "src": f"A[:, {k} : +8]", "dst": "a"}},
            {"copy": {"scope": scope, "src": f"B[{k} : +8]", "dst": "b"}},
            {"mma": {"scope": scope, "a": "a", "b": "b", "c": "c", "atom": atom, **tiling}},
            {"copy": {"scope": scope, "src": "c", "dst": "D[warpid]" if scope == "warp" else "D[0]"}},
        ],
    })  # fmt: skip
    assert ("tx" in str(built.spec.buffers[-1].layout)) == (is_fused and scope == "cta")


@pytest.mark.parametrize(
    ("name", "of", "into"),
    [
        ("mma.m16n8k8", "float64", "float64"),
        ("mma.m16n8k16", "float64", "float64"),
        ("mma.m16n8k8", "float32", "float32"),
        ("mma.m16n8k8", "bfloat16", "float32"),
    ],
)
@pytest.mark.parametrize("atoms", [None, [2, 4, 1]])
def test_a_name_without_types_means_the_operands_own(name: str, of: str, into: str, atoms: list[int] | None) -> None:
    """Its fragments, and what it rounds: the first atom of such a name is of other types."""
    k = int(name.rpartition("k")[2])
    shapes, types = {"a": [32, k], "b": [k, 64], "c": [32, 64]}, {"a": of, "b": of, "c": into}
    buffers: dict[str, Any] = {}
    for x, shape in shapes.items():
        buffers[x.upper()] = {"scope": "global", "dtype": types[x], "shape": shape}
        buffers[x] = {"scope": "register", "dtype": types[x], "shape": shape, "layout": "auto"}
    tiling = {"atoms": atoms} if atoms else {}
    built = build({
        "kernel": "k", "arch": "sm_90", "threads": 256, "buffers": buffers,
        "ops": [
            {"fill": {"dst": "c", "value": 0}}, {"copy": {"src": "A", "dst": "a"}}, {"copy": {"src": "B", "dst": "b"}},
            {"mma": {"a": "a", "b": "b", "c": "c", "atom": name, **tiling}}, {"copy": {"src": "c", "dst": "C"}},
        ],
    })  # fmt: skip
    assert [o.variant for o in built.plan.operations if o.op == "mma"] == ["mma_sync"]


def test_half_of_a_fragment_is_one_of_a_smaller_atom() -> None:
    """What k16 holds in its first registers is what k8 holds (PTX ISA: the fragments of m16n8k16 and m16n8k8)."""
    slices = loop({"a": "a[:, i*8 : +8]", "b": "b[i*8 : +8]"}, 8)
    plan = build(warp_spec(FRAGMENTS, FILL, slices)).plan
    atom = next(c for o in plan.operations for c in o.choices if c.question == "atom")
    assert atom.picked == "mma.m16n8k8.f32.f16.f16.f32"
    assert [(c.value, c.verdict) for c in atom.candidates] == [
        ("mma.m16n8k8.f32.f16.f16.f32", "picked"), ("mma.m16n8k16.f32.f16.f16.f32", "K is 8, no multiple of 16"),
    ]  # fmt: skip


def test_part_of_a_fragment_is_refused() -> None:
    rows = loop({"a": "a[i*8 : +8]", "b": "b", "c": "c[i*8 : +8]"})
    (said,) = refusal_of(SpecError, build, warp_spec(FRAGMENTS, FILL, rows)).diagnostics
    assert said.code == "TG301"
    assert said.message == (
        "no variant can carry out this mma: simt: no atom of simt multiplies float16 by float16 into float32; "
        "mma_sync: mma.m16n8k16.f32.f16.f16.f32: M is 8, no multiple of 16; "
        "mma.m16n8k8.f32.f16.f16.f32: M is 8, no multiple of 16; "
        "wgmma: b must be in shared memory; tcgen05: c must be in tensor memory, not in registers"
    )
    columns = loop({"a": "a[:, i*16 + 4 : +8]", "b": "b[i*16 + 4 : +8]"})
    with pytest.raises(SpecError, match=r"the region a\[:, i\*16 \+ 4 : \+8\] cuts across the iters of a's layout"):
        build(warp_spec(FRAGMENTS, FILL, columns))


def test_a_tile_of_half_an_atom_is_refused_where_its_layouts_are_free() -> None:
    arrays = {"A": ("float16", [16, 8]), "B": ("float16", [8, 8]), "C": ("float32", [16, 8])}
    tiles = {name: {"scope": "global", "dtype": t, "shape": n} for name, (t, n) in arrays.items()}
    tiles |= {n.lower(): {**tile, "scope": "register", "layout": "auto"} for n, tile in tiles.items()}
    moves = [{"copy": {"src": n, "dst": n.lower()}} for n in "AB"]
    product = {"mma": {"a": "a", "b": "b", "c": "c", "atom": "mma.m16n8k16"}}
    ops = [{"fill": {"dst": "c", "value": 0}}, *moves, product, {"copy": {"src": "c", "dst": "C"}}]
    with pytest.raises(SpecError, match="K is 8, no multiple of 16"):
        build({"kernel": "halved", "arch": "sm_80", "threads": 32, "buffers": tiles, "ops": ops})


def test_another_text_of_one_function_is_taken() -> None:
    """The fragments of B transposed twice, of C with a digit split, of A in another order of atoms."""
    texts = {
        "a": "S[(2,2,8,4,2,4,2):(32,2,4@laneid,8,4,1@laneid,1)]",  # as FRAGMENTS has it
        "b": "S[(4,2,2,2,2,2,8):(8,2,2@laneid,1@laneid,1,4,4@laneid)]",
        "c": "S[(2,2,2,4,2,2,2,2):(8,2,16@laneid,4@laneid,4,2@laneid,1@laneid,1)]",
    }
    build(warp_spec(texts, FILL, loop({"a": "a[:, i*16 : +16]", "b": "b[i*16 : +16]"})))


def test_rows_may_be_dealt_out_in_any_way_that_a_and_c_agree_on() -> None:
    """A permutation of M: atom 0 has the even rows."""
    texts = dict(FRAGMENTS)
    texts["a"] = "S[(2,8,2,4,2,4,2):(2,4@laneid,32,8,4,1@laneid,1)]"
    with pytest.raises(SpecError, match="a: not every thread holds, in fragments, what it multiplies and nothing else"):
        build(warp_spec(texts, FILL, {"mma": {"scope": "warp", "a": "a", "b": "b", "c": "c"}}))
    texts["c"] = "S[(2,8,2,2,4,2):(2,4@laneid,8,4,1@laneid,1)]"
    build(warp_spec(texts, FILL, {"mma": {"scope": "warp", "a": "a", "b": "b", "c": "c"}}))


def test_the_layout_that_would_fit_is_named_and_fits() -> None:
    """What the error says is pasted, operand by operand, until it builds."""
    atom = next(a for a in USED if a.name == "mma.m16n8k16.f32.f16.f16.f32")
    spec = make_spec(atom)
    tile = (64, 16, 32)
    rows = {"a": "S[(64,32):(1@tx,1)]", "b": "S[(32,16):(1@tx,1)] + R[2:32@tx]", "c": "S[(64,16):(1@tx,1)]"}
    for name, text in rows.items():
        spec["buffers"][name]["layout"] = text
    fixed = []
    for _ in range(4):
        try:
            build(spec)
            break
        except SpecError as error:
            (said,) = error.diagnostics
            text = said.message.partition('this would fit: layout: "')[2].partition('"')[0]
            name = said.message.partition("; for ")[2].partition(" ")[0]
            assert text.startswith("tiled_mma('mma.m16n8k16.f32.f16.f16.f32', (2, 1, 1), None,") and str(tile) in text
            spec["buffers"][name]["layout"] = text
            fixed.append(name)
    assert sorted(fixed) == ["a", "b", "c"]


# ---------------------------------------------------------------- what is refused
REFUSED = {
    "b in shared memory": (
        {"b": "sb"},
        "b must be in registers, not in shared memory: only wgmma and tcgen05 read shared memory",
    ),
    "wgmma": ({"atom": "wgmma.m64n16k16"}, "the atom wgmma.m64n16k16 is wgmma's"),
    "an atom of the other kind": ({"atom": "mma.m16n8k16", "variant": "simt"}, "no atom of simt multiplies float16"),
    "c read too": ({"b": "c2", "c": "c2"}, "c2 cannot be multiplied and updated at once"),
    "atoms that lie otherwise": (
        {"atom": "mma.m16n8k16", "atoms": [1, 2, 1]},
        "'atoms' and 'permutation' give its elements to other threads or registers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_says_why(what: str) -> None:
    changes, message = REFUSED[what]
    spec = make_spec(next(a for a in USED if a.name == "mma.m16n8k16.f32.f16.f16.f32"))
    spec["buffers"]["sb"] = {"scope": "shared", "dtype": "float16", "shape": [32, 16]}
    layout = "tiled_mma('mma.m16n8k16', (2, 1, 1), None, 'B', (16, 16, 16))"
    spec["buffers"]["c2"] = {"scope": "register", "dtype": "float16", "shape": [16, 16], "layout": layout}
    mma = {"a": "a", "b": "b", "c": "c"} | changes
    if what == "c read too":
        mma["a"] = "a[0:16, 0:16]"
    spec["ops"][3] = {"mma": mma}
    caught = refusal_of(SpecError, build, spec)
    assert any(message in d.message for d in caught.diagnostics), caught.diagnostics


def test_archs_and_types_that_an_atom_needs() -> None:
    eight = next(a for a in USED if a.name == "mma.m16n8k32.f32.e4m3.e5m2.f32")
    with pytest.raises(SpecError, match=r"it needs sm_89, sm_80 has it not"):
        build(make_spec(eight) | {"arch": "sm_80"})
    double = next(a for a in USED if a.name == "mma.m16n8k8.f64.f64.f64.f64")
    with pytest.raises(SpecError, match=r"it needs sm_90, sm_89 has it not"):
        build(make_spec(double) | {"arch": "sm_89"})
    tf32 = next(a for a in USED if a.name == "mma.m16n8k8.f32.tf32.tf32.f32")
    with pytest.raises(SpecError, match=r"no atom of mma_sync multiplies float32 .* as tf32 it does where 'atom' says"):
        build(make_spec(tf32, {"atom": "auto"}))
    half = next(a for a in USED if a.name == "mma.m16n8k16.f32.f16.f16.f32")
    with pytest.raises(SpecError, match=r"whole warps multiply together, and the CTA has 65 threads"):
        build(make_spec(half) | {"threads": 65})


# ---------------------------------------------------------------- planted faults
def scaled(ref: Ref, name: str, by: int) -> Ref:
    """A place where the loop variable ``name`` moves no more: a number stands for it."""
    return Ref(ref.memory, tuple(substitute(x, {name: by}) for x in ref.at))


FAULTS: dict[str, Callable[[Mma], Step]] = {
    "the first slice of K of a every time": lambda s: replace(s, a=scaled(s.a, "k_atom", 0)),
    "the first slice of K twice, the last never": lambda s: replace(
        s, a=scaled(s.a, "k_atom", 0), b=scaled(s.b, "k_atom", 0)
    ),
    "the fragment of another row of atoms": lambda s: replace(s, a=scaled(s.a, "m_atom", 1)),
    "the fragment of another column of atoms": lambda s: replace(s, b=scaled(s.b, "n_atom", 0)),
    "one accumulator for all": lambda s: replace(s, c=scaled(s.c, "n_atom", 0)),
    "the accumulator as N by M": lambda s: replace(s, c=swapped(s.c)),
    "a fragment that begins at the next pair": lambda s: replace(s, b=Ref(s.b.memory, (s.b.at[0] + 2,))),
    "another instruction of those types": lambda s: replace(s, via=ROWS["mma.m16n8k8.f32.f16.f16.f32"]),
}


def swapped(ref: Ref) -> Ref:
    (x,) = ref.at
    m, n = (next(v for v in variables(x) if v.name == f"{d}_atom") for d in "mn")
    return Ref(ref.memory, (substitute(x, {"m_atom": n, "n_atom": m}),))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    built = built_of(next(a for a in USED if a.name == "mma.m16n8k16.f32.f16.f16.f32"))
    prove(built.spec, built.plan)
    with pytest.raises(ProofError):
        prove(built.spec, mutate(built.plan, is_a(Mma), lambda s: (FAULTS[fault](s),)))


@pytest.mark.parametrize("count", [1, 3])
def test_a_slice_of_k_left_out_or_taken_twice_is_found(count: int) -> None:
    built = built_of(next(a for a in USED if a.name == "mma.m16n8k16.f32.f16.f16.f32"))

    wrong = mutate(
        built.plan, lambda s: isinstance(s, Repeat) and s.var.name == "k_atom",
        turn(count=count, var=Var("k_atom", count)),
    )  # fmt: skip
    with pytest.raises(ProofError):
        prove(built.spec, wrong)


# ---------------------------------------------------------------- multiply
def test_integers_wrap() -> None:
    a, b = np.full((1, 2), 2**30, np.int32), np.array([[3], [1]], np.int32)
    assert multiply(a, b, np.array([[5]], np.int32), "int32", "int32").tolist() == [[5]]
    most = np.full((1, 32), 127, np.int8)
    total = multiply(most, most.T, np.array([[2**31 - 1]], np.int32), "int8", "int32")
    assert total.tolist() == [[2**31 - 1 + 32 * 127 * 127 - 2**32]]


def test_tfloat32_keeps_ten_bits_of_the_mantissa() -> None:
    x = RNG.standard_normal(1000).astype(np.float32) * np.float32(2.0) ** RNG.integers(-60, 60, 1000).astype(np.float32)
    rounded = round_to_tfloat32(x)
    mantissa, exponent = np.frexp(x.astype(np.float64))
    scaled_up = mantissa * 2**11
    nearest = np.sign(scaled_up) * np.floor(np.abs(scaled_up) + 0.5)
    assert np.array_equal(rounded.astype(np.float64), np.ldexp(nearest, exponent - 11))
    special = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    assert np.array_equal(round_to_tfloat32(special), special, equal_nan=True)


def test_a_float_sum_is_rounded_once() -> None:
    a, b = np.array([[2048.0, 1.0, 1.0]], np.float16), np.ones((3, 1), np.float16)
    assert multiply(a, b, np.zeros((1, 1), np.float16), "float16", "float16").tolist() == [[2050.0]]
