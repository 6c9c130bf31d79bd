"""Mutants of a plan: each differs in one place: a sync dropped, an address moved, a condition that asks for more."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import isfinite
from typing import Any

from tests.faults.parts import align_shared, order_only_ctas
from tilegen.arithmetic import Apply, Literal, Node, Parameter
from tilegen.index import (
    Formula,
    Index,
    Var,
    add,
    conjuncts,
    div,
    evaluate,
    every,
    less,
    mod,
    mul,
    not_,
    replace_part,
    sub,
    variables,
)
from tilegen.plan import (
    FILL,
    MOVE,
    RED,
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
    Step,
    Sync,
    TensorCopy,
    TensorFence,
    TensorMma,
    Tma,
    Wait,
    Wgmma,
    When,
    default_values,
    effects,
    find_updates,
)

KINDS = (
    "sync dropped", "commit dropped", "wait dropped", "wait weakened", "other phase", "bytes announced",
    "arrival dropped", "order weakened", "fence late", "other peers", "box",
    "global address", "shared address",
    "step dropped", "step twice", "trip dropped", "condition flipped", "other stage",
    "other integer", "other literal", "parameter fixed", "other function", "operands exchanged", "other lanes",
    "other register", "register index", "base of a function", "half away", "one residue",
    "swizzle dropped", "guard tightened", "other alignment", "atomic stored", "replicas add",
)  # fmt: skip
_RESIDUE = 3  # of bx: one CTA in so many is wrong


@dataclass(frozen=True)
class Mutant:
    """``kind`` is one of KINDS; ``where`` says which step, and what was done to it; ``of`` what was changed."""

    kind: str
    where: str
    plan: Plan
    of: str  # the instruction that was changed, or the kind of step


@dataclass(frozen=True)
class _Scene:
    """Where a step stands: the registers that it could name, and the variables of the loops around; what params are
    when a launch does not say.
    """

    registers: tuple[Memory, ...]
    defaults: Mapping[str, float]
    loops: frozenset[str] = frozenset()

    def inside(self, step: Step) -> _Scene:
        if isinstance(step, Repeat):
            return replace(self, loops=self.loops | {step.var.name})
        if isinstance(step, Block):
            formals = (formal for formal, _ in step.args if isinstance(formal, Memory))
            return replace(self, registers=_registers((*formals, *step.registers)))
        return self


def _registers(memories: Iterable[Memory]) -> tuple[Memory, ...]:
    return tuple(m for m in memories if m.space == "register")


def plant(plan: Plan) -> Iterator[Mutant]:
    """Every mutant of a plan, in the order of its steps."""
    for number, role in enumerate(plan.roles):
        far = int(evaluate(plan.grid[0], default_values(plan.params))) >= _RESIDUE
        path = f"{role.name}." if len(plan.roles) > 1 else ""
        scene = _Scene(_registers(plan.memories), {p.name: p.default for p in plan.params})
        for kind, where, steps, of in _variants(role.steps, path, scene):
            if kind == "one residue" and not far:
                continue
            roles = (*plan.roles[:number], replace(role, steps=steps), *plan.roles[number + 1 :])
            yield Mutant(kind, where, replace(plan, roles=roles), of)
    for m in plan.memories:
        if m.space == "shared" and m.align_bytes > m.elem_bytes:
            other = align_shared(plan, m.elem_bytes, m.name)
            yield Mutant("other alignment", f"{m.name}: of an element", other, "Memory")
    for barrier in plan.barriers:
        if barrier.order == "cluster":
            yield Mutant(
                "order weakened", f"{barrier.name} orders a CTA", order_only_ctas(plan, barrier.name), "Barrier"
            )


def sample_mutants(name: str, mutants: Sequence[Mutant], most: int) -> list[Mutant]:
    """So many of a spec's mutants, in their order: of every kind that it has, the same in every run."""
    by_kind = {kind: [m for m in mutants if m.kind == kind] for kind in KINDS}
    for kind, mine in by_kind.items():
        random.Random(f"{name} {kind}").shuffle(mine)
    turns = sorted((turn, kind) for kind, mine in by_kind.items() for turn in range(len(mine)))
    picked = {id(by_kind[kind][turn]) for turn, kind in turns[: max(most, sum(map(bool, by_kind.values())))]}
    return [m for m in mutants if id(m) in picked]


