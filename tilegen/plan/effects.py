"""What a step touches, said once: memory, expressions, mbarriers, names. A kind of step without a row here is an error.

Provers, the interpreter, costs and the renderer read this and nothing else of a step's kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilegen.arithmetic import Parameter, list_nodes
from tilegen.index import Index, Var, less, variables
from tilegen.kept import keep
from tilegen.plan.descriptors import DEPTH_BYTES, MatrixDescriptor
from tilegen.plan.instructions import (
    BOX,
    COMPUTE,
    FETCH,
    MATRIX,
    MATRIX_ROW_ELEMS,
    PICK,
    READS,
    ROWS,
    SHUFFLE,
    THREAD,
    WRITES,
    Instruction,
    OperandForm,
)
from tilegen.plan.memories import Ref, Slot, TensorMap
from tilegen.plan.products import Fence, Mma, TensorCopy, TensorFence, TensorMma, Wgmma, count_factors
from tilegen.plan.steps import (
    Arrive,
    Await,
    Block,
    Commit,
    Compute,
    Fetch,
    Follow,
    Let,
    Map,
    Move,
    Pick,
    Repeat,
    Shuffle,
    Stamp,
    Step,
    Sync,
    Tma,
    Wait,
    When,
    list_ranks,
)


class UnknownStep(TypeError):
    """A reader of a plan met a step, or an instruction, that it does not know."""

    def __init__(self, reader: str, what: object):
        name = what.name if isinstance(what, Instruction) else type(what).__name__
        super().__init__(f"{reader} does not know {name}")
        self.told = reader, what

    def __reduce__(self) -> Any:
        """An error of another process comes with what it was told, as its text alone makes no such error."""
        return type(self), self.told


@dataclass(frozen=True)
class Touch:
    """One operand of a data step: ``elems`` consecutive elements from ``ref`` on, by each thread where ``where`` holds.

    Of a box (``lies``), ``ref`` is its first element and ``elems`` all of it: in shared memory they follow one another,
    in the array they are the box of ``map``, which alone names the array. Of a matrix, ``ref`` is where it begins and
    ``elems`` are all of it, which lie as ``matrix`` says. ``word_bytes``: registers are taken in words of so many
    bytes.
    """

    ref: Ref
    use: str  # reads | writes | updates
    lies: str  # thread | rows | box | fragment | matrix | lanes | all lanes
    elems: int
    where: Index = True
    map: TensorMap | None = None
    matrix: MatrixDescriptor | None = None
    word_bytes: int = 1

    @property
    def reads(self) -> bool:
        return self.use != WRITES

    @property
    def writes(self) -> bool:
        return self.use != READS


@dataclass(frozen=True)
class Effects:
    """Everything that a step of any kind has a hand in, what it reads before what it writes.

    ``expressions`` are those that its text holds beside the places of its operands; ``slots`` its mbarriers; ``bases``
    the places that a function is called with; ``axes`` the thread axes that its text names, ``params`` the kernel's
    params of floating type; ``body`` the steps inside.
    """

    instruction: Instruction | None = None
    touches: tuple[Touch, ...] = ()
    expressions: tuple[Index, ...] = ()
    slots: tuple[Slot, ...] = ()
    maps: tuple[TensorMap, ...] = ()
    bases: tuple[Ref, ...] = ()
    axes: tuple[str, ...] = ()
    params: tuple[Parameter, ...] = ()
    body: tuple[Step, ...] = ()

    @cached_property
    def read(self) -> tuple[Touch, ...]:
        return tuple(t for t in self.touches if t.reads)

    @cached_property
    def written(self) -> tuple[Touch, ...]:
        return tuple(t for t in self.touches if t.writes)

    @cached_property
    def refs(self) -> tuple[Ref, ...]:
        """The places that the step's text names, what it writes first (not those of its body)."""
        named = [t for t in self.touches if not (t.map and t.ref.memory.traits.is_array)]
        ordered = sorted(named, key=lambda t: not t.writes)
        return (*(t.ref for t in ordered), *self.bases)


@keep
def effects(step: Step) -> Effects:
    """What a step touches. Raises UnknownStep for a kind of step that has no row.

    >>> from tilegen.plan.memories import flat_memory
    >>> A, r = flat_memory("A", "float32", 64, "shared"), flat_memory("r", "float32", 4, "register")
    >>> [(t.use, t.ref.memory.name, t.elems) for t in effects(Move(r[0], A[0], 4)).touches]
    [('reads', 'A', 4), ('writes', 'r', 4)]
    """
    row = EFFECTS.get(type(step))
    if row is None:
        raise UnknownStep("plan/effects.py", step)
    return row(step)


