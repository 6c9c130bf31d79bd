"""compute-sanitizer over the kernel of every spec: accesses beside arrays, and races in shared memory."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("memcheck", "racecheck")
CLEAN = re.compile(r"0 (errors|hazards displayed \(0 errors, 0 warnings\))")
_SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: (.*)$", re.M)


def run_sanitizer(specs: list[str]) -> dict[str, str]:
    """What each tool sums up after one launch of every kernel; nothing where compute-sanitizer is not installed."""
    if not shutil.which("compute-sanitizer"):
        return {}
    return {tool: _run(tool, specs) for tool in TOOLS}


def _run(tool: str, specs: list[str]) -> str:
    command = ["compute-sanitizer", "--tool", tool, sys.executable, "benchmarks/launch_once.py", *specs]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = _SUMMARY.findall(done.stdout)
    if done.returncode or not found:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return str(found[-1]) if found else f"no summary, exit status {done.returncode}"
