"""explain: a plan's choices and predicted counts as plain JSON data. Nothing is said that was not recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from tilegen.access import KINDS, RED, WARP_LANES
from tilegen.arch import ARCHES
from tilegen.arithmetic import describe_functions
from tilegen.cost.accesses import Access
from tilegen.cost.asynchronous import CP_ASYNC, TMA
from tilegen.cost.compiled import compiled_accesses, list_needed
from tilegen.cost.count import Counted, count_access, count_worst
from tilegen.cost.needs import count_bytes, count_needed_sectors, find_threads, group_by_array
from tilegen.decisions import TILING, Choice, Cost, Operation
from tilegen.layouts import read_mma
from tilegen.plan import Block, Compute, Launch, Mma, Plan, Wgmma, all_steps, flatten, trust_data
from tilegen.plan.descriptors import TCGEN05, WGMMA
from tilegen.report.descriptors import describe_started, list_descriptors
from tilegen.report.mma_chain import describe_mma, mma_data
from tilegen.report.summary import sum_up
from tilegen.spaces import GLOBAL, SHARED, SPACES

_TOTALS = ("instructions", "wavefronts", "floor", "sectors")
# Which kinds of access a hardware counter counts together: ldmatrix as LDSM, stmatrix as STSM, cp.async as LDGSTS.
# (The counter of global loads has the sectors of cp.async in it; here they stand apart.)
_COUNTERS: dict[str, dict[str, tuple[str, ...]]] = {
    SHARED.state: {
        "ld": ("ld",), "st": ("st",), "ldsm": ("ldmatrix1", "ldmatrix2", "ldmatrix4"),
        "stsm": ("stmatrix1", "stmatrix2", "stmatrix4"), "ldgsts": CP_ASYNC, "tma": (TMA,),
        "wgmma": (WGMMA,), "tcgen05": (TCGEN05,), "red": (RED,),
    },
    GLOBAL.state: {"ld": ("ld",), "st": ("st",), "ldgsts": CP_ASYNC, "tma": (TMA,), "red": (RED,)},
}  # fmt: skip
_WHERE_USED = (
    "ldgsts",
    "tma",
    "wgmma",
    "tcgen05",
    "red",
)  # counters that are shown only for kernels that have such accesses
_WIDEST_BYTES = 16


def explain_plan(plan: Plan, launch: Launch, with_derivations: bool = False) -> dict[str, Any]:
    """Kernel, arch, a summary, choices for all of it, ops (variant, what lost or was refused, choices, accesses and
    traffic over one interior CTA), totals.

    ``with_derivations``: of ops that compute also how exact their functions are and who says so (``functions``), how a
    product's tile follows from its atom (``derivation``, and ``mma`` as data; of a gemm so too), the matrix
    ``descriptors`` that tensor cores are given, and what tcgen05 ``started``; of the kernel what its arch has that it
    does not use (``unused``).
    """
    accesses = compiled_accesses(plan)
    whole = [count_access(a, launch, None) for a in accesses]
    needed = [count_access(a, launch, None) for a in list_needed(accesses)]
    return {
        "kernel": plan.name,
        "arch": plan.arch,
        "grid": list(launch.grid),
        "threads": plan.threads,
        "roles": [{"name": r.name, "threads": r.threads, "registers": r.registers} for r in plan.roles],
        "params": dict(launch.params),
        "summary": sum_up(plan, launch),
        **({"unused": list_unused(plan)} if with_derivations else {}),
        "trust": trust_data(plan.trust),
        "choices": [choice_data(c) for c in plan.choices],
        **(_derive_tilings(plan.choices) if with_derivations else {}),
        "ops": [
            _explain_op(o, plan, [a for a in accesses if a.op == k], launch)
            | (_derive(plan, k, o) if with_derivations else {})
            for k, o in enumerate(plan.operations)
        ],
        "grid_totals": _totals(whole, needed),
    }


def _derive(plan: Plan, number: int, operation: Operation) -> dict[str, Any]:
    """What an op that computes rests on: its functions' errors, and the chain from its atom to its tile."""
    blocks = (s for s in all_steps(plan) if isinstance(s, Block) and s.op == number)
    trees = dict.fromkeys(s.tree for block in blocks for s in flatten(block.body) if isinstance(s, Compute))
    found: dict[str, Any] = {"functions": describe_functions(trees)} if trees else {}
    found |= {"started": started} if (started := describe_started(plan, number)) else {}
    found |= {"descriptors": lies} if (lies := list_descriptors(plan, number)) else {}
    return found | _derive_tilings(operation.choices)


def _derive_tilings(choices: Sequence[Choice]) -> dict[str, Any]:
    """The chain from the atom to the tile, in lines and as data, where choices say a tiling."""
    found: dict[str, Any] = {}
    texts = [c.picked for c in choices if c.question == TILING]
    for read in filter(None, map(read_mma, texts)):
        found |= {"derivation": describe_mma(read[0]), "mma": mma_data(read[0])}
    return found


