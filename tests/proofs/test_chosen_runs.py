"""The CTAs, trips and sizes that a proof chooses show what all of them do, of drawn kernels with drawn faults."""

from __future__ import annotations

import re
from random import Random
from typing import NamedTuple

import pytest

import tilegen
from tests.faults.verdicts import proof_code
from tests.proofs.drawn_faults import Drawn
from tests.proofs.test_drawn_kernels import draw_condition
from tilegen.errors import TilegenError
from tilegen.plan import Plan
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.proofs.meaning import check_meaning
from tilegen.spec.data import Spec
from tilegen.spec.outline import is_possible, launch_of

MOST = 12  # the largest size

# ---------------------------------------------------------------- kernels
# Rows are 128 elements by 32 threads: what a thread reads keeps its distance from the spec's region.
HEAD = """kernel: chosen
arch: sm_90a
%(threads)s
%(params)sgrid: {bx: "%(bx)s", by: %(by)d}
%(barriers)sbuffers:
  X: {scope: global, dtype: float32, shape: [%(rows)s, 128]}
  Y: {scope: global, dtype: float32, shape: [%(rows)s, 128], partial: true}
  A: {scope: shared, dtype: float32, shape: [%(stages)d, 128]}
ops:
"""
LOAD = 'copy: {src: "X[%(row)s]", dst: "A[%(first)s]", when: "%(loads)s"}'
STORE = 'copy: {src: "A[%(second)s]", dst: "Y[%(own)s]", when: "%(stores)s"}'
BODY = [LOAD, "sync: cta", STORE, 'sync: cta\n%s  when: "%(freed)s"']
HOIST = '  - copy: {src: "X[%(early)s]", dst: "A[0]"}\n  - sync: cta\n'
ROLES = """  - role: load
    do:
      - for: {t: "%(trips)s"}
        do:
          - wait: {barrier: "free[t %% %(stages)d]"}
          - LOAD
          - sync: warp
          - arrive: {barrier: "full[t %% %(stages)d]"}
  - role: move
    do:
      - for: {t: "%(trips)s"}
        do:
          - wait: {barrier: "full[t %% %(stages)d]"}
          - STORE
          - sync: warp
          - arrive: {barrier: "free[t %% %(stages)d]", when: "%(freed)s"}
"""
AGAIN = [s.replace("(row)", "(row2)").replace("(loads)", "(loads2)").replace("(own)", "(own2)") for s in BODY]
TWO_OPS = [*BODY[:3], "sync: cta", *AGAIN[:3], "sync: cta"]


def nest(loops: list[str], body: list[str]) -> str:
    """Statements inside of loops, the outermost first."""
    text = ""
    for depth, loop in enumerate(loops):
        text += f"{' ' * (2 + 4 * depth)}- for: {{{loop}}}\n{' ' * (4 + 4 * depth)}do:\n"
    indent = " " * (2 + 4 * len(loops))
    return text + "".join(f"{indent}- {s.replace(chr(10) + '%s', chr(10) + indent)}\n" for s in body)


def draw_row(r: Random, names: tuple[str, ...]) -> str:
    """A row that several trips or CTAs share, or most of them."""
    x, y, n, k = r.choice(names), r.choice(names), r.randrange(8), r.randint(2, 5)
    a, b = r.randrange(3), r.randrange(3)
    return r.choice([
        f"{x} // {k}", f"({x} + {n}) // {k} + {y}", f"min({x}, {n})", f"max({x}, {n})", f"min({x} + {y}, {n} + 4)",
        f"{x} % {k}", f"where({draw_condition(r, names)}, {a}, {b})",
        f"{x} + where({draw_condition(r, names)}, {a}, {b})",
        f"where({draw_condition(r, names)}, {x}, {y})", f"{x} * where({draw_condition(r, names)}, {a}, {b})",
        f"{x} * {y} // {k}", f"{x} // {k} * {k}", f"({x} * {k} + {y}) // 4", f"{n}", f"{x}*{x} % 11 // {k}",
        f"where({draw_condition(r, names)}, {x}, min({y}, {n})) + {x} // {k}",
    ])  # fmt: skip


