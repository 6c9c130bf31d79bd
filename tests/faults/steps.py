"""Steps of a plan replaced, wherever they stand: one walk over them, one way to put others in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tilegen.index import Index
from tilegen.plan import Move, Plan, Ref, Step, Sync, effects

Path = tuple[int, ...]  # of a step: its number among the steps around it, from the outermost
Steps = tuple[Step, ...]
Match = Callable[[Step], bool]
Change = Callable[[Any], Sequence[Step]]
NOT_PLANTED = "the fault was not planted"


# ---------------------------------------------------------------- the walk
def list_steps(steps: Steps, path: Path = ()) -> Iterator[tuple[Path, Step]]:
    """Each step with its place, before those inside of it."""
    for i, step in enumerate(steps):
        yield (*path, i), step
        yield from list_steps(effects(step).body, (*path, i))


def put_steps(steps: Steps, path: Path, change: Change) -> Steps:
    """The steps with others in place of the one that stands there."""
    i, *inside = path
    step = steps[i]
    if inside:
        new: Sequence[Step] = (replace(step, body=put_steps(effects(step).body, tuple(inside), change)),)  # type: ignore[call-arg]
    else:
        new = change(step)
    return (*steps[:i], *new, *steps[i + 1 :])


def change_steps(steps: Steps, match: Match, change: Change) -> Steps:
    """The steps with every one that matches replaced, those inside first."""
    changed = steps
    for path in reversed([path for path, step in list_steps(steps) if match(step)]):
        changed = put_steps(changed, path, change)
    assert changed != steps, NOT_PLANTED
    return changed


# ---------------------------------------------------------------- of a plan
def with_steps(plan: Plan, *steps: Step, role: int = 0) -> Plan:
    """The plan with all steps of one role replaced."""
    own = replace(plan.roles[role], steps=steps)
    return replace(plan, roles=(*plan.roles[:role], own, *plan.roles[role + 1 :]))


def each_mutant(plan: Plan, match: Match, change: Change) -> Iterator[Plan]:
    """The plans of which one step that matches is replaced, a plan for each."""
    for number, role in enumerate(plan.roles):
        for path, step in list_steps(role.steps):
            if match(step):
                changed = put_steps(role.steps, path, change)
                assert changed != role.steps, NOT_PLANTED
                yield with_steps(plan, *changed, role=number)


def mutate(plan: Plan, match: Match, change: Change, nth: int | None = None, role: str = "") -> Plan:
    """The plan with every step that matches (or only the nth) replaced by ``change(step)``, in all roles or in one."""
    found = [
        (number, path)
        for number, own in enumerate(plan.roles) if role in ("", own.name)
        for path, step in list_steps(own.steps) if match(step)
    ]  # fmt: skip
    chosen = found if nth is None else found[nth : nth + 1]
    changed = plan
    for number, path in reversed(chosen):
        changed = with_steps(changed, *put_steps(changed.roles[number].steps, path, change), role=number)
    assert changed != plan, NOT_PLANTED
    return changed


# ---------------------------------------------------------------- which steps
def is_a(*kinds: type) -> Match:
    return lambda step: isinstance(step, kinds)


def is_sync(scope: str) -> Match:
    return lambda step: isinstance(step, Sync) and step.scope == scope


def moves(src: str = "", dst: str = "") -> Match:
    """Moves from and to memories of these names."""

    def match(step: Step) -> bool:
        return isinstance(step, Move) and src in ("", step.src.memory.name) and dst in ("", step.dst.memory.name)

    return match


# ---------------------------------------------------------------- by what
def drop(step: Step) -> Steps:
    return ()


def double(step: Step) -> Steps:
    return step, step


def turn(**fields: Any) -> Change:
    """The step with other fields."""
    return lambda step: (replace(step, **fields),)


def aim(*, src: Sequence[Index] = (), dst: Sequence[Index] = ()) -> Change:
    """Of Moves: other coordinates on one side."""

    def change(step: Move) -> Steps:
        new_src = Ref(step.src.memory, tuple(src)) if src else step.src
        return (replace(step, src=new_src, dst=Ref(step.dst.memory, tuple(dst)) if dst else step.dst),)

    return change
