"""Which tiles a permute takes: every candidate estimated, the shortest time wins; pins leave less to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tilegen.arch import Arch
from tilegen.decisions import TILE, Candidate, Choice, Cost
from tilegen.errors import Diagnostic, SpecError
from tilegen.index import bound
from tilegen.ops.permute.dims import Dims, is_launchable
from tilegen.ops.permute.model import Estimate, describe_work, estimate
from tilegen.ops.permute.tiles import (
    MAX_CANDIDATES,
    MAX_TILE_BYTES,
    TileChoice,
    list_boxes,
    next_power,
    sizes_of,
)
from tilegen.spec.data import WholeCall

TILE_PINS = ("turn", "layout")  # fields that say something of a tile in shared memory, and so pin 'tiled'
_SHOWN = 6


def choose_tiles(
    call: WholeCall, dims: Dims, elem_bytes: int, defaults: dict[str, int], arch: Arch
) -> tuple[TileChoice, tuple[Choice, ...]]:
    """The candidate with the shortest estimated time, and what was chosen from."""
    sizes = sizes_of(dims, defaults)
    every = list_estimates(dims, elem_bytes, defaults, arch)
    ranked = every[:MAX_CANDIDATES]
    pinned = _pin(call, dims, sizes, [c for c, _ in every], elem_bytes, arch)
    if pinned is not None:
        work = describe_work(dims, sizes, pinned.variant, pinned.box, elem_bytes, call.fields.turn)
        ranked = [(work.choose(pinned.threads), estimate(work, pinned.threads, arch))]
    best = ranked[0][0]
    shortest = f"the shortest of {len(every)} estimates, to a nanosecond, the smaller tile of equals"
    return best, (_dims_choice(dims), _tile_choice(ranked, "pinned" if pinned else shortest))


def rank_candidates(
    dims: Dims, elem_bytes: int, defaults: dict[str, int], arch: Arch
) -> list[tuple[TileChoice, Estimate]]:
    """The candidates with their estimates, the shortest time first, up to MAX_CANDIDATES of them."""
    return list_estimates(dims, elem_bytes, defaults, arch)[:MAX_CANDIDATES]


def list_estimates(
    dims: Dims, elem_bytes: int, defaults: dict[str, int], arch: Arch
) -> list[tuple[TileChoice, Estimate]]:
    """Every candidate with its estimate, the shortest time first; ties go to the smaller tile, then fewer threads.

    Those that need more CTAs than can be launched are left out while there are others.
    """
    sizes = sizes_of(dims, defaults)
    boxes = list_boxes(dims, elem_bytes, defaults)
    boxes = tuple(b for b in boxes if is_launchable(dims, b[1])) or boxes
    found = []
    for variant, box in boxes:
        work = describe_work(dims, sizes, variant, box, elem_bytes)
        for threads in work.list_threads():
            found.append((work.choose(threads), estimate(work, threads, arch)))
    return sorted(found, key=lambda f: (round(f[1].seconds * 1e9), f[0].elems, f[0].threads))


def _pin(
    call: WholeCall, dims: Dims, sizes: Sequence[int], ranked: Sequence[TileChoice], elem_bytes: int, arch: Arch
) -> TileChoice | None:  # fmt: skip
    """What the call pins, completed from the best candidate that agrees with it; None where it pins nothing.

    A box that is no candidate's gets the threads with the shortest estimate.
    """
    fields = call.fields
    variant = "tiled" if any(getattr(fields, name) != "auto" for name in TILE_PINS) else fields.variant
    if variant == "auto" and fields.box is None and fields.threads is None:
        return None
    box = tuple(fields.box) if fields.box is not None else None
    if box is not None and len(box) != len(dims.dims):
        message = f"the box has {len(box)} extents, but the permute has {len(dims.dims)} dimensions once merged"
        raise SpecError(Diagnostic("TG302", message, call.mark_of("box"), "`tilegen explain` lists them under 'dims'"))
    if box is not None:
        _check_box(call, dims, box)
    agreeing = [
        c for c in ranked
        if variant in ("auto", c.variant) and box in (None, c.box) and fields.threads in (None, c.threads)
    ]  # fmt: skip
    if agreeing:
        return agreeing[0]
    whole = [c.variant for c in ranked if c.variant != "scalar"]  # what a box is for that is no candidate's
    likely = next(iter(whole), ranked[0].variant) if variant == "auto" else variant
    pinned = TileChoice(likely, box or ranked[0].box, fields.threads or ranked[0].threads)
    if pinned.variant == "tiled" and prod(pinned.box) * elem_bytes > MAX_TILE_BYTES:
        bytes_ = prod(pinned.box) * elem_bytes
        message = f"a tile of {list(pinned.box)} takes {bytes_} bytes; {MAX_TILE_BYTES} are the most"
        raise SpecError(Diagnostic("TG302", message, call.mark_of("box"), "take a smaller box"))
    if fields.threads is not None or box is None:
        return pinned
    work = describe_work(dims, sizes, likely, box, elem_bytes, fields.turn)
    return replace(pinned, threads=min(work.list_threads(), key=lambda n: estimate(work, n, arch).seconds))


def _check_box(call: WholeCall, dims: Dims, box: Sequence[int]) -> None:
    """Raises SpecError (TG302) for a box that a smaller power of two could replace: the rest lies past the end."""
    for k, (b, dim) in enumerate(zip(box, dims.dims, strict=True)):
        most = bound(dim.extent) - 1
        if b > next_power(most):
            message = f"the box takes {b} of dimension {k}, which has {most} elements"
            raise SpecError(Diagnostic("TG302", message, call.mark_of("box"), f"take at most {next_power(most)}"))


def _dims_choice(dims: Dims) -> Choice:
    picked = [{"extent": _plain(d.extent), "src": _plain(d.strides[0]), "dst": _plain(d.strides[1])} for d in dims.dims]
    why = "dimensions of 1 are dropped and neighbours that both arrays keep together are one; strides in elements"
    return Choice("dims", picked, (), why)


def _plain(x: Any) -> Any:
    return x if isinstance(x, int) else str(x)


def _tile_choice(ranked: Sequence[tuple[TileChoice, Estimate]], why: str) -> Choice:
    best = ranked[0][0]
    candidates = tuple(
        Candidate(_value(c, e), Cost(e.sectors, e.wavefronts, e.instructions), _verdict(e, ranked[0][1], c is best))
        for c, e in ranked[:_SHOWN]
    )
    return Choice(TILE, say_tile(best), candidates, f"{why}; {_say_bound(ranked[0][1])}")


def say_tile(c: TileChoice) -> dict[str, Any]:
    """The fields that pin a choice."""
    turn = {"turn": c.turn} if c.variant == "tiled" else {}
    return {"variant": c.variant, "box": list(c.box), "threads": c.threads, **turn}


def _value(c: TileChoice, e: Estimate) -> dict[str, Any]:
    return say_tile(c) | {"us": round(e.seconds * 1e6, 1)}


def _verdict(e: Estimate, best: Estimate, is_picked: bool) -> str:
    return "picked" if is_picked else f"{e.seconds / best.seconds:.2f} of its time"


def _say_bound(e: Estimate) -> str:
    return (
        f"{e.seconds * 1e6:.1f} us, bound by {e.bound_by}; accesses of {e.src_elems} and {e.dst_elems} elements, "
        f"{e.in_flight_bytes} bytes in flight a multiprocessor"
    )
