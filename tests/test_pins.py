"""Fields of ops that pin what is chosen: what can be had is had and said, what cannot is refused at its own place."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from specs.kernels import draft

from tests.faults.verdicts import refusal_of
from tilegen.errors import SpecError
from tilegen.ops import OPS
from tilegen.pipeline import build
from tilegen.report import resolved_text
from tilegen.spec.pinning import spell

SPECS = Path(__file__).parents[1] / "specs"
PAGE = SPECS.parent / "docs" / "spec.md"
SPEC = """\
kernel: pins
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [64, 64]}
  Y: {scope: global, dtype: float32, shape: [64, 64]}
  H: {scope: global, dtype: bfloat16, shape: [64, 64]}
  P: {scope: global, dtype: int32, shape: [256], values: "0 : 64"}
  Q: {scope: global, dtype: float32, shape: [64]}
  x: {scope: shared, dtype: float32, shape: [256]}
  O: {scope: global, dtype: int8, shape: [64, 65]}
  o: {scope: shared, dtype: int8, shape: [64, 64]}
  s: {scope: shared, dtype: float32, shape: [64, 64]}
  u: {scope: shared, dtype: float32, shape: [64, 64]}
  v: {scope: shared, dtype: float32, shape: [32, 4]}
  w: {scope: shared, dtype: float32, shape: [32, 4], layout: "S[(32, 4):(1, 32)]"}
  turned: {view: s, axes: [1, 0]}
  f: {scope: shared, dtype: float16, shape: [16, 8]}
  r: {scope: register, dtype: float32, shape: [64, 64], layout: "S[(32, 2, 16, 4):(1@laneid, 64, 4, 1)]"}
  q: {scope: register, dtype: float32, shape: [64, 1], layout: "S[(32, 2):(1, 16@laneid)] + R[16:1@laneid]"}
  m: {scope: register, dtype: float16, shape: [16, 8], layout: "mma_fragment('m16n8k16', 'B', (16, 8))"}
ops:
  - OP
"""


@dataclass(frozen=True)
class Pinned:
    """An op in which ``@`` stands for a pin; a value that it can have, one that it cannot, and what is named then."""

    op: str
    pin: str
    good: Any
    bad: Any
    nearest: Any

    @property
    def variant(self) -> tuple[str, str]:
        """The op and the variant; the only one in memory where the op's fields name none."""
        name = self.op.split(":")[0]
        found = re.search(r"variant: (\w+)", self.op)
        return name, found[1] if found else next(v.name for v in OPS[name].variants if self.pin in v.pins)

    def write(self, value: Any) -> str:
        return SPEC.replace("OP", self.op.replace("@", f"{self.pin}: {spell(value)}"))


