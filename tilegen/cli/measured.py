"""The commands that measure on GPUs: ``bench``, ``tune`` and ``trace``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from tilegen.cli.options import (
    BenchCommand,
    Manner,
    share_cores,
    with_color,
    with_data_seed,
    with_jobs,
    with_one_spec,
    with_pass,
    with_picture_format,
    with_spec_options,
    with_specs,
    with_tuned,
)


@click.command(cls=BenchCommand, short_help="Time the kernel beside what would be called instead.")
@with_specs
@click.option(
    "--against", multiple=True, metavar="NAME",
    help="Only these peers, beside the copy where nothing is multiplied: cublas, torch, torch.compile, cupy, triton; "
    "or module:function of your own, over torch tensors by the names of the spec's arrays, as it stands and compiled. "
    "Several may follow.  [default: all named but torch.compile, which is slow to start]",
)  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 10_000), default=30, show_default=True, help="Samples of each.")
@with_data_seed
@with_picture_format
@with_tuned
@with_spec_options
@with_jobs
@with_color
def bench(
    specs: tuple[str, ...], against: tuple[str, ...], rounds: int, seed: int, form: str, arch: str | None,
    settings: dict[str, int | float], **options: Any,
) -> int:  # fmt: skip
    """Check SPEC's kernel on the GPU, then time it: bytes in a second, and ratios to the device's copy and to peers.

    Of a gemm: operations in a second beside bare loops of products, and errors beside those of cuBLAS.

    All run in turns in one process, on random data, over buffers larger than the L2. A ratio is the peer's time over
    the kernel's: above 1, the kernel is faster. A peer that cannot take part is named as absent, with the reason. SPEC
    may be -, standard input. Several are all built before the first is timed, and nothing runs beside it.
    """
    manner = Manner(form, jobs=options["jobs"])
    share_cores(specs, manner.jobs)
    from tilegen.bench import BenchWishes
    from tilegen.cli.benching import BenchSpecs, bench_command

    asked = BenchSpecs(specs, arch, settings, options["tuned"])
    return bench_command(asked, BenchWishes(against, rounds, seed), manner)


_SECONDS = {"s": 1, "m": 60, "h": 3600}


def _read_over(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """NAME=V,V,.. of each ``--over``."""
    found: dict[str, tuple[int, ...]] = {}
    for text in given:
        name, equals, values = text.partition("=")
        if not (equals and name.isidentifier() and re.fullmatch(r"\d{1,10}(,\d{1,10})*", values)):
            raise click.BadParameter(f"{text[:40]!r} is not NAME=N,N,.., for example T=64,128")
        if name in found:
            raise click.BadParameter(f"{name} is named twice")
        found[name] = tuple(dict.fromkeys(int(v) for v in values.split(",")))
    return found


def _read_budget(_: click.Context, __: click.Parameter, given: str) -> tuple[float, float]:
    """Seconds, and candidates: ``90s``, ``5m``, ``1h``, ``200`` candidates, or ``all``."""
    if given == "all":
        return float("inf"), float("inf")
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smh]?)", given)
    if not found or (not found[2] and not found[1].isdigit()):
        raise click.BadParameter(f"{given[:40]!r} is not a time, such as 90s, 5m or 1h, a number of candidates, or all")
    if not found[2]:
        return float("inf"), int(found[1])
    return float(found[1]) * _SECONDS[found[2]], float("inf")


@click.command(short_help="Measure SPEC's candidates, and keep the best.")
@with_one_spec
@click.option(
    "--over", multiple=True, metavar="NAME=N,N,..", callback=_read_over,
    help="Try these values of a param that is known when a kernel is built; may be repeated.",
)  # fmt: skip
@click.option(
    "--budget", default="5m", show_default=True, metavar="TIME|N|all", callback=_read_budget,
    help="Until no more candidate begins: 90s, 5m, 1h; or so many candidates.",
)  # fmt: skip
@click.option("-o", "results", default="", metavar="FILE", help="The results.  [default: KERNEL.tune.jsonl]")
@click.option("--write", default="", metavar="FILE", help="Write SPEC with the best written in.")
@click.option("--again", is_flag=True, help="The best few of the results take turns once more, and nothing else does.")
@click.option("--scheduler", default="", metavar="tcp://..", help="The scheduler of dask that has the processes.")
@click.option("--rounds", type=click.IntRange(3, 1000), default=15, show_default=True, help="Samples of each.")
@with_data_seed
@with_picture_format
@with_spec_options
@with_jobs
@with_color
def tune(spec: str, form: str, budget: tuple[float, float], **options: Any) -> int:
    """Build, prove and measure SPEC's candidates on every GPU here, and append each result to a file as it comes.

    Candidates are the values of params that have `choices`, the recipes of a gemm or permute, and then, around the best
    of these, orders of single ops and layouts that are auto. What the file has is not measured again. `build --tuned`,
    `bench --tuned` and `tilegen.compile(.., tuned=)` take the best of this device.

    It needs the extra `tune`. SPEC may be -, standard input.
    """
    from tilegen.cli.tuning import TuneOptions, tune_command
    from tilegen.tuning import TuneWishes

    seconds, candidates = budget
    wishes = TuneWishes(
        options["over"], seconds, candidates, options["scheduler"], options["jobs"], options["rounds"],
        seed=options["seed"], again=options["again"], arch=options["arch"], settings=options["settings"],
    )  # fmt: skip
    return tune_command(TuneOptions(spec, options["results"], form, options["write"]), wishes)


@click.command(short_help="When each wait began and ended: a timeline beside the predicted one.")
@with_one_spec
@click.option(
    "-o", "output", metavar="FILE", help="The file to write, JSON for Perfetto.  [default: KERNEL.trace.json]"
)
@click.option(
    "--device", type=click.Choice(["auto", "gpu", "ptx"]), default="auto", show_default=True,
    help="Where: ptx runs what the compiler makes in NumPy, and counts instead of times; auto takes the GPU if "
    "there is one.",
)  # fmt: skip
@click.option("--ctas", type=click.IntRange(1, 4096), default=32, show_default=True, help="CTAs to trace, at least.")
@click.option(
    "--stamps", type=click.IntRange(16, 1 << 20), default=4096, show_default=True, metavar="N",
    help="Stamps of 8 bytes that each thread which stamps has place for.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, metavar="N", help="Seed of the inputs.")
@with_pass
@with_spec_options
@with_picture_format
@with_jobs
@with_color
def trace(**options: Any) -> int:
    """Prove SPEC's kernel, run it with stamps around waits, copies, products and syncs, and write a timeline.

    FILE opens in Perfetto (ui.perfetto.dev): a row for each role of each CTA, and below it what `explain --events`
    predicts. Every order that the proof claims is compared with the stamps. `explain --events --measured FILE` reads
    it.
    """
    from tilegen.cli.tracing import TraceOptions, trace_command

    return trace_command(TraceOptions(**options))
