"""A spec with its choices written out, which builds to the same bytes: as its own text, and as tile ops alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilegen.decisions import Operation
from tilegen.ops import WHOLE_OPS
from tilegen.plan import Plan, ProgramPlan, arguments
from tilegen.spec.data import Buffer, Call, Spec, WholeCall
from tilegen.spec.outline import map_calls, outline
from tilegen.spec.pinning import Pins, pin_text
from tilegen.spec.printing import print_spec
from tilegen.spec.program import Program


def resolved_text(spec: Spec | Program, plan: Plan | ProgramPlan) -> str:
    """The spec's own text, comments and all, with arch, params, layouts, scopes, variants, widths, partitions, register
    tiles, lanes and what else was chosen; of an op on whole arrays, its own fields; of passes, those of each.

    ``spec`` has everything chosen, as ``load`` returns it. Under any file name the text builds to the same ``.cu``
    and ``.h``, and to the same ``.json`` but for the record of what is now no choice, and for the numbers of lines
    where new ones are.
    """
    pins = Pins({"arch": spec.arch}, _params_of(spec), _layouts_of(spec.buffers))
    if isinstance(plan, Plan) or not isinstance(spec, Program):
        assert isinstance(spec, Spec) and isinstance(plan, Plan)
        return pin_text(spec.text, replace(pins, ops=_ops_of(spec, plan)))
    if spec.whole:
        return pin_text(spec.text, replace(pins, ops=[_pin_whole(spec.whole, spec.passes[0].spec)]))
    parts = zip((one.spec for one in spec.passes), plan.plans, strict=True)
    passes = [Pins(layouts=_layouts_of(own.buffers), ops=_ops_of(own, planned)) for own, planned in parts]
    return pin_text(spec.text, replace(pins, passes=passes))


def _layouts_of(buffers: Sequence[Buffer]) -> dict[str, str]:
    return {b.name: b.layout_text or "row" for b in buffers if b.values is None or b.values.pieces is None}


def _pin_whole(call: WholeCall, expanded: Spec) -> tuple[str, dict[str, Any]]:
    """An op on whole arrays with its own fields; ``expanded``: its kernel, or its first, which has the choices."""
    return call.op, WHOLE_OPS[call.op].pins(call, expanded)


def _params_of(spec: Spec | Program) -> dict[str, int | float]:
    return {c.name: c.value for c in spec.constants} | {p.name: p.default for p in arguments(spec.params)}


def _ops_of(spec: Spec, plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """Scope, variant and what else was chosen of every op; of an op on whole arrays its own fields."""
    if spec.whole:
        return [_pin_whole(spec.whole, spec)]
    out = []
    for call, operation in zip(outline(spec).calls, plan.operations, strict=True):
        out.append((call.op, {"scope": call.scope} | _choices_of(call, operation)))
    return out


def _choices_of(call: Call, operation: Operation) -> dict[str, Any]:
    """The fields of an op that say how it is carried out."""
    return _variant_of(call, operation) | dict(operation.pins)


def _variant_of(call: Call, operation: Operation) -> dict[str, Any]:
    return {"variant": operation.variant} if "variant" in type(call.fields).model_fields else {}


def pin_choices(spec: Spec, plan: Plan) -> Spec:
    """The spec with the variants that ``plan`` chose; ``spec`` has its layouts chosen, as ``load`` returns it.

    The rest, such as widths, follows from them. Of an op on whole arrays it is the tile ops that carry it out.
    Constants that nothing of it names, since they are written as numbers, are left out.
    """
    operations = iter(plan.operations)

    def pin(call: Call) -> Call:
        said = call.fields.model_dump(by_alias=True, exclude_unset=True)
        return replace(call, fields=type(call.fields).model_validate(said | _variant_of(call, next(operations))))

    pinned = replace(spec, ops=map_calls(spec.ops, pin))
    named = set(re.findall(r"\w+", print_spec(replace(pinned, constants=()))))
    return replace(pinned, constants=tuple(c for c in spec.constants if c.name in named))
