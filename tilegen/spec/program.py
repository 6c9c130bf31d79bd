"""A spec of several kernels: passes that run one after another over the same arrays, as plain frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.errors import Diagnostic, Mark
from tilegen.index import Index
from tilegen.plan import CountedCtas, Param
from tilegen.spec.data import Buffer, Constant, Spec, WholeCall


@dataclass(frozen=True)
class Pass:
    """One kernel of a program: its own spec, and when a launch of the program runs it.

    ``spec`` holds the params and the arrays of the program that this pass names, and the pass's own buffers.
    ``when`` is a condition over the program's runtime params.
    """

    name: str
    spec: Spec
    when: Index = True
    mark: Mark | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Program:
    """Passes in their order, over common arrays.

    ``params`` are the runtime ones of all passes, but for ``counts``; ``buffers`` the arrays that the caller gives and
    the workspaces. ``whole`` is the op on whole arrays that the passes carry out, where they were expanded of one. Two
    programs are equal that say the same kernels.
    """

    kernel: str
    arch: str
    params: tuple[Param, ...]
    constants: tuple[Constant, ...]
    buffers: tuple[Buffer, ...]
    passes: tuple[Pass, ...]
    counts: tuple[CountedCtas, ...] = ()
    path: str = field(default="<text>", compare=False)
    text: str = field(default="", repr=False, compare=False)
    version: int = field(default=0, compare=False)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    whole: WholeCall | None = field(default=None, compare=False)

    def buffer(self, name: str) -> Buffer:
        """The shared buffer of that name (KeyError if there is none)."""
        return {b.name: b for b in self.buffers}[name]

    @property
    def arrays(self) -> tuple[Buffer, ...]:
        """The arrays that the caller gives, in the order of the text."""
        return tuple(b for b in self.buffers if not b.traits.is_brought)

    @property
    def workspaces(self) -> tuple[Buffer, ...]:
        """Arrays that the launcher brings."""
        return tuple(b for b in self.buffers if b.traits.is_brought)