def _explain_op(o: Operation, plan: Plan, accesses: list[Access], launch: Launch) -> dict[str, Any]:
    """``threads``: of the role that carries it out."""
    return {
        "op": o.op,
        "threads": accesses[0].threads if accesses else plan.threads,
        "text": o.text,
        "line": o.line,
        "variant": o.variant,
        "scope": o.scope,
        "cost": cost_data(o.cost),
        "refused": [
            {
                "variant": r.variant, "reason": r.reason, "cost": cost_data(r.cost) if r.cost else None,
                "choices": [choice_data(c) for c in r.choices],
            }
            for r in o.refused
        ],
        "choices": [choice_data(c) for c in o.choices],
        "accesses": [_access_data(a, launch) for a in accesses],
        "traffic": _traffic(accesses, launch),
    }  # fmt: skip


def choice_data(choice: Choice) -> dict[str, Any]:
    """A choice as JSON data."""
    return {
        "variant": choice.variant,
        "question": choice.question,
        "picked": choice.picked,
        "candidates": [
            {"value": c.value, "cost": cost_data(c.cost) if c.cost else None, "verdict": c.verdict}
            for c in choice.candidates
        ],
        "proof": choice.proof,
    }


def cost_data(cost: Cost) -> dict[str, int]:
    """A cost as JSON data."""
    return asdict(cost)


def _access_data(a: Access, launch: Launch) -> dict[str, Any]:
    c, active = count_access(a, launch, launch.interior), find_threads(a, launch, launch.interior)
    busy = sum(any(active[first : first + WARP_LANES]) for first in range(0, len(active), WARP_LANES))
    shared, worst = SPACES[c.space].has_banks, count_worst(a, launch, launch.interior)
    return {
        "buffer": c.buffer, "space": c.space, "kind": c.kind, "width_bytes": c.width_bytes,
        "text_width_bytes": a.text_bytes or c.width_bytes, "threads": sum(active),
        "idle_warps": -(-a.threads // WARP_LANES) - busy,
        "instructions": c.instructions, "wavefronts": c.wavefronts, "floor": c.floor, "bytes_floor": c.bytes_floor,
        "sectors": c.sectors, "sectors_floor": 0 if shared else count_needed_sectors((a,), launch, launch.interior),
        **({} if worst is None else {"worst": worst}),
    }  # fmt: skip


def _traffic(accesses: list[Access], launch: Launch) -> list[dict[str, Any]]:
    """What an op moves of each global array, all of its accesses of one direction together: the least, where memory
    decides their places.
    """
    inner = launch.interior
    return [
        {
            "buffer": name, "direction": "written" if writes else "read",
            "bytes": sum(count_bytes(a, launch, inner) for a in group),
            "sectors": sum(count_access(a, launch, inner).sectors for a in group),
            "sectors_floor": count_needed_sectors(group, launch, inner),
        } | ({"decided_by_memory": True} if any(a.picked_bytes is not None for a in group) else {})
        for (_, name, writes), group in group_by_array(accesses).items()
    ]  # fmt: skip


def _totals(whole: list[Counted], needed: list[Counted]) -> dict[str, dict[str, int]]:
    """Per space and kind, summed over the grid: what the hardware's counters should show.

    ``least_sectors``: of those loads alone that a compiler does not leave out.
    """
    out: dict[str, dict[str, int]] = {}
    for state, counters in _COUNTERS.items():
        for counter, kinds in counters.items():
            rows, fewer = (
                [c for c in found if SPACES[c.space].state == state and c.kind in kinds] for found in (whole, needed)
            )
            if rows or counter not in _WHERE_USED:
                sums = {name: sum(getattr(c, name) for c in rows) for name in _TOTALS}
                out[f"{state}_{counter}"] = sums | {"least_sectors": sum(c.sectors for c in fewer)}
    return out


def list_unused(plan: Plan) -> list[dict[str, str]]:
    """The features of the plan's arch that are not used, each with what it is and why not."""
    features = ARCHES[plan.arch].features
    found = ((name, *_SAYS[name]) for name in _SAYS if name in features)
    return [{"feature": name, "what": what, "why": why} for name, is_due, what, why in found if is_due(plan)]


def _multiplies(plan: Plan) -> bool:
    return any(isinstance(s, Mma | Wgmma) for s in all_steps(plan))


def _multiplies_by_warps(plan: Plan) -> bool:
    return any(isinstance(s, Mma) for s in all_steps(plan)) and not any(isinstance(s, Wgmma) for s in all_steps(plan))


def _moves_widest(plan: Plan) -> bool:
    accesses = compiled_accesses(plan)
    return any(a.kind in KINDS and a.width_bytes == _WIDEST_BYTES for a in accesses)


_NO_OP = "no op of this version has it"
_SAYS: dict[str, tuple[Callable[[Plan], bool], str, str]] = {
    "tcgen05": (_multiplies, "products that add up in tensor memory", _NO_OP),
    "wgmma": (_multiplies_by_warps, "products of warpgroups, of shared memory", "warps multiply here"),
    "wide_global": (_moves_widest, "32 bytes of global memory in one access", _NO_OP),
}
