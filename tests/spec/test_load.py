"""What a spec means once it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults.verdicts import refusal_of
from tilegen import layouts
from tilegen.errors import InputError, SpecError
from tilegen.index import Var, bound, evaluate, least
from tilegen.ops import ALL_OPS
from tilegen.spec import load
from tilegen.spec.data import Call, Loop, Spec, SyncStatement

ROOT = Path(__file__).parents[2]
BUFFERS = """\
buffers:
  X: {scope: global, dtype: float32, shape: [128, 32]}
  s: {scope: shared, dtype: float32, shape: [4, 8, 32]}
"""


def load_text(text: str, **more: Any) -> Spec:
    head = "" if "kernel:" in text else "kernel: demo\n"
    threads = "" if "threads:" in text else "threads: 128\n"
    ops = "" if "ops:" in text else "ops: []\n"
    return load(head + threads + text + ops, ALL_OPS, **more)


def load_op(op: str, head: str = "") -> Call:
    """The op, which is the only one of a kernel with BUFFERS."""
    call = load_text(head + BUFFERS + f"ops:\n  - {op}\n").ops[0]
    assert isinstance(call, Call)
    return call


def codes(text: str, **more: Any) -> list[str]:
    return [d.code for d in refusal_of(SpecError, load_text, text, **more).diagnostics]


@pytest.mark.parametrize("path", sorted((ROOT / "specs").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_spec_loads_and_is_named_like_its_file(path: Path) -> None:
    spec = load(path, ALL_OPS)
    assert spec.kernel == path.stem
    assert spec.path == str(path)
    assert path.read_text().startswith("# ")


def test_a_spec_keeps_text_path_and_defaults() -> None:
    text = "kernel: k\nthreads: 32\nops: []\n"
    spec = load(text, {})
    assert (spec.path, spec.text, spec.arch) == ("<text>", text, "sm_90")
    assert (spec.grid, spec.cluster, spec.params, spec.buffers, spec.ops) == ((1, 1, 1), (1, 1, 1), (), (), ())


def test_a_file_that_is_not_there_is_no_spec_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path, "a\0b"):
        with pytest.raises(InputError) as caught:
            load(path, ALL_OPS)
        assert caught.value.diagnostics[0].code == "TG001"
        assert caught.value.exit_code == 2


def test_a_file_that_is_not_utf8_says_where(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("kernel: é\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8: byte 8 is 0xE9") as caught:
        load(path, ALL_OPS)
    [finding] = caught.value.diagnostics
    assert finding.mark and (finding.mark.line, finding.mark.column) == (1, 9) and finding.hint == "save it as UTF-8"
    path.write_bytes("kernel: k\n".encode("utf-16"))
    with pytest.raises(InputError, match="this is UTF-16"):
        load(path, ALL_OPS)


def test_line_ends_and_byte_order_mark_of_windows(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbfkernel: k\r\nthreads: 32\r\nops: []\r\n")
    assert load(path, ALL_OPS).kernel == "k"


# ---------------------------------------------------------------- params
def test_constants_fold_and_runtime_params_stay() -> None:
    spec = load_text(
        "params: {M: 100, N: {default: 64, multiple_of: 8, max: 256}}\ngrid: {bx: ceil(M / 64), by: N // 8}\n"
    )
    assert spec.grid[0] == 2
    assert str(spec.grid[1]) == "N >> 3"
    assert [(c.name, c.value) for c in spec.constants] == [("M", 100)]
    assert spec.params[0].var == Var("N", 257, 8, 8)
    assert spec.params[0].default == 64


def test_overrides_set_constants_and_defaults() -> None:
    text = "params: {M: 100, N: {default: 64, multiple_of: 8}}\ngrid: {bx: M}\n"
    spec = load_text(text, overrides={"M": 7, "N": 80})
    assert (spec.grid[0], spec.params[0].default) == (7, 80)


@pytest.mark.parametrize(
    ("overrides", "code"), [({"Q": 1}, "TG105"), ({"M": -1}, "TG106"), ({"N": 81}, "TG106"), ({"N": 0}, "TG106")]
)
def test_overrides_are_checked(overrides: dict[str, int], code: str) -> None:
    assert codes("params: {M: 100, N: {default: 64, multiple_of: 8}}\n", overrides=overrides) == [code]


def test_the_arch_can_be_overridden() -> None:
    assert load_text("arch: sm_80\n", arch="sm_100").arch == "sm_100"
    assert codes("arch: sm_80\n", arch="sm_101") == ["TG109"]


def test_float_params_are_kept_and_not_usable_in_expressions() -> None:
    spec = load_text("params: {a: {dtype: float32, default: 1}}\n")
    assert (spec.params[0].dtype, spec.params[0].default, spec.params[0].var) == ("float32", 1.0, None)
    assert codes("params: {a: {dtype: float32, default: 1}}\ngrid: {bx: a}\n") == ["TG113"]


# ---------------------------------------------------------------- buffers
def test_layouts_default_to_rows() -> None:
    spec = load_text("buffers:\n  A: {scope: shared, dtype: float32, shape: [4, 8]}\n")
    assert spec.buffer("A").layout == layouts.row_major((4, 8))
    assert spec.buffer("A").root == "A"


def test_col_and_notation_with_params() -> None:
    spec = load_text(
        "params: {M: {default: 8, max: 64}, ld: 40}\nbuffers:\n"
        "  A: {scope: global, dtype: float32, shape: [M, 8], layout: col}\n"
        '  B: {scope: global, dtype: float32, shape: [M, 8], layout: "S[(M,8):(ld,1)]"}\n'
    )
    assert evaluate(spec.buffer("A").layout.place((1, 2), spec.buffer("A").shape)["m"], {"M": 10}) == 21
    assert spec.buffer("B").layout.place((1, 2), spec.buffer("B").shape)["m"] == 42


def test_a_bare_swizzle_lies_over_rows() -> None:
    spec = load_text('buffers:\n  A: {scope: shared, dtype: float16, shape: [8, 64], layout: "Swizzle(3,3,3)"}\n')
    assert spec.buffer("A").layout.place((1, 8), (8, 64))["m"] == 64


VIEWS = """\
buffers:
  A: {scope: shared, dtype: float32, shape: [4, 32]}
  T: {view: A, axes: [1, 0]}
  TT: {view: T, axes: [1, 0]}
  C: {view: A, layout: col}
  L: {view: A, shape: [128]}
  H: {view: A, dtype: float16}
  I: {view: A, dtype: int32}
  B: {view: A, dtype: uint8, shape: [512]}
  Z: {view: T, dtype: uint32, axes: [1, 0]}
