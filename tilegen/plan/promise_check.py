"""How a promise is checked on the device: which kernel looks at which elements, and what one that breaks it is told."""

from __future__ import annotations

from dataclasses import dataclass

from tilegen.index import variables
from tilegen.plan.kernel import Param, Plan, arguments
from tilegen.plan.program import ProgramPlan
from tilegen.plan.trust import Promise

CHECKING_THREADS = 256  # of a CTA that checks
MOST_CHECKING_CTAS = 1024  # of a launch that checks: threads go on from element to element
ENTERS, LOOKS, FINDS_TWIN = 0, 1, 2  # turns of a check: of a distinct array all three, of others the second


@dataclass(frozen=True)
class PromiseCheck:
    """The check of one array: the kernel's name, and the runtime parameters that it takes, behind the array, two words
    for what it finds, a table, the table's last number, and which turn it is.
    """

    name: str
    promise: Promise
    params: tuple[Param, ...] = ()

    @property
    def is_distinct(self) -> bool:
        """Does it ask whether a value stands twice?"""
        return self.promise.values.is_distinct


def list_checks(plan: Plan | ProgramPlan) -> tuple[PromiseCheck, ...]:
    """The checks of what the caller of a launch promises."""
    given = tuple(p for p in arguments(plan.params) if p.var is not None)
    return tuple(_check_of(plan.name, one, given) for one in plan.trust.promised)


def _check_of(kernel: str, promise: Promise, params: tuple[Param, ...]) -> PromiseCheck:
    v = promise.values
    numbers = (promise.place, *promise.shape, v.low, v.high, v.pieces or 0)
    named = {x.name for n in numbers if not isinstance(n, float) for x in variables(n)}
    return PromiseCheck(f"check_{kernel}_{promise.array}", promise, tuple(p for p in params if p.name in named))


def count_slots(elems: int) -> int:
    """Numbers in the table by which a value is found that stands twice: at least two an element, a power of two.

    >>> count_slots(5), count_slots(8)
    (16, 16)
    """
    return 1 << max(1, 2 * elems - 1).bit_length()


def count_checking_ctas(elems: int) -> int:
    """CTAs of a launch that checks so many elements."""
    return max(1, min(MOST_CHECKING_CTAS, -(-elems // CHECKING_THREADS)))
