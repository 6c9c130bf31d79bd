"""Kernels that start while the one before still runs: they touch arrays after a wait for it, and every launch waits."""

from __future__ import annotations

import re

import pytest

from specs.test_roles import FILL, MET, ORDERS, READ, RELEASE, WAIT_FREE, WAIT_FULL, ring
from tests.faults.steps import drop, is_a, mutate
from tests.faults.verdicts import build_codes
from tilegen.errors import ProofError
from tilegen.interpret import FaultFound, interpret
from tilegen.pipeline import build
from tilegen.plan import Follow
from tilegen.render import launch_info, render, render_launcher

OVERLAP, PREVIOUS = "overlap: previous\n", "      - wait: previous\n"
every_order = pytest.mark.parametrize("order", ORDERS)


def overlapping(order: str, waits: str, load: str = WAIT_FREE + FILL, move: str = "") -> str:
    """The ring of roles of which those in ``waits`` first wait for the kernels before."""
    text = ring(order, load, move or WAIT_FULL + READ + MET + RELEASE, OVERLAP)
    for role in waits.split():
        text = text.replace(f"  - role: {role}\n    do:\n", f"  - role: {role}\n    do:\n{PREVIOUS}")
    return text


@every_order
def test_who_waits(order: str) -> None:
    """The data that a role hands on carries what it knows; nothing goes the other way."""
    assert build_codes(overlapping(order, "load move")) == set()
    assert build_codes(overlapping(order, "load")) == set(), "who stores has waited for what was loaded after the wait"
    assert build_codes(overlapping(order, "move")) == {"TG440"}, "missing in the role that loads first"
    assert build_codes(overlapping(order, "")) == {"TG122"}


@every_order
def test_a_wait_of_all_threads(order: str) -> None:
    text = overlapping(order, "load")
    beside = text.replace(PREVIOUS, "").replace("ops:\n", "ops:\n  - wait: previous\n")
    assert build_codes(beside) == set()
    after = text.replace(PREVIOUS, "") + "  - wait: previous\n"
    assert build_codes(after) == {"TG440"}


@every_order
def test_a_role_that_nothing_tells(order: str) -> None:
    """Another array of the role that stores is read before it has heard of the one that waits."""
    early = '          - copy: {src: "V[k]", dst: "W[k]"}\n'
    arrays = "".join(f"  {name}: {{scope: global, dtype: float32, shape: [7, 256]}}\n" for name in "VW")

    def with_arrays(move: str) -> str:
        return overlapping(order, "load", move=move).replace("buffers:\n", f"buffers:\n{arrays}")

    assert build_codes(with_arrays(early + WAIT_FULL + READ + MET + RELEASE)) == {"TG440"}
    assert build_codes(with_arrays(WAIT_FULL + early + READ + MET + RELEASE)) == set()


SMALL = (
    "kernel: k\narch: {arch}\n{overlap}threads: 64\ngrid: {{bx: 3}}\nbuffers:\n"
    "  X: {{scope: global, dtype: float32, shape: [192]}}\n  Y: {{scope: global, dtype: float32, shape: [192]}}\n"
    "  s: {{scope: shared, dtype: float32, shape: [64]}}\nops:\n{ops}"
)
IN, OUT = '  - copy: {src: "X[bx*64 : +64]", dst: s}\n', '  - copy: {src: s, dst: "Y[bx*64 : +64]"}\n'
MEET, WAIT, FILL_OWN = "  - sync: cta\n", "  - wait: previous\n", "  - fill: {dst: s, value: 0}\n"


def small(*ops: str, overlap: str = OVERLAP, arch: str = "sm_90") -> str:
    return SMALL.format(arch=arch, overlap=overlap, ops="".join(ops))


def test_where_the_wait_stands() -> None:
    assert build_codes(small(WAIT, IN, MEET, OUT)) == set()
    assert build_codes(small(IN, WAIT, MEET, OUT)) == {"TG440"}
    assert build_codes(small(FILL_OWN, WAIT, IN, MEET, OUT)) == set(), "shared memory is the kernel's own"


def test_what_is_read_once_comes_by_loads_that_wait() -> None:
    """The hints of 'cache: stream' stay; the read-only cache, and loads that the compiler moves, do not."""
    stream = IN.replace("dst: s}", "dst: s, cache: stream}")
    text = render(build(small(WAIT, stream, MEET, OUT)).plan)
    (load,) = re.findall(r"load_stream\w*_\d+\(const.*?\n}\n", text, re.S)
    assert load.startswith("load_stream_after_") and "asm volatile" in load and '"memory"' in load
    assert "ld.global.L2::cache_hint.L2::256B" in load and ".nc" not in load
    assert "ld.global.nc.L2" in render(build(small(stream, MEET, OUT, overlap="")).plan)
    assert build_codes(small(stream, WAIT, MEET, OUT)) == {"TG440"}


def test_copies_in_flight_begin_after_the_wait() -> None:
    start = IN.replace("dst: s}", "dst: s, async: true}") + "  - commit\n"
    assert build_codes(small(WAIT, start, "  - wait: 0\n", MEET, OUT)) == set()
    assert build_codes(small(start, WAIT, "  - wait: 0\n", MEET, OUT)) == {"TG440"}


@pytest.mark.parametrize("text", [
    small(WAIT, IN, MEET, OUT, overlap=""),
    small(IN, MEET, OUT),
    small("  - {when: bx < 2, do: [wait: previous]}\n", IN, MEET, OUT),
    small("  - for: {i: 2}\n    do: [wait: previous]\n", IN, MEET, OUT),
    small("  - {wait: previous, when: bx < 2}\n", IN, MEET, OUT),
    small(WAIT, IN, MEET, OUT, arch="sm_80"),
], ids=["no overlap", "no wait", "condition", "loop", "when", "arch"])  # fmt: skip
def test_what_does_not_add_up(text: str) -> None:
    assert build_codes(text) == {"TG122"}


def test_a_plan_that_lost_its_wait() -> None:
    """Of a kernel that touches no array the proof still wants the wait: the next kernel counts on it."""
    plan = build(small(WAIT, FILL_OWN)).plan
    interpret(plan, [(0,)], {})
    lost = mutate(plan, is_a(Follow), drop)
    with pytest.raises(ProofError, match="ends without waiting") as found:
        interpret(lost, [(0,)], {})
    assert isinstance(found.value, FaultFound) and found.value.fault.code == "TG440"


def test_its_text() -> None:
    plan = build(small(WAIT, IN, MEET, OUT)).plan
    text = render(plan)
    body = text[text.index('extern "C"') :]
    assert body.index("launch_dependents();") < body.index("wait_previous();") < body.index("copy_X_s(")
    assert "__restrict__" not in body, "loads through the read-only cache would not wait"
    assert launch_info(plan)["overlap"] == "previous"
    assert "cudaLaunchAttributeProgrammaticStreamSerialization" in render_launcher(plan)
    plain = build(small(IN, MEET, OUT, overlap="")).plan
    assert "launch_dependents" not in render(plain) and "__restrict__" in render(plain)
    assert "overlap" not in launch_info(plain) and "LaunchAttribute" not in render_launcher(plain)
