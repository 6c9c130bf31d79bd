"""The errors a user can see. Every one has a code; ``tilegen rule CODE`` explains it.

TG0xx the file and its YAML, TG1xx names and structure of a spec, TG2xx layouts and regions, TG3xx operations and
their variants, TG4xx a proof that failed, TG5xx what the environment lacks, TG6xx the command line, TG7xx a call of a
kernel from Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Mark:
    """A place in a spec: 1-based line and column, how many characters to underline, and the line itself.

    ``keys``: the way to a place in a spec that came as a dict, ``buffers.X.shape[1]``; line and column are then those
    of the dict written out as YAML.
    """

    path: str
    line: int
    column: int
    length: int = 1
    text: str = ""
    keys: str = ""

    @property
    def spot(self) -> str:
        """The place as a hint names it: ``line 12``, or the keys."""
        return self.keys or f"line {self.line}"

    def __str__(self) -> str:
        return self.keys or f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One finding: what was found and required (``message``), where, and the nearest fix (``hint``).

    ``cause``: findings of a spec with one code that have it in common are one mistake; "" for the message itself.
    """

    code: str
    message: str
    mark: Mark | None = None
    hint: str = ""
    severity: str = "error"  # error | warning
    cause: str = field(default="", compare=False)


@dataclass(frozen=True)
class Flaw:
    """What a check finds wrong with data whose place in a text it does not know: what, and the nearest fix (``hint``).

    ``place``: the field that is wrong, or the way to a part of it, such as ``dst.low``; "" for all that was checked.

    >>> Flaw("TG106", "'threads' must be a multiple of 32, not 48", "threads").locate(Mark("a.yaml", 7, 1)).message
    "'threads' must be a multiple of 32, not 48"
    """

    code: str
    message: str
    place: str = ""
    hint: str = ""

    def locate(self, mark: Mark | None, cause: str = "") -> Diagnostic:
        """The finding, where the place is known."""
        return Diagnostic(self.code, self.message, mark, self.hint, cause=cause)


class TilegenError(Exception):
    """Base of every error that a user's input or environment can cause. ``exit_code`` is the process's.

    Its text has a line for each finding: the place in the spec, the code, what was found, and the nearest fix.

    >>> print(TilegenError(Diagnostic("TG101", "unknown key 'thread'", Mark("a.yaml", 7, 1), "write 'threads'")))
    a.yaml:7:1: TG101: unknown key 'thread' (write 'threads')
    """

    exit_code = 1

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(map(_line_of, self.diagnostics))


class SpecError(TilegenError):
    """The spec is not one that tilegen accepts (TG0xx to TG3xx)."""


class InputError(TilegenError):
    """A file that was named cannot be read (TG001)."""

    exit_code = 2


class ProofError(TilegenError):
    """A plan failed one of its proofs (TG4xx): the spec has a hazard, or tilegen has a bug."""


class EnvironmentLack(TilegenError):
    """What was asked needs something that is not here: a GPU, a compiler, a package (TG5xx)."""

    exit_code = 3


class CallError(TilegenError):
    """A kernel was called from Python with what it does not take (TG7xx). The place is that of the buffer."""


class LayoutError(ValueError):
    """A layout, or an operation on layouts, that cannot be; the spec loader turns it into a diagnostic.

    ``span`` is (start, end) in characters of the parsed text where there is one, ``hint`` the nearest fix, ``code``
    TG104 for an unknown axis, TG105 for notation that cannot be read, TG201 otherwise.
    """

    def __init__(self, message: str, *, span: tuple[int, int] | None = None, hint: str = "", code: str = "TG201"):
        super().__init__(message)
        self.span = span
        self.hint = hint
        self.code = code

    @property
    def rule(self) -> str:
        """The code that a user sees: unreadable notation is TG200 there, where TG105 is an unknown name."""
        return {"TG105": "TG200"}.get(self.code, self.code)

    def describe(self, text: str) -> Diagnostic:
        """The finding, with its place in the layout's text."""
        return Diagnostic(self.rule, str(self), mark_text(text, *(self.span or (0, len(text)))), self.hint)


