"""The README and pages of docs/ show what the product prints; `make golden` rewrites the parts in between.

A generated part is a fenced block, or a table, after a line ``<!-- generated: NAME -->``.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner
from plan_text import print_plan
from specs.kernels import ROOT, build_spec

from tests.programs import faults as program_faults
from tests.specs import test_clusters, test_roles
from tests.wgmma import test_faults as wgmma_faults
from tilegen.arch import ARCHES
from tilegen.cli import cli
from tilegen.dtypes import DTYPES
from tilegen.errors import TilegenError
from tilegen.ops import ALL_OPS, OPS
from tilegen.pipeline import build
from tilegen.proofs.owned_boxes import written_boxes
from tilegen.scopes import OP_SCOPES

README, HOW = ROOT / "README.md", ROOT / "docs" / "how-it-works.md"
CHOOSER = ROOT / "docs" / "layout-chooser.md"
REGISTERS, HOPPER = ROOT / "docs" / "registers.md", ROOT / "docs" / "hopper.md"
GEMM, PASSES = ROOT / "docs" / "gemm.md", ROOT / "docs" / "passes.md"
COMPUTE = ROOT / "docs" / "compute.md"
VIEWER = ROOT / "docs" / "viewer.md"
SPEC, RMSNORM = ROOT / "specs" / "permute_sf.yaml", ROOT / "specs" / "rmsnorm.yaml"
_UPDATES = os.environ.get("UPDATE_GOLDEN") == "1"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.S)


@cache
def _tilegen(*arguments: str) -> str:
    """What the command line prints, without a terminal and without colour."""
    command = [sys.executable, "-m", "tilegen", *arguments]
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text.strip(chr(10))}\n```"


def print_explanation() -> str:
    """The first lines and the permute of permute_sf, as explain has them."""
    text = _tilegen("explain", "specs/permute_sf.yaml")
    return _fence("text", text[: text.index("the kernel")] + text[text.index("op 2:") : text.index("op 3:")])


def print_chosen() -> str:
    """The layout of transpose_auto's tile, as explain has it."""
    text = _tilegen("explain", "specs/transpose_auto.yaml")
    return _fence("text", text[text.index("the kernel") : text.index("op 1:")])


def print_owners() -> str:
    """The layouts of cast_rows_auto's registers, as explain has them."""
    text = _tilegen("explain", "specs/cast_rows_auto.yaml")
    return _fence("text", text[text.index("the kernel") : text.index("op 1:")])


def print_rmsnorm() -> str:
    """The kernel of the spec on README's first screens, from the last of its functions on."""
    source = build_spec(RMSNORM).source
    return _fence("cuda", source[source.rindex("__device__") :])


