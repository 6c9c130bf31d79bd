"""What is registered with torch, and what it does there; with torch itself, and a GPU: tests/gpu/test_gpu_torch.py."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from calls.pretended import draw_floats, pretend_kernel
from specs.kernels import draft
from text.run import requires_gxx

import tilegen
from operators.page import ADD, DW, DX, RMSNORM, SQUARE, SQUARE_BACKWARD, copy_spec
from operators.pretended import PretendedTorch
from tests.faults.verdicts import refusal_of
from tilegen.errors import CallError, EnvironmentLack
from tilegen.gpu.call import Kernel
from tilegen.operators import planning
from tilegen.operators.planning import Kernels

SMALL = {"M": 3, "N": 64, "T": 32}


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> PretendedTorch:
    """torch, and kernels that g++ has compiled; nothing is proved."""
    pretended = PretendedTorch()
    monkeypatch.setitem(sys.modules, "torch", pretended)  # type: ignore[arg-type]
    monkeypatch.setattr(planning, "make_kernel", make_small)
    monkeypatch.setattr(planning, "_ask_driver", lambda device: (8, 0))
    return pretended


def make_small(spec: Any, arch: str, check_values: bool = False) -> Kernel:
    """A kernel on the pretended GPU, with the terms of an operator."""
    made = draft(spec)
    return planning.adapt_kernel(pretend_kernel(made)[0], made.spec)


def refused(call: Any, *given: Any, **params: Any) -> str:
    return str(refusal_of(CallError, call, *given, **params))


# ---------------------------------------------------------------- forward
@requires_gxx
def test_an_operator_runs_its_kernel(torch: PretendedTorch) -> None:
    square = tilegen.torch_op("square", SQUARE)
    assert square.name == "tilegen::square" and square.schema == "(Tensor X, *, float c=1.0) -> Tensor"
    assert square.tags == ("exact",) and square.fake is not None
    for rows in (4, 7):
        x = draw_floats(rows, 64)
        made = square(torch.tensor(x), c=3.0)
        np.testing.assert_allclose(made.array, 3 * x * x, rtol=1e-6)
    assert square.redispatch(0b10, torch.tensor(x)).array.shape == (7, 64)  # the dispatcher leaves defaults out


@requires_gxx
def test_what_is_read_and_written_is_changed(torch: PretendedTorch) -> None:
    add = tilegen.torch_op("mine::add", ADD)
    assert add.changed == {"Y"}
    x, y = draw_floats(4, 64), draw_floats(4, 64) + 1
    given = torch.tensor(y)
    assert add(torch.tensor(x), given) is None
    np.testing.assert_allclose(given.array, x + y, rtol=1e-6)


@requires_gxx
def test_what_is_written_in_part_keeps_the_rest(torch: PretendedTorch) -> None:
    part = tilegen.torch_op("mine::part", copy_spec("shape: [4, 8]", "shape: [6, 8], partial: true"))
    x, y = draw_floats(4, 8), draw_floats(6, 8)
    given = torch.tensor(y)
    assert part(torch.tensor(x), given) is None
    np.testing.assert_array_equal(given.array, np.concatenate([x, y[4:]]))


@requires_gxx
def test_calls_that_are_wrong(torch: PretendedTorch) -> None:
    square = tilegen.torch_op("square", SQUARE)
    x = draw_floats(4, 64)
    assert "TG702" in refused(square, torch.tensor(x, device="cpu"))
    assert "TG703" in refused(square, torch.tensor(x.astype(np.float64)))
    assert "TG704" in refused(square, torch.tensor(draw_floats(4, 32)))
    apart = torch.tensor(x)
    apart.array = np.lib.stride_tricks.as_strided(apart.array, (2, 64), (512, 4))
    apart.shape = (2, 64)
    assert "TG705" in refused(square, apart)
    assert "TG709" in refused(square, torch.tensor(x), c=1e300)


# ---------------------------------------------------------------- gradients
def test_a_tensor_that_requires_grad_needs_a_backward(torch: PretendedTorch) -> None:
    for spec, name in ((SQUARE, "X"), (ADD, "Y")):
        operator = tilegen.torch_op("op", spec)
        given = [torch.tensor(draw_floats(4, 64)) for _ in operator.schema.split("->")[0].split("Tensor")[1:]]
        given[-1].requires_grad = True
        text = refused(operator, *given)
        assert f"TG714: tilegen::op: {name} requires grad" in text and f"{name}.detach()" in text


@requires_gxx
def test_what_changes_a_tensor_is_refused_before_it_does(torch: PretendedTorch) -> None:
    add = tilegen.torch_op("mine::add", ADD)
    y = draw_floats(4, 64)
    given = torch.tensor(y, requires_grad=True)
    refused(add, torch.tensor(y), given)
    np.testing.assert_array_equal(given.array, y)
    torch.grads = False  # an optimiser's step
    add(torch.tensor(y), given)
    np.testing.assert_allclose(given.array, 2 * y, rtol=1e-6)


def test_a_name_that_is_registered_anew_has_nothing_of_the_old(torch: PretendedTorch) -> None:
    tilegen.torch_op("mine::op", ADD)
    assert list(torch.guards) == ["mine::op"]
    tilegen.torch_op("mine::op", ADD)
    assert list(torch.guards) == ["mine::op"]
    tilegen.torch_op("mine::op", SQUARE, backward=SQUARE_BACKWARD)
    assert not torch.guards and set(torch.defined) == {"mine::op", "mine::op_backward"}


@requires_gxx
@pytest.mark.parametrize("kind", ["spec", "function"])
def test_a_backward(torch: PretendedTorch, kind: str) -> None:
    double: Any = SQUARE_BACKWARD
    if kind == "function":
        double = lambda X, dY, c: {"dX": torch.tensor(2 * c * X.array * dY.array)}  # noqa: E731
    square = tilegen.torch_op("mine::square", SQUARE, backward=double)
    x = torch.tensor(draw_floats(4, 64), requires_grad=True)
    square(x, c=3.0)
    (ctx,) = torch.contexts
    ctx.needs_input_grad = ctx.needs_input_grad[:-1]
    torch.grads = False
    grad = torch.tensor(draw_floats(4, 64) + 1)
    (found,) = square.backward(ctx, grad)
    np.testing.assert_allclose(found.array, 6 * x.array * grad.array, rtol=1e-5)
    torch.grads = True
    if kind == "spec":  # gradients of gradients
        assert "TG714: mine::square_backward: X requires grad" in refused(square.backward, ctx, grad)


@requires_gxx
def test_rmsnorm_forward_and_backward(torch: PretendedTorch) -> None:
    """The page's specs, at a small size, beside float64."""
    bf16 = torch.bfloat16  # type: ignore[attr-defined]
    rmsnorm = tilegen.torch_op("mine::rmsnorm", RMSNORM, backward=[DX, DW], params=SMALL)
    assert set(torch.defined) == {"mine::rmsnorm", "mine::rmsnorm_backward", "mine::rmsnorm_backward2"}
    x, w, g = (
        draw_floats(5, 64, dtype=bf16),
        (draw_floats(64) + 2).astype(bf16),
        (draw_floats(5, 64) - 0.5).astype(bf16),
    )
    y = rmsnorm(torch.tensor(x, True), torch.tensor(w, True), eps=1e-4)
    x64, w64, g64 = (a.astype(np.float64) for a in (x, w, g))
    s = 1 / np.sqrt((x64 * x64).mean(1, keepdims=True) + 1e-4)
    np.testing.assert_allclose(y.array.astype(np.float64), s * x64 * w64, rtol=2e-2, atol=1e-2)
    (ctx,) = torch.contexts
    ctx.needs_input_grad = ctx.needs_input_grad[:-1]
    torch.grads = False
    dx, dw = rmsnorm.backward(ctx, torch.tensor(g))
    wanted = s * (g64 * w64 - x64 * s * s * (x64 * g64 * w64).mean(1, keepdims=True))
    np.testing.assert_allclose(dx.array.astype(np.float64), wanted, rtol=2e-2, atol=2e-2)
    np.testing.assert_allclose(dw.array.astype(np.float64), (g64 * x64 * s).sum(0), rtol=2e-2, atol=2e-2)


