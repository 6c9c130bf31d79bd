"""Warnings of what ptxas spoils in a proved kernel, at the op or role to change: the kernel is right, but slower."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tilegen.decisions import count_words
from tilegen.errors import Diagnostic, Mark
from tilegen.plan import Memory, Plan, Wgmma, begin, walk
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import outline

_CODE = "TG493"
_OF_REGISTERS = ("C7507", "C7508", "C7602")  # setmaxnreg, and the registers of a role
_PRODUCT_HINT = "touch what a product adds to behind its wait alone, and put no branch around a product"
_ROLE_HINT = "give the role more 'registers': as many as its accumulators, and some 26"
_SPILL_HINT = "let a thread hold less: a smaller tile, more threads, or in a role more 'registers'"


def note_losses(
    spec: Spec, plan: Plan, losses: Sequence[str], spilled_bytes: int, registers: int
) -> tuple[Diagnostic, ...]:  # fmt: skip
    """A warning (TG493) for each loss of a kernel, at the op or the role that it belongs to.

    ``losses`` in ptxas's own words; ``spilled_bytes`` and ``registers`` of a thread. ptxas names the kernel alone: of
    several products each may be the one, so the first has the place, and all are named. Spills are shown at the op that
    has the most registers.
    """
    found = tuple(_note_loss(spec, plan, loss) for loss in losses)
    return (*found, _note_spill(spec, plan, spilled_bytes, registers)) if spilled_bytes else found


def _note_loss(spec: Spec, plan: Plan, loss: str) -> Diagnostic:
    said = re.sub(r"\s+in line \d+$", "", " ".join(loss.split()))  # a line of its PTX, which no one has
    message = f"{plan.name}: ptxas: {said}"
    if said.startswith(_OF_REGISTERS):
        most = max(spec.roles, key=lambda role: role.registers, default=None)
        return _warn(message, most.mark if most else spec.ops_mark, _ROLE_HINT)
    products = [call.mark for call in _list_products(spec, plan) if call.mark is not None]
    places = list(dict.fromkeys(mark.spot for mark in products))
    if len(places) > 1:
        message += f"; one of the products at {', '.join(places)}, which ptxas does not say"
    return _warn(message, next(iter(products), spec.ops_mark), _PRODUCT_HINT)


def _list_products(spec: Spec, plan: Plan) -> list[Call]:
    """The ops that start products of wgmma, in order."""
    calls = outline(spec).calls
    numbers = {
        visit.position.op
        for role in plan.roles
        for visit in walk(role.steps, begin(role.threads))
        if isinstance(visit.step, Wgmma)
    }
    return [calls[n] for n in sorted(numbers) if n >= 0]


def _note_spill(spec: Spec, plan: Plan, spilled: int, registers: int) -> Diagnostic:
    held = f"{count_words(registers, 'register', 'registers')} a thread"
    memory = f"{count_words(spilled, 'byte', 'bytes')} of a thread in memory"
    message = f"{plan.name}: ptxas keeps {memory} instead of in {held}"
    sizes = {n: _count_registers(memories) for n, memories in _list_held(plan).items() if n >= 0}
    if not any(sizes.values()):
        return _warn(message, spec.ops_mark, _SPILL_HINT)
    most = max(sizes, key=lambda n: (sizes[n], -n))
    call, own = outline(spec).calls[most], plan.operations[most]
    message += f"; '{own.text}' holds the most, {count_words(sizes[most], 'register', 'registers')}"
    return _warn(message, call.mark, _SPILL_HINT)


def _list_held(plan: Plan) -> dict[int, set[Memory]]:
    """The register memories that each op touches, by the op's number."""
    held: dict[int, set[Memory]] = {}
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            for ref in visit.effects.refs:
                root = visit.position.find(ref).root
                if root.traits.is_held:
                    held.setdefault(visit.position.op, set()).add(root)
    return held


def _count_registers(memories: Iterable[Memory]) -> int:
    """32-bit registers of a thread."""
    return sum(-(-m.span * m.elem_bytes // 4) for m in memories if isinstance(m.span, int))


def _warn(message: str, mark: Mark | None, hint: str) -> Diagnostic:
    return Diagnostic(_CODE, message, mark, hint, "warning")
