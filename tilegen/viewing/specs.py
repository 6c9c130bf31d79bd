"""A spec as the page shows it: memories, choices with what was rejected, accesses, roles over time, CUDA text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from tilegen.cost.time import read_time
from tilegen.decisions import TILING, describe_answer, printable
from tilegen.index import bound
from tilegen.interpret import Record
from tilegen.layouts import read_mma
from tilegen.pipeline import Source, load_kernel, with_comparisons
from tilegen.plan import Launch, Plan
from tilegen.planner import plan_spec
from tilegen.proofs.described_faults import describe_fault
from tilegen.proofs.meaning import record_events
from tilegen.render import render
from tilegen.report import describe_tensor_memory, explain_plan, pin_choices, say_role, say_summary
from tilegen.report.events import events_data, has_events, list_cells, list_columns
from tilegen.spec.data import Call, Nest, Spec, Statement, WholeCall
from tilegen.spec.outline import launch_of
from tilegen.spec.printing import head_of, print_spec
from tilegen.viewing.examples import example_of
from tilegen.viewing.linking import link_op
from tilegen.viewing.page import PageData, write_page
from tilegen.viewing.presets import own_presets, own_tilings, tiling_data
from tilegen.viewing.tensor_memory import draw_tensor_memory

ROWS = 40  # of events
Data = Mapping[str, Any]
READS, WRITES, UPDATES = "reads", "writes", "updates"


def spec_page(
    source: Source, arch: str | None = None, params: Mapping[str, int | float] | None = None, processes: int = 1
) -> tuple[str, str]:
    """The kernel's name and the page of a spec; takes what ``tilegen.load`` takes, and raises what it raises.

    Nothing is proved here: the page shows what `tilegen explain` says and the text that a build would prove.
    """
    spec = load_kernel(source, arch, params, processes, "a page")
    plan, launch = plan_spec(spec), launch_of(spec)
    return plan.name, write_page(page_of(spec, plan, launch, render(plan), processes))


def page_of(spec: Spec, plan: Plan, launch: Launch, cuda: str, processes: int = 1) -> PageData:
    """The data of a spec's page."""
    explained = explain_plan(with_comparisons(spec, plan, processes), launch, with_derivations=True)
    return PageData(
        plan.name, own_presets(), [*_tilings(explained), *own_tilings()],
        examples=(example_of(spec, plan, launch, explained),), spec=_spec_data(spec, plan, launch, explained, cuda),
        opens="choices",
    )  # fmt: skip


# ---------------------------------------------------------------- memories
def _memories(spec: Spec, plan: Plan) -> list[dict[str, Any]]:
    """Every buffer; in shared memory with the first byte and the bytes that it takes, in tensor memory the columns."""
    shared = [m for m in plan.memories if m.traits.is_pooled]
    placed = {m.name: (m.offset_bytes, (bound(m.span) - 1) * m.elem_bytes) for m in shared}
    taken = describe_tensor_memory(spec, plan).get("tensor_memory", {}).get("buffers", ())
    placed |= {b["buffer"]: (b["first_column"], b["taken"]) for b in taken}
    return [
        {
            "name": b.name, "scope": b.scope, "dtype": b.dtype, "shape": " x ".join(map(str, b.shape)),
            "layout": str(b.layout), "chosen": b.layout_text == "auto", "line": b.mark.line if b.mark else 0,
            "root": b.root, "over": list(b.over),
            "at": list(placed.get(b.root, ())) if b.traits.is_pooled or b.traits.has_cells else [],
        }
        for b in spec.buffers
    ]  # fmt: skip


# ---------------------------------------------------------------- choices and ops
def _spell_choice(choice: Data) -> dict[str, Any]:
    question = choice["question"]
    candidates = [
        {
            "value": printable(describe_answer(question, c["value"])), "verdict": c["verdict"],
            "figures": c["cost"] or read_time(c["verdict"]),
        }
        for c in choice["candidates"]
    ]  # fmt: skip
    picked = printable(describe_answer(question, choice["picked"]))
    return {"question": question, "picked": picked, "candidates": candidates, "proof": printable(choice["proof"])}


