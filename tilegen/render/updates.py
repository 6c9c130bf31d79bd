"""Atomic updates as C: a function of the prelude for each type, each state space, and so many elements."""

from __future__ import annotations

from tilegen.arch import ARCHES
from tilegen.dtypes import DTYPES
from tilegen.plan import Move, list_updates
from tilegen.render.c_text import element, pointer
from tilegen.render.page import Page


def render_update(page: Page, step: Move) -> str:
    """A call of the function for this type and so many elements, of registers as it takes them."""
    memory, row, src = step.dst.memory, step.via, step.src
    state = memory.traits.state
    form = list_updates(row.function, memory.dtype, state, ARCHES[page.plan.arch].features)[step.elems]
    parts = state, form.text, form.elems, form.count, form.word, form.mark
    name = page.use_as(f"red_{state}_{form.name}", row.prelude, *parts)
    is_word = DTYPES[src.memory.dtype].c == form.word
    held = pointer(src) if is_word else f"(const {form.word} *)&{element(src)}"
    return str(page.steps.instruction(name, [pointer(step.dst), held]))
