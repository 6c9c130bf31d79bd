"""What the benchmarks write: rows of cases, the file of a device, tables, pictures, and docs/performance.md."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fakes import COPY, DEVICE, FakeWatch, fake_gpu

import tilegen
from tilegen import bench
from tilegen.bench.meaning import Meaning, derive_meaning

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import cases_page  # noqa: E402
import gpu as entry  # noqa: E402
import ladder_page  # noqa: E402
import measure_cases  # noqa: E402
import r_page  # noqa: E402
import results_page  # noqa: E402
from cases import Case, spec_text  # noqa: E402

CASE = Case("permute", (64, 32), (0, 1), "float32")


class Pool:
    """Builds at once, in this process."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*arguments))
        return done


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> bench.Session:
    watch = FakeWatch()

    def kernel(x: Any, y: Any) -> None:
        y[:] = x
        watch.spend(125.0)

    fake_gpu(monkeypatch, watch, kernel)
    from tilegen.gpu import Cubin

    cubin = Cubin("k", "sm_90", "pretended", b"", "", 32, 0, 0, 0, 4096)
    monkeypatch.setattr(measure_cases, "compile_for", lambda *_: cubin)
    monkeypatch.setattr(measure_cases.gpu, "compile_cubin", lambda *_: cubin)
    monkeypatch.setattr(measure_cases, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(measure_cases, "spec_text", lambda case, arch: COPY if case.group != "odd" else "kernel: 1\n")
    return bench.Session(DEVICE, watch, 4000.0)  # type: ignore[arg-type]


def test_a_case_becomes_a_row_and_a_bad_one_leaves_its_error(
    session: bench.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Case("odd", (3, 5), (1, 0), "uint8")
    rows = dict(measure_cases.measure_cases(session, [CASE, bad], rounds=2))
    good = rows[CASE.name]
    assert good["correct"] and good["median_us"] == 125.0 and good["peers"]["copy"]["ratio"] == 0.8
    assert good["variants"] == ["copy gmem_gmem"] and good["registers"] == 32 and len(good["code_sha256"]) == 64
    assert (good["shape"], good["axes"], good["dtype"]) == ((64, 32), (0, 1), "float32")
    assert not rows[bad.name]["correct"] and rows[bad.name]["error"].startswith("SpecError: <text>:1:1: TG")
    printed = capsys.readouterr().out.splitlines()
    assert "ok, 125.0 us" in printed[0] and "copy 0.800" in printed[0] and "WRONG SpecError" in printed[1]
    json.dumps(rows)


def test_a_case_that_breaks_does_not_end_the_run(session: bench.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(measure_cases.bench, "bench_built", fail)
    ((_, row),) = measure_cases.measure_cases(session, [CASE], 1)
    assert row["error"] == "RuntimeError: an illegal memory access was encountered"


def test_the_cases_are_specs_that_tilegen_reads() -> None:
    spec = tilegen.load(spec_text(Case("odd", (7, 1, 10007), (2, 0, 1), "float16")))
    assert derive_meaning(spec, {}) == Meaning("X", "Y", (7, 1, 10007), (2, 0, 1), 2)


# ---------------------------------------------------------------- the file of a device
def test_a_part_that_is_not_run_keeps_what_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "read_driver", lambda: "580")
    monkeypatch.setattr(entry, "RESULTS", tmp_path)
    path = entry.result_path(str(tmp_path / "out"), DEVICE)
    assert path.name == "pretended-gpu.json" and entry.start_result(path, DEVICE)["driver"] == "580"
    entry.write_result(tmp_path / path.name, {"device": "old", "cases": {"a": 1}, "kernels": {"k": 2}})
    started = entry.start_result(path, DEVICE)
    assert (started["device"], started["cases"], started["kernels"]) == ("Pretended GPU", {"a": 1}, {"k": 2})
    entry.write_result(path, started | {"cases": {"b": 3}})
    assert entry.start_result(path, DEVICE)["cases"] == {"b": 3}


def test_failures_are_found() -> None:
    counter = {"predicted": 4, "counted": 5}
    result = {
        "kernels": {
            "k": {"correct": True, "counters": {"shared_ld": counter}, "sanitizer": {"memcheck": "1 error"}},
            "l": {"correct": True, "sanitizer": {"racecheck": "0 hazards displayed (0 errors, 0 warnings)"}},
        },
        "calls": [{"arrays": "torch", "mean_us": 6.1, "limit_us": 5.0}, {"arrays": "none", "mean_us": 2.9}],
        "cases": {"c": {"correct": False, "error": "no"}, "d": {"correct": True}},
        "per_instruction": {"k": {"agree": True}, "m": {}},
    }
    assert entry.list_failures(result) == [
        "k shared_ld: predicted 4, counted 5", "k memcheck: 1 error", "c: no", "call with torch: 6.1 us, at most 5.0",
        "m: instructions differ from the prediction",
    ]  # fmt: skip


# ---------------------------------------------------------------- pages
def row(group: str, ratios: dict[str, float], **more: Any) -> dict[str, Any]:
    peers = {name: {"ratio": ratio, "gb_per_s": 4000 / ratio} for name, ratio in ratios.items()}
    return {
        "group": group, "shape": [8192, 8192], "axes": [1, 0], "dtype": "float32", "correct": True, "bytes": 2 << 28,
        "median_us": 132.0, "gb_per_s": 4067.0, "peers": peers, **more,
    }  # fmt: skip


RESULT = {
    "device": "Pretended GPU", "driver": "580", "ceiling_gb_per_s": 4190.4,
    "cases": {
        "a": row("transpose", {"copy": 0.97, "torch": 3.5, "torch.compile": 1.1, "triton": 1.05, "cupy": 0.9}),
        "b": row("transpose", {"copy": 0.99, "torch": 0.65}),
        "c": {**row("transpose", {}), "correct": False, "error": "ProofError: TG421: Y[0] is not\nmore"},
        "d": row("odd", {"copy": 1.2}),
    },
}  # fmt: skip


def test_the_table_of_a_group() -> None:
    text = cases_page.case_tables("x.json", RESULT, "transpose")
    lines = text.splitlines()
    assert lines[0].endswith("a copy of 1 GiB there: 4190 GB/s.")
    assert lines[4] == (
        "| 8192 x 8192 by 1,0, float32 | 537 | 132.0 | 4067.0 | 0.970 | 3.500 | 1.100 | 1.050 | 1.050 |"
    )
    assert lines[5].endswith("| 0.990 | 0.650 | absent | absent | 0.650 |") and "WRONG: ProofError: TG421" in lines[6]
    assert len({line.count("|") for line in lines[2:7]}) == 1
    assert lines[-1] == (
        "2 of 3 are right, bit for bit; least ratio to a copy 0.970; least ratio to the best rival 0.650."
    )
    assert "Not measured on" in cases_page.case_tables("x.json", RESULT, "permute")
    with pytest.raises(ValueError, match="not gemm"):
        cases_page.case_tables("x.json", RESULT, "gemm")


def test_a_picture_of_the_cases_that_are_right() -> None:
    from xml.etree import ElementTree

    root = ElementTree.fromstring(cases_page.draw_cases(RESULT))
    titles = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text") if e.get("class") == "t"]
    assert titles == ["a", "b"]


def test_the_performance_page_says_what_the_files_say() -> None:
    text = results_page.PERFORMANCE.read_text(encoding="utf-8")
    assert results_page.fill_measured(text) == text, "`python benchmarks/results_page.py` rewrites it"
    parts = re.findall(r"<!-- measured: (\w+) -->", text)
    assert sorted(parts) == sorted([*cases_page.GROUPS, "tiles", "rows", "experiments", "tables"])
    for path, picture in results_page.draw_pictures():
        assert path.read_text(encoding="utf-8") == picture


@pytest.mark.slow
def test_the_page_of_hopper_says_what_the_files_say() -> None:
    text = results_page.HOPPER.read_text(encoding="utf-8")
    assert results_page.fill_measured(text) == text, "`python benchmarks/results_page.py` rewrites it"
    assert re.findall(r"<!-- measured: (\w+) -->", text) == ["ladder", "by_hand"]
    text = results_page.GEMM.read_text(encoding="utf-8")
    assert results_page.fill_measured(text) == text, "`python benchmarks/results_page.py` rewrites it"


def test_a_rung_of_the_ladder() -> None:
    """256 CTAs read 512 columns of 128 rows of A and of B each; 2 M N K over the lanes of 132 multiprocessors."""
    row = {"spec": "sgemm_step1", "arch": "sm_90", "params": {"M": 2048, "N": 2048, "K": 512}, "correct": True,
           "median_us": 100.0, "tflops": 43.0, "peers": {"cublas": {"ratio": 0.5}}}  # fmt: skip
    cells = dict(zip(ladder_page.HEAD, ladder_page.ladder_row("sgemm_step1 2048", row), strict=True))
    least = 2 * 2048 * 2048 * 512 / 256 / 132 / 1.98e9 * 1e6
    assert cells["GFLOP"] == "4" and cells["arithmetic, us"] == f"{least:.0f}"
    assert cells["GiB read"] == f"{16 * 16 * 512 * 2 * 128 * 4 / 2**30:.2f}" and cells["t_cublas / t"] == "0.500"
    assert cells["bound by"] == "arithmetic" and cells["of the bound"] == f"{least / 100:.2f}"
    result = {"device": "Pretended GPU", "driver": "1", "date": "today", "products": {}}
    assert ladder_page.ladder_table("x.json", result) == "Not measured on Pretended GPU yet."
    result["products"] = {"hgemm_roles 4096": row | {"correct": False}}
    wrong = ladder_page.ladder_table("x.json", result)
    assert "| hgemm_roles 4096 |" in wrong and wrong.endswith("| WRONG |")


def test_measured_parts_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_page, "read_results", lambda: [("x.json", RESULT)])
    filled = results_page.fill_measured("a\n<!-- measured: odd -->\nold\n<!-- end -->\nb\n")
    assert filled.startswith("a\n<!-- measured: odd -->\nPretended GPU") and "old" not in filled
    assert filled.endswith("<!-- end -->\nb\n") and results_page.fill_measured(filled) == filled


# ---------------------------------------------------------------- docs/gemm.md
@pytest.mark.slow
def test_measured_times_of_r_stand_beside_what_is_counted() -> None:
    rows = [{"run": 1, "us": 12.5}, {"run": 2, "error": "ValueError: off by 1"}]
    measured = {"device": "a GPU", "driver": "1.2", "date": "2026-01-01", "steps": {"step 1": rows, "step 4": rows}}
    text = r_page.run_tables(measured)
    assert text.startswith("Measured on a GPU, driver 1.2, 2026-01-01.")
    first, second, third = (line for line in text.splitlines()[6:9])
    assert first.startswith("| 1 | 16 x 16 | 8 x 8 |") and first.endswith("| 12.5 |")
    assert second.endswith("| ValueError: off by 1 |") and third.endswith("|  |")
