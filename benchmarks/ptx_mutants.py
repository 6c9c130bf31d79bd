"""Changes compiled texts, an instruction at a time, and runs them on the machine in NumPy (docs/ptx.md).

An instruction is dropped, doubled, or swapped with the next one. What passes is compared with the original after ptxas:
the same machine code is no fault. What is left is printed as SURVIVED, to be looked at one by one.

Usage: PYTHONPATH=.:tests python benchmarks/ptx_mutants.py SEED EACH NAME .. (of specs/; of a program its longest pass)
"""

from __future__ import annotations

import random
import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.ptx.kernels import draft_small
from tilegen import gpu
from tilegen.errors import TilegenError
from tilegen.pipeline import Built, kernels_of
from tilegen.ptx import PtxError, parse_kernel
from tilegen.verifying.on_ptx import verify_kernel_text

_MOST_VERSION = "9.0"  # of PTX, that ptxas 13.0 reads
_SECTION = struct.Struct("<IIQQQQIIQQ")


def read_machine_code(text: str, arch: str) -> dict[str, bytes] | str:
    """The machine code of each kernel after ptxas; what ptxas says where it refuses the text."""
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        source, cubin = Path(folder, "a.ptx"), Path(folder, "a.cubin")
        source.write_text(re.sub(r"\.version \S+", f".version {_MOST_VERSION}", text))
        command = ["ptxas", f"-arch={arch}", "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip()
        image = cubin.read_bytes()
    (start,), (count, names) = struct.unpack_from("<Q", image, 0x28), struct.unpack_from("<HH", image, 0x3C)
    sections = [_SECTION.unpack_from(image, start + _SECTION.size * k) for k in range(count)]
    found = {}
    for name, _, _, _, offset, size, *_ in sections:
        at = sections[names][4] + name
        word = image[at : image.index(b"\0", at)].decode()
        if word.startswith(".text."):
            found[word] = image[offset : offset + size]
    return found


def change(text: str, name: str, rng: random.Random) -> tuple[str, str]:
    """One change in the body of a kernel, in words, and the text then."""
    lines = text.split("\n")
    first = next(k for k, line in enumerate(lines) if f".entry {name}" in line)
    last = next(k for k, line in enumerate(lines) if k > first and line.startswith("}"))
    at = [
        k
        for k in range(first, last)
        if lines[k].strip().endswith(";") and not lines[k].strip().startswith((".", "//", "ret"))
    ]
    while True:
        k, way = rng.choice(at), rng.choice(["drop", "double", "swap"])
        after = next((j for j in at if j > k), k)
        if way == "swap" and (after == k or any(re.match(r"\s*[$\w]+:", line) for line in lines[k:after])):
            continue
        new = list(lines)
        new[k] = {"drop": "", "double": f"{lines[k]}\n{lines[k]}", "swap": lines[after]}[way]
        if way == "swap":
            new[after] = lines[k]
        return f"{way} line {k + 1}: {lines[k].strip()[:100]}", "\n".join(new)


def judge(kernel: Built, text: str, changed: str) -> str:
    """FOUND with what was said, SAME where the machine code is, REFUSED by ptxas, SURVIVED."""
    try:
        verify_kernel_text(kernel, parse_kernel(changed, kernel.plan.name), kernel.source, (1, 2))
    except (TilegenError, PtxError) as error:
        return f"FOUND {str(error)[:120]}"
    code = read_machine_code(changed, kernel.plan.arch)
    if isinstance(code, str):
        return f"REFUSED {code[:120]}"
    return "SAME" if code == read_machine_code(text, kernel.plan.arch) else "SURVIVED"


def main(seed: str, each: str, *specs: str) -> None:
    """Print each change and what became of it, and last how many there were of each kind."""
    rng, counts = random.Random(int(seed)), Counter[str]()
    for spec in specs:
        kernel = max(kernels_of(draft_small(spec)), key=lambda one: len(one.plan.operations))
        text = gpu.print_ptx(kernel.source, kernel.plan.arch, kernel.plan.name)
        for _ in range(int(each)):
            what, changed = change(text, kernel.plan.name, rng)
            said = judge(kernel, text, changed)
            counts[said.split()[0]] += 1
            print(f"{kernel.plan.name}: {what}: {said}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
