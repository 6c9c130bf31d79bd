"""The commands. Everything heavy is imported inside of them, so that ``tilegen --help`` needs click alone.

Exit codes: 0 done; 1 a spec is invalid, a proof failed or an output is stale; 2 the command line or a file; 3 the
environment lacks what was asked; 70 a bug in tilegen.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from tilegen import __version__
from tilegen.cli.configuration import option_defaults, read_configuration
from tilegen.cli.ending import end_safely
from tilegen.cli.measured import bench, trace, tune
from tilegen.cli.options import (
    START_KINDS,
    complete_codes,
    is_typed,
    read_manner,
    share_cores,
    with_color,
    with_format,
    with_jobs,
    with_manner,
    with_one_spec,
    with_pass,
    with_spec_options,
    with_specs,
    with_tuned,
)


class Tilegen(click.Group):
    """The group of commands; however one of them ends, it ends with an exit code and never with a traceback."""

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, complete_var: str | None = None,
        standalone_mode: bool = True, **extra: Any,
    ) -> Any:  # fmt: skip
        words = list(sys.argv[1:] if args is None else args)
        name = prog_name or "tilegen"
        sys.exit(end_safely(words, lambda: super(Tilegen, self).main(list(words), name, complete_var, False, **extra)))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of a day's work, not of the alphabet


def main() -> NoReturn:
    """The program ``tilegen``."""
    gc.set_threshold(2_000_000)  # a build makes many objects and little garbage: looking for some costs it 0.1 s
    _keep_freed_memory()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some costs 20 ms, and specs need none
    try:
        cli.main()
    finally:
        gc.freeze()  # at its end Python looks at every object for garbage: a tenth of a build
    raise AssertionError("cli.main ends the process")


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def _keep_freed_memory() -> None:
    """What large arrays leave stays with the process for the next ones, where glibc is asked for it: pages that go back
    to the system come again one fault at a time, which is a tenth of a proof.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that it takes
        mallopt(_M_TRIM_THRESHOLD, 1 << 30)


