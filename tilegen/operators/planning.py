"""An operator with all that belongs to it, before torch knows of it: its kernels, its gradients, theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Union

from tilegen.calling import choose_arch, kernel_of
from tilegen.errors import CallError, Diagnostic
from tilegen.gpu.call import Kernel, ProgramKernel
from tilegen.gpu.driver import load_driver
from tilegen.operators.gradients import Gradients, part_of_function, part_of_kernel, plan_gradients
from tilegen.operators.signature import OperatorSignature, derive_signature, give_parts
from tilegen.pipeline import Source, build, load
from tilegen.spec.data import Spec
from tilegen.spec.program import Program

Settings = Mapping[str, int | float]
Step = Union["Operator", Callable[..., Any]]
MUST_COMPILE = "TG713"


class Kernels:
    """The kernels of one spec, by GPU. Threads that ask for one that is not there yet build it once.

    ``arch``: build for this one alone; None: for each GPU's own. ``make(spec, arch)`` builds and compiles.
    """

    def __init__(
        self, spec: Spec | Program, arch: str | None = None,
        make: Callable[[Spec | Program, str], Kernel] | None = None,
        capability_of: Callable[[int], tuple[int, int]] | None = None,
    ):  # fmt: skip
        self.spec, self.arch = spec, arch
        self._make = make or make_kernel
        self._capability_of = capability_of or _ask_driver
        self._lock = Lock()
        self._by_arch: dict[str, Kernel] = {}
        self._ready: dict[int, Kernel] = {}  # by device: loaded there

    def find(self, device: int, is_capturing: Callable[[], bool]) -> Kernel:
        """The kernel for a GPU, compiled and loaded there.

        Raises what ``tilegen.compile`` raises, and CallError TG713 where it would have to compile, or to load, while
        the current stream is being captured in a CUDA graph.
        """
        kernel = self._ready.get(device)
        return kernel if kernel is not None else self._prepare(device, is_capturing)

    def _prepare(self, device: int, is_capturing: Callable[[], bool]) -> Kernel:
        if is_capturing():
            name = self.spec.kernel
            message = f"{name} is not compiled for GPU {device} yet, and a CUDA graph is being captured"
            raise CallError(Diagnostic(MUST_COMPILE, message, None, "call it once on this GPU before the capture"))
        with self._lock:
            if device not in self._ready:
                arch = self.arch or choose_arch(self.spec.arch, self._capability_of(device))
                if arch not in self._by_arch:
                    self._by_arch[arch] = self._make(self.spec, arch)
                self._by_arch[arch].load(device)
                self._ready[device] = self._by_arch[arch]
            return self._ready[device]


def _ask_driver(device: int) -> tuple[int, int]:
    return load_driver().compute_capability(device)


def make_kernel(spec: Spec | Program, arch: str, check_values: bool = False) -> Kernel:
    """The kernel for an arch, or that of all passes, proved and compiled, and adapted (``adapt_kernel``)."""
    built = build(spec if spec.arch == arch else load(spec, arch))
    return adapt_kernel(kernel_of(built, check_values), built.spec)


def adapt_kernel(kernel: Kernel, spec: Spec | Program) -> Kernel:
    """A kernel as an operator calls it: callers bring what it writes in part, and it keeps no workspace.

    torch's allocator gives memory of a capture to the graph's own pool, and takes it back there, as any operator's.
    """
    kernel.terms = give_parts(spec, kernel.terms)
    if isinstance(kernel, ProgramKernel):
        kernel.keeps_workspaces = False
    return kernel


@dataclass(frozen=True)
class Operator:
    """``steps`` carry out the parts of its gradients: operators of their own, and functions."""

    signature: OperatorSignature
    kernels: Kernels
    gradients: Gradients
    steps: tuple[Step, ...] = ()


def plan_operator(
    name: str, source: Source, backward: Sequence[Any] = (), arch: str | None = None, params: Settings | None = None,
    check_values: bool = False,
) -> Operator:  # fmt: skip
    """An operator and those of its backward, which are ``name_backward``, ``name_backward2`` and so on.

    ``params`` go to each spec that has them; ``check_values`` holds for all. Raises what ``load`` raises, and CallError
    TG715.
    """
    make = partial(make_kernel, check_values=check_values)
    spec = load(source, arch, params)
    signature = derive_signature(name, spec)
    steps, parts = list[Step](), []
    for k, one in enumerate(backward):
        if callable(one):
            steps.append(one)
            parts.append(part_of_function(signature, one))
            continue
        spec_of_part = _load_part(one, arch, params or {})
        own = derive_signature(f"{name}_backward{k + 1 if k else ''}", spec_of_part)
        steps.append(Operator(own, Kernels(spec_of_part, arch, make), Gradients(own)))
        parts.append(part_of_kernel(own))
    return Operator(signature, Kernels(spec, arch, make), plan_gradients(signature, parts), tuple(steps))


def _load_part(source: Source, arch: str | None, params: Settings) -> Spec | Program:
    """A spec with those of the parameters that it has."""
    spec = load(source, arch)
    own = ({c.name for c in spec.constants} | {p.name for p in spec.params}) & set(params)
    return load(spec, arch, {name: params[name] for name in own}) if own else spec