def print_table() -> str:
    """What works, from the tables that the product itself reads."""
    rows = [(f"op `{name}`", _say_variants(name)) for name in ALL_OPS]
    rows += [
        ("scopes", ", ".join(OP_SCOPES)),
        ("dtypes", ", ".join(DTYPES)),
        ("archs", ", ".join(ARCHES)),
        ("commands", ", ".join(re.findall(r"^  (\w+)  ", _tilegen("--help").split("Commands:")[1], re.M))),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {what} |" for name, what in rows)])


def _say_variants(op: str) -> str:
    """The variants of an op on tiles; for one on whole arrays what its field takes, or what it makes of elements."""
    if op in OPS:
        return "variants " + ", ".join(f"`{v.name}`" for v in OPS[op].variants)
    fields = ALL_OPS[op].model.model_fields
    key, left_out = ("variant", 1) if "variant" in fields else ("op", 0)
    return f"{key}s " + ", ".join(f"`{name}`" for name in get_args(fields[key].annotation)[left_out:])


def print_function() -> str:
    source = build_spec(SPEC).source
    first = source.index("// One warp: read")
    return _fence("cuda", source[first : source.index("\n}\n", first) + 2])


def read_spec(path: Path) -> str:
    """A spec without its last line, which is for editors."""
    return path.read_text(encoding="utf-8").partition("# yaml-language-server")[0]


# ---------------------------------------------------------------- docs/hopper.md
def cut_spec(name: str, first: str, end: str = "") -> str:
    """The lines of a spec from one that begins with ``first`` to before one that begins with ``end``, moved left."""
    lines = read_spec(ROOT / "specs" / f"{name}.yaml").splitlines()
    start = next(k for k, line in enumerate(lines) if line.strip().startswith(first))
    ends = (k for k, line in enumerate(lines) if k > start and end and line.strip().startswith(end))
    return _fence("yaml", textwrap.dedent("\n".join(lines[start : next(ends, len(lines))])))


def print_events(name: str, rows: int) -> str:
    """The drawing of a spec's events, without the notes below it."""
    _, drawing, _ = _tilegen("explain", f"specs/{name}.yaml", "--events", "--rows", str(rows)).split("\n\n")
    return _fence("text", drawing[: drawing.index("\nA row stands below")])


def list_faults(*tables: dict[str, str]) -> str:
    """Faults that tests plant, and the codes of what is found."""
    rows = (f"| {what} | {' or '.join(codes.split())} |" for table in tables for what, codes in table.items())
    return "\n".join(["| fault | found as |", "|---|---|", *rows])


def print_deadlock() -> str:
    """What is said where each of two roles waits for the other."""
    with pytest.raises(TilegenError) as found:
        build(test_roles.ring("load move", **test_roles.FAULTS["each waits for the other"][0]))
    return _fence("text", textwrap.fill(found.value.diagnostics[0].message, 110))


HOPPER_PARTS: dict[str, Callable[[], str]] = {
    "ring_spec": lambda: cut_spec("copy_ring", "roles:"),
    "ring_events": lambda: print_events("copy_ring", 14),
    "products_spec": lambda: cut_spec("hgemm_roles", "- role: math", "- wait: {mma: 0}"),
    "products_events": lambda: print_events("hgemm_roles", 22),
    "cluster_spec": lambda: cut_spec("broadcast_cluster", "ops:"),
    "cluster_events": lambda: print_events("broadcast_cluster", 8),
    "role_faults": lambda: list_faults({what: codes for what, (_, codes) in test_roles.FAULTS.items()}),
    "cluster_faults": lambda: list_faults(
        *({what: codes for what, (*_, codes) in t.items()} for t in (test_clusters.FAULTS, test_clusters.PLANTED))
    ),
    "product_faults": lambda: list_faults({w: code for w, (_, code, _) in wgmma_faults.FAULTS.items() if code}),
    "deadlock": print_deadlock,
}


# ---------------------------------------------------------------- docs/compute.md
BOXES = """
kernel: scaled_transpose
arch: sm_90
params: {M: 4096, N: 4096}
grid: {bx: N // 64, by: M // 64}
threads: 256
buffers:
  X: {scope: global, dtype: float32, shape: [N, M]}
  Xt: {view: X, axes: [1, 0]}
  Y: {scope: global, dtype: float32, shape: [M, N]}
ops:
  - elementwise:
      dst: "Y[by*64 : +64, bx*64 : +64]"
      expr: "2.0 * x"
      with: {x: "Xt[by*64 : +64, bx*64 : +64]"}
"""


def print_boxes() -> str:
    """The function of an elementwise between rows and columns."""
    source = build(BOXES).source
    return _fence("cuda", source[source.rindex("__device__") : source.rindex('extern "C"')])


# ---------------------------------------------------------------- docs/gemm.md
def print_chain(name: str) -> str:
    """How the tile of a gemm follows from its atom, as explain has it."""
    text = _tilegen("explain", f"specs/{name}.yaml")
    start = text.index("  from the atom to the tile\n")
    return _fence("text", textwrap.dedent(text[start : text.index("\n\nop 1:", start)]))


GEMM_PARTS: dict[str, Callable[[], str]] = {
    f"{name}_{part}": partial(make, f"gemm_{name}", *more)
    for name in ("step1", "step4")
    for part, make, more in (("spec", cut_spec, ("- gemm:",)), ("chain", print_chain, ()))
}


# ---------------------------------------------------------------- docs/passes.md
def list_pass_faults(table: Mapping[str, program_faults.Fault | program_faults.Planted]) -> str:
    return list_faults({what: fault.code for what, fault in table.items()})


PASSES_PARTS: dict[str, Callable[[], str]] = {
    "pass_faults": lambda: list_pass_faults(program_faults.BUILT),
    "meaning_faults": lambda: list_pass_faults(program_faults.COMPARED),
    "plan_faults": lambda: list_pass_faults(program_faults.PLANTED),
}


PARTS: dict[str, Callable[[], str]] = {
    "explanation": print_explanation,
    "rmsnorm_spec": lambda: cut_spec("rmsnorm", "kernel:"),
    "rmsnorm_cuda": print_rmsnorm,
    "chosen": print_chosen,
    "table": print_table,
    "spec": lambda: _fence("yaml", read_spec(SPEC)),
    "owners": print_owners,
    "expanded": lambda: _fence("yaml", _tilegen("explain", "--expanded", "specs/transpose.yaml")),
    "plan": lambda: _fence("text", print_plan(build_spec(SPEC).plan, written_boxes(build_spec(SPEC).spec))),
    "function": print_function,
    "box_spec": lambda: _fence("yaml", BOXES),
    "box_cuda": print_boxes,
    "verified": lambda: _fence("text", _tilegen("verify", "--device", "cpu", "specs/permute_sf.yaml")),
    "summary": lambda: _fence("text", _tilegen("explain", "--summary", "specs/copy_staged.yaml")),
    **HOPPER_PARTS,
    **GEMM_PARTS,
    **PASSES_PARTS,
}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        (README, {"rmsnorm_spec", "rmsnorm_cuda", "explanation", "table"}),
        (HOW, {"spec", "expanded", "explanation", "plan", "function", "verified"}),
        (CHOOSER, {"chosen"}),
        (REGISTERS, {"owners"}),
        (HOPPER, set(HOPPER_PARTS)),
        (GEMM, set(GEMM_PARTS)),
        (PASSES, set(PASSES_PARTS)),
        (COMPUTE, {"box_spec", "box_cuda"}),
        (VIEWER, {"summary"}),
    ],
    ids=["README", "how-it-works", "layout-chooser", "registers", "hopper", "gemm", "passes", "compute", "viewer"],
)
def test_generated_parts(path: Path, parts: set[str]):
    text = path.read_text(encoding="utf-8")
    assert {name for _, name, _, _ in _PART.findall(text)} == parts
    wanted = _PART.sub(lambda m: f"{m[1]}{PARTS[m[2]]()}\n{m[4]}", text)
    if _UPDATES:
        path.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "a generated part is stale: `make golden` rewrites it"


