"""Operators of torch on a GPU: opcheck, compiled graphs, captures, streams, gradients, errors. ``pytest -m gpu``."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tilegen
from tests.operators.page import ADD, DW, DX, PAGE, RMSNORM, ROOT, SQUARE, SQUARE_BACKWARD, copy_spec
from tilegen.cli import cli
from tilegen.errors import CallError
from tilegen.gpu.device import probe_device

torch: Any = pytest.importorskip("torch")
DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=f"no GPU: {WHY_NOT}")]
SMALL = {"N": 1024, "T": 128}


@pytest.fixture(scope="module")
def rmsnorm() -> Any:
    return tilegen.torch_op("tests::rmsnorm", RMSNORM, backward=[DX, DW], params=SMALL)


@pytest.fixture(scope="module")
def square() -> Any:
    return tilegen.torch_op("tests::square", SQUARE, backward=SQUARE_BACKWARD)


@pytest.fixture(scope="module")
def add() -> Any:
    return tilegen.torch_op("tests::add", ADD)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(5)
    torch._dynamo.reset()


def rows(count: int, size: int = 64, dtype: Any = None, grad: bool = False) -> Any:
    return torch.randn(count, size, device="cuda", dtype=dtype or torch.float32, requires_grad=grad)


def norm_args(count: int, grad: bool = False) -> tuple[Any, Any]:
    x = rows(count, 1024, torch.bfloat16, grad)
    return x, (torch.rand(1024, device="cuda") + 0.5).to(torch.bfloat16).requires_grad_(grad)


# ---------------------------------------------------------------- opcheck
def check_all(overload: Any, args: tuple[Any, ...], **params: Any) -> None:
    found = torch.library.opcheck(overload, args, params)
    assert set(found.values()) == {"SUCCESS"}, found


@pytest.mark.parametrize("grad", [False, True])
def test_opcheck_of_an_operator_with_a_backward(rmsnorm: Any, square: Any, grad: bool) -> None:
    check_all(torch.ops.tests.rmsnorm.default, norm_args(33, grad), eps=1e-5)
    check_all(torch.ops.tests.square.default, (rows(5, grad=grad),))
    check_all(torch.ops.tests.square.default, (rows(5, grad=grad),), c=2.0)


def test_opcheck_of_operators_that_change_tensors(add: Any) -> None:
    check_all(torch.ops.tests.add.default, (rows(5), rows(5)))
    part = tilegen.torch_op("tests::part", copy_spec("shape: [4, 8]", "shape: [6, 8], partial: true"))
    x, y = rows(4, 8), rows(6, 8)
    check_all(torch.ops.tests.part.default, (x, y.clone()))
    given = y.clone()
    assert part(x, given) is None and torch.equal(given, torch.cat([x, y[4:]]))


@pytest.mark.parametrize("stem", ["transpose_tma", "permute_0213", "rows_any_size", "softmax_short_rows"])
def test_opcheck_of_specs(stem: str) -> None:
    """TMA's descriptors, products of sizes in strides, a pitch, sizes at runtime."""
    operator = tilegen.torch_op(f"tests::{stem}", ROOT / "specs" / f"{stem}.yaml")
    given = {
        "transpose_tma": lambda: rows(64, 212),
        "permute_0213": lambda: torch.randn(2, 16, 32, 128, device="cuda").to(torch.bfloat16),
        "rows_any_size": lambda: rows(40, 90)[:37, :61], "softmax_short_rows": lambda: rows(9, 77),
    }[stem]()  # fmt: skip
    given = given.to(getattr(torch, tilegen.load(ROOT / "specs" / f"{stem}.yaml").buffer("X").dtype))
    check_all(getattr(torch.ops.tests, stem).default, (given,))
    made = operator(given)
    if stem == "transpose_tma":
        assert torch.equal(made, given.T)
    if stem == "permute_0213":
        assert torch.equal(made, given.permute(0, 2, 1, 3))
    if stem == "rows_any_size":
        assert torch.equal(made, given)


