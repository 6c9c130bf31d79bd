"""Specs with passes: built, printed, explained, compiled, and right together."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from specs.test_golden import compare_golden

from programs.kernels import BY_NAME, SLOW, SMALL, build_program, build_small, every_program
from tests.meaning import PASSES
from tilegen import gpu, pipeline
from tilegen.arch import ARCHES
from tilegen.cli import cli
from tilegen.gpu import compile_cubin, find_compilers
from tilegen.planner import plan_loaded, plan_program
from tilegen.render.programs import render_program
from tilegen.report import resolved_text
from tilegen.report.programs import explain_program_text, program_lines
from tilegen.spec.printing import print_spec
from tilegen.verifying.programs import run_together


@every_program
def test_golden(path):
    """One file, in which equal functions and what the prelude gives stand once."""
    built = build_program(path)
    compare_golden(path.stem, built.source, *built.plan.plans)
    assert built.warnings == ()
    assert built.source.count('extern "C" __global__') == len(built.passes)


BOTH = """\
kernel: both
params: {M: 64}  # kept
buffers:
  X: {scope: global, dtype: float32, shape: [M, 32]}
  Y: {scope: workspace, dtype: float32, shape: [32, M]}
  Z: {scope: global, dtype: float32, shape: [32, M]}
passes:
  - name: turn
    ops: [permute: {src: X, dst: Y, axes: [1, 0]}]
  - name: move  # kept
    threads: 64
    ops:
      - copy: {src: Y, dst: Z}
"""
SIZES = [(name, number) for name, sizes in SMALL.items() for number in range(len(sizes))]


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("name", "number"),
    [pytest.param(*one, marks=[pytest.mark.slow] if one[0] in SLOW else []) for one in SIZES],
)
def test_passes_together_are_what_the_spec_is_for(name, number):
    """Each pass runs over what those before it wrote, workspaces poisoned, beside a function without passes."""
    built = build_small(BY_NAME[name], number)
    lines = run_together(built, 1, against=PASSES[name])
    outputs = [m.name for m in built.plan.arrays if m.access != "in"]
    assert len(lines) == 2 * len(outputs)


@every_program
def test_a_printed_program_loads_as_it_was_and_builds_to_the_same_text(path):
    expanded = pipeline.expand(build_program(path).spec)
    text = print_spec(expanded)
    again = pipeline.load(text)
    assert print_spec(pipeline.expand(again)) == re.sub(r"^ *# .*\n", "", text, flags=re.M)
    plan = plan_program(again)
    assert [p.roles for p in plan.plans] == [p.roles for p in build_program(path).plan.plans]


@every_program
def test_what_is_resolved_leaves_nothing_open_and_is_the_same_text(path):
    built = build_program(path)
    text = resolved_text(built.spec, built.plan)
    before = path.read_text(encoding="utf-8").splitlines()
    assert [s for s in before if s.lstrip()[:1] == "#"] == [s for s in text.splitlines() if s.lstrip()[:1] == "#"]
    assert "auto" not in re.sub(r"#.*", "", text)
    again = pipeline.load(text)
    plan = plan_loaded(again)
    assert render_program(plan) == built.source
    assert resolved_text(again, plan) == text, "resolving twice changes nothing"


def test_ops_on_whole_arrays_are_resolved_where_they_stand(tmp_path):
    """An op of a pass gets its own fields, one that became passes those of its call; the command line prints them."""
    path = tmp_path / "both.yaml"
    path.write_text(BOTH, encoding="utf-8")
    done = CliRunner().invoke(cli, ["explain", str(path), "--resolved", "--set", "M=96"])
    assert done.exit_code == 0, done.output
    assert "M: 96" in done.stdout and done.stdout.count("# kept") == 2
    assert re.search(r"permute: \{src: X, dst: Y, axes: \[1, 0\], .*variant: ", done.stdout)
    assert re.search(r"copy: \{src: Y, dst: Z, .*scope: cta, variant: ", done.stdout)
    assert pipeline.build(done.stdout).source == pipeline.build(path, params={"M": 96}).source
    wrong = CliRunner().invoke(cli, ["explain", str(path), "--resolved", "--pass", "turn"])
    assert wrong.exit_code == 2 and "it takes no --pass" in wrong.output


@every_program
def test_explain_shows_every_pass_and_every_workspace(path):
    explained = pipeline.explain(build_program(path).spec)
    text = explain_program_text(explained, ARCHES[explained["arch"]])
    for one in build_program(path).spec.passes:
        assert f", {one.name}" in text
    for w in build_program(path).plan.workspaces:
        assert f"workspace {w.name}: " in text
    assert json.dumps(json.loads(json.dumps(explained))) == json.dumps(explained)
    assert len(program_lines(explained, "x.yaml")) > 10 * len(explained["passes"])


@every_program
def test_the_manifest_says_what_a_launch_takes(path):
    built = build_program(path)
    texts = pipeline.output_texts(built)
    manifest = json.loads(texts[f"{path.stem}.json"])
    assert [p["name"] for p in manifest["passes"]] == [one.name for one in built.spec.passes]
    assert manifest["workspace_bytes"] == sum(-(-w["bytes"] // 256) * 256 for w in manifest["workspaces"])
    assert all(p["proof"]["runs"] for p in manifest["passes"])
    header = texts[f"{path.stem}.h"]
    assert f"static inline cudaError_t launch_{path.stem}(" in header
    assert f"static inline cudaError_t workspace_of_{path.stem}(" in header


@pytest.mark.skipif(not find_compilers(), reason="neither NVRTC nor nvcc is here")
@every_program
def test_every_pass_compiles_without_a_spill(path):
    for one in build_program(path).passes:
        cubin = compile_cubin(one.source, one.plan.arch, one.plan.name)
        assert (cubin.stack_bytes, cubin.spill_store_bytes, cubin.losses) == (0, 0, ()), cubin.log


def test_what_ptxas_spoils_of_a_pass_names_the_pass(tmp_path, monkeypatch):
    path = BY_NAME["sum_all"]

    def compile_cubin(source, arch, name):
        spilled = 4 if name == "sum_all_total" else 0
        return gpu.Cubin(name, arch, "NVRTC 13.0 (test)", b"", "", 18, 0, spilled, spilled, 0)

    monkeypatch.setattr("tilegen.gpu.compile_cubin", compile_cubin)
    done = CliRunner().invoke(cli, ["build", str(path), "-o", str(tmp_path), "--compile"])
    assert done.exit_code == 0, done.output
    assert done.stderr.count("TG493]") == 1
    assert "warning[TG493]: sum_all_total: ptxas keeps 8 bytes of a thread in memory" in done.stderr
    at = next(n for n, line in enumerate(path.read_text().splitlines(), 1) if "name: total" in line)
    assert int(re.search(rf"{path.name}:(\d+):", done.stderr)[1]) > at
