"""Small looped kernels drawn at random, and faults planted at a trip: what the proof of a few trips must find too."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from tests.faults.steps import Path, list_steps, put_steps, with_steps
from tests.faults.verdicts import proof_code
from tilegen.index import Index, Var, add, differ, equal, every, less, mod, mul
from tilegen.interpret import Unsteady
from tilegen.pipeline import load
from tilegen.plan import Arrive, Await, Block, Commit, Move, Plan, Ref, Repeat, Step, Sync, Wait, When, effects
from tilegen.planner import plan_spec
from tilegen.proofs import unproven_ranges
from tilegen.proofs.meaning import check_meaning
from tilegen.proofs.runs import ProofRun, list_runs
from tilegen.spec.data import Spec

LONG = (34, 36, 39)  # trips: more than run in full
COUNT = 300


# ---------------------------------------------------------------- kernels
def draw_text(rng: random.Random) -> str:
    """A loop over rows through a ring of stages, of one of several kinds."""
    kind = rng.choice([*KINDS, "roles"])
    if kind == "roles":
        return _roles(rng)
    trips, stages, ctas = rng.choice(LONG), rng.choice([1, 2, 3, 4]), rng.choice([1, 2])
    stages = max(stages, 2) if kind == "prefetch" else stages
    head = (
        f"kernel: looped\nthreads: 64\ngrid: {{bx: {ctas}}}\n"
        f"params: {{N: {{default: {trips}, max: {trips}}}}}\nbuffers:\n"
        f"  X: {{scope: global, dtype: float32, shape: [{ctas}, {4 * trips}, 64]}}\n"
        f"  Y: {{scope: global, dtype: float32, shape: [{ctas}, {4 * trips}, 64]}}\n"
        f"  A: {{scope: shared, dtype: float32, shape: [{stages}, 64]}}\nops:\n"
    )
    return head + KINDS[kind](rng, trips, stages)


def _load(row: str, slot: str, more: str = "") -> str:
    return f'copy: {{src: "X[bx, {row}, 0:64]", dst: "A[{slot}, 0:64]"{more}}}'


def _store(row: str, slot: str, more: str = "") -> str:
    """Each warp stores what the other one wrote."""
    at = "(1-warpid)*32 : +32"
    return f'copy: {{scope: warp, src: "A[{slot}, {at}]", dst: "Y[bx, {row}, {at}]"{more}}}'


def _body(*statements: str, indent: int = 6) -> str:
    return "".join(f"{' ' * indent}- {s}\n" for s in statements if s)


def _ring(rng: random.Random, trips: int, stages: int) -> str:
    last = "sync: cta" if stages == 1 or rng.random() < 0.5 else ""
    count = rng.choice([str(trips), "N"])
    store = _store(f"k*{rng.choice([1, 2, 4])}", f"k % {stages}")
    return f"  - for: {{k: {count}}}\n    do:\n" + _body(_load("k", f"k % {stages}"), "sync: cta", store, last)


def _prefetch(rng: random.Random, trips: int, stages: int) -> str:
    ahead = rng.randrange(1, stages)
    first = [s for i in range(ahead) for s in (_load(str(i), str(i), ", async: true"), "commit")]
    more = f', async: true, when: "k + {ahead} < {trips}"'
    body = _body(
        _load(f"k + {ahead}", f"(k + {ahead}) % {stages}", more), "commit", f"wait: {ahead}", "sync: cta",
        _store("k", f"k % {stages}"), "sync: cta",
    )  # fmt: skip
    return _body(*first, indent=2) + f"  - for: {{k: {trips}}}\n    do:\n" + body


def _nest(rng: random.Random, trips: int, stages: int) -> str:
    n = rng.choice([2, 3, 4])
    row = f"k*{n} + j"
    slot = f"({row}) % {stages}"
    body = _body(_load(row, slot), "sync: cta", _store(row, slot), "sync: cta", indent=10)
    return f"  - for: {{k: {trips}}}\n    do:\n      - for: {{j: {n}}}\n        do:\n{body}"


def _tail(rng: random.Random, trips: int, stages: int) -> str:
    slot = f"k % {stages}"
    body = _body(_load("k", slot), "sync: cta", _store("k", slot, ', when: "k % 3 != 1"'), "sync: cta")
    after = f'  - copy: {{src: "A[0, 0:64]", dst: "Y[bx, {trips + 3}, 0:64]"}}\n'
    return f"  - for: {{k: {trips}}}\n    do:\n{body}{after}"


def _thresholds(rng: random.Random, trips: int, stages: int) -> str:
    turn, slot = rng.randrange(5, trips - 5), f"k % {stages}"
    one = _store("k*2", slot, f', when: "k < {turn}"')
    other = _store("k*2+1", slot, f', when: "bx + {turn} < k + 2"')
    body = _body(_load("k", slot), "sync: cta", one, other, "sync: cta")
    return f"  - for: {{k: [1, {trips}]}}\n    do:\n{body}"


def _barriers(rng: random.Random, trips: int, stages: int) -> str:
    slot = f"k % {stages}"
    load_it = _load("k", slot, f', variant: tma, barrier: "full[{slot}]"')
    waits = f'wait: {{barrier: "full[{slot}]"}}'
    return f"  - for: {{k: {trips}}}\n    do:\n" + _body(load_it, waits, _store("k", slot), "sync: cta")


def _squares(rng: random.Random, trips: int, stages: int) -> str:
    """A condition that no rule is known for: its loop runs in full."""
    slot = f"k % {stages}"
    body = _body(_load("k", slot), "sync: cta", _store("k", slot, ', when: "k * k % 5 != 4"'), "sync: cta")
    return f"  - for: {{k: {trips}}}\n    do:\n{body}"


def _uneven(rng: random.Random, trips: int, stages: int) -> str:
    """As many trips as the CTA says, two of them never; names, a choice, and a block under a condition."""
    less, slot, turn = rng.choice([0, 1, trips - 1, trips]), f"k % {stages}", rng.randrange(2, trips - 2)
    count = rng.choice([f"where(bx == 0, {trips}, {trips - less})", f"min({trips}, {trips - less} + bx*{trips})"])
    body = _body(
        f'let: {{row: "where(k < {turn}, k, k + 1)", slot: {slot}}}', _load("row", "slot"), "sync: cta",
        _store("row*2", "slot"), indent=6,
    )  # fmt: skip
    body += _body("when: k + 3 > most", indent=6) + "        do:\n" + _body(_store("row*2 + 1", "slot"), indent=10)
    return f'  - let: {{most: "{count}"}}\n  - for: {{k: most}}\n    do:\n{body}' + _body("sync: cta", indent=6)


def _by_turns(rng: random.Random, trips: int, stages: int) -> str:
    """Every other row, from the CTA's own on, perhaps none: slots count trips."""
    slot, last = f"(t // 2) % {stages}", rng.choice([2 * trips, 2 * trips - 1, 1])
    body = _body(_load("t", slot), "sync: cta", _store("t", slot), "sync: cta")
    return f'  - for: {{t: [bx, {last}, "max(2, 1 + bx)"]}}\n    do:\n{body}'


