"""A kernel in one line: what its grid moves, what that costs beside its floors, who takes part, what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilegen.arch import ARCHES
from tilegen.arch.data import typical_device
from tilegen.cost.asynchronous import WHOLE
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.count import cost_of, count_access
from tilegen.cost.needs import MOST_ADDRESSES, count_bytes, count_needed_sectors, find_threads, group_by_array
from tilegen.decisions import count_words
from tilegen.plan import Launch, Plan

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_ADDS_UP = ("mma", "reduce", "scan")
_RESOURCES = {"memory": "memory", "shared": "shared memory", "issue": "instructions"}


def sum_up(plan: Plan, launch: Launch) -> dict[str, Any]:
    """Totals over the grid as JSON data; ``threads``: the fewest and the most that an access has, in an inner CTA.

    ``clocks`` says how many of one multiprocessor each resource is busy for, at the rates of ``device``: sectors with
    its share of the memory's bandwidth, wavefronts of shared memory, instructions that access memory at its schedulers.
    The largest is ``bound_by``, None if all are 0; ``aside`` is arithmetic that may take longer and is not among them:
    of ops that add up. A floor is None where it was not counted.
    """
    accesses = compiled_accesses(plan)
    counted = [count_access(a, launch, None) for a in accesses]
    groups = group_by_array(accesses).values()
    floors = [count_needed_sectors(group, launch, None) for group in groups]
    cost = cost_of(counted)
    moved = {True: 0, False: 0}
    for a in accesses:
        if a.memory.traits.is_array:
            moved[a.writes] += count_bytes(a, launch, None)
    taking = [a for a in accesses if any(find_threads(a, launch, launch.interior))]
    taking = [a for a in taking if a.kind not in WHOLE] or taking  # one thread starts a box for all of them
    threads = [sum(find_threads(a, launch, launch.interior)) for a in taking]
    arch, device = ARCHES[plan.arch], typical_device(plan.arch)
    clocks = {
        "memory": cost.sectors * arch.sector_bytes / device.bytes_per_clock,
        "shared": cost.wavefronts / arch.wavefronts_per_clock,
        "issue": cost.instructions / arch.issues_per_clock,
    }
    return {
        "read_bytes": moved[False], "written_bytes": moved[True],
        "sectors": cost.sectors, "sectors_floor": None if None in floors else sum(n for n in floors if n is not None),
        "wavefronts": cost.wavefronts, "wavefronts_floor": sum(c.floor for c in counted),
        "instructions": cost.instructions, "threads": [min(threads, default=0), max(threads, default=0)],
        "bound_by": max(clocks, key=lambda name: clocks[name]) if any(clocks.values()) else None,
        "aside": ["arithmetic"] if any(o.op in _ADDS_UP for o in plan.operations) else [],
        "clocks": {name: round(n, 3) for name, n in clocks.items()}, "device": device.product,
    }  # fmt: skip


def say_summary(kernel: str, threads: int, summary: Mapping[str, Any]) -> str:
    """The summary of a kernel of so many threads a CTA, as one sentence."""
    floor = summary["sectors_floor"]
    known = (
        f"floor {floor}"
        if floor is not None
        else f"floor not counted, for over {MOST_ADDRESSES} addresses: smaller sizes have one"
    )
    least, most = summary["threads"]
    part = str(most) if least == most else f"{least} to {most}"
    said = [
        f"{say_bytes(summary['read_bytes'])} read + {say_bytes(summary['written_bytes'])} written",
        f"sectors {summary['sectors']} ({known})",
        f"wavefronts {summary['wavefronts']} (floor {summary['wavefronts_floor']})",
        count_words(summary["instructions"], "instruction", "instructions"),
        f"{part} of {threads} threads",
        _say_bound(summary),
    ]
    return f"{kernel}: {'; '.join(said)}"


def _say_bound(summary: Mapping[str, Any]) -> str:
    """What bounds the kernel, and how much of that time the other resources are busy for."""
    bound_by, clocks = summary["bound_by"], summary["clocks"]
    if bound_by is None:
        return "bound by nothing that is counted"
    others = [f"{_RESOURCES[n]} {100 * x / clocks[bound_by]:.0f}%" for n, x in clocks.items() if n != bound_by]
    rates = f"at the rates of {summary['device']}, {others[0]} of that time, {others[1]}"
    return f"bound by {_RESOURCES[bound_by]}{say_aside(summary)} ({rates})"


def say_aside(summary: Mapping[str, Any]) -> str:
    """What is not among the resources that may bound a kernel.

    >>> say_aside({"aside": ["arithmetic"]}), say_aside({"aside": []})
    (', arithmetic left out', '')
    """
    return f", {', '.join(summary['aside'])} left out" if summary["aside"] else ""


def say_resource(name: str | None) -> str:
    """A resource of ``bound_by`` in words.

    >>> say_resource("shared"), say_resource(None)
    ('shared memory', 'nothing that is counted')
    """
    return "nothing that is counted" if name is None else _RESOURCES[name]


def say_bytes(n: int) -> str:
    """
    >>> say_bytes(1), say_bytes(1024), say_bytes(5000)
    ('1 byte', '1 KiB', '4.9 KiB')
    """
    if n == 1:
        return "1 byte"
    unit = min(max(0, n.bit_length() - 1) // 10, len(_UNITS) - 1)
    size = f"{n / 1024**unit:.1f}".removesuffix(".0")
    return f"{size} {_UNITS[unit]}"
