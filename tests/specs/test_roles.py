"""Roles that wait for one another: right ones are proved whichever runs first, and every planted fault is found."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.faults.verdicts import build_codes, refusal_of
from tilegen.errors import SpecError, TilegenError
from tilegen.pipeline import build, load
from tilegen.plan import Memory, begin, plain_name, walk
from tilegen.planner import plan_spec
from tilegen.render import render
from tilegen.spec.outline import outline, parts_of_cta

ORDERS = ("load move", "move load")
THREADS = {"load": 32, "move": 64}
WAIT_FREE = '          - wait: {barrier: "free[k % 2]"}\n'
FILL = '          - copy: {src: "X[k]", dst: "s[k % 2]", variant: tma, barrier: "full[k % 2]"}\n'
WAIT_FULL = '          - wait: {barrier: "full[k % 2]"}\n'
READ = '          - copy: {src: "s[k % 2]", dst: "Y[k]"}\n'
MET = "          - sync: role\n"
RELEASE = '          - arrive: {barrier: "free[k % 2]"}\n'


def ring(order: str, load: str = WAIT_FREE + FILL, move: str = WAIT_FULL + READ + MET + RELEASE, more: str = "") -> str:
    """One warp fills two stages, two warps empty them."""
    loop = "  - role: {}\n    do:\n      - for: {{k: 7}}\n        do:\n{}"
    roles = "".join(f"  {name}: {{threads: {THREADS[name]}}}\n" for name in order.split())
    return (
        f"kernel: ring\nroles:\n{roles}barriers:\n  full: {{slots: 2}}\n  free: {{slots: 2, open: true}}\n{more}"
        "buffers:\n"
        "  X: {scope: global, dtype: float32, shape: [7, 256]}\n  Y: {scope: global, dtype: float32, shape: [7, 256]}\n"
        "  s: {scope: shared, dtype: float32, shape: [2, 256]}\n"
        f"ops:\n{loop.format('load', load)}{loop.format('move', move)}"
    )


every_order = pytest.mark.parametrize("order", ORDERS)


@every_order
def test_a_plan_says_which_loop_of_the_spec_each_of_its_loops_is(order: str) -> None:
    """Both roles loop over k and over i; loops are numbered by the text, whichever role is planned first."""
    inner = "          - for: {i: [k, k + 6, 3]}\n            do:\n              - sync: role\n"
    spec = load(ring(order, load=inner + WAIT_FREE + FILL, move=WAIT_FULL + READ + MET + RELEASE + inner))
    loops, met = outline(spec).loops, dict[int, str]()
    assert [one.number for one in loops] == [0, 1, 2, 3]
    for role in plan_spec(spec).roles:
        for visit in walk(role.steps, begin(role.threads)):
            at = visit.position
            assert len(at.spec_loops) == len(at.loops)
            for number, (v, count) in zip(at.spec_loops, at.loops, strict=True):
                if number >= 0:
                    assert (plain_name(v.name), count) == (loops[number].trip.name, loops[number].count)
                    assert met.setdefault(number, role.name) == role.name
    assert met == {0: "load", 1: "load", 2: "move", 3: "move"}
    placed = [p for p in outline(spec).placed if p.statement in outline(spec).calls]
    assert [(p.number, p.role, len(p.meant.loops)) for p in placed] == [(0, "load", 1), (1, "move", 1)]


@every_order
def test_a_ring_is_proved(order: str) -> None:
    assert build_codes(ring(order)) == set()
    by_warps = MET.replace("role", "warp") + RELEASE.replace(']"', ']", scope: warp')
    assert build_codes(ring(order, move=WAIT_FULL + READ + by_warps)) == set()
    by_threads = MET.replace("role", "warp") + RELEASE.replace(']"', ']", scope: thread')
    assert build_codes(ring(order, move=WAIT_FULL + READ + by_threads)) == set()


@pytest.mark.parametrize(("scope", "sync"), [("thread", "warp"), ("warp", "warp"), ("role", "role")])
def test_what_threads_release_without_a_sync_is_told_how_to_be(scope: str, sync: str) -> None:
    """Of every scope: a clock is a warp's, and its threads are known by its syncs."""
    release = RELEASE.replace(']"', f']", scope: {scope}')
    (found,) = refusal_of(TilegenError, build, ring("load move", move=WAIT_FULL + READ + release)).diagnostics
    assert found.code == "TG403" and f"insert `- sync: {sync}` before line 25: an arrival" in found.hint, found.hint
    caught = refusal_of(TilegenError, build, ring("load move", move=WAIT_FULL + MET + release + READ))
    assert "in move a sync and then an arrival, for which load waits" in caught.diagnostics[0].hint


