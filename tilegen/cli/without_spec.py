"""tilegen init, completion, rule, schema, doctor: commands that take no spec."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from tilegen.cli.console import print_data, print_json, print_note
from tilegen.cli.writing import write_together
from tilegen.errors import Diagnostic, InputError

if TYPE_CHECKING:
    from tilegen.doctor import Checkup

SCHEMA = "tilegen.schema.json"
_STARTS = Path(__file__).parents[1] / "templates" / "start"  # a file for each of START_KINDS
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


def init_command(name: str, kind: str) -> int:
    """Write a commented spec NAME.yaml of a kind and, beside it, the schema that editors read. Overwrites nothing.

    Raises InputError (TG606) where the spec is there already.
    """
    from tilegen.ops import ALL_OPS
    from tilegen.spec import schema

    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    kernel = _read_kernel(path.stem)
    if path.exists():
        raise InputError(Diagnostic("TG606", f"{path} is there already", hint="choose another name, or move it away"))
    files = {path.name: (_STARTS / f"{kind}.yaml").read_text(encoding="utf-8").replace("KERNEL", kernel)}
    if not (path.parent / SCHEMA).exists():
        files[SCHEMA] = json.dumps(schema(ALL_OPS), indent=2) + "\n"
    write_together(files, path.parent)
    for written in files:
        print_data(f"{path.parent / written}: written")
    print_note(f"next: tilegen explain {path}, then tilegen build {path}")
    return 0


def _read_kernel(stem: str) -> str:
    from tilegen.spec.names import MAX_NAME, kernel_reason, mend_name

    is_name = stem.isidentifier() and stem.isascii() and len(stem) <= MAX_NAME
    reason = kernel_reason(stem) if is_name else ""
    if is_name and not reason:
        return stem
    fixed = mend_name(stem, kernel_reason)
    why = f": it is {reason}" if reason else ""
    raise click.BadParameter(f"{stem!r} is no name for a kernel{why}; '{fixed}' is one", param_hint="'NAME'")


def completion_command(shell: str, group: click.Command) -> int:
    """Print what makes a shell complete tilegen's commands, options, specs and codes."""
    made = get_completion_class(shell)
    assert made is not None, shell
    print_data(made(group, {}, "tilegen", "_TILEGEN_COMPLETE").source().strip())
    return 0