def test_several_results_and_8_bit_floats() -> None:
    check_all(tilegen.torch_op("tests::two", DX, params=SMALL), (*norm_args(9), norm_args(9)[0]))
    quantize = tilegen.torch_op("tests::quantize", ROOT / "specs" / "quantize_rows.yaml")
    x = rows(9, 4096, torch.bfloat16)
    values, scales = quantize(x)
    assert (values.dtype, scales.dtype, scales.shape) == (torch.float8_e4m3fn, torch.float32, (9,))
    torch.testing.assert_close(values.float() * scales[:, None], x.float(), rtol=0.07, atol=0.02)
    compiled = torch.compile(lambda x: quantize(x), fullgraph=True)(x)
    assert torch.equal(compiled[0].view(torch.uint8), values.view(torch.uint8)) and torch.equal(compiled[1], scales)


# ---------------------------------------------------------------- compiled graphs
def test_a_graph_for_all_sizes(rmsnorm: Any) -> None:
    compile_fx = importlib.import_module("torch._inductor.compile_fx").compile_fx
    counts = []

    def backend(graph: Any, inputs: Any) -> Any:
        counts.append(1)
        return compile_fx(graph, inputs)

    def layer(x: Any, w: Any) -> Any:
        return rmsnorm(x * 2, w, eps=1e-5) + 1

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=backend)
    for count in (8, 33, 129):
        x, w = norm_args(count)
        assert torch.equal(compiled(x, w), layer(x, w))
    assert len(counts) == 1, "the graph was compiled again for another size"


def test_strides_in_a_compiled_graph(square: Any) -> None:
    """What comes before in the graph may leave any strides: the operator gets those of eager mode."""

    def layer(x: Any) -> Any:
        return square((x.T + 1).contiguous())

    x = rows(64, 40)
    assert torch.equal(torch.compile(layer, fullgraph=True)(x), layer(x))


def test_a_change_in_a_compiled_graph(add: Any) -> None:
    def layer(x: Any, y: Any) -> Any:
        z = y * 2
        add(x, z)
        add(x, y)
        return z + y

    x, y = rows(8), rows(8)
    wanted, found = y.clone(), y.clone()
    with torch.no_grad():
        assert torch.equal(torch.compile(layer, fullgraph=True)(x, found), layer(x, wanted))
    assert torch.equal(found, wanted) and not torch.equal(found, y)


def test_cudagraphs_of_a_compiled_graph(rmsnorm: Any) -> None:
    compiled = torch.compile(lambda x, w: rmsnorm(x, w).relu(), fullgraph=True, mode="reduce-overhead")
    x, w = norm_args(16)
    for _ in range(4):
        torch.compiler.cudagraph_mark_step_begin()
        x.add_(1)
        assert torch.equal(compiled(x, w).clone(), rmsnorm(x, w).relu())


def test_a_backward_in_a_compiled_graph(rmsnorm: Any) -> None:
    x, w = norm_args(65, grad=True)
    torch.compile(lambda x, w: rmsnorm(x, w), fullgraph=True, dynamic=True)(x, w).float().square().sum().backward()
    other, weight = (t.detach().clone().requires_grad_() for t in (x, w))
    rmsnorm(other, weight).float().square().sum().backward()
    assert torch.equal(x.grad, other.grad) and torch.equal(w.grad, weight.grad)


