"""Options that commands share, and what they are read as."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

START_KINDS = ("transpose", "softmax", "gemm", "roles", "stencil")  # of specs to begin with
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Manner:
    """How a command works and speaks: JSON or text, more or less of it, and in how many processes."""

    form: str = "text"
    quiet: bool = False
    verbose: bool = False
    jobs: int = 1

    @property
    def is_json(self) -> bool:
        return self.form == "json"


def _choose_color(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    from tilegen.cli.console import wants_color

    if value is not None:
        ctx.color = ctx.find_root().color = wants_color(value)


def _read_settings(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, int | float]:
    settings: dict[str, int | float] = {}
    for text in given:
        name, equals, number = text.partition("=")
        if not (equals and name.isidentifier() and (_INTEGER.match(number) or _DECIMAL.match(number))):
            raise click.BadParameter(f"{text[:40]!r} is not NAME=NUMBER, for example M=4096 or scale=0.125")
        if len(number.lstrip("-+")) > 19 and _INTEGER.match(number):
            raise click.BadParameter(f"the number of {name[:40]} does not fit 64 bits")
        if isinf(float(number)):
            raise click.BadParameter(f"the number of {name[:40]} is more than any float holds")
        if name in settings:
            raise click.BadParameter(f"{name} is set twice")
        settings[name] = int(number) if _INTEGER.match(number) else float(number)
    return settings


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a shell offers for a SPEC: files."""
    return [CompletionItem(incomplete, type="file")]


def complete_codes(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a shell offers for a CODE: those that begin so, with their titles."""
    from tilegen.spec.rules import RULES

    begun = incomplete.upper()
    return [CompletionItem(code, help=rule.title) for code, rule in sorted(RULES.items()) if code.startswith(begun)]


_WHEN = click.Choice(["auto", "always", "never"])
with_color = click.option(
    "--color", type=_WHEN, callback=_choose_color, expose_value=False, is_eager=True,
    help="Colour: auto (on terminals, unless NO_COLOR is set), always or never.",
)  # fmt: skip
with_format = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="json prints JSON on stdout, errors too.",
)  # fmt: skip
with_one_spec = click.argument("spec", metavar="SPEC", shell_complete=complete_files)
with_specs = click.argument("specs", nargs=-1, required=True, metavar="SPEC...", shell_complete=complete_files)


def with_spec_options(command: Command) -> Command:
    """--arch and --set, which change what a spec says."""
    arch = click.option("--arch", metavar="sm_NN", help="Build for this arch instead of the spec's.")
    settings = click.option(
        "--set", "settings", metavar="NAME=NUMBER", multiple=True, callback=_read_settings,
        help="Give a param of the spec another value; may be repeated.",
    )  # fmt: skip
    return arch(settings(command))


with_tuned = click.option("--tuned", default="", metavar="FILE", help="Take the best of what `tilegen tune` measured.")
with_data_seed = click.option(
    "--seed", type=click.IntRange(0, 65535), default=1, show_default=True, help="Seed of the data."
)
with_picture_format = click.option(
    "--format", "form", type=click.Choice(["text", "json", "svg"]), default="text", show_default=True,
    help="json prints JSON on stdout, errors too; svg is a picture for documents.",
)  # fmt: skip
with_pass = click.option("--pass", "pass_name", metavar="NAME", help="Of a spec with passes: the pass NAME alone.")


def _count_cpus(_: click.Context, __: click.Parameter, given: int | None) -> int:
    return given or os.cpu_count() or 1


with_jobs = click.option(
    "-j", "--jobs", type=click.IntRange(1), metavar="N", callback=_count_cpus,
    help="Work in N processes.  [default: one for each CPU]",
)  # fmt: skip


def with_manner(command: Command) -> Command:
    """-j, -q, -v and --format, for commands on several specs."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings, and nothing else.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Print what was proved, and how long it took.")
    return with_format(with_jobs(quiet(verbose(command))))


def read_manner(form: str, quiet: bool, verbose: bool, jobs: int) -> Manner:
    """The options of ``with_manner`` as one value. Raises UsageError where they contradict each other."""
    if quiet and verbose:
        raise click.UsageError("-q prints less and -v prints more: take one of them")
    return Manner(form, quiet, verbose, jobs)


class BenchCommand(click.Command):
    """``--against`` takes every name of a peer that follows it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from tilegen.bench import NAMES
        from tilegen.cli.functions import names_function

        words: list[str] = []
        is_listing = False  # the words before are --against and names
        for word in args:
            is_peer = word in NAMES or names_function(word)
            if is_listing and is_peer and words[-1] != "--against":
                words.append("--against")
            words.append(word)
            is_listing = word == "--against" or (is_listing and is_peer)
        return super().parse_args(ctx, words)


def share_cores(specs: Sequence[str], jobs: int) -> None:
    """Have matrix products in NumPy, which is not loaded yet, leave the cores to the processes that several specs get.

    What the environment says wins.
    """
    if min(len(set(specs)), jobs) > 1:
        for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")


def is_typed(name: str) -> bool:
    """Whether an option of the running command was given on the command line, and not by the configuration."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
