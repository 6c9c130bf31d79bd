"""What no run of a plan shows: another grid, other params, other roles than the spec's; what others own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

import tilegen
from tests.faults.steps import with_steps
from tests.faults.verdicts import refusal_of
from tilegen.errors import ProofError
from tilegen.index import Var, less
from tilegen.pipeline import load
from tilegen.plan import Plan, When
from tilegen.planner import plan_spec
from tilegen.proofs import prove

IN_PLACE = """kernel: in_place
params: {N: {default: 1000, max: 100000}}
threads: 32
grid: {bx: ceil(N / 256)}
buffers:
  X: {scope: global, dtype: float32, shape: [N]}
  x: {scope: register, dtype: float32, shape: [256], layout: auto}
ops:
  - copy: {src: "X[bx*256 : +256]", dst: x, edge: clip}
  - elementwise: {dst: "X[bx*256 : +256]", expr: "x * scale", edge: clip}
""".replace("max: 100000}}", "max: 100000}, scale: {dtype: float32, default: 2}}")


CHANGES: dict[str, Callable[[Plan], Plan]] = {
    "a CTA fewer": lambda p: replace(p, grid=(p.grid[0] // 2, 1, 1)),
    "clusters": lambda p: replace(p, cluster=(2, 1, 1)),
    "fewer sizes": lambda p: replace(
        p, params=(replace(p.params[0], var=replace(p.params[0].var, step=8)), *p.params[1:])
    ),
    "an int for a float": lambda p: replace(p, params=(p.params[0], replace(p.params[1], dtype="int32"))),
    "registers of a role": lambda p: replace(p, roles=(replace(p.roles[0], registers=248),)),
    "an array that is aligned further": lambda p: replace(
        p, memories=tuple(replace(m, align_bytes=64) if m.space == "global" else m for m in p.memories)
    ),
    "CTAs a multiprocessor": lambda p: replace(p, ctas_per_sm=4),
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("what", CHANGES)
def test_a_term_that_is_not_the_specs_is_found(what):
    spec = load(IN_PLACE)
    plan = plan_spec(spec)
    prove(spec, plan)
    changed = CHANGES[what](plan)
    assert changed != plan
    assert "TG416" in {d.code for d in refusal_of(ProofError, prove, spec, changed).diagnostics}


@pytest.mark.parametrize("who", ["nobody", "all but the last CTA", "the first CTA"])
def test_a_plan_that_leaves_out_what_the_spec_writes_is_refused(who):
    """Who owns what is taken from the spec; that a plan writes all of it, and nothing else, its runs show."""
    spec = load(IN_PLACE)
    plan = plan_spec(spec)
    bx, (n, *_), (role,) = Var("bx", 1 << 20), plan.grid, plan.roles
    asked = {"all but the last CTA": less(bx, n - 1), "the first CTA": less(bx, 1)}
    steps = (When(asked[who], role.steps),) if who != "nobody" else ()
    changed = with_steps(plan, *steps)
    assert {d.code for d in refusal_of(ProofError, prove, spec, changed).diagnostics} == {"TG420"}


def test_roles_may_stand_in_another_order_than_they_are_declared():
    """Each writes what is its own, wherever the ops that do stand."""
    array = "{scope: global, dtype: float32, shape: [4, 128]}"
    blocks = [f'  - role: {role}\n    do:\n      - copy: {{src: "X[bx]", dst: "{dst}[bx]"}}\n' for role, dst in ROLES]
    for order in (blocks, blocks[::-1]):
        tilegen.build(
            "kernel: two\ngrid: {bx: 4}\nroles: {first: {threads: 32}, second: {threads: 32}}\n"
            f"buffers: {{X: {array}, Y: {array}, Z: {array}}}\nops:\n{''.join(order)}"
        )


ROLES = (("first", "Y"), ("second", "Z"))


# ---------------------------------------------------------------- what others own
MOVED = """kernel: moved
grid: {{bx: {ctas}}}
threads: 32
buffers:
  X: {{scope: global, dtype: float32, shape: [{rows}, 128]}}
{ops}
"""
ONE = '  - copy: {{src: "X[{src}]", dst: "X[{dst}]", variant: gmem_gmem}}'


def moved(src: str, dst: str = "bx", ctas: int = 4096, rows: int = 4096, more: str = "") -> str:
    return MOVED.format(ctas=ctas, rows=rows, ops="ops:\n" + ONE.format(src=src, dst=dst) + more)


@pytest.mark.parametrize(
    "text",
    [
        moved("bx % 64 * 64 + bx // 64"),  # the CTAs on the diagonal stay where they are
        moved("bx * 37 % 4096"),
        moved("where(bx % 1000 == 501, bx + 1003, bx)"),
        moved("where(bx == 2900, 2901, bx)"),
        moved(
            "bx + 4096", rows=8192, more='\n  - when: bx == 77\n    do:\n      - copy: {src: "X[bx]", dst: "X[5000]"}'
        ),
        moved("bx + 1 - bx % 2 * 2"),
    ],
)
def test_a_cta_that_reads_what_another_one_writes(text):
    (found,) = refusal_of(ProofError, tilegen.build, text).diagnostics
    assert found.code == "TG405" and " reads X[" in found.message


@pytest.mark.parametrize(
    "text",
    [
        moved("where(bx == 4095, 4095, bx)"),
        moved("bx + 4096", rows=8192),  # what nobody writes
        moved("(bx + 1) % 2 + bx // 2 * 2", dst="bx + 4096", rows=8192),
        moved("bx * 2 + 1", dst="bx * 2", ctas=2048),
    ],
)
def test_a_cta_that_reads_its_own_or_what_nobody_writes(text):
    tilegen.build(text)


SCATTERED = """kernel: scattered
params: {{N: {{default: {default}, max: {most}, multiple_of: 64}}}}
threads: 32
grid: {{bx: N // 64}}
buffers:
  X: {{scope: global, dtype: float32, shape: [N]}}
  Y: {{scope: global, dtype: float32, shape: [N]}}
ops:
  - let: {{t: bx * {step} % (N // 64)}}
  - copy: {{src: "X[t*64 : +64]", dst: "Y[t*64 : +64]"}}
"""


def test_a_few_sizes_of_which_no_rule_is_known_are_all_looked_at():
    error = refusal_of(ProofError, tilegen.build, SCATTERED.format(default=6400, most=65536, step=19))
    assert {d.code for d in error.diagnostics} <= {"TG417", "TG418"}
    assert not [n for n in tilegen.build(SCATTERED.format(default=6400, most=65536, step=1)).proof.notes if "size" in n]


def test_of_many_such_sizes_it_is_said_how_many_were_looked_at():
    notes = tilegen.build(SCATTERED.format(default=6400, most=1 << 20, step=1031)).proof.notes
    assert "not proven: who owns what at every size, 8 of the 16384 values of N were looked at" in notes


def test_boxes_that_are_too_many_to_compare_are_a_warning(monkeypatch):
    monkeypatch.setattr(sys.modules["tilegen.proofs.owners"], "MOST_BOXES", 1 << 12)
    built = tilegen.build(
        "kernel: spread\nthreads: 32\ngrid: {bx: 512}\nbuffers:\n"
        "  X: {scope: global, dtype: float32, shape: [16384]}\n"
        "  Y: {scope: global, dtype: float32, shape: [16384]}\n"
        'ops:\n  - copy: {scope: thread, src: "X[bx*32 + tx]", dst: "Y[(bx*32 + tx) * 5 % 16384]"}\n'
    )
    (found,) = built.warnings
    assert (found.code, found.severity) == ("TG419", "warning") and found.mark is not None
