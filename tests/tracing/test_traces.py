"""Traces without a GPU: kernels with stamps on the PTX machine, wrong stamps in their buffers, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.test_cli import tilegen as run
from tilegen import gpu
from tilegen.errors import ProofError
from tilegen.pipeline import Built, build
from tilegen.plan import default_values
from tilegen.render import render
from tilegen.spec.outline import launch_of
from tilegen.tracing import running
from tilegen.tracing.files import keep_part, read_trace
from tilegen.tracing.orders import describe_broken
from tilegen.tracing.picture import find_end, trace_picture
from tilegen.tracing.readings import RECORD_BYTES, choose_clusters, read_buffer
from tilegen.tracing.running import Stamps, draw_inputs, judge_stamps, run_on_ptx, with_stamps
from tilegen.tracing.sites import place_stamps

SPECS = Path(__file__).parents[2] / "specs"
REGISTERS = """\
kernel: zeros
grid: {bx: 4}
threads: 32
buffers: {r: {scope: register, dtype: float32, shape: [32]}}
ops: [{fill: {scope: thread, dst: r, value: 0}}]
"""
pytestmark = pytest.mark.skipif(not gpu.find_compilers(), reason="no compiler of CUDA")
Spoil = Callable[[np.ndarray], None]


@cache
def built_of(name: str) -> Built:
    built = build(SPECS / f"{name}.yaml")
    assert isinstance(built, Built)
    return built


@cache
def stamps_of(name: str, most: int = 64) -> Stamps:
    """What the PTX machine stamps in two clusters."""
    built = built_of(name)
    stamped, case = place_stamps(built.plan, most), default_values(built.spec.params)
    tracing = choose_clusters(launch_of(built.spec, case).grid, built.plan.cluster, 2)
    image, device = run_on_ptx(built, stamped, tracing, draw_inputs(built, case, 1))
    return Stamps(stamped, tracing, image, device, 1)


def spoil(stamps: Stamps, change: Spoil) -> Stamps:
    """The same with another buffer: ``change`` is given its records, [thread, record, half]."""
    image = stamps.image.copy()
    change(image.view("<u4").reshape(-1, stamps.stamped.plan.stamps + 5, 2))
    return Stamps(stamps.stamped, stamps.tracing, image, stamps.device, stamps.seed)


# ---------------------------------------------------------------- what holds
@pytest.mark.parametrize("name", ["hgemm_cluster", "attention_hopper", "hgemm_ring", "gemm_mma"])
def test_stamps_leave_products_side_by_side(name: str) -> None:
    """C7510 to C7519 of ptxas: products of wgmma wait for one another. A branch between a product and its wait does it.

    hgemm_ring has no register left: with stamps it spills.
    """
    built = built_of(name)
    traced = with_stamps(built, place_stamps(built.plan, 4096))
    for one in (built, traced):
        cubin = gpu.compile_cubin(one.source, built.plan.arch, built.plan.name)
        assert "serialized" not in cubin.log and (cubin.spill_store_bytes == 0 or name == "hgemm_ring")


@pytest.mark.parametrize("name", ["hgemm_cluster", "copy_staged"])
def test_a_kernel_without_a_trace_is_the_same_text(name: str) -> None:
    built = built_of(name)
    text = render(built.plan)
    place_stamps(built.plan, 64)
    assert render(built.plan) == text == built.source and "stamp" not in text


@pytest.mark.parametrize("name", ["hgemm_cluster", "attention_hopper", "copy_staged"])
def test_every_order_holds_on_the_ptx_machine(name: str) -> None:
    traced = judge_stamps(built_of(name), stamps_of(name))
    assert traced.orders.hold and traced.orders.by_clock > 20 and not traced.orders.untold


def test_a_full_buffer_counts_what_it_leaves_out() -> None:
    name = "attention_hopper"
    whole = judge_stamps(built_of(name), stamps_of(name))
    most = max(len(r.numbers) for r in whole.timeline.readings)
    few = judge_stamps(built_of(name), stamps_of(name, most - 3))
    assert few.orders.hold and few.full and few.orders.untold
    assert {len(r.numbers) + r.left_out for r in few.timeline.readings} == {
        len(r.numbers) for r in whole.timeline.readings
    }
    exact = judge_stamps(built_of(name), stamps_of(name, most))
    assert not exact.full and not exact.orders.untold


def test_nobody_writes_beyond_its_part() -> None:
    """The PTX machine refuses a store behind the buffer; other threads' parts are read as they were written."""
    stamps = stamps_of("copy_staged", 16)
    readings = read_buffer(stamps.stamped.plan, stamps.tracing, stamps.image)
    assert all(r.left_out == 20 for r in readings), [r.left_out for r in readings]
    assert stamps.image.nbytes == len(readings) * (16 + 5) * RECORD_BYTES


