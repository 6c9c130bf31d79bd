"""Whole processes: wall-clock and processor seconds (medians of 10 after one to warm up) and peak memory of commands.

python benchmarks/bench_cli.py

Bytecode is written and read as for any user, whatever the environment says.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 10
LARGE = "--set M=8192 --set N=8192 --set K=8192"
COMMANDS: dict[str, tuple[float, float]] = {  # command: seconds and MB at most
    "--help": (0.1, 150),
    "build specs/permute_sf.yaml": (0.6, 150),
    "explain specs/permute_sf.yaml": (0.6, 150),
    "verify specs/permute_sf.yaml --device cpu": (0.6, 150),
    f"build specs/gemm.yaml {LARGE}": (2.0, 400),
    f"build specs/gemm_mma.yaml {LARGE}": (2.0, 400),
}


def run_once(words: list[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak MB of one process."""
    command = [sys.executable, "-m", "tilegen", *words]
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)} failed")
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * resource_unit() / 1e6


def resource_unit() -> int:
    """Bytes that ``ru_maxrss`` counts in."""
    return 1 if sys.platform == "darwin" else 1024


def main() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    late = []
    with tempfile.TemporaryDirectory() as folder:
        environment["PYTHONPYCACHEPREFIX"] = folder
        for command, (seconds, megabytes) in COMMANDS.items():
            words = command.split() + (["-o", folder] if command.startswith("build") else [])
            run_once(words, environment)
            runs = [run_once(words, environment) for _ in range(RUNS)]
            took, worked = (statistics.median(run[k] for run in runs) for k in (0, 1))
            used = max(run[2] for run in runs)
            print(
                f"tilegen {command:<42} {took:.3f} s (at most {seconds}; {worked:.3f} s of a processor), "
                f"{used:.0f} MB (at most {megabytes:.0f})"
            )
            if took > seconds or used > megabytes:
                late.append(command)
    raise SystemExit(1 if late else 0)


if __name__ == "__main__":
    main()
