"""tilegen bench: kernels timed beside what a user would call instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import click

from tilegen import gpu
from tilegen.bench import (
    BenchWishes,
    Ready,
    Result,
    UserFunction,
    bench_built,
    choose_peers,
    describe_ceilings,
    group_of,
    nearest_peer,
    open_session,
    prepare_kernel,
    result_data,
    result_text,
    svg_picture,
)
from tilegen.cli.console import current_color, print_data, print_diagnostic, print_json
from tilegen.cli.functions import find_function, names_function
from tilegen.cli.options import Manner
from tilegen.cli.several import do_all, read_specs, sort_out, take_tuned, try_all
from tilegen.cli.sharing import open_gpu
from tilegen.errors import EnvironmentLack, TilegenError
from tilegen.pipeline import Built, BuiltProgram, build, load
from tilegen.verifying import HERE


@dataclass(frozen=True)
class BenchSpecs:
    """What is measured: specs as they were named, what was set, and a file of results of which the best is taken."""

    specs: Sequence[str]
    arch: str | None = None
    settings: Mapping[str, int | float] = field(default_factory=dict)
    tuned: str = ""


def bench_command(asked: BenchSpecs, wishes: BenchWishes, manner: Manner) -> int:
    """Measure every spec, and print each result as it comes, or one picture.

    All are built, compiled and compared before the first is timed, several side by side; nothing runs beside what is
    timed. Raises SeveralFailed, EnvironmentLack without a GPU, and InputError TG604 for a function that is not there.
    Of specs that cannot be loaded it says so, with a GPU or without one.
    """
    named = [name for name in wishes.against if names_function(name)]
    functions = tuple(UserFunction(name, find_function(name)) for name in named)
    others = tuple(name for name in wishes.against if name not in named)
    wishes = replace(wishes, against=others, functions=functions)
    try:
        choose_peers(wishes.against)
    except KeyError as error:
        name = str(error.args[0])
        wanted = "write module:function" if ":" in name else f"did you mean {nearest_peer(name)!r}?"
        message = f"{name[:40]!r} is no peer; {wanted}"
        raise click.BadParameter(message, param_hint="'--against'") from None
    arch, settings, form, jobs = asked.arch, asked.settings, manner.form, manner.jobs
    sources = take_tuned(read_specs(asked.specs), asked.tuned, arch, settings)
    names = tuple(sources)

    def make(name: str, processes: int = 1) -> Built | BuiltProgram:
        return build(sources[name], arch, settings, processes)

    def prepare(name: str, access: gpu.GpuAccess) -> Ready:
        return prepare_kernel(make(name), wishes.seed, access)

    with open_gpu(manner, len(names)) as (count, access, tend):
        try:
            access.require(None)
        except EnvironmentLack:  # what is wrong with a spec is said anywhere
            do_all(names, lambda name: load(sources[name], arch, settings), manner, _show_nothing)
            raise
        found: dict[str, Ready | TilegenError] = {}
        if access is not HERE:
            ahead = try_all(names, partial(prepare, access=access), replace(manner, jobs=count), _show_nothing, tend)
            found = dict(zip(names, ahead, strict=True))
    good = tuple(name for name in names if not isinstance(found.get(name), TilegenError))
    with open_session() as session:

        def time(name: str) -> Result:
            ready = found.get(name) or Ready(make(name, jobs))
            assert isinstance(ready, Ready)
            return bench_built(session, ready.built, replace(wishes, is_verified=ready.is_verified))

        def show(result: Result) -> None:
            _warn(result)
            if form == "text":
                print_data(("\n" if shown else "") + result_text(result))
                shown.append(result.kernel)

        shown: list[str] = []
        timed = try_all(good, time, replace(manner, jobs=1), show)
    results = sort_out([*(e for e in found.values() if isinstance(e, TilegenError)), *timed], manner)
    if form != "text":
        print_results(results, form)
    return 0


def _warn(result: Result) -> None:
    for loss in result.losses:
        print_diagnostic(loss, current_color())


def _show_nothing(ready: object) -> None:
    """What is ready says so once it has been timed."""


def print_results(results: Sequence[Result], form: str) -> None:
    """Results as JSON or SVG on stdout."""
    if form == "json":
        print_json({"results": [result_data(result) for result in results]})
    else:
        picture = svg_picture([group_of(result) for result in results], describe_ceilings(results))
        print_data(picture.rstrip("\n"))
