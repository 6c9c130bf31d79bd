"""What a kernel rests on: proved, promised and claimed stand apart in explain, heads of files and the manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvcc.compile import compile_texts, requires_nvcc

from specs.test_launchers import run
from tests.faults.verdicts import proof_code
from tilegen.arch import ARCHES
from tilegen.interpret import interpret
from tilegen.pipeline import Built, BuiltProgram, build, explain, load, output_texts
from tilegen.plan import Trust, list_checks
from tilegen.proofs import prove
from tilegen.render.checks import render_checks
from tilegen.report.text import explain_text

KERNEL = """
kernel: rests
arch: sm_90
params: {{T: {{default: 50, max: 4096}}, V: 100, D: 32}}
grid: {{bx: T}}
threads: 32
buffers:
  ids: {{scope: global, dtype: int32, shape: [T], values: "0 : V"}}
  W: {{scope: global, dtype: float32, shape: [V, D]}}
  Y: {{scope: global, dtype: float32, shape: [T, D]}}
ops:
  - let: {{id: "ids[bx]"}}
  - copy: {{src: "W[id : +1]", dst: "Y[bx : +1]"{more}}}
"""
CLAIMS = """
kernel: claims
arch: sm_90
threads: 32
buffers:
  ids: {scope: global, dtype: int32, shape: [32], values: "0 : 32", distinct: true}
  X: {scope: global, dtype: float32, shape: [32]}
  Y: {scope: global, dtype: float32, shape: [32]}
  i: {scope: register, dtype: int32, shape: [32], layout: auto, distinct: true}
ops:
  - copy: {src: ids, dst: i}
  - scatter: {src: X, index: i, dst: Y, edge: clip}
"""
PASSES = """
kernel: two
arch: sm_90
params: {T: {default: 50, max: 4096}, V: 100, D: 32}
buffers:
  ids: {scope: global, dtype: int32, shape: [T], values: "0 : V"}
  W: {scope: global, dtype: float32, shape: [V, D]}
  Y: {scope: global, dtype: float32, shape: [T, D]}
  Z: {scope: global, dtype: float32, shape: [T, D]}
passes:
  - name: first
    grid: {bx: T}
    threads: 32
    ops: [{let: {id: "ids[bx]"}}, {copy: {src: "W[id : +1]", dst: "Y[bx : +1]"}}]
  - name: second
    grid: {bx: T}
    threads: 32
    ops: [{let: {id: "ids[bx]"}}, {copy: {src: "W[id : +1]", dst: "Z[bx : +1]", edge: clip}}]
"""


def built_of(text: str) -> Built:
    built = build(text)
    assert isinstance(built, Built)
    return built


def head_of(text: str) -> str:
    """The comment that a file begins with, on one line."""
    lines = (line.removeprefix("//").strip() for line in text.splitlines() if line.startswith("//"))
    return " ".join(lines)


def test_what_a_false_promise_does_is_said_in_capitals() -> None:
    for more, said, not_said in (
        ("", "THIS MAY READ OR WRITE ANYWHERE, WITHOUT 'edge: clip': op 1 at W[id : +1]", "DROPPED"),
        (", edge: clip", "DROPPED: op 1 at W[id : +1]", "ANYWHERE"),
    ):
        built = built_of(KERNEL.format(more=more))
        texts = output_texts(built)
        for name in ("rests.cu", "rests.h"):
            head = head_of(texts[name])
            assert said in head and not_said not in head and "A LAUNCH DOES NOT CHECK PROMISES" in head, name
        found = built.manifest["trust"]
        assert any(said in line for line in found["if_a_promise_is_false"]["says"])
        assert explain(built.spec)["trust"] == found


BY_INDEX = """kernel: rests
threads: 64
buffers:
  X: {scope: global, dtype: float32, shape: [64]}
  P: {scope: global, dtype: int32, shape: [64], values: "0 : 1000", distinct: true}
  Y: {scope: global, dtype: float32, shape: [5000], partial: true}
ops:
  - scatter: {src: X, index: "P*4 + 3", dst: Y, edge: clip}
