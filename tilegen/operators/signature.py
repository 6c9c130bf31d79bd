"""What an operator of torch takes and makes, from the spec alone: its schema, its sizes, the forms of its results."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.calling import terms_of
from tilegen.errors import CallError, Diagnostic, Mark
from tilegen.gpu.call import ArrayArgument, KernelSignature
from tilegen.gpu.call.arrays import Seen
from tilegen.gpu.call.checking import check_array
from tilegen.index import variables
from tilegen.operators.sizes import (
    Measured,
    Size,
    TensorForm,
    can_compute,
    compute,
    form_of,
    measure_params,
    solve_sizes,
)
from tilegen.plan import Param
from tilegen.planner import plan_loaded
from tilegen.spec.data import Spec
from tilegen.spec.outline import declared_buffers
from tilegen.spec.program import Program

NO_OPERATOR = "TG715"
_NAMESPACE = "tilegen"
_WORD = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)


@dataclass(frozen=True)
class OperatorSignature:
    """An operator: ``name`` is ``namespace::name``, ``arrays`` are those of the kernel in the spec's order.

    Those that are only written are its results; others are tensors that it is given, of which it changes those that
    it writes. ``asked``: the parameters that no tensor says, which are passed by keyword.
    """

    name: str
    terms: KernelSignature
    measures: tuple[Measured, ...]
    asked: tuple[Param, ...]
    mark: Mark | None = None

    @property
    def arrays(self) -> tuple[ArrayArgument, ...]:
        """The kernel's arrays, in the spec's order."""
        return self.terms.arrays

    @property
    def given(self) -> tuple[ArrayArgument, ...]:
        """The tensors that a call gives, in order."""
        return tuple(a for a in self.arrays if a.access != "out")

    @property
    def results(self) -> tuple[ArrayArgument, ...]:
        """The tensors that a call returns, in order."""
        return tuple(a for a in self.arrays if a.access == "out")

    @property
    def changed(self) -> tuple[str, ...]:
        """The tensors of a call that it writes, by name."""
        return tuple(a.name for a in self.given if a.access != "in")

    @property
    def schema(self) -> str:
        """Arguments and results as torch's operators declare them."""
        letters = {name: f"(a{k}!)" for k, name in enumerate(self.changed)}
        tensors = [f"Tensor{letters.get(a.name, '')} {a.name}" for a in self.given]
        words = [*tensors, *(["*", *map(_declare, self.asked)] if self.asked else [])]
        made = ["Tensor"] * len(self.results)
        return f"({', '.join(words)}) -> {made[0] if len(made) == 1 else '(' + ', '.join(made) + ')'}"


def _declare(param: Param) -> str:
    if param.var is not None:
        return f"SymInt {param.name}"
    if param.dtype == "uint32":
        return f"int {param.name}={param.default}"
    default = float(param.default)
    if math.isfinite(default):
        return f"float {param.name}={default!r}"
    return f"float? {param.name}=None"  # which stands for the spec's, as a schema writes no infinity


def qualify_name(name: str) -> str:
    """``namespace::name``; tilegen is the namespace where none is said. Raises CallError TG715 for another form.

    >>> qualify_name("rmsnorm"), qualify_name("mine::rmsnorm")
    ('tilegen::rmsnorm', 'mine::rmsnorm')
    """
    words = name.split("::") if isinstance(name, str) else []
    if not 1 <= len(words) <= 2 or not all(map(_WORD.match, words)):
        raise refuse(f"{name!r:.60} is no name of an operator", None, 'write "mine::rmsnorm", or "rmsnorm" alone')
    return "::".join(words if len(words) == 2 else (_NAMESPACE, *words))


def refuse(message: str, mark: Mark | None = None, hint: str = "") -> CallError:
    """An operator that cannot be (TG715)."""
    return CallError(Diagnostic(NO_OPERATOR, message, mark, hint))


