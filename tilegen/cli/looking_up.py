"""tilegen rule, schema, doctor: what is known without a spec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from tilegen.cli.console import print_data, print_json

if TYPE_CHECKING:
    from tilegen.doctor import Checkup

_STATUS = {"ok": ("ok", "green"), "missing": ("missing", "yellow"), "info": ("-", "blue")}


def rule_command(code: str | None) -> int:
    """Print the rule of a code, or every code with its title."""
    from tilegen.spec.rules import RULES, format_rule

    if code is None:
        print_data("\n".join(f"{code}  {rule.title}" for code, rule in sorted(RULES.items())))
        return 0
    known = f"TG{code.upper().removeprefix('TG').zfill(3)}"
    if known not in RULES:
        near = get_close_matches(known, RULES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise click.BadParameter(f"{code!r} is no code of tilegen{hint}", param_hint="'CODE'")
    print_data(format_rule(known, RULES[known]))
    return 0


def schema_command() -> int:
    """Print the JSON Schema of specs."""
    from tilegen.ops import ALL_OPS
    from tilegen.spec import schema

    print_json(schema(ALL_OPS))
    return 0


def doctor_command(form: str) -> int:
    """Print what this machine offers; nothing that is missing is an error."""
    from tilegen.doctor import survey

    found = survey()
    if form == "json":
        print_json({"findings": [asdict(f) for f in found]})
    else:
        print_data(format_findings(found))
    return 0


def format_findings(found: Sequence[Checkup]) -> str:
    """A table: status, name, what was found, and what to do about what is missing."""
    name_width = max((len(f.name) for f in found), default=0)
    lines = []
    for f in found:
        word, color = _STATUS.get(f.status, (f.status, "white"))
        lines.append(f"{click.style(f'{word:<7}', fg=color)}  {f.name:<{name_width}}  {f.detail}")
        if f.hint:
            lines.append(f"{'':<7}  {'':<{name_width}}  {f.hint}")
    return "\n".join(lines)
