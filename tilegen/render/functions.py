"""The __device__ functions of the page: one for each body, its parameters in a fixed order."""

from __future__ import annotations

from itertools import chain, count
from typing import Any

from tilegen.index import Var
from tilegen.plan import Let, Plan, Repeat, all_steps
from tilegen.render.lines import comment_lines
from tilegen.render.names import Named
from tilegen.render.page import Page, prelude_names
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, THREAD_AXES


def define(page: Page, name: str, signature: Any, note: str) -> str:
    """The name of a function with that signature and body: an equal one is shared, another gets the next number."""
    taken = {page.plan.name, *(m.name for m in page.plan.memories), *prelude_names()}
    taken |= {s.var.name for s in all_steps(page.plan) if isinstance(s, (Let, Repeat))}
    names = (n for n in chain([name], (f"{name}_{i}" for i in count(2))) if n not in taken)
    candidate = next(n for n in names if page.functions.get(n, (signature,))[0] == signature)
    notes = page.functions.setdefault(candidate, (signature, []))[1]
    if note and note not in notes:
        notes.append(note)
    return candidate


def function_text(page: Page, name: str) -> str:
    """A function of the page, with its notes above it."""
    (params, registers, body), notes = page.functions[name]
    lines = [piece for note in notes for piece in comment_lines(note)]
    return str(page.steps.function(lines, name, params, registers, body)).strip("\n")


def rank(plan: Plan, x: Named) -> int:
    """The order of captured parameters: threads, CTAs, runtime parameters, what loops define, memories."""
    order = [*THREAD_AXES, *CTA_AXES, *CLUSTER_AXES, *(p.name for p in plan.params)]
    return len(order) + 1 if not isinstance(x, Var) else order.index(x.name) if x.name in order else len(order)