def derive_signature(name: str, spec: Spec | Program) -> OperatorSignature:
    """The operator that a loaded spec is, of one kernel or of passes; nothing is proved or compiled.

    An array that is only written is a result, which each call allocates; one of which a part may be left unwritten
    (``partial``) keeps what it had there, so it is given and changed. Integer parameters are taken from the tensors'
    extents, and pitches from their strides; the others are arguments, as floats are.

    >>> from tilegen.pipeline import load
    >>> spec = {"kernel": "move", "threads": 32, "params": {"M": {"default": 8}}, "grid": {"bx": "M"}}
    >>> spec["buffers"] = {n: {"scope": "global", "dtype": "float32", "shape": ["M", 64]} for n in "XY"}
    >>> spec["ops"] = [{"copy": {"scope": "warp", "src": "X[bx]", "dst": "Y[bx]"}}]
    >>> derive_signature("mine::move", load(spec)).schema
    '(Tensor X) -> Tensor'

    Raises CallError TG715 for a kernel that takes no tensor, and for a result whose form does not follow from the
    arguments by plain arithmetic; SpecError for ops that no variant carries out.
    """
    terms = give_parts(spec, terms_of(spec, plan_loaded(spec)))
    given = [a for a in terms.arrays if a.access != "out"]
    if not given:
        what = ", ".join(a.name for a in terms.arrays) or "nothing"
        message = f"{name}: {spec.kernel} writes {what} and takes no tensor, which would say on which GPU"
        raise refuse(message, None, "call what tilegen.compile returns, with an array to write")
    measures = measure_params(given, [p.name for p in terms.params if p.var is not None])
    known = {m.param for m in measures}
    for array in terms.arrays:
        form = form_of(array)
        for side in (*form.shape, *form.strides) if array.access == "out" else ():
            if not can_compute(side):
                hint = f"mark it 'partial: true': then {array.name} is a tensor that the call gives"
                raise refuse(f"{name}: the form of {array.name} holds a condition, {side}", array.mark, hint)
    asked = tuple(p for p in terms.params if p.name not in known)
    return OperatorSignature(name, terms, measures, asked, given[0].mark)


def give_parts(spec: Spec | Program, terms: KernelSignature) -> KernelSignature:
    """The terms of a kernel whose callers bring what it writes in part: what is left unwritten is the caller's."""
    declared = declared_buffers(spec)
    arrays = tuple(
        replace(a, access="inout") if a.access == "out" and declared[a.name].partial else a for a in terms.arrays
    )
    return replace(terms, arrays=arrays)


# ---------------------------------------------------------------- a call
def form_results(
    signature: OperatorSignature, tensors: Sequence[TensorForm], given: dict[str, Size], *pick: Any
) -> tuple[TensorForm, ...]:
    """The forms of the results, of those of the tensors and the parameters that are given; ``pick``: min and max.

    Sizes may be symbols: nothing is compared, and no element is read.
    """
    values = solve_sizes(signature.measures, tensors, given)
    forms = map(form_of, signature.results)
    return tuple(
        TensorForm(*(tuple(compute(n, values, *pick) for n in x) for x in (f.shape, f.strides))) for f in forms
    )


def check_tensors(signature: OperatorSignature, tensors: Sequence[Seen]) -> None:
    """Raise CallError for what shows before anything runs: memory, dtypes, dimensions, and extents that are fixed.

    An extent that is a symbol is not asked: that would fix it in the graph that is being traced. What is left, strides
    and what parameters must be, the kernel's call checks.
    """
    kernel, found = signature.terms.kernel, list[Diagnostic]()
    for array, seen in zip(signature.given, tensors, strict=True):
        wrong = check_array(kernel, array, seen)
        shape = form_of(array).shape
        if not wrong and len(seen.shape) != len(shape):
            message = f"{kernel}: {array.name} has {len(seen.shape)} dimensions, but must have {len(shape)}"
            wrong = [Diagnostic("TG704", message, array.mark, "reshape it")]
        found += wrong or _check_extents(kernel, array, seen, shape)
    if found:
        raise CallError(found)


def _check_extents(kernel: str, array: ArrayArgument, seen: Seen, shape: Sequence[Any]) -> list[Diagnostic]:
    return [
        Diagnostic(
            "TG704",
            f"{kernel}: {array.name} has in dimension {d} the extent {found}, but it must be {wanted}",
            array.mark,
        )
        for d, (wanted, found) in enumerate(zip(shape, seen.shape, strict=True))
        if not variables(wanted) and type(found) is int and found != wanted
    ]
