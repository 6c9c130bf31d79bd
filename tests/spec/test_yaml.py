"""YAML's traps, each closed; and texts that mean harm."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tilegen.errors import SpecError
from tilegen.spec.compose import MAX_CHARACTERS, compose
from tilegen.spec.findings import Findings
from tilegen.spec.nodes import Scalar, to_plain


def read(text: str) -> Any:
    findings = Findings()
    plain = to_plain(compose(text, "a.yaml", findings))
    assert findings.found == []
    return plain


def find_codes(text: str) -> list[str]:
    findings = Findings()
    try:
        compose(text, "a.yaml", findings)
    except SpecError as error:
        return [d.code for d in error.diagnostics]
    return [d.code for d in findings.found]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4:32", "4:32"),
        ("on", "on"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("off", "off"),
        ("y", "y"),
        ("1_000", "1_000"),
        ("2001-01-01", "2001-01-01"),
        ("=", "="),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("12e03", 12000.0),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("-.inf", float("-inf")),
        ('"8"', "8"),
        ("'null'", "null"),
        ("0.0", 0.0),
        ("--1", "--1"),
        ("1.2.3", "1.2.3"),
        ("0b", "0b"),
        ("NaN", "NaN"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    found = read(f"a: {text}")["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["010", "0o17", "0x1F", "-017", "0b11", "1" * 30])
def test_numbers_with_two_readings_are_refused(text: str) -> None:
    assert find_codes(f"a: {text}") == ["TG008"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a: {layout: Swizzle(3,3,3)}", {"layout": "Swizzle(3,3,3)"}),
        ("a: {layout: Swizzle(3,3,3), b: 1}", {"layout": "Swizzle(3,3,3)", "b": 1}),
        ("a: [(16,4):(4,1), 1]", ["(16,4):(4,1)", 1]),
        ("a: {bx: f(N, 64)}", {"bx": "f(N, 64)"}),
        ("a: [f(1, 2), g(3, 4)]", ["f(1, 2)", "g(3, 4)"]),
        ("a: {b: f(g(1, 2), 3), c: 4}", {"b": "f(g(1, 2), 3)", "c": 4}),
    ],
)
def test_values_split_at_a_comma_are_put_together_and_reported(text: str, meant: Any) -> None:
    findings = Findings()
    assert to_plain(compose(text, "a.yaml", findings))["a"] == meant
    assert {d.code for d in findings.found} == {"TG006"}


def test_parentheses_without_a_comma_need_no_quotes() -> None:
    assert read("a: {bx: ceil(N / 64), by: (M + 1) * 2}")["a"] == {"bx": "ceil(N / 64)", "by": "(M + 1) * 2"}


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("a: 1\na: 2", ["TG004"]),
        ("a: {b: 1, b: 1}", ["TG004"]),
        ("1: 2", ["TG005"]),
        ("{true: 2}", ["TG005"]),
        ("null: 2", ["TG005"]),
        ("? [a]\n: 2", ["TG005"]),
        ("a: &x {b: 1}\nc: {<<: *x}", ["TG009"]),
        ("a: !t b", ["TG009"]),
        ("a: !!python/object/apply:os.system [x]", ["TG009"]),
        ("a: 1\n---\nb: 1", ["TG009"]),
        ("a: &x [*x]", ["TG010"]),
        ("a: *x", ["TG003"]),
        ("a: [", ["TG003"]),
        ("\ta: 1", ["TG003"]),
        ("a: 'b", ["TG003"]),
        ("a: b: c", ["TG003"]),
        ("a: @b", ["TG003"]),
        ('a: "\\UFFFFFFFF"', ["TG003"]),
        ("%YAML 9.9\n---\na: 1", ["TG003"]),
        ("a: \x07", ["TG002"]),
        ("", ["TG011"]),
        ("# nothing", ["TG011"]),
        ("- a", ["TG011"]),
        ("a", ["TG011"]),
        ("~", ["TG011"]),
    ],
)
def test_traps(text: str, codes: list[str]) -> None:
    assert find_codes(text) == codes


def test_an_alias_may_repeat_a_value() -> None:
    assert read("a: &x [1, 2]\nb: *x") == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "start", "column"),
    [
        ("a: bcd", 1, 5),
        ('a: "bcd"', 1, 6),
        ("a: 'bcd'", 1, 6),
        ("{x: {a: bcd}}", 1, 10),
        ('{é: "bcd"}', 1, 7),
        ('a: "b\\x63d"', 1, 4),
        ("a: 'b''d'", 1, 4),
        ("a: |\n  bcd", 1, 4),
    ],
)
def test_places_inside_of_scalars(text: str, start: int, column: int) -> None:
    node: Any = compose(text, "a.yaml", Findings())
    while not isinstance(node, Scalar):
        node = node.entries[0][1]
    assert node.locate(start, start + 1).column == column


# ---------------------------------------------------------------- harm
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30)
)
HEAD = "kernel: k\nthreads: 32\n"
HARMFUL = {
    "alias bomb": BOMB,
    "deep lists": "ops: " + "[" * 20000,
    "deep mappings": "ops: " + "{a: " * 10000,
    "deep blocks": "\n".join(" " * i + "a:" for i in range(300)),
    "many values": "ops: [" + "1, " * 20000,
    "many keys": "\n".join(f"k{i}: 1" for i in range(7000)),
    "one long line": "kernel: " + "k" * 60000,
    "too long": "#" * (MAX_CHARACTERS + 1),
    "long expression": HEAD + "grid: {bx: " + "1+" * 20000 + "1}\nops: []",
    "nested parentheses": HEAD + "grid: {bx: " + "(" * 250 + "1" + ")" * 250 + "}\nops: []",
    "large product": HEAD + "grid: {bx: " + "*".join(["99999999"] * 50) + "}\nops: []",
    "10^12 elements": HEAD + "buffers:\n  A: {scope: global, dtype: int8, shape: [1000000, 1000000]}\nops: []",
    "10^12 shared": HEAD + "buffers:\n  A: {scope: shared, dtype: int8, shape: [1000000000000]}\nops: []",
    "10^12 swizzled": HEAD + "buffers:\n  A: {scope: shared, dtype: int8, shape: [1000000, 1000000], "
    'layout: "Swizzle(3,3,3)"}\nops: []',
    "10^12 in a layout": HEAD + "buffers:\n  A: {scope: shared, dtype: int8, shape: [8], "
    'layout: "S[(1000000,1000000):(1,1)]"}\nops: []',
    "10^9 overlapping": HEAD + "buffers:\n  A: {scope: global, dtype: int8, shape: [30000, 30000], "
    'layout: "S[(30000,30000):(29999,1)]"}\nops: [{fill: {dst: "A[0:2, 0:2]", value: 0}}]',
    "long shift": HEAD + 'buffers:\n  A: {scope: shared, dtype: int8, shape: [8], layout: "Swizzle(900,900,900)"}\n'
    "ops: []",
    "many loops": HEAD
    + "ops:\n  - for: {"
    + ", ".join(f"i{n}: 99999" for n in range(60))
    + '}\n    do: [{fill: {dst: "A[i0 + i1 + i2 + i3 + i4 + i5 + i6 + i7 + i8]", value: 0}}]\nbuffers:\n'
    "  A: {scope: global, dtype: int8, shape: [9]}\n",
}
_RUN = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from tilegen.errors import TilegenError
from tilegen.ops import ALL_OPS
from tilegen.spec import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load(sys.stdin.read() + "\\n", ALL_OPS)
except TilegenError as error:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(error.diagnostics[0].code, grown)
"""


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", HARMFUL)
def test_harm_is_refused_within_bounds(name: str) -> None:
    """In a process of its own: 20 s of CPU at the most, and 200 MB beyond what the imports take."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN], input=HARMFUL[name], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    code, grown_kib = done.stdout.split()
    assert code.startswith("TG")
    assert int(grown_kib) < 200 * 1024