PERMUTE = "permute_layout: {scope: warp, src: v, dst: w, @, variant: "
TURN = "copy: {src: X, dst: turned, @, variant: register_tile}"
ADD = "scatter: {src: x, index: P, dst: Q, accumulate: add, @}"
TAKE = "gather: {src: Q, index: P, dst: x, @}"
ALONG = {"inner": "src", "along_src": 8, "along_dst": 4}
PINNED = [
    Pinned("copy: {src: X, dst: s, @, variant: gmem_smem}", "width", [2, 4], 16, 4),
    Pinned("copy: {src: X, dst: s, @, variant: gmem_smem}", "partition", "row-major", "rows", "row-major"),
    Pinned("copy: {src: s, dst: u, @, variant: smem_smem}", "width", 2, [4, 3], 4),
    Pinned("copy: {src: s, dst: u, @, variant: smem_smem}", "partition", "row-major", "column", "row-major"),
    Pinned("copy: {src: X, dst: Y, @, variant: gmem_gmem}", "width", 1, 5, 4),
    Pinned("copy: {src: X, dst: Y, @, variant: gmem_gmem}", "partition", "row-major", "Y", "row-major"),
    Pinned('copy: {src: "X[:, 1:]", dst: "s[:, :63]", @, variant: shifted}', "width", 2, 8, 4),
    Pinned('copy: {src: o, dst: "O[:, 1:]", @, variant: row_vectors}', "width", [1, 4], [1, 3], [1, 4]),
    Pinned("copy: {src: X, dst: s, @, variant: scalar}", "width", 1, 4, 1),
    Pinned("copy: {src: X, dst: s, @, variant: scalar}", "partition", "row-major", "X's strides", "row-major"),
    Pinned("copy: {src: X, dst: s, @, async: true, variant: cp_async}", "width", 2, 8, 4),
    Pinned("copy: {src: X, dst: s, @, async: true, variant: cp_async}", "partition", "row-major", "s", "row-major"),
    Pinned("copy: {scope: warp, src: X, dst: r, @, variant: reg}", "width", 2, [2, 4], 2),
    Pinned("copy: {scope: warp, src: f, dst: m, @, variant: ldstmatrix}", "matrices", 1, 4, 2),
    Pinned(TURN, "tile", [2, 4], [3, 4], [4, 4]),
    Pinned(TURN, "lanes", ALONG, ALONG | {"along_src": 7}, ALONG),
    Pinned("cast: {scope: warp, src: H, dst: r, @}", "width", 2, 3, 4),
    Pinned("elementwise: {dst: Y, expr: X + 1.0, @}", "width", 2, 8, 4),
    Pinned("reduce: {scope: warp, src: X, dst: q, axis: 1, op: sum, @}", "width", 2, 8, 4),
    Pinned("cast: {src: H, dst: Y, @}", "partition", "2 of Y's at once", "4 of Y", "4 of Y's at once"),
    Pinned("elementwise: {dst: Y, expr: X + 1.0, @}", "partition", "2 of Y's at once", "8 of Y's", "4 of Y's at once"),
    Pinned(
        "reduce: {scope: warp, src: X, dst: q, axis: 1, op: sum, @}",
        "partition",
        "4 of X's at once",
        "X",
        "4 of X's at once",
    ),
    Pinned("scan: {scope: warp, src: X, dst: r, axis: 1, op: sum, @}", "width", 2, 8, 4),
    Pinned(ADD, "width", 2, 8, 4),
    Pinned(
        "scatter: {src: x, index: P, dst: Q, accumulate: add, @}",
        "partition",
        "2 of x's at once",
        "x",
        "4 of x's at once",
    ),
    Pinned(TAKE, "width", 2, 8, 4),
    Pinned(TAKE, "partition", "2 of x's at once", "x", "4 of x's at once"),
    Pinned("fill: {dst: s, value: 0, @}", "width", 1, 3, 4),
    Pinned("fill: {dst: s, value: 0, @}", "partition", "row-major", "s's strides", "row-major"),
    Pinned(PERMUTE + "warp_vector}", "width", 2, [4, 4], [1, 4]),
    Pinned(PERMUTE + "warp_vector}", "lanes", [16, 8, 4, 2, 1], [1, 2, 3, 4, 8], [1, 2, 4, 8, 16]),
    Pinned(PERMUTE + "warp_xor_swizzle}", "xor", [1, 4], [1, 5], [0, 5]),
    Pinned(PERMUTE + "warp_xor_swizzle}", "width", 1, 2, 1),
    Pinned(PERMUTE + "warp_linear_swizzle}", "width", 1, [1, 4], 1),
    Pinned(PERMUTE + "warp_linear_swizzle}", "lanes", [16, 8, 4, 2, 1], [1, 2, 3, 4, 8], [4, 8, 16, 33, 66]),
]
every_pin = pytest.mark.parametrize("case", PINNED, ids=lambda case: "-".join((*case.variant, case.pin)))


def test_every_pin_is_here() -> None:
    known = {(op.name, v.name, pin) for op in OPS.values() for v in op.variants for pin in v.pins}
    assert {(*case.variant, case.pin) for case in PINNED} == known
    for op in OPS.values():
        fields = op.model.model_fields
        assert all(fields[pin].default is None and fields[pin].description for pin in op.pins)


