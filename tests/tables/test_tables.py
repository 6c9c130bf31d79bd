"""Nothing of a plan is known to one reader only: the tables hold a row for every kind of step and every instruction.

A kind of step, or an instruction, that forgets a part fails here by its name; one that no table knows makes every
reader of a plan raise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

from tests.faults.mutants import CHANGES, OF_OPERANDS, plant
from tests.faults.verdicts import proof_code
from tests.plan_text import LINES, print_plan
from tests.tables.examples import INSTRUCTIONS as EXAMPLES
from tests.tables.examples import STEPS, THREADS, Example, Y, example_of, plan, r, tx
from tilegen.arch import ARCHES
from tilegen.cost.accesses import COSTS
from tilegen.cost.compiled import compiled_accesses
from tilegen.cost.count import count_steps
from tilegen.dtypes import numpy_dtype
from tilegen.interpret import interpret
from tilegen.interpret.machine import survey
from tilegen.interpret.site import WORDS
from tilegen.interpret.steps import MEANINGS, ORDER, STRUCTURE
from tilegen.ops import OPS
from tilegen.plan import (
    COMPUTE,
    FETCH,
    INSTRUCTIONS,
    MBARRIER,
    MOVE,
    PICK,
    QUEUES,
    SHUFFLE,
    Compute,
    Instruction,
    Launch,
    Map,
    Mma,
    Move,
    Plan,
    Ref,
    Shuffle,
    Stamp,
    Step,
    TensorMma,
    UnknownStep,
    Wgmma,
    all_steps,
    arrays,
    effects,
    tensor_maps,
)
from tilegen.plan.effects import EFFECTS
from tilegen.plan.walk import ENTER
from tilegen.proofs import unproven_ranges
from tilegen.proofs.floats import draw_elements
from tilegen.proofs.needless_syncs import drop_sync
from tilegen.proofs.ranges import TOUCHES
from tilegen.render import launch_info, render, render_launcher
from tilegen.render.page import prelude_names
from tilegen.render.steps import FUNCTIONS, TEXTS
from tilegen.report import explain_plan
from tilegen.scopes import SCOPES

ROWS = {row.name: row for row in (*INSTRUCTIONS.values(), *(i for op in OPS.values() for i in op.instructions))}
LAUNCH = Launch(THREADS, (1, 1, 1))
every_row = pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
every_kind = pytest.mark.parametrize("kind", Step.__args__, ids=lambda kind: kind.__name__)  # type: ignore[attr-defined]


# ---------------------------------------------------------------- what is missing
def missing_of_kind(kind: type) -> list[str]:
    """The tables that do not know a kind of step."""
    does = kind in STRUCTURE or kind in ORDER or kind in OF_ROWS or "instruction" in vars(kind)
    has_body = any(f.name == "body" for f in fields(kind))
    known = {
        "effects": kind in EFFECTS, "body": not has_body or kind in ENTER, "meaning": does, "words": kind in WORDS,
        "text": kind in TEXTS, "printed plan": kind in LINES, "example and fault": kind in STEPS,
        "mutant": kind in CHANGES or kind in OF_OPERANDS or kind in NO_MUTANTS,
    }  # fmt: skip
    return [name for name, is_there in known.items() if not is_there]


UNCOUNTED = ("registers", "tensor")  # what meets neither banks nor sectors
OF_ROWS = (
    Move,
    Map,
    Compute,
    Shuffle,
    Mma,
    Wgmma,
    TensorMma,
)  # whose meaning is their instruction's
# Changed where its base variable stands; without a stamp a kernel writes what it did (tests/tracing).
NO_MUTANTS = {*(kind for kind in STRUCTURE if kind.__name__ == "Let"), Stamp}


def missing_of_row(row: Instruction) -> list[str]:
    """The tables that do not know an instruction."""
    found = example_of(row)
    preludes = re.compile(re.sub(r"\\?\{\w+\\?\}", r"\\w*", re.escape(row.prelude))) if row.prelude else None
    known = {
        "cost": row.cost in COSTS,
        "meaning": bool(row.compute) or row.name in MEANINGS or row in (FETCH, PICK),  # which define names: STRUCTURE
        "text": bool(preludes and any(preludes.fullmatch(n) for n in prelude_names()))
        or bool(row.c) or row.name in FUNCTIONS or row in (MOVE, COMPUTE, SHUFFLE, FETCH, PICK),
        "range proof": all(o.lies in TOUCHES for o in row.operands),
        "arch": not row.feature or any(row.feature in arch.features for arch in ARCHES.values()),
        "queue": row.queue in ("", MBARRIER, *QUEUES),
        "example and fault": found is not None,
        "mutant": found is not None and any(m.of == row.name for m in plant(found.right)),
    }  # fmt: skip
    return [name for name, is_there in known.items() if not is_there]


@every_kind
def test_every_kind_of_step_is_known_everywhere(kind: type) -> None:
    assert missing_of_kind(kind) == [], kind.__name__


@every_row
def test_every_instruction_is_known_everywhere(row: Instruction) -> None:
    assert missing_of_row(row) == [], row.name


def test_the_tables_name_nothing_else() -> None:
    kinds = set(Step.__args__)  # type: ignore[attr-defined]
    for table in (EFFECTS, ENTER, STRUCTURE, ORDER, WORDS, TEXTS, LINES, STEPS, CHANGES):
        assert set(table) <= kinds
    assert set(MEANINGS) <= set(ROWS) and set(EXAMPLES) <= set(ROWS) and set(FUNCTIONS) <= set(ROWS)
    assert {row.cost for row in ROWS.values()} == set(COSTS)
    assert {o.lies for row in ROWS.values() for o in row.operands} == set(TOUCHES)


# ---------------------------------------------------------------- what they say is so
def inputs_of(shown: Plan) -> dict[str, object]:
    def values(dtype: str, number: int) -> object:
        most = 13 if dtype.startswith(("float8", "float16")) else 251  # sums of products are numbers
        return lambda at: ((at * 40503 + number * 7919) % most).astype(numpy_dtype(dtype))

    given = {m.name: values(m.dtype, n) for n, m in enumerate(arrays(shown)) if m.access != "out"}
    promised = {m.name: draw_elements(m, {}) for m in arrays(shown) if m.name in given and m.values is not None}
    return given | promised


def code_of(shown: Plan) -> str:
    """The first proof that finds a fault: the interpreter's, or that of ranges."""
    return proof_code(lambda: interpret(shown, [(0, 0, 0)], inputs_of(shown)))  # type: ignore[arg-type]


