"""Backwards by names: what fits together, what is said of what does not, what runs for which gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from operators.page import ADD, DW, DX, RMSNORM, SQUARE, SQUARE_BACKWARD, copy_spec
from tests.faults.verdicts import refusal_of
from tilegen import load
from tilegen.errors import CallError
from tilegen.operators.gradients import (
    Gradients,
    check_needs,
    compute_gradients,
    part_of_function,
    part_of_kernel,
    plan_gradients,
)
from tilegen.operators.signature import derive_signature

COPY = copy_spec("shape: [4, 8]", "shape: [4, 8]")
DOUBLE = copy_spec("shape: [4, 8]", "shape: [4, 8]").replace("  X:", "  dY:").replace("  Y:", "  dX:").replace(
    '"X[', '"dY[').replace('dst: "Y[', 'dst: "dX[')  # fmt: skip
DX_ALONE = "".join(line for line in DX.splitlines(True) if not line.startswith("  R:") and "R[bx" not in line)


def plan(forward: Any, *parts: Any) -> Gradients:
    signature = derive_signature("mine::op", load(forward))
    return plan_gradients(signature, [
        part_of_function(signature, p) if callable(p) else part_of_kernel(derive_signature("mine::back", load(p)))
        for p in parts
    ])  # fmt: skip


def refused(call: Callable[..., Any], *given: Any) -> list[str]:
    return str(refusal_of(CallError, call, *given)).splitlines()


def test_rmsnorm_saves_what_its_backward_takes() -> None:
    gradients = plan(RMSNORM, DX, DW)
    assert gradients.saved == ("X", "W")
    assert [(p.takes, p.gives, p.params) for p in gradients.parts] == [
        (("X", "W", "dY"), ("dX", "R"), ("eps",)), (("X", "dY", "R"), ("dW",), ()),
    ]  # fmt: skip
    assert gradients.has("X") and gradients.has("W")
    check_needs(gradients, ["X", "W"])


# ---------------------------------------------------------------- what does not fit
BROKEN: dict[str, tuple[Any, Sequence[Any], str]] = {
    "a result with a name of no tensor": (
        SQUARE, [SQUARE_BACKWARD.replace("dX", "dx")], "writes 'dx', which is no gradient of a tensor"
    ),
    "an input that is nothing": (SQUARE, [SQUARE_BACKWARD.replace("dY", "dZ")], "takes 'dZ', which is nothing"),
    "another dtype": (
        SQUARE, [SQUARE_BACKWARD.replace("dX: {scope: global, dtype: float32", "dX: {scope: global, dtype: float16")],
        "'dX' of a backward is float16 [M, 64], and X, whose gradient it is, is float32 [M, 64]",
    ),
    "another extent": (
        SQUARE, [SQUARE_BACKWARD.replace("64", "96")],
        "'X' of a backward is float32 [M, 96], and that of mine::op is float32 [M, 64]",
    ),
    "a gradient twice": (SQUARE, [SQUARE_BACKWARD, SQUARE_BACKWARD], "writes 'dX', which is there before"),
    "parts in the wrong order": (RMSNORM, [DW, DX], "takes 'R', which is nothing that it has"),
    "a forward that changes": (ADD, [SQUARE_BACKWARD], "mine::op changes Y in place"),
    "a backward that changes": (
        COPY, [ADD.replace("[M, 64]", "[4, 8]").replace("M: {default: 4}", "M: 4").replace("  Y:", "  dY:").replace(
            '"Y[bx', '"dY[bx')],
        "changes 'dY', which is not its own",
    ),
    "a name that is a gradient's": (
        SQUARE.replace("  Y:", "  dX:").replace('"Y[', '"dX['), [lambda X: {}], "'dX' is an array, and would be"
    ),
    "a size that nothing says": (
        SQUARE, [SQUARE_BACKWARD.replace("M: {default: 4}", "M: {default: 4}, k: {default: 3}").replace(
            "grid: {bx: M}", "grid: {bx: M, by: k}")], "needs k, which no tensor says and no argument is"),
    "a function of a name that is nothing": (SQUARE, [lambda X, dZ: {}], "takes 'dZ', which is nothing that it has"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_fit_is_said_with_its_place(name: str) -> None:
    forward, parts, said = BROKEN[name]
    lines = refused(plan, forward, *parts)
    assert any("TG715" in line and said in line for line in lines), lines


def test_all_that_does_not_fit_is_said_at_once() -> None:
    wrong = SQUARE_BACKWARD.replace("dX", "dx").replace("dY", "dZ")
    lines = refused(plan, SQUARE, wrong)
    assert len(lines) == 2 and "(there are X, Y, dY)" in lines[0] and "did you mean 'dX'?" in lines[1]
    assert all(line.startswith("<text>:") for line in lines)


def test_a_tensor_without_a_gradient() -> None:
    (line,) = refused(check_needs, plan(RMSNORM, DX_ALONE), ["W"])
    assert "TG714: mine::op: W requires grad, but no backward gives dW" in line and "torch.no_grad()" in line
    assert line.startswith(f"{RMSNORM}:9:3: ")
    assert len(refused(check_needs, plan(RMSNORM), ["X", "W"])) == 2
    check_needs(plan(RMSNORM), [])


# ---------------------------------------------------------------- what runs
class Tensor:
    """What came before, and what was done to it."""

    def __init__(self, name: str):
        self.name = name

    def contiguous(self) -> Tensor:
        return Tensor(f"{self.name} in rows")


KNOWN = {name: Tensor(name) for name in ("X", "W", "dY")}


@pytest.mark.parametrize(("needs", "ran"), [(["X", "W"], [0, 1]), (["X"], [0]), (["W"], [0, 1]), ([], [])])
def test_only_what_a_gradient_needs_runs(needs: list[str], ran: list[int]) -> None:
    seen = []

    def run(k: int, *names: str) -> Callable[..., Any]:
        def kernel(*tensors: Tensor, **params: float) -> Any:
            seen.append((k, [t.name for t in tensors], params))
            made = tuple(Tensor(name) for name in names)
            return made if len(made) > 1 else made[0]

        return kernel

    gradients = plan(RMSNORM, DX, DW)
    runs = [run(0, "dX", "R"), run(1, "dW")]
    found = compute_gradients(gradients, runs, KNOWN, {"eps": 1e-5}, needs)
    assert {name: t.name for name, t in found.items()} == {f"d{n}": f"d{n}" for n in needs}
    assert [k for k, _, _ in seen] == ran
    if seen:
        assert seen[0] == (0, ["X", "W", "dY in rows"], {"eps": 1e-5})  # what was saved has its strides
    if len(seen) > 1:
        assert seen[1] == (1, ["X", "dY in rows", "R"], {})


def test_a_function_gives_what_kernels_do_not() -> None:
    gradients = plan(SQUARE, lambda X, dY, c: {"dX": ("double", X.name, dY.name, c)})
    assert gradients.saved == ("X",) and gradients.parts[0].params == ("c",)
    functions = [lambda X, dY, c: {"dX": ("double", X.name, dY.name, c)}]
    assert compute_gradients(gradients, functions, KNOWN, {"c": 3.0}, ["X"]) == {"dX": ("double", "X", "dY", 3.0)}
    check_needs(gradients, ["X"])
    for made, said in (({}, "TG714"), ({"dx": 1}, "returned dx"), (7, "returned a int"), ({"dX": None}, "TG714")):
        (line,) = refused(compute_gradients, gradients, [lambda made=made, **_: made], KNOWN, {"c": 3.0}, ["X"])
        assert said in line


def test_a_function_beside_a_kernel_runs_where_it_is_needed() -> None:
    called = []

    def weights(X: Any, dY: Any) -> dict[str, Any]:
        called.append("weights")
        return {"dW": Tensor("dW")}

    gradients = plan(RMSNORM, DX_ALONE, weights)
    runs = [lambda *_, **__: Tensor("dX"), weights]
    assert set(compute_gradients(gradients, runs, KNOWN, {}, ["X"])) == {"dX"} and called == []
    assert set(compute_gradients(gradients, runs, KNOWN, {}, ["X", "W"])) == {"dX", "dW"} and called == ["weights"]