def test_the_readmes_python_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(README), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 5
    assert failed == 0


@pytest.mark.parametrize("path", [README, HOW, CHOOSER, HOPPER, GEMM, PASSES, VIEWER], ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_two_commands_are_there():
    text = README.read_text(encoding="utf-8")
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for command in re.findall(r"`?make (\w+)", text):
        assert command in targets
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_lines_to_type_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """All of them, one after the other; the first installs, and .ci/wheel does that."""
    monkeypatch.chdir(tmp_path)
    typed = re.findall(r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), re.S | re.M)
    lines = [shlex.split(line, comments=True) for block in typed for line in block.splitlines()]
    assert lines[0] == ["pip", "install", "."]
    commands = [words[1:] for words in lines if words[0] == "tilegen"]
    assert [words[0] for words in commands] == ["init", "explain", "build", "verify"]
    for words in commands:
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
    assert {words[0] for words in lines} == {"pip", "tilegen", "make"}


def test_twelve_lines_of_rmsnorm():
    """README says that the lines from ``threads`` on are twelve."""
    assert len(cut_spec("rmsnorm", "threads:").splitlines()) == 12 + len(["```yaml", "```"])


def test_make_run_ends_with_a_next_step():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nrun: ")[1].split("\n\n")[0]
    last = recipe.splitlines()[-1]
    assert "tilegen init mine" in last and "docs/tutorial.md" in last