def check_example(shown: Example) -> None:
    assert code_of(shown.right) == "" and not unproven_ranges(shown.right)
    assert code_of(shown.wrong) == shown.code
    assert render(shown.right)


@every_kind
def test_an_example_of_a_kind_is_right_and_its_fault_is_found(kind: type) -> None:
    check_example(STEPS[kind])
    assert any(type(step) is kind for step in all_steps(STEPS[kind].right))


@every_row
def test_an_example_of_an_instruction_is_right_and_its_fault_is_found(row: Instruction) -> None:
    found = example_of(row)
    assert found is not None
    check_example(found)
    used = [step for step in all_steps(found.right) if effects(step).instruction == row]
    assert used, f"the example of {row.name} is of something else"
    counted = count_steps(used, LAUNCH, (0, 0, 0)) if row.cost not in UNCOUNTED else ()
    assert bool(counted) == (row.cost not in UNCOUNTED)


@pytest.mark.sweep(22)
@every_row
def test_every_mutant_of_an_instruction_is_found(row: Instruction) -> None:
    """Each of its addresses shifted by one element: out of range, misaligned, a race, unwritten, or another value."""
    found = example_of(row)
    assert found is not None
    images = interpret(found.right, [(0, 0, 0)], inputs_of(found.right)).written  # type: ignore[arg-type]
    mutants = [m for m in plant(found.right) if m.of == row.name]
    assert mutants
    for mutant in mutants:
        if code_of(mutant.plan) or unproven_ranges(mutant.plan):
            continue
        if mutant.kind == "step twice" and row.function in ("min", "max", "and", "or"):  # twice is as once
            continue
        got = interpret(mutant.plan, [(0, 0, 0)], inputs_of(mutant.plan)).written  # type: ignore[arg-type]
        assert got.keys() != images.keys() or not all(
            np.array_equal(*pair) for n in images for pair in zip(got[n], images[n], strict=True)
        ), mutant.where


# ---------------------------------------------------------------- planting
@dataclass(frozen=True)
class Frobnicate:
    """A kind of step that nobody knows, with an address far out of its memory."""

    dst: Ref
    body: tuple[Step, ...] = ()


READERS = {
    "effects": lambda p: [effects(s) for s in p.roles[0].steps],
    "ranges": unproven_ranges,
    "accesses": compiled_accesses,
    "survey": survey,
    "interpreter": lambda p: interpret(p, [(0, 0, 0)], inputs_of(p)),
    "renderer": render,
    "launcher": render_launcher,
    "launch": launch_info,
    "descriptors": tensor_maps,
    "report": lambda p: explain_plan(p, LAUNCH),
    "needless syncs": lambda p: drop_sync(p, 0),
    "printed plan": print_plan,
    "mutants": lambda p: list(plant(p)),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_kind_of_step_that_nobody_knows_is_an_error_everywhere(reader) -> None:
    with pytest.raises(UnknownStep, match="Frobnicate"):
        reader(plan(Frobnicate(Y[1 << 20, 0])))  # type: ignore[arg-type]


def test_a_kind_that_forgets_a_part_is_named() -> None:
    assert missing_of_kind(Frobnicate) == [
        "effects", "body", "meaning", "words", "text", "printed plan", "example and fault", "mutant",
    ]  # fmt: skip


FORGETFUL = Instruction("frobnicate", MOVE.operands, "nothing", feature="frobs", queue="frobs")


def test_an_instruction_that_forgets_a_part_is_named() -> None:
    shared = replace(MOVE.operands[0], lies="anyhow")
    assert missing_of_row(FORGETFUL) == ["cost", "meaning", "text", "arch", "queue", "example and fault", "mutant"]
    assert "range proof" in missing_of_row(replace(FORGETFUL, operands=(shared,)))


@pytest.mark.parametrize("reader", ["accesses", "interpreter", "renderer", "report"])
def test_an_instruction_without_a_part_is_an_error_where_it_is_needed(reader) -> None:
    steps = (Move(r[0], Y[0, 0]), Move(Y[tx // 16, tx % 16], r[0], via=FORGETFUL))
    with pytest.raises(UnknownStep, match="frobnicate"):
        READERS[reader](plan(*steps[1:]))


def test_every_scope_of_a_sync_has_a_text_and_a_meaning() -> None:
    template = (Path(__file__).parents[2] / "tilegen" / "templates" / "steps.cu.j2").read_text()
    for scope in SCOPES:
        assert scope == "thread" or f"scope == '{scope}'" in template, scope
