"""What an arch has and a kernel does not use, where it would do the kernel's work in another way."""

from __future__ import annotations

from collections.abc import Callable

from tilegen.access import KINDS
from tilegen.arch import ARCHES
from tilegen.cost.compiled import compiled_accesses
from tilegen.plan import Mma, Plan, Wgmma, all_steps

_WIDEST_BYTES = 16


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
