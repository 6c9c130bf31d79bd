"""A spec with its choices written out, which builds to the same bytes: as its own text, and as tile ops alone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tilegen.decisions import Operation
from tilegen.ops import WHOLE_OPS
from tilegen.plan import Plan, arguments
from tilegen.spec.data import Call, Spec
from tilegen.spec.outline import map_calls, outline
from tilegen.spec.pinning import Pins, pin_text
from tilegen.spec.printing import print_spec


def resolved_text(spec: Spec, plan: Plan) -> str:
    """The spec's own text, comments and all, with arch, params, layouts, scopes, variants, widths, partitions, register
    tiles, lanes and what else was chosen; of an op on whole arrays, its own fields.

    ``spec`` has everything chosen, as ``load`` returns it. Under any file name the text builds to the same ``.cu``
    and ``.h``, and to the same ``.json`` but for the record of what is now no choice, and for the numbers of lines
    where new ones are.
    """
    layouts = {b.name: b.layout_text or "row" for b in spec.buffers}
    ops = [(spec.whole.op, WHOLE_OPS[spec.whole.op].pins(spec.whole, spec))] if spec.whole else _ops_of(spec, plan)
    return pin_text(spec.text, Pins({"arch": spec.arch}, _params_of(spec), layouts, ops))


def _params_of(spec: Spec) -> dict[str, int | float]:
    return {c.name: c.value for c in spec.constants} | {p.name: p.default for p in arguments(spec.params)}


def _ops_of(spec: Spec, plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """Scope, variant and what else was chosen of every op."""
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
