"""A Plan as text, one line a step: what docs/how-it-works.md shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilegen.plan import (
    MOVE,
    Arrive,
    Await,
    Block,
    Commit,
    Let,
    Map,
    Memory,
    Move,
    Plan,
    Ref,
    Repeat,
    Slot,
    Step,
    Sync,
    Tma,
    Wait,
    When,
)


def print_plan(plan: Plan) -> str:
    """Memories, roles with their steps, owned boxes."""
    lines = [f"Plan {plan.name}, {plan.arch}, grid {tuple(map(str, plan.grid))}".replace("'", "")]
    lines += [f"  {_memory(m)}" for m in plan.memories]
    for role in plan.roles:
        lines += [f"  Role {role.name}: {role.threads} threads", *_steps(role.steps, 2)]
    for owned in plan.owns:
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
        yield from _steps(getattr(step, "body", ()), depth + 1)


def _step(step: Step) -> str:
    match step:
        case Let(var, value):
            return f"Let {var.name} = {value}"
        case Repeat(var, count, unroll=unroll):
            return f"Repeat {var.name} < {count}{', unrolled' if unroll else ''}"
        case When(condition):
            return f"When {condition}"
        case Block(name, args):
            return f"Block {name}: {', '.join(f'{formal.name} is {_ref(actual)}' for formal, actual in args)}"
        case Move(dst, src, elems, valid, via):
            guard = ("" if valid is True else f", where {valid}") + ("" if via is MOVE else f", via {via.name}")
            return f"Move {_ref(dst)} <- {_ref(src)}, {elems} elements{guard}".replace(" 1 elements", " 1 element")
        case Map(fn, dst, srcs, elems):
            return f"Map {_ref(dst)} <- {fn.name}({', '.join(map(_ref, srcs))}), {elems} elements"
        case Sync(scope):
            return f"Sync {scope}"
        case Tma(tensor, at, shared, done):
            box, place = f"{tensor.memory.name}{_numbers(at)} box {_numbers(tensor.box)}", _ref(shared)
            return f"Tma {place} <- {box}, {_slot(done)}" if done else f"Tma {box} <- {place}"
        case Arrive(slot, announced):
            return f"Arrive {_slot(slot)}, {announced} bytes"
        case Await(slot, parity):
            return f"Await {_slot(slot)}, parity {parity}"
        case Commit(queue):
            return f"Commit {queue}"
        case Wait(queue, pending):
            return f"Wait {queue}, {pending} pending"
