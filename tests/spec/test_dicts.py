"""A spec that is a dict is the spec of its YAML; what is wrong with it is named by the keys that lead there."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.verdicts import refusal_of
from tests.session import examples
from tilegen.errors import SpecError, format_error
from tilegen.ops import ALL_OPS
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec import load
from tilegen.spec.compose import MAX_DEPTH, MAX_NODES, compose
from tilegen.spec.findings import Findings
from tilegen.spec.nodes import to_plain
from tilegen.spec.sources import write_dict

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))


def read(text: str) -> Any:
    findings = Findings()
    plain = to_plain(compose(text, "a.yaml", findings))
    assert findings.found == []
    return plain


def spec(**more: Any) -> dict[str, Any]:
    """X to s to Y, transposed, with a sync between."""
    array = {"scope": "global", "dtype": "float32", "shape": [32, 32]}
    buffers = {"X": array, "Y": array, "s": array | {"scope": "shared"}, "sT": {"view": "s", "axes": [1, 0]}}
    ops = [{"copy": {"scope": "warp", "src": "X", "dst": "s"}}, {"sync": "warp"}]
    ops += [{"copy": {"scope": "warp", "src": "sT", "dst": "Y"}}]
    return {"kernel": "k", "threads": 32, "buffers": buffers, "ops": ops} | more


def refused(given: Any) -> list[tuple[str, str]]:
    """Place and code of everything that is wrong."""
    caught = refusal_of(SpecError, load, given, ALL_OPS)
    assert format_error(caught)
    return [(str(d.mark), d.code) for d in caught.diagnostics]


# ---------------------------------------------------------------- the same as its YAML
@pytest.mark.sweep(16)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_dict_means_what_its_yaml_means(path: Path) -> None:
    wanted = load(path, ALL_OPS)
    found = load(read(path.read_text(encoding="utf-8")), ALL_OPS)
    assert found.path == "<dict>" and replace(found, path=wanted.path, text=wanted.text) == wanted
    again = load(found.text, ALL_OPS)
    assert replace(again, path=wanted.path, text=wanted.text) == wanted


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=12),
    st.sampled_from(["on", "no", "y", "0o17", "010", "1e5", "4:32", "~", "null", "True", "<<", "- a", "a: b", "#", "&a",
                     "*a", "!!str", "|", ".inf", "\n", " a ", "\x00", "\ud800", "'", '"', "X[0:4, by]", "é"]),
)  # fmt: skip
DATA = st.dictionaries(
    st.text(max_size=8) | st.sampled_from(["on", "<<", "y", "1", "null", ""]),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner,
                                                                                       max_size=3), max_leaves=12),
    max_size=4,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(data=DATA)
def test_yaml_reads_back_what_was_given(data: dict[str, Any]) -> None:
    found = read(write_dict(data))
    assert found == data and repr(found) == repr(data)


class Scope(enum.StrEnum):
    SHARED = "shared"


class Size(enum.IntEnum):
    ROWS = 32


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (np.int64(8), 8),
        (np.uint8(8), 8),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        ((8, 64), [8, 64]),
        (Scope.SHARED, "shared"),
        (Size.ROWS, 32),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_read_as_plain_data(given: Any, plain: Any) -> None:
    assert repr(read(write_dict({"value": given}))) == repr({"value": plain})


def test_one_list_may_stand_in_several_places() -> None:
    shape = [32, 32]
    array = {"scope": "global", "dtype": "float32", "shape": shape}
    loaded = load(spec(buffers=spec()["buffers"] | {"X": array, "Y": array}), ALL_OPS)
    assert loaded == replace(load(spec(), ALL_OPS), text=loaded.text) and "&" not in loaded.text


def test_what_was_given_is_not_kept() -> None:
    data = spec()
    loaded = load(data, ALL_OPS)
    data["kernel"] = "other"
    assert loaded.kernel == "k" and read(loaded.text) == spec()


# ---------------------------------------------------------------- what is wrong, and where
@pytest.mark.parametrize(
    ("change", "place", "code"),
    [
        (lambda s: s.update(thread=32), "thread", "TG101"),
        (lambda s: s.update({"odd key": 1}), "['odd key']", "TG101"),
        (lambda s: s.update(threads="many"), "threads", "TG105"),
        (lambda s: s.update(arch=None), "arch", "TG007"),
        (lambda s: s.pop("kernel"), "<dict>", "TG102"),
        (lambda s: s["buffers"].update(s={"scope": "shared", "shape": [32, 32]}), "buffers.s", "TG102"),
        (lambda s: s["buffers"].update(t={"scope": "shared", "dtype": "float32", "shape": [32, "q*2"]}),
         "buffers.t.shape[1]", "TG105"),
        (lambda s: s["ops"][0]["copy"].update(src="X[0:32, foo]"), "ops[0].copy.src", "TG105"),
        (lambda s: s["ops"].insert(2, {"for": {"i": 2}, "do": [{"sync": "wrap"}]}), "ops[2].do[0].sync", "TG109"),
        # what only Python can hold
        (lambda s: s["buffers"]["s"].update(shape={8, 64}), "buffers.s.shape", "TG012"),
        (lambda s: s["buffers"]["s"].update(shape=[32, np.arange(2)]), "buffers.s.shape[1]", "TG012"),
        (lambda s: s.update(arch=b"sm_90"), "arch", "TG012"),
        (lambda s: s.update(kernel=Path("k")), "kernel", "TG012"),
        (lambda s: s.update(threads=Fraction(64, 2)), "threads", "TG012"),
        (lambda s: s.update(threads=Decimal(32)), "threads", "TG012"),
        (lambda s: s.update(ops=(op for op in s["ops"])), "ops", "TG012"),
        (lambda s: s.update(ops=range(3)), "ops", "TG012"),
        (lambda s: s["buffers"].update({7: {}}), "buffers", "TG005"),
        (lambda s: s.update({None: 1}), "<dict>", "TG005"),
        (lambda s: s.update({("a", "b"): 1}), "<dict>", "TG005"),
        (lambda s: s.update(threads=2**64), "threads", "TG008"),
        (lambda s: s.update(threads=10**5000), "threads", "TG008"),
    ],
)  # fmt: skip
def test_the_keys_name_the_place(change: Callable[[dict[str, Any]], Any], place: str, code: str) -> None:
    data = spec(buffers=dict(spec()["buffers"]))
    data["buffers"]["s"] = dict(data["buffers"]["s"])
    change(data)
    assert refused(data) == [(place, code)]


def test_everything_that_yaml_could_not_hold_is_found_at_once() -> None:
    data = spec(threads={32}, arch=b"sm_90")
    data["ops"].append(data["ops"])
    assert refused(data) == [("threads", "TG012"), ("ops[3]", "TG010"), ("arch", "TG012")]


def test_the_text_of_the_error_has_place_code_and_fix() -> None:
    caught = refusal_of(SpecError, load, spec(thread=32), ALL_OPS)
    assert str(caught).startswith("thread: TG101: unknown key 'thread' in the spec (")
    assert " --> thread\n" in format_error(caught) and "| thread: 32\n" in format_error(caught)


def test_hints_name_the_statement_by_its_keys() -> None:
    data = spec()
    del data["ops"][1]
    racy = load(data, ALL_OPS)
    with pytest.raises(Exception, match=r"^ops\[1\]\.copy: TG403: .* \(insert `- sync: warp` before ops\[1\]\.copy\)$"):
        prove(racy, plan_spec(racy))
    named = spec(params={"X": 3})
    with pytest.raises(SpecError, match=r"^buffers\.X: TG108: 'X' already names a param \(first on params\.X\)"):
        load(named, ALL_OPS)


# ---------------------------------------------------------------- too large, too deep, inside of itself
def test_what_stands_inside_of_itself() -> None:
    data = spec()
    data["buffers"] = {"X": data}
    assert refused(data) == [("buffers.X", "TG010")]
    ring: list[Any] = []
    ring.append({"again": ring})
    assert refused({"kernel": ring}) == [("kernel[0].again", "TG010")]


def test_what_is_nested_too_deep() -> None:
    nested: Any = 0
    for _ in range(50_000):
        nested = [nested]
    ((place, code),) = refused({"kernel": nested})
    assert code == "TG010" and place == "kernel" + "[0]" * (MAX_DEPTH - 1)


def test_what_is_too_large() -> None:
    wide: Any = [1]
    for _ in range(20):
        wide = [wide, wide]
    assert refused({"kernel": wide})[0][1] == "TG010"
    assert refused({"kernel": [0] * MAX_NODES})[0][1] == "TG010"
    assert refused({"kernel": "k" * 70_000})[0][1] == "TG010"
    assert refused({"kernel": "\x00" * 50_000})[0][1] == "TG010", "written out it is longer than given"
