"""explain --resolved: a spec with every choice and default written out, which builds to the same bytes."""

from __future__ import annotations

from typing import Any

from tilegen.ops import WHOLE_OPS
from tilegen.plan import Plan
from tilegen.spec.data import Spec
from tilegen.spec.outline import outline
from tilegen.spec.pinning import Pins, pin_text


def resolved_text(spec: Spec, plan: Plan) -> str:
    """The spec's own text, comments and all, with arch, params, layouts, scopes, variants and what else was chosen.

    ``spec`` has everything chosen, as ``load`` returns it. Saved under the same name the text builds to the same
    ``.cu`` and ``.h``, and to the same ``.json`` but for the record of what is now no choice, and for the numbers of
    lines where new ones are. What no field says, such as a vector width, follows from the rest.
    """
    layouts = {b.name: b.layout_text or "row" for b in spec.buffers}
    ops = [(spec.whole.op, WHOLE_OPS[spec.whole.op].pins(spec.whole, spec))] if spec.whole else _ops_of(spec, plan)
    return pin_text(spec.text, Pins({"arch": spec.arch}, _params_of(spec), layouts, ops))


def _params_of(spec: Spec) -> dict[str, int | float]:
    return {c.name: c.value for c in spec.constants} | {p.name: p.default for p in spec.params}


def _ops_of(spec: Spec, plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """Scope, variant and what else was chosen of every op."""
    out = []
    for call, operation in zip(outline(spec).calls, plan.operations, strict=True):
        fields: dict[str, Any] = {"scope": call.scope}
        if "variant" in type(call.fields).model_fields:
            fields["variant"] = operation.variant
        out.append((call.op, fields | dict(operation.pins)))
    return out
