"""Random kernels, counted: what ncu shows of each beside the prediction, and a second witness where the two differ."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from counting import WITNESSES, compare_counts, count_kernels, is_as_predicted
from launch_once import build_all
from mixed_widths import list_drawn
from random_kernels import draw_kernel

from tilegen import gpu
from tilegen.verifying import compile_for

COUNT = 200


def measure_random(device: gpu.Device, count: int = COUNT, first: int = 0) -> dict[str, Any]:
    """``count`` kernels of random_kernels.py from number ``first`` on, as ``count_drawn`` says."""
    return {"first": first, **count_drawn(device, map(draw_kernel, range(first, first + count)))}


def measure_mixed(device: gpu.Device) -> dict[str, Any]:
    """The kernels of mixed_widths.py, as ``count_drawn`` says; ``over_floor``: sectors over their floor, by name."""
    specs = list_drawn()
    ratios = {spec["kernel"]: round(ratio, 3) for spec, ratio in specs}
    drawn = ((spec["kernel"], yaml.safe_dump(spec, sort_keys=False)) for spec, _ in specs)
    return {**count_drawn(device, drawn), "over_floor": ratios}


def count_drawn(device: gpu.Device, drawn: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """How many kernels, as (name, spec), are as predicted in all counters, and every other with why.

    ``by the hardware``: ncu's count of loads or stores differs, and the hardware's own counter agrees. ``P0``: an
    LDGSTS names the predicate P0, of which ncu takes no notice (docs/access-model.md).
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [write_kernel(Path(folder), name, text) for name, text in drawn]
        counted = count_kernels(paths, WITNESSES)
        builds = build_all(device, paths, proved=True)
    out: dict[str, Any] = {"kernels": len(builds), "equal": 0, "others": {}}
    for built in builds:
        name = built.plan.name
        rows = compare_counts(built, counted.get(name))
        wrong = {what: row for what, row in rows.items() if not is_as_predicted(row)}
        if not wrong:
            out["equal"] += 1
            continue
        sass = disassemble(compile_for(device, built).image)
        for what, row in wrong.items():
            row["why"] = explain_difference(what, row, counted.get(name, {}), sass)
        out["others"][name] = wrong
    return out


def write_kernel(folder: Path, name: str, text: str) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def explain_difference(what: str, row: dict[str, Any], counted: dict[str, int], sass: str) -> str:
    """A second witness for a count that is not the prediction; "" if there is none."""
    if what == "shared_ldgsts" and re.search(r"@!?P0 +LDGSTS|LDGSTS.*\], !?P0", sass):
        return "P0"
    return "by the hardware" if counted.get(f"{what} by the hardware") == row["predicted"] else ""


def disassemble(cubin: bytes) -> str:
    """The machine code of a cubin; "" where there is no cuobjdump."""
    if not shutil.which("cuobjdump"):
        return ""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run(["cuobjdump", "-sass", file.name], capture_output=True, text=True).stdout
