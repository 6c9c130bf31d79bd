"""What docs/spec.md, cli.md, errors.md and api.md say that the product itself knows."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin

import click

import tilegen
from tests.pages.keys import PARTS, Use, find_uses, print_keys
from tilegen.arch import ARCHES
from tilegen.arithmetic.functions import FUNCTIONS
from tilegen.cli import cli
from tilegen.dtypes import DTYPES
from tilegen.ops import ALL_OPS, OPS
from tilegen.scopes import CLUSTER_AXES, COUNT_AXES, CTA_AXES, SCOPES, THREAD_AXES, Scope
from tilegen.spec.rules import RULES

ROOT = Path(__file__).parents[2]
SPEC_PAGE = ROOT / "docs" / "spec.md"
_FENCE = re.compile(r"^```yaml\n(kernel:.*?)^```$", re.S | re.M)


def whole_specs(page: Path) -> list[str]:
    """The specs of a page that are whole, in its order."""
    return _FENCE.findall(page.read_text(encoding="utf-8"))


@cache
def _all_uses() -> list[Use]:
    kept = [use for path in sorted((ROOT / "specs").glob("*.yaml"))
            for use in find_uses(path.stem, path.read_text(encoding="utf-8"))]  # fmt: skip
    return kept + [use for text in whole_specs(SPEC_PAGE) for use in find_uses("", text)]


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def print_dtypes() -> str:
    rows = ((f"`{d.name}`", str(d.bits), f"`{d.c}`", d.typedef.partition("// ")[2]) for d in DTYPES.values())
    return _table(("dtype", "bits", "in CUDA", ""), rows)


def print_archs() -> str:
    rows = ((f"`{a.name}`", f"{a.max_shared_bytes_per_cta // 1024} KB", ", ".join(sorted(a.features)))
            for a in ARCHES.values())  # fmt: skip
    return _table(("arch", "shared memory of a CTA", "what it has beyond the base"), rows)


def print_scopes() -> str:
    every = ", ".join(f"`{axis}`" for axis in (*CTA_AXES, *CLUSTER_AXES, *COUNT_AXES))
    rows = ((f"`{s.name}`", s.one, _say_threads(s),
             ", ".join(f"`{axis}`" for axis in s.axes) or "none")
            for s in SCOPES.values() if s.name != "roles")  # fmt: skip
    table = _table(("scope", "an instance", "its threads", "thread axes that it may use"), rows)
    return f"{table}\n\nAll may use {every}. Clusters are for `sync` alone."


def _say_threads(scope: Scope) -> str:
    whole = {"role": "the role's", "cta": "the kernel's", "cluster": "those of its CTAs"}
    return str(scope.threads or whole[scope.name])


def print_axes() -> str:
    def say(unit: int, span: int) -> str:
        what = {1: "threads", 32: "warps", 128: "warpgroups"}[unit]
        inside = {0: "the CTA, or the role", 32: "its warp", 128: "its warpgroup"}[span]
        return f"{what} of {inside}, from 0"

    rows = [(f"`{axis.name}`", say(axis.unit, axis.span)) for axis in THREAD_AXES.values()]
    rows += [(f"`{axis}`", f"CTAs of the grid in {axis[-1]}") for axis in CTA_AXES]
    rows += [(f"`{axis}`", f"CTAs of the cluster in {axis[-1]}") for axis in CLUSTER_AXES]
    rows += [(f"`{axis}`", f"no number: how many CTAs there are in {axis[1]}") for axis in COUNT_AXES]
    return _table(("name", "numbers"), iter(rows))


def print_functions() -> str:
    def say(row: Any) -> str:
        return ", ".join(f"{ulps:g} ({name})" for name, ulps in row.ulps.items()) or "exact"

    rows = ((f"`{row.name}`", str(row.sources), ", ".join(row.takes), "the same" if row.gives == "same" else row.gives,
             say(row)) for row in FUNCTIONS.values())  # fmt: skip
    return _table(("function", "arguments", "of", "gives", "error in ulps"), rows)


def print_about(name: str) -> str:
    """What an op is, and its variants."""
    op = ALL_OPS[name]
    words = sys.modules[op.model.__module__].__doc__
    assert words, f"the module of {name} says nothing of it"
    said = " ".join(words.split("\n\n")[0].split()).removeprefix(f"{name}: ")
    variants = ", ".join(f"`{v.name}`" for v in OPS[name].variants) if name in OPS else ""
    return said[:1].upper() + said[1:] + (f"\n\nVariants: {variants}." if variants else "")


SPEC_PARTS: dict[str, Callable[[], str]] = {
    "dtypes_table": print_dtypes, "archs_table": print_archs, "scopes_table": print_scopes, "axes_table": print_axes,
    "functions_table": print_functions,
    **{f"keys_{part}": lambda part=part: print_keys(part, _all_uses()) for part in PARTS},  # type: ignore[misc]
    **{f"about_{name}": lambda name=name: print_about(name) for name in ALL_OPS},  # type: ignore[misc]
}  # fmt: skip


# ---------------------------------------------------------------- docs/cli.md
def print_help() -> str:
    """Every command as --help has it, 100 characters wide."""
    root = click.Context(cli, info_name="tilegen", terminal_width=100, **cli.context_settings)
    parts = [_fence("text", cli.get_help(root))]
    for name, command in cli.commands.items():
        context = click.Context(command, info_name=name, parent=root, terminal_width=100, max_content_width=100)
        parts.append(f"## tilegen {name}\n\n{_fence('text', command.get_help(context))}")
    return "\n\n".join(parts)


def _fence(language: str, text: str) -> str:
    return f"```{language}\n{text.strip(chr(10))}\n```"


# ---------------------------------------------------------------- docs/errors.md
KINDS = {
    "TG0": "The file and its YAML", "TG1": "Names and structure", "TG2": "Layouts and regions", "TG3": "Ops",
    "TG4": "Proofs, and what a GPU found", "TG5": "What is not here", "TG6": "The command line",
    "TG7": "Calls from Python",
}  # fmt: skip


def print_errors() -> str:
    """Every code: what it means, an example, the fix."""
    rows = ((f"[{code}](#{code.lower()})", rule.title) for code, rule in sorted(RULES.items()))
    parts = [_table(("code", ""), rows)]
    for kind, title in KINDS.items():
        parts.append(f"## {kind}xx: {title[:1].lower()}{title[1:]}")
        for code in sorted(code for code in RULES if code.startswith(kind)):
            rule = RULES[code]
            parts += [f"### {code}", f"**{rule.title[:1].upper()}{rule.title[1:]}.** {rule.explanation}"]
            if rule.seen:
                parts.append(f"*Seen:* {rule.seen}")
            if rule.bad:
                parts += ["Wrong:", _fence("yaml", rule.bad), "Right:", _fence("yaml", rule.good)]
    return "\n\n".join(parts)


# ---------------------------------------------------------------- docs/api.md
def print_api() -> str:
    """Every public name of the package, with its signature and its docstring."""
    return "\n\n".join(_describe_module(tilegen))


def _describe_module(module: ModuleType) -> list[str]:
    found = {name: getattr(module, name) for name in module.__all__}
    inner = [one for one in found.values() if inspect.ismodule(one)]
    words = _as_markdown(inspect.cleandoc(module.__doc__ or ""))
    parts = [f"## {module.__name__}", words if module is not tilegen else ""]
    parts += [_describe(f"{module.__name__}.{name}", one) for name, one in found.items() if one not in inner]
    return [p for p in parts if p] + [p for one in inner for p in _describe_module(one)]


def _describe(name: str, found: Any) -> str:
    if get_origin(found):
        one_of = ", ".join(f"`{one.__name__}`" for one in get_args(found))
        return f"### {name}\n\nOne of {one_of}."
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        text = repr(found)
        is_short = len(text) < 100 and " at 0x" not in text
        kind = f"`{text}`" if is_short else f"A {type(found).__name__} of {len(found)}."
        return f"### {name}\n\n{kind}"
    words = inspect.getdoc(found)
    assert words, f"{name} has no docstring"
    head = _fence("python", _write_signature(name.rpartition(".")[2], found))
    members = _list_members(found) if inspect.isclass(found) else ""
    return "\n\n".join(part for part in (f"### {name}", head, _as_markdown(words), members) if part)


def _write_signature(name: str, found: Any) -> str:
    start = f"class {name}" if inspect.isclass(found) else name
    try:
        text = str(inspect.signature(found))
    except (ValueError, TypeError):
        return start
    text = re.sub(r"'([^']*)'(?=[,)]| =|$)", r"\1", text).replace(" -> None", "")
    text = re.sub(r"<[^<>]* at 0x[^<>]*>", "..", text)
    if len(start + text) <= 110:
        return start + text
    return start + textwrap.fill(text, 106, initial_indent="", subsequent_indent="    ", break_long_words=False)


def _as_markdown(words: str) -> str:
    """A docstring: doctests in a fence, double backquotes as single ones."""
    parts = re.split(r"(^>>> .*?(?:\n\n|\Z))", words, flags=re.S | re.M)
    said = (f"{_fence('pycon', p.strip())}\n\n" if p.startswith(">>> ") else p.replace("``", "`") for p in parts)
    return re.sub(r"\n{3,}", "\n\n", "".join(said)).strip()


def _list_members(found: type) -> str:
    rows = []
    for name, member in vars(found).items():
        if name.startswith("_") or isinstance(member, (str, int, type)) or not inspect.getdoc(member):
            continue
        if isinstance(member, (property, classmethod, staticmethod)) or inspect.isfunction(member):
            first = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split()).replace("``", "`")
            rows.append(f"* `.{name}`: {first}")
    return "\n".join(rows)
