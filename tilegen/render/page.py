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
from tilegen.plan import Block, Fetch, Let, Memory, Mma, Pick, Plan, Repeat, Sync, all_steps
from tilegen.render.c_text import comment_lines, declare, fold_intrinsic
from tilegen.render.names import Named
from tilegen.scopes import CLUSTER_AXES, CTA_AXES, SCOPES, THREAD_AXES


@dataclass(frozen=True)
class WrittenRole:
    """The role whose text is being written: its threads, the first of them in the CTA, its named barrier."""

    threads: int
    first: int = 0
    barrier: int = 0


@dataclass(frozen=True)
class LaneFold:
    """The function that a ladder calls: the C type, the distances, and the C text of one step, over x."""

    c: str
    lanes: tuple[int, ...]
    value: str

    @property
    def is_doubled(self) -> bool:
        """Is each distance twice the one before?"""
        return len(self.lanes) > 1 and all(b == 2 * a for a, b in zip(self.lanes, self.lanes[1:], strict=False))

    @property
    def note(self) -> str:
        *most, last = map(str, self.lanes)
        apart = f"{', '.join(most)} and {last}" if most else last
        return f"Lanes {apart} apart exchange what they have, in this order: all get the same bits."


@dataclass
class Page:
    """The text so far: prelude functions used, and the __device__ functions with the notes above them."""

    plan: Plan
    part: WrittenRole = WrittenRole(0)
    helpers: dict[str, str] = field(default_factory=dict)
    functions: dict[str, tuple[Any, list[str]]] = field(default_factory=dict)
    modules: dict[str, Any] = field(default_factory=dict)
    multiplied: tuple[Memory, ...] = ()  # registers that products take, by the names that the text around has for them
    loaded: tuple[Memory, ...] = ()  # registers that are loaded from tensor memory, in the same way
    constant: frozenset[str] = frozenset()  # of these, that the text around may not write
    reserved: frozenset[str] = frozenset()  # kernels of the same file
    is_followed: bool = False  # by a kernel that may start while this one runs
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
            text = str(getattr(self.macros("prelude.cuh.j2"), helper)()).strip("\n")
            self.helpers[helper] = fold_intrinsic(text)
        return helper

    def use_as(self, name: str, macro: str, *parts: object) -> str:
        """The same of a function that is one of many: ``macro`` writes it under its name from its parts."""
        if name not in self.helpers:
            text = str(getattr(self.macros("prelude.cuh.j2"), macro)(name, *parts)).strip("\n")
            self.helpers[name] = fold_intrinsic(text)
        return name

    def use_tensor(self, macro: str) -> str:
        """The same of an instruction on tensor memory, which names how many CTAs it is of: the plan's ``cta_group``."""
        ctas = self.plan.cta_group
        return self.use_as(macro if ctas == 1 else f"{macro}_pair", macro, ctas)

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


@cache
def _arch_limits() -> dict[str, int]:
    """Prelude functions that are others from some arch on, with that arch."""
    parts = re.split(r"^//% macro (\w+)", templating.read_template("prelude.cuh.j2"), flags=re.M)[1:]
    found = {name: re.search(r"arch >= (\d+)", body) for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return {name: int(limit[1]) for name, limit in found.items() if limit}


def arch_sides(name: str, arch: str) -> str:
    """Which of two texts a prelude function has on an arch; "" where it has one.

    >>> arch_sides("float_to_e4m3", "sm_80"), arch_sides("float_to_e4m3", "sm_90a"), arch_sides("sync_role", "sm_80")
    ('@before_sm_89', '@sm_89', '')
    """
    limit = _arch_limits().get(name)
    if limit is None:
        return ""
    return f"@sm_{limit}" if int(re.sub(r"\D", "", arch)) >= limit else f"@before_sm_{limit}"


# ---------------------------------------------------------------- the __device__ functions
def define(page: Page, name: str, signature: Any, note: str) -> str:
    """The name of a function with that signature and body: an equal one is shared, another gets the next number."""
    taken = names_taken(page)
    names = (n for n in chain([name], (f"{name}_{i}" for i in count(2))) if n not in taken)
    candidate = next(n for n in names if page.functions.get(n, (signature,))[0] == signature)
    notes = page.functions.setdefault(candidate, (signature, []))[1]
    if note and note not in notes:
        notes.append(note)
    return candidate


def names_taken(page: Page) -> set[str]:
    """All names of the kernel, of its prelude, and of kernels of the same file."""
    taken = {page.plan.name, *page.reserved, *(m.name for m in page.plan.memories), *prelude_names()}
    taken |= {p.name for p in page.plan.params} | {b.name for b in page.plan.barriers}
    for s in all_steps(page.plan):
        taken |= {s.var.name} if isinstance(s, Repeat) else set()
        taken |= {*s.names} if isinstance(s, Let | Fetch | Pick) else set()
        taken |= {m.name for m in (*s.registers, *(f for f, _ in s.args))} if isinstance(s, Block) else set()
    return taken


def function_text(page: Page, name: str) -> str:
    """A function of the page, with its notes above it."""
    signature, notes = page.functions[name]
    lines = [piece for note in notes for piece in comment_lines(note)]
    if isinstance(signature, LaneFold):
        return str(page.steps.lane_fold(lines, name, signature)).strip("\n")
    params, registers, body = signature
    return str(page.steps.function(lines, name, params, registers, body)).strip("\n")


def rank(plan: Plan, x: Named) -> int:
    """The order of captured parameters: threads, CTAs, runtime parameters, what loops define, memories."""
    order = [*THREAD_AXES, *CTA_AXES, *CLUSTER_AXES, *(p.name for p in plan.params)]
    if not isinstance(x, (Var, Parameter)):
        return len(order) + 1
    return order.index(x.name) if x.name in order else len(order)