def flatten(steps: Iterable[Step]) -> Iterator[Step]:
    """Every step, depth first."""
    for step in steps:
        yield step
        yield from flatten(effects(step).body)


def names_used(steps: Iterable[Step]) -> frozenset[str]:
    """The variables that steps, or those in them, name anywhere."""
    return frozenset[str]().union(*map(_names_in, steps))


@keep
def _names_in(step: Step) -> frozenset[str]:
    touched = effects(step)
    places = [x for ref in (*touched.bases, *(t.ref for t in touched.touches)) for x in ref.at]
    texts = (*touched.expressions, *places, *(s.at for s in touched.slots), *(t.where for t in touched.touches))
    return names_used(touched.body).union(touched.axes, (v.name for x in texts for v in variables(x)))


# ---------------------------------------------------------------- data
def _of_move(step: Move) -> Effects:
    sides = {"src": (step.src, step.valid), "dst": (step.dst, True)}
    touches = [_touch(operand, *sides[operand.field], step) for operand in step.via.operands]
    return Effects(step.via, _in_order(touches), (step.valid,))


def _touch(operand: OperandForm, ref: Ref, where: Index, step: Move) -> Touch:
    if operand.lies != ROWS:
        word = operand.word_bytes if step.via.warp else step.elems * ref.memory.elem_bytes
        return Touch(ref, operand.use, operand.lies, step.elems, where, word_bytes=word)
    return Touch(ref, operand.use, ROWS, MATRIX_ROW_ELEMS, less(Var("laneid", 32), MATRIX_ROW_ELEMS * matrices(step)))


def _of_map(step: Map) -> Effects:
    refs = (step.dst, *step.srcs)
    if len(refs) != len(step.fn.operands):
        raise ValueError(f"{step.fn.name} takes {len(step.fn.operands) - 1} sources, not {len(step.srcs)}")
    word = step.elems * step.dst.memory.elem_bytes if step.fn.widths_bytes else 1
    touches = [
        Touch(r, o.use, o.lies, step.elems, word_bytes=word) for r, o in zip(refs, step.fn.operands, strict=True)
    ]
    return Effects(step.fn, _in_order(touches))


def _of_compute(step: Compute) -> Effects:
    (written,) = COMPUTE.operands
    touches = [Touch(r, READS, THREAD, 1) for r in step.srcs]
    params = tuple(dict.fromkeys(n for n in list_nodes(step.tree) if isinstance(n, Parameter)))
    return Effects(COMPUTE, (*touches, Touch(step.dst, written.use, THREAD, 1)), step.wholes, params=params)


def _of_shuffle(step: Shuffle) -> Effects:
    word = step.elems * step.dst.memory.elem_bytes
    touches = [Touch(getattr(step, o.field), o.use, o.lies, step.elems, word_bytes=word) for o in SHUFFLE.operands]
    return Effects(SHUFFLE, _in_order(touches))


def _of_mma(step: Mma) -> Effects:
    touches = [
        Touch(getattr(step, o.field), o.use, o.lies, o.elems, word_bytes=o.word_bytes) for o in step.via.operands
    ]
    return Effects(step.via, _in_order(touches))


def _of_wgmma(step: Wgmma) -> Effects:
    lies = {"c": None, "a": step.a_lies, "b": step.b_lies}
    touches = []
    for o in step.via.operands:
        matrix = lies[o.field]
        if (o.lies == MATRIX) != (matrix is not None):
            raise ValueError(f"{step.via.name} takes {o.field} in {' or '.join(o.spaces)} memory")
        elems = matrix.elems if matrix else o.elems or step.b_lies.rows // 2  # c: 64 rows over 128 threads
        place = getattr(step, o.field)
        touches.append(Touch(place, o.use, o.lies, elems, matrix=matrix, word_bytes=o.word_bytes))
    return Effects(step.via, _in_order(touches), (step.accumulate,))


def _of_tensor_mma(step: TensorMma) -> Effects:
    """The accumulator is written also where it is not read: it is one touch, as wgmma's is."""
    lies, factors = {"a": step.a_lies, "b": step.b_lies}, step.factors
    if set(factors) != {o.field for o in step.via.operands} - {"a", "b", "c"}:
        raise ValueError(f"{step.via.name} takes {'no' if factors else 'two'} operands of factors")
    touches = []
    for o in step.via.operands:
        matrix, place = lies.get(o.field), getattr(step, o.field)
        if (o.lies == MATRIX) != (matrix is not None):
            raise ValueError(f"{step.via.name} takes {o.field} in {' or '.join(o.spaces)} memory")
        elems = matrix.elems if matrix else _count_of_lane(step, o.field)
        touches.append(Touch(place, o.use, o.lies, elems, matrix=matrix))
    return Effects(step.via, _in_order(touches), (step.accumulate,))


