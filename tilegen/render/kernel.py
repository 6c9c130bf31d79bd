"""Kernels as one file: header, types, intrinsics, functions, roles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tilegen.arch import ARCHES
from tilegen.arch.data import registers_for
from tilegen.decisions import COLUMNS, RESIDENT, Operation, printable, say_resident
from tilegen.dtypes import DTYPES, DType
from tilegen.index import Formula, Var, conjuncts, to_c, variables
from tilegen.plan import (
    CHECK_MACRO,
    PRODUCTS,
    TENSOR_LOADS,
    Arrive,
    Block,
    Memory,
    Plan,
    Role,
    Step,
    Tma,
    all_steps,
    arguments,
    arrays,
    effects,
    say_if_false,
    tensor_maps,
)
from tilegen.plan.walk import begin, walk
from tilegen.render.c_text import comment_lines, declare, end_comment, fold_line, int_type, parameter, with_note
from tilegen.render.launch import SharedUse, launch_info, plan_shared
from tilegen.render.names import free_names, held_registers
from tilegen.render.page import Page, WrittenRole, function_text, templates
from tilegen.render.stamps import enclose_stamps, stamp_parameters
from tilegen.render.steps import WARPGROUP_THREADS, render_steps
from tilegen.render.tensor_memory import elect_thread, tensor_texts
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, THREAD_AXES, thread_variables

MOST_LINES = 25
_LEAST_OPS = 5  # lines of ops that arrays and layouts leave room for
_HOW_TO_CHECK = f"check_values=True in Python, {CHECK_MACRO} in C++"
_MORE = "Costs, and why each op is done so: tilegen explain."


def render(plan: Plan, prelude: bool = True) -> str:
    """The kernel as one header-free CUDA file; the same plan gives the same bytes, whatever its spec's file is called.

    ``prelude=False`` leaves out the definitions of the intrinsics (the small functions around PTX), for a host that
    brings its own.
    """
    return _write_file([Page(plan)], head_lines(plan), prelude)


def render_passes(plans: Sequence[Plan], header: Sequence[str]) -> str:
    """Several kernels as one file, which share types, intrinsics and equal functions; ``header`` stands above all."""
    return _write_file(_open_pages(plans), header, prelude=True)


def render_prelude(*plans: Plan) -> dict[str, str]:
    """The intrinsics that kernels of one file take, by their names, as the file has them and in that order."""
    pages = _open_pages(plans)
    for page in pages:
        _write_kernel(page)
    return pages[0].helpers


def _open_pages(plans: Sequence[Plan]) -> list[Page]:
    """A page for each kernel of a file; what they use of the prelude, and their functions, they have in common."""
    first, names = Page(plans[0]), frozenset(plan.name for plan in plans)
    follow = [*(plan.overlaps for plan in plans[1:]), False]
    return [
        replace(first, plan=plan, modules={}, reserved=names, is_followed=is_followed)
        for plan, is_followed in zip(plans, follow, strict=True)
    ]


def _write_file(pages: Sequence[Page], header: Sequence[str], prelude: bool) -> str:
    """The text of the kernels that pages are of; the pages have their helpers and functions in common."""
    kernels, plans = [_write_kernel(page) for page in pages], [page.plan for page in pages]
    for page, kernel in zip(pages, kernels, strict=True):  # what is said above a function may come from a later kernel
        kernel["functions"] = [function_text(page, name) for name in kernel["functions"]]
        kernel["header"] = head_lines(page.plan) if len(pages) > 1 else ()
    text = templates().get_template("kernel.cu.j2").render(
        header=header,
        helpers=list(pages[0].helpers.values()) if prelude else [],
        typedefs=_typedefs(plans),
        maps=any(tensor_maps(plan) for plan in plans),
        kernels=kernels,
    )  # fmt: skip
    return "\n".join(folded for line in text.strip().splitlines() for folded in fold_line(line)) + "\n"


def _write_kernel(page: Page) -> dict[str, Any]:
    """What the template takes of one kernel; ``functions``: the names of those that it is the first to use."""
    plan, alone, before = page.plan, len(page.plan.roles) == 1, set(page.functions)
    roles = [_render_role(page, role, part) for role, part in zip(plan.roles, parts_of(plan), strict=True)]
    used = {n for role in plan.roles for n, x in free_names(role.steps, role.threads).items() if isinstance(x, Var)}
    barriers, tensor = _barrier_texts(page, plan_shared(plan)), tensor_texts(page, plan_shared(plan))
    overlaps = page.use("launch_dependents") if plan.overlaps or page.is_followed else ""
    return {
        "name": plan.name, "threads": plan.threads,
        "ctas_per_sm": plan.ctas_per_sm or any(r.registers for r in plan.roles),  # without it setmaxnreg is ignored
        "cluster": plan.cluster if plan.cluster != (1, 1, 1) else (), "params": _kernel_params(plan),
        "shared": _shared_texts(plan_shared(plan)),
        "builtins": [*(roles[0]["builtins"] if alone else ()), *_cta_builtins(page, used)],
        "first_thread": "tx == 0" if alone else "threadIdx.x == 0", "roles": roles,
        "functions": [name for name in page.functions if name not in before], "barriers": barriers,
        "tensor": tensor, "meet": barriers.get("meet") or tensor.get("meet", ""),
        "overlaps": overlaps, "idles": alone and has_idle_threads(plan.roles[0]),
    }  # fmt: skip


def _shared_texts(shared: SharedUse) -> dict[str, Any]:
    memories = [
        {"name": m.name, "c": DTYPES[m.dtype].c, "offset_bytes": m.offset_bytes, "declared": declare(m),
         "note": end_comment(m.note)} for m in shared.memories
    ]  # fmt: skip
    return {"pool": shared.pool, "dynamic": shared.dynamic, "bytes": shared.bytes, "align": shared.align,
            "memories": memories}  # fmt: skip


def _barrier_texts(page: Page, shared: SharedUse) -> dict[str, Any]:
    """How the mbarriers are declared and made."""
    if not shared.barriers:
        return {"declared": []}
    declared = [
        {"name": b.name, "slots": b.slots, "arrivals": b.arrivals, "offset_bytes": at} for b, at in shared.barriers
    ]
    # Peers may arrive, or bring bytes, from then on.
    reached = page.plan.cta_group > 1 or any(_reaches(step) for step in all_steps(page.plan))
    fence, meet = ("fence_mbarrier_init", page.use("sync_cluster")) if reached else ("fence_async", "__syncthreads")
    return {"declared": declared, "init": page.use("mbarrier_init"), "fence": page.use(fence), "meet": meet}


def _reaches(step: Step) -> bool:
    """Does a step touch another CTA of the cluster?"""
    return isinstance(step, Tma | Arrive) and (step.peers is not None or step.rank is not None)


def _kernel_params(plan: Plan) -> list[str]:
    written = {m.name for m in plan.memories if m.access != "in"}
    # While the kernel before runs, nobody may promise that no one else writes: loads would move before the wait.
    star = "*" if plan.overlaps else "*__restrict__ "
    pointers = [parameter(m, frozenset(written)).replace("*", star) for m in arrays(plan)]
    maps = [f"const __grid_constant__ TensorMap {m.name}" for m in tensor_maps(plan)]
    given = arguments(plan.params)
    values = [f"{int_type(p.var) if p.var else DTYPES[p.dtype].c} {p.name}" for p in given]
    return pointers + values + maps + stamp_parameters(plan)


def _typedefs(plans: Sequence[Plan]) -> list[DType]:
    """Typedefs of the element types that occur."""
    steps = [step for plan in plans for step in all_steps(plan)]
    used = {m.dtype for plan in plans for m in plan.memories} | {r.memory.dtype for s in steps for r in effects(s).refs}
    used |= {m.dtype for s in steps if isinstance(s, Block) for m in (*s.registers, *(f for f, _ in s.args))}
    return [d for d in DTYPES.values() if d.typedef and d.name in used]


def parts_of(plan: Plan) -> list[WrittenRole]:
    """Where each role lies in the CTA. Named barriers: 0 is the CTA's, then one a warpgroup, then one a role."""
    parts, first = [], 0
    for number, role in enumerate(plan.roles):
        parts.append(WrittenRole(role.threads, first, 1 + -(-plan.threads // WARPGROUP_THREADS) + number))
        first += role.threads
    return parts


def _thread_builtins(page: Page, wanted: set[str]) -> list[tuple[str, str]]:
    """The thread axes that a role's steps use, with what defines each."""
    part = page.part
    values = thread_variables(part.threads)
    if any(isinstance(values.get(n), (Var, Formula)) for n in wanted) or (
        page.plan.barriers and len(page.plan.roles) == 1
    ):
        wanted = wanted | {"tx"}  # all others are functions of it, and one thread makes the mbarriers
    texts = {"tx": f"threadIdx.x - {part.first}" if part.first else "threadIdx.x"}
    texts |= {n: to_c(x) for n, x in values.items() if n != "tx"}
    return [(n, text) for n, text in texts.items() if n in wanted]


def _cta_builtins(page: Page, wanted: set[str]) -> list[tuple[str, str]]:
    """The axes that number CTAs, as far as any step uses them."""
    texts = {axis: f"blockIdx.{axis[-1]}" for axis in CTA_AXES}
    texts |= {axis: f"{page.use(f'cluster_ctaid_{axis[-1]}')}()" for axis in CLUSTER_AXES if axis in wanted}
    texts |= {p.name: f"gridDim.{p.name[1]}" for p in page.plan.params if p.launched is not None}
    known = {*texts, *THREAD_AXES, *(p.name for p in page.plan.params)}
    assert wanted <= known, f"{page.plan.name}: nothing defines {', '.join(sorted(wanted - known))}"
    return [(n, text) for n, text in texts.items() if n in wanted]


def _change_registers(page: Page, role: Role) -> str:
    """The function by which a role gives registers away, or takes more than the launch gave; "" for neither."""
    plan = page.plan
    given = registers_for(ARCHES[plan.arch], plan.threads, max(1, plan.ctas_per_sm))
    if role.registers in (0, given):
        return ""
    return f"{page.use('registers_down' if role.registers < given else 'registers_up')}<{role.registers}>"


def _render_role(page: Page, role: Role, part: WrittenRole) -> dict[str, Any]:
    role, elected = elect_thread(page, role, part.first)
    page.part, page.multiplied = part, held_registers(role.steps, PRODUCTS)
    page.loaded = held_registers(role.steps, TENSOR_LOADS)
    used = free_names(role.steps, role.threads)
    registers = [with_note(m) for m in page.plan.memories if m.traits.is_held and m.name in used]
    change = _change_registers(page, role)
    body = enclose_stamps(page, role, render_steps(page, role.steps, noted=True))
    builtins = _thread_builtins(page, {n for n, x in used.items() if isinstance(x, Var)})
    name, end = printable(role.name), part.first + role.threads
    return {
        "name": name, "threads": role.threads, "end": end, "held": registers, "body": body, "builtins": builtins,
        "registers": change, "elected": elected,
    }  # fmt: skip


def has_idle_threads(role: Role) -> bool:
    """Is there a loop in whose last trip some threads have nothing to do?

    A compiler that knows how many threads there are asks in that trip alone, and lets the accesses of all others wait
    for memory together.
    """
    for visit in walk(role.steps, begin(role.threads)):
        trips = {var.name for var, _ in visit.position.loops}
        for expression in visit.effects.expressions:
            for c in conjuncts(visit.position.expand(expression)):
                if isinstance(c, Formula) and c.symbol == "<" and isinstance(c.args[1], int):
                    names = {v.name for v in variables(c.args[0])}
                    if names & trips and names & set(THREAD_AXES) and names <= {*trips, *THREAD_AXES}:
                        return True
    return False


def head_lines(plan: Plan) -> list[str]:
    """Lines that stand after ``//``: MOST_LINES at most, but for a caller's promises, never left out."""
    first = _wrap([_say_launch(plan, k) for k in range(2)])
    first += _wrap([*_say_roles(plan), *(say_resident(c) for c in plan.choices if c.question == RESIDENT)])
    promised = _wrap([*(_say_memory(m) for m in arrays(plan) if m.values), *say_if_false(plan.trust, _HOW_TO_CHECK)])
    described = [_say_memory(m) for m in arrays(plan) if m.note and not m.values]
    described = [*map(_shorten, [*described, *_shared_layouts(plan)]), *_wrap(plan.notes)]
    ops = [_shorten(_say_operation(n, op)) for n, op in enumerate(plan.operations, 1)]
    left = MOST_LINES - len(first) - len(promised) - (3 if ops else 2)
    described = _cut(described, max(0, left - min(len(ops), _LEAST_OPS)), "arrays, layouts and notes")
    ops = _cut(ops, max(1, left - len(described)), "ops")
    return [*first, *promised, *described, *(["", *ops] if ops else []), "", _MORE]


def _cut(lines: Sequence[str], most: int, what: str) -> list[str]:
    """As many lines as there is room for, the last of which says how many are left out."""
    if len(lines) <= most:
        return list(lines)
    kept = lines[: max(0, most - 1)]
    return [*kept, f"({len(lines) - len(kept)} more {what})"]


def _wrap(lines: Iterable[str]) -> list[str]:
    return [piece for line in lines for piece in comment_lines(line)]


def _shorten(line: str) -> str:
    """One line of what may be long."""
    first, *rest = comment_lines(line)
    if not rest:
        return first
    return first if len(first) + 4 > COLUMNS - 3 else f"{first} ..."


def _say_launch(plan: Plan, line: int) -> str:
    if line == 0:
        return f"{plan.name}: generated by tilegen for {plan.arch}."
    launch = launch_info(plan)
    kind = "dynamic" if launch["dynamic_shared_bytes"] else "static"
    cluster = f"clusters of ({', '.join(map(str, plan.cluster))}), " if plan.cluster != (1, 1, 1) else ""
    grid, bytes_ = ", ".join(launch["grid_expression"]), launch[f"{kind}_shared_bytes"]
    return f"Launch: grid ({grid}), {cluster}{plan.threads} threads, {bytes_} bytes of {kind} shared memory."


def _say_operation(number: int, operation: Operation) -> str:
    variant = f", variant {operation.variant}" if operation.variant else ""
    return f"{number}. {printable(operation.text)}, scope {operation.scope}{printable(variant)}"


def _say_memory(memory: Memory) -> str:
    return f"{memory.name}: {memory.note}"


def _say_roles(plan: Plan) -> list[str]:
    """Who runs side by side, in the order of the threads."""
    if len(plan.roles) == 1:
        return []
    each = [f"{r.name} {r.threads}" + (f" of {r.registers} registers" if r.registers else "") for r in plan.roles]
    return [f"Roles, by their threads: {', '.join(map(printable, each))}."]


def _shared_layouts(plan: Plan) -> list[str]:
    """Shared buffers that do not lie in plain rows, written or chosen: one line each."""
    shared = {m.name: m.note for m in plan.memories if m.traits.is_pooled}
    return [f"{name}: {note}, shared" for name, note in shared.items() if note and not note.startswith("row ")]
