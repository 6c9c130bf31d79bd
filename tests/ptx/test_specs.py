"""The kernels of specs/, as the compiler has them: a few in `make test`, all in `make ptx`."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from tests.ptx.kernels import SPECS, draft_whole, list_kernels, requires_nvrtc
from tilegen.cli import cli
from tilegen.pipeline import BuiltProgram
from tilegen.ptx import parse_kernel
from tilegen.verifying.devices import verify, verify_built
from tilegen.verifying.on_ptx import find_op, list_small_cases

# One of each kind of instruction.
FEW = (
    "copy_tile", "copy_tma", "mma_tile", "wgmma_tile", "broadcast_cluster", "ldmatrix_fragments", "permute_sf",
    "epilogue_panels", "cast_rows", "sum_rows", "softmax_short_rows", "copy_ring", "embedding", "index_add",
)  # fmt: skip
OTHERS = sorted(path.stem for path in SPECS.glob("*.yaml") if path.stem not in FEW)


@requires_nvrtc
@pytest.mark.parametrize("stem", [*FEW, *(pytest.param(stem, marks=pytest.mark.slow) for stem in OTHERS)])
def test_compiled_kernels_do_what_their_specs_mean(stem):
    """Passes of a program by themselves, and together."""
    whole = draft_whole(stem)
    found = verify_built(whole, "ptx", (1,) if isinstance(whole, BuiltProgram) else (1, 2, 3))
    assert found.device == "ptx" and len(found.lines) >= len(list_small_cases(list_kernels(stem)[0]))
    assert not any("too long" in note for note in found.notes)


@requires_nvrtc
def test_a_program_runs_as_a_whole():
    found = verify(SPECS / "sum_all.yaml", device="ptx", params={"N": 3000}, seeds=[1])
    assert any(line.startswith("together: float: Y") for line in found.lines)


@requires_nvrtc
def test_the_line_of_the_page_works():
    """docs/ptx.md has one line to type."""
    page = (SPECS.parent / "docs" / "ptx.md").read_text(encoding="utf-8")
    (line,) = re.search(r"```sh\n(.*?)```", page, re.S)[1].splitlines()
    words = [str(SPECS.parent / word) if word.startswith("specs/") else word for word in line.split()[1:]]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0 and done.output.startswith("copy_tma: verified on ptx, sm_90"), done.output


def test_faults_are_told_at_their_op():
    kernel = list_kernels("copy_tile")[0]
    lines = kernel.source.splitlines()
    called = next(k for k, line in enumerate(lines, 1) if line.strip().startswith("copy_tile_Y("))
    words, mark = find_op(kernel, lines, (5, called))
    assert words == "copy tile -> Y[by*16 : +16, bx*128 : +128]" and mark.line == 16


def test_large_sizes_are_halved():
    cases = list_small_cases(list_kernels("copy_ring")[0])
    assert cases and all(case["M"] <= 300 for case in cases)


def test_arguments_are_counted():
    text = ".entry k(.param .u64 k_param_0) { ret; }"
    assert [v.size for v in parse_kernel(text, "k").params] == [8]
