"""tilegen bench: kernels timed beside what a user would call instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import click

from tilegen import gpu
from tilegen.bench import (
    BenchWishes,
    Result,
    Session,
    UserFunction,
    bench_built,
    choose_peers,
    describe_ceilings,
    group_of,
    nearest_peer,
    open_session,
    result_data,
    result_text,
    svg_picture,
)
from tilegen.cli.building import do_all
from tilegen.cli.console import print_data, print_json
from tilegen.cli.functions import find_function, names_function
from tilegen.cli.reading import Word
from tilegen.errors import EnvironmentLack
from tilegen.pipeline import build, load


def bench_command(
    specs: Sequence[str], form: str, wishes: BenchWishes, arch: str | None, settings: Mapping[str, int | float]
) -> int:
    """Measure every spec and print one picture. Raises SeveralFailed, or EnvironmentLack without a GPU.

    Of specs that cannot be loaded it says so, with or without one. Raises InputError TG604 for a function that is not
    there.
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
    try:
        gpu.require_gpu()
    except EnvironmentLack:
        do_all(specs, lambda _, source: load(source, arch, settings))  # what is wrong with a spec is said anywhere
        raise
    with open_session() as session:
        results = do_all(specs, lambda _, source: _bench_spec(session, source, wishes, arch, settings))
    print_results(results, form)
    return 0


def _bench_spec(
    session: Session, source: Word, wishes: BenchWishes, arch: str | None, settings: Mapping[str, int | float]
) -> Result:
    return bench_built(session, build(source, arch, settings), wishes)


def print_results(results: Sequence[Result], form: str) -> None:
    """Results as text, JSON or SVG on stdout."""
    if form == "json":
        print_json({"results": [result_data(result) for result in results]})
    elif form == "svg":
        picture = svg_picture([group_of(result) for result in results], describe_ceilings(results))
        print_data(picture.rstrip("\n"))
    else:
        print_data("\n\n".join(result_text(result) for result in results))
