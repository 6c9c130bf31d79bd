"""Collecting what is wrong with a spec: all of it, in the order of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher, get_close_matches

from tilegen.errors import Diagnostic, Mark, SpecError


class Flaw(Exception):
    """Something is wrong here. Without a diagnostic it was reported before, where its cause is."""

    def __init__(
        self, code: str = "", message: str = "", mark: Mark | None = None, hint: str = "", cause: str = ""
    ):  # fmt: skip
        self.diagnostic = Diagnostic(code, message, mark, hint, cause=cause) if code else None
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
            ordered = sorted(errors, key=lambda d: (d.mark.line, d.mark.column) if d.mark else (0, 0))
            raise SpecError(_join_equal(ordered))


def _join_equal(found: list[Diagnostic]) -> list[Diagnostic]:
    """One mistake that shows at several places is one finding, at the first of them, which names the others."""
    alike: dict[tuple[str, str], list[Diagnostic]] = {}
    for one in found:
        alike.setdefault((one.code, one.cause or f"{one.message} {one.hint}"), []).append(one)
    return [replace(same[0], message=same[0].message + _name_places(same[1:])) for same in alike.values()]


def _name_places(others: list[Diagnostic]) -> str:
    spots = list(dict.fromkeys(d.mark.spot for d in others if d.mark))
    return f", also at {', '.join(spots)}" if spots else ""


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
    "from": "src", "to": "dst", "destination": "dst", "size": "shape", "dims": "shape", "type": "dtype",
    "memory": "scope", "space": "scope", "blocks": "grid", "blockIdx": "bx", "threadIdx": "tx", "tensor": "tmem",
    "tensor_memory": "tmem", "ampere": "sm_80", "a100": "sm_80", "ada": "sm_89", "hopper": "sm_90a", "h100": "sm_90a",
    "h200": "sm_90a", "blackwell": "sm_100a", "b200": "sm_100a", "memcpy": "copy", "load": "copy", "store": "copy",
    "transpose": "permute", "matmul": "gemm", "dot": "mma", "syncthreads": "sync", "map": "elementwise",
    "memset": "fill", "zero": "fill", "if": "when", "while": "for", "body": "do",
}  # fmt: skip


def suggest(word: str, words: Iterable[str], most: int = 16) -> str:
    """The nearest of ``words`` as a question, or the words there are, if they are no more than ``most``.

    >>> suggest("lane_id", ["laneid", "warpid"])
    "did you mean 'laneid'?"
    >>> suggest("q", ["A", "B"])
    'there are A, B'
    """
    known = list(words)
    if near := find_near(word, known):
        return f"did you mean '{near}'?"
    return f"there {'are' if len(known) > 1 else 'is only'} {', '.join(known)}" if 0 < len(known) <= most else ""


def find_near(word: str, words: Iterable[str]) -> str:
    """The one of ``words`` that is meant by a word which is none of them; "" if none is near.

    >>> find_near("smem", ["shared", "global"]), find_near("sheard", ["shared", "global"]), find_near("q", ["A", "B"])
    ('shared', 'shared', '')
    """
    known = list(words)
    other = _SYNONYMS.get(word, _SYNONYMS.get(word.lower(), ""))
    if other in known:
        return other
    near = [k for k in known if k.lower() == word.lower()] or [
        k for k in get_close_matches(word[:80], known, 3, 0.6) if k[0] == word[0] or _is_near(k, word[:80])
    ]
    return near[0] if near else ""


def _is_near(known: str, word: str) -> bool:
    """Near enough for words that do not even begin alike."""
    return known in word or word in known or SequenceMatcher(None, known, word).ratio() > 0.7


def shorten(text: object, limit: int = 60) -> str:
    """A user's text in a message, cut when long."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
