"""The text around tensor memory: which warp takes and frees its columns, and where its buffers begin."""

from __future__ import annotations

from typing import Any

from tilegen.layouts.core.cells import COLUMN_BYTES
from tilegen.plan import Role, Stamp, Step, Sync, TensorFence, all_steps, effects, find_allocator, flatten
from tilegen.render.c_text import end_comment
from tilegen.render.elections import elect
from tilegen.render.launch import SharedUse
from tilegen.render.names import fresh
from tilegen.render.page import Page, names_taken
from tilegen.scopes import SCOPES


def tensor_texts(page: Page, shared: SharedUse) -> dict[str, Any]:
    """What the template takes of tensor memory; nothing where the kernel has none."""
    plan = page.plan
    if not plan.tensor_columns:
        return {}
    used = {r.memory.name for step in all_steps(plan) for r in effects(step).refs}
    memories = [
        {"name": m.name, "column": m.offset_bytes // COLUMN_BYTES, "note": end_comment(m.note)}
        for m in plan.memories if m.traits.has_cells and m.name in used
    ]  # fmt: skip
    warp, base = find_allocator(plan), fresh("tmem_base", names_taken(page) | {*page.functions})
    is_paired = plan.cta_group > 1
    return {
        "base": base, "offset_bytes": shared.tensor_base, "memories": memories,
        "warp": f"threadIdx.x / 32 == {warp}" if warp else "threadIdx.x < 32", "columns": plan.tensor_columns,
        "alloc": page.use_tensor("tmem_alloc"), "alloc_done": page.use_tensor("tmem_alloc_done"),
        "free": page.use_tensor("tmem_free"),
        "before": page.use("tmem_fence_before"), "after": page.use("tmem_fence_after"),
        "is_paired": is_paired, "meet": page.use("sync_cluster") if is_paired else "__syncthreads",
        "have_met": is_paired and all(map(_ends_met, plan.roles)),
    }  # fmt: skip


def elect_thread(page: Page, role: Role, first: int) -> tuple[Role, str]:
    """A role, whose first thread has this number, as it is printed; how its elected one is declared, "" without one."""
    if not page.plan.tensor_columns:
        return role, ""
    name = fresh("elected", names_taken(page))
    given = elect(role, name)
    if given is role:
        return role, ""
    warp = SCOPES["warp"].threads
    # All warps elect one: behind a condition ptxas no longer knows that it is one thread, and makes loops again.
    return (
        given,
        f"{name} = {page.use('is_elected')}(){f' && threadIdx.x < {first + warp}' if role.threads > warp else ''}",
    )


def _ends_met(role: Role) -> bool:
    """Does a role end where the cluster meets, with fences around that if it touches tensor memory?"""
    meet: tuple[Step, ...] = (Sync("cluster"),)
    if _touches(role):
        meet = (TensorFence("before"), *meet, TensorFence("after"))
    steps = tuple(s for s in role.steps if not isinstance(s, Stamp))
    return steps[-len(meet) :] == meet


def _touches(role: Role) -> bool:
    return any(t.ref.memory.traits.has_cells for step in flatten(role.steps) for t in effects(step).touches)