def _variants(steps: tuple[Step, ...], path: str, scene: _Scene) -> Iterator[tuple[str, str, tuple[Step, ...], str]]:
    """(kind, where, steps, what was changed) with one change in the steps or below them."""
    for i, step in enumerate(steps):
        before, after = steps[:i], steps[i + 1 :]
        here = f"{path}{i}.{type(step).__name__}"
        row = effects(step).instruction
        of = row.name if row else type(step).__name__
        for kind, what, changed in _changes(step, scene):
            yield kind, f"{here}: {what}", (*before, *changed, *after), of
        if isinstance(step, Sync) and step.scope == "async" and after:
            yield "fence late", f"{here}: after the next step", (*before, after[0], step, *after[1:]), of
        for kind, where, body, of in _variants(effects(step).body, f"{here}/", scene.inside(step)):
            yield kind, where, (*before, replace(step, body=body), *after), of  # type: ignore[call-arg]


Change = tuple[str, str, tuple[Step, ...]]


def _changes(step: Step, scene: _Scene) -> Iterator[Change]:
    """The mutations of one step: those of its kind, and each of its operands at another place."""
    yield from CHANGES.get(type(step), lambda step: ())(step)
    if isinstance(step, Compute):
        for n, (name, tree) in enumerate(_fixed_trees(step.tree, scene.defaults)):
            yield "parameter fixed", f"{name} ({n})", (replace(step, tree=tree),)
    for slot in effects(step).slots:
        if slot.barrier.slots > 1:
            field = "done" if isinstance(step, Tma) else "slot"
            other = replace(slot, at=mod(add(slot.at, 1), slot.barrier.slots))
            yield "other stage", f"{slot.barrier.name} + 1", (replace(step, **{field: other}),)  # type: ignore[arg-type]
    if isinstance(step, Let):
        for what, value in _restaged(step.value, scene):
            yield "other stage", f"{step.var.name}: {what}", (replace(step, value=value),)
    if isinstance(step, DATA):
        name = effects(step).instruction.name  # type: ignore[union-attr]
        yield "step dropped", f"{name} dropped", ()
        begins_anew = isinstance(step, Wgmma | TensorMma) and step.accumulate is False
        if {t.ref for t in effects(step).read} & {t.ref for t in effects(step).written} and not begins_anew:
            yield "step twice", f"{name} twice", (step, step)
    for field, ref, put in OF_OPERANDS.get(type(step), lambda step: ())(step):
        kind = _kind(ref, field)
        for what, moved in _shifted(ref):
            yield kind, f"{field} {what}".strip(), (put(moved),)
        for kind, what, moved in (*_displaced(ref, field), *_renamed(ref, scene)):
            yield kind, f"{field} {what}".strip(), (put(moved),)
        for d, x in enumerate(ref.at):
            for what, changed in _restaged(x, scene):
                moved = Ref(ref.memory, (*ref.at[:d], changed, *ref.at[d + 1 :]))
                yield "other stage", f"{field} {ref.memory.name}[{d}]: {what}", (put(moved),)


def _of_wait(step: Wait) -> Iterator[Change]:
    yield "wait dropped", f"{step.queue}, {step.pending}", ()
    yield "wait weakened", f"{step.queue}, {step.pending + 1}", (replace(step, pending=step.pending + 1),)


