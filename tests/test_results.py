"""The committed results belong to the kernels that this tree builds, and docs/results.md says what they say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from specs.kernels import PROGRAMS, SPECS, draft, draft_spec

import tilegen
from tilegen.pipeline.programs import list_specs
from tilegen.planner import plan_loaded, plan_spec
from tilegen.proofs.fillings import is_decided
from tilegen.proofs.run_integers import find_run
from tilegen.render import render
from tilegen.render.programs import render_program
from tilegen.spec.accumulated import list_unordered
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline
from tilegen.spec.program import Program

ROOT = Path(__file__).resolve().parent.parent
RESULTS = sorted((ROOT / "docs" / "results").glob("*.json"))
sys.path.insert(0, str(ROOT / "benchmarks"))

KERNELS = [
    pytest.param(row, id=f"{path.stem}-{name}")
    for path in RESULTS
    for name, row in json.loads(path.read_text(encoding="utf-8"))["kernels"].items()
]
OF_PROGRAMS = [
    pytest.param(row, id=f"{path.stem}-{name}")
    for path in RESULTS
    for name, row in json.loads(path.read_text(encoding="utf-8")).get("programs", {}).items()
]
CASES = [
    pytest.param(name, row, id=f"{path.stem}-{name}")
    for path in RESULTS
    for name, row in json.loads(path.read_text(encoding="utf-8")).get("cases", {}).items()
]
COMPUTED = [
    pytest.param(name, row, id=f"{path.stem}-{name}")
    for path in RESULTS
    for name, row in json.loads(path.read_text(encoding="utf-8")).get("compute", {}).items()
]
PRODUCTS = [
    pytest.param(row, id=f"{path.stem}-{name}")
    for path in RESULTS
    for name, row in json.loads(path.read_text(encoding="utf-8")).get("products", {}).items()
]


def has_changed(row: dict[str, Any]) -> bool:
    """Whether the kernel is another since it was measured: then its row says how, and has no digest."""
    assert "since" not in row or (row["since"] and "code_sha256" not in row)
    return "since" in row


def test_there_are_results() -> None:
    assert RESULTS


@pytest.mark.parametrize("row", KERNELS)
def test_the_measured_kernel_is_the_one_that_is_built(row: dict[str, Any]) -> None:
    path, params = ROOT / "specs" / row["spec"], row.get("params")
    from gpu_files import hash_code

    if has_changed(row):
        return
    found = draft(path, row["arch"], params) if params else draft_spec(path, row["arch"])
    assert hash_code(found.source) == row["code_sha256"]


@pytest.mark.parametrize("row", OF_PROGRAMS)
def test_the_measured_program_is_the_one_that_is_built(row: dict[str, Any]) -> None:
    from gpu_files import hash_code

    if not has_changed(row):
        plan = plan_loaded(tilegen.load(ROOT / "specs" / row["spec"], row["arch"], row.get("params")))
        assert hash_code(render_program(plan)) == row["code_sha256"]


@pytest.mark.slow
@pytest.mark.parametrize("row", PRODUCTS)
def test_the_measured_product_is_the_one_that_is_built(row: dict[str, Any]) -> None:
    from gpu_files import hash_code

    if has_changed(row):
        return
    built = draft(ROOT / "specs" / f"{row['spec']}.yaml", row["arch"], row["params"])
    assert row["correct"] and hash_code(built.source) == row["code_sha256"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "row"), CASES)
def test_the_measured_case_is_the_one_that_is_built(name: str, row: dict[str, Any]) -> None:
    from cases import Case, spec_text
    from gpu_files import hash_code

    case = Case(row["group"], tuple(row["shape"]), tuple(row["axes"]), row["dtype"])
    assert row["correct"] and case.name == name
    if has_changed(row):
        return
    assert hash_code(draft(spec_text(case, row["arch"])).source) == row["code_sha256"]


@pytest.mark.sweep(16)
@pytest.mark.parametrize(("name", "row"), COMPUTED)
def test_the_measured_computation_is_the_one_that_is_built(name: str, row: dict[str, Any]) -> None:
    from compute_cases import ComputeCase
    from gpu_files import hash_code

    case = ComputeCase(row["spec"], row["columns"], row["dtype"], row["rows"])
    assert row["correct"] and case.name == name and case.params == row["params"]
    if has_changed(row):
        return
    assert hash_code(draft(case.text, row["arch"], case.params).source) == row["code_sha256"]


NOT_RUN = {"dequantize_nf4.yaml", "permute_columns.yaml"}  # on a GPU, yet: docs/cookbook.md says so


def test_every_spec_was_measured() -> None:
    """And counted, on one device at least, or its row says that it was not; of one that has changed, how.

    No GPU with tensor memory was at hand (docs/blackwell.md).
    """
    rows = [row for path in RESULTS for row in json.loads(path.read_text(encoding="utf-8"))["kernels"].values()]
    found = {row["spec"] for row in rows if row.get("counters") or "not counted" in row.get("since", "")}
    assert found == {p.name for p in SPECS if "scope: tmem" not in p.read_text(encoding="utf-8")} - NOT_RUN


def _load_named(spec: str, kernel: str) -> Spec:
    """The spec of a kernel, or of a pass by its kernel's name."""
    loaded = tilegen.load(ROOT / "specs" / spec)
    if isinstance(loaded, Spec):
        return loaded
    return next(one for one in list_specs(loaded) if one.kernel == kernel)


