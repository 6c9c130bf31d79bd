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
from tests.faults.verdicts import refusal_of
from tests.proofs.test_floats import SOFTMAX
from tilegen.cli import cli
from tilegen.dtypes import numpy_dtype
from tilegen.errors import InputError, ProofError
from tilegen.gpu import POISON
from tilegen.interpret import interpret
from tilegen.pipeline import Built, build, load
from tilegen.plan import arrays
from tilegen.proofs.differing import find_writer
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


@pytest.mark.sweep(1)
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


@pytest.mark.sweep(1)
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
    monkeypatch.setattr("tilegen.verifying.floats._BOUNDED_ELEMS", 700)
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


@pytest.mark.slow
def test_the_api_takes_a_function_too() -> None:
    assert "against" in str(tilegen.verify(SOFTMAX, device="cpu", seeds=[1], against=softmax))
    with pytest.raises(InputError, match="TG604"):
        tilegen.verify(SOFTMAX, device="cpu", seeds=[1], against=lambda Q: Q)


def test_a_function_takes_constants_of_the_spec_too() -> None:
    text = SOFTMAX.replace("N: {default: 100, max: 128, multiple_of: 4}", "N: 100")
    assert load(text).constants[0].name == "N"
    assert "against" in str(tilegen.verify(text, device="cpu", seeds=[1], against=lambda X, N: softmax(X[:, :N])))


# ---------------------------------------------------------------- what is said of elements that differ
def off_by(places: tuple[Any, ...]) -> Callable[[np.ndarray], np.ndarray]:
    def function(X: np.ndarray) -> np.ndarray:
        meant = softmax(X)
        meant[places] *= 1.01
        return meant

    return function


PATTERNS = [
    ((slice(None), slice(5, None, 2)), 240, ": all of [:, 5::2] differ"),
    ((8, slice(None)), 100, ": all of [8, :] differ"),
    ((slice(None), slice(32, 64)), 160, ": all of [:, 32:64] differ"),
    (([0, 8], [3, 7]), 2, ": [0, 3], [8, 7] differ"),
    ((8, 99), 1, " differs"),
]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("places, count, pattern", PATTERNS, ids=[p[2] for p in PATTERNS])
def test_a_difference_names_the_function_its_writer_and_the_pattern(places: Any, count: int, pattern: str) -> None:
    caught = refusal_of(ProofError, tilegen.verify, SOFTMAX, device="cpu", seeds=[1], against=off_by(places))
    [finding] = caught.diagnostics
    assert finding.code == "TG428" and "exact mathematics" in finding.hint
    assert "test_against:off_by" in finding.message
    assert finding.message.endswith(f"{count} of 500 elements{pattern}")
    first = [np.atleast_1d(np.arange(n)[p])[0] for n, p in zip((9, 100), places, strict=True)]
    assert finding.message.startswith(f"Y{[int(x) for x in first]} is ")
    assert finding.mark is not None and "Y[" in finding.mark.text
    assert ", elementwise, of CTA (" in finding.message


def test_the_writer_of_an_element_is_the_last_op_that_writes_it_and_its_cta() -> None:
    text = """kernel: two
grid: {bx: 4}
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [4, 64]}
  Y: {scope: global, dtype: float32, shape: [4, 64]}
ops:
  - for: {i: 2}
    do:
      - elementwise: {dst: "Y[bx, i*32 : +32]", expr: "x + 1", with: {x: "X[bx, i*32 : +32]"}}
  - elementwise: {dst: "Y[bx, 0:32]", expr: "x * 2", with: {x: "X[bx, 0:32]"}, when: bx == 2}
"""
    spec = load(text)
    for element, writer in (((2, 3), (1, (2, 0, 0))), ((2, 40), (0, (2, 0, 0))), ((3, 3), (0, (3, 0, 0)))):
        assert find_writer(spec, "Y", element, {}) == writer


# ---------------------------------------------------------------- NaN
MASKED = """kernel: masked
grid: {bx: 8}
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [8, 64]}
  Y: {scope: global, dtype: float32, shape: [8, 64]}
  x: {scope: register, dtype: float32, shape: [1, 64], layout: auto}
  m: {scope: register, dtype: float32, shape: [1, 1], layout: auto}
ops:
  - copy: {src: "X[bx : +1]", dst: x}
  - elementwise: {dst: x, expr: "where(index(1) < ROW, x, -inf)"}
  - reduce: {src: x, dst: m, axis: 1, op: max}
  - elementwise: {dst: "Y[bx : +1]", expr: "exp(x - m)"}
"""


@pytest.mark.parametrize("row, first", [("bx", "Y[0, 0]"), ("7 - bx", "Y[7, 0]"), ("(bx + 1) % 8", "Y[7, 0]")])
def test_an_element_that_is_nan_whatever_the_inputs_is_noted(row: str, first: str) -> None:
    verified = tilegen.verify(MASKED.replace("ROW", row), device="cpu", seeds=[1])
    assert [note.partition(" with")[0] for note in verified.notes] == [
        f"{first} is NaN in each of 17 runs, and so are 63 more elements of CTA ({first[2]}, 0, 0)"
    ]
    assert "note: " in str(verified)


@pytest.mark.parametrize("expr", ["sqrt(x)", "x / (x - x + 1)", "log(x)"])
def test_a_nan_of_some_inputs_is_no_note(expr: str) -> None:
    text = MASKED.partition("  - elementwise")[0] + f'  - elementwise: {{dst: "Y[bx : +1]", expr: "{expr}"}}\n'
    text = "\n".join(line for line in text.splitlines() if not line.startswith("  m:")) + "\n"
    assert tilegen.verify(text, device="cpu", seeds=[1, 2]).notes == ()


@pytest.mark.parametrize("says, code", [(1.0, "TG428"), (np.nan, "")])
def test_a_row_that_no_cta_writes_is_found_unless_the_function_says_nan(says: float, code: str) -> None:
    built = build(
        "kernel: k\nparams: {M: 4}\ngrid: {bx: M - 1}\nthreads: 32\nbuffers:\n"
        "  X: {scope: global, dtype: float32, shape: [M, 32]}\n"
        "  Y: {scope: global, dtype: float32, shape: [M, 32], partial: true}\n"
        'ops:\n  - elementwise: {scope: cta, dst: "Y[bx]", expr: "x + 1", with: {x: "X[bx]"}}\n'
    )
    assert isinstance(built, Built)

    def one_more(X: np.ndarray) -> np.ndarray:
        return np.concatenate([X[:-1] + 1, np.full((1, 32), says)])

    found = ""
    try:
        run_all(built)(one_more)
    except ProofError as error:
        (one,) = error.diagnostics
        found, said = one.code, one.message
        assert "Y[3, 0] is written by no CTA" in said and "all of [3, :]" in said
    assert found == code
