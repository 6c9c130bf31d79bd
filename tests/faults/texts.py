"""The text of a spec changed at places that have to be there."""

from __future__ import annotations


def change_text(text: str, *pairs: tuple[str, str], most: int = -1) -> str:
    """The text with each old part replaced by a new one, wherever it stands or the first ``most`` times.

    >>> change_text("a: 1, b: 1", ("a", "c"), ("1", "2"), most=1)
    'c: 2, b: 1'
    """
    for old, new in pairs:
        assert old in text, f"{old!r} is not in the text"
        text = text.replace(old, new, most)
    return text
