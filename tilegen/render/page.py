"""The page under the pen: the templates, which own every line of CUDA and PTX, and what has been written so far."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, count
from typing import Any

from tilegen import templating
from tilegen.arithmetic import Parameter
from tilegen.index import Var
from tilegen.plan import Let, Memory, Mma, Plan, Repeat, Sync, all_steps
from tilegen.render.c_text import comment_lines, declare
from tilegen.render.names import Named
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, SCOPES, THREAD_AXES


@dataclass(frozen=True)
class WrittenRole:
    """The role whose text is being written: its threads, the first of them in the CTA, its named barrier."""

    threads: int
    first: int = 0
    barrier: int = 0


@dataclass
class Page:
    """The text so far: prelude functions used, and the __device__ functions with the notes above them."""

    plan: Plan
    part: WrittenRole = WrittenRole(0)
    helpers: dict[str, str] = field(default_factory=dict)
    functions: dict[str, tuple[Any, list[str]]] = field(default_factory=dict)
    modules: dict[str, Any] = field(default_factory=dict)
    multiplied: tuple[Memory, ...] = ()  # registers that products take, by the names that the text around has for them
    constant: frozenset[str] = frozenset()  # of these, that the text around may not write
    is_conditional: bool = False  # whether the text around stands under a condition

    def meeting_of(self, roles: tuple[str, ...]) -> tuple[int, int]:
        """The named barrier at which several roles meet, behind those of single ones, and how many threads come."""
        sets = dict.fromkeys(s.roles for s in all_steps(self.plan) if isinstance(s, Sync) and s.roles)
        before = 1 + -(-self.plan.threads // SCOPES["warpgroup"].threads) + len(self.plan.roles)
        return before + list(sets).index(roles), sum(r.threads for r in self.plan.roles if r.name in roles)

    @cached_property
    def has_split_products(self) -> bool:
        """Whether the plan has float64 products that the hardware takes as two of 8 rows each: m16n8k8 and m16n8k16."""
        names = {s.via.name for s in all_steps(self.plan) if isinstance(s, Mma)}
        return any(re.match(r"mma\.m16n8k(8|16)\.f64", name) for name in names)

    def hides(self, value: object) -> bool:
        """Must the compiler not see this float64 number? A zero that a condition gives to such a product (0, not -0):
        ptxas makes a predicate of it that half of the rows do not heed (measured on an H200: docs/compute.md)."""
        return self.has_split_products and value == 0 and not str(value).startswith("-")

    def use(self, helper: str) -> str:
        """The name of a prelude function, which the page then defines (after those that it uses itself)."""
        if helper not in self.helpers:
            self.helpers[helper] = str(getattr(self.macros("prelude.cuh.j2"), helper)()).strip("\n")
        return helper

    def use_as(self, name: str, macro: str, *parts: object) -> str:
        """The same of a function that is one of many: ``macro`` writes it under its name from its parts."""
        if name not in self.helpers:
            self.helpers[name] = str(getattr(self.macros("prelude.cuh.j2"), macro)(name, *parts)).strip("\n")
        return name

    def macros(self, template: str) -> Any:
        """The macros of a template. Jinja takes milliseconds to compile one, so only what a plan needs is loaded."""
        if template not in self.modules:
            shared = {"use": self.use, "use_as": self.use_as, "arch": int(re.sub(r"\D", "", self.plan.arch))}
            self.modules[template] = templates().get_template(template).make_module(shared)
        return self.modules[template]

    @property
    def steps(self) -> Any:
        return self.macros("steps.cu.j2")


@cache
def templates() -> Any:
    """The templates of CUDA, loaded when they are used."""
    environment: Any = templating.templates("//")
    environment.filters["declare"] = lambda m: declare(m)
    return environment


@cache
def prelude_names() -> tuple[str, ...]:
    """The names of all prelude functions."""
    return tuple(re.findall(r"^//% macro (\w+)", templating.read_template("prelude.cuh.j2"), re.M))


# ---------------------------------------------------------------- the __device__ functions
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
    if not isinstance(x, (Var, Parameter)):
        return len(order) + 1
    return order.index(x.name) if x.name in order else len(order)
