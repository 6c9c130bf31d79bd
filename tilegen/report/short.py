"""explain --summary: a kernel in ten lines, from what explain knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tilegen.decisions import COLUMNS, Cost, count_words, describe_cost, printable
from tilegen.report.summary import say_aside, say_bytes, say_resource
from tilegen.report.text import say_role

Data = Mapping[str, Any]
LINES = 10


def summary_lines(explained: Data, name: str) -> list[str]:
    """Ten lines, none longer than COLUMNS: what runs, what it moves and costs, what was chosen, what to type next.

    ``name`` is how the command line calls the spec.
    """
    summary, ops = explained["summary"], explained["ops"]
    grid = " x ".join(map(str, explained["grid"]))
    roles = "; ".join(map(say_role, explained["roles"])) if len(explained["roles"]) > 1 else "one role"
    moved = f"{say_bytes(summary['read_bytes'])} read + {say_bytes(summary['written_bytes'])} written"
    lines = [
        f"{explained['kernel']} for {explained['arch']}: grid {grid}, {explained['threads']} threads a CTA",
        f"roles      {roles}",
        f"moves      {moved}; sectors {summary['sectors']} (floor {_known(summary['sectors_floor'])})",
        f"shared     wavefronts {summary['wavefronts']} (floor {summary['wavefronts_floor']})",
        f"issues     {count_words(summary['instructions'], 'instruction', 'instructions')} that access memory",
        f"bound by   {say_resource(summary['bound_by'])}{say_aside(summary)}, at the rates of {summary['device']}",
        f"layouts    {_say_layouts(explained['choices'])}",
        f"ops        {_say_variants(ops)}",
        f"dearest    {_say_dearest(ops)}",
        f"above      {_say_above(ops)}; next: tilegen view {name}",
    ]
    return [_cut(printable(line)) for line in lines]


def _known(floor: int | None) -> str:
    return "not counted" if floor is None else str(floor)


def _say_layouts(choices: Sequence[Data]) -> str:
    """The layouts that were chosen among others, and how many there were."""
    chosen = [c for c in choices if c["question"].startswith("layout of ") and c["candidates"]]
    texts = [f"{c['question'].removeprefix('layout of ')} {c['picked']}, of {len(c['candidates'])}" for c in chosen]
    return "; ".join(texts) or "none was chosen among others"


def _say_variants(ops: Sequence[Data]) -> str:
    counted = Counter(f"{op['op']} by {op['variant']}" for op in ops)
    rivals = sum(len(op["refused"]) for op in ops)
    words = ", ".join(f"{n} {what}" for what, n in counted.items())
    return f"{words or 'none'}; {count_words(rivals, 'variant', 'variants')} not taken"


def _say_dearest(ops: Sequence[Data]) -> str:
    if not ops:
        return "no op"
    number, op = max(enumerate(ops, 1), key=lambda pair: Cost(**pair[1]["cost"]).key)
    return f"op {number}, {op['variant']}: {describe_cost(Cost(**op['cost']))}"


def _say_above(ops: Sequence[Data]) -> str:
    """Accesses that cost more than their floor; sectors whose floor was not counted do not stand here."""
    accesses = [a for op in ops for a in op["accesses"]]
    above = [
        f"#{n} {a['buffer']}"
        for n, a in enumerate(accesses, 1)
        if a["wavefronts"] > a["floor"] or (a["sectors_floor"] is not None and a["sectors"] > a["sectors_floor"])
    ]
    listed = f" ({', '.join(above[:3])}{', ...' if len(above) > 3 else ''})" if above else ""
    return f"{len(above)} of {count_words(len(accesses), 'access', 'accesses')} above their floor{listed}"


def _cut(line: str) -> str:
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 3]}..."
