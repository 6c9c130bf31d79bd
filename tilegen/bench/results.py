"""What a bench found, as frozen data and as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.bench.measuring import Spread, gb_per_s
from tilegen.bench.peers import Absent


@dataclass(frozen=True)
class Row:
    """One candidate: microseconds of a launch, and t / t of the kernel round by round (1 for the kernel itself)."""

    name: str
    us: Spread
    ratio: Spread
    detail: str = ""


@dataclass(frozen=True)
class Result:
    """One kernel beside its peers. ``moved_bytes``: each input read once and each output written once."""

    kernel: str
    spec: str
    arch: str
    device: str
    params: Mapping[str, int]
    source_sha256: str
    meaning: str
    checked: str
    moved_bytes: int
    launches: int
    rounds: int
    sets: int
    is_cold: bool
    ceiling_gb_per_s: float
    mine: Row
    peers: tuple[Row, ...]
    absent: tuple[Absent, ...]


def spell_rate(rate: float) -> str:
    """A rate with the digits that mean something.

    >>> spell_rate(4066.6), spell_rate(2.5333)
    ('4067', '2.53')
    """
    return f"{rate:.{0 if rate >= 100 else 1 if rate >= 10 else 2}f}"


def of_ceiling(result: Result, row: Row) -> float:
    """Bytes in a second over those of the device's own copy of 1 GiB, measured in the same run."""
    return gb_per_s(result.moved_bytes, row.us.median) / result.ceiling_gb_per_s


def result_data(result: Result) -> dict[str, Any]:
    """A result as JSON data; times in microseconds, ratios t_other / t (above 1 the kernel is faster)."""
    return {
        "kernel": result.kernel, "spec": result.spec, "arch": result.arch, "device": result.device,
        "params": dict(result.params), "source_sha256": result.source_sha256, "meaning": result.meaning,
        "correct": True, "checked": result.checked, "bytes": result.moved_bytes, "launches": result.launches,
        "rounds": result.rounds, "sets": result.sets, "cold": result.is_cold,
        "ceiling_gb_per_s": round(result.ceiling_gb_per_s, 1), **_timing(result, result.mine),
        "peers": {row.name: _timing(result, row) | _comparison(row) for row in result.peers},
        "absent": {peer.name: peer.reason for peer in result.absent},
    }  # fmt: skip


def _timing(result: Result, row: Row) -> dict[str, Any]:
    return {
        "median_us": round(row.us.median, 3),
        "quartiles_us": [round(row.us.lower, 3), round(row.us.upper, 3)],
        "gb_per_s": round(gb_per_s(result.moved_bytes, row.us.median), 1),
        "of_ceiling": round(of_ceiling(result, row), 4),
    }


def _comparison(row: Row) -> dict[str, Any]:
    quartiles = [round(row.ratio.lower, 4), round(row.ratio.upper, 4)]
    return {"ratio": round(row.ratio.median, 4), "ratio_quartiles": quartiles} | (
        {"detail": row.detail} if row.detail else {}
    )
