"""Many launches of kernels with roles, and of passes, beside a kernel that takes SMs from them: none hangs, none writes
something else.

python benchmarks/soak.py [--launches 10000] [SPEC...]   one line of JSON for each spec; a process that hangs is killed
python benchmarks/soak.py --one-workspace specs/sum_all.yaml   a fault: launches must be told to differ

Deadlocks and races in time are what racecheck cannot see of these kernels. Another stream runs copies and products all
the while, so that CTAs start late, in other orders and on fewer SMs. The kernel's first output is checked as ``verify``
checks it; every launch after it starts from poison, and must give the same bytes. Passes: soak_programs.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

from gpu_files import list_kernels, list_programs
from launch_once import SANITIZED_AT, build_for
from python_calls import start_by_cupy
from soak_programs import soak_program

import tilegen
from tilegen.pipeline import BuiltProgram
from tilegen.spec.outline import launch_of
from tilegen.spec.program import Program

ROOT = Path(__file__).resolve().parent.parent
LAUNCHES, BATCH = 10000, 50
SECONDS = 120  # a spec's launches take a few; a hang takes all
SIZES = SANITIZED_AT | {
    "hgemm_persistent": {"M": 2048, "N": 2048, "K": 512, "C": 128}, "hgemm_roles": {"M": 1024, "N": 1024, "K": 512},
    "attention_hopper": {"BH": 8, "S": 500},
}  # fmt: skip


def soak_kernels(specs: Sequence[str], launches: int = LAUNCHES) -> Iterator[tuple[str, str]]:
    """(spec, what happened) for each spec that has roles, clusters or passes: "10000 launches, all equal" is right."""
    for path in specs:
        spec = tilegen.load(path)  # what a gemm is carried out by has roles, too
        if isinstance(spec, Program) or spec.roles or prod(launch_of(spec).cluster) > 1:
            yield path, _soak_apart(path, launches)


def is_soaked(said: str) -> bool:
    """Was that right?"""
    return said.endswith("launches, all equal")


def _soak_apart(path: str, launches: int) -> str:
    """In a process of its own: a kernel that hangs cannot be stopped otherwise."""
    command = [sys.executable, "benchmarks/soak.py", "--launches", str(launches), path]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no end in {SECONDS} s"
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1:] or done.returncode}"
    return str(json.loads(done.stdout.splitlines()[-1])["said"])


def soak(path: str, launches: int, one_workspace: bool = False) -> str:
    """What came of so many launches of one spec's kernel, or passes."""
    import cupy

    from tilegen import gpu
    from tilegen.plan import arrays
    from tilegen.proofs.floats import computes
    from tilegen.proofs.meaning import parameter_cases
    from tilegen.verifying import compile_for, launch_case, make_image, verify_floats_run, verify_run

    device = gpu.require_gpu()
    built = build_for(device, path, SIZES)
    if isinstance(built, BuiltProgram):
        return soak_program(device, built, launches, one_workspace)
    case, cubin = parameter_cases(built.spec)[0], compile_for(device, built)

    def run(inputs: Any, outputs: Any) -> Any:
        return gpu.run_images(cubin, launch_case(built, case), inputs, outputs)

    if computes(built.spec):
        verify_floats_run(built, case, 1, run, None)
    else:
        verify_run(built, case, 1, run)
    memories = arrays(built.plan)
    images = {m.name: cupy.asarray(make_image(built.spec, m, case, 1).view("uint8")) for m in memories}
    outputs = [m.name for m in memories if m.access != "in"]
    fresh = {name: cupy.full_like(images[name], gpu.POISON) for name in outputs}
    start = {m.name: images[m.name].copy() if m.access == "inout" else fresh.get(m.name) for m in memories}
    call, given = start_by_cupy(device, [built]), [images[m.name] for m in memories]
    rival, mine = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x = cupy.random.rand(1536, 1536, dtype=cupy.float32)
    wanted: dict[str, Any] = {}
    wrong = cupy.zeros((), cupy.int64)
    for first in range(0, launches, BATCH):
        with rival:  # about as long as the batch beside it
            for _ in range(4):
                x = x @ x * 1e-3
        with mine:
            for _ in range(min(BATCH, launches - first)):
                for name in outputs:
                    images[name][...] = start[name]
                call(built, case, given)
                for name in outputs:
                    if name in wanted:
                        wrong += (images[name] != wanted[name]).any()
                    else:
                        wanted[name] = images[name].copy()
        if first % (20 * BATCH) == 0:
            cupy.cuda.Device().synchronize()
    cupy.cuda.Device().synchronize()
    bad = int(wrong)
    return f"{launches} launches, all equal" if not bad else f"{bad} of {launches} launches differ from the first"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--launches", type=int, default=LAUNCHES)
    parser.add_argument("--one-workspace", action="store_true", help="of passes, a fault: both streams have one")
    parser.add_argument("specs", nargs="*", default=[*list_kernels(), *list_programs()])
    args = parser.parse_args()
    if len(args.specs) == 1:
        said = soak(args.specs[0], args.launches, args.one_workspace)
        print(json.dumps({"spec": Path(args.specs[0]).name, "said": said}))
        return
    for path, said in soak_kernels(args.specs, args.launches):
        print(json.dumps({"spec": Path(path).name, "said": said}), flush=True)


if __name__ == "__main__":
    main()
