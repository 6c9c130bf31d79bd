"""Kernels with stamps on a real GPU: every order of the proof holds in what they stamp."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilegen.arch import ARCHES
from tilegen.gpu.device import probe_device, runs_cubin
from tilegen.pipeline import Built, build
from tilegen.plan import default_values
from tilegen.tracing.orders import check_orders
from tilegen.tracing.running import TraceWishes, trace_built
from tilegen.tracing.timelines import join_readings

DEVICE, WHY_NOT = probe_device()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)]
CASES = {
    "copy_staged": {"M": 4096, "N": 1024}, "hgemm_cluster": {"M": 2048, "N": 1024, "K": 512},
    "attention_hopper": {"BH": 8, "S": 1000}, "broadcast_cluster": {}, "hgemm_ring": {}, "gemm_mma": {},
}  # fmt: skip


def built_of(name: str) -> Built:
    built = build(f"specs/{name}.yaml", params=CASES[name])
    assert isinstance(built, Built) and DEVICE is not None
    arch = built.plan.arch
    if not runs_cubin(DEVICE.compute_capability, arch) and arch not in ARCHES:
        pytest.skip(f"no {arch}")
    return built


@pytest.mark.parametrize("name", CASES)
def test_every_order_holds(name: str) -> None:
    traced = trace_built(built_of(name), TraceWishes())
    orders = traced.orders
    assert orders.hold, orders.broken[:3]
    least = 70 if name == "hgemm_ring" else 100  # which has fewer orders
    assert orders.by_clock + orders.by_timer > least and not traced.full
    assert default_values(traced.built.spec.params) == traced.data["otherData"]["params"]


def test_a_buffer_that_is_full_says_so() -> None:
    traced = trace_built(built_of("copy_staged"), TraceWishes(stamps=16))
    assert traced.full == len(traced.timeline.readings) and traced.orders.untold > 0 and traced.orders.hold


def test_a_stamp_that_is_moved_is_found() -> None:
    """The latest wait that was for somebody else is said to have ended before that one began."""
    traced = trace_built(built_of("attention_hopper"), TraceWishes(ctas=4))
    line = traced.timeline
    waits = [i for i in line.intervals if i.site.text == "wait fk" and i.events and i.events[0].by]
    late = max(waits, key=lambda i: i.start_ns)
    reading, k = late.reading, late.place
    clocks = reading.clocks.copy()
    clocks[: k + 2] = reading.begin[0]
    moved = [replace(r, clocks=clocks) if r is reading else r for r in line.readings]
    assert check_orders(join_readings(line.stamped, moved, line.record)).broken