@contextmanager
def show_text(text: str) -> Iterator[None]:
    """Add to a LayoutError what a traceback prints below its message: the text, carets, the nearest fix and the code.

    >>> try:
    ...     with show_text("S[(8):(4,1)]"):
    ...         raise LayoutError("1 extents but 2 strides", span=(0, 12), hint="a stride for each extent")
    ... except LayoutError as error:
    ...     print(error.__notes__[0])
     --> <layout>:1:1
      |
    1 | S[(8):(4,1)]
      | ^^^^^^^^^^^^ a stride for each extent
    `tilegen rule TG201` explains it with an example.
    """
    try:
        yield
    except LayoutError as error:
        if not getattr(error, "__notes__", None):
            error.add_note(format_diagnostic(error.describe(text)).partition("\n")[2])
        raise


LAYOUT_TEXT = "<layout>"  # where errors of a layout's text lie


def mark_text(text: str, start: int, end: int) -> Mark:
    """The place of characters start to end of a layout's text.

    >>> str(mark_text("S[8:\\n1@x]", 7, 8))
    '<layout>:2:3'
    """
    line = text.count("\n", 0, start)
    first = text.rfind("\n", 0, start) + 1
    whole = text[first:].split("\n", 1)[0]
    return Mark(LAYOUT_TEXT, line + 1, start - first + 1, max(1, min(end, first + len(whole)) - start), whole)


# ---------------------------------------------------------------- text
_WINDOW = 160  # characters of a longer line that are shown


def format_diagnostic(finding: Diagnostic) -> str:
    """A finding as it is printed, without colour: what, where, the line, and a caret line with the nearest fix.

    >>> print(format_diagnostic(Diagnostic("TG101", "unknown key 'thread'", Mark("a.yaml", 7, 1, 6, "thread: 32"),
    ...                                    "did you mean 'threads'?")))
    error[TG101]: unknown key 'thread'
     --> a.yaml:7:1
      |
    7 | thread: 32
      | ^^^^^^ did you mean 'threads'?
    `tilegen rule TG101` explains it with an example.
    """
    lines = [f"{finding.severity}[{finding.code}]: {_printable(finding.message)}"]
    hint = _printable(finding.hint)
    if finding.mark:
        text, start, length = _window(finding.mark)
        number = str(finding.mark.line)
        blank = " " * len(number)
        caret = f"{blank} | {' ' * start}{'^' * length} {hint}".rstrip()
        lines += [f"{blank}--> {_printable(str(finding.mark))}", f"{blank} |", f"{number} | {text}".rstrip(), caret]
    elif hint:
        lines += [f"  = {hint}"]
    return "\n".join([*lines, f"`tilegen rule {finding.code}` explains it with an example."])


def format_error(error: TilegenError) -> str:
    """All findings of an error, a blank line between two."""
    return "\n\n".join(format_diagnostic(d) for d in error.diagnostics)


def _line_of(finding: Diagnostic) -> str:
    place = f"{finding.mark}: " if finding.mark else ""
    fix = f" ({finding.hint})" if finding.hint else ""
    return _printable(f"{place}{finding.code}: {finding.message}{fix}")


def _window(mark: Mark) -> tuple[str, int, int]:
    """The part of the line that is shown, where the carets start in it, and how many there are."""
    start = min(mark.column - 1, len(mark.text))
    first = max(0, start - _WINDOW // 2) if len(mark.text) > _WINDOW else 0
    text = mark.text[first : first + _WINDOW]
    length = max(1, min(mark.length, len(text) - (start - first)))
    head, tail = ("..." if first else ""), ("..." if first + _WINDOW < len(mark.text) else "")
    return head + _printable(text) + tail, len(head) + start - first, length


def _printable(text: str) -> str:
    """One character for each: a spec must not be able to steer the terminal."""
    return "".join(c if c.isprintable() else " " if c in "\t\r\n" else "?" for c in text)
