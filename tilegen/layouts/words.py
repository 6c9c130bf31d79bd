"""The words of a layout's text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilegen.errors import LayoutError

_WORD = re.compile(
    r"(?P<int>\d+)|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(?P<text>'[^']*'|\"[^\"]*\")|"
    r"(?P<symbol>//|[][():,+*%@=-])",
    re.ASCII,
)
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class NotationWord:
    """A word of a layout's text, characters ``start`` to ``end`` of it."""

    kind: str  # int | name | text | symbol | end
    text: str
    start: int
    end: int


def split_words(text: str) -> list[NotationWord]:
    """The words of a layout's text, and its end.

    Raises LayoutError (TG105) for a character that no word has.

    >>> [word.text for word in split_words("S[8:1]")]
    ['S', '[', '8', ':', '1', ']', '']
    """
    tokens, at = [], 0
    while (at := _skip_space(text, at)) < len(text):
        found = _WORD.match(text, at)
        if not found:
            hint = "parameters stand in parentheses, as in Swizzle(3, 3, 3)" if text[at] in "<>" else ""
            raise LayoutError(f"{text[at]!r} has no meaning in a layout", span=(at, at + 1), hint=hint, code="TG105")
        tokens.append(NotationWord(str(found.lastgroup), found[0], at, found.end()))
        at = found.end()
    return [*tokens, NotationWord("end", "", len(text), len(text))]


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
