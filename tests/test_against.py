"""verify of specs that compute: floats within bounds however the kernel runs, and against a function of the user's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tilegen
from tests.proofs.test_floats import SOFTMAX
from tilegen.cli import cli
from tilegen.dtypes import numpy_dtype
from tilegen.errors import InputError, ProofError
from tilegen.gpu import POISON
from tilegen.interpret import interpret
from tilegen.pipeline import Built, build, load
from tilegen.plan import arrays
from tilegen.spec.outline import launch_of
from tilegen.verifying import verify_floats_run

MEANINGS = """
import numpy as np

def softmax(X):
    e = np.exp(X - X.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)

def named(**given):
    return {"Y": softmax(given["X"][:given["M"]])}

def scaled(X):
    return softmax(X) * (1 + 1e-5)

def unnormalized(X):
    return np.exp(X)

def of_another(Z):
    return Z

def broken(X):
    raise KeyError("k")

def flat(X):
    return softmax(X).ravel()

def text(X):
    return "softmax"

def renamed(X):
    return {"Z": X}

three = 3
"""


@pytest.fixture
def meanings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "meanings_of_tests.py").write_text(MEANINGS)
    (tmp_path / "softmax.yaml").write_text(SOFTMAX)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "meanings_of_tests", raising=False)
    return "meanings_of_tests"


def verify(function: str, *more: str) -> Any:
    return CliRunner().invoke(cli, ["verify", "softmax.yaml", "--device", "cpu", "--seed", "1", "--against", function,
                                    *more])  # fmt: skip


@pytest.mark.parametrize("function", ["softmax", "named"])
def test_a_softmax_is_a_softmax(meanings: str, function: str) -> None:
    result = verify(f"{meanings}:{function}")
    assert result.exit_code == 0, result.output
    assert "against: Y: largest error" in result.stdout and "float: Y: largest error" in result.stdout


WRONG = {
    "scaled": ("TG428", "Y[0, 0] is "),
    "unnormalized": ("TG428", "Y"),
    "of_another": ("TG604", "it takes 'Z', which is no input or param"),
    "broken": ("TG604", "it raises KeyError: 'k'"),
    "flat": ("TG604", "for Y has the shape [900], not [9, 100]"),
    "text": ("TG604", "what it returns for Y is no array of numbers"),
    "renamed": ("TG604", "it returns Z"),
    "three": ("TG604", "has no function 'three'"),
    "nobody": ("TG604", "has no function 'nobody'"),
    "sotfmax": ("TG604", "did you mean 'softmax'?"),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("function", WRONG)
def test_what_is_no_softmax_is_one_clear_error(meanings: str, function: str) -> None:
    result = verify(f"{meanings}:{function}")
    code, said = WRONG[function]
    assert result.exit_code != 0
    assert f"error[{code}]" in result.stderr and said in result.stderr and "Traceback" not in result.stderr


NOT_THERE = {
    "softmax": "not written as module:function", ":f": "not written as",
    "no_such_module_here:f": "cannot be imported: ModuleNotFoundError",
    "meanings.py:softmax": "without .py: --against meanings:softmax",
}  # fmt: skip


@pytest.mark.parametrize("text,said", NOT_THERE.items())
def test_a_function_that_is_not_there(meanings: str, text: str, said: str) -> None:
    result = verify(text)
    assert result.exit_code != 0 and "error[TG604]" in result.stderr and said in result.stderr


def test_arrays_too_large_for_a_function(meanings: str) -> None:
    result = verify(f"{meanings}:softmax", "--set", "M=1000000")
    assert "error[TG604]" in result.stderr and "set smaller params" in result.stderr


# ---------------------------------------------------------------- the same on a GPU, which here is the interpreter
def run_all(built: Built, spoil: Callable[[dict[str, np.ndarray]], None] = lambda images: None) -> Any:
    """A run of the whole grid: bytes of inputs and sizes of outputs to the outputs' bytes."""
    case = {p.name: int(p.default) for p in built.spec.params}
    dtypes = {m.name: numpy_dtype(m.dtype) for m in arrays(built.plan)}

    def run(inputs: Mapping[str, np.ndarray], outputs: Mapping[str, int]) -> dict[str, np.ndarray]:
        given = {name: image.view(dtypes[name]).__getitem__ for name, image in inputs.items()}
        x, y, z = launch_of(built.spec, case).grid
        written = interpret(built.plan, list(product(range(x), range(y), range(z))), given, case).written
        images = {name: np.full(size, POISON, np.uint8) for name, size in outputs.items()}
        for name, (at, values) in written.items():
            images[name].view(dtypes[name])[at] = values
        spoil(images)
        return images

    return lambda against=None: verify_floats_run(built, case, 1, run, against)


def softmax(X: np.ndarray) -> np.ndarray:
    e = np.exp(X - X.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_every_cta_is_compared_where_that_is_affordable(monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(load(SOFTMAX))
    lines = run_all(built)(softmax)
    assert len(lines) == 2 and all("3 CTAs of 3" in line for line in lines)
    monkeypatch.setattr("tilegen.verifying._BOUNDED_ELEMS", 700)
    assert "2 CTAs of 3" in run_all(built)()[0]


def test_one_element_that_is_off_is_found() -> None:
    def spoil(images: dict[str, np.ndarray]) -> None:
        images["Y"].view("f4")[205] *= 1.0001

    with pytest.raises(ProofError, match=r"TG427: Y\[2, 5\] is .* at element offset 205"):
        run_all(build(load(SOFTMAX)), spoil)()


def test_a_write_beside_what_is_meant_is_found() -> None:
    text = SOFTMAX.replace("Y: {", 'Y: {layout: "S[(M, N) : (N * 2, 1)]", ')

    def spoil(images: dict[str, np.ndarray]) -> None:
        images["Y"][4 * 110] = 0

    built = build(load(text))
    assert run_all(built)()
    with pytest.raises(ProofError, match="TG421"):
        run_all(built, spoil)()


def test_the_api_takes_a_function_too() -> None:
    assert "against" in str(tilegen.verify(SOFTMAX, device="cpu", seeds=[1], against=softmax))
    with pytest.raises(InputError, match="TG604"):
        tilegen.verify(SOFTMAX, device="cpu", seeds=[1], against=lambda Q: Q)


def test_a_function_takes_constants_of_the_spec_too() -> None:
    text = SOFTMAX.replace("N: {default: 100, max: 128, multiple_of: 4}", "N: 100")
    assert load(text).constants[0].name == "N"
    assert "against" in str(tilegen.verify(text, device="cpu", seeds=[1], against=lambda X, N: softmax(X[:, :N])))