def test_the_page_has_every_pin_with_an_example_that_plans() -> None:
    section = re.search(r"^## Pins.*?(?=^## )", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert section
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| [^|]* \| `([^`]*)` \|$", section[0], re.M)
    assert {(op, pin) for pin, ops, _ in rows for op in re.findall(r"\w+", ops)} == {
        (op.name, pin) for op in OPS.values() for pin in op.pins
    }
    for pin, _, example in rows:
        (operation,) = draft(SPEC.replace("OP", example)).plan.operations
        assert f"{pin}: {spell(dict(operation.pins)[pin])}" in example


@pytest.mark.sweep(12)
@every_pin
def test_a_pin_is_what_is_built_and_what_is_resolved(case: Pinned) -> None:
    made = draft(case.write(case.good))
    (operation,) = made.plan.operations
    assert (operation.op, operation.variant) == case.variant
    assert dict(operation.pins)[case.pin] == case.good
    text = resolved_text(made.spec, made.plan)
    assert f"{case.pin}: {spell(case.good)}" in text
    again = draft(text)
    assert again.source == made.source
    assert replace(again.plan.operations[0], line=operation.line) == operation


@pytest.mark.sweep(12)
@every_pin
def test_a_pin_that_cannot_be_had_is_refused_with_the_nearest_that_can(case: Pinned) -> None:
    text = case.write(case.bad)
    (found,) = refusal_of(SpecError, draft, text).diagnostics
    line = text.splitlines()[found.mark.line - 1]
    assert found.code == "TG302" and line[found.mark.column - 1 :].startswith(spell(case.bad))
    assert found.hint == f"the nearest that can be is '{case.pin}: {spell(case.nearest)}'"
    assert draft(case.write(case.nearest)).plan.operations


def test_a_pin_that_costs_more_is_proved_and_said() -> None:
    text = (SPECS / "permute_sf.yaml").read_text(encoding="utf-8")
    built = build(text.replace("dst: A}", "dst: A, width: 2}"))
    first = built.plan.operations[0]
    assert [c.proof for c in first.choices] == ["beside a pin, at 8 instructions against 4"] * 2
    assert [c.verdict for c in first.choices[0].candidates] == ["costs less", "picked", "costs more"]
    assert built.source != build(text).source
    again = build(resolved_text(built.spec, built.plan))
    assert again.source == built.source


@pytest.mark.parametrize(
    ("op", "at", "reasons"),
    [
        (
            "copy: {src: X, dst: s, matrices: 4}", "4",
            "'matrices: 4': ldstmatrix: exactly one side must be in registers; gmem_smem, scalar: it has no 'matrices'",
        ),
        (
            "copy: {src: X, dst: s, width: 4, tile: [4, 4]}", "[4, 4]",
            "'tile: [4, 4]' beside 'width: 4': gmem_smem, scalar: it has no 'tile'",
        ),
        ("elementwise: {scope: warp, dst: r, expr: r + 1.0, width: 4}", "4", "'width: 4': nothing of it is in memory"),
        (
            "cast: {scope: warp, src: H, dst: r, partition: row-major}", "row-major",
            "'partition: row-major': memory: the threads that own r have its elements",
        ),
    ],
    ids=["of-another-variant", "of-two-variants", "of-no-memory", "of-owners"],
)  # fmt: skip
def test_a_pin_of_what_is_not_there_is_to_be_left_out(op: str, at: str, reasons: str) -> None:
    text = SPEC.replace("OP", op)
    (found,) = refusal_of(SpecError, draft, text).diagnostics
    pin = reasons[1 : reasons.index(":")]
    assert found.message == f"no variant can carry out this {op.split(':')[0]} with {reasons}"
    assert found.mark is not None and found.hint == f"leave '{pin}' out"
    assert found.mark.column == text.splitlines()[found.mark.line - 1].index(f"{pin}: {at}") + len(f"{pin}: ") + 1
