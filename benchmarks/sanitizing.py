"""compute-sanitizer over a launch of every spec: accesses beside arrays, races, workspaces that nothing has written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from gpu_files import has_passes
from launch_once import COUNTED_AT

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("memcheck", "racecheck")
OF_BARRIERS = "synccheck"  # of kernels whose warps wait for one another beside __syncthreads
OF_PASSES = "initcheck"  # a pass reads nothing that none has written
SIDE_BY_SIDE = max(2, (os.cpu_count() or 2) - 4)  # processes that share the GPU
LIMIT_S = 240  # of one tool over one kernel: it is reported as not ended
CLEAN = re.compile(r"0 (errors|hazards displayed \(0 errors, 0 warnings\))")
_SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: (.*)$", re.M)


def run_sanitizer(specs: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """(spec, what each tool sums up after one launch of it), side by side, each when its last tool has ended.

    Nothing where compute-sanitizer is not installed.
    """
    if not shutil.which("compute-sanitizer"):
        return
    tools = {path: _tools_of(path) for path in _longest_first(specs)}
    said: dict[str, dict[str, str]] = defaultdict(dict)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        waiting = {pool.submit(_run, tool, path): (tool, path) for path, own in tools.items() for tool in own}
        for done in as_completed(waiting):
            tool, path = waiting[done]
            said[path][tool] = done.result()
            if len(said[path]) == len(tools[path]):
                yield path, {tool: said[path][tool] for tool in tools[path]}


def _longest_first(specs: Sequence[str]) -> list[str]:
    """Those that are launched at a size of the spec's own before those that have a small one for it."""
    return sorted(specs, key=lambda path: Path(path).stem in COUNTED_AT)


def _tools_of(path: str) -> tuple[str, ...]:
    text = Path(path).read_text(encoding="utf-8")
    of_barriers = [OF_BARRIERS] if re.search(r"^\s*barriers:", text, re.M) else []
    return (*TOOLS, *of_barriers, *([OF_PASSES] if has_passes(text) else []))


def _run(tool: str, path: str) -> str:
    command = ["compute-sanitizer", "--tool", tool, sys.executable, "benchmarks/launch_once.py", "--sanitized", path]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"not ended after {LIMIT_S} s"
    found = _SUMMARY.findall(done.stdout)
    if done.returncode or not found:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return str(found[-1]) if found else f"no summary, exit status {done.returncode}"