"""


def test_what_a_lie_is_computed_with_may_name_a_place_of_the_array() -> None:
    """2^30 times 4 is 0: what is stored there is not dropped."""
    built = built_of(BY_INDEX)
    lie: dict[str, np.ndarray[Any, Any]] = {
        "X": np.ones(64, np.float32), "P": np.r_[1 << 30, 1:64].astype(np.int32), "Y": np.zeros(5000, np.float32),
    }  # fmt: skip
    given = {name: values.__getitem__ for name, values in lie.items()}
    at, _ = interpret(built.plan, [(0, 0, 0)], given, {}).written["Y"]
    assert at.tolist() == [4 * k + 3 for k in range(64)]
    head = head_of(output_texts(built)["rests.cu"])
    assert "ANOTHER PLACE OF THE SAME ARRAY, or be dropped: op 1 at Y" in head and "is DROPPED" not in head


def test_three_kinds_stand_apart() -> None:
    built = built_of(KERNEL.format(more=""))
    text = explain_text(explain(built.spec), ARCHES["sm_90"])
    own = text[text.index("proved, by build") :].splitlines()
    at = [own.index(f"{word}:") for word in ("promised, by the caller", "if a promise is false")]
    assert own[at[0] + 1] == "  ids holds values 0 : 100" and at[0] < at[1] and "claimed, by the author:" not in own
    promised = built.manifest["trust"]["promised"]
    assert promised == [{
        "array": "ids", "dtype": "int32", "says": "values 0 : 100", "values": {"low": "0", "high": "100", "step": 1},
    }]  # fmt: skip


def test_a_claim_is_no_promise() -> None:
    built = built_of(CLAIMS)
    found = built.manifest["trust"]
    assert [c["says"] for c in found["claimed"]] == [
        "no two elements that are scattered to it go to one place", "every element of it is written",
    ]  # fmt: skip
    assert [p["array"] for p in found["promised"]] == ["ids"]
    assert "CLAIMED by the author, and not proved, of Y" in head_of(built.source)
    assert "claimed, by the author:" in explain_text(explain(built.spec), ARCHES["sm_90"])


def test_a_kernel_without_promises_says_nothing_of_them() -> None:
    text = KERNEL.format(more="").replace('let: {id: "ids[bx]"}', "let: {id: bx}").replace(', values: "0 : V"', "")
    built = built_of(text.replace("W[id : +1]", "W[bx % 100 : +1]"))
    texts = output_texts(built)
    assert not any("PROMISE" in head_of(text) or "TILEGEN_CHECK" in text for text in texts.values())


def test_what_passes_rest_on_stands_once() -> None:
    built = build(PASSES)
    assert isinstance(built, BuiltProgram)
    found = built.manifest["trust"]
    assert [p["array"] for p in found["promised"]] == ["ids"]
    places = found["if_a_promise_is_false"]
    assert places["undefined"] == ["two_first, op 1 at W[id : +1]"] and places["dropped"] == [
        "two_second, op 1 at W[id : +1]"
    ]
    header = output_texts(built)["two.h"]
    launch = header[header.index("static inline cudaError_t launch_two(") :]
    assert header.count("check_promises_of_two(") == 2 and "check_promises_of_two(ids, W, Y, Z, T, V" not in launch
    assert launch.index("check_promises_of_two(") < launch.index("launch_two_first(")


def test_a_plan_that_hides_a_promise_is_refused() -> None:
    from dataclasses import replace

    built = built_of(KERNEL.format(more=""))
    assert proof_code(lambda: prove(built.spec, replace(built.plan, trust=Trust()))) == "TG416"


DTYPES = ("int8", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
          "float8_e4m3fn", "float8_e5m2")  # fmt: skip


def every_promise() -> str:
    """A kernel with a promise of each type, and of each kind."""
    buffers = [f'  {d}_x: {{scope: global, dtype: {d}, shape: [T, 4], values: "0 : 2"}}\n' for d in DTYPES]
    buffers += ['  d: {scope: global, dtype: int64, shape: [T], values: "-8 : 800000 : 8", distinct: true}\n']
    buffers += ["  o: {scope: global, dtype: int32, shape: [T + 1], offsets: T}\n"]
    params = "params: {T: {default: 64, max: 4096}, count: {default: 3, max: 9}}\n"
    return (
        f"kernel: all_kinds\narch: sm_90\n{params}threads: 32\nbuffers:\n{''.join(buffers)}"
        "  Y: {scope: global, dtype: float32, shape: [64]}\nops:\n  - fill: {dst: Y, value: 1}\n"
    )


@requires_nvcc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_checks_compile_without_stack(arch: str) -> None:
    plan = built_of(every_promise()).plan
    checks = list_checks(plan)
    assert len(checks) == len(DTYPES) + 2
    (report,) = compile_texts([render_checks(checks[:1])], arch)
    assert (report.stack, report.spills) == (0, 0)
    for check in checks:
        (report,) = compile_texts([render_checks([check])], arch)
        assert (report.stack, report.spills) == (0, 0), check.name


@requires_nvcc
def test_a_header_that_checks_compiles(tmp_path: Path) -> None:
    """Two of them in one file, behind their kernels."""
    for text in (every_promise(), KERNEL.format(more=", edge: clip")):
        for name, written in output_texts(built_of(text)).items():
            (tmp_path / name).write_text(written, encoding="utf-8")
    lines = ['#include "all_kinds.cu"', '#include "rests.cu"', '#include "all_kinds.h"', '#include "rests.h"']
    body = "int main() { return launch_rests(nullptr, nullptr, nullptr, 1) == TILEGEN_FALSE_PROMISE; }"
    (tmp_path / "all.cu").write_text("\n".join([*lines, body]) + "\n")
    flags = ("-Werror", "all-warnings", "-DTILEGEN_CHECK_VALUES", "-std=c++17")
    run(tmp_path, "nvcc", *flags, "-gencode=arch=compute_90,code=sm_90", "-c", "all.cu", "-o", "all.o")


def test_the_same_checks_for_a_loaded_spec(tmp_path: Path) -> None:
    """A promise has the parameters of the launch, whatever its buffers are called."""
    text = every_promise().replace("params: {T:", "params: {elem: {default: 3, max: 9}, T:")
    plan = built_of(text).plan
    assert all(one.promise.elem.name != "elem" for one in list_checks(plan))
    assert load(text).kernel == "all_kinds"
