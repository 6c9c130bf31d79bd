"""What `tilegen tune` shows on a terminal while it runs, on a pretended device: read through a pseudo terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from tuning.pretended import MOVE, draw_us

from tilegen.tuning import PLAIN

PROGRAM = """\
import sys
from functools import partial
from tuning.pretended import Pretended
import tilegen.cli.tuning as command
from tilegen.cli import cli
from tilegen.tuning import Devices, tune

if __name__ == "__main__":
    command.tune = partial(tune, devices=Devices(Pretended("log", seconds=0.3), [{}]))
    cli(sys.argv[1:])
"""


def read_terminal(command: list[str], folder: Path) -> str:
    """All that a program writes to a terminal, until it ends."""
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        said = b""
        try:
            while part := os.read(ours, 1 << 16):
                said += part
        except OSError:  # the other end is closed
            pass
        assert program.wait() == 0, said
    os.close(ours)
    return said.decode()


def test_the_bar_says_what_is_done_and_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "move.yaml").write_text(MOVE.replace("CHOICES", "[128, 32, 64]"))
    (tmp_path / "program.py").write_text(PROGRAM)
    said = read_terminal([sys.executable, "program.py", "tune", "move.yaml", "-j", "2"], tmp_path)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    shown = [line.split("\u2501")[0].strip() for line in plain.split("\x1b[2K")]
    assert any(re.fullmatch(r"0 of 3, 4:\d\d at most", line) for line in shown)
    us = draw_us(PLAIN)
    assert any(re.fullmatch(rf"1 of 3, best {us:.2f} us, plain {us:.2f} us, \d:\d\d left", line) for line in shown)
    assert any(re.fullmatch(r"3 of 3, best .* us, plain .* us, the best few once more", line) for line in shown)
    bar, erased, table = plain.rpartition("\x1b[2K")
    assert erased and "\x1b[?25h" in bar and table.lstrip().startswith("us ")
