"""Plans that compute something else than the spec: with bits of another type, in some CTAs, trips or sizes alone, for
values that no draw has, or in a type that does not hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tilegen
from tests.faults.parts import change_parts, rewrite
from tests.faults.steps import is_a, mutate
from tests.faults.verdicts import proof_code
from tests.proofs.test_few_ctas import refuses
from tilegen.arithmetic import Apply, Element, Literal, Node, Parameter, Whole
from tilegen.index import Index, Var, every, less
from tilegen.ops.mma.atoms import ROWS
from tilegen.plan import Compute, Memory, Mma, Plan, When
from tilegen.planner import plan_spec
from tilegen.proofs import prove

CAST = """kernel: cast
threads: 128
grid: {bx: 4}
buffers:
  X: {scope: global, dtype: %s, shape: [4, 1024]}
  Y: {scope: global, dtype: %s, shape: [4, 1024]}
  h: {scope: register, dtype: %s, shape: [8]}
  f: {scope: register, dtype: %s, shape: [8]}
ops:
  - copy: {scope: thread, src: "X[bx, tx*8 : +8]", dst: h}
  - cast: {scope: thread, src: h, dst: f}
  - copy: {scope: thread, src: f, dst: "Y[bx, tx*8 : +8]"}
"""
COMPUTED = """kernel: computed
threads: 32
params: {z: {dtype: float32, default: 0.5}%s}
%s
buffers:
  X: {scope: global, dtype: %s, shape: [%s, 32]}
  Y: {scope: global, dtype: float32, shape: [%s, 32], partial: true}
  h: {scope: register, dtype: %s, shape: [1]}
  f: {scope: register, dtype: float32, shape: [1]}
ops:
%s"""
STEPS = """- copy: {scope: thread, src: "X[%s, tx : +1]", dst: h}
- elementwise: {scope: thread, dst: f, expr: "h * z + 1.5"}
- copy: {scope: thread, src: f, dst: "Y[%s, tx : +1]"}
"""


def indent(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def in_ctas(dtype: str = "float32", rows: int | str = 1000, params: str = "") -> str:
    return COMPUTED % (params, "grid: {bx: 1000}", dtype, rows, rows, dtype, indent(STEPS % ("bx", "bx"), 2))


def in_trips() -> str:
    loop = f"  - for: {{t: 100}}\n    do:\n{indent(STEPS % ('t', 't'), 6)}"
    return COMPUTED % ("", "", "float32", 100, 100, "float32", loop)


def finds(text: str, change: Callable[[Any], Any]) -> bool:
    """Is the spec proved as it is planned, and not with its steps and memories changed?"""
    spec = tilegen.load(text)
    plan = plan_spec(spec)
    wrong = change_parts(plan, change, "roles", "memories")
    return refuses(spec, wrong)


def registers_of(dtype: str, other: str) -> Callable[[Any], Any]:
    def change(x: Any) -> Any:
        is_register = (isinstance(x, Memory) and x.space == "register") or isinstance(x, Element)
        return replace(x, dtype=other) if is_register and x.dtype == dtype else None

    return change


@pytest.mark.parametrize(
    ("src", "dst", "other"),
    [
        ("float16", "float32", "bfloat16"), ("uint8", "float32", "int8"), ("int32", "float32", "uint32"),
        ("float32", "float16", "int32"), ("float32", "int8", "uint32"), ("float8_e4m3fn", "float32", "float8_e5m2"),
    ],
)  # fmt: skip
def test_a_cast_from_another_type_of_the_same_size_is_found(src: str, dst: str, other: str) -> None:
    assert finds(CAST % (src, dst, src, dst), registers_of(src, other))


@pytest.mark.parametrize(("dtype", "other"), [("float16", "bfloat16"), ("float8_e4m3fn", "float8_e5m2")])
def test_an_element_that_is_read_as_another_type_is_found(dtype: str, other: str) -> None:
    assert finds(in_ctas(dtype), lambda x: replace(x, dtype=other) if isinstance(x, Element) else None)


MMA = """kernel: mma
arch: sm_80
threads: 32
grid: {bx: 16}
buffers:
  A: {scope: global, dtype: %s, shape: [16, 16, K]}
  B: {scope: global, dtype: %s, shape: [K, 8], layout: col}
  D: {scope: global, dtype: %s, shape: [16, 16, 8]}
  a: {scope: register, dtype: %s, shape: [16, K], layout: "mma_fragment('m16n8kK', 'A')"}
  b: {scope: register, dtype: %s, shape: [K, 8], layout: "mma_fragment('m16n8kK', 'B')"}
  c: {scope: register, dtype: %s, shape: [16, 8], layout: "mma_fragment('m16n8kK', 'C')"}
ops:
  - copy: {scope: warp, src: "A[bx]", dst: a}
  - copy: {scope: warp, src: B, dst: b}
  - fill: {scope: warp, dst: c, value: 0}
  - mma: {scope: warp, a: a, b: b, c: c}
  - copy: {scope: warp, src: c, dst: "D[bx]"}