# ---------------------------------------------------------------- kernels
def test_a_kernel_is_built_once_whoever_asks() -> None:
    built, found = [], []

    def make(spec: Any, arch: str, check_values: bool = False) -> Any:
        built.append(arch)
        time.sleep(0.05)
        return pretend_kernel(draft(spec), runs=False)[0]

    capabilities = {0: (8, 0), 1: (8, 0), 2: (9, 0)}
    kernels = Kernels(tilegen.load(SQUARE), None, make, capabilities.__getitem__)
    asked = [threading.Thread(target=lambda d=d: found.append(kernels.find(d, lambda: False))) for d in (0, 0, 1, 2, 0)]
    for one in asked:
        one.start()
    for one in asked:
        one.join()
    assert sorted(built) == ["sm_80", "sm_90"] and len(set(map(id, found))) == 2
    assert Kernels(tilegen.load(SQUARE), "sm_80", make, capabilities.__getitem__).find(2, lambda: False)
    assert sorted(built) == ["sm_80", "sm_80", "sm_90"]


@requires_gxx
def test_nothing_is_compiled_during_a_capture(torch: PretendedTorch) -> None:
    square = tilegen.torch_op("square", SQUARE)
    x = torch.tensor(draw_floats(4, 64))
    torch.capturing = True
    text = refused(square, x)
    assert "TG713: square is not compiled for GPU 0 yet" in text and "call it once" in text
    torch.capturing = False
    square(x)
    torch.capturing = True
    square(x)


def test_a_dtype_that_torch_lacks(torch: PretendedTorch) -> None:
    del torch.float32  # as uint16 is lacking in some versions
    assert "TG715: tilegen::op: torch has no float32, which X holds" in refused(tilegen.torch_op, "op", SQUARE)


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(EnvironmentLack, match="TG506: PyTorch is not here"):
        tilegen.torch_op("op", SQUARE)
