"""Specs that tilegen writes from templates: their own names give way to the user's, wherever both stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jinja2
import pytest

from tests.test_gemm import spec_of
from tilegen.ops import ALL_OPS, expand_spec
from tilegen.spec import load
from tilegen.spec.compose import compose, read_plain
from tilegen.spec.findings import Findings
from tilegen.spec.nodes import to_plain
from tilegen.spec.printing import print_spec
from tilegen.spec.written import as_given, settle_names, write_part

# Names that gemm's templates call their own buffers, loops, roles and values, for arrays of the user's.
TAKEN = (
    ("sa", "out", "m"),
    ("null_", "m_", "m"),
    ("k", "sums", "full"),
    ("h", "kt", "acc"),
    ("load", "a", "t"),
    ("terms", "x", "g"),
)
WAYS: Mapping[str, dict[str, Any]] = {
    "wgmma": {"variant": "wgmma"}, "ring": {"variant": "mma_sync", "load": "tma"},
    "copied": {"variant": "mma_sync", "load": "cp_async"}, "by threads": {"variant": "mma_sync", "load": "threads"},
    "fused": {"variant": "simt", "dtype": "float32"}, "parts of K": {"k_parts": 4, "dtype": "float32"},
    "rows": {"variant": "rows", "n": 1}, "of the transposes": {"variant": "simt", "dtype": "float32", "turned": True},
}  # fmt: skip


def expand(names: tuple[str, str, str], fields: Mapping[str, Any]) -> str:
    """The printed spec of a product of arrays with these names, with an epilogue that reads d."""
    given = spec_of(m=128, k=512, c="D", beta=0.5, **fields)
    renamed = dict(zip("ABD", names, strict=True))
    given["buffers"] = {renamed[name]: terms for name, terms in given["buffers"].items()}
    call = given["ops"][0]["gemm"]
    call |= {field: renamed[call[field]] for field in ("a", "b", "d", "c")}
    return print_spec(expand_spec(load(given, ALL_OPS))).split("kernel:")[1]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("names", TAKEN, ids="-".join)
def test_a_spec_means_the_same_whatever_the_users_arrays_are_called(names: tuple[str, str, str], way: str) -> None:
    """Word for word the texts are the same, but for the arrays, and for numbers behind the template's names."""
    words = [re.findall(r"\w+", expand(n, WAYS[way])) for n in (("A", "B", "D"), names)]
    exchanged = [(x, y) for x, y in zip(*words, strict=True) if x != y]
    assert {"A", "B", "D"} <= {x for x, _ in exchanged}
    own = [(x, y) for x, y in exchanged if x.removesuffix("_t") not in "ABD"]  # nor their views
    assert all(re.fullmatch(rf"{x}\d+", y) for x, y in own), own
    assert not any("__" in word for word in words[1])  # C++ reserves it


def test_what_a_key_of_the_language_says_is_not_renamed() -> None:
    part = {"buffers": {"a": {"scope": "register"}}, "ops": [{"mma": {"a": "a[0]", "b": f"{as_given('a')}[a]"}}]}
    assert settle_names(part, frozenset({"a"})) == {
        "buffers": {"a2": {"scope": "register"}},
        "ops": [{"mma": {"a": "a2[0]", "b": "a[a2]"}}],
    }


def test_a_name_that_a_template_is_not_given_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="undefined"):
        write_part("gemm/rows.yaml", {}, frozenset())


@pytest.mark.parametrize("text", [
    "a: [1, -2, 0.5, 1e3, yes, on, null, ~, true, x]", "- {x: '1', y: \"k\\ue000\", z: }", "- &n {a: b}\n- *n",
])  # fmt: skip
def test_own_texts_are_read_as_users_are(text: str) -> None:
    inside = "top:\n" + "\n".join(f"  {line}" for line in text.split("\n"))
    assert read_plain(inside) == to_plain(compose(inside, "x", Findings()))
