"""Collecting what is wrong with a spec: all of it, in the order of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tilegen.errors import Diagnostic, Flaw, Mark, SpecError


class Flawed(Exception):
    """Something is wrong here. Without a diagnostic it was reported before, where its cause is."""

    def __init__(
        self, code: str = "", message: str = "", mark: Mark | None = None, hint: str = "", cause: str = ""
    ):  # fmt: skip
        self.diagnostic = Diagnostic(code, message, mark, hint, cause=cause) if code else None
        super().__init__(message)


def raise_flaw(flaw: Flaw | None, locate: Callable[[str], Mark | None], cause: str = "") -> None:
    """Raises what a check found, if it found anything; ``locate`` gives the place of a field."""
    if flaw is not None:
        raise Flawed(flaw.code, flaw.message, locate(flaw.place), flaw.hint, cause)


@dataclass
class Findings:
    """The diagnostics so far."""

    found: list[Diagnostic] = field(default_factory=list)

    def report(self, code: str, message: str, mark: Mark | None = None, hint: str = "") -> None:
        """Note one finding and go on."""
        self.found.append(Diagnostic(code, message, mark, hint))

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Note the Flawed that ends the block, and go on after it."""
        try:
            yield
        except Flawed as fault:
            if fault.diagnostic:
                self.found.append(fault.diagnostic)

    def raise_all(self) -> None:
        """One SpecError with every finding, ordered by place; what has no place comes first."""
        errors = dict.fromkeys(d for d in self.found if d.severity == "error")
        if errors:
            ordered = sorted(errors, key=lambda d: (d.mark.line, d.mark.column) if d.mark else (0, 0))
            raise SpecError(_join_equal(ordered))


_UNKNOWN = "TG105"


def _join_equal(found: list[Diagnostic]) -> list[Diagnostic]:
    """One mistake that shows at several places is one finding, at the first of them, which names the others."""
    alike: dict[tuple[str, str], list[Diagnostic]] = {}
    for one in found:
        unknown = one.message.partition("'")[2] if one.code == _UNKNOWN else ""  # whatever is known at each place
        alike.setdefault((one.code, one.cause or unknown or f"{one.message} {one.hint}"), []).append(one)
    return [replace(same[0], message=same[0].message + _name_places(same[1:])) for same in alike.values()]


def _name_places(others: list[Diagnostic]) -> str:
    spots = list(dict.fromkeys(d.mark.spot for d in others if d.mark))
    return f", also at {', '.join(spots)}" if spots else ""


@dataclass(frozen=True)
class Passage:
    """A piece of text of the spec, and where any part of it stands in the file."""

    text: str
    locate: Callable[[int, int], Mark] = field(compare=False)

    def fault(self, code: str, message: str, start: int = 0, end: int | None = None, hint: str = "") -> Flawed:
        """A Flawed about the characters from ``start`` to ``end``."""
        return Flawed(code, message, self.locate(start, len(self.text) if end is None else end), hint)


def shorten(text: object, limit: int = 60) -> str:
    """A user's text in a message, cut when long."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
