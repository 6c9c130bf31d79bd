"""A kernel's text run for some CTAs of a launch, over images of its arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilegen.ptx.defined import find_undefined
from tilegen.ptx.launch import Array, Cta, Launch, Region, place_regions
from tilegen.ptx.machine import Machine
from tilegen.ptx.schedule import Schedule
from tilegen.ptx.state import Fault
from tilegen.ptx.text import Instruction, KernelText

MOST_LANES = 1024  # that run side by side: more cost more than they save
MOST_STEPS = 1 << 22


class PtxFault(Exception):
    """What a kernel does wrong. ``instruction``: where; ``earlier``: the other access of a race, or None."""

    def __init__(self, message: str, cta: Cta, instruction: Instruction, earlier: Instruction | None):
        self.message, self.cta, self.instruction, self.earlier = message, cta, instruction, earlier
        other = f"; the other one is line {earlier.line}: {earlier}" if earlier else ""
        super().__init__(f"{message}, PTX line {instruction.line}: {str(instruction)[:200]}{other}")


@dataclass(frozen=True)
class Ran:
    """The images after the run, by name, and how many instructions ran (each for many lanes)."""

    images: Mapping[str, Array]
    steps: int


def run_kernel(
    kernel: KernelText, launch: Launch, images: Mapping[str, Array], writable: Sequence[str], ctas: Sequence[Cta]
) -> Ran:
    """Carry out some CTAs of a launch, and the rest of their clusters. Images are bytes, and are not changed.

    >>> from tilegen.ptx.text import parse_kernel
    >>> text = '''.version 9.0
    ... .target sm_80
    ... .visible .entry k(.param .u64 k_param_0)
    ... .maxntid 32, 1, 1
    ... {
    ...     .reg .b32 %r<2>; .reg .b64 %rd<3>;
    ...     mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [k_param_0]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;
    ...     st.global.u32 [%rd2], %r1;
    ...     ret;
    ... }'''
    >>> launch = Launch((1, 1, 1), 32, ("Y",))
    >>> ran = run_kernel(parse_kernel(text, "k"), launch, {"Y": np.zeros(128, np.uint8)}, ["Y"], [(0, 0, 0)])
    >>> ran.images["Y"].view("u4")[:4]
    array([0, 1, 2, 3], dtype=uint32)

    Raises PtxFault for what the kernel does wrong, PtxError for an instruction that the table does not have.
    """
    if early := find_undefined(kernel):
        raise PtxFault(f"{early[1]} is read, and nothing has written it", ctas[0], kernel.code[early[0]], None)
    regions = place_regions(images, writable)
    clusters = list(dict.fromkeys(tuple(c // s for c, s in zip(cta, launch.cluster, strict=True)) for cta in ctas))
    size = int(np.prod(launch.cluster)) * -(-launch.threads // 32) * 32
    at_once = max(1, MOST_LANES // size)
    steps = 0
    for first in range(0, len(clusters), at_once):
        members = [
            cta for cluster in clusters[first : first + at_once] for cta in list_members(cluster, launch.cluster)
        ]
        steps += _run_some(kernel, launch, regions, members)
    return Ran({name: region.image() for name, region in regions.items()}, steps)


def list_members(cluster: Sequence[int], shape: Cta) -> list[Cta]:
    """The CTAs of a cluster, by rank: x the fastest.

    >>> list_members((1, 0, 0), (2, 1, 1))
    [(2, 0, 0), (3, 0, 0)]
    """
    x, y, z = shape
    base = [c * s for c, s in zip(cluster, shape, strict=True)]
    return [(base[0] + i, base[1] + j, base[2] + k) for k in range(z) for j in range(y) for i in range(x)]


def _run_some(kernel: KernelText, launch: Launch, regions: Mapping[str, Region], ctas: Sequence[Cta]) -> int:
    machine = Machine(kernel, launch, regions, ctas)
    schedule = Schedule(machine, MOST_STEPS)
    try:
        return schedule.run()
    except Fault as fault:
        earlier = kernel.code[fault.earlier] if fault.earlier >= 0 else None
        raise PtxFault(fault.message, ctas[0], kernel.code[fault.at], earlier) from None
