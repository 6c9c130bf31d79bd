"""Products whose A lies in tensor memory, of every kind: registers go there, and are multiplied there."""

from __future__ import annotations

import pytest

from tests.faults.texts import change_text
from tests.faults.verdicts import build_codes, refusal_of
from tests.nvcc.compile import compile_text, requires_nvcc
from tests.ptx.kernels import requires_nvrtc
from tilegen.errors import SpecError
from tilegen.pipeline import build, load
from tilegen.plan import TensorMma, effects, flatten
from tilegen.planner import plan_spec
from tilegen.render import render
from tilegen.verifying.devices import verify

KINDS = {  # types of A, B and C, elements along K, the atom where it must be named
    "bf16": ("bfloat16", "bfloat16", "float32", 64, ""),
    "f16": ("float16", "float16", "float32", 64, ""),
    "tf32": ("float32", "float32", "float32", 32, ", atom: tcgen05.m128n64k8.f32.tf32.tf32"),
    "s8": ("int8", "int8", "int32", 128, ""),
    "u8 by s8": ("uint8", "int8", "int32", 64, ""),
    "e4m3 by e5m2": ("float8_e4m3fn", "float8_e5m2", "float32", 128, ""),
}


def write(kind: str) -> str:
    return write_product(*KINDS[kind])


def write_product(a: str, b: str, c: str, k: int, atom: str) -> str:
    return f"""kernel: k
arch: sm_100a
threads: 128
buffers:
  A: {{scope: global, dtype: {a}, shape: [128, {k}]}}
  B: {{scope: global, dtype: {b}, shape: [{k}, 64], layout: col}}
  C: {{scope: global, dtype: {c}, shape: [128, 64]}}
  sb: {{scope: shared, dtype: {b}, shape: [{k}, 64], layout: auto}}
  ta: {{scope: tmem, dtype: {a}, shape: [128, {k}], layout: "S[(128, {k}):(1@TLane, 1@TCol)]"}}
  acc: {{scope: tmem, dtype: {c}, shape: [128, 64], layout: "S[(128, 64):(1@TLane, 1@TCol)]"}}
  r: {{scope: register, dtype: {a}, shape: [128, {k}], layout: auto}}
  x: {{scope: register, dtype: {c}, shape: [128, 64], layout: auto}}
barriers: {{full: {{slots: 1}}, done: {{slots: 1}}}}
ops:
  - copy: {{src: B, dst: sb, variant: tma, barrier: full}}
  - copy: {{src: A, dst: r}}
  - copy: {{src: r, dst: ta}}
  - sync: cta
  - wait: {{barrier: full}}
  - mma: {{a: ta, b: sb, c: acc, accumulate: false, async: true{atom}}}
  - commit: {{barrier: done}}
  - wait: {{barrier: done}}
  - copy: {{src: acc, dst: x}}
  - copy: {{src: x, dst: C}}
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_product_of_every_kind_is_proved(kind: str) -> None:
    """Against the meaning of the spec, whose A is the array's."""
    products = [s for s in flatten(plan_spec(load(write(kind))).roles[0].steps) if isinstance(s, TensorMma)]
    assert products and {s.via.name for s in products} == {f"{products[0].via.name.removesuffix('.cells')}.cells"}
    (read,) = {t.elems for s in products for t in effects(s).touches if t.ref is s.a}
    assert read == products[0].b_lies.depth
    build(write(kind))


@requires_nvcc
@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", KINDS)
def test_it_compiles(kind: str) -> None:
    text = render(plan_spec(load(write(kind))))
    assert " [%0], [%1], %2, %3, adds;" in text
    report = compile_text(text, "sm_100a")
    assert (report.stack, report.spills) == (0, 0), report


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("  - sync: cta\n", "", {"TG403"}),  # the stores of other warps
        ("  - wait: {barrier: done}\n", "", {"TG422"}),
        ("  - copy: {src: r, dst: ta}\n", "", {"TG404"}),
    ],
)
def test_a_statement_less_is_found(old: str, new: str, codes: set[str]) -> None:
    assert build_codes(change_text(write("bf16"), (old, new))) == codes


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("S[(128, 64):(1@TLane, 1@TCol)]", "S[(128, 64):(1@TLane, 2@TCol)]", "column n of a product is n columns on"),
        ("a: ta, b: sb, c: acc", "a: r, b: sb, c: acc", "a must be in shared or tensor memory, not in registers"),
    ],
)
def test_a_that_no_product_reads_is_refused(old: str, new: str, said: str) -> None:
    text = change_text(write("bf16"), (old, new), most=1)
    found = refusal_of(SpecError, build, text).diagnostics
    assert any(said in d.message for d in found), found


@requires_nvrtc
@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_kernel_does_what_the_spec_means(kind: str) -> None:
    """On the machine of PTX, which knows nothing of plans."""
    assert verify(write(kind), device="ptx", seeds=[1]).device == "ptx"


def test_sums_of_one_buffer_are_none_of_another_on_its_columns() -> None:
    """The same thread adds to the same columns, in the same shape, under another name."""
    acc = '  acc: {scope: tmem, dtype: float32, shape: [128, 64], layout: "S[(128, 64):(1@TLane, 1@TCol)]"}\n'
    other, multiply = acc.replace("acc:", "other:").replace("}", ", over: [acc]}"), "  - mma: {a: ta, b: sb, c: acc, "
    first = multiply + "accumulate: false, async: true}\n"
    text = change_text(write("bf16"), (acc, acc + other), ("src: acc", "src: other"))
    again = change_text(text, (first, first + first.replace("acc, acc", "other, acc").replace("false", "true")))
    assert build_codes(again) == {"TG404"}
    afresh = change_text(again, ("c: other, accumulate: true", "c: other, accumulate: false"))
    assert build_codes(afresh) == {"TG422"}  # nothing says that products of two buffers follow one another