@click.group(
    "tilegen", cls=Tilegen, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 invalid spec, mismatch or stale; 2 usage or files; 3 what was asked is not here.",
)  # fmt: skip
@with_color
@click.version_option(__version__, "-V", "--version", message="tilegen %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Readable CUDA kernels from YAML specs of buffers, layouts and tile operations: chosen, explained, proved.

    A pyproject.toml may hold options in [tool.tilegen]: arch, out, jobs, format. What is typed wins.
    """
    if ctx.invoked_subcommand not in _WITHOUT_CONFIGURATION:
        ctx.default_map = option_defaults(read_configuration(Path.cwd()))


_WITHOUT_CONFIGURATION = ("init", "rule", "schema", "completion")


# ---------------------------------------------------------------- commands
@cli.command(short_help="A commented spec to begin with.")
@click.argument("name", default="my_kernel", metavar="[NAME]")
@click.option(
    "--from", "kind", type=click.Choice(START_KINDS), default=START_KINDS[0], show_default=True, help="Which one.",
)  # fmt: skip
@with_color
def init(name: str, kind: str) -> int:
    """Write NAME.yaml, a commented spec that builds, and tilegen.schema.json for editors. Overwrites nothing.

    NAME is my_kernel where none is given; it may lie in a folder.
    """
    from tilegen.cli.without_spec import init_command

    return init_command(name, kind)


@cli.command(short_help="SPEC to CUDA: check, choose, prove, render.")
@with_specs
@click.option("-o", "--output", default="out", show_default=True, metavar="DIR", help="Where to write; - is stdout.")
@with_spec_options
@click.option("--compile", "compiles", is_flag=True, help="Compile for the arch, without a GPU, and report resources.")
@click.option("--check", "checks", is_flag=True, help="Write nothing; say which outputs are stale, with exit code 1.")
@click.option("--watch", "watches", is_flag=True, help="Build again whatever changes, until Ctrl-C.")
@with_tuned
@with_manner
@with_color
def build(
    specs: tuple[str, ...], output: str, arch: str | None, settings: dict[str, int | float], compiles: bool,
    checks: bool, watches: bool, **manner: Any,
) -> int:  # fmt: skip
    """Check, choose, prove and render: SPEC becomes DIR/<kernel>.cu, its launcher .h, and .json.

    All specs are built before the first file is written. If one of them fails, DIR stays as it was. SPEC may be -,
    standard input.
    """
    share_cores(specs, manner["jobs"])
    from tilegen.cli.building import BuildWishes, build_command

    if output == "-" and (len(specs) > 1 or checks or watches or (manner["form"] == "json" and is_typed("form"))):
        raise click.UsageError("-o - prints one kernel: it takes one SPEC, and no --check, --watch or --format json")
    if watches and (checks or "-" in specs or (manner["form"] == "json" and is_typed("form"))):
        raise click.UsageError("--watch builds files: it takes no standard input, --check or --format json")
    if output == "-" or watches:
        manner["form"] = "text"  # whatever the configuration says
    wishes = BuildWishes(specs, output, arch, settings, compiles, checks, manner.pop("tuned"))
    return build_command(wishes, read_manner(**manner), watches)


@cli.command(short_help="Run the kernel and compare it with what SPEC means.")
@with_specs
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "gpu", "ptx"]), default="auto", show_default=True,
    help="Where: cpu runs the plan in NumPy, gpu the kernel; auto takes the GPU if there is one.",
)  # fmt: skip
@click.option(
    "--seed", "seeds", type=click.IntRange(0), multiple=True, default=(1, 2, 3), show_default=True, metavar="N",
    help="Seed of the inputs; may be repeated.",
)  # fmt: skip
@click.option(
    "--against", metavar="MODULE:FUNCTION",
    help="Compare with a function too: float64 arrays and params by name to the outputs by name.",
)  # fmt: skip
@with_spec_options
@with_manner
@with_color
def verify(
    specs: tuple[str, ...], device: str, seeds: tuple[int, ...], against: str | None, arch: str | None,
    settings: dict[str, int | float], **manner: Any,
) -> int:  # fmt: skip
    """Prove SPEC's kernel, then run it over several inputs and compare every byte with what SPEC means.

    SPEC may be -, standard input.
    """
    share_cores(specs, manner["jobs"])
    from tilegen.cli.verifying import VerifyWishes, verify_command

    return verify_command(VerifyWishes(specs, device, seeds, arch, settings, against), read_manner(**manner))


@cli.command(short_help="What was chosen, at what cost, and why.")
@with_one_spec
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "svg", "html"]), default="text", show_default=True,
    help="json prints JSON on stdout, errors too; svg is a picture for documents, html the page of `tilegen view`.",
)  # fmt: skip
@click.option("--summary", "is_short", is_flag=True, help="Ten lines.")
@click.option("--op", "only", type=click.IntRange(1), metavar="N", help="Op N alone.")
@click.option("--all", "shows_all", is_flag=True, help="Also variants that cannot do an op, and accesses at edges.")
@click.option("--access", type=click.IntRange(1), metavar="N", help="The lanes, banks and words of access N alone.")
@click.option("--events", is_flag=True, help="What roles do and wait for in one CTA, or cluster: a drawing, a table.")
@click.option("--rows", type=click.IntRange(1, 100_000), metavar="N", help="With --events: so many rows (30).")
@click.option("--measured", metavar="FILE", help="With --events: the waits that `tilegen trace` measured, beside them.")
@click.option("--compile", "compiles", is_flag=True, help="Add registers, shared memory, spills and occupancy.")
@click.option("--resolved", is_flag=True, help="Print SPEC itself, every choice written out: it builds the same bytes.")
@click.option("--expanded", is_flag=True, help="Print the tile ops that SPEC is, as a spec: it builds the same kernel.")
@with_pass
@with_spec_options
@with_jobs
@with_color
def explain(
    spec: str, form: str, only: int | None, shows_all: bool, access: int | None, events: bool, rows: int | None,
    compiles: bool, resolved: bool, expanded: bool, is_short: bool, **of_spec: Any,
) -> int:  # fmt: skip
    """Say what was chosen for SPEC, at what cost, and why nothing else was.

    SPEC may be -, standard input.
    """
    from tilegen.cli.explaining import (
        ExplainWishes,
        PageWishes,
        events_command,
        expand_command,
        explain_command,
        resolve_command,
        summary_command,
    )

    wishes = ExplainWishes(spec, **of_spec)
    if (resolved or expanded or is_short) and not is_typed("form"):
        form = "text"  # whatever the configuration says
    if (only is not None or shows_all) and (
        form != "text" or is_short or resolved or expanded or events or access is not None
    ):
        option = "--op" if only is not None else "--all"
        raise click.UsageError(f"{option} is of the page that explain prints, and of no other form of it")
    if is_short or form in ("svg", "html"):
        others = (access, rows, wishes.measured, events, compiles, resolved, expanded, is_short and form != "text")
        if any(others):
            option = "--summary" if is_short else f"--format {form}"
            raise click.UsageError(f"{option} stands alone: it is about all of SPEC")
        if is_short:
            return summary_command(wishes)
        from tilegen.cli.viewing import picture_command

        return picture_command(wishes, form)
    if resolved and expanded:
        raise click.UsageError("--resolved prints SPEC with its own ops, --expanded with tile ops: take one of them")
    if (resolved or expanded) and (access is not None or compiles or form != "text"):
        option = "--resolved" if resolved else "--expanded"
        raise click.UsageError(f"{option} prints a spec, in YAML: it takes no --access, --compile or --format json")
    if (rows is not None or wishes.measured) and not events:
        raise click.UsageError("--rows and --measured say what --events prints")
    if events and (resolved or expanded or compiles or access is not None):
        raise click.UsageError("--events stands without --access, --compile, --resolved and --expanded")
    if events:
        return events_command(wishes, form, rows or 30)
    if resolved or expanded:
        return (resolve_command if resolved else expand_command)(wishes)
    return explain_command(wishes, PageWishes(form, access, compiles, shows_all, only))


cli.add_command(bench)
cli.add_command(tune)
cli.add_command(trace)


@cli.command(short_help="A layout: described, located, converted, drawn.")
@click.argument("text", metavar="TEXT")
@click.option("--shape", metavar="8,64", help="The logical shape; default: one dimension for each shard iter.")
@click.option("--at", multiple=True, metavar="I,J", help="Where an element lies, every copy; may be repeated.")
@click.option("--slice", "region", metavar="0:8,0:16", help="The layout of a part of the shape.")
@click.option("--canonical", is_flag=True, help="The shortest form of the same map.")
@click.option("--fuse", type=click.Choice(["warp", "warpgroup", "cta"]), help="With --canonical: fuse thread axes.")
@click.option("--group", metavar="64,64", help="Split iters so that each dimension has its own.")
@click.option("--to", type=click.Choice(["linear", "cute", "tile", "gluon"]), help="The same map in another notation.")
@click.option("--dtype", metavar="NAME", help="The element type, for bytes, banks and lines.")
@click.option("--banks", is_flag=True, help="The banks of shared memory that the elements lie in.")
@click.option("--access", type=click.Choice(["column", "row", "ldmatrix"]), help="With --banks: a warp's wavefronts.")
@click.option("--draw", is_flag=True, help="A picture: the lane, register, address or bank of each element.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "svg"]), default="text", show_default=True,
    help="json prints JSON on stdout, errors too; svg is a picture for documents.",
)  # fmt: skip
@with_color
def layout(form: str, **wishes: Any) -> int:
    """Describe the layout TEXT, in tilegen's or CuTe's notation, or show what the options ask for.

    --slice, --canonical and --group change the layout, in this order; --at, --to, --banks and --draw show the result.
    """
    from tilegen.cli.laying_out import LayoutWishes, layout_command

    return layout_command(LayoutWishes(**wishes), form)


@cli.command(short_help="A page to look at: a layout, or a spec with its choices.")
@click.argument("what", required=False, metavar="[SPEC | LAYOUT]")
@click.option("--shape", metavar="8,64", help="Of a LAYOUT: the logical shape; default: that of the layout.")
@click.option(
    "-o", "output", metavar="PAGE",
    help="The file to write, - for stdout.  [default: KERNEL.html, or layout.html]",
)  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@with_pass
@with_spec_options
@with_color
def view(what: str | None, **options: Any) -> int:
    """Write one self-contained HTML page: layouts, banks and tiled products to look at and to edit.

    Of a SPEC (a .yaml file, or -, standard input) it also shows memories, choices with what was rejected, roles over
    time, and the CUDA text linked with both. A LAYOUT is a text, as `tilegen layout` takes it. Without either, presets.
    """
    from tilegen.cli.viewing import ViewWishes, view_command

    return view_command(ViewWishes(what, **options))


@cli.command(short_help="What an error code means.")
@click.argument("code", required=False, shell_complete=complete_codes)
@with_color
def rule(code: str | None) -> int:
    """Explain the error CODE with an example; without CODE, list all of them."""
    from tilegen.cli.without_spec import rule_command

    return rule_command(code)


@cli.command(short_help="The JSON Schema of specs.")
@with_color
def schema() -> int:
    """Print the JSON Schema of specs, for editors that complete and check YAML.

    With `tilegen schema > tilegen.schema.json` beside a spec, this line, best the first of the spec, tells editors that
    have a YAML language server:

    \b
    # yaml-language-server: $schema=tilegen.schema.json
    """
    from tilegen.cli.without_spec import schema_command

    return schema_command()


@cli.command(short_help="What this machine offers tilegen.")
@with_format
@with_color
def doctor(form: str) -> int:
    """Report what this machine offers: packages, compilers, GPU, tools. Needs none of them."""
    from tilegen.cli.without_spec import doctor_command

    return doctor_command(form)


@cli.command(short_help="What makes a shell complete tilegen's commands.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@with_color
def completion(shell: str) -> int:
    """Print a script for SHELL that completes commands, options, files and error codes.

    \b
    bash, in ~/.bashrc: eval "$(tilegen completion bash)"
    zsh, in ~/.zshrc:   eval "$(tilegen completion zsh)"
    fish:               tilegen completion fish > ~/.config/fish/completions/tilegen.fish
    """
    from tilegen.cli.without_spec import completion_command

    return completion_command(shell, cli)
