"""A Plan as text, one line a step: what docs/how-it-works.md shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilegen.plan import (
    MOVE,
    Arrive,
    Await,
    Block,
    Commit,
    Compute,
    Fence,
    Fetch,
    Follow,
    Let,
    Map,
    Memory,
    Mma,
    Move,
    Pick,
    Plan,
    Ref,
    Repeat,
    Shuffle,
    Slot,
    Stamp,
    Step,
    Sync,
    TensorFence,
    TensorMma,
    Tma,
    UnknownStep,
    Wait,
    Wgmma,
    When,
    effects,
)
from tilegen.proofs import Owned


def print_plan(plan: Plan, owns: Iterable[Owned] = ()) -> str:
    """Memories, roles with their steps; then the boxes that CTAs own."""
    lines = [f"Plan {plan.name}, {plan.arch}, grid {tuple(map(str, plan.grid))}".replace("'", "")]
    lines += [f"  {_memory(m)}" for m in plan.memories]
    for role in plan.roles:
        lines += [f"  Role {role.name}: {role.threads} threads", *_steps(role.steps, 2)]
    for owned in owns:
        lines.append(f"  Owned {owned.memory.name} from {_numbers(owned.start)}, box {_numbers(owned.box)}")
    return "\n".join(lines)


def _memory(m: Memory) -> str:
    shape, pitches = _numbers(m.shape), _numbers(m.pitches)
    place = {"global": f", {m.access}", "shared": f", at byte {m.offset_bytes}"}.get(m.space, "")
    return f"Memory {m.name}: {m.dtype}, shape {shape}, pitches {pitches}, {m.space}{place}"


def _numbers(xs: Iterable[object]) -> str:
    return f"[{', '.join(map(str, xs))}]"


def _ref(ref: Ref) -> str:
    return f"{ref.memory.name}{_numbers(ref.at)}"


def _slot(slot: Slot) -> str:
    return f"{slot.barrier.name}[{slot.at}]"


def _steps(steps: Iterable[Step], depth: int) -> Iterator[str]:
    for step in steps:
        yield "  " * depth + _step(step)
        if isinstance(step, Block):
            yield from ("  " * (depth + 1) + _memory(m) for m in step.registers)
        yield from _steps(effects(step).body, depth + 1)


def _step(step: Step) -> str:
    line = LINES.get(type(step))
    if line is None:
        raise UnknownStep("the printed plan", step)
    return line(step)


def _block(step: Block) -> str:
    return f"Block {step.name}: {', '.join(f'{formal.name} is {_ref(actual)}' for formal, actual in step.args)}"


def _move(step: Move) -> str:
    guard = "" if step.valid is True else f", where {step.valid}"
    via = "" if step.via is MOVE else f", via {step.via.name}"
    elems = f"{step.elems} element{'s' if step.elems > 1 else ''}"
    return f"Move {_ref(step.dst)} <- {_ref(step.src)}, {elems}{guard}{via}"


def _rank(step: Arrive) -> str:
    return "" if step.rank is None else f", rank {step.rank}"


def _tma(step: Tma) -> str:
    box = f"{step.map.memory.name}{_numbers(step.at)} box {_numbers(step.map.box)}"
    place = _ref(step.shared)
    peers = f", {step.peers}" if step.peers else ""
    return f"Tma {place} <- {box}, {_slot(step.done)}{peers}" if step.done else f"Tma {box} <- {place}"


def _tensor_mma(step: TensorMma) -> str:
    return _products("TensorMma", step)


def _wgmma(step: Wgmma) -> str:
    return _products("Wgmma", step)


def _products(word: str, step: Wgmma | TensorMma) -> str:
    sides = " ".join(
        _ref(ref) + (f" along {lies.along} in {lies.swizzle_bytes} bytes" if lies else "")
        for ref, lies in ((step.a, step.a_lies), (step.b, step.b_lies))
    )
    return f"{word} {_ref(step.c)} += {sides}, where it adds {step.accumulate}, via {step.via.name}"


LINES: dict[type, Callable[[Any], str]] = {
    Let: lambda step: f"Let {step.var.name} = {step.value}",
    Pick: lambda step: f"Pick {step.var.name} <- {_ref(step.src)}",
    Fetch: lambda step: f"Fetch {step.var.name} <- {_ref(step.src)}, where {step.where}, else {step.otherwise}",
    Repeat: lambda step: f"Repeat {step.var.name} < {step.count}{', unrolled' if step.unroll else ''}",
    When: lambda step: f"When {step.condition}",
    Block: _block,
    Move: _move,
    Map: lambda step: (
        f"Map {_ref(step.dst)} <- {step.fn.name}({', '.join(map(_ref, step.srcs))}), {step.elems} elements"
    ),
    Compute: lambda step: f"Compute {_ref(step.dst)} <- {step.tree} of {', '.join(map(_ref, step.srcs))}",
    Shuffle: lambda step: f"Shuffle {_ref(step.dst)} <- {_ref(step.src)} x{step.elems}, lanes {step.lanes} {step.way}",
    Mma: lambda step: f"Mma {_ref(step.c)} += {_ref(step.a)} {_ref(step.b)}, via {step.via.name}",
    Wgmma: _wgmma,
    TensorMma: _tensor_mma,
    TensorFence: lambda step: f"TensorFence {step.side}",
    Sync: lambda step: f"Sync {step.who}",
    Fence: lambda step: "Fence",
    Tma: _tma,
    Arrive: lambda step: (
        f"Arrive {_slot(step.slot)}, {step.bytes} bytes{_rank(step)}"
        + (f", when {step.landed} has landed" if step.landed else "")
    ),
    Await: lambda step: f"Await {_slot(step.slot)}, parity {step.parity}",
    Commit: lambda step: f"Commit {step.queue}",
    Follow: lambda step: "Follow",
    Stamp: lambda step: f"Stamp {step.number}",
    Wait: lambda step: f"Wait {step.queue}, {step.pending} pending",
}
