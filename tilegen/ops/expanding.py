"""An op on whole arrays becomes statements: they take its place in the user's text, in one kernel or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tilegen.decisions import Choice
from tilegen.errors import SpecError
from tilegen.ops import OPS
from tilegen.ops.op import WholeOp
from tilegen.spec import OwnData, load_own
from tilegen.spec.data import Buffer, Spec, WholeCall
from tilegen.spec.form import WholeFields
from tilegen.spec.marking import mark_all
from tilegen.spec.printing import describe_arrays
from tilegen.spec.program import Pass, Program


@dataclass(frozen=True)
class Meant:
    """What a pass means as an op on whole arrays, and what the head of its kernel says of it."""

    whole: WholeCall
    note: str


def list_names(spec: Spec) -> frozenset[str]:
    """The names of a spec, to which those of statements that nobody wrote give way."""
    own = {spec.kernel, *(b.name for b in spec.buffers), *(p.name for p in spec.params)}
    return frozenset(own | {c.name for c in spec.constants})


@contextmanager
def blame_call(call: WholeCall, recipe: object) -> Iterator[None]:
    """What is wrong with statements that nobody wrote is said at the call, with the recipe that they are."""
    try:
        yield
    except SpecError as error:
        found = tuple(replace(d, mark=call.mark, message=f"{d.message} ({recipe})") for d in error.diagnostics)
        raise SpecError(found) from None


def place_kernel(spec: Spec, call: WholeCall, expanded: Spec, choices: tuple[Choice, ...], note: str) -> Spec:
    """The statements of one kernel in the place of the call."""
    return replace(
        _place(spec, call, expanded), params=spec.params, constants=spec.constants, whole=call, warnings=spec.warnings,
        choices=(*spec.choices, *choices), notes=(*spec.notes, note),
    )  # fmt: skip


def load_written(
    spec: Spec, call: WholeCall, written: Mapping[str, Any], choice: Choice, recipe: object, said: str
) -> Spec:  # fmt: skip
    """One kernel, written as data beside the arrays of the spec, in the place of the call.

    ``said``: the call in words. Raises SpecError, at the call, for what is wrong with the data.
    """
    head = describe_arrays(spec)
    data = {
        "kernel": spec.kernel,
        "arch": spec.arch,
        **head,
        **written,
        "buffers": head["buffers"] | written["buffers"],
    }
    with blame_call(call, recipe):
        expanded = load_own(OwnData(data), OPS)
    return place_kernel(spec, call, expanded, (choice,), f"{said}: {recipe}")


def place_passes(
    spec: Spec, call: WholeCall, program: Program, meant: Mapping[str, Meant], choices: tuple[Choice, ...]
) -> Program:
    """The passes in the place of the call, with what each means; the first has the choices."""
    passes = [_place_pass(one, spec, call, meant[one.name]) for one in program.passes]
    first = replace(passes[0], spec=replace(passes[0].spec, choices=(*spec.choices, *choices)))
    return replace(
        program, path=spec.path, text=spec.text, params=spec.params, constants=spec.constants,
        buffers=_place_buffers(spec, call, program.buffers), passes=(first, *passes[1:]), version=spec.version,
        warnings=spec.warnings, whole=call,
    )  # fmt: skip


def mean_pass(
    name: str, reads: tuple[str, ...], writes: tuple[str, ...], reference: Callable[..., Any], **more: Any
) -> WholeOp:
    """What a pass means, as an op on whole arrays that no spec says. ``more``: fields of WholeOp."""

    def refuse(spec: Spec, call: WholeCall) -> Spec:
        raise TypeError(f"{call.op} is what a pass means, and no spec says it")

    return WholeOp(
        name, WholeFields, reads, writes, lambda fields, arrays: None, expand=refuse, reference=reference,
        pins=lambda call, spec: {}, **more,
    )  # fmt: skip


def _place_pass(one: Pass, spec: Spec, call: WholeCall, meant: Meant) -> Pass:
    placed = replace(
        _place(spec, call, one.spec), version=spec.version, whole=meant.whole, warnings=(), notes=(meant.note,)
    )
    return replace(one, spec=placed, mark=call.mark)


def _place(spec: Spec, call: WholeCall, expanded: Spec) -> Spec:
    """Statements as part of the user's text: all that they have stands where the call does."""
    return replace(
        expanded, path=spec.path, text=spec.text, buffers=_place_buffers(spec, call, expanded.buffers),
        ops=mark_all(expanded.ops, call.mark),
    )  # fmt: skip


def _place_buffers(spec: Spec, call: WholeCall, buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
    given = {b.name: b for b in spec.buffers}
    return tuple(given.get(b.name, mark_all(b, call.mark)) for b in buffers)
