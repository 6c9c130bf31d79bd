"""Lines of the page: comments that stay comments, and long lines folded."""

from __future__ import annotations

from dataclasses import replace
from textwrap import wrap

from tilegen.describe import printable
from tilegen.plan import Memory

COLUMNS = 110


def comment_lines(text: str) -> list[str]:
    """Lines that may stand after ``//``: wrapped, and nothing that could end the comment or continue it."""
    lead = text[: len(text) - len(text.lstrip())]
    pieces = wrap(
        printable(text).strip(), COLUMNS - 3, initial_indent=lead, subsequent_indent=lead + "  ", break_on_hyphens=False
    )
    return [p + "." if p.endswith("\\") else p for p in pieces] or [""]


def end_comment(text: str) -> str:
    """A comment at the end of a line."""
    return f"  // {' '.join(comment_lines(text))}" if text else ""


def with_note(memory: Memory) -> Memory:
    """The memory, its note as the comment beside its declaration."""
    return replace(memory, note=end_comment(memory.note))


def fold_line(line: str, columns: int = COLUMNS) -> list[str]:
    """A long statement on several lines, broken where the least is open: after ``=`` or a comma, before an operator.

    >>> fold_line("    dst[row * 8 + column] = src[column * 8 + row];", 40)
    ['    dst[row * 8 + column] =', '        src[column * 8 + row];']
    """
    code = line.split("  // ")[0]
    if len(code) <= columns or '"' in line or code.lstrip().startswith(("//", "#")):
        return [line]
    lead = len(line) - len(line.lstrip())
    places, depth = [], 0
    for i, c in enumerate(code):
        depth += (c in "([{") - (c in ")]}")
        is_reference = code[i + 1 : i + 2] == "&" and code[i + 2 : i + 3] not in (" ", "&")
        is_operator = code[i + 1 : i + 2] in tuple("?:+&") and not is_reference
        if c == " " and lead + 8 < i <= columns and (code[i - 1] in ",=" or is_operator):
            places.append((depth, code[i - 1] != "=", -i))
    if not places:
        return [line]
    at = -min(places)[2]
    rest = " " * (lead + 4) + line[at + 1 :]
    return [line[:at], *(fold_line(rest, columns) if len(rest) < len(line) else [rest])]
