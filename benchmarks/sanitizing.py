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
OF_BARRIERS = "synccheck"  # of kernels whose warps wait for one another beside __syncthreads
SIDE_BY_SIDE = 6  # processes that share the GPU
CLEAN = re.compile(r"0 (errors|hazards displayed \(0 errors, 0 warnings\))")
_SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: (.*)$", re.M)


def run_sanitizer(specs: Sequence[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """(specs, what each tool sums up after one launch of each), groups side by side, as each ends.

    A spec that is large or has barriers, which racecheck is slow at or dies of, is a group of its own. Nothing where
    compute-sanitizer is not installed.
    """
    if not shutil.which("compute-sanitizer"):
        return
    small = [path for path in specs if Path(path).stem not in COUNTED_AT and not _has_barriers(path)]
    groups = [[path] for path in specs if path not in small]
    groups += [small[k::SIDE_BY_SIDE] for k in range(SIDE_BY_SIDE) if small[k::SIDE_BY_SIDE]]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        waiting = {pool.submit(_run_all, group): group for group in groups}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _run_all(specs: Sequence[str]) -> dict[str, str]:
    waits = any(_has_barriers(path) for path in specs)
    return {tool: _run(tool, specs) for tool in (*TOOLS, *((OF_BARRIERS,) if waits else ()))}


def _has_barriers(path: str) -> bool:
    return "\nbarriers:" in Path(path).read_text(encoding="utf-8")


def _run(tool: str, specs: Sequence[str]) -> str:
    command = ["compute-sanitizer", "--tool", tool, sys.executable, "benchmarks/launch_once.py", "--sanitized", *specs]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = _SUMMARY.findall(done.stdout)
    if done.returncode or not found:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return str(found[-1]) if found else f"no summary, exit status {done.returncode}"
