"""The words of expressions and regions: numbers, names and symbols, and what to write instead of other signs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilegen.spec.findings import Flawed, Passage

MAX_CHARACTERS = 4096
MAX_TOKENS = 400

_TOKEN = re.compile(
    r"(?P<number>[0-9][0-9A-Za-z_.]*)|(?P<name>[A-Za-z_]\w*)|(?P<symbol>//|<=|>=|==|!=|[-+*/%<>()\[\]:,])", re.ASCII
)
_SPACE = re.compile(r"[ \t\r\n]*")
_ODD = re.compile(r"\*\*|<<|>>|[&|!=]{1,2}|.", re.DOTALL)
_NO_WORDS = ("**", "<<", ">>")  # signs that words would split
_NO_BITS = "only 'expr' of an op has operators on bits"
_CUDA_AXIS = re.compile(r"\b(blockIdx|threadIdx)\.([xyz])\b")
CURLY = "\u201c\u201d\u2018\u2019"  # quotes that word processors write
_INSTEAD = {
    "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not", "~": "not", "=": "==", "**": "x * x",
    "?": "where(c, a, b)",
}  # fmt: skip


@dataclass(frozen=True)
class Token:
    """A word of the text: number | name | symbol | end."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def split_tokens(passage: Passage, words: re.Pattern[str] = _TOKEN) -> list[Token]:
    """The words of an expression or region, with an end token; ``words``: what they may be, by kinds. Raises TG111."""
    text = passage.text
    if len(text) > MAX_CHARACTERS:
        raise passage.fault("TG111", f"an expression has at most {MAX_CHARACTERS} characters, this one {len(text)}")
    tokens: list[Token] = []
    at = _skip_space(text, 0)
    while at < len(text):
        match = words.match(text, at)
        if not match or (text.startswith(_NO_WORDS, at) and match[0] not in _NO_WORDS):
            raise _refuse_sign(passage, at)
        tokens.append(Token(match.lastgroup or "", match[0], at))
        at = _skip_space(text, match.end())
    if len(tokens) > MAX_TOKENS:
        raise passage.fault("TG111", f"an expression has at most {MAX_TOKENS} words, this one {len(tokens)}")
    return [*tokens, Token("end", "", len(text))]


def _refuse_sign(passage: Passage, at: int) -> Flawed:
    """TG111 for what is no word, with what stands for it here."""
    found = _ODD.match(passage.text, at)
    odd = found[0] if found else passage.text[at]
    hint = _say_bits(odd, passage.text[at + len(odd) :])
    hint = hint or (f"write '{_INSTEAD[odd]}'" if odd in _INSTEAD else _say_axis(passage.text, at))
    hint = 'write plain quotes: "' if odd in CURLY else hint
    return passage.fault("TG111", f"{odd!r} is not part of an expression", at, at + len(odd), hint)


def _say_bits(sign: str, rest: str) -> str:
    """What an operator on bits with a number comes to in arithmetic; "" for other signs, and for & and | of conditions.

    >>> _say_bits("&", " 3) * 4"), _say_bits(">>", " 4"), _say_bits("^", " 5"), _say_bits("&", " x > 0")
    ("write '% 4'", "write '// 16'", "only 'expr' of an op has operators on bits", '')
    """
    found = re.match(r"\s*([0-9]{1,2})(?![0-9A-Za-z_.])", rest, re.ASCII)
    number = int(found[1]) if found else None
    if sign in ("<<", ">>"):
        return _NO_BITS if number is None else f"write '{'*' if sign == '<<' else '//'} {1 << number}'"
    if sign == "^":
        return "write 'x * x'" if number == 2 else _NO_BITS
    if sign == "&" and number is not None and number & (number + 1) == 0:
        return f"write '% {number + 1}'"
    return _NO_BITS if sign in ("&", "|") and number is not None else ""


def _say_axis(text: str, at: int) -> str:
    """How an index is written here whose CUDA name has its point at ``at``."""
    found = next((m for m in _CUDA_AXIS.finditer(text) if m.start() <= at < m.end()), None)
    return f"write '{found[1][0]}{found[2]}'" if found else ""


def _skip_space(text: str, at: int) -> int:
    """The first place from ``at`` on that is no space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at
