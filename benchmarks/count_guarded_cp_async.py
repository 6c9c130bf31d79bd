"""Count cp.async.cg of which some lanes are out, or read nothing, inside kernels as tilegen prints them. Command line:

    python3 benchmarks/count_guarded_cp_async.py --out h200_cp_async_guarded.json

Needs CuPy and ncu, nothing of tilegen. Takes half a minute. Each kernel copies a tile of 16-byte chunks in rounds of
all its threads; in the last round some threads are out, and with ``zeros`` some lanes read nothing. What is written
down is one row for each LDGSTS of the machine code, with the predicates that it names: the counter goes by them.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from count_cp_async import describe_device

COUNTER = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
REPORT = "/tmp/guarded_cp_async"  # ncu's own file
# How the guard is written: around the instruction, or as a predicate of it; with and without a source size.
FORMS = {
    "if": 'if (on) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(s), "l"(g) : "memory");',
    "predicate": (
        'asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16;}"'
        ' :: "r"(s), "l"(g), "r"((int)on) : "memory");'
    ),
    "if zeros": (
        'if (on) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"'
        ' :: "r"(s), "l"(g), "r"(reads ? 16 : 0) : "memory");'
    ),
    "predicate zeros": (
        'asm volatile("{.reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16, %3;}"'
        ' :: "r"(s), "l"(g), "r"((int)on), "r"(reads ? 16 : 0) : "memory");'
    ),
}
KERNEL = """
extern "C" __global__ void __launch_bounds__({threads}) {name}(const uint4 *__restrict__ X, uint4 *__restrict__ Y,
    int pitch, int limit)
{{
    __shared__ __align__(1024) uint4 t[{slots}];
    const int tx = threadIdx.x;
    #pragma unroll
    for (int i = 0; i < {rounds}; ++i) {{
        const int chunk = i * {threads} + tx, at = chunk / {columns} * {pitch} + chunk % {columns};
        const bool on = chunk < {chunks}, reads = chunk % {columns} < limit;
        const uint4 *g = &X[chunk / {columns} * pitch + chunk % {columns} + {shift}];
        const unsigned s = (unsigned)__cvta_generic_to_shared(&t[at ^ (at >> 3 & {swizzle})]);
        {copy}
    }}
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int k = tx; k < {slots} - 8; k += {threads}) Y[k] = t[k];
}}
"""


def draw_tiles(seed: int = 5, count: int = 14) -> list[dict[str, int]]:
    """Tiles with their pitches in chunks of 16 bytes; ``limit``: columns from here on read nothing."""
    rng, tiles = random.Random(seed), []
    for _ in range(count):
        threads, columns = rng.choice([32, 64, 96, 128]), rng.choice([4, 5, 8, 16, 20, 32])
        rows, pitch = rng.choice([3, 5, 8, 12]), columns + rng.choice([0, 0, 1, 2, 7])
        source_pitch = rng.choice([columns, columns + 3, 64, 96, 115, 215])
        shift, limit, swizzle = rng.choice([0, 0, 1, 2, 5]), rng.randint(1, columns), rng.choice([0, 0, 3])
        tiles.append({
            "threads": threads, "columns": columns, "rows": rows, "pitch": pitch, "source_pitch": source_pitch,
            "shift": shift, "limit": limit, "swizzle": swizzle,
        })  # fmt: skip
    return tiles


def list_kernels() -> dict[str, tuple[dict[str, int], str, str]]:
    """Name -> tile, form and source."""
    out = {}
    for k, tile in enumerate(draw_tiles()):
        for form, copy in FORMS.items():
            name = f"tile{k}_{form.replace(' ', '_')}"
            chunks, slots = tile["rows"] * tile["columns"], tile["rows"] * tile["pitch"] + 8
            more = {"chunks": chunks, "rounds": -(-chunks // tile["threads"]), "slots": slots}
            out[name] = tile, form, KERNEL.format(name=name, copy=copy, **{**tile, **more})
    return out


def launch() -> None:
    import cupy
    import numpy as np

    kernels = list_kernels()
    module = cupy.RawModule(code="".join(source for _, _, source in kernels.values()))
    X, Y = (cupy.zeros(1 << 20, np.uint8) for _ in range(2))
    for name, (tile, _, _) in kernels.items():
        arguments = (X, Y, np.int32(tile["source_pitch"]), np.int32(tile["limit"]))
        module.get_function(name)((1,), (tile["threads"],), arguments)
    cupy.cuda.Device().synchronize()


def count() -> list[dict[str, Any]]:
    """One row for each LDGSTS, in the order of the rounds."""
    ncu = ["ncu", "--clock-control", "none"]
    metrics = ["--section", "SourceCounters", "--metrics", f"memory_l1_wavefronts_shared,inst_executed,{COUNTER}"]
    subprocess.run([*ncu, "-f", "-o", REPORT, *metrics, sys.executable, __file__, "--launch"], check=True)
    page = ["ncu", "--import", f"{REPORT}.ncu-rep", "--page", "source", "--csv"]
    return read_page(subprocess.run(page, capture_output=True, text=True).stdout)


def read_page(text: str) -> list[dict[str, Any]]:
    """The rows of ncu's source page, which begins anew, with a line of names, for every kernel."""
    kernels, rows = list_kernels(), []
    name, names = "", list[str]()
    for row in csv.reader(text.splitlines()):
        if row[:1] == ["Kernel Name"]:
            name = "" if any(r["kernel"] == row[1] for r in rows) else row[1]  # the page has every kernel twice
        elif row[:1] == ["Address"]:
            names = row
        elif len(row) == len(names) and name in kernels:
            found = dict(zip(names, row, strict=True))
            if "LDGSTS" not in found["Source"]:
                continue
            tile, form, _ = kernels[name]
            done = sum(r["kernel"] == name for r in rows)
            rows.append({"kernel": name, "form": form, **tile, "round": done, **read_instruction(found)})
    return rows


def read_instruction(row: dict[str, str]) -> dict[str, Any]:
    """Its guard and the predicate that it reads under, with how often it ran and what was counted."""
    source = row["Source"].strip()
    guard = re.match(r"@!?(U?P\d)", source)
    reads = re.search(r"\], !?(U?P\d)|, !?(U?P\d), \[", source)
    return {
        "guard": guard[1] if guard else "", "reads": (reads[1] or reads[2]) if reads else "",
        "instructions": int(row["Instructions Executed"]),
        "threads_on": int(row["Predicated-On Thread Instructions Executed"]),
        "wavefronts": int(row["L1 Wavefronts Shared"]),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="h200_cp_async_guarded.json")
    parser.add_argument("--launch", action="store_true", help="only launch the kernels (for ncu)")
    args = parser.parse_args()
    if args.launch:
        launch()
        return 0
    about = {"device": describe_device(), "how": "benchmarks/count_guarded_cp_async.py", "counter": COUNTER,
             "columns": "guard, reads: predicate registers that the instruction names; wavefronts: as the source page "
                        "says for it alone"}  # fmt: skip
    rows = count()
    lines = ",\n".join(json.dumps(row) for row in rows)
    Path(args.out).write_text(f'{{"about": {json.dumps(about)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8")
    print(len(rows), "rows ->", args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
