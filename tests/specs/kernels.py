"""Every spec of specs/, built once: what the tests of this folder run over. A new spec needs no line of test code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random

import pytest

from benchmarks.gpu_files import has_passes
from tests.meaning import MEANINGS
from tests.session import once
from tilegen.arch import ARCHES
from tilegen.cost.accesses import Access
from tilegen.cost.compiled import compiled_accesses
from tilegen.index import bound, substitute
from tilegen.pipeline import Built, Source, build, describe_build, load
from tilegen.plan import Launch, Plan
from tilegen.planner import plan_spec
from tilegen.render import render
from tilegen.spec.data import Spec
from tilegen.spec.outline import launch_of

ROOT = Path(__file__).parents[2]
ALL_SPECS = sorted((ROOT / "specs").glob("*.yaml"))
PROGRAMS = [p for p in ALL_SPECS if has_passes(p.read_text(encoding="utf-8"))]  # tests/programs has these
SPECS = [path for path in ALL_SPECS if path not in PROGRAMS]
# Their proofs take longest, and a shorter one of each family stays: `make slow` has these.
LONG = frozenset({
    "attention", "attention_hopper", "attention_varlen",
    "blocks_so_far", "conv3x3", "gemm_batched", "gemm_bias_gelu", "gemm_choices", "gemm_double",
    "gemm_f32", "gemm_few_tiles", "gemm_fp8", "gemm_int8_rows", "gemm_mma", "gemm_odd", "gemm_pairs",
    "gemm_residual", "gemm_silu", "gemm_step1", "gemm_step4", "gemm_w8a16", "hgemm_cluster", "hgemm_persistent",
    "hgemm_ring", "hgemm_shared_k", "hgemm_step4", "permute_auto", "permute_ring", "row_statistics",
    "rows_any_size", "rows_auto", "sgemm_small", "sgemm_step1", "stencil", "tiles_by_turns", "tiles_resident",
    "transpose_bytes", "transpose_f16", "transpose_tma", "transpose_u8",
})  # fmt: skip


def every_spec(test: Callable[..., None]) -> Callable[..., None]:
    """The test over every spec, shuffled by its file: processes that go on side by side then rarely wait for what the
    other is making, and find half of it made. Of two that go the same way round, one ends up behind the other."""
    order = Random(test.__module__.removeprefix("tests.")).sample(SPECS, len(SPECS))
    cases = [pytest.param(path, marks=pytest.mark.slow if path.stem in LONG else (), id=path.stem) for path in order]
    marked: Callable[..., None] = pytest.mark.parametrize("path", cases)(test)
    return marked


@once
def build_spec(path: Path) -> Built:
    """The proved kernel of a spec, for its own arch."""
    return build(path)


@dataclass(frozen=True)
class Draft:
    """A kernel whose proofs were not made: for what the text alone tells."""

    spec: Spec
    plan: Plan
    source: str


def draft(source: Source, arch: str | None = None, params: dict[str, int | float] | None = None) -> Draft:
    """What ``build`` would print. Where it is the text of a proved kernel, nothing is left to prove."""
    spec = load(source, arch, params)
    plan = plan_spec(spec)
    return Draft(spec, plan, render(plan))


def proved_draft(path: Path) -> Draft:
    """The text of a spec's proved kernel."""
    own = build_spec(path)
    return Draft(own.spec, own.plan, own.source)


@once
def draft_spec(path: Path, arch: str) -> Draft:
    """The text of a spec for an arch: that of its proved kernel where the arch is its own."""
    own = proved_draft(path)
    return own if own.spec.arch == arch else draft(path, arch)


@once
def draft_sized(path: Path, sizes: tuple[tuple[str, int], ...]) -> Draft:
    """The text of a spec with these values of its params."""
    return draft(path, params=dict(sizes))


# Sizes of permutes whose own arrays have hundreds of megabytes.
SMALL: dict[str, dict[str, int]] = {
    "permute_0213": {"B": 1, "T": 1024}, "transpose": {"M": 2048, "N": 2048}, "transpose_f16": {"M": 2048, "N": 2048},
    "transpose_u8": {"M": 2048, "N": 2048},
}  # fmt: skip


@once
def small_spec(path: Path) -> Draft:
    """The kernel at a size at which all its CTAs and trips can be looked at: its own, or one of tests/meaning.py."""
    found = draft_sized(path, tuple(SMALL[path.stem].items())) if path.stem in SMALL else proved_draft(path)
    for sizes in reversed(MEANINGS[path.stem].sizes if path.stem in MEANINGS else ()):
        if count_lanes(found) > MOST_LANES:
            found = draft_sized(path, tuple(sizes.items()))
    assert count_lanes(found) <= MOST_LANES, f"{path.stem} is large: give it a small size in tests/meaning.py"
    return found


MOST_LANES = 1 << 26


def count_lanes(kernel: Draft) -> int:
    """Lanes of all warps that access shared or global memory, over all CTAs and trips."""
    launch = launch_of(kernel.spec)
    return prod(launch.grid) * launch.threads * sum(prod(most_trips(a, launch)) for a in compiled_accesses(kernel.plan))


def most_trips(a: Access, launch: Launch) -> list[int]:
    """Of each loop around an access, as many trips as any CTA can make; its conditions say which ones it makes."""
    counts = (substitute(n, dict(launch.params)) for _, n in a.loops)
    return [n if isinstance(n, int) else bound(n) - 1 for n in counts]


def build_again(source: Source, proved: Built) -> Built:
    """``build``, where the plan is that of a proved kernel: it is not proved twice."""
    again = draft(source)
    if again.plan.roles != proved.plan.roles:
        return build(source)
    manifest = describe_build(again.spec, again.plan, again.source, proved.proof)
    return Built(again.source, manifest, again.plan, again.spec, proved.proof)


def needs(path: Path, arch: str) -> bool:
    """Whether a spec is for another generation than ``arch``: it uses what that has not, or what one alone has."""
    own = ARCHES[build_spec(path).spec.arch]
    alone = own.name.endswith("a") and own.name != arch  # sm_90a: no other runs its code
    return alone or own.compute_capability > ARCHES[arch].compute_capability
