"""The package as people find it: its names, what its functions take, and which exceptions leave them."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilegen
from tilegen import errors
from tilegen.errors import Diagnostic, Mark, format_error

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tilegen"
SF, ANY = ROOT / "specs" / "permute_sf.yaml", ROOT / "specs" / "rows_any_size.yaml"
SMALL = {
    "kernel": "k", "threads": 32, "params": {"N": 64},
    "buffers": {name: {"scope": "global", "dtype": "int8", "shape": [2, "N"]} for name in "XY"},
    "ops": [{"copy": {"scope": "warp", "src": "X", "dst": "Y"}}],
}  # fmt: skip


# ---------------------------------------------------------------- names
def test_completion_shows_the_public_names_and_imports_nothing() -> None:
    code = (
        "import sys, tilegen; before = set(sys.modules); names = dir(tilegen); assert set(sys.modules) == before;"
        "print(*[name for name in names if not name.startswith('__')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == sorted(tilegen.__all__)
    assert "__version__" in dir(tilegen) and "import_module" not in dir(tilegen)


@pytest.mark.parametrize("name", tilegen.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    thing = getattr(tilegen, name)
    assert inspect.getdoc(thing)
    module = (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()
    assert module == isinstance(thing, ModuleType), "a module of a function's name would take its place when imported"


def test_every_error_that_has_a_code_is_public() -> None:
    classes = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, Exception)}
    assert classes <= set(tilegen.__all__)


def test_a_name_that_is_none() -> None:
    with pytest.raises(AttributeError, match="module 'tilegen' has no attribute 'biuld'"):
        tilegen.biuld  # noqa: B018


@pytest.mark.sweep(1)
@pytest.mark.parametrize("first", ["tilegen.verifying", "tilegen.cli.verifying", "tilegen.bench", "tilegen.pipeline"])
def test_functions_stay_functions_whatever_is_imported(first: str) -> None:
    names = ["load", "build", "explain", "verify", "compile"]
    code = f"import {first}, tilegen; print(*[type(getattr(tilegen, n)).__name__ for n in {names}])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["function"] * len(names)


# ---------------------------------------------------------------- verify
@pytest.mark.slow
def test_verify_says_what_the_command_says() -> None:
    from click.testing import CliRunner

    from tilegen.cli import cli

    verified = tilegen.verify(ANY, device="cpu", arch="sm_80", params={"M": 40}, seeds=[5])
    words = ["verify", str(ANY), "--device", "cpu", "--arch", "sm_80", "--set", "M=40", "--seed", "5"]
    assert CliRunner().invoke(cli, words).stdout == f"{verified}\n"
    assert (verified.kernel, verified.arch, verified.device) == ("rows_any_size", "sm_80", "cpu")
    with pytest.raises(FrozenInstanceError):
        verified.device = "gpu"  # type: ignore[misc]


def test_any_seed_is_a_seed() -> None:
    assert tilegen.verify(SMALL, device="cpu", seeds=[1 << 100]).lines == tilegen.verify(SMALL, "cpu", seeds=[7]).lines


def test_verify_takes_the_cpu_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(*_: Any) -> Any:
        raise tilegen.EnvironmentLack(Diagnostic("TG502", "there is none"))

    monkeypatch.setattr("tilegen.gpu.require_gpu", lack)
    assert tilegen.verify(SMALL).device == "cpu"
    with pytest.raises(tilegen.EnvironmentLack, match="TG502: there is none"):
        tilegen.verify(SMALL, device="gpu")


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"device": "tpu"}, ValueError, "device is one of auto, cpu, gpu, ptx, not 'tpu'"),
        ({"device": None}, ValueError, "device is one of auto, cpu, gpu, ptx, not None"),
        ({"seeds": []}, ValueError, "seeds has no seed"),
        ({"seeds": [1, -1]}, ValueError, "a seed is at least 0, not -1"),
        ({"seeds": 3}, TypeError, "seeds is a list of integers"),
        ({"seeds": "12"}, TypeError, "seeds is a list of integers"),
        ({"seeds": [1.0]}, TypeError, "seeds is a list of integers"),
    ],
)
def test_what_verify_does_not_take(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        tilegen.verify(SMALL, **{"device": "cpu"} | given)


# ---------------------------------------------------------------- what the functions take
FUNCTIONS = [tilegen.load, tilegen.build, tilegen.explain, tilegen.verify, tilegen.compile]
every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


@every_function
@pytest.mark.parametrize(
    ("source", "error", "said"),
    [
        (3, TypeError, "a spec is a path, a text with a line break in it, a dict, or .*, not int"),
        (None, TypeError, "not NoneType"),
        (b"kernel: k\n", TypeError, "not bytes"),
        ([("kernel", "k")], TypeError, "not list"),
        (tilegen, TypeError, "not module"),
        (Path("nothing.yaml"), tilegen.InputError, "TG001: cannot read nothing.yaml: No such file"),
        (ROOT, tilegen.InputError, "TG001: cannot read .*: Is a directory"),
        ("", tilegen.InputError, "TG001: cannot read '': "),
        ("a\0b", tilegen.InputError, "TG001: cannot read a.b: embedded null byte"),
        ("\ud800", tilegen.InputError, "TG001: cannot read .: "),
        (
            "kernel: k",
            tilegen.InputError,
            r"TG001: .*directory \(a spec that is no path has a line break",
        ),
        ("\n", tilegen.SpecError, "<text>:1:1: TG011: the spec is empty"),
        ("kernel: [\n", tilegen.SpecError, "<text>:2:1: TG003: this is not YAML"),
        ({}, tilegen.SpecError, "<dict>: TG102: the spec needs the key 'kernel'"),
        ({3: 4}, tilegen.SpecError, "<dict>: TG005: a key is a text"),
        ({"kernel": {1, 2}}, tilegen.SpecError, "kernel: TG012: YAML has nothing like set"),
    ],
)
def test_a_spec_that_is_none(function: Callable[..., Any], source: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        function(source)


@every_function
@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"arch": 90}, TypeError, "arch is a text, such as 'sm_90', not int"),
        ({"arch": b"sm_90"}, TypeError, "not bytes"),
        ({"arch": "sm_1"}, tilegen.SpecError, "TG109: unknown arch 'sm_1'"),
        ({"arch": ""}, tilegen.SpecError, "TG109: unknown arch ''"),
        ({"params": 3}, TypeError, "params is a dict of names and numbers"),
        ({"params": [("N", 3)]}, TypeError, "params is a dict of names and numbers"),
        ({"params": {3: 4}}, TypeError, "params is a dict of names and numbers"),
        ({"params": {"Q": 4}}, tilegen.SpecError, "TG105: there is no param 'Q' to set"),
        ({"params": {"N": "64"}}, tilegen.SpecError, "TG103: 'N' is set to '64', which is no integer"),
        ({"params": {"N": 64.0}}, tilegen.SpecError, "TG103: 'N' is set to 64.0"),
        ({"params": {"N": True}}, tilegen.SpecError, "TG103: 'N' is set to True"),
        ({"params": {"N": None}}, TypeError, "params is a dict of names and numbers"),
        ({"params": {"N": -1}}, tilegen.SpecError, "TG106: 'N' is set to -1"),
        ({"params": {"N": 10**5000}}, tilegen.SpecError, "TG106: 'N' is set to a number beyond 64 bits"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_an_argument_that_is_none(
    function: Callable[..., Any], given: dict[str, Any], error: type[Exception], said: str
) -> None:
    source = SMALL if "params" in given else SF
    with pytest.raises(error, match=said):
        function(source, **given)


def test_a_number_that_no_float32_holds() -> None:
    spec = SMALL | {"params": {"N": 64, "a": {"dtype": "float32", "default": 1.5}}}
    assert tilegen.load(spec, params={"a": np.float32(0.5)}).params[0].default == 0.5
    for value, code in ((10**400, "TG106"), ("x", "TG103"), (True, "TG103"), (1j, "TG103")):
        with pytest.raises(tilegen.SpecError, match=code):
            tilegen.load(spec, params={"a": value})


@pytest.mark.parametrize("default", ["inf", "-inf", "nan", "1.5"])
def test_a_float_param_may_have_any_default(default: str) -> None:
    array = {"scope": "global", "dtype": "int8", "shape": [4, 32]}
    spec = {"kernel": "scaled", "threads": 32, "params": {"scale": {"dtype": "float32", "default": float(default)}}}
    spec |= {"buffers": {"X": array, "Y": array}, "ops": [{"copy": {"scope": "warp", "src": "X", "dst": "Y"}}]}
    assert "float scale" in tilegen.build(spec).source
    assert tilegen.verify(spec, device="cpu").device == "cpu"


def test_numpys_integers_are_numbers() -> None:
    assert tilegen.load(SMALL, params={"N": np.int64(128)}).constants[0].value == 128


def test_a_broken_param_has_no_other_consequences() -> None:
    with pytest.raises(tilegen.SpecError) as caught:
        tilegen.load(ANY, params={"M": "many"})
    assert [d.code for d in caught.value.diagnostics] == ["TG103"]


@pytest.mark.slow
def test_a_loaded_spec_keeps_its_params_and_takes_others() -> None:
    spec = tilegen.load(ANY, "sm_80", {"M": 100})
    assert tilegen.load(spec) == spec
    for again, arch, values in (
        (tilegen.load(spec, params={"N": 64}), "sm_80", (100, 64)),
        (tilegen.load(spec, "sm_89"), "sm_89", (100, spec.params[1].default)),
        (tilegen.build(spec, params={"N": 64}).spec, "sm_80", (100, 64)),
    ):
        assert (again.arch, tuple(p.default for p in again.params[:2]), again.path) == (arch, values, str(ANY))
    assert tilegen.explain(spec, "sm_89")["arch"] == "sm_89"


def test_a_dict_builds_what_its_yaml_builds() -> None:
    built = tilegen.build(SMALL)
    again = tilegen.build(built.spec.text)
    assert built.source.replace("<dict>", "<text>") == again.source
    assert tilegen.explain(SMALL) == tilegen.explain(built.spec.text)
    resized = tilegen.load(tilegen.load(SMALL), params={"N": 128})
    assert (resized.path, resized.buffer("X").shape) == ("<dict>", (2, 128))
    with pytest.raises(tilegen.SpecError, match=r"^buffers\.X\.shape\[1\]: TG106: "):
        tilegen.load(tilegen.load(SMALL), params={"N": 0})


# ---------------------------------------------------------------- the text of an error
def test_the_text_of_an_error_has_place_code_and_fix() -> None:
    with pytest.raises(tilegen.SpecError) as caught:
        tilegen.load("kernel: k\nthread: 32\narch: sm90\nops: []\n")
    assert str(caught.value).splitlines() == [
        "<text>:2:1: TG101: unknown key 'thread' in the spec (did you mean 'threads'?)",
        "<text>:3:7: TG109: unknown arch 'sm90' (did you mean 'sm_90'?)",
    ]


@pytest.mark.parametrize(
    "name", ["TilegenError", "SpecError", "InputError", "ProofError", "EnvironmentLack", "CallError"]
)
def test_an_error_comes_back_from_another_process(name: str) -> None:
    found = [
        Diagnostic("TG101", "one", Mark("a.yaml", 7, 1, 6, "thread: 32"), "fix"),
        Diagnostic("TG105", "two\x1b[2J"),
    ]
    error = getattr(tilegen, name)(found)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.diagnostics) == (type(error), error.diagnostics)
    assert str(again) == "a.yaml:7:1: TG101: one (fix)\nTG105: two?[2J" and format_error(again) == format_error(error)
