"""What is declared and not used, and lanes that have no thread, are said, and stop nothing."""

from __future__ import annotations

import pytest

import tilegen
from tilegen.ops import ALL_OPS
from tilegen.spec import load
from tilegen.spec.data import Spec

_HEAD = "kernel: k\ngrid: {bx: 8}\n"
_BUFFERS = "".join(f"  {name}: {{scope: global, dtype: float16, shape: [256, 64]}}\n" for name in "XY")
_OPS = 'ops:\n  - copy: {src: "X[bx*32 : +32]", dst: "Y[bx*32 : +32]"}\n'


def _load(head: str, buffers: str = "", ops: str = _OPS) -> Spec:
    return load(f"{_HEAD}{head}buffers:\n{_BUFFERS}{buffers}{ops}", ALL_OPS)


def _codes(spec: Spec) -> list[tuple[str, int]]:
    return [(w.code, w.mark.line) for w in spec.warnings if w.mark]


def test_a_spec_that_uses_all_that_it_declares_has_no_warning() -> None:
    buffers = "  s: {scope: shared, dtype: float16, shape: [32, R]}\n  t: {view: s, axes: [1, 0]}\n"
    ops = _OPS + '  - copy: {src: "X[0:32]", dst: s}\n  - sync: cta\n  - copy: {src: t, dst: "Y[0:64, 0:32]"}\n'
    assert _load("threads: 64\nparams: {R: 64}\n", buffers, ops).warnings == ()


def test_a_param_that_only_another_declaration_names_is_used() -> None:
    assert _load("threads: 64\nparams: {R: 64, Q: R}\n".replace("Q: R", "Q: 8"), "").warnings != ()
    buffers = "  s: {scope: shared, dtype: float16, shape: [R, R]}\n"
    assert _codes(_load("threads: 64\nparams: {R: 64}\n", buffers)) == [("TG123", 8)]


def test_what_nothing_names_is_said_where_it_is_declared() -> None:
    found = _codes(_load("threads: 64\nparams: {Q: 4}\n", "  Z: {scope: shared, dtype: float16, shape: [4]}\n"))
    assert found == [("TG123", 4), ("TG123", 8)]


@pytest.mark.sweep(1)
@pytest.mark.parametrize("spare", ["", ", Q: 4"])
def test_an_op_on_whole_arrays_leaves_the_warnings_of_its_spec(spare: str) -> None:
    """None is of the statements that it becomes, which nobody wrote."""
    shapes = {"A": "M, K", "B": "K, N", "D": "M, N"}
    arrays = "".join(f"  {name}: {{scope: global, dtype: float32, shape: [{of}]}}\n" for name, of in shapes.items())
    head = f"kernel: k\nparams: {{M: 64, N: 64, K: 64{spare}}}\nbuffers:\n{arrays}"
    text = f"{head}ops:\n  - gemm: {{a: A, b: B, d: D}}\n"
    assert _codes(tilegen.load(text)) == ([("TG123", 2)] if spare else [])


@pytest.mark.parametrize(("threads", "hint"), [(100, "96 or 128 threads"), (20, "32 threads"), (33, "32 or 64")])
def test_lanes_without_a_thread_are_counted(threads: int, hint: str) -> None:
    [warning] = _load(f"threads: {threads}\n").warnings
    assert warning.code == "TG124" and hint in warning.hint


def test_a_spec_that_is_still_written_may_leave_all_unused() -> None:
    assert _load("threads: 20\nparams: {Q: 4}\n", "", "ops: []\n").warnings == ()


def test_a_role_that_nothing_runs_and_a_name_that_no_expression_has() -> None:
    roles = "roles:\n  one: {threads: 32}\n  two: {threads: 32}\n"
    ops = 'ops:\n  - role: one\n    do:\n      - copy: {src: "X[bx*32 : +32]", dst: "Y[bx*32 : +32]"}\n'
    [warning] = _load(roles, ops=ops).warnings
    assert (warning.code, warning.message) == ("TG123", "nothing uses the role 'two'")
    given = '{x: "X[bx*32 : +32]", z: "X[bx*32 : +32]"}'
    ops = f'ops:\n  - elementwise: {{dst: "Y[bx*32 : +32]", expr: x + 1.0, with: {given}}}\n'
    [warning] = _load("threads: 64\n", ops=ops).warnings
    assert (warning.code, warning.message) == ("TG123", "the expression does not use 'z' of 'with'")


_WRITTEN_BACK = [  # ops, and the arrays that are said to get a result that is none of theirs
    ('  - copy: {src: "X[0:32]", dst: "Y[0:32]"}\n  - copy: {src: "Y[0:32]", dst: "X[32:64]"}\n', ["X"]),
    ('  - copy: {src: "X[0:32]", dst: s}\n  - sync: cta\n  - copy: {src: s, dst: "X[0:32]"}\n', []),
    ('  - elementwise: {dst: "X[0:32]", expr: "x + 1", with: {x: "X[0:32]"}}\n', []),
    ('  - copy: {src: "X[0:32]", dst: "Y[0:32]"}\n  - copy: {src: "X[32:64]", dst: "Y[32:64]"}\n', []),
    ('  - fill: {dst: "X[0:32]", value: 0}\n  - copy: {src: "Y[0:32]", dst: "X[32:64]"}\n', []),
]


@pytest.mark.parametrize(("ops", "arrays"), _WRITTEN_BACK)
def test_a_result_that_is_copied_onto_an_input_is_said(ops: str, arrays: list[str]) -> None:
    shared = "  s: {scope: shared, dtype: float16, shape: [32, 64]}\n" if " s" in ops else ""
    warnings = [w for w in _load("threads: 64\n", shared, f"ops:\n{ops}").warnings if w.code == "TG125"]
    assert [w.message.split("'")[1] for w in warnings] == arrays
    assert all(w.mark is not None and w.mark.text.strip().startswith("- copy") for w in warnings)