def _of_box(step: Tma) -> Iterator[Change]:
    """A box begins a row on and a row's elements back, at the same offset; or it goes to one CTA fewer."""
    if len(step.at) > 1:
        *outer, row, column = step.at
        back = sub(column, step.map.memory.shape[step.map.dims[-1]])
        yield "box", f"{step.map.name}: a row on, and back", (replace(step, at=(*outer, add(row, 1), back)),)
    if step.function:
        yield "atomic stored", f"{step.map.name}: a box", (replace(step, function=""),)
    if step.rank is not None:
        yield "other peers", f"{step.map.name}: reported to the own CTA", (replace(step, rank=None),)
    yield from _of_peers(step)


def _of_peers(step: Tma | Arrive) -> Iterator[Change]:
    for k in range(step.peers.bits.bit_length() if step.peers else 0):
        if step.peers.bits >> k & 1:
            fewer = replace(step.peers, bits=step.peers.bits & ~(1 << k))
            yield "other peers", f"without {k}", (replace(step, peers=fewer),)


def _of_await(step: Await) -> Iterator[Change]:
    yield "wait dropped", f"for {step.slot.barrier.name}", ()
    yield "other phase", f"of {step.slot.barrier.name}", (replace(step, parity=mod(add(step.parity, 1), 2)),)