FAULTS = {
    "an arrival is missing": ({"move": WAIT_FULL + READ + MET + RELEASE.replace("]\"", "]\", when: k != 3")}, "TG413"),
    "nobody waits for the data": ({"move": READ + MET + RELEASE}, "TG422 TG404"),
    "nobody waits for a free slot": ({"load": FILL}, "TG434"),
    "the wait is for the phase after": (
        {"move": WAIT_FULL.replace("k %", "(k + 2) %") + READ + MET + RELEASE}, "TG413 TG404"),
    "the wait is for the phase before": (
        {"move": WAIT_FULL.replace("k %", "(k + 6) %") + READ + MET + RELEASE}, "TG413 TG404"),
    "the slot is another": ({"move": WAIT_FULL.replace("k %", "(k + 1) %") + READ + MET + RELEASE}, "TG422"),
    "the slot is freed before it is read": ({"move": WAIT_FULL + MET + RELEASE + READ}, "TG403"),
    "the slot is freed before all have read": ({"move": WAIT_FULL + READ + RELEASE}, "TG403"),
    "only a warp has met": ({"move": WAIT_FULL + READ + MET.replace("role", "warp") + RELEASE}, "TG403"),
    "an arrival too many": (
        {"move": WAIT_FULL + READ + MET + RELEASE + "          - sync: warp\n" + RELEASE}, "TG413"),
    "each waits for the other": ({"load": WAIT_FREE.replace("free[k % 2]", "full[k % 2]") + FILL}, "TG413"),
}  # fmt: skip


@every_order
@pytest.mark.parametrize("wrong", FAULTS, ids=str)
def test_a_fault_between_roles_is_found(order: str, wrong: str) -> None:
    changed, expected = FAULTS[wrong]
    found = build_codes(ring(order, **changed))
    assert found and found <= set(expected.split()), found


@every_order
def test_a_deadlock_says_who_waits_for_what(order: str) -> None:
    with pytest.raises(TilegenError, match="deadlock") as found:
        build(ring(order, load=WAIT_FREE.replace("free", "full") + FILL))
    for role in THREADS:
        assert f"role {role} waits for phase 0 of full[0]" in str(found.value)


def test_a_barrier_at_which_nobody_arrives() -> None:
    with pytest.raises(SpecError, match="nothing arrives at 'done'"):
        build(ring("load move", more="  done: {slots: 1}\n"))


def test_phases_count_from_zero() -> None:
    assert build_codes(ring("load move", WAIT_FREE + FILL.replace("full[k %", "full[(k + 4) %"),
                      WAIT_FULL.replace("k %", "(k + 4) %") + READ + MET + RELEASE)) == {"TG433"}  # fmt: skip


@every_order
def test_the_next_stage_is_waited_for_within_the_loop_that_reads_this_one(order: str) -> None:
    """A wait that says its phase may stand under a condition on a loop: how many there were counts for others alone."""
    ahead = (
        '      - for: {r: 1}\n        do:\n          - wait: {barrier: "full[0 % 2]"}\n'
        "          - for: {k: 7}\n            do:\n"
        '              - copy: {src: "s[k % 2]", dst: "Y[k]"}\n              - sync: role\n'
        '              - arrive: {barrier: "free[k % 2]"}\n'
        "              - when: k + 1 < 7\n                do:\n"
        '                  - wait: {barrier: "full[(k + 1) % 2]"}\n'
    )
    loop = f"      - for: {{k: 7}}\n        do:\n{WAIT_FULL}{READ}{MET}{RELEASE}"
    text = ring(order)
    assert loop in text and build_codes(text.replace(loop, ahead)) == set()
    assert build_codes(text.replace(loop, ahead.replace("k + 1 < 7", "k + 1 < 6"))) == {"TG413"}
    assert build_codes(text.replace(loop, ahead.replace("[0 % 2]", "[1 % 2]"))) == {"TG422"}
    single = ahead.replace("[0 % 2]", "[0]").replace("full[(k + 1) % 2]", "one").replace("full[0]", "one")
    filled = text.replace(FILL, FILL.replace("full[k % 2]", "one")).replace("  full: {slots: 2}", "  one: {slots: 1}")
    assert build_codes(filled.replace(loop, single)) == {"TG306"}


def test_what_never_runs_fills_no_phase_and_divides_nothing() -> None:
    """Of one trip: no slot is freed, the conditions say so, and ``k - 1`` is -1 nowhere that runs."""
    release = RELEASE.replace('k % 2]"', '(k - 1) % 2]", when: k > 0')
    one = ring("load move", move=WAIT_FULL + READ + MET + release).replace("k: 7", "k: 1").replace("[7,", "[1,")
    assert build_codes(one) == set()
    listed = "          - when: k > 0\n            do:\n" + RELEASE.replace("          -", "              -")
    assert build_codes(one.replace(release, listed)) == set()
    assert build_codes(one.replace(release, release.replace("when: k > 0", "when: k >= 0"))) == {"TG414"}
    assert build_codes(one.replace('          - wait: {barrier: "free[k % 2]"}\n', "")) == set()


