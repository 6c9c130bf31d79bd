"""What each command loads, so that it starts fast: rooms that it must leave alone, and how many modules at most."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = str(ROOT / "specs" / "copy_tile.yaml")
# Whatever ends the command, the last line names the modules that it has loaded.
RUN = (
    "import json, sys\nfrom tilegen.cli import main\ntry:\n    main()\nfinally:\n"
    "    print()\n    print(json.dumps(sorted(sys.modules)))"
)
PROVING = ("tilegen.interpret", "tilegen.proofs", "tilegen.reference")
WRITING = ("tilegen.render", "jinja2")
PLANNING = ("tilegen.spec", "tilegen.ops", "tilegen.plan", "tilegen.planner", "pydantic", "yaml")
UNUSED_OPS = ("tilegen.ops.gemm", "tilegen.ops.mma", "tilegen.ops.permute", "tilegen.ops.reduce", "tilegen.ops.cast")
NEVER = ("cupy", "torch", "triton")
# Words of a command, what it must not load, and the most modules of tilegen that it may: today's count and a few more.
COMMANDS = {
    "help": (["--help"], (*PROVING, *WRITING, *PLANNING, "numpy"), 12),
    "layout": (["layout", "S[(4,32):(32,1)]"], (*PROVING, *WRITING, *PLANNING), 76),
    "init": (["init", "mine"], (*PROVING, *WRITING, "tilegen.planner"), 254),
    "explain": (["explain", SPEC], (*PROVING, *WRITING, *UNUSED_OPS, "ml_dtypes"), 254),
    "summary": (["explain", "--summary", SPEC], (*PROVING, *WRITING, *UNUSED_OPS, "ml_dtypes"), 254),
    "build": (["build", SPEC, "-o", "out"], (*UNUSED_OPS, "tilegen.viewing", "distributed"), 384),
}


def list_loaded(words: list[str], folder: Path) -> list[str]:
    """The modules that a process of its own has loaded when a command ends well."""
    path = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{RUN}", *words]
    done = subprocess.run(path, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_loads(command: str, tmp_path: Path) -> None:
    words, left_alone, most = COMMANDS[command]
    loaded = list_loaded(words, tmp_path)
    found = [m for m in loaded for room in (*left_alone, *NEVER) if m == room or m.startswith(f"{room}.")]
    assert found == []
    own = [m for m in loaded if m.split(".")[0] == "tilegen"]
    assert len(own) <= most, f"{len(own)} modules of tilegen"


def test_the_names_above_are_of_modules() -> None:
    for name in (*PROVING, *UNUSED_OPS, "tilegen.render", "tilegen.viewing", "tilegen.planner"):
        folder = ROOT.joinpath(*name.split("."))
        assert folder.is_dir() or folder.with_suffix(".py").is_file(), name
