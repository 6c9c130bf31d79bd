"""Every order in which steps of a small program can come, searched for one that goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol, TypeVar


class Placed(Protocol):
    """A state of a search: how far each actor is."""

    @property
    def at(self) -> tuple[int, ...]: ...

    def __hash__(self) -> int: ...


S = TypeVar("S", bound=Placed)


def search_orders(
    first: S, program: Sequence[Sequence[Hashable]], go_on: Callable[[S], Iterable[S | str]], most: int = 1 << 62
) -> str | None:
    """What goes wrong in some order, "" for nothing; None where there are more states than ``most``.

    ``go_on``: the states that may come after one, or what goes wrong in its place. Where nothing goes on before the end
    of the program, that is a deadlock.
    """
    seen, stack = {first}, [first]
    while stack:
        if len(seen) > most:
            return None
        state = stack.pop()
        after = list(go_on(state))
        if not after and any(at < len(own) for at, own in zip(state.at, program, strict=True)):
            return "deadlock"
        for found in after:
            if isinstance(found, str):
                return found
            if found not in seen:
                seen.add(found)
                stack.append(found)
    return ""