KINDS: dict[str, Callable[[random.Random, int, int], str]] = {
    "ring": _ring, "prefetch": _prefetch, "nest": _nest, "tail": _tail, "thresholds": _thresholds,
    "barriers": _barriers, "squares": _squares, "uneven": _uneven, "by turns": _by_turns,
}  # fmt: skip


def _roles(rng: random.Random) -> str:
    """A warp fills the stages that two others have emptied; in one loop, or anew for each of a few tiles."""
    trips, stages, tiles, after = rng.choice(LONG), rng.choice([1, 2, 3, 4]), rng.choice([1, 1, 3]), rng.random() < 0.5
    scope = rng.choice(["role", "warp", "thread"])
    phase, row = (f"t*{trips} + k", f"t*{trips} + k") if tiles > 1 else ("k", "k")
    slot = f"({phase}) % {stages}"
    load = _load(row, slot, f', variant: tma, barrier: "full[{slot}]"')
    fill = (f'wait: {{barrier: "free[{slot}]"}}', load)
    empty = (
        f'wait: {{barrier: "full[{slot}]"}}', _store(row, slot), f"sync: {'role' if scope == 'role' else 'warp'}",
        f'arrive: {{scope: {scope}, barrier: "free[{slot}]"}}',
        f'copy: {{scope: warp, src: "A[{slot}, 0:32]", dst: "Z[bx, {row}, warpid*32 : +32]"}}' if after else "",
    )  # fmt: skip
    if after:
        empty = (*empty[:2], empty[4], *empty[2:4])
    order = rng.sample([("load", 32, fill), ("move", 64, empty)], 2)
    rows, text = tiles * trips, ""
    for name, _, body in order:
        text += f"  - role: {name}\n    do:\n"
        if tiles > 1:
            text += f"      - for: {{t: {tiles}}}\n        do:\n          - for: {{k: {trips}}}\n            do:\n"
        else:
            text += f"      - for: {{k: {trips}}}\n        do:\n"
        text += _body(*body, indent=14 if tiles > 1 else 10)
    return (
        "kernel: looped\ngrid: {bx: 2}\nroles:\n"
        + "".join(f"  {name}: {{threads: {threads}}}\n" for name, threads, _ in order)
        + f"barriers:\n  full: {{slots: {stages}}}\n  free: {{slots: {stages}, open: true}}\nbuffers:\n"
        + "".join(
            f"  {n}: {{scope: global, dtype: float32, shape: [2, {rows}, 64]{more}}}\n"
            for n, more in (("X", ""), ("Y", ""), *([("Z", "")] if after else []))
        )
        + f"  A: {{scope: shared, dtype: float32, shape: [{stages}, 64]}}\nops:\n{text}"
    )


