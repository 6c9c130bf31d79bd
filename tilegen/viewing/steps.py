"""The statements of a spec as the page shows them: what runs inside of what, which op reads or writes which buffer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tilegen.decisions import printable
from tilegen.plan import Plan
from tilegen.report import pin_choices
from tilegen.spec.data import Call, Nest, Spec, Statement, WholeCall
from tilegen.spec.printing import head_of, print_spec

READS, WRITES, UPDATES = "reads", "writes", "updates"


def list_steps(spec: Spec, plan: Plan) -> list[dict[str, Any]]:
    """Every statement in the order of the text: {depth, text, line, op, touches}; ``op`` is 0 for what is no op.

    ``touches`` are {buffer: reads, writes or updates}. Takes what ``load`` returned: no op is on whole arrays.
    """
    texts = iter(printable(operation.text) for operation in plan.operations)
    numbers = iter(range(1, len(plan.operations) + 1))
    return list(_steps(spec.ops, 0, texts, numbers))


def _steps(
    statements: Sequence[Statement], depth: int, texts: Iterator[str], numbers: Iterator[int]
) -> Iterator[dict[str, Any]]:
    for s in statements:
        if isinstance(s, WholeCall):
            raise TypeError("an op on whole arrays has tile ops once the spec is loaded by tilegen.load")
        line = s.mark.line if s.mark else 0
        if isinstance(s, Call):
            yield {
                "depth": depth, "text": next(texts), "line": line, "op": next(numbers), "touches": touches_of(s),
            }  # fmt: skip
            continue
        yield {"depth": depth, "text": printable(head_of(s)), "line": line, "op": 0, "touches": {}}
        if isinstance(s, Nest):
            yield from _steps(s.body, depth + 1, texts, numbers)


def touches_of(call: Call) -> dict[str, str]:
    """What an op does to each buffer that it names; operands of an expression are read."""
    read = dict.fromkeys(region.buffer.name for region in call.read)
    written = dict.fromkeys(region.buffer.name for region in call.written)
    return {
        name: UPDATES if name in read and name in written else READS if name in read else WRITES
        for name in (read | written)
    }  # fmt: skip


def expanded_lines(spec: Spec, plan: Plan) -> tuple[list[str], list[int]]:
    """The tile ops of a spec of an op on whole arrays, as `tilegen explain --expanded` prints them, and each op's line.

    Raises ValueError where the text has other ops than the plan.
    """
    lines = print_spec(pin_choices(spec, plan)).splitlines()
    names = "|".join({re.escape(operation.op) for operation in plan.operations})
    found = [n for n, line in enumerate(lines, 1) if re.match(rf"\s*- ({names}):", line)]
    if len(found) != len(plan.operations):
        raise ValueError(f"{len(found)} ops are printed of {len(plan.operations)}")
    return lines, found