# ---------------------------------------------------------------- what is planted
def end_late(records: np.ndarray) -> None:
    records[:, 4] = 0
    records[:, 3] = 0


def skip_a_site(records: np.ndarray) -> None:
    records[0, 5:-1] = records[0, 6:].copy()


def rename_a_site(records: np.ndarray) -> None:
    records[0, 7, 0] += 1


def lose_one(records: np.ndarray) -> None:
    records[0, 0, 1] -= 1


def claim_more(records: np.ndarray) -> None:
    records[0, 0, 1] += 1


@pytest.mark.parametrize("change, said", [
    (end_late, "began, and never ended"), (skip_a_site, "the plan has"), (rename_a_site, "the plan has"),
    (lose_one, "nothing more"), (claim_more, "nothing more"),
])  # fmt: skip
@pytest.mark.parametrize("name", ["hgemm_cluster", "copy_staged"])
def test_stamps_that_are_no_way_through_the_plan(name: str, change: Spoil, said: str) -> None:
    with pytest.raises(ProofError, match=f"TG495: .*{said}"):
        judge_stamps(built_of(name), spoil(stamps_of(name), change))


@pytest.mark.parametrize("name, wait", [("attention_hopper", "wait fk"), ("hgemm_cluster", "wait full")])
def test_a_wait_that_ends_too_early_is_found(name: str, wait: str) -> None:
    """A role is said to have begun, and to have come through its last wait, at clock 0."""
    stamps = stamps_of(name)
    sites = {s.number for s in stamps.stamped.sites if s.text == wait}

    def hurry(records: np.ndarray) -> None:
        for own in records:
            waits = [k for k in range(5, 5 + int(own[0, 1])) if own[k, 0] in sites]
            for k in waits[-1:]:
                own[2], own[5 : k + 2, 1] = 0, 0

    traced = judge_stamps(built_of(name), spoil(stamps, hurry))
    assert not traced.orders.hold
    said = describe_broken(traced.timeline, traced.orders)
    assert said[0].code == "TG496" and wait in said[0].message


def test_a_clock_that_goes_back_is_found() -> None:
    def turn(records: np.ndarray) -> None:
        records[0, 8, 1] = records[0, 6, 1] - 1

    traced = judge_stamps(built_of("copy_staged"), spoil(stamps_of("copy_staged"), turn))
    assert not traced.orders.hold


# ---------------------------------------------------------------- the command
def test_trace_and_explain_of_its_file(tmp_path: Path) -> None:
    spec, file = str(SPECS / "copy_staged.yaml"), tmp_path / "a.json"
    done = run("trace", spec, "--device", "ptx", "-o", str(file), "--stamps", "20")
    assert done.exit_code == 0 and "the longest wait: 'wait {cp_async: 1}' in line 20" in done.stdout
    assert "had no place: --stamps 36 has place for all" in done.stdout
    data = json.loads(file.read_text())
    assert data["otherData"]["device"] == "the PTX machine" and len(data["traceEvents"]) > 100
    told = run("explain", "--events", spec, "--arch", "sm_80", "--measured", str(file))
    assert told.exit_code == 0 and "wait {cp_async: 1}" in told.stdout