def _of_arrive(step: Arrive) -> Iterator[Change]:
    yield "arrival dropped", f"{step.slot.barrier.name}", ()
    if step.rank is not None:
        yield "other peers", f"{step.slot.barrier.name} of the own CTA", (replace(step, rank=None),)
    if step.landed:
        yield "arrival dropped", f"{step.slot.barrier.name}: it comes at once", (replace(step, landed="", peers=None),)
    yield from _of_peers(step)
    is_plain = step.rank is None and not step.landed  # others announce nothing
    for announced in {0: "", step.bytes // 2: "", step.bytes + 16: ""} if is_plain else ():
        if announced == step.bytes:
            continue
        yield "bytes announced", f"{step.slot.barrier.name} {announced}", (replace(step, bytes=announced),)


DATA = (Move, Map, Compute, Shuffle, Mma, Wgmma, TensorMma, TensorCopy, Tma)


def _of_compute(step: Compute) -> Iterator[Change]:
    """Each integer one more; each function of the tree another, each number, two arguments exchanged."""
    for n, x in enumerate(step.wholes):
        if isinstance(x, (Var, Formula)):
            wholes = (*step.wholes[:n], add(x, 1), *step.wholes[n + 1 :])
            yield "other integer", f"number {n} + 1", (replace(step, wholes=wholes),)
    for n, (kind, what, tree) in enumerate(_other_trees(step.tree)):
        yield kind, f"{what} ({n})", (replace(step, tree=tree),)


_OTHER = {"+": "-", "-": "+", "*": "+", "/": "*", "<": "<=", "<=": "<", "exp2": "exp", "max": "min", "min": "max"}
_ORDERED = {"-": 0, "/": 0, "<": 0, "<=": 0, ">": 0, ">=": 0, "where": 1, "fma": 1}  # the first of two that differ


def _other_trees(node: Node) -> Iterator[tuple[str, str, Node]]:
    if isinstance(node, Literal):
        yield "other literal", f"{node.value}", replace(node, value=_other_number(node.value))
    if not isinstance(node, Apply):
        return
    if node.function in _OTHER:
        other = _OTHER[node.function]
        yield "other function", f"{node.function} as {other}", replace(node, function=other)
    if node.function in _ORDERED:
        k = _ORDERED[node.function]
        args = (*node.args[:k], node.args[k + 1], node.args[k], *node.args[k + 2 :])
        yield "operands exchanged", f"of {node.function}", replace(node, args=args)
    for n, arg in enumerate(node.args):
        for kind, what, changed in _other_trees(arg):
            yield kind, what, replace(node, args=(*node.args[:n], changed, *node.args[n + 1 :]))


def _fixed_trees(node: Node, defaults: Mapping[str, float]) -> Iterator[tuple[str, Node]]:
    """The tree with one of its params as a number, what it is where a launch does not say."""
    if isinstance(node, Parameter):
        yield node.name, Literal(defaults[node.name], node.type)
    for n, arg in enumerate(node.args if isinstance(node, Apply) else ()):
        for name, changed in _fixed_trees(arg, defaults):
            yield name, replace(node, args=(*node.args[:n], changed, *node.args[n + 1 :]))


def _other_number(value: Any) -> Any:
    """A number near it; of one that is none, 0."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value * (1 + 2**-9) + (value == 0) if isfinite(value) else 0.0


def _of_map(step: Map) -> Iterator[Change]:
    if step.fn is FILL and isinstance(step.value, (bool, int, float)):
        yield "other literal", f"{step.value}", (replace(step, value=_other_number(step.value)),)


def _of_shuffle(step: Shuffle) -> Iterator[Change]:
    for lanes in {step.lanes ^ 1 or 2: "", step.lanes // 2 or 2: ""}:
        yield "other lanes", f"{lanes}", (replace(step, lanes=lanes),)
    if step.way != "xor":
        way = {"down": "up", "up": "down", "set": "clear", "clear": "set"}[step.way]
        yield "other lanes", way, (replace(step, way=way),)


def _of_mma(step: Mma) -> Iterator[Change]:
    yield "operands exchanged", "a and b", (replace(step, a=step.b, b=step.a),)


def _of_repeat(step: Repeat) -> Iterator[Change]:
    """One trip fewer, where there is one."""
    if isinstance(step.count, int):
        yield "trip dropped", f"of {step.count}", (replace(step, count=step.count - 1),)
    else:
        yield "trip dropped", f"of {step.count}", (replace(step, count=sub(step.count, less(0, step.count))),)


def _of_condition(step: When | Move, field: str) -> Iterator[Change]:
    condition = getattr(step, field)
    for what, asked in _tightened(condition):
        yield "guard tightened", what, (replace(step, **{field: asked}),)
    if not isinstance(condition, bool):
        yield "condition flipped", f"{condition}", (replace(step, **{field: not_(condition)}),)


def _of_move(step: Move) -> Iterator[Change]:
    """An update as a store, or by another function that the type has."""
    yield from _of_condition(step, "valid")
    if step.via.function:
        yield "atomic stored", step.via.name, (replace(step, via=MOVE),)
        memory = step.dst.memory
        other = "max" if step.via.function != "max" else "min"
        if find_updates(other, memory.dtype, memory.traits.state):
            yield "other function", f"{step.via.name} as {other}", (replace(step, via=RED[other]),)


def _of_when(step: When) -> Iterator[Change]:
    """Another condition; without one, what one of several threads that hold an element would put there, all do."""
    yield from _of_condition(step, "condition")
    if any(isinstance(s, Move) and s.via.function for s in step.body):
        yield "replicas add", f"{step.condition} dropped", step.body


def _of_products(step: Wgmma | TensorMma) -> Iterator[Change]:
    """It adds where it did not, or the other way round; its operands lie in another swizzle, or at other strides."""
    yield "other integer", "adds the other way", (replace(step, accumulate=not_(step.accumulate)),)
    for field in ("a_lies", "b_lies"):
        lies = getattr(step, field)
        if lies is not None and lies.along == "k":
            other = {128: 64, 64: 32, 32: 64, 0: 32}[lies.swizzle_bytes]
            changed = {field: replace(lies, swizzle_bytes=other)}
            yield "swizzle dropped", f"{field} in {other} bytes", (replace(step, **changed),)  # type: ignore[arg-type]
    if isinstance(step, TensorMma) and step.factors:
        yield "other integer", "factors of another step", (replace(step, factor=(step.factor + 1) % 4),)


def _of_copy_of_rows(step: TensorCopy) -> Iterator[Change]:
    """Groups of 8 rows lie at another distance."""
    for stride in (0, 2 * step.src_lies.stride_bytes):
        lies = replace(step.src_lies, stride_bytes=stride)
        yield "other integer", f"rows {stride} bytes apart", (replace(step, src_lies=lies),)


CHANGES: dict[type, Callable[[Any], Iterable[Change]]] = {
    Sync: lambda step: [("sync dropped", step.who, ())],
    Fence: lambda step: [("sync dropped", "fence", ())],
    TensorFence: lambda step: [("fence dropped", step.side, ())],
    Wgmma: _of_products,
    TensorMma: _of_products,
    TensorCopy: _of_copy_of_rows,
    Commit: lambda step: [("commit dropped", step.queue, ())],
    Wait: _of_wait,
    Follow: lambda step: [("wait dropped", "previous", ())],
    Await: _of_await,
    Arrive: _of_arrive,
    Tma: _of_box,
    Compute: _of_compute,
    Map: _of_map,
    Shuffle: _of_shuffle,
    Mma: _of_mma,
    Repeat: _of_repeat,
    When: _of_when,
    Move: _of_move,
}

Operand = tuple[str, Ref, Callable[[Ref], Step]]  # the field, the place, the step with another place there


def _operands_of(step: Map | Compute) -> Iterator[Operand]:
    yield "dst", step.dst, lambda ref: replace(step, dst=ref)
    for n, src in enumerate(step.srcs):
        yield f"src{n or ''}", src, lambda ref, n=n: replace(step, srcs=(*step.srcs[:n], ref, *step.srcs[n + 1 :]))  # type: ignore[misc]


def _of_tma(step: Tma) -> Iterator[Operand]:
    own, dims = step.map.memory, step.map.dims  # a dimension of one element may have no coordinate
    seen = replace(own, shape=tuple(own.shape[d] for d in dims), pitches=tuple(own.pitches[d] for d in dims))
    yield step.map.name, Ref(seen, step.at), lambda ref: replace(step, at=ref.at)
    yield "", step.shared, lambda ref: replace(step, shared=ref)


def _of_block(step: Block) -> Iterator[Operand]:
    for n, (formal, actual) in enumerate(step.args):
        if isinstance(actual, Ref):
            yield (
                f"{formal.name} at",
                actual,
                lambda ref, n=n, formal=formal: replace(  # type: ignore[misc]
                    step, args=(*step.args[:n], (formal, ref), *step.args[n + 1 :])
                ),
            )


OF_OPERANDS: dict[type, Callable[[Any], Iterable[Operand]]] = {
    Fetch: lambda step: [("src", step.src, lambda ref: replace(step, src=ref))],
    Pick: lambda step: [("src", step.src, lambda ref: replace(step, src=ref))],
    Move: lambda step: [
        ("dst", step.dst, lambda ref: replace(step, dst=ref)), ("src", step.src, lambda ref: replace(step, src=ref)),
    ],
    Map: _operands_of,
    Compute: _operands_of,
    Shuffle: lambda step: [
        ("dst", step.dst, lambda ref: replace(step, dst=ref)), ("src", step.src, lambda ref: replace(step, src=ref)),
    ],
    Mma: lambda step: [
        (name, getattr(step, name), lambda ref, name=name: replace(step, **{name: ref})) for name in ("c", "a", "b")
    ],
    Wgmma: lambda step: [
        (name, getattr(step, name), lambda ref, name=name: replace(step, **{name: ref})) for name in ("c", "a", "b")
    ],
    TensorMma: lambda step: [
        (name, getattr(step, name), lambda ref, name=name: replace(step, **{name: ref}))
        for name in ("c", "a", "b", *step.factors)
    ],
    TensorCopy: lambda step: [
        (name, getattr(step, name), lambda ref, name=name: replace(step, **{name: ref})) for name in ("dst", "src")
    ],
    Tma: _of_tma,
    Block: _of_block,
}  # fmt: skip


def _kind(ref: Ref, field: str) -> str:
    if field.endswith("_map") or "_map_" in field:
        return "box"
    if field.endswith(" at"):
        return "base of a function"
    return "register index" if ref.memory.space == "register" else f"{ref.memory.space} address"


def _shifted(ref: Ref) -> Iterator[tuple[str, Ref]]:
    """The reference with one more, and with one less, in one of its coordinates. No Index is a negative number."""
    for d, x in enumerate(ref.at):
        for what, changed in (("+ 1", add(x, 1)), ("- 1", sub(x, 1) if x != 0 else None)):
            if changed is not None:
                at = (*ref.at[:d], changed, *ref.at[d + 1 :])
                yield f"{ref.memory.name}[{d}] {what}", Ref(ref.memory, at)


def _displaced(ref: Ref, field: str) -> Iterator[tuple[str, str, Ref]]:
    """(kind, what, place): half an extent away, round the end, so that only the meaning is wrong; a function's base so
    for one residue of bx alone; without a swizzle."""
    for d, (x, n) in enumerate(zip(ref.at, ref.memory.shape, strict=True)):
        if not isinstance(n, int) or n < 2 or ref.memory.space == "register":
            continue
        places = [("half away", f"{ref.memory.name}[{d}] + {n // 2}", mod(add(x, n // 2), n))]
        if field.endswith(" at"):
            third = div(mod(Var("bx", 1 << 20), _RESIDUE), _RESIDUE - 1)
            places.append(("one residue", f"{ref.memory.name}[{d}]", mod(add(x, mul(third, n // 2)), n)))
        plain = _drop_swizzle(x)
        places += [("swizzle dropped", f"{ref.memory.name}[{d}]", plain)] if plain != x else []
        for kind, what, place in places:
            yield kind, f"{what} ({kind})", Ref(ref.memory, (*ref.at[:d], place, *ref.at[d + 1 :]))


def _renamed(ref: Ref, scene: _Scene) -> Iterator[tuple[str, str, Ref]]:
    """The same place in the next registers of the type: in those that are as many, if there are any."""
    if ref.memory not in scene.registers:
        return
    own = scene.registers.index(ref.memory)
    others = [m for m in (*scene.registers[own + 1 :], *scene.registers[:own]) if m.dtype == ref.memory.dtype]
    for other in sorted(others, key=lambda m: m.shape != ref.memory.shape)[:1]:
        yield "other register", f"{ref.memory.name} as {other.name}", Ref(other, ref.at)


def _restaged(x: Index, scene: _Scene) -> Iterator[tuple[str, Index]]:
    """Each remainder of a loop's number in an expression as that of the number after it."""
    for part in dict.fromkeys(_remainders(x)):
        if {v.name for v in variables(part)} <= scene.loops:
            dividend, divisor = part.args
            yield f"{part} one on", replace_part(x, part, mod(add(dividend, 1), divisor))


def _remainders(x: Index) -> list[Formula]:
    if not isinstance(x, Formula):
        return []
    return [*([x] if x.symbol == "%" else []), *(p for arg in x.args for p in _remainders(arg))]


def _drop_swizzle(x: Index) -> Index:
    """The expression with the left side alone of each XOR in its sum."""
    if isinstance(x, Formula) and x.symbol == "^":
        return x.args[0]  # type: ignore[no-any-return]
    if isinstance(x, Formula) and x.symbol == "+":
        return reduce(add, map(_drop_swizzle, x.args))
    return x


def _tightened(condition: Index) -> Iterator[tuple[str, Index]]:
    """The condition with one more asked of one of its comparisons: the last row left out."""
    parts = conjuncts(condition)
    for k, part in enumerate(parts):
        if isinstance(part, Formula) and part.symbol == "<":
            left, right = part.args
            yield f"{part} tightened", every(*parts[:k], less(add(left, 1), right), *parts[k + 1 :])