# ---------------------------------------------------------------- faults
def plant_at_a_trip(plan: Plan, rng: random.Random) -> Plan | None:
    """The plan with one fault: a sync, a wait or a guard left out, or a place moved, at some trips or at all."""
    number = rng.randrange(len(plan.roles))
    steps = plan.roles[number].steps
    loops = [s for _, s in list_steps(steps) if isinstance(s, Repeat) and not s.unroll]
    if not loops:
        return None
    k, trip = next((s for s in loops if s.var.name == "k"), loops[0]).var, rng.randrange(1, LONG[0] - 2)
    inside = [(path, s) for path, s in list_steps(steps) if _is_in(steps, path, k)]
    path, step = rng.choice(inside)
    changed = _change(step, rng, k, trip)
    if changed is None:
        return None
    return with_steps(plan, *put_steps(steps, path, lambda _: changed), role=number)


def _change(step: Step, rng: random.Random, k: Var, trip: int) -> tuple[Step, ...] | None:
    if isinstance(step, Wait) and rng.random() < 0.3:
        return (replace(step, pending=step.pending + 1),)
    if isinstance(step, Await) and rng.random() < 0.3:
        return (replace(step, parity=mod(add(step.parity, 1), 2)),)
    if isinstance(step, Sync | Commit | Wait | Await | Arrive):
        others = [differ(k, trip), less(k, trip), less(trip, k), differ(mod(k, 4), 1), differ(mod(k, 7), trip % 7)]
        return () if rng.random() < 0.3 else (When(rng.choice(others), (step,)),)
    if isinstance(step, When):
        return step.body
    if isinstance(step, Block):
        places = [n for n, (_, actual) in enumerate(step.args) if isinstance(actual, Ref)]
        n = rng.choice(places)
        formal, actual = step.args[n]
        return (replace(step, args=(*step.args[:n], (formal, _move(actual, rng, k, trip)), *step.args[n + 1 :])),)
    if isinstance(step, Move):
        side = rng.choice([s for s in ("src", "dst") if getattr(step, s).memory.space != "register"])
        return (replace(step, **{side: _move(getattr(step, side), rng, k, trip)}),)
    return None


def _move(ref: Ref, rng: random.Random, k: Var, trip: int) -> Ref:
    """A place that is another one at some trips, or at all."""
    by, d = rng.choice([1, 2, 4, 32, 64]), rng.randrange(len(ref.at))
    conditions: list[Index] = [
        equal(k, trip), less(trip, k), less(k, trip), equal(mod(k, 3), 1), equal(mod(add(k, trip), 5), 2),
        every(less(trip, k), equal(mod(k, 2), 0)), 1,
    ]  # fmt: skip
    at = (*ref.at[:d], add(ref.at[d], mul(rng.choice(conditions), by)), *ref.at[d + 1 :])
    return Ref(ref.memory, at)


def _is_in(steps: tuple[Step, ...], path: Path, k: Var) -> bool:
    found = False
    for i in path[:-1]:
        step = steps[i]
        found |= isinstance(step, Repeat) and step.var.name == k.name
        steps = effects(step).body
    return found


# ---------------------------------------------------------------- judging
@dataclass(frozen=True)
class Judged:
    """A kernel, right or with a fault: the codes of the full run and of the cut one ("": right; None: not cut)."""

    seed: int
    is_right: bool
    full: str
    cut: str | None


def judge(spec: Spec, plan: Plan, run: ProofRun, seed: int, is_right: bool) -> Judged:
    full = proof_code(lambda: check_meaning(spec, plan, run.ctas, run.case))
    trips = run.cut.trips
    cut: str | None = None
    if trips.loops:
        try:
            cut = proof_code(lambda: check_meaning(spec, plan, run.ctas, run.case, trips=trips))
        except Unsteady:
            cut = None
    return Judged(seed, is_right, full, cut)


@cache
def judged() -> tuple[Judged, ...]:
    """COUNT kernels, each as it is and with one fault that the ranges do not find."""
    found: list[Judged] = []
    for seed in range(COUNT):
        rng = random.Random(seed)
        spec = load(draw_text(rng))
        plan = plan_spec(spec)
        found.append(judge(spec, plan, list_runs(spec, plan)[0], seed, True))
        for _ in range(20):
            wrong = plant_at_a_trip(plan, rng)
            if wrong is not None and not unproven_ranges(wrong):
                found.append(judge(spec, wrong, list_runs(spec, wrong)[0], seed, False))
                break
    return tuple(found)


def print_counts() -> str:
    """The figures of docs/how-it-works.md."""
    right = [j for j in judged() if j.is_right]
    wrong = [j for j in judged() if not j.is_right]
    harmful = [j for j in wrong if j.full]
    groups = {
        "right kernels": right, "with a fault that matters": harmful,
        "with one that does not": [j for j in wrong if not j.full],
    }  # fmt: skip
    lines = ["| looped kernels | drawn | the full run passes | the cut run passes | not cut |", "|---|---|---|---|---|"]
    for name, of in groups.items():
        passed = [sum(j.full == "" for j in of), sum(j.cut == "" for j in of), sum(j.cut is None for j in of)]
        lines.append(f"| {name} | {len(of)} | {' | '.join(map(str, passed))} |")
    return "\n".join(lines)
