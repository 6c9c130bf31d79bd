"""compute-sanitizer over the kernel of every spec: accesses beside arrays, and races in shared memory."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from launch_once import COUNTED_AT

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("memcheck", "racecheck")
SIDE_BY_SIDE = 6  # processes that share the GPU
CLEAN = re.compile(r"0 (errors|hazards displayed \(0 errors, 0 warnings\))")
_SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: (.*)$", re.M)


def run_sanitizer(specs: Sequence[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """(specs, what each tool sums up after one launch of each), groups side by side, as each ends.

    A large spec, racecheck's slow ones, is a group of its own. Nothing where compute-sanitizer is not installed.
    """
    if not shutil.which("compute-sanitizer"):
        return
    small = [path for path in specs if Path(path).stem not in COUNTED_AT]
    groups = [[path] for path in specs if path not in small]
    groups += [small[k::SIDE_BY_SIDE] for k in range(SIDE_BY_SIDE) if small[k::SIDE_BY_SIDE]]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        waiting = {pool.submit(lambda g: {tool: _run(tool, g) for tool in TOOLS}, group): group for group in groups}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _run(tool: str, specs: Sequence[str]) -> str:
    command = ["compute-sanitizer", "--tool", tool, sys.executable, "benchmarks/launch_once.py", "--sanitized", *specs]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = _SUMMARY.findall(done.stdout)
    if done.returncode or not found:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return str(found[-1]) if found else f"no summary, exit status {done.returncode}"