# ---------------------------------------------------------------- captures and streams
def test_a_capture(square: Any) -> None:
    x = rows(9)
    square(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = square(x, c=2.0)
        z = square(y)
    for _ in range(3):
        x.copy_(rows(9))
        graph.replay()
        torch.testing.assert_close(z, (2 * x * x).square())


def test_a_capture_before_any_call() -> None:
    cold = tilegen.torch_op("tests::cold", SQUARE)
    x = rows(4)
    with pytest.raises(CallError, match="TG713"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        cold(x)
    torch.cuda.synchronize()
    cold(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = cold(x)
    graph.replay()
    torch.testing.assert_close(y, x * x)


def test_a_side_stream(square: Any) -> None:
    x = torch.zeros(4096, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(50):
            x = x + 1
        y = square(x)
        assert bool((y == 2500).all())


# ---------------------------------------------------------------- gradients
def test_gradients_beside_float64(rmsnorm: Any) -> None:
    x, w = norm_args(300, grad=True)
    g = rows(300, 1024, torch.bfloat16)
    rmsnorm(x, w, eps=1e-4).backward(g)
    x64, w64 = (t.detach().double().requires_grad_() for t in (x, w))
    torch.nn.functional.rms_norm(x64, (1024,), w64, 1e-4).backward(g.double())
    for found, wanted in ((x.grad, x64.grad), (w.grad, w64.grad)):
        assert float((found.double() - wanted).norm() / wanted.norm()) < 5e-3


def test_gradients_that_differences_say(square: Any) -> None:
    """(f(x + h) - f(x - h)) / 2h of a square has no error but rounding."""
    x, direction = rows(6, grad=True), rows(6)
    square(x, c=1.5).sum().backward()  # whose gradient has strides of 0
    with torch.no_grad():
        h = 0.25
        found = (square(x + h * direction, c=1.5) - square(x - h * direction, c=1.5)).double().sum() / (2 * h)
    torch.testing.assert_close((x.grad * direction).double().sum(), found, rtol=1e-4, atol=1e-3)


def test_only_the_weights_require_grad(rmsnorm: Any) -> None:
    x, w = norm_args(64, grad=True)
    rmsnorm(x, w).sum().backward()
    alone = w.detach().clone().requires_grad_()
    rmsnorm(x.detach(), alone).sum().backward()
    assert torch.equal(alone.grad, w.grad)


def test_a_function_as_backward() -> None:
    made = tilegen.torch_op("tests::by_hand", SQUARE, backward=lambda X, dY, c: {"dX": 2 * c * X * dY})
    x = rows(5, grad=True)
    made(x, c=3.0).backward(torch.ones_like(x))
    torch.testing.assert_close(x.grad, 6 * x.detach())
    check_all(torch.ops.tests.by_hand.default, (rows(5, grad=True),), c=3.0)


def test_where_there_is_no_gradient(add: Any, square: Any) -> None:
    bare = tilegen.torch_op("tests::bare", SQUARE)
    x, y = rows(4, grad=True), rows(4)
    with pytest.raises(CallError, match="TG714: tests::bare: X requires grad, but no backward gives dX"):
        bare(x)
    with torch.no_grad():
        bare(x)
    bare(x.detach())
    before = x.detach().clone()
    with pytest.raises(CallError, match="TG714: tests::add: Y requires grad"):
        add(y, x)
    assert torch.equal(x, before)
    with torch.no_grad():  # an optimiser's step
        version = x._version
        add(y, x)
    assert torch.equal(x, before + y) and x._version > version
    first = torch.autograd.grad(square(x).sum(), x)[0]
    assert first.shape == x.shape
    with pytest.raises(CallError, match="TG714: tests::square_backward"):
        torch.autograd.grad(square(x).sum(), x, create_graph=True)
    with pytest.raises(Exception, match="TG714"):
        torch.compile(lambda x: bare(x), fullgraph=True)(x)


# ---------------------------------------------------------------- errors
def test_what_a_call_does_not_take(rmsnorm: Any, square: Any, add: Any) -> None:
    x, w = norm_args(8)
    wrong = {
        "TG702": (x.cpu(), w), "TG703": (x.half(), w), "TG704": (x[:, :512], w),
        "TG705": (rows(1024, 8, torch.bfloat16).T, w), "TG706": (x, rows(1, 1025, torch.bfloat16).view(-1)[1:]),
    }  # fmt: skip
    for code, given in wrong.items():
        with pytest.raises(CallError, match=code):
            rmsnorm(*given)
    with pytest.raises(CallError, match="TG702"):
        rmsnorm(x.cpu(), w.cpu())
    with pytest.raises(CallError, match="TG704"):
        square(rows(4, 32))
    with pytest.raises(CallError, match="TG709"):
        square(rows(0))
    y = rows(4)
    with pytest.raises(CallError, match="TG707"):
        add(y, y)
    with pytest.raises(CallError, match="TG709"):
        square(y, c=1e300)
    assert torch.equal(rmsnorm(x, w), rmsnorm(x, w))  # and nothing is broken after


@pytest.mark.parametrize("code", ["TG703", "TG704"])
def test_what_a_traced_graph_does_not_take(rmsnorm: Any, code: str) -> None:
    x, w = norm_args(8)
    given = x.half() if code == "TG703" else x.view(16, 512)
    with pytest.raises(Exception, match=code):
        torch.compile(lambda x, w: rmsnorm(x, w), fullgraph=True)(given, w)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU")
def test_tensors_of_two_gpus(rmsnorm: Any) -> None:
    x, w = norm_args(8)
    with pytest.raises(CallError, match="TG708"):
        rmsnorm(x, w.to("cuda:1"))
    assert torch.equal(rmsnorm(x.to("cuda:1"), w.to("cuda:1")).cpu(), rmsnorm(x, w).cpu())


# ---------------------------------------------------------------- the page
def test_the_pages_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    shutil.copy(RMSNORM, tmp_path / "specs")
    for name, text in (("rmsnorm_dx", DX), ("rmsnorm_dw", DW)):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 15) == (0, True)


def test_a_function_of_the_page_beside_its_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results are held to the spec's bounds, plain and compiled; a wrong one and one that rounds are not timed."""
    (code,) = re.findall(r"^```python\n(import torch\n.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    code = code.replace("def rmsnorm", "def norm_of_the_page")
    softmax = "def softmax(X):\n    return torch.softmax(X, -1)\n"
    wrong = "def wrong(X):\n    return torch.softmax(X * 1.1, -1)\n"
    gemm = "def product(A, B):\n    return A @ B\n"
    (tmp_path / "functions_of_page.py").write_text("\n\n".join([code, softmax, wrong, gemm]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for stem, name in (("rmsnorm", "norm_of_the_page"), ("softmax_rows", "softmax"), ("gemm", "product")):
        word = f"functions_of_page:{name}"
        found = bench(stem, "--against", word)
        assert not [absent for absent in found["absent"] if word in absent], found["absent"]
        assert all(found["peers"][f"{word}{way}"]["median_us"] > 0 for way in ("", " compiled"))
    found = bench("softmax_rows", "--against", "functions_of_page:wrong", "torch")
    assert list(found["peers"]) == ["copy"]
    assert "elements are too far off" in found["absent"]["functions_of_page:wrong"]


def bench(stem: str, *words: str) -> Any:
    path = str(ROOT / "specs" / f"{stem}.yaml")
    done = CliRunner().invoke(cli, ["bench", path, *words, "--format", "json", "--rounds", "3"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["results"][0]


# ---------------------------------------------------------------- passes
@pytest.fixture(scope="module")
def sum_all() -> Any:
    return tilegen.torch_op("tests::sum_all", ROOT / "specs" / "sum_all.yaml")


def near(found: Any, x: Any) -> bool:
    return bool(torch.allclose(found.double(), x.double().sum(), rtol=1e-4, atol=1e-1))


def test_opcheck_of_passes(sum_all: Any) -> None:
    check_all(torch.ops.tests.sum_all.default, (torch.randn(70_001, device="cuda"),))
    for n in (1, 4096, 1_000_003):
        x = torch.randn(n, device="cuda")
        assert near(sum_all(x), x)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_passes_in_a_compiled_graph(sum_all: Any, mode: str) -> None:
    """With reduce-overhead torch asserts that no memory of its graph is alive that it does not know."""
    compiled = torch.compile(lambda x: sum_all(x * 2) + 1, fullgraph=True, mode=mode)
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(300_000, device="cuda")
        assert near(compiled(x) - 1, x * 2)


def test_passes_in_a_captured_graph_on_streams(sum_all: Any) -> None:
    x = torch.randn(300_000, device="cuda")
    sum_all(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = sum_all(x)
    for seed in range(4):
        torch.manual_seed(seed)
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert near(y, x)
    streams, found = [torch.cuda.Stream() for _ in range(4)], []
    torch.cuda.synchronize()
    for k in range(40):
        with torch.cuda.stream(streams[k % 4]):
            found.append((k, sum_all(x * (k + 1))))
    torch.cuda.synchronize()
    assert all(near(one, x * (k + 1)) for k, one in found)
