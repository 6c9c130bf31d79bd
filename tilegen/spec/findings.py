"""Collecting what is wrong with a spec: all of it, in the order of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches

from tilegen.errors import Diagnostic, Mark, SpecError


class Flaw(Exception):
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
        """Note the Flaw that ends the block, and go on after it."""
        try:
            yield
        except Flaw as fault:
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

    def fault(self, code: str, message: str, start: int = 0, end: int | None = None, hint: str = "") -> Flaw:
        """A Flaw about the characters from ``start`` to ``end``."""
        return Flaw(code, message, self.locate(start, len(self.text) if end is None else end), hint)


_SYNONYMS = {
    "smem": "shared", "gmem": "global", "local": "register", "rmem": "register", "reg": "register", "block": "cta",
    "wg": "warpgroup", "lane": "laneid", "warp_id": "warpid", "tid": "tx", "fp32": "float32", "f32": "float32",
    "float": "float32", "fp16": "float16", "f16": "float16", "half": "float16", "bf16": "bfloat16", "fp64": "float64",
    "double": "float64", "int": "int32", "fp8": "float8_e4m3fn", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "name": "kernel", "block_dim": "threads", "target": "arch", "source": "src", "barrier": "sync",
}  # fmt: skip


def suggest(word: str, words: Iterable[str]) -> str:
    """The nearest of ``words`` as a question, or the words there are, if few.

    >>> suggest("lane_id", ["laneid", "warpid"])
    "did you mean 'laneid'?"
    >>> suggest("q", ["A", "B"])
    'there are A, B'
    """
    known = list(words)
    if _SYNONYMS.get(word) in known:
        return f"did you mean '{_SYNONYMS[word]}'?"
    near = [k for k in known if k.lower() == word.lower()][:1] or get_close_matches(word[:80], known, 1, 0.6)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"there {'are' if len(known) > 1 else 'is only'} {', '.join(known)}" if 0 < len(known) <= 12 else ""


def shorten(text: object, limit: int = 60) -> str:
    """A user's text in a message, cut when long."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
