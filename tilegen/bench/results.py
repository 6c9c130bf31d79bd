"""What a bench found, as frozen data and as JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.bench.accuracy import Accuracy
from tilegen.bench.measuring import Spread, gb_per_s
from tilegen.bench.peers import Absent
from tilegen.errors import Diagnostic


@dataclass(frozen=True)
class Row:
    """One candidate: microseconds of a launch, and t / t of the kernel round by round (1 for the kernel itself).

    ``accuracy``: how near to float64 it is, of a product.
    """

    name: str
    us: Spread
    ratio: Spread
    detail: str = ""
    accuracy: Accuracy | None = None


@dataclass(frozen=True)
class Reached:
    """What a bare loop of one instruction did in the same run: operations (a multiplication, an addition) a second."""

    name: str
    tflops: float


@dataclass(frozen=True)
class Result:
    """One kernel beside its peers. ``moved_bytes``: each input read once and each output written once.

    Of a product, ``flops`` are its multiplications and additions, ``reached`` the ceilings for them, the highest first.
    Of a program, ``passes`` are those that were launched, and ``workspace_bytes`` what a launch takes beside arrays:
    traffic there is no part of ``moved_bytes``. ``losses``: what ptxas spoils of the kernels (warnings TG493).
    """

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
    flops: int = 0
    reached: tuple[Reached, ...] = ()
    passes: tuple[str, ...] = ()
    workspace_bytes: int = 0
    losses: tuple[Diagnostic, ...] = ()


def spell_rate(rate: float) -> str:
    """A rate with the digits that mean something.

    >>> spell_rate(4066.6), spell_rate(2.5333)
    ('4067', '2.53')
    """
    return f"{rate:.{0 if rate >= 100 else 1 if rate >= 10 else 2}f}"


def tflops(result: Result, row: Row) -> float:
    """10**12 operations of a product in a second."""
    return result.flops / row.us.median / 1e6


def spell_speed(result: Result, row: Row) -> str:
    """How fast a candidate is, with its unit."""
    if result.flops:
        return f"{spell_rate(tflops(result, row))} TFLOP/s"
    return f"{spell_rate(gb_per_s(result.moved_bytes, row.us.median))} GB/s"


def of_copy(result: Result, row: Row) -> float:
    """Bytes in a second over those of the device's own copy of 1 GiB, measured in the same run."""
    return gb_per_s(result.moved_bytes, row.us.median) / result.ceiling_gb_per_s


def of_ceiling(result: Result, row: Row) -> float:
    """The share of what the device reached in the same run: of a product, in its fastest bare loop, else in a copy.

    0 where no loop could be measured.
    """
    if not result.flops:
        return of_copy(result, row)
    return tflops(result, row) / result.reached[0].tflops if result.reached else 0.0


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
    } | _product_data(result) | _program_data(result) | _loss_data(result)  # fmt: skip


def _product_data(result: Result) -> dict[str, Any]:
    if not result.flops:
        return {}
    return {"flops": result.flops, "reached_tflops": {r.name: round(r.tflops, 1) for r in result.reached}}


def _program_data(result: Result) -> dict[str, Any]:
    if not result.passes:
        return {}
    return {"passes": list(result.passes), "workspace_bytes": result.workspace_bytes}


def _loss_data(result: Result) -> dict[str, Any]:
    said = [f"{d.mark}: {d.message}" if d.mark else d.message for d in result.losses]
    return {"losses": said} if said else {}


def _timing(result: Result, row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {
        "median_us": round(row.us.median, 3),
        "quartiles_us": [round(row.us.lower, 3), round(row.us.upper, 3)],
        "gb_per_s": round(gb_per_s(result.moved_bytes, row.us.median), 1),
    }
    if result.flops:
        found["tflops"] = round(tflops(result, row), 2)
    if not result.flops or result.reached:
        found["of_ceiling"] = round(of_ceiling(result, row), 4)
    if row.accuracy is not None:
        found |= {"rms_error": row.accuracy.rms, "largest_error": row.accuracy.largest}
    return found


def _comparison(row: Row) -> dict[str, Any]:
    quartiles = [round(row.ratio.lower, 4), round(row.ratio.upper, 4)]
    return {"ratio": round(row.ratio.median, 4), "ratio_quartiles": quartiles} | (
        {"detail": row.detail} if row.detail else {}
    )