"""


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "at", "place"),
    [
        ("T", (32, 4), "float32", (3, 2), 67),
        ("TT", (4, 32), "float32", (2, 3), 67),
        ("C", (4, 32), "float32", (2, 3), 14),
        ("L", (128,), "float32", (67,), 67),
        ("H", (4, 64), "float16", (2, 3), 131),
        ("I", (4, 32), "int32", (2, 3), 67),
        ("B", (512,), "uint8", (300,), 300),
        ("Z", (4, 32), "uint32", (2, 3), 67),
    ],
)
def test_views_share_the_bytes_of_their_root(
    name: str, shape: tuple[int, ...], dtype: str, at: tuple[int, ...], place: int
) -> None:
    view = load_text(VIEWS).buffer(name)
    assert (view.shape, view.dtype, view.root, view.scope) == (shape, dtype, "A", "shared")
    assert view.layout.place(at, shape)["m"] == place


def test_views_may_stand_before_what_they_view() -> None:
    spec = load_text("buffers:\n  T: {view: A, axes: [1, 0]}\n  A: {scope: shared, dtype: float32, shape: [4, 32]}\n")
    assert [b.name for b in spec.buffers] == ["T", "A"]


@pytest.mark.parametrize(
    ("layout", "scope"),
    [
        ("S[(32,4):(4,1)]", "thread"),
        ("S[(32,4):(1@laneid,1)]", "warp"),
        ("S[(128,1):(1@tid_in_wg,1)]", "warpgroup"),
        ("S[(4,32):(1@wid_in_wg,1@laneid)]", "warpgroup"),
        ("S[(128,1):(1@tx,1)]", "cta"),
        ("S[(4,32):(1@warpid,1@laneid)]", "cta"),
        ("S[(2,64):(1@wgid,1@tid_in_wg)]", "cta"),
        ("S[(32,4):(1@laneid,1)] + 1@warpid", "cta"),
    ],
)
def test_registers_exist_once_per_narrowest_scope(layout: str, scope: str) -> None:
    text = (
        "threads: 256\nbuffers:\n  X: {scope: global, dtype: float32, shape: [128]}\n"
        f'  r: {{scope: register, dtype: float32, shape: [128], layout: "{layout}"}}\n'
    )
    ops = "ops:\n  - copy: {{scope: {}, src: X, dst: r}}\n"
    load_text(text + ops.format(scope))
    other = "thread" if scope != "thread" else "cta"
    assert codes(text + ops.format(other)) == ["TG211"]


def test_reading_through_a_layout_that_repeats_is_fine_and_writing_is_not() -> None:
    text = (
        "buffers:\n  X: {scope: global, dtype: float32, shape: [32]}\n"
        '  s: {scope: shared, dtype: float32, shape: [32], layout: "S[32:0]"}\nops:\n'
    )
    load_text(text + "  - copy: {src: s, dst: X}\n")
    assert codes(text + "  - copy: {src: X, dst: s}\n") == ["TG204"]


# ---------------------------------------------------------------- regions
@pytest.mark.parametrize(
    ("text", "begins", "lengths", "kept"),
    [
        ("s", (0, 0, 0), (4, 8, 32), (True, True, True)),
        ("s[1]", (1, 0, 0), (1, 8, 32), (False, True, True)),
        ("s[1:3]", (1, 0, 0), (2, 8, 32), (True, True, True)),
        ("s[:, 2]", (0, 2, 0), (4, 1, 32), (True, False, True)),
        ("s[1:, :2, 3:5]", (1, 0, 3), (3, 2, 2), (True, True, True)),
        ("s[1 : +2, :+3]", (1, 0, 0), (2, 3, 32), (True, True, True)),
        (" s [ (1+1) * 2 // 2 ] ", (2, 0, 0), (1, 8, 32), (False, True, True)),
    ],
)
def test_regions(text: str, begins: tuple[int, ...], lengths: tuple[int, ...], kept: tuple[bool, ...]) -> None:
    region = load_op(f'fill: {{dst: "{text}", value: 0}}').regions["dst"]
    assert (region.begins, region.lengths, region.kept) == (begins, lengths, kept)
    assert region.shape == tuple(n for n, k in zip(lengths, kept, strict=True) if k)


def test_lengths_that_cancel_are_constants() -> None:
    region = load_op('fill: {dst: "X[bx*32 : bx*32 + 32]", value: 0}', "grid: {bx: 4}\n").regions["dst"]
    assert str(region.begins[0]) == "bx * 32"
    assert region.lengths == (32, 32)


def test_instance_axes_are_variables_of_their_own() -> None:
    call = load_op('fill: {scope: warp, dst: "X[warpid*32 : +32]", value: 0}')
    assert call.regions["dst"].begins[0] == Var("warpid", 4) * 32


@pytest.mark.parametrize(
    ("region", "is_refused"),
    [
        ("X[bx*32 : +32]", False),
        ("X[bx*33 : +32]", True),
        ("X[(bx + 1)*32 - 32 : +32]", False),
        ("X[bx // 2 * 64 : +64]", False),
        ("X[bx % 3 * 40 : +40]", False),
        ("X[bx % 3 * 48 + 33 : +48]", True),
        ("X[bx*bx*8 : +32]", False),
        ("X[bx*bx*16 : +32]", True),
        ("X[96 - bx*32 : +32]", False),
        ("X[64 - bx*32 : +32]", True),
    ],
)
def test_a_region_that_leaves_its_buffer_is_found(region: str, is_refused: bool) -> None:
    text = "grid: {bx: 4}\n" + BUFFERS + f'ops:\n  - fill: {{dst: "{region}", value: 0}}\n'
    if is_refused:
        assert codes(text) == ["TG207"]
    else:
        load_text(text)


def test_a_condition_keeps_a_region_inside() -> None:
    text = "grid: {bx: 5}\n" + BUFFERS + 'ops:\n  - fill: {dst: "X[bx*32 : +32]", value: 0, when: bx < 4}\n'
    load_text(text)
    assert codes(text.replace("bx < 4", "bx < 5")) == ["TG207"]


def test_clipping_is_for_global_arrays() -> None:
    op = 'ops:\n  - copy: {src: "X[bx*32 : +32]", dst: "s[0:1, 0:1, %s]", edge: clip}\n'
    text = (
        "grid: {bx: 5}\nbuffers:\n  X: {scope: global, dtype: float32, shape: [150]}\n" + BUFFERS.split("\n")[2] + "\n"
    )
    load_text(text + op % "0:32")
    assert codes(text + op % "1:33") == ["TG207"]


def test_clipping_reaches_before_the_start() -> None:
    text = "grid: {bx: 4}\n" + BUFFERS + 'ops:\n  - fill: {dst: "X[bx*32 - 1 : +32]", value: 0, edge: clip}\n'
    load_text(text)
    load_text(text.replace("bx*32 - 1", "-1"))
    assert codes(text.replace(", edge: clip", "")) == ["TG207"]
    assert codes(text.replace("bx*32 - 1", "-bx")) == ["TG205"]


# ---------------------------------------------------------------- statements
def test_loops_nest_in_order_and_know_their_range() -> None:
    spec = load_text(BUFFERS + "ops:\n  - for: {k: [1, 8, 3], j: 4}\n    unroll: true\n    do:\n      - sync: cta\n")
    outer = spec.ops[0]
    assert isinstance(outer, Loop)
    inner = outer.body[0]
    assert isinstance(inner, Loop)
    assert (outer.var, outer.start, outer.stop, outer.step) == (Var("k", 8, 1, 1), 1, 8, 3)
    assert (inner.var, inner.unroll) == (Var("j", 4), True)
    meeting = inner.body[0]
    assert isinstance(meeting, SyncStatement)
    assert meeting.scope == "cta"


def test_a_loop_that_steps_evenly_knows_its_multiple() -> None:
    loop = load_text("ops:\n  - for: {k: [4, 30, 8]}\n    do: []\n").ops[0]
    assert isinstance(loop, Loop)
    assert loop.var == Var("k", 29, 4, 4)


def test_a_loop_may_depend_on_params_and_on_loops_around_it() -> None:
    text = "params: {N: {default: 4, max: 64}}\nops:\n  - for: {k: N, j: k + 1}\n    do: []\n"
    outer = load_text(text).ops[0]
    assert isinstance(outer, Loop)
    inner = outer.body[0]
    assert isinstance(inner, Loop)
    assert (bound(outer.var), bound(inner.var), least(inner.var)) == (64, 64, 0)


def test_loops_side_by_side_may_share_a_name() -> None:
    load_text("ops:\n  - for: {k: 4}\n    do: []\n  - for: {k: 2}\n    do: []\n")


def test_conditions() -> None:
    call = load_op('fill: {scope: warp, dst: "s[0]", value: 0, when: warpid == 0 and not bx > 1}', "grid: {bx: 4}\n")
    assert str(call.when) == "warpid == 0 && bx < 2"
    assert load_op('fill: {dst: "s[0]", value: 0, when: true}').when is True


def test_fields_are_the_ops_own_model() -> None:
    call = load_op('copy: {scope: warp, src: "X[0:8]", dst: "s[warpid]", variant: scalar}')
    assert (call.op, call.scope, call.fields.variant) == ("copy", "warp", "scalar")
    assert call.mark is not None
    assert (call.mark.line, call.mark.column) == (7, 5)


def test_a_fault_is_reported_once_where_its_cause_is() -> None:
    text = "buffers:\n  A: {scope: shared, dtype: floot32, shape: [8]}\nops:\n  - fill: {dst: A, value: 0}\n"
    assert codes(text) == ["TG109"]
    assert codes("params: {N: -1}\ngrid: {bx: N}\nops:\n  - for: {k: N}\n    do: []\n") == ["TG106"]


def test_errors_come_in_the_order_of_the_file() -> None:
    caught = refusal_of(
        SpecError, load_text, "thraeds: 1\ngrid: {bx: Q}\nbuffers:\n  A: {scope: shared}\nops:\n  - copi: {}\n"
    )
    lines = [d.mark.line for d in caught.diagnostics if d.mark]
    assert lines == sorted(lines)
    assert len(lines) == 5
