"""Specs with passes as operators of torch: g++'s kernels run over memory of this process; on a GPU: tests/gpu."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from calls.pretended import draw_floats
from programs.kernels import SUM_ALL, build_small
from programs.pretended import WHEN, Pretended, pretend_program
from specs.kernels import PROGRAMS
from text.run import requires_gxx

import tilegen
from operators.pretended import Fake, PretendedTorch, Symbol, tracing
from tests.faults.verdicts import refusal_of
from tilegen.errors import CallError
from tilegen.operators import planning
from tilegen.operators.registering import make_fake
from tilegen.operators.signature import derive_signature
from tilegen.pipeline import BuiltProgram

ADD_TWICE = """
kernel: add_twice
params: {N: {default: 64, multiple_of: 32, max: 4096}}
buffers:
  X: {scope: global, dtype: float32, shape: [N]}
  Y: {scope: global, dtype: float32, shape: [N]}
  P: {scope: global, dtype: float32, shape: [2, N], partial: true}
  kept: {scope: workspace, dtype: float32, shape: [N]}
passes:
  - name: first
    grid: {bx: N // 32}
    threads: 32
    ops:
      - elementwise: {scope: cta, dst: "kept[bx*32 : +32]", expr: "x + y",
                      with: {x: "X[bx*32 : +32]", y: "Y[bx*32 : +32]"}}
  - name: second
    grid: {bx: N // 32}
    threads: 32
    ops:
      - elementwise: {scope: cta, dst: "Y[bx*32 : +32]", expr: "x + k",
                      with: {x: "X[bx*32 : +32]", k: "kept[bx*32 : +32]"}}
      - copy: {scope: cta, src: "X[bx*32 : +32]", dst: "P[0, bx*32 : +32]"}
"""
# The backward of X -> sum of squares of X, in two passes, and its forward in two more.
SQUARES = """
kernel: squares
params: {N: {default: 64, multiple_of: 32, max: 4096}}
buffers:
  X: {scope: global, dtype: float32, shape: [N]}
  Y: {scope: global, dtype: float32, shape: [N]}
  w: {scope: workspace, dtype: float32, shape: [N]}
passes:
  - {name: a, grid: {bx: N // 32}, threads: 32,
     ops: [{elementwise: {scope: cta, dst: "w[bx*32 : +32]", expr: "x * x", with: {x: "X[bx*32 : +32]"}}}]}
  - {name: b, grid: {bx: N // 32}, threads: 32,
     ops: [{copy: {scope: cta, src: "w[bx*32 : +32]", dst: "Y[bx*32 : +32]"}}]}
"""
SQUARES_BACKWARD = (
    SQUARES.replace("kernel: squares", "kernel: squares_backward")
    .replace("Y: {", "dY: {scope: global, dtype: float32, shape: [N]}\n  dX: {")
    .replace('dst: "Y[', 'dst: "dX[')
    .replace('"x * x"', '"2.0 * x * g"')
    .replace('x: "X[bx*32 : +32]"', 'x: "X[bx*32 : +32]", g: "dY[bx*32 : +32]"')
)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> PretendedTorch:
    pretended = PretendedTorch()
    monkeypatch.setitem(sys.modules, "torch", pretended)  # type: ignore[arg-type]
    monkeypatch.setattr(planning, "_ask_driver", lambda device: (9, 0))
    return pretended


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Pretended]:
    """The programs that operators built, with the launches of each."""
    found: list[Pretended] = []

    def make(spec: Any, arch: str, check_values: bool = False) -> Any:
        built = build_small(SUM_ALL, 0) if spec.kernel == "sum_all" else tilegen.build(spec)
        assert isinstance(built, BuiltProgram)
        found.append(pretend_program(built))
        return planning.adapt_kernel(found[-1].kernel, built.spec)

    monkeypatch.setattr(planning, "make_kernel", make)
    return found


@requires_gxx
def test_an_operator_runs_all_passes(torch: PretendedTorch, made: list[Pretended]) -> None:
    operator = tilegen.torch_op("mine::sum_all", SUM_ALL)
    assert operator.schema == "(Tensor X) -> Tensor" and not operator.changed
    for n in (9000, 40_000):
        x = draw_floats(n)
        found = operator(torch.tensor(x))
        assert np.allclose(found.array, x.sum(dtype=np.float64), rtol=1e-5, atol=1e-3)
    (program,) = made
    assert [len(driver.seen) for driver in program.drivers] == [2, 2]
    assert {launch["stream"] for launch in program.launched} == {40}, "torch's current stream of GPU 0"
    assert [launch["attributes"] for driver in program.drivers for launch in driver.seen] == [0, 0, 1, 1]


@requires_gxx
def test_what_passes_change_is_declared(torch: PretendedTorch, made: list[Pretended]) -> None:
    operator = tilegen.torch_op("mine::add_twice", ADD_TWICE)
    assert operator.schema == "(Tensor X, Tensor(a0!) Y, Tensor(a1!) P) -> ()" and operator.changed == {"Y", "P"}
    x, y, p = draw_floats(96), draw_floats(96) + 1, draw_floats(2, 96) - 1
    given = [torch.tensor(one) for one in (x, y, p)]
    assert operator(*given) is None
    np.testing.assert_allclose(given[1].array, x + (x + y), rtol=1e-6)
    np.testing.assert_array_equal(given[2].array, np.stack([x, p[1]]))
    needs = [torch.tensor(one, requires_grad=True) for one in (x, y, p)]
    assert "TG714" in str(refusal_of(CallError, operator, *needs))


@requires_gxx
def test_a_workspace_is_torchs_and_no_graph_leaves_one_behind(torch: PretendedTorch, made: list[Pretended]) -> None:
    """An operator's memory of a capture is the graph's own pool's: torch asserts that nothing of it stays alive."""
    operator = tilegen.torch_op("mine::sum_all", SUM_ALL)
    asked, empty = [], torch.empty_strided
    torch.empty_strided = lambda shape, strides, **how: (
        asked.append((shape, how["device"])) or empty(shape, strides, **how)
    )
    x = torch.tensor(draw_floats(9000))
    operator(x)
    assert asked == [((1,), ("cuda", 0)), ((256,), ("cuda", 0))], "the result, then the workspace"
    (program,) = made
    program.capturing.append(40)
    torch.capturing = True
    operator(x)
    assert len(asked) == 4 and program.kernel._captured == []


@requires_gxx
def test_a_pass_under_a_condition(torch: PretendedTorch, made: list[Pretended]) -> None:
    operator = tilegen.torch_op("mine::halves", WHEN)
    for n, sign in ((64, 1), (96, -1)):
        x = draw_floats(n)
        np.testing.assert_array_equal(operator(torch.tensor(x)).array, sign * x)


def test_nothing_is_compiled_during_a_capture(torch: PretendedTorch, made: list[Pretended]) -> None:
    operator = tilegen.torch_op("mine::sum_all", SUM_ALL)
    torch.capturing = True
    refused = refusal_of(CallError, operator, torch.tensor(draw_floats(9000)))
    assert "TG713: sum_all is not compiled for GPU 0 yet" in str(refused) and not made


@requires_gxx
def test_a_backward_of_passes(torch: PretendedTorch, made: list[Pretended]) -> None:
    operator = tilegen.torch_op("mine::squares", SQUARES, backward=SQUARES_BACKWARD)
    assert set(torch.defined) == {"mine::squares", "mine::squares_backward"}
    x, g = draw_floats(64), draw_floats(64) + 1
    operator(torch.tensor(x, requires_grad=True))
    (ctx,) = torch.contexts
    torch.grads = False
    (found,) = torch.defined["mine::squares"].backward(ctx, torch.tensor(g))[:1]
    np.testing.assert_allclose(found.array, 2 * x * g, rtol=1e-6)


def test_a_fake_has_the_shapes_of_the_arrays_alone() -> None:
    signature = derive_signature("mine::add", tilegen.load(SQUARES))
    fake = make_fake(tracing(), signature)
    found = fake(Fake((Symbol("n"),), (1,)))
    assert [str(n) for n in found.shape] == ["n"] and found.dtype == "float32"
    wrong = refusal_of(CallError, fake, Fake((Symbol("n"), 2), (2, 1)))
    assert "TG704" in str(wrong)


SCHEMAS = {
    "attention_backward": "(Tensor Q, Tensor K, Tensor V, Tensor O, Tensor dO, Tensor LSE, *, float scale=0.18033688) "
    "-> (Tensor, Tensor, Tensor)",
    "gemm_split": "(Tensor A, Tensor B, Tensor bias) -> Tensor", "max_columns": "(Tensor X) -> Tensor",
    "layernorm_backward": "(Tensor X, Tensor dY, Tensor W, Tensor mean, Tensor rstd) -> (Tensor, Tensor, Tensor)",
    "squared_error": "(Tensor X, Tensor Y) -> Tensor", "sum_all": "(Tensor X) -> Tensor",
    "column_sum_atomic": "(Tensor X) -> Tensor",
    "decode_paged": "(Tensor Q, Tensor KC, Tensor VC, Tensor pages, Tensor lens, *, float scale=0.12751743) -> Tensor",
    "grouped_gemm": "(Tensor offsets, Tensor A, Tensor B, Tensor(a0!) D) -> ()",
    "histogram": "(Tensor X) -> Tensor", "moe_permute": "(Tensor ids) -> (Tensor, Tensor, Tensor)",
    "moe_route": "(Tensor X) -> (Tensor, Tensor, Tensor)", "offsets_of_counts": "(Tensor counts) -> Tensor",
    "scan": "(Tensor X) -> Tensor",
    "gemm_split_k": "(Tensor A, Tensor B, Tensor bias) -> Tensor",
}  # fmt: skip


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_schemas(path: Any) -> None:
    assert derive_signature("mine::op", tilegen.load(path)).schema == SCHEMAS[path.stem]
