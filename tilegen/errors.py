"""The errors a user can see. Every one has a code; ``tilegen rule CODE`` explains it.

TG0xx the file and its YAML, TG1xx names and structure of a spec, TG2xx layouts and regions, TG3xx operations and
their variants, TG4xx a proof that failed, TG5xx what the environment lacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """A place in a spec: 1-based line and column, how many characters to underline, and the line itself."""

    path: str
    line: int
    column: int
    length: int = 1
    text: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One finding: what was found and required (``message``), where, and the nearest fix (``hint``)."""

    code: str
    message: str
    mark: Mark | None = None
    hint: str = ""
    severity: str = "error"  # error | warning


class TilegenError(Exception):
    """Base of every error that a user's input or environment can cause. ``exit_code`` is the process's."""

    exit_code = 1

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]):
        self.diagnostics = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        super().__init__("\n".join(f"{d.code}: {d.message}" for d in self.diagnostics))


class SpecError(TilegenError):
    """The spec is not one that tilegen accepts (TG0xx to TG3xx)."""


class ProofError(TilegenError):
    """A plan failed one of its proofs (TG4xx): the spec has a hazard, or tilegen has a bug."""


class EnvironmentLack(TilegenError):
    """What was asked needs something that is not here: a GPU, a compiler, a package (TG5xx)."""

    exit_code = 3


class LayoutError(ValueError):
    """A layout, or an operation on layouts, that cannot be. The spec loader gives it a place and the code TG201."""
