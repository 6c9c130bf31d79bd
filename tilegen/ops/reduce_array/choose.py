"""How a reduction is carried out: threads, what a CTA takes at a time, and how many CTAs share a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.arch import Arch
from tilegen.arch.data import typical_device
from tilegen.decisions import Choice
from tilegen.errors import Diagnostic, SpecError
from tilegen.index import evaluate
from tilegen.ops.reduce_array.problem import WholeReduction
from tilegen.spec.data import WholeCall

_THREADS = 256
_WIDEST = 16  # bytes that a thread reads at once
_ACCESSES = 2  # that a thread has in flight
_RUN = 128  # bytes of a row that neighbouring threads read, where columns are reduced
_WAVES = 2  # CTAs a multiprocessor, where several share a result
_FEWEST_TRIPS, _OWN_TRIPS = 16, 4  # of a CTA alone before others take a part, and of each of these then


@dataclass(frozen=True)
class ReduceRecipe:
    """``kept`` results and ``reduced`` elements of each are what a CTA takes at a time; ``parts`` CTAs share results,
    in ``trips`` each where the sizes are known, else 0.
    """

    threads: int
    kept: int
    reduced: int
    parts: int = 1
    trips: int = 0

    def __str__(self) -> str:
        shared = f", {self.parts} CTAs share a result" if self.parts > 1 else ""
        return f"{self.kept} results of {self.reduced} elements at a time, {self.threads} threads{shared}"


def choose_recipe(call: WholeCall, problem: WholeReduction, defaults: Mapping[str, int], arch: Arch) -> ReduceRecipe:
    """The recipe for the sizes at the defaults of params. Raises SpecError (TG302) for pins that cannot be.

    A CTA reads two accesses of 16 bytes a thread at a time. Rows that are shorter go several to a CTA, while every
    multiprocessor has one.
    """
    pinned = call.fields.threads
    box = choose_box(problem, defaults, arch, pinned)
    kept, reduced = (int(evaluate(n, dict(defaults))) for n in (problem.kept, problem.reduced))
    trips, tiles = -(-reduced // box.reduced), -(-kept // box.kept)
    parts = call.fields.parts
    if parts == "auto":
        wanted = -(-_WAVES * typical_device(arch.name).sm_count // tiles)
        parts = min(wanted, trips // _OWN_TRIPS) if trips >= _FEWEST_TRIPS else 1
        parts = _even(parts, trips)
    elif parts > trips and isinstance(problem.reduced, int):
        message = f"'parts: {parts}' of {reduced} elements: a CTA takes {box.reduced} at a time, so {trips} have some"
        raise SpecError(Diagnostic("TG302", message, call.mark_of("parts"), f"take at most {trips}"))
    own = -(-trips // parts) if isinstance(problem.reduced, int) else 0
    return ReduceRecipe(box.threads, box.kept, box.reduced, parts, own)


def choose_box(
    problem: WholeReduction, defaults: Mapping[str, int], arch: Arch, pinned: int | None = None
) -> ReduceRecipe:
    """The results and elements that a CTA takes at a time, with pinned threads or as many as have work."""
    kept, reduced = (max(1, int(evaluate(n, dict(defaults)))) for n in (problem.kept, problem.reduced))
    width = max(1, _WIDEST // problem.most_bytes)
    threads = pinned or _THREADS
    room = 1 << (threads * width * _ACCESSES).bit_length() - 1
    if problem.is_along:
        long = min(_next_power(reduced), room)
        wide = min(_next_power(kept), room // long)
    else:
        wide = min(_next_power(kept), max(width, _RUN // problem.most_bytes))
        long = min(_next_power(reduced), room // wide)
    while problem.is_along and wide > 1 and -(-kept // wide) < typical_device(arch.name).sm_count:
        wide //= 2
    busy = min(_THREADS, max(32, wide * long // width))
    return ReduceRecipe(pinned or busy, wide, long)


def _even(parts: int, trips: int) -> int:
    """As many parts as have trips, where all but the last have equally many.

    >>> _even(6, 16), _even(0, 16)
    (6, 1)
    """
    return -(-trips // -(-trips // parts)) if parts > 1 else 1


def _next_power(n: int) -> int:
    return 1 << (n - 1).bit_length()


def describe_choice(call: WholeCall, recipe: ReduceRecipe) -> Choice:
    """What ``explain`` says of it."""
    picked: dict[str, Any] = {"threads": recipe.threads, "box": [recipe.kept, recipe.reduced], "parts": recipe.parts}
    pinned = [name for name, free in (("threads", None), ("parts", "auto")) if getattr(call.fields, name) != free]
    why = "results and elements of each that a CTA takes at a time: two accesses of 16 bytes a thread; "
    why += "several CTAs share a result where there are few results, each of many elements"
    return Choice("reduce_array", picked, (), f"{why}; pinned: {', '.join(pinned)}" if pinned else why)
