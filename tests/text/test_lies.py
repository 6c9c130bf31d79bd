"""``edge: clip`` where tables break their promise: the text of kernels, run with lies, touches nothing it must not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.faults.verdicts import proof_code
from text.run import POISON, compile_plans, requires_runner
from tilegen.index import Index, conjuncts, every, variables
from tilegen.pipeline import Built, build
from tilegen.plan import Block, Fetch, Move, Plan, Repeat, Step, Tma, When, when
from tilegen.proofs import prove
from tilegen.ptx import PtxFault

pytestmark = requires_runner
T, V, D = 40, 10, 32
LIES = (V, V + 1, -1, -(2**31), 2**31 - 1, 2**26, 2**25 + 3, 2**30)  # times D they leave an int, or come back into it
LONG_LIES = (*LIES, 2**32 + 5, 2**63 - 1, -(2**63), 2**40)  # cut to an int, some are numbers of the range
HEAD = """
kernel: {name}
arch: sm_90
params: {{V: {V}, D: {D}}}
grid: {{bx: {T}}}
threads: {threads}
buffers:
  ids: {{scope: global, dtype: {idtype}, shape: [{T}], values: "{values}"{more}}}
"""
READ = (
    HEAD
    + """
  W: {{scope: global, dtype: float32, shape: [V, D]}}
  Y: {{scope: global, dtype: float32, shape: [{T}, D]}}
  S: {{scope: shared, dtype: float32, shape: [1, D]}}
  r: {{scope: register, dtype: float32, shape: [1, D], layout: auto}}
ops:
  - let: {{id: "ids[bx]"}}
"""
)
WRITE = (
    HEAD
    + """
  X: {{scope: global, dtype: float32, shape: [{T}, D]}}
  W: {{scope: global, dtype: float32, shape: [V, D], partial: true}}
  S: {{scope: shared, dtype: float32, shape: [1, D]}}
  r: {{scope: register, dtype: float32, shape: [1, D], layout: auto}}
ops:
  - let: {{id: "ids[bx]"}}