"""


@pytest.mark.parametrize(
    ("dtype", "acc", "k", "other", "row"),
    [
        ("float16", "float32", 16, "bfloat16", "mma.m16n8k16.f32.bf16.bf16.f32"),
        ("uint8", "int32", 32, "int8", "mma.m16n8k32.s32.s8.s8.s32"),
    ],
)
def test_a_product_of_another_type_of_the_same_size_is_found(
    dtype: str, acc: str, k: int, other: str, row: str
) -> None:
    text = (MMA % (dtype, dtype, acc, dtype, dtype, acc)).replace("K", str(k))
    to_other = registers_of(dtype, other)

    def change(x: Any) -> Any:
        if isinstance(x, Mma):
            return replace(x, via=ROWS[row], a=rewrite(x.a, to_other), b=rewrite(x.b, to_other))
        return to_other(x)

    assert finds(text, change)


INTEGERS = """kernel: integers
threads: 128
buffers:
  X: {scope: global, dtype: int32, shape: [128]}
  V: {scope: global, dtype: int64, shape: [128]}
  Y: {scope: global, dtype: int64, shape: [128]}
  h: {scope: register, dtype: int32, shape: [1]}
  v: {scope: register, dtype: int64, shape: [1]}
ops:
  - copy: {scope: thread, src: "X[tx : +1]", dst: h}
  - copy: {scope: thread, src: "V[tx : +1]", dst: v}
  - elementwise: {scope: thread, dst: v, expr: "v * h * h"}
  - copy: {scope: thread, src: v, dst: "Y[tx : +1]"}
"""


def test_a_product_in_a_type_that_does_not_hold_it_is_found() -> None:
    def change(x: Any) -> Any:
        if not isinstance(x, Compute):
            return None
        dtypes = [src.memory.dtype for src in x.srcs]
        h, v = (Element(dtypes.index(dtype), dtype) for dtype in ("int32", "int64"))
        narrow = Apply("int64", (Apply("*", (h, h), "int32"),), "int64")
        return replace(x, tree=Apply("*", (v, narrow), "int64"))

    assert finds(INTEGERS, change)


def zero_where(whole: Index | None, condition: Node) -> Callable[[Any], Any]:
    """Each value is 0 where a condition holds, of which ``Whole(9)`` is the integer."""

    def change(x: Any) -> Any:
        if not isinstance(x, Compute):
            return None
        wholes = x.wholes if whole is None else (*x.wholes, whole)
        own = rewrite(condition, lambda n: Whole(len(x.wholes)) if n == Whole(9) else None)
        return replace(x, wholes=wholes, tree=Apply("where", (own, Literal(0.0, "float32"), x.tree), "float32"))

    return change


def between(low: int, high: int) -> Node:
    ends = Apply("<", (Literal(low, "int32"), Whole(9)), "bool"), Apply("<", (Whole(9), Literal(high, "int32")), "bool")
    return Apply("and", ends, "bool")


@pytest.mark.parametrize(("low", "high"), [(1, 998), (76, 78), (300, 302)])
def test_ctas_that_a_tree_tells_apart_are_found(low: int, high: int) -> None:
    assert finds(in_ctas(), zero_where(Var("bx", 1000), between(low, high)))


@pytest.mark.parametrize("function", ["sqrt", "exp"])
def test_ctas_that_a_float_tells_apart_are_found(function: str) -> None:
    far = Apply(function, (Apply("float32", (Whole(9),), "float32"),), "float32")
    assert finds(in_ctas(), zero_where(Var("bx", 1000), Apply("<", (far, Literal(20.0, "float32")), "bool")))


def test_sizes_that_a_tree_tells_apart_are_found() -> None:
    text = in_ctas(rows="M + 1000", params=", M: {default: 300, max: 1048576}")
    m = next(p.var for p in tilegen.load(text).params if p.var is not None)
    assert finds(text, zero_where(m, between(300, 900000)))


@pytest.mark.parametrize("compared", [Element(0, "float32"), Parameter("z")])
def test_a_value_that_no_draw_has_is_found(compared: Node) -> None:
    assert finds(in_ctas(), zero_where(None, Apply("==", (compared, Literal(7.5, "float32")), "bool")))


def lose_digits(x: Compute) -> Compute:
    """All that an exact run knows is as it was."""
    big = Literal(2.0**30, "float32")
    return replace(x, tree=Apply("-", (Apply("+", (x.tree, big), "float32"), big), "float32"))


def lossy_where(plan: Plan, condition: Index, others: tuple[Index, ...]) -> Plan:
    def change(x: Compute) -> tuple[When, ...]:
        return (When(condition, (lose_digits(x),)), *(When(other, (x,)) for other in others))

    return mutate(plan, is_a(Compute), change)


def test_digits_that_are_lost_in_some_trips_or_ctas_are_found() -> None:
    t, bx = Var("t", 100), Var("bx", 1000)
    for text, some, others in (
        (in_trips(), every(less(4, t), less(t, 95)), (less(t, 5), less(94, t))),
        (in_ctas(), less(bx, 999), (less(998, bx),)),
    ):
        spec = tilegen.load(text)
        plan = lossy_where(plan_spec(spec), some, others)
        assert proof_code(lambda spec=spec, plan=plan: prove(spec, plan)) == "TG427"  # type: ignore[misc]
