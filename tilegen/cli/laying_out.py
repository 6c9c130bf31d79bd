"""tilegen layout: one layout read, changed, and shown as text, numbers, banks, a conversion or a picture."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any, TypeVar

import click

from tilegen import drawing, layouts
from tilegen.cli.console import print_data, print_json
from tilegen.drawing import Subject, take_subject
from tilegen.errors import Diagnostic, LayoutError, SpecError
from tilegen.layouts.constructors import element_bits

NO_TERMINAL = (100, 24)
_BACKGROUNDS = ("cyan", "yellow", "green", "magenta", "blue", "bright_red", "bright_white", "bright_green")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class LayoutWishes:
    """What the command line asks for; None where it does not."""

    text: str
    shape: str | None = None
    at: tuple[str, ...] = ()
    canonical: bool = False
    fuse: str | None = None
    group: str | None = None
    region: str | None = None
    to: str | None = None
    banks: bool = False
    dtype: str | None = None
    access: str | None = None
    draw: bool = False


def layout_command(wishes: LayoutWishes, form: str) -> int:
    """Read, change, show. Raises SpecError for a layout that cannot be, BadParameter for an option that cannot."""
    if wishes.fuse and not wishes.canonical:
        raise click.UsageError("--fuse goes with --canonical")
    if wishes.access and not wishes.banks:
        raise click.UsageError("--access goes with --banks")
    if form == "svg" and (wishes.at or wishes.to or wishes.access):
        raise click.UsageError("--format svg is the picture that --draw or --banks prints: no --at, --to or --access")
    if wishes.banks and not wishes.dtype:
        raise click.UsageError("--banks needs the size of an element: --dtype float16, for example")
    shape = read_numbers(wishes.shape, "--shape", 1) if wishes.shape else None
    bits = _read_width(wishes.dtype) if wishes.dtype else None
    located(wishes.text, lambda: drawing.read_layout(wishes.text, shape))
    mma = located(wishes.text, lambda: layouts.read_mma(wishes.text))
    subject = _tried("--shape" if shape else "layout", lambda: drawing.read_subject(wishes.text, shape))
    subject, changed = _change(subject, wishes)
    if form == "svg":
        print_data(_svg(subject, bits if wishes.banks else None))
        return 0
    shown = _show(subject, wishes, bits)
    if form == "json":
        whole = {} if shown or changed else drawing.describe_layout(subject)
        whole |= {"mma": _load_chain().mma_data(mma[0])} if whole and mma else {}
        head = {"layout": str(subject.given), "kind": subject.kind, "shape": list(subject.shape)}
        print_json({**head, **whole, **changed, **{name: data for name, data, _ in shown}})
        return 0
    pages = [_changed_text(subject, changed)] if changed else []
    pages += [page for _, _, page in shown]
    if not pages:
        pages.append(drawing.layout_text(drawing.describe_layout(subject)))
        pages += ["\n".join(_load_chain().describe_mma(mma[0]))] if mma else []
    print_data("\n\n".join(pages))
    return 0


def _load_chain() -> ModuleType:
    """What is said of a tiled_mma: its prices need most of the package, and no other layout has any."""
    from tilegen.report import mma_chain

    return mma_chain


# ---------------------------------------------------------------- other layouts of the same elements, or of some
def _change(subject: Subject, wishes: LayoutWishes) -> tuple[Subject, dict[str, Any]]:
    changed: dict[str, Any] = {}
    if type(subject.layout).__name__ == "LinearLayout" and (wishes.region or wishes.canonical or wishes.group):
        message = "--slice, --canonical and --group change iters; a linear layout has bases"
        raise SpecError(Diagnostic("TG201", message, hint="--to tile gives the iters, where there are any"))
    if wishes.region:
        region = _read_region(wishes.region)
        shape = [end - begin for begin, end in region]
        layout = _tried("--slice", lambda: layouts.slice_layout(subject.layout, subject.shape, region))
        subject, changed = take_subject(layout, shape), {"slice": [list(piece) for piece in region]}
    if wishes.canonical:
        layout = _tried("--canonical", lambda: layouts.canonicalize(subject.layout, wishes.fuse))
        subject, changed = take_subject(layout, subject.shape), {**changed, "canonical": wishes.fuse or True}
    if wishes.group:
        shape = list(read_numbers(wishes.group, "--group", 1))
        layout, separators = _tried("--group", lambda: layouts.group(subject.layout, shape))
        subject, changed = take_subject(layout, shape), {**changed, "separators": list(separators)}
    return subject, changed


def _changed_text(subject: Subject, changed: dict[str, Any]) -> str:
    lines = [str(subject.given)]
    if "separators" in changed:
        ends = changed["separators"]
        runs = (f"iter {a}" if b == a + 1 else f"iters {a} to {b - 1}" for a, b in pairwise(ends))
        lines += [f"dimension {d}: {run}" for d, run in enumerate(runs)]
    return "\n".join(lines)


# ---------------------------------------------------------------- views
def _show(subject: Subject, wishes: LayoutWishes, bits: int | None) -> list[tuple[str, Any, str]]:
    """(name, data, page) of everything that was asked for."""
    shown: list[tuple[str, Any, str]] = []
    if wishes.at:
        coords = [read_numbers(text, "--at", 0) for text in wishes.at]
        found = [_tried("--at", lambda c=c: drawing.locate(subject, c, bits)) for c in coords]  # type: ignore[misc]
        shown.append(("at", found, drawing.places_text(found)))
    if wishes.to:
        other = _tried(f"--to {wishes.to}", lambda: drawing.convert(subject, str(wishes.to)))
        shown.append(("to", {"notation": wishes.to, "layout": str(other)}, str(other)))
    if wishes.banks and bits is not None:
        banks = _tried("--banks", lambda: drawing.find_banks(subject, bits, wishes.access))
        shown.append(("banks", banks, drawing.banks_text(banks, str(wishes.dtype))))
    if wishes.draw or (wishes.banks and not wishes.access):
        shown.append(_draw(subject, bits if wishes.banks else None))
    return shown


def _draw(subject: Subject, bits: int | None) -> tuple[str, Any, str]:
    picture = _tried("--draw", lambda: _picture_of(subject, bits))
    width = shutil.get_terminal_size(NO_TERMINAL).columns
    data = {"cell": picture.cell, "columns": list(picture.columns), "rows": list(picture.rows)}
    cells = {"cells": [list(row) for row in picture.cells], "notes": list(picture.notes)}
    memory = drawing.draw_memory(subject, width) if bits is None else ""
    pages = [drawing.print_picture(picture, width, _paint), *([memory] if memory else [])]
    return "picture", data | cells, "\n\n".join(pages)


def _svg(subject: Subject, bits: int | None) -> str:
    picture = _tried("--format svg", lambda: _picture_of(subject, bits))
    return drawing.svg_of(picture, str(subject.given))


def _picture_of(subject: Subject, bits: int | None) -> drawing.Picture:
    return drawing.draw_layout(subject) if bits is None else drawing.bank_picture(subject, bits)


def _paint(text: str, key: int) -> str:
    """A cell in its colour; click takes colours away where they are not wanted."""
    return click.style(text, fg="black", bg=_BACKGROUNDS[key])


# ---------------------------------------------------------------- texts of options
def read_numbers(text: str, option: str, least: int) -> tuple[int, ...]:
    words = re.split(r"\s*[,x]\s*", text.strip().removeprefix("(").removesuffix(")").removesuffix(","))
    numbers = [int(word) for word in words if word.isascii() and word.isdecimal() and len(word) < 19]
    if len(numbers) != len(words) or min(numbers) < least:
        example = "8,64" if least else "5,0"
        raise click.BadParameter(f"{text[:40]!r} is not a list of numbers such as {example}", param_hint=f"'{option}'")
    return tuple(numbers)


def _read_region(text: str) -> list[tuple[int, int]]:
    found = [re.fullmatch(r"\s*(\d{1,18}):(\d{1,18})\s*", piece, re.ASCII) for piece in text.split(",")]
    region = [(int(piece[1]), int(piece[2])) for piece in found if piece]
    if len(region) != len(found) or any(begin >= end for begin, end in region):
        raise click.BadParameter(f"{text[:40]!r} is not BEGIN:END for each dimension", param_hint="'--slice'")
    return region


def _read_width(dtype: str) -> int:
    try:
        return element_bits(dtype)
    except LayoutError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise click.BadParameter(f"{error}{hint}", param_hint="'--dtype'") from None


# ---------------------------------------------------------------- errors
def _tried(option: str, ask: Callable[[], _Result]) -> _Result:
    """What ``ask`` returns; its LayoutError becomes a diagnostic that names the option."""
    try:
        return ask()
    except LayoutError as error:
        message = f"{option}: {error}"
        raise SpecError(Diagnostic(error.rule, message, hint=error.hint)) from None


def located(text: str, read: Callable[[], _Result]) -> _Result:
    """What ``read`` returns; its LayoutError becomes a diagnostic with carets under the text."""
    try:
        return read()
    except LayoutError as error:
        raise SpecError(error.describe(text)) from None
