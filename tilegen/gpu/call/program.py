"""Several kernels as one Python function of arrays: launched one after another, with a workspace between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilegen.errors import CallError, Diagnostic
from tilegen.gpu.call.arrays import Seen
from tilegen.gpu.call.checking import Checked, check_grid
from tilegen.gpu.call.kernel import Kernel
from tilegen.gpu.call.kind_of_call import CallKind, count_resident, elem_bytes, form_of
from tilegen.gpu.call.signature import KernelSignature
from tilegen.gpu.driver import Driver, Function, load_driver
from tilegen.index import Index, evaluate
from tilegen.plan import CountedCtas


@dataclass(frozen=True)
class PassTerms:
    """When a launch of the program runs a kernel: a condition over the program's parameters."""

    name: str
    when: Index = True


@dataclass(frozen=True)
class ProgramSignature:
    """What a program asks of a call: ``whole`` has its arrays and parameters, as a kernel's would be.

    ``workspaces``: name and bytes of each, in whole units of what they are aligned to.
    """

    whole: KernelSignature
    passes: tuple[PassTerms, ...]
    workspaces: tuple[tuple[str, Index], ...] = ()
    counts: tuple[CountedCtas, ...] = ()


@dataclass(frozen=True)
class _PassLaunch:
    """A kernel's part of calls of one kind.

    ``picks``: of each of its arrays whether it lies in the workspace, and the offset there, or its number among the
    arrays of the call. ``floats``: the numbers of those of the call's float parameters that it takes.
    """

    kernel: Kernel
    kind: CallKind
    picks: tuple[tuple[bool, int], ...]
    floats: tuple[int, ...]


@dataclass(frozen=True)
class _Launches:
    """``bring`` makes a workspace, where there is one, and says where it lies."""

    passes: tuple[_PassLaunch, ...]
    bring: Callable[[], tuple[Any, int]] | None


class ProgramKernel(Kernel):
    """The kernels of a spec with passes, called as one kernel is.

    The workspace is memory of the first array's library, which that library keeps for the stream of the launch: calls
    on several streams have one each. While a stream is captured in a CUDA graph, the workspace belongs to this function
    for as long as it lives, since the graph will use it again; unless not ``keeps_workspaces``, where the library keeps
    memory of a capture for the graph.
    """

    def __init__(
        self, program: ProgramSignature, kernels: Sequence[Kernel], source: str = "",
        driver: Callable[[], Driver] = load_driver,
    ):  # fmt: skip
        super().__init__(program.whole, kernels[0].cubin, source, driver)
        self.program, self.kernels = program, tuple(kernels)
        self.keeps_workspaces = True
        self._captured: list[Any] = []  # workspaces that graphs use

    def load(self, device: int) -> Function:
        """Load all kernels on a GPU, as the first call there does. Raises EnvironmentLack TG503, CallError TG491."""
        first, *_ = (kernel.load(device) for kernel in self.kernels)
        return first

    def _launch(self, kind: CallKind, pointers: Sequence[int], floats: Sequence[float] = ()) -> None:
        """Launch every pass that the parameters want, in order."""
        launches: _Launches = kind.passes or self._plan(kind)
        base = 0
        if launches.bring is not None:
            workspace, base = launches.bring()
            if self.keeps_workspaces and self._driver().is_capturing(kind.stream(kind.device)):
                self._captured.append(workspace)
        for one in launches.passes:
            given = [base + n if is_own else pointers[n] for is_own, n in one.picks]
            one.kernel._launch(one.kind, given, [floats[n] for n in one.floats])

    def _plan(self, kind: CallKind) -> _Launches:
        """What the passes of a kind of call are launched with."""
        kind.is_short = False
        values, places, size = dict(kind.values), dict[str, int](), 0
        counted = {count.owner: count for count in self.program.counts}
        found = []
        for terms, kernel in zip(self.program.passes, self.kernels, strict=True):
            held = partial(count_resident, kernel.terms, kernel.load, kernel._driver(), kind.device)
            grid = check_grid(kernel.terms, values, held)
            own = dict[str, int]()
            if count := counted.get(terms.name):
                own[count.inside] = values[count.param.name] = grid[count.axis]
            found.append((terms, kernel, grid, own))
        for name, amount in self.program.workspaces:
            places[name], size = size, size + int(evaluate(amount, values))
        passes = [
            self._plan_pass(kernel, kind, values | own, grid, places)
            for terms, kernel, grid, own in found if evaluate(terms.when, values)
        ]  # fmt: skip
        bring = self._find_bringer(kind, size) if size else None
        kind.passes = _Launches(tuple(passes), bring)
        return kind.passes  # type: ignore[no-any-return]

    def _find_bringer(self, kind: CallKind, size: int) -> Callable[[], tuple[Any, int]]:
        """What makes workspaces of so many bytes. Raises CallError TG711 where no library of the call makes arrays."""
        for _, _, library in kind.given:
            if library.allocate is not None:
                return partial(_bring, library.allocate((size,), (1,), "uint8", kind.device), library.read)
        message = (
            f"{self.terms.kernel} needs a workspace, and arrays of {kind.given[0][2].name} cannot be allocated here"
        )
        raise CallError(Diagnostic("TG711", message, hint="pass an array of CuPy or torch"))

    def _plan_pass(
        self, kernel: Kernel, kind: CallKind, values: Mapping[str, int | float], grid: tuple[int, int, int],
        places: Mapping[str, int],
    ) -> _PassLaunch:  # fmt: skip
        terms, device = kernel.terms, kind.device
        numbers = {a.name: n for n, a in enumerate(self.terms.arrays)}
        known = {a.name: (seen, library) for a, seen, library in kind.given}
        library = kind.given[0][2]
        given = [
            (a, *known.get(a.name, (Seen((), (), a.dtype, device, 0), library))) for a in terms.arrays
        ]  # fmt: skip
        spans = tuple(int(evaluate(a.span, values)) * elem_bytes(a) for a in terms.arrays)
        checked = Checked(values, spans, grid, device)
        own = CallKind(given, checked, form_of(terms, checked), kernel.load(device), kernel._driver().launch)
        own.stream = kind.stream
        kernel._keep_maps(own)
        floats = [p.name for p in self.terms.params if p.var is None]
        picks = tuple((True, places[a.name]) if a.name in places else (False, numbers[a.name]) for a in terms.arrays)
        return _PassLaunch(kernel, own, picks, tuple(floats.index(p.name) for p in terms.params if p.var is None))


def _bring(make: Callable[[], Any], read: Callable[[Any], tuple[Any, int]]) -> tuple[Any, int]:
    workspace = make()
    return workspace, read(workspace)[1]
