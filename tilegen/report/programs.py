"""explain for several kernels: what they share, then the page of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilegen.arch import Arch
from tilegen.decisions import count_words, wrap_line
from tilegen.report.short import summary_lines
from tilegen.report.text import explain_text

Data = Mapping[str, Any]


def explain_program_text(explained: Data, arch: Arch, shows_all: bool = False) -> str:
    """The page of ``pipeline.explain`` of a spec with passes."""
    pages = (explain_text(one, arch, shows_all) for one in explained["passes"])
    titled = (
        f"{_say_pass(number, one)}\n{page}"
        for number, (one, page) in enumerate(zip(explained["passes"], pages, strict=True), 1)
    )
    return "\n\n".join(["\n".join(_head(explained)), *titled])


def program_lines(explained: Data, name: str) -> list[str]:
    """The ten lines of each pass, under what they share. ``name``: how the command line calls the spec."""
    lines = list(_head(explained))
    for number, one in enumerate(explained["passes"], 1):
        own = summary_lines(one, f"{name} --pass {one['name']}")
        lines += ["", _say_pass(number, one), *own]
    return lines


def _head(explained: Data) -> Iterator[str]:
    names = ", ".join(one["name"] for one in explained["passes"])
    count = count_words(len(explained["passes"]), "pass", "passes")
    yield from wrap_line(f"{explained['kernel']} for {explained['arch']}: {count}, {names}")
    for w in explained["workspaces"]:
        size = count_words(w["bytes"], "byte", "bytes")
        grows = "" if w["bytes_expression"].isdecimal() else f" ({w['bytes_expression']})"
        yield from wrap_line(f"workspace {w['name']}: {w['dtype']}, {size}{grows}", 2)
    if explained["workspaces"]:
        yield from wrap_line(
            f"a launch takes {count_words(explained['workspace_bytes'], 'byte', 'bytes')} of workspace", 2
        )


def _say_pass(number: int, one: Data) -> str:
    when = f", where {one['when']}" if "when" in one else ""
    return f"== pass {number}, {one['name']}{when}"