def _has_unordered(spec: str) -> bool:
    """Does a program leave sums that have no order?"""
    loaded = tilegen.load(ROOT / "specs" / spec)
    return isinstance(loaded, Program) and bool(list_unordered(loaded))


NOT_SOAKED = {"decode_paged.yaml"}  # yet: docs/passes.md says so


def test_every_program_was_measured() -> None:
    found = {case.values[0]["spec"] for case in OF_PROGRAMS}
    assert found == {p.name for p in PROGRAMS}


@pytest.mark.parametrize("row", OF_PROGRAMS)
def test_a_program_is_right_by_every_way_and_was_sanitized_and_soaked(row: dict[str, Any]) -> None:
    from sanitizing import CLEAN, OF_PASSES
    from soak import is_soaked
    from soak_programs import UNORDERED

    assert row["correct"] and {*row["ways"].values()} == {"ok"} and {"header", "cupy"} <= {*row["ways"]}
    assert OF_PASSES in row["sanitizer"] and all(CLEAN.fullmatch(said) for said in row["sanitizer"].values())
    if row["spec"] in NOT_SOAKED:
        assert "soak" not in row
    elif _has_unordered(row["spec"]):
        assert row["soak"] == UNORDERED
    else:
        assert is_soaked(row["soak"])


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_every_count_is_as_predicted(path: Path) -> None:
    from results_page import list_passes

    result = json.loads(path.read_text(encoding="utf-8"))
    programs = result.get("programs", {})
    of_pass = {name: one["spec"] for one in programs.values() for name in one.get("passes", {})}
    passes = {name: row | {"correct": True, "spec": of_pass[name]} for name, row in list_passes(programs).items()}
    for name, row in (result["kernels"] | passes).items():
        assert row["correct"]
        for what, counter in (row.get("counters") or {}).items():
            if what == "shared_ldgsts" and counter.get("why") == "P0":  # seen in the machine code: docs/access-model.md
                continue
            if counter.get("why") == "tables":
                spec = _load_named(row["spec"], name)
                if is_decided(spec) or find_run(spec):
                    continue
            if counter.get("why") == "replicas" and what == "shared_ld":  # all load what one adds
                spec = _load_named(row["spec"], name)
                assert counter["predicted"] % counter["counted"] == 0
                if any(call.accumulates for call in outline(spec).calls):
                    continue
            assert counter["counted"] in (counter["predicted"], counter.get("least")), (name, what)


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_every_kernel_was_sanitized_and_those_with_roles_were_soaked(path: Path) -> None:
    from sanitizing import CLEAN, OF_BARRIERS
    from soak import is_soaked

    kernels = json.loads(path.read_text(encoding="utf-8"))["kernels"]
    for name, row in kernels.items():
        if name.endswith(" large") or "not sanitized" in row.get("since", ""):
            continue
        text = (ROOT / "specs" / row["spec"]).read_text(encoding="utf-8")
        assert all(CLEAN.fullmatch(said) for said in row["sanitizer"].values()), name
        if "\nroles:" in text:
            assert OF_BARRIERS in row["sanitizer"], name
            assert is_soaked(row["soak"]) if "soak" in row else row["soak_since"] == "not soaked yet", name


def test_the_page_says_what_the_files_say() -> None:
    from results_page import PAGE, write_page

    assert PAGE.read_text(encoding="utf-8") == write_page()


LIBRARIES = [
    pytest.param(name, row, id=f"{path.parent.name}-{name}", marks=pytest.mark.slow)
    for path in sorted((ROOT / "docs" / "results" / "products").glob("*.json"))
    for name, row in json.loads(path.read_text(encoding="utf-8"))["products"].items()
]


@pytest.mark.parametrize(("name", "row"), LIBRARIES)
def test_what_was_measured_beside_libraries_is_what_is_built(name: str, row: dict[str, Any]) -> None:
    """Of rows that say what has changed since, only that they say it."""
    from gemm_cases import all_products
    from gpu_files import hash_code

    if "since" in row:
        assert row["since"] and "code_sha256" not in row
        return
    (product,) = [p for p in all_products() if p.name == name]
    spec = tilegen.load(product.spec({}))
    assert hash_code(render(plan_spec(spec))) == row["code_sha256"]
