"""The same PTX on a GPU and on the machine in NumPy, bit for bit (docs/ptx.md).

Three steps, each on the machine that has what it needs:
  --prepare FILE            a compiler: kernels are drawn, proved and compiled; PTX, machine code and inputs go to FILE
  --device gpu FILE --out D a GPU: what they write goes to a file in the folder D, with all that FILE holds
  --compare D               neither: the machine runs that PTX; every byte is compared, docs/results/ptx/ is written

What PTX leaves open (`OPEN`) may differ. An element counts as such only where it changes once the results of that
instruction are changed: all other elements must be equal.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilegen import gpu
from tilegen.dtypes import numpy_dtype
from tilegen.gpu.cubins import read_ptxas_log
from tilegen.ptx import Instruction, KernelText, PtxFault, parse_kernel, read_launch, run_kernel
from tilegen.ptx.text import list_names

_DEVICE = "sm_90"
_VERSION = "9.0"  # of PTX, that ptxas 13.0 and its drivers read
_RESULTS = Path(__file__).parents[1] / "docs" / "results" / "ptx" / "nvidia-h200.json"
Images = Mapping[str, Any]

# What PTX leaves open: the error of approximations, the order of sums in products, the order of updates.
OPEN = {
    r"(ex2|lg2|rcp|sqrt|rsqrt|sin|cos|tanh|div)\.(approx|full)\b.*": r"\1.\2",
    r"(mma)\..*\.(f16|f32|f64)\.(\w+)\.\w+\.\w+": r"\1 of \3, sums in \2",
    r"(wgmma)\.mma_async\..*\.(f16|f32)\.(\w+)\.\w+": r"\1 of \3, sums in \2",
    r"(red|atom)\..*\.add\..*(f16x2|bf16x2|bf16|f16|f32|f64)": r"\1.add of \2",
    r"(cp\.reduce)\.async\.bulk\..*\.add\..*": r"\1 by add",
}


def name_open(op: str) -> str:
    """What PTX leaves open about an opcode, or nothing.

    >>> name_open("ex2.approx.ftz.f32"), name_open("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    ('ex2.approx', 'mma of bf16, sums in f32')
    >>> name_open("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"), name_open("add.f32")
    ('', '')
    """
    for pattern, words in OPEN.items():
        if found := re.fullmatch(pattern, op):
            return found.expand(words)
    return ""


# ---- the file: one array of JSON, and one for each image and machine code
def write_file(path: Path, about: list[dict[str, Any]], images: Images) -> None:
    """Cases as JSON, and their arrays by ``case/what/name``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez_compressed(path, about=said, **images)


def read_file(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The same back."""
    with np.load(path) as held:
        images = {name: held[name] for name in held.files}
    return json.loads(images.pop("about").tobytes()), images


# ---- first step: kernels
def prepare(path: Path) -> None:
    """Draw, prove and compile all kernels."""
    from ptx_cases import build_drawn, draw_images

    from tilegen.render import launch_info

    about, images, made = list[dict[str, Any]](), dict[str, Any](), dict[str, Any]()
    for number, (family, is_first, kernel, case) in enumerate(build_drawn()):
        made = {} if is_first else made
        name, arch = kernel.plan.name, kernel.plan.arch
        text = gpu.print_ptx(kernel.source, arch, name)
        text = re.sub(r"\.version \S+", f".version {_VERSION}", text)
        arch = arch if arch.endswith("a") else _DEVICE  # a GPU refuses code for older ones, and takes their PTX
        code, log = assemble(text, arch)
        about.append({
            "family": family, "kernel": name, "arch": arch, "params": case, "ptx": text, "log": log,
            "compiler": str(gpu.find_compilers()[0]), "launch": launch_info(kernel.plan, case),
        })  # fmt: skip
        before = {f"before/{one}": image for one, image in draw_images(kernel, case, number + 1, made).items()}
        made |= {one["name"]: before[f"before/{one['name']}"] for one in about[-1]["launch"]["args"] if "access" in one}
        made |= run_machine(parse_kernel(text, name), about[-1]["launch"], before)
        images |= {f"{number}/{one}": image for one, image in before.items()}
        images[f"{number}/code/"] = np.frombuffer(code, np.uint8)
        print(f"{number:3} {family}: {name}", flush=True)
    write_file(path, about, images)
    print(f"{len(about)} kernels, {path.stat().st_size >> 10} KiB")


def assemble(text: str, arch: str) -> tuple[bytes, str]:
    """Machine code of PTX, and what ptxas says of it."""
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        source, cubin = Path(folder, "a.ptx"), Path(folder, "a.cubin")
        source.write_text(text)
        command = ["ptxas", "-v", f"-arch={arch}", "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return cubin.read_bytes(), done.stderr


# ---- second step: the GPU
def run_on_gpu(path: Path, out: Path) -> None:
    """Run each kernel once; what its arrays are then goes beside the rest."""
    about, images = read_file(path)
    device = gpu.require_gpu()
    for number, one in enumerate(about):
        code, name = images[f"{number}/code/"].tobytes(), one["kernel"]
        cubin = gpu.Cubin(name, one["arch"], "ptxas 13.0", code, one["log"], **read_ptxas_log(one["log"], name))
        how, outputs, inputs = gpu.read_launch(one["launch"]), dict[str, int](), dict[str, Any]()
        for a in one["launch"]["args"]:
            if a["kind"] == "pointer":
                image = images[f"{number}/before/{a['name']}"]
                outputs |= {a["name"]: image.nbytes} if a["access"] != "in" else {}
                inputs |= {a["name"]: image} if a["access"] != "out" else {}
        after = gpu.run_images(cubin, how, inputs, outputs)
        images |= {f"{number}/after/{one}": image for one, image in after.items()}
        print(f"{number:3} {name}: ran", flush=True)
    for one in about:
        one |= {"device": device.name, "driver": device.driver, "date": datetime.date.today().isoformat()}
    write_file(out / "ptx_against_gpu.npz", about, images)
    print(f"{len(about)} kernels ran on {device.name}")


# ---- third step: the machine
def compare(folder: Path, processes: int) -> None:
    """Run each kernel's PTX on the machine, and write what came of it. Exits with 1 where bytes differ that may not."""
    about, images = read_file(folder / "ptx_against_gpu.npz")
    numbers = range(len(about))
    tasks = [(one, {k.split("/", 1)[1]: v for k, v in images.items() if k.startswith(f"{n}/")})
             for n, one in zip(numbers, about, strict=True)]  # fmt: skip
    with ProcessPoolExecutor(processes) as pool:
        kernels = []
        for row in pool.map(compare_kernel, *zip(*tasks, strict=True)):
            print(json.dumps(row), flush=True)
            kernels.append(row)
    wrong = [row["kernel"] for row in kernels if row["wrong"]]
    said = {key: about[0][key] for key in ("device", "driver", "date", "compiler")}
    said |= {
        "assembler": "ptxas 13.0",
        "kernels": len(kernels),
        "wrong": wrong,
        "open": sum_up(kernels),
        "rows": kernels,
    }
    _RESULTS.write_text(json.dumps(said, indent=1) + "\n")
    elements = sum(row.get("elements", 0) for row in kernels)
    print(f"{len(kernels)} kernels, {elements} elements, {len(wrong)} kernels are wrong: {wrong}")
    sys.exit(bool(wrong))


def compare_kernel(about: dict[str, Any], images: dict[str, Any]) -> dict[str, Any]:
    """One kernel: how many elements were written, differ, and may."""
    start = time.perf_counter()
    kernel = parse_kernel(about["ptx"], about["kernel"])
    try:
        got = run_machine(kernel, about["launch"], images)
    except PtxFault as fault:
        return {"kernel": about["kernel"], "family": about["family"], "wrong": str(fault), "open": {}}
    names = {a["name"]: a["dtype"] for a in about["launch"]["args"] if a["kind"] == "pointer" and a["access"] != "in"}
    want = {name: images[f"after/{name}"] for name in names}
    depends = {what: run_nudged(kernel, what, about["launch"], images, got) for what in list_open(kernel)}
    row = {"kernel": about["kernel"], "family": about["family"], "elements": 0, "equal": 0, "wrong": 0, "open": {}}
    for name, dtype in names.items():
        kind = numpy_dtype(dtype)
        a, b = (x.reshape(-1, kind.itemsize) for x in (got[name], want[name]))
        before = images[f"before/{name}"].reshape(-1, kind.itemsize)
        differs, touched = (a != b).any(1), ((a != before) | (b != before)).any(1)
        may = np.zeros(len(a), bool)
        for what, changed in depends.items():
            here = np.ones(len(a), bool) if changed is None else (changed[name].reshape(a.shape) != a).any(1)
            may |= here
            ulps = count_ulps(got[name].view(kind), want[name].view(kind))[here]
            old = row["open"].setdefault(what, {"elements": 0, "differ": 0, "ulps": 0})
            old["elements"] += int((here & touched).sum())
            old["differ"] += int((differs & here).sum())
            old["ulps"] = max(old["ulps"], int(ulps.max()) if len(ulps) else 0)
        row["elements"] += int(touched.sum())
        row["equal"] += int((touched & ~differs).sum())
        row["wrong"] += int((differs & ~may).sum())
    return row | {"seconds": round(time.perf_counter() - start, 2)}


def run_machine(kernel: KernelText, launch: dict[str, Any], images: Images) -> dict[str, Any]:
    """Every CTA of the grid: bytes of the arrays that are written."""
    writable = [a["name"] for a in launch["args"] if a["kind"] == "pointer" and a["access"] != "in"]
    before = {a["name"]: images[f"before/{a['name']}"] for a in launch["args"] if a["kind"] == "pointer"}
    ctas = [
        (x, y, z) for z in range(launch["grid"][2]) for y in range(launch["grid"][1]) for x in range(launch["grid"][0])
    ]
    ran = run_kernel(kernel, read_launch(launch), before, writable, ctas)
    return {name: ran.images[name] for name in writable}


def list_open(kernel: KernelText) -> list[str]:
    """What PTX leaves open about the instructions of a kernel."""
    return sorted({what for one in kernel.code if (what := name_open(one.op))})


def run_nudged(
    kernel: KernelText, what: str, launch: dict[str, Any], images: Images, got: Images
) -> dict[str, Any] | None:  # fmt: skip
    """What is written once the results of an instruction are other ones; None where the kernel then goes astray, and of
    updates by TMA, whose operands are no registers.
    """
    if what.startswith("cp.reduce"):
        return None
    try:
        return run_machine(nudge(kernel, what), launch, images)
    except PtxFault:
        return None


def nudge(kernel: KernelText, what: str) -> KernelText:
    """The kernel with every result of an instruction, or each operand of an update, made another one."""
    code, moved, taken = list[Instruction](), dict[int, int](), set[str]()
    for k, one in enumerate(kernel.code):
        moved[k] = len(code)
        is_open = name_open(one.op) == what
        if is_open and one.op.startswith(("red", "atom")):
            names = list_names(one.operands[-1])
            code += [scramble(kernel, name, one) for name in names]
            code += [one, *(scramble(kernel, name, one, is_back=True) for name in names)]
            continue
        code.append(one)
        if is_open and one.op.startswith("wgmma"):
            taken |= set(list_names(one.operands[0]))
        elif is_open:
            code += [scramble(kernel, name, one) for name in list_names(one.operands[0])]
        if what.startswith("wgmma") and one.op.startswith("wgmma.wait_group") and one.operands[0] == "0":
            code += [scramble(kernel, name, one) for name in sorted(taken)]
            code.append(replace(one, op="wgmma.fence.sync.aligned", operands=()))
    moved[len(kernel.code)] = len(code)
    return replace(kernel, code=tuple(code), labels={name: moved[k] for name, k in kernel.labels.items()})


def scramble(kernel: KernelText, name: str, like: Instruction, is_back: bool = False) -> Instruction:
    """A register's bits times 3 and some more, or back, under the guard of another instruction: no sums cancel that."""
    bits = kernel.registers[name]
    by, more = 3, 0x5A3C791E355AB7D3 % 2**bits
    if is_back:
        by = pow(3, -1, 2**bits)
        more = -more * by % 2**bits
    return replace(like, op=f"mad.lo.u{bits}", operands=(name, name, str(by), str(more)))


def count_ulps(a: Any, b: Any) -> Any:
    """How many numbers of their type lie between two floats; of integers, their difference. NaNs are the same."""
    width = a.dtype.itemsize
    if a.dtype.kind in "iub" or width > 8:
        return (
            (a != b).astype(np.int64) if a.dtype.kind == "b" or width > 8 else np.abs(a.astype(float) - b.astype(float))
        )
    x, y = (v.view(f"i{width}").astype(object) for v in (a, b))
    top = 1 << (8 * width - 1)
    ordered = [np.where(v < 0, -(v + top), v) for v in (x, y)]
    nans = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return np.where(nans, 0, np.abs(ordered[0] - ordered[1]))


def sum_up(kernels: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Kernels, dependent elements, differing ones and the largest error, for each instruction that PTX leaves open."""
    found = dict[str, dict[str, int]]()
    for row in kernels:
        for what, one in row["open"].items():
            sums = found.setdefault(what, {"kernels": 0, "elements": 0, "differ": 0, "ulps": 0})
            sums["kernels"] += 1
            sums["elements"] += one["elements"]
            sums["differ"] += one["differ"]
            sums["ulps"] = max(sums["ulps"], one["ulps"])
    return dict(sorted(found.items()))


def main(argv: list[str]) -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--device", type=str, choices=["gpu"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("file", type=Path, nargs="?")
    asked = parser.parse_args(argv)
    if asked.prepare:
        prepare(asked.prepare)
    elif asked.device:
        run_on_gpu(asked.file, asked.out)
    elif asked.compare:
        compare(asked.compare, asked.processes)


if __name__ == "__main__":
    main(sys.argv[1:])
