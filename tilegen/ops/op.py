"""What an op is: one object that says all that any other room asks of it. Its module makes it, ``OPS`` lists it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import Domain, Node
from tilegen.arithmetic.intervals import ValueRange
from tilegen.decisions import Choice, Cost
from tilegen.dtypes import FACTOR
from tilegen.errors import Flaw
from tilegen.index import Index, evaluate, variables
from tilegen.ops.cells import CellsNeed
from tilegen.ops.flows import Flow, Flows, no_flows
from tilegen.ops.operand import Context, CountedSteps
from tilegen.plan import Instruction, Memory, Step
from tilegen.spec.data import Buffer, Call, Region, Spec, WholeCall
from tilegen.spec.form import OpForm, WholeForm
from tilegen.spec.formulas import coordinate
from tilegen.spec.program import Program

Array = NDArray[Any]
# What an op does to values: the same bits, the same number in another type, or others.
MOVES, CONVERTS, COMPUTES = "moves", "converts", "computes"
_UNCOMPUTED = {  # types that nothing computes with, and what can be done with them
    "complex64": "'copy' and 'permute' move it as it is",
    "complex128": "'copy' and 'permute' move it as it is",
    FACTOR: "'copy' moves it as it is, and 'mma' takes factors of it in tensor memory",
}  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """One variant's steps, what they cost over an interior CTA, and the choices made on the way.

    ``pins`` are fields of the op, beside ``variant``, with which a spec says itself what was chosen. ``scratch`` is
    shared memory of the op's own, which it synchronises itself. ``counted``: each candidate that was counted on the way
    and that the op's pins allow.
    """

    steps: tuple[Step, ...]
    cost: Cost
    choices: tuple[Choice, ...]
    pins: tuple[tuple[str, Any], ...] = ()
    scratch: tuple[Memory, ...] = ()
    counted: tuple[CountedSteps, ...] = ()


def plan_one(
    context: Context, step: Step, choices: tuple[Choice, ...], pins: tuple[tuple[str, Any], ...] = ()
) -> Planned:  # fmt: skip
    """The plan of the only candidate that was counted."""
    counted = context.count(step)
    return Planned((step,), counted.cost, choices, pins, counted=(counted,))


@dataclass(frozen=True)
class Variant:
    """A way to carry out an op. ``refuse`` gives a reason or None and is cheap; ``plan`` may still raise Refused.

    ``pins``: the op's fields that leave only some of the variant's candidates; it raises NotHad where they leave none.
    For buffers whose layout is to be chosen: ``constrain`` says why the variant cannot take an operand with the layout
    that it has (a descriptor's modes, say), or None; ``adapts`` means that its accesses are made for the layouts, so
    that those planned for one layout say no more than what is possible under another.
    """

    name: str
    priority: int
    refuse: Callable[[Call, Context], str | None]
    plan: Callable[[Call, Context], Planned]
    constrain: Callable[[Call, Buffer], str | None] | None = None
    adapts: bool = False
    pins: tuple[str, ...] = ()
    has_scratch: bool = False


@dataclass(frozen=True)
class Here:
    """Where the instances of a call run: integers by name, one for each or for all, and params of floating type.

    ``domain``: what the values are that the reference gets and gives, and what computes with them.
    """

    env: Mapping[str, Any]
    scalars: Mapping[str, float]
    domain: Domain

    def whole(self, x: Index, coordinates: Mapping[str, Array], rank: int) -> Array:
        """An integer of the place over the elements of a region of ``rank`` dimensions, instances first.

        ``coordinates``: of each element, by the names that ``x`` has for them.
        """
        named = {v.name for v in variables(x)} if not isinstance(x, int) else set()
        env = {n: self._spread(self.env[n], rank) for n in named if n in self.env}
        return np.asarray(evaluate(x, env | {n: c for n, c in coordinates.items() if n in named}))

    def compute(
        self, tree: Node, elements: Sequence[Array], wholes: Sequence[Index], shape: tuple[int, ...], dtype: str
    ) -> Array:  # fmt: skip
        """A tree over elements that stretch to a shape, instances first, in ``dtype``; ``wholes``: its integers."""
        axes = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij", sparse=True)
        coordinates = {coordinate(d, n).name: axes[d] for d, n in enumerate(shape) if n > 1}
        numbers = [self.whole(x, coordinates, len(shape)) for x in wholes]
        return self.stretch(self.domain.compute(tree, elements, numbers, self.scalars, dtype), shape)

    def stretch(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Values over a shape, of all instances."""
        return np.broadcast_to(values, (len(self.env["instance"]), *shape))

    def _spread(self, value: Any, rank: int) -> Any:
        return value.reshape(-1, *[1] * rank) if isinstance(value, np.ndarray) else value


@dataclass(frozen=True)
class Factors:
    """Matrices (.., M, K) and (.., K, N), instances first, whose product is put on top of what an op updates.

    ``multiplied``, ``summed``: the types that ``Domain.matmul`` takes.
    """

    a: Array
    b: Array
    multiplied: str
    summed: str


@dataclass(frozen=True)
class Op(OpForm):
    """An op on tiles.

    ``reference(call, values, here)`` is its meaning on logical tensors: from what it reads to what it writes, both by
    field name, instances first, stored as ``here.domain`` does. It rearranges these arrays, or computes with the domain
    (``compute``, ``convert``, ``fill``, ``matmul``, ``combine``, ``fold``, ``scan``), and never looks into one: it runs
    in all domains. ``exactness``: MOVES, CONVERTS or COMPUTES; ``rounds(call)``: of an op that moves, whether this call
    of it converts. ``instructions`` are rows that it brings along beside those of
    ``plan.INSTRUCTIONS``. ``axes(call)``: dimension d of what it writes is dimension axes[d] of what it reads, for ops
    that only rearrange; None for others. ``flows(call, threads)``: the tiles whose owners its
    operands share; ``other_flows(call, threads)``: what these may be instead, the best first. ``factors(call, values,
    here)``: all that such a call does, where that is to put a product on top of its one updated operand, of ``values``
    without it; else None. Many products are then made as one. ``ranges(call, values, params)``: the ranges of the
    integers that it writes, by field, from those of what it reads (None of floats), pads among them; a field that it
    leaves out may get all of its type. Ends may name ``params``. None: what an op that moves writes it has read.
    ``cells(call, field)``: where an operand has to lie in tensor memory; None where the op does not say.
    """

    reference: Callable[[Call, Mapping[str, Array], Here], dict[str, Array]] = field(kw_only=True)
    exactness: str = field(kw_only=True)
    variants: tuple[Variant, ...] = field(kw_only=True)
    instructions: tuple[Instruction, ...] = ()
    axes: Callable[[Call], tuple[int, ...] | None] = lambda call: None
    flows: Flows = no_flows
    other_flows: Callable[[Call, int], tuple[tuple[Flow, ...], ...]] = lambda call, threads: ()
    factors: Callable[[Call, Mapping[str, Array], Here], Factors | None] = lambda call, values, here: None
    rounds: Callable[[Call], bool] = lambda call: False
    ranges: Callable[[Call, Mapping[str, ValueRange | None], frozenset[str]], dict[str, ValueRange]] | None = None
    cells: Callable[[Call, str], CellsNeed | None] = lambda call, field: None

    def exactness_of(self, call: Call) -> str:
        """What this call does to values: what accumulates computes, whatever the op."""
        if call.accumulates:
            return COMPUTES
        return CONVERTS if self.rounds(call) else self.exactness

    @property
    def pins(self) -> tuple[str, ...]:
        """Every field that leaves only some candidates of a variant; None where it says nothing."""
        return tuple(dict.fromkeys(name for v in self.variants for name in v.pins))


@dataclass(frozen=True)
class WholeHere:
    """What an op on whole arrays is a meaning of: arrays as functions of flat offsets, by field name, and params.

    ``scalars``: the params of floating type; ``scalar_types``: their types.
    """

    inputs: Mapping[str, Callable[[Array], Array]]
    params: Mapping[str, int]
    domain: Domain
    scalars: Mapping[str, float] = field(default_factory=dict)
    scalar_types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WholeOp(WholeForm):
    """An op on whole arrays, which ``expand`` turns into the statements that carry it out, in one kernel or several.

    ``reference(call, offsets, here)`` is its meaning: the elements at flat ``offsets`` of what it writes, by field.
    ``pins(call, spec)``: the fields that say what was chosen for the expanded ``spec``. ``axes`` as for an Op.
    ``apart``: a dimension of what is written, if along it other elements are read than those as far away. Then tiles
    that differ along it are each compared with the op. ``strides(call)``: a dimension of what is written, and how many
    elements further what is read lies for each one further along it; None where that is one everywhere. ``shares``: a
    dimension of what is written, and how many elements along it have one element of some array that is read in common.
    ``candidates(call, spec)``: what the op's chooser looks at, as fields that pin it, with the seconds that its model
    gives each, the least first; none where it has no model of time. Raises SpecError for pins that cannot be.
    """

    expand: Callable[[Spec, WholeCall], Spec | Program] = field(kw_only=True)
    reference: Callable[..., dict[str, Array]] = field(kw_only=True)
    pins: Callable[[WholeCall, Spec], dict[str, Any]] = field(kw_only=True)
    axes: Callable[[WholeCall], tuple[int, ...] | None] = lambda call: None
    apart: int | None = None
    strides: Callable[[WholeCall], tuple[int, Index] | None] = lambda call: None
    shares: Callable[[WholeCall], tuple[int, Index] | None] = lambda call: None
    candidates: Callable[[WholeCall, Spec], Sequence[tuple[dict[str, Any], float]]] = lambda call, spec: ()


def refuse_conversion(op: str) -> Callable[[Any, Mapping[str, Region]], Flaw | None]:
    """The check of an op that moves elements as they are: both sides have one dtype."""

    def check(fields: Any, regions: Mapping[str, Region]) -> Flaw | None:
        src, dst = (regions[name].buffer for name in ("src", "dst"))
        if src.dtype == dst.dtype:
            return None
        message = f"dtypes differ, and {op} converts nothing: '{src.name}' is {src.dtype}, '{dst.name}' is {dst.dtype}"
        way = f"{src.scope} -> {dst.scope}" if src.scope != dst.scope else f"within {src.scope} memory"
        return Flaw("TG213", message, "dst", f"'cast: {{src: .., dst: ..}}' converts {way}")

    return check


def find_uncomputed(operands: Mapping[str, Buffer]) -> Flaw | None:
    """What is wrong with an operand, by its field, of a type that nothing computes with."""
    for name, buffer in operands.items():
        dtype = buffer.dtype
        if dtype in _UNCOMPUTED:
            message = f"'{buffer.name}': nothing computes with {dtype}"
            return Flaw("TG212", message, name, _UNCOMPUTED[dtype])
    return None


def refuse_uncomputed(fields: Any, regions: Mapping[str, Region]) -> Flaw | None:
    """``find_uncomputed`` of the regions of a call."""
    return find_uncomputed({name: region.buffer for name, region in regions.items()})


def fields_picked(call: WholeCall, spec: Spec) -> dict[str, Any]:
    """The fields of a call that the choices of its expanded spec say."""
    known = type(call.fields).model_fields
    picked = [c.picked.items() for c in spec.choices if isinstance(c.picked, Mapping)]
    return {name: value for items in picked for name, value in items if name in known}
