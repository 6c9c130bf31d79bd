"""tilegen view: one self-contained page of a layout, of a spec, or of the presets."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from tilegen.cli.console import print_data, print_note
from tilegen.cli.explaining import ExplainWishes, explain_one, load_one
from tilegen.cli.laying_out import located, read_numbers
from tilegen.cli.progress import watch_one
from tilegen.cli.writing import write_together
from tilegen.viewing import explained_svg, layout_page, spec_page

_SPECS = (".yaml", ".yml")


@dataclass(frozen=True)
class ViewWishes:
    """What the command line asks for; None where it does not."""

    what: str | None
    shape: str | None
    output: str | None
    opens: bool
    arch: str | None
    settings: Mapping[str, int | float]
    pass_name: str | None = None


def view_command(wishes: ViewWishes) -> int:
    """Write the page, and open it if that is wanted. Raises SpecError, InputError and UsageError."""
    if wishes.opens and wishes.output == "-":
        raise click.UsageError("--open opens a file, -o - writes to stdout: take one of them")
    name, page = _spec(wishes) if _is_spec(wishes.what) else _layout(wishes)
    if wishes.output == "-":
        print_data(page)
        return 0
    path = Path(wishes.output or f"{name}.html")
    write_together({path.name: page}, path.parent)
    print_data(str(path))
    if wishes.opens and not webbrowser.open(path.resolve().as_uri()):
        print_note(f"no browser could be started: open {path} in one")
    return 0


# ---------------------------------------------------------------- explain, in other forms
def picture_command(wishes: ExplainWishes, form: str) -> int:
    """A spec as ``svg`` or as the page of `tilegen view` (``html``), on stdout. Raises what loading raises."""
    option = f"--format {form}"
    if form == "svg":
        print_data(explained_svg(explain_one(wishes, option)))
        return 0
    with watch_one(wishes.path):
        page = spec_page(load_one(wishes, option), processes=wishes.jobs)[1]
    print_data(page)
    return 0


# ---------------------------------------------------------------- view
def _is_spec(what: str | None) -> bool:
    return what is not None and (what == "-" or what.endswith(_SPECS))


def _spec(wishes: ViewWishes) -> tuple[str, str]:
    if wishes.shape:
        raise click.UsageError("--shape is the logical shape of a LAYOUT; a spec's buffers have their own")
    path = str(wishes.what)
    with watch_one(path):
        return spec_page(load_one(ExplainWishes(path, wishes.arch, wishes.settings, 1, wishes.pass_name), "view"))


def _layout(wishes: ViewWishes) -> tuple[str, str]:
    if wishes.arch or wishes.settings or wishes.pass_name:
        raise click.UsageError("--arch, --set and --pass are of a SPEC, a .yaml file")
    if wishes.shape and wishes.what is None:
        raise click.UsageError("--shape goes with a LAYOUT")
    text, shape = wishes.what, read_numbers(wishes.shape, "--shape", 1) if wishes.shape else None
    specs = sorted(str(path) for folder in (".", "specs") for path in Path(folder).glob("*.yaml"))
    return "layout", located(text or "", lambda: layout_page(text, shape, specs))
