"""What an operator takes and makes: schemas, sizes as formulas, forms of results, beside what a call finds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from drawn_indices import draw_value
from hypothesis import given, settings
from hypothesis import strategies as st
from specs.kernels import every_spec, small_spec

from operators.page import ADD, DW, DX, RMSNORM, SQUARE, copy_spec
from operators.pretended import Fake, Symbol, tracing
from tests.faults.verdicts import refusal_of
from tests.session import examples
from tilegen import load
from tilegen.calling import terms_of
from tilegen.errors import CallError
from tilegen.gpu.call.arrays import Seen
from tilegen.gpu.call.kind_of_call import form_of_output
from tilegen.gpu.call.params import solve_params
from tilegen.index import Var, evaluate
from tilegen.operators.registering import make_fake
from tilegen.operators.signature import (
    OperatorSignature,
    check_tensors,
    derive_signature,
    form_results,
    give_parts,
    qualify_name,
)
from tilegen.operators.sizes import TensorForm, can_compute, compute, form_of, solve_sizes, split_linear
from tilegen.proofs.meaning import parameter_cases

PITCHED = "params: {M: {default: 4, max: 64}, N: {default: 8, max: 64}, ldx: {default: 8, max: 512}}\n"


def derive(source: Any) -> OperatorSignature:
    return derive_signature("mine::op", load(source))


@pytest.mark.parametrize(
    ("source", "schema"),
    [
        (RMSNORM, "(Tensor X, Tensor W, *, float eps=1e-06) -> Tensor"),
        (DX, "(Tensor X, Tensor W, Tensor dY, *, float eps=1e-06) -> (Tensor, Tensor)"),
        (DW, "(Tensor X, Tensor dY, Tensor R) -> Tensor"),
        (ADD, "(Tensor X, Tensor(a0!) Y) -> ()"),
        (copy_spec("shape: [M, N], layout: 'S[(M,N):(ldx,1)]'", "shape: [M, N], partial: true", PITCHED),
         "(Tensor X, Tensor(a0!) Y) -> ()"),
        (copy_spec("shape: [4, 8]", "shape: [4, 8], layout: 'S[(4,8):(ldx,1)]'",
                   "params: {ldx: {default: 8, max: 512}}\n"), "(Tensor X, *, SymInt ldx) -> Tensor"),
        (SQUARE.replace("default: 1.0", "default: .inf"), "(Tensor X, *, float? c=None) -> Tensor"),
        (SQUARE.replace("default: 1.0", "default: -2.5"), "(Tensor X, *, float c=-2.5) -> Tensor"),
        ("specs/dropout.yaml", "(Tensor X, *, int seed=1234, int stream=0, int offset=0, "
         "int keep=3865470566, float scale=1.1111111) -> Tensor"),
    ],
    ids=["rmsnorm", "dx", "dw", "inout", "partial", "pitch", "infinite", "negative", "bits"],
)  # fmt: skip
def test_schemas(source: Any, schema: str) -> None:
    assert derive(source).schema == schema


# ---------------------------------------------------------------- laws
@pytest.mark.sweep(8)
@every_spec
def test_sizes_and_results_are_those_of_a_call(path: Path) -> None:
    """Of arrays as a call brings them, an operator finds the parameters and forms the results that the call does."""
    draft = small_spec(path)
    terms = give_parts(draft.spec, terms_of(draft.spec, draft.plan))
    signature = derive_signature("mine::op", draft.spec)
    assert signature.terms.arrays == terms.arrays
    assert {a.name for a in signature.given} | {a.name for a in signature.results} == {a.name for a in terms.arrays}
    for case in parameter_cases(draft.spec):
        tensors = [TensorForm(*form_of_output(a, case)) for a in signature.given]
        asked = {p.name: case[p.name] for p in signature.asked if p.var is not None}
        found = solve_sizes(signature.measures, tensors, asked)
        assert found == {p.name: case[p.name] for p in terms.params if p.var is not None}
        forms = form_results(signature, tensors, asked)
        assert [(f.shape, f.strides) for f in forms] == [form_of_output(a, case) for a in signature.results]


@pytest.mark.sweep(8)
@every_spec
def test_a_traced_graph_fixes_no_size(path: Path) -> None:
    """A fake kernel over symbols asks for the value of none; its sizes, evaluated, are those of the call."""
    draft = small_spec(path)
    signature = derive_signature("mine::op", draft.spec)
    case = parameter_cases(draft.spec)[0]
    values, tensors = {}, []
    for a in signature.given:
        form = form_of(a)
        sides: list[list[Any]] = []
        for what, side in (("shape", form.shape), ("stride", form.strides)):
            sides.append([n if isinstance(n, int) else Symbol(f"{a.name}_{what}{d}") for d, n in enumerate(side)])
            values |= {f"{a.name}_{what}{d}": int(evaluate(n, case)) for d, n in enumerate(side)}
        tensors.append(Fake(*sides, dtype=a.dtype))
    torch = tracing()
    for a in signature.results:
        setattr(torch, a.dtype, a.dtype)
    asked = {p.name: case[p.name] for p in signature.asked if p.var is not None}
    made = make_fake(torch, signature)(*tensors, **asked)
    made = () if made is None else made if isinstance(made, tuple) else (made,)
    for one, array in zip(made, signature.results, strict=True):
        shape, strides = ([eval(str(n), {**values}) for n in side] for side in (one.shape, one.strides))
        assert (tuple(shape), tuple(strides)) == form_of_output(array, case)
        assert one.dtype == array.dtype and one.device is tensors[0].device


LEAVES = (Var("M", 60, least=1), Var("N", 50, least=1), Var("k", 9))


@settings(max_examples=examples(150), deadline=None)
@given(st.randoms(use_true_random=False))
def test_plain_arithmetic_is_what_the_text_says(rng: random.Random) -> None:
    x = draw_value(rng, LEAVES, 3, 16)
    values = {v.name: rng.randrange(v.least, v.bound) for v in LEAVES}
    if can_compute(x):
        assert compute(x, values) == evaluate(x, values)
    for name in values:
        if parts := split_linear(x, name):
            scale, rest = (evaluate(part, values) for part in parts)
            assert evaluate(x, values) == scale * values[name] + rest
            assert not {name} & {v.name for part in parts for v in LEAVES if name in str(part).split()}


def test_what_an_operator_solves_a_call_solves_too() -> None:
    """A pitch from a stride, a size behind a factor and a sum: the kernel's own search finds the same values."""
    sizes = "params: {M: {default: 4, max: 64}, N: {default: 8, max: 64}, ldx: {default: 8, max: 512}}\n"
    signature = derive(copy_spec("shape: [2*M, N + 3], layout: 'S[(2*M,N + 3):(ldx,1)]'", "shape: [M*N, 8]", sizes))
    x = TensorForm((12, 11), (40, 1))
    assert solve_sizes(signature.measures, [x], {}) == {"M": 6, "N": 8, "ldx": 40}
    assert form_results(signature, [x], {}) == (TensorForm((48, 8), (8, 1)),)
    from tilegen.gpu.call.checking import measure_array

    seen = Seen((12, 11), (40, 1), "float32", 0, 0)
    values, found = solve_params(signature.terms.params, {}, measure_array(signature.given[0], seen), "move")
    assert not found and values == {"M": 6, "N": 8, "ldx": 40}