def draw(r: Random) -> Drawn:
    kind = r.choice(["one", "nest", "two ops", "two loops", "hoist", "roles", "uneven"])
    is_sized = r.random() < 0.4
    by = r.choice([1, 1, 3])
    fixed = ["5", "9", "13", "20"] if by > 1 else ["7", "12", "24", "40"]
    bx = r.choice(["N", "N + 3", "ceil(N / 2)", "5"] if is_sized else fixed)
    stages = r.choice([1, 2, 3, 4])
    names = ("bx", "t", *(["by"] if by > 1 else []), *(["N"] if is_sized else []), *(["o"] if kind == "nest" else []))
    trips = r.choice(["3", "5", "6", "18", "30" if kind != "nest" else "4"])
    if kind == "uneven" or r.random() < 0.2:
        trips = r.choice(["bx % 7 + 1", "min(bx + 1, 20)", "where(bx == 4, 3, 6)", "max(7 - bx, 1)", "bx // 2"])
        trips = f"min(N, {r.randint(2, 9)})" if is_sized and r.random() < 0.5 else trips
    most = 45
    cell = f"(by*60 + bx)*{most}"
    barriers = f"barriers: {{full: {{slots: {stages}}}, free: {{slots: {stages}, open: true}}}}\n"
    slot = r.choice(["0", f"t % {stages}", f"t // 2 % {stages}", f"min(t, {stages - 1})"])
    if kind == "roles":
        slot = f"t % {stages}"
    if kind == "hoist":
        slot = "0"
    row = draw_row(r, names)
    right = dict(
        threads="roles: {load: {threads: 32}, move: {threads: 32}}" if kind == "roles" else "threads: 32",
        params=f"params: {{N: {{default: {r.choice([4, 7, MOST])}, max: {MOST}}}}}\n" if is_sized else "",
        barriers=barriers if kind == "roles" else "", bx=bx, by=by, rows=60 * most * by, stages=stages, trips=trips,
        row=row, row2=draw_row(r, names), first=slot, second=slot, own=f"{cell} + t", own2=f"{cell} + 44",
        **dict.fromkeys(("loads", "loads2", "stores", "freed"), "bx >= 0"),
    )  # fmt: skip
    if kind == "nest":
        right["own"] = f"{cell} + o*5 + t"
        right["trips"] = trips if trips.isdigit() and int(trips) < 6 else "4"
    outer = r.choice(["2", "3", "min(bx + 1, 3)", "1 + bx %% 2"])
    if kind == "roles":
        text = ROLES.replace("LOAD", LOAD).replace("STORE", STORE)
    elif kind == "nest":
        text = nest([f'o: "{outer}", t: "%(trips)s"'], BODY)
    elif kind == "two ops":
        right["own"], right["own2"] = f"{cell} + t", f"{cell} + 44 - t"
        right["trips"] = "5" if trips == "30" else trips
        text = nest(['t: "%(trips)s"'], TWO_OPS)
    elif kind == "two loops":
        right["own2"], right["trips"] = f"{cell} + 30 + t", "9" if trips == "30" else trips
        text = nest(['t: "%(trips)s"'], BODY) + nest(['t: "5"'], AGAIN)
    else:
        text = nest(['t: "%(trips)s"'], BODY)
    text = HEAD + text
    cond = draw_condition(r, names)
    faults: dict[str, dict[str, str]] = {
        "load": {"loads": f"not ({cond})"},
        "load in few": {"loads": cond},
        "load once": {"loads": r.choice(["t == 0", "t < 2", "t % 2 == 0", "t % 3 != 2", f"t < {stages}"])},
        "stage before": {"second": f"where(t == 0, 0, (t + {stages - 1}) % {stages})"},
        "stage": {"second": f"(t + where({cond}, 1, 0)) % {stages}"},
        "place": {"row": f"{row} + where({cond}, 1, 0)"},
        "other place": {"row": draw_row(r, names)},
        "store": {"stores": f"not ({cond})"},
        "sync": {"freed": cond},
        "none": {},
    }
    if kind in ("two ops", "two loops"):
        faults["second load"] = {"loads2": r.choice(["bx < 0", cond, f"not ({cond})", "t > 0"])}
        faults["second place"] = {"row2": r.choice([row, draw_row(r, names)])}
        for name in ("place", "store", "stage", "sync"):
            if r.random() < 0.7:
                faults.pop(name, None)
    if kind == "nest":
        faults["wrap"] = {"loads": r.choice(["t > 0 or o == 0", "o == 0", "t == 0", "t == 0 or o == 0"])}
    fault = r.choice([*faults])
    if kind == "hoist":
        early = re.sub(r"\bt\b", "0", row)
        planned = HEAD + HOIST + nest(['t: "%(trips)s"'], BODY[2:])
        return Drawn(text % right, planned % {**right, "early": early}, kind, "hoisted")
    planned = text[len(HEAD) :] % {**right, **faults[fault]}
    if r.random() < 0.1 and kind in ("one", "uneven"):
        planned, fault = re.sub(r"\bt\b", "s", planned), f"{fault}, another name"
    return Drawn(text % right, HEAD % {**right, **faults[fault.split(",")[0]]} + planned, kind, fault)


# ---------------------------------------------------------------- judging
class Judged(NamedTuple):
    """What all CTAs show to be wrong, where the proof passes; what that said, and its notes."""

    seed: int
    kind: str
    fault: str
    truth: str
    said: str
    notes: tuple[str, ...]

    @property
    def is_missed(self) -> bool:
        return bool(self.truth) and not self.said and not any("not proven" in note for note in self.notes)


def run_all(spec: Spec, plan: Plan) -> None:
    """All CTAs with all trips, at every size."""
    for case in [{p.name: n for p in spec.params} for n in range(1, MOST + 1)] if spec.params else [{}]:
        if is_possible(spec, case):
            x, y, _ = launch_of(spec, case).grid
            check_meaning(spec, plan, [(i, j, 0) for j in range(y) for i in range(x)], case)


def judge(seed: int) -> Judged | None:
    """None where no kernel was drawn."""
    drawn = draw(Random(seed))
    try:
        spec, plan = tilegen.load(drawn.meant), plan_spec(tilegen.load(drawn.planned))
    except TilegenError:
        return None
    notes: list[str] = []
    said = proof_code(lambda: notes.extend(prove(spec, plan).notes))
    truth = "" if said else proof_code(lambda: run_all(spec, plan))
    return Judged(seed, drawn.kind, drawn.fault, truth, said, tuple(notes))


@pytest.mark.sweep(1)
@pytest.mark.parametrize("seeds", [range(12), range(12, 50), *(range(n, n + 100) for n in range(1000, 2000, 100))])
def test_chosen_runs_show_what_all_do(seeds: range) -> None:
    judged = [found for found in map(judge, seeds) if found is not None]
    assert not [j for j in judged if j.is_missed]
    assert len(judged) > len(seeds) // 2
