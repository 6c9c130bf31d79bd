"""explain --resolved: a spec with every choice and default written out, which builds to the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilegen.plan import Plan
from tilegen.spec.data import Buffer, Call, Loop, Spec, Statement
from tilegen.spec.pinning import Pins, pin_text


def resolved_text(spec: Spec, plan: Plan) -> str:
    """The spec's own text, comments and all, with arch, params, layouts, scopes and variants as they are in the plan.

    ``spec`` has its layouts chosen. Saved under the same name it builds to the same ``.cu`` and ``.h``, and to the same
    ``.json`` but for the numbers of lines that are new. A vector width and the like follow from these.
    """
    pins = Pins({"arch": spec.arch}, _params_of(spec), dict(_layouts_of(spec)), _ops_of(spec, plan))
    return pin_text(spec.text, pins)


def _params_of(spec: Spec) -> dict[str, int | float]:
    return {c.name: c.value for c in spec.constants} | {p.name: p.default for p in spec.params}


def _layouts_of(spec: Spec) -> Iterator[tuple[str, str]]:
    """Layouts that the text does not say: the default, and those that were chosen."""
    for buffer in spec.buffers:
        if buffer.root == buffer.name and buffer.layout_text in ("", "auto"):
            yield buffer.name, _say_layout(buffer)


def _say_layout(buffer: Buffer) -> str:
    return str(buffer.layout) if buffer.layout_text else "row"


def _ops_of(spec: Spec, plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """Scope, variant and what else was chosen of every op."""
    out = []
    for call, operation in zip(_calls(spec.ops), plan.operations, strict=True):
        fields: dict[str, Any] = {"scope": call.scope}
        if "variant" in type(call.fields).model_fields:
            fields["variant"] = operation.variant
        out.append((call.op, fields | dict(operation.pins)))
    return out


def _calls(statements: tuple[Statement, ...]) -> Iterator[Call]:
    for s in statements:
        if isinstance(s, Loop):
            yield from _calls(s.body)
        elif isinstance(s, Call):
            yield s