def test_roles_of_whole_warpgroups_begin_at_one() -> None:
    text = (
        "kernel: k\narch: sm_90a\nroles:\n"
        "  load: {threads: 32, registers: 40}\n  math: {threads: 256, registers: 232}\n"
        "  store: {threads: 32, registers: 24}\nops:\n  - sync: cta\n"
    )
    with pytest.raises(SpecError, match="40 \\+ 232 \\+ 232 \\+ 24"):
        load(text)
    spec = load(text.replace("232", "184"))
    parts = [(r.name, r.first, r.threads, r.registers) for r in parts_of_cta(spec)]
    assert parts == [
        ("load", 0, 32, 40), ("idle", 32, 96, 40), ("math", 128, 256, 184), ("store", 384, 32, 24),
        ("idle2", 416, 96, 24),
    ]  # fmt: skip
    text = render(plan_spec(spec))
    assert "__launch_bounds__(512, 1)" in text  # ptxas knows how many registers there are to give
    assert text.count("registers_down<40>();") == text.count("registers_down<24>();") == 2
    assert text.count("registers_up<184>();") == 1 and text.count("__syncthreads();") == 5


@pytest.mark.parametrize("order", ["load move watch", "watch load move", "move watch load"])
def test_who_waits_has_to_be_waited_for(order: str) -> None:
    """A role that waits for a ring's phases and tells nobody may come when the next phase is complete too: then the
    parity is the one that it waits to be over, and it waits for ever. The order in which roles run does not show it.
    """
    three = ring("load move").replace("barriers:", "  watch: {threads: 32}\nbarriers:")
    watch = f"  - role: watch\n    do:\n      - for: {{k: 7}}\n        do:\n{WAIT_FULL}"
    assert build_codes(in_order(three + watch, order)) == {"TG434"}
    assert build_codes(in_order(three + watch + RELEASE, order)) == set()


def in_order(text: str, order: str) -> str:
    """The same roles, declared in another order: they take turns in that one."""
    head, roles, rest = re.split(r"roles:\n|barriers:\n", text)
    own = {line.split(":")[0].strip(): line for line in roles.splitlines()}
    return f"{head}roles:\n" + "".join(f"{own[name]}\n" for name in order.split()) + f"barriers:\n{rest}"


def test_two_roles_reduce_each_in_shared_memory_of_its_own() -> None:
    """Nothing orders the two, so that neither may write where the other leaves parts of its warps."""
    body = "".join(
        f"  - role: {role}\n    do:\n"
        f'      - reduce: {{src: "X[{k}]", dst: of_{role}, axis: 0, op: sum}}\n'
        f'      - copy: {{src: of_{role}, dst: "Y[{k} : +1]"}}\n'
        for k, role in enumerate(("left", "right"))
    )
    own = "{scope: register, dtype: float32, shape: [1], layout: auto}"
    built = build(
        "kernel: sums\nroles: {left: {threads: 64}, right: {threads: 64}}\nbuffers:\n"
        "  X: {scope: global, dtype: float32, shape: [2, 256]}\n  Y: {scope: global, dtype: float32, shape: [2]}\n"
        f"  of_left: {own}\n  of_right: {own}\nops:\n{body}"
    )
    assert_apart([m for m in built.plan.memories if m.name.startswith("scratch")], 2)


def test_scopes_reduce_each_in_shared_memory_of_its_own() -> None:
    """A warpgroup meets itself alone before it writes its parts; the CTA may still read those of an op before."""
    own = "{scope: register, dtype: float32, shape: [17], layout: auto}"
    built = build(f"""
kernel: scopes
threads: 256
buffers:
  X: {{scope: global, dtype: float16, shape: [4, 40, 17]}}
  S: {{scope: global, dtype: float32, shape: [4, 17]}}
  Z: {{scope: global, dtype: float32, shape: [2, 17]}}
  s: {own}
  z: {own}
ops:
  - for: {{r: 2}}
    do:
      - reduce: {{scope: warpgroup, src: "X[wgid + r*2]", dst: s, axis: 0, op: prod}}
      - copy: {{scope: warpgroup, src: s, dst: "S[wgid + r*2]"}}
      - reduce: {{expr: "x + 1.0", with: {{x: "X[3]"}}, dst: z, axis: 0, op: max}}
      - copy: {{src: z, dst: "Z[r]"}}
""")
    assert_apart([m for m in built.plan.memories if m.name.startswith("scratch")], 2)


def assert_apart(memories: list[Memory], count: int) -> None:
    """There are so many, and none lies on another."""
    ends = sorted((m.offset_bytes, m.offset_bytes + int(m.span) * m.elem_bytes) for m in memories)  # type: ignore[arg-type]
    assert len(ends) == count and all(end <= begin for (_, end), (begin, _) in pairwise(ends))