def test_a_picture_of_a_trace(tmp_path: Path) -> None:
    """Every wait of the busiest row is in it up to its end, and no slice is drawn outside of it."""
    spec, file = str(SPECS / "attention_hopper.yaml"), tmp_path / "a.json"
    done = run("trace", spec, "--device", "ptx", "-o", str(file), "--format", "svg")
    assert done.exit_code == 0
    svg = ElementTree.fromstring(done.stdout)
    texts = [one.text or "" for one in svg.iter() if one.tag.endswith("text")]
    assert re.fullmatch(r"attention_hopper on the PTX machine, \d{4}-\d\d-\d\d", texts[0])
    assert {"(0, 0, 0) load", "(0, 0, 0) math, warpgroup 1", "(1, 0, 0) math, predicted"} <= set(texts)
    boxes = [
        one for one in svg.iter() if one.get("class") in ("wait", "copy", "product", "arrive", "sync") and len(one)
    ]
    data = read_trace(str(file))
    end = find_end(data)
    shown = [e for e in data["traceEvents"] if e["ph"] == "X" and e["pid"] < 2 and e["ts"] < end]
    assert len(boxes) == len(shown) > 100
    assert all(float(b.get("x", 0)) >= 240 and float(b.get("x", 0)) + float(b.get("width", 0)) < 981 for b in boxes)
    assert trace_picture(keep_part(data, 2, end)) == done.stdout.rstrip("\n")


def test_nothing_to_trace(tmp_path: Path) -> None:
    spec = tmp_path / "zeros.yaml"
    spec.write_text(REGISTERS)
    done = run("trace", str(spec), "--device", "ptx")
    assert done.exit_code == 1 and "TG497" in done.stderr and not list(tmp_path.glob("*.json"))


def test_orders_that_stamps_deny_are_an_error_behind_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = running.run_on_ptx

    def turned(*args: object) -> tuple[np.ndarray, str]:
        image, device = real(*args)  # type: ignore[arg-type]
        records = image.view("<u4").reshape(-1, 4096 + 5, 2)
        records[0, 8, 1] = records[0, 6, 1] - 1
        return image, device

    monkeypatch.setattr(running, "run_on_ptx", turned)
    file = tmp_path / "a.json"
    done = run("trace", str(SPECS / "copy_staged.yaml"), "--device", "ptx", "-o", str(file))
    assert done.exit_code == 1 and "TG496" in done.stderr and file.exists()


@pytest.mark.parametrize("text, said", [
    (None, "cannot read"), ("{", "is no trace of tilegen"), ('{"otherData": {}}', "it has no 'tool'"),
    ('{"otherData": {"tool": "another", "version": 1}}', "it is of another, version 1"),
    ("3", "is no trace of tilegen"),
])  # fmt: skip
def test_a_file_that_is_no_trace(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "a.json"
    if text is not None:
        file.write_text(text)
    done = run("explain", "--events", str(SPECS / "copy_staged.yaml"), "--measured", str(file))
    assert done.exit_code == 2 and "TG608" in done.stderr and said in done.stderr


def test_a_trace_of_another_kernel(tmp_path: Path) -> None:
    spec, file = str(SPECS / "copy_staged.yaml"), tmp_path / "a.json"
    assert run("trace", spec, "--device", "ptx", "-o", str(file)).exit_code == 0
    done = run("explain", "--events", spec, "--set", "N=1536", "--measured", str(file))
    assert done.exit_code == 2 and "TG608" in done.stderr and "of another copy_staged" in done.stderr
    done = run("explain", "--events", str(SPECS / "transpose.yaml"), "--measured", str(file))
    assert done.exit_code == 2 and "TG608" in done.stderr and "of kernel copy_staged" in done.stderr


def test_stamps_have_limits() -> None:
    for most in (15, (1 << 20) + 1):
        with pytest.raises(ValueError, match="a thread has place for 16 to 1048576 stamps"):
            place_stamps(built_of("copy_staged").plan, most)