def _count_of_lane(step: TensorMma, field: str) -> int:
    """Elements of each lane that an operand of a product has in tensor memory."""
    if field == "a":
        return DEPTH_BYTES // step.a.memory.elem_bytes
    return count_factors(step.factors[field][1]) if field in step.factors else step.columns


def _of_tensor_copy(step: TensorCopy) -> Effects:
    """Of tensor memory it writes as many elements of each lane as a row has."""
    lies, (dst, src) = step.src_lies, step.via.operands
    touches = (
        Touch(step.src, src.use, src.lies, lies.elems, matrix=lies), Touch(step.dst, dst.use, dst.lies, lies.depth),
    )  # fmt: skip
    return Effects(step.via, touches)


def _of_tma(step: Tma) -> Effects:
    at: list[Index] = [0] * len(step.map.memory.shape)
    for d, x in zip(step.map.dims, step.at, strict=True):
        at[d] = x
    refs = {"at": Ref(step.map.memory, tuple(at)), "shared": step.shared}
    elems = step.map.box_bytes // step.map.memory.elem_bytes
    touches = [Touch(refs[o.field], o.use, BOX, elems, True, step.map) for o in step.instruction.operands]
    slots = (step.done,) if step.done else ()
    return Effects(step.instruction, _in_order(touches), (*step.at, *list_ranks(step)), slots, (step.map,))


def _in_order(touches: list[Touch]) -> tuple[Touch, ...]:
    return tuple(sorted(touches, key=lambda t: t.writes))


def matrices(move: Move) -> int:
    """How many 8 x 8 matrices a move through ldmatrix or stmatrix takes; 0 for any other move."""
    return move.elems // 2 if any(o.lies == ROWS for o in move.via.operands) else 0


# ---------------------------------------------------------------- structure and order
def _of_block(step: Block) -> Effects:
    bases = tuple(actual for _, actual in step.args if isinstance(actual, Ref))
    values: tuple[Any, ...] = tuple(actual for _, actual in step.args if not isinstance(actual, Ref))
    return Effects(expressions=values, bases=bases, body=step.body)


def _of_fetch(step: Fetch) -> Effects:
    touch = Touch(step.src, READS, THREAD, 1, step.where)
    expressions = () if step.where is True else (step.where, step.otherwise)
    return Effects(FETCH, (touch,), (*expressions, *_others_of_test(step)))


def _others_of_test(step: Fetch) -> tuple[Index, ...]:
    """What the test of an element names beside the element."""
    if step.test is None:
        return ()
    named = {v.name: v for x in (step.test.holds, step.test.instead) for v in variables(x)}
    return tuple(v for name, v in sorted(named.items()) if name != step.test.raw.name)


def _of_pick(step: Pick) -> Effects:
    return Effects(PICK, (Touch(step.src, READS, THREAD, 1),))


def _of_sync(step: Sync) -> Effects:
    return Effects(axes=("wgid",) if step.scope == "warpgroup" else ())  # which named barrier of the CTA it is


EFFECTS: dict[type, Callable[[Any], Effects]] = {
    Let: lambda step: Effects(expressions=(step.value,)),
    Fetch: _of_fetch,
    Pick: _of_pick,
    Repeat: lambda step: Effects(expressions=(step.count,), body=step.body),
    When: lambda step: Effects(expressions=(step.condition,), body=step.body),
    Block: _of_block,
    Move: _of_move,
    Map: _of_map,
    Compute: _of_compute,
    Shuffle: _of_shuffle,
    Mma: _of_mma,
    Wgmma: _of_wgmma,
    Tma: _of_tma,
    Sync: _of_sync,
    Fence: lambda step: Effects(),
    TensorFence: lambda step: Effects(),
    TensorMma: _of_tensor_mma,
    TensorCopy: _of_tensor_copy,
    Commit: lambda step: Effects(),
    Wait: lambda step: Effects(),
    Follow: lambda step: Effects(),
    Arrive: lambda step: Effects(expressions=list_ranks(step), slots=(step.slot,)),
    Await: lambda step: Effects(expressions=(step.parity,), slots=(step.slot,)),
    Stamp: lambda step: Effects(),
}


def drop_unused(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps without names that none after them uses."""
    if not any(isinstance(step, Let | Fetch | Pick) for step in steps):
        return tuple(steps)
    kept: list[Step] = []
    used: frozenset[str] = frozenset()
    for step in reversed(steps):
        if not isinstance(step, Let | Fetch | Pick) or not used.isdisjoint(step.names):
            kept.append(step)
            used |= names_used((step,))
    return tuple(reversed(kept))