"""
)
READERS = {
    "rows": ['copy: {src: "W[id : +1]", dst: "Y[bx : +1]", edge: clip}'],
    "padded": ['copy: {src: "W[id : +1]", dst: "Y[bx : +1]", edge: clip, pad: 3}'],
    "computed": ['elementwise: {dst: "Y[bx : +1]", expr: "w", with: {w: "W[id : +1]"}, edge: clip}'],
    "registers": ['copy: {src: "W[id : +1]", dst: r, edge: clip}', 'copy: {src: r, dst: "Y[bx : +1]"}'],
    "staged": ['copy: {src: "W[id : +1]", dst: S, edge: clip}', "sync: cta", 'copy: {src: S, dst: "Y[bx : +1]"}'],
    "cp_async": [
        'copy: {src: "W[id : +1]", dst: S, async: true, edge: clip}', "commit: true", "wait: 0", "sync: cta",
        'copy: {src: S, dst: "Y[bx : +1]"}',
    ],
    "tma": [
        'copy: {src: "W[id : +1]", dst: S, variant: tma, barrier: full, edge: clip}', "wait: {barrier: full}",
        'copy: {src: S, dst: "Y[bx : +1]"}',
    ],
    "loops": ['for: {i: id + 1}\n    do: [copy: {src: "W[i : +1]", dst: "Y[bx : +1]", edge: clip}]'],
    "under": ['when: id < 7\n    do: [copy: {src: "W[id + 3 : +1]", dst: "Y[bx : +1]", edge: clip}]'],
    "found": ['let: {other: "ids[id]"}', 'copy: {src: "W[other : +1]", dst: "Y[bx : +1]", edge: clip}'],
    "gathered": ['gather: {src: W, index: "ids[id : +1]", dst: "Y[bx : +1]", axis: 0, edge: clip}'],
}  # fmt: skip
WRITERS = {
    "to_rows": ['copy: {src: "X[bx : +1]", dst: "W[id : +1]", edge: clip}'],
    "to_computed": ['elementwise: {dst: "W[id : +1]", expr: "x", with: {x: "X[bx : +1]"}, edge: clip}'],
    "to_registers": ['copy: {src: "X[bx : +1]", dst: r}', 'copy: {src: r, dst: "W[id : +1]", edge: clip}'],
    "to_tma": [
        'copy: {src: "X[bx : +1]", dst: S}', "sync: async", "sync: cta",
        'copy: {src: S, dst: "W[id : +1]", variant: tma, edge: clip}', "wait: 0",
    ],
}  # fmt: skip


def write_spec(name: str, idtype: str = "int32") -> str:
    head, ops = (READ, READERS[name]) if name in READERS else (WRITE, WRITERS[name])
    more = "" if name in READERS else ", distinct: true"
    low = 0 if name in READERS else -1
    text = head.format(
        name=f"lies_{name}_{idtype}", V=V, D=D, T=T, threads=32, idtype=idtype, more=more, values=f"{low} : V"
    )
    if name in ("loops", "under"):
        text = text.replace("shape: [40, D]}", "shape: [40, D], partial: true}")
    used = " ".join(ops)
    lines = [
        x
        for x in text.splitlines()
        if not x.startswith(("  S:", "  r:")) or f" {x[2]}," in used or f": {x[2]}}}" in used
    ]
    body = ops if name in READERS else [f"when: id >= 0\n    do:\n      - {op}" if "W[" in op else op for op in ops]
    return "\n".join([*lines, *(f"  - {op}" for op in body)])


@cache
def build_case(name: str, idtype: str = "int32") -> Built:
    built = build(write_spec(name, idtype))
    assert isinstance(built, Built)
    return built


def draw_table(idtype: str, low: int = 0, lies: Sequence[int] = ()) -> tuple[Any, Any]:
    """Elements, half of them lies, and which keep the promise."""
    lies = lies or (LIES if idtype == "int32" else LONG_LIES)
    ids = np.array([lies[k // 2 % len(lies)] if k % 2 else k // 2 % V for k in range(T)], idtype)
    return ids, (low <= ids) & (ids < V)


def expect_rows(name: str, ids: Any, kept: Any, table: Any) -> Any:
    """What a reader writes."""
    poison = np.full((T, D), POISON, np.uint8).repeat(4, 1).view(np.float32).reshape(T, D)
    trusted = np.where(kept, ids, 0).astype(int)  # what stands for a lie
    if name == "under":
        return np.where(
            (trusted < 7)[:, None], np.where(kept[:, None], table[np.minimum(trusted + 3, V - 1)], 0), poison
        )
    if name in ("found", "gathered"):
        found = ids[trusted]
        good = kept & (found >= 0) & (found < V)
        return np.where(good[:, None], table[np.where(good, found, 0).astype(int)], 0)
    return np.where(kept[:, None], table[trusted], 3 if name == "padded" else 0)


def check_reader(plan: Plan, name: str, idtype: str, lies: Sequence[int] = ()) -> None:
    ids, kept = draw_table(idtype, 0, lies)
    table = np.arange(V * D, dtype=np.float32).reshape(V, D) + 1
    found = compile_plans([plan])[0].run({"ids": ids, "W": table})["Y"].reshape(T, D)
    np.testing.assert_array_equal(found.view(np.uint32), expect_rows(name, ids, kept, table).astype("f4").view("u4"))


def check_writer(plan: Plan, name: str, idtype: str, lies: Sequence[int] = ()) -> None:
    ids, kept = draw_table(idtype, -1, lies)
    own = np.arange(T)
    ids = np.where(kept, np.where((own < 2 * V) & (ids >= 0), ids, -1), ids).astype(idtype)  # each of 0 or more once
    rows = np.arange(T * D, dtype=np.float32).reshape(T, D) + 1
    found = compile_plans([plan])[0].run({"ids": ids, "X": rows})["W"].reshape(V, D)
    wanted = np.full(V * D * 4, POISON, np.uint8).view(np.float32).reshape(V, D)
    for t in np.flatnonzero(kept & (ids >= 0)):
        wanted[ids[t]] = rows[t]
    np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))


def check_case(plan: Plan, name: str, idtype: str = "int32", lies: Sequence[int] = ()) -> None:
    (check_reader if name in READERS else check_writer)(plan, name, idtype, lies)


CASES = [*((name, "int32") for name in (*READERS, *WRITERS)), ("rows", "int64"), ("to_rows", "int64"), ("tma", "int64")]


@pytest.mark.parametrize(("name", "idtype"), CASES)
def test_a_lie_is_dropped(name: str, idtype: str) -> None:
    check_case(build_case(name, idtype).plan, name, idtype)


# ---- faults: a clip that goes because the promise says so
def change(steps: tuple[Step, ...], edit: Callable[[Step], Iterator[Step]]) -> tuple[Step, ...]:
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Repeat | When | Block):
            step = replace(step, body=change(step.body, edit))
        found += edit(step)
    return tuple(found)


def of_plan(plan: Plan, edit: Callable[[Step], Iterator[Step]]) -> Plan:
    return replace(plan, roles=tuple(replace(r, steps=change(r.steps, edit)) for r in plan.roles))


def forget(condition: Index) -> Index:
    kept = (c for c in conjuncts(condition) if not any(v.name.endswith("_kept") for v in variables(c)))
    return every(*kept)


def untested(step: Step) -> Iterator[Step]:
    """The element is trusted where it is read."""
    yield replace(step, test=None) if isinstance(step, Fetch) else step


def unclipped(step: Step) -> Iterator[Step]:
    """What is read and written no longer asks."""
    if isinstance(step, When) and forget(step.condition) != step.condition:
        yield from when(forget(step.condition), *step.body)
    elif isinstance(step, Move):
        yield replace(step, valid=forget(step.valid))
    elif isinstance(step, Tma) and getattr(step.at[0], "symbol", "") == "?":
        yield replace(step, at=(step.at[0].args[1], *step.at[1:]))  # type: ignore[union-attr]
    else:
        yield step


NEAR = (V, V + 1)  # so near that what is touched there is seen, and is no other's


@pytest.mark.parametrize("name", [*READERS, *WRITERS])
def test_a_clip_that_the_promise_takes_away_is_refused(name: str) -> None:
    """Fault 20: ranges, owners and runs show nothing of it, since they rest on the promise."""
    built = build_case(name)
    wrong = of_plan(built.plan, unclipped)
    assert wrong != built.plan
    assert proof_code(lambda: prove(built.spec, wrong)) == "TG416"
    if name in READERS:  # of a writer, what stands for a lie is -1, which it leaves out
        with pytest.raises((AssertionError, PtxFault)):
            check_case(wrong, name)


@pytest.mark.parametrize("name", [name for name in (*READERS, *WRITERS) if name not in ("under", "found")])
def test_an_element_that_is_trusted_is_refused(name: str) -> None:
    built = build_case(name)
    wrong = of_plan(of_plan(built.plan, untested), unclipped)
    assert proof_code(lambda: prove(built.spec, wrong)) == "TG416"
    if "tma" not in name:  # TMA drops what is outside
        with pytest.raises((AssertionError, PtxFault)):
            check_case(wrong, name, lies=NEAR)