def _op_data(
    number: int, op: Data, keys: Sequence[str], lines: Sequence[str], names: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    code = link_op(lines, op["text"], {a["buffer"]: names.get(a["buffer"], [a["buffer"]]) for a in op["accesses"]})
    refused = [
        {
            "variant": r["variant"], "reason": printable(r["reason"]), "cost": r["cost"],
            "choices": [_spell_choice(c) for c in r["choices"]],
        }
        for r in op["refused"]
    ]  # fmt: skip
    return {
        "number": number, "text": printable(op["text"]), "line": op["line"], "variant": op["variant"],
        "scope": op["scope"], "cost": op["cost"], "refused": refused,
        "choices": [_spell_choice(c) for c in op["choices"]],
        "accesses": [{**a, "key": key} for a, key in zip(op["accesses"], keys, strict=True)],
        "functions": list(op.get("functions", ())), "code": asdict(code),
    }  # fmt: skip


def _tilings(explained: Data) -> list[dict[str, Any]]:
    """Each product's tiling once, where an R can be chosen; of an op on whole arrays it is a choice of the kernel."""
    places = [("kernel", "of the kernel", explained["choices"])]
    for k, op in enumerate(explained["ops"], 1):
        places.append((f"op{k}", f"op {k}: {printable(op['text'])}", op["choices"]))
    found: dict[str, dict[str, Any]] = {}
    for key, name, choices in places:
        for choice in choices:
            read = read_mma(choice["picked"]) if choice["question"] == TILING else None
            if read and choice["picked"] not in found:
                data = tiling_data(key, name, read[0])
                found |= {choice["picked"]: data} if data["runs"] else {}
    return list(found.values())


# ---------------------------------------------------------------- roles over time
def _timeline(spec: Spec, plan: Plan, launch: Launch) -> dict[str, Any] | None:
    """The interpreter's own log, row by row; None where nothing runs by itself."""
    if not has_events(plan):
        return None
    record: Record = record_events(spec, plan, ROWS)
    data = events_data(plan, launch, record)
    many = len(data["ctas"]) > 1
    fault = describe_fault(spec, record.fault) if record.fault else None
    return {
        "columns": [f"CTA {cta}: {role}" if many else role for cta, role in list_columns(data)],
        "roles": [say_role(role) for role in data["roles"]],
        "barriers": data["barriers"], "is_cut": data["is_cut"], "fault": fault.message if fault else None,
        "cells": list_cells(data), "params": data["params"],
    }  # fmt: skip


def _find_kernel(lines: Sequence[str]) -> int:
    """The line where the kernel itself begins, after the functions that it calls."""
    return next(k for k, line in enumerate(lines) if "__global__" in line)


def _spec_data(spec: Spec, plan: Plan, launch: Launch, explained: Data, cuda: str) -> dict[str, Any]:
    lines = cuda.splitlines()
    numbers = count(1)
    keys = [[f"a{next(numbers)}" for _ in op["accesses"]] for op in explained["ops"]]
    expanded, places = expanded_lines(spec, plan) if spec.whole else ([], [])
    roots = {b.name: b.root for b in spec.buffers}
    names = {b.name: [name for name, root in roots.items() if root == b.root] for b in spec.buffers}
    return {
        "kernel": plan.name, "arch": plan.arch, "grid": list(launch.grid), "threads": plan.threads,
        "summary": say_summary(plan.name, plan.threads, explained["summary"]),
        "memories": _memories(spec, plan), "steps": list_steps(spec, plan),
        "choices": [_spell_choice(c) for c in explained["choices"]],
        "ops": [_op_data(k, op, keys[k - 1], lines, names) for k, op in enumerate(explained["ops"], 1)],
        "tensor_memory": draw_tensor_memory(spec, plan), "timeline": _timeline(spec, plan, launch),
        "cuda": lines, "yaml": spec.text.splitlines(),
        "path": Path(spec.path).name, "kernel_line": _find_kernel(lines),
        "expanded": expanded, "expanded_lines": places,
    }  # fmt: skip


def list_steps(spec: Spec, plan: Plan) -> list[dict[str, Any]]:
    """Every statement in the order of the text: {depth, text, line, op, touches}; ``op`` is 0 for what is no op.

    ``touches`` are {buffer: reads, writes or updates}. Takes what ``load`` returned: no op is on whole arrays.
    """
    texts = iter(printable(operation.text) for operation in plan.operations)
    numbers = iter(range(1, len(plan.operations) + 1))
    return list(_steps(spec.ops, 0, texts, numbers))


def _steps(
    statements: Sequence[Statement], depth: int, texts: Iterator[str], numbers: Iterator[int]
) -> Iterator[dict[str, Any]]:
    for s in statements:
        if isinstance(s, WholeCall):
            raise TypeError("an op on whole arrays has tile ops once the spec is loaded by tilegen.load")
        line = s.mark.line if s.mark else 0
        if isinstance(s, Call):
            yield {
                "depth": depth, "text": next(texts), "line": line, "op": next(numbers), "touches": touches_of(s),
            }  # fmt: skip
            continue
        yield {"depth": depth, "text": printable(head_of(s)), "line": line, "op": 0, "touches": {}}
        if isinstance(s, Nest):
            yield from _steps(s.body, depth + 1, texts, numbers)


def touches_of(call: Call) -> dict[str, str]:
    """What an op does to each buffer that it names; operands of an expression are read."""
    read = dict.fromkeys(region.buffer.name for region in call.read)
    written = dict.fromkeys(region.buffer.name for region in call.written)
    return {
        name: UPDATES if name in read and name in written else READS if name in read else WRITES
        for name in (read | written)
    }  # fmt: skip


def expanded_lines(spec: Spec, plan: Plan) -> tuple[list[str], list[int]]:
    """The tile ops of a spec of an op on whole arrays, as `tilegen explain --expanded` prints them, and each op's line.

    Raises ValueError where the text has other ops than the plan.
    """
    lines = print_spec(pin_choices(spec, plan)).splitlines()
    names = "|".join({re.escape(operation.op) for operation in plan.operations})
    found = [n for n, line in enumerate(lines, 1) if re.match(rf"\s*- ({names}):", line)]
    if len(found) != len(plan.operations):
        raise ValueError(f"{len(found)} ops are printed of {len(plan.operations)}")
    return lines, found
