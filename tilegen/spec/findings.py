"""Collecting what is wrong with a spec: all of it, in the order of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches

from tilegen.errors import Diagnostic, Mark, SpecError


class Fault(Exception):
    """Something is wrong here. Without a diagnostic it was reported before, where its cause is."""

    def __init__(self, code: str = "", message: str = "", mark: Mark | None = None, hint: str = ""):
        self.diagnostic = Diagnostic(code, message, mark, hint) if code else None
        super().__init__(message)


@dataclass
class Findings:
    """The diagnostics so far."""

    found: list[Diagnostic] = field(default_factory=list)

    def report(self, code: str, message: str, mark: Mark | None = None, hint: str = "") -> None:
        """Note one finding and go on."""
        self.found.append(Diagnostic(code, message, mark, hint))

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Note the Fault that ends the block, and go on after it."""
        try:
            yield
        except Fault as fault:
            if fault.diagnostic:
                self.found.append(fault.diagnostic)

    def raise_all(self) -> None:
        """One SpecError with every finding, ordered by place; what has no place comes first."""
        errors = dict.fromkeys(d for d in self.found if d.severity == "error")
        if errors:
            raise SpecError(sorted(errors, key=lambda d: (d.mark.line, d.mark.column) if d.mark else (0, 0)))


@dataclass(frozen=True)
class Passage:
    """A piece of text of the spec, and where any part of it stands in the file."""

    text: str
    locate: Callable[[int, int], Mark] = field(compare=False)

    def fault(self, code: str, message: str, start: int = 0, end: int | None = None, hint: str = "") -> Fault:
        """A Fault about the characters from ``start`` to ``end``."""
        return Fault(code, message, self.locate(start, len(self.text) if end is None else end), hint)


def suggest(word: str, words: Iterable[str]) -> str:
    """The nearest of ``words`` as a question, or the words there are, if few.

    >>> suggest("lane_id", ["laneid", "warpid"])
    "did you mean 'laneid'?"
    >>> suggest("q", ["A", "B"])
    'there are A, B'
    """
    known = list(words)
    near = get_close_matches(word[:80], known, 1, 0.6) or [k for k in known if k.lower() == word.lower()][:1]
    if near:
        return f"did you mean '{near[0]}'?"
    return f"there {'are' if len(known) > 1 else 'is only'} {', '.join(known)}" if 0 < len(known) <= 12 else ""


def shorten(text: object, limit: int = 60) -> str:
    """A user's text in a message, cut when long."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
