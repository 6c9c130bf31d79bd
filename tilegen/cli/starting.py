"""tilegen init and completion: what a new user types first."""

from __future__ import annotations

import json
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from tilegen.cli.console import print_data, print_note
from tilegen.cli.writing import write_together
from tilegen.errors import Diagnostic, InputError

SCHEMA = "tilegen.schema.json"
_STARTS = Path(__file__).parents[1] / "templates" / "start"  # a file for each of START_KINDS


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