# ---------------------------------------------------------------- what is refused
def refused(call: Any, *given: Any) -> str:
    return str(refusal_of(CallError, call, *given))


def test_what_is_no_operator() -> None:
    fill = ("kernel: zero\narch: sm_80\nthreads: 32\nbuffers:\n  Y: {scope: global, dtype: float32, shape: [64]}\n"
            "ops:\n  - fill: {scope: warp, dst: Y, value: 0}\n")  # fmt: skip
    assert "TG715: mine::op: zero writes Y and takes no tensor" in refused(derive, fill)
    for name in ("a::b::c", "a.b", "", "my op", 5):
        assert "TG715" in refused(qualify_name, name)


def test_what_a_fake_kernel_refuses() -> None:
    fake = make_fake(tracing(), derive(RMSNORM))
    n = Symbol("n")
    x, w = Fake((n, 4096), (4096, 1), "bfloat16"), Fake((4096,), (1,), "bfloat16")
    made = fake(x, w, eps=1e-5)
    assert (str(made.shape[0]), made.shape[1], made.dtype) == ("n", 4096, "bfloat16")
    assert fake(Fake((n, n), (n, 1), "bfloat16"), w).dtype == "bfloat16"  # a symbol is not asked
    for wrong, code in (
        (Fake((n, 4096), (4096, 1)), "TG703"), (Fake((n, 100), (100, 1), "bfloat16"), "TG704"),
        (Fake((n, 4, 1024), (4096, 1024, 1), "bfloat16"), "TG704"),
        (Fake((n, 4096), (4096, 1), "bfloat16", "cpu"), "TG702"),
    ):  # fmt: skip
        text = refused(fake, wrong, w)
        assert f"rmsnorm.yaml:8:3: {code}: rmsnorm: X" in text, text


def test_all_that_is_wrong_is_said_at_once() -> None:
    seen = [Seen((4, 4096), (4096, 1), "float32", 0, 0), Seen((4, 4096), (4096, 1), "bfloat16", 0, 0)]
    lines = refused(check_tensors, derive(RMSNORM), seen).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["TG703", "TG704"]
