"""What a run of a CTA depends on: every expression of the plan and of the spec over block axes and parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

from tilegen.arithmetic import Apply, Literal, Node, Whole
from tilegen.arithmetic.functions import INTS
from tilegen.index import (
    COMPARISONS,
    Formula,
    Index,
    Var,
    add,
    any_of,
    bound,
    conjuncts,
    div,
    every,
    least,
    less,
    maximum,
    minimum,
    mod,
    mul,
    names_of,
    not_,
    replace_part,
    select,
    sub,
    substitute,
    variables,
)
from tilegen.index.comparisons import COMPARING
from tilegen.index.contents import SPREAD
from tilegen.index.runs import counter
from tilegen.kept import keep_of_two
from tilegen.plan import Block, Compute, Let, Plan, Repeat, Step, Tma, Touch, Visit, begin, plain_name, walk
from tilegen.plan.steps import list_ranks
from tilegen.plan.walk import enter_repeat
from tilegen.scopes import CLUSTER_AXES, CTA_AXES
from tilegen.spec.data import Call, Loop, Spec, Statement
from tilegen.spec.outline import Placed, deciding, outline

ALIGNED = 16  # elements after which places are as aligned as before
NEVER = -1 << 62  # an outcome of what is never asked

Loops = tuple[tuple[Var, Index], ...]  # the variable and the count of each loop around


@keep_of_two
def list_observed(spec: Spec, plan: Plan) -> list[Observed]:
    """All that the plan does and the spec says that depends on CTAs or parameters, each once, and places in arrays."""
    told = {*CTA_AXES, *CLUSTER_AXES, *(p.name for p in spec.params)}
    found = dict.fromkeys((*(replace(q, is_of_spec=True) for q in ask_spec(spec)), *ask_plan(plan)))
    return [replace(q, x=hide_elements(q.x)) if q.array else q for q in found if q.array or told & {*q.names}]


_ELEMENT = "element__of_"  # the beginning of a name that no spec gives


def hide_elements(x: Index) -> Index:
    """A place with a variable for each element of a table that names nothing but places.

    The plan reads the spec's elements (``terms``), so one is the same in both: wherever it lies a place moves with it.
    """
    if not isinstance(x, Formula) or not parts_with(x, ("table",)):
        return x
    for part in parts_with(x, ("table",)):
        if part.args[0] == SPREAD:
            plain = {v.name: replace(v, name=plain_name(v.name)) for v in variables(part)}
            low = least(part.args[3])
            name = _ELEMENT + hashlib.sha256(str(substitute(part, plain)).encode()).hexdigest()[:16]
            x = replace_part(x, part, Var(name, bound(part.args[4]), 1, low))
    return x


def elements_in(*parts: Index) -> frozenset[str]:
    """The variables that stand for elements of tables."""
    return frozenset(name for x in parts for name in names_of(x) if name.startswith(_ELEMENT))


def meant_places(asked: Sequence[Observed]) -> dict[str, list[Observed]]:
    """Of each global array the places that the spec names."""
    found: dict[str, list[Observed]] = {}
    for q in asked:
        if q.is_meant:
            found.setdefault(q.array, []).append(q)
    return found


def list_counts(spec: Spec, plan: Plan) -> tuple[list[Observed], list[Observed]]:
    """The counts of all loops, of the spec and of the plan."""
    return [q for q in ask_spec(spec) if q.is_count], [q for q in ask_plan(plan) if q.is_count]


def places_beside(q: Observed, meant: Mapping[str, Sequence[Observed]]) -> list[Observed]:
    """The places that the spec names in the array that a question is about: itself if it is one, and those in the same
    loops first.
    """
    if q.is_meant:
        return [q]
    loops = {plain_name(trip.name) for trip, _ in q.loops}
    return sorted(meant.get(q.array, ()), key=lambda m: len(loops ^ {trip.name for trip, _ in m.loops}))


def decisions_of(spec: Spec, placed: Placed) -> list[Index]:
    """What decides whether, how often and with which integers a statement runs, written out.

    Of a loop it is the count: where it begins, and its step, are in what its body does with its variable.
    """
    s = placed.statement
    if isinstance(s, Loop):
        return [outline(spec).loops[placed.number].count]
    return [substitute(x, placed.meant.values) for x in (*deciding(s), *wholes_of(s))]


def wholes_of(s: Statement) -> tuple[Index, ...]:
    """The integers that a statement computes with, as far as it goes without anything else."""
    own = s.expression if isinstance(s, Call) else None
    return () if own is None else tuple(x for tree in own.trees for x in asked_by_tree(tree, own.wholes))


def asked_by_tree(tree: Node, wholes: Sequence[Index]) -> Iterator[Index]:
    """The parts of a tree that know integers of the place alone, as indices.

    >>> n, three = Whole(0), Literal(3, "int32")
    >>> [*map(str, asked_by_tree(Apply("+", (n, Apply("<=", (n, three), "bool")), "int32"), [Var("bx", 9)]))]
    ['bx + (bx < 4)']
    """
    if isinstance(tree, Whole):
        yield wholes[tree.number]
    elif isinstance(tree, Apply):
        found = _as_index(tree, wholes)
        if found is not None:
            yield found
        for arg in tree.args if found is None else ():
            yield from asked_by_tree(arg, wholes)


def _as_index(node: Node, wholes: Sequence[Index]) -> Index | None:
    """None for what an index cannot say."""
    if isinstance(node, Whole):
        return wholes[node.number]
    if isinstance(node, Literal):
        return int(node.value) if node.type in ("bool", *INTS) else None
    if not isinstance(node, Apply) or node.function not in _INDEX_FUNCTIONS:
        return None
    args = [_as_index(arg, wholes) for arg in node.args]
    if None in args or (node.function in ("//", "%") and not (isinstance(args[1], int) and args[1] > 0)):
        return None
    return _INDEX_FUNCTIONS[node.function](*args)


_INDEX_FUNCTIONS: dict[str, Callable[..., Index]] = {
    "+": add, "-": sub, "*": mul, "neg": lambda a: sub(0, a), "//": div, "%": mod,
    **COMPARISONS, "and": every, "or": any_of, "not": not_, "where": select,
    "min": minimum, "max": maximum, "abs": lambda a: maximum(a, sub(0, a)),
    **dict.fromkeys(INTS, lambda a: a),
}  # fmt: skip


def slots_of(s: Statement) -> tuple[Index, ...]:
    """Which of several mbarriers a statement waits for, arrives at, or tells when it is done."""
    slot = getattr(s, "barrier", None)
    return (slot.index,) if slot else ()


def peers_of(step: Step) -> tuple[Index, ...]:
    """The ranks that say which other CTAs a load of TMA goes to, or reports to."""
    return list_ranks(step) if isinstance(step, Tma) else ()


@dataclass(frozen=True)
class Observed:
    """An expression that a run depends on, where ``guards`` hold; of one that ``moves`` only how it goes on counts.

    ``array``: it is a place in this global array, as the plan has it, or the spec, if ``is_meant``. ``is_named``: it is
    a value that others name, and these are asked themselves. ``is_of_spec``: the spec asks it; the plan may ask it too.
    ``is_count``: of the trips of a loop, the innermost of ``loops``. ``aligned``: after how many elements a place in an
    array is as aligned as before, for who accesses it.
    """

    x: Index
    loops: Loops
    guards: tuple[Index, ...] = ()
    moves: bool = False
    is_named: bool = False
    array: str = ""
    is_meant: bool = False
    is_of_spec: bool = field(default=False, compare=False)
    is_count: bool = False
    aligned: int = 1

    @property
    def names(self) -> frozenset[str]:
        """The variables that it depends on."""
        parts = (self.x, *(count for _, count in self.loops), *self.guards)
        return frozenset(v.name for part in parts for v in variables(part))


def ranks_of(cluster: Sequence[int]) -> dict[str, Index]:
    """The rank of a CTA in its cluster, by its axes."""
    return {c: mod(Var(b, 1 << 31), n) for c, b, n in zip(CLUSTER_AXES, CTA_AXES, cluster, strict=True)}


def find_sized_axes(spec: Spec) -> frozenset[str]:
    """The axes along which sizes say how many CTAs there are."""
    return frozenset(axis for axis, n in zip(CTA_AXES, spec.grid, strict=True) if not isinstance(n, int))


def parts_with(x: Index, symbols: Sequence[str]) -> list[Formula]:
    """Each part of an expression with one of these operators, once; parts of parts before them."""
    if not isinstance(x, Formula):
        return []
    inner = dict.fromkeys(e for a in x.args for e in parts_with(a, symbols))
    return [*inner, *([x] if x.symbol in symbols else [])]


def compared_in(x: Index) -> list[Formula]:
    """Every comparison in an expression, of sides of the smaller or larger of two too."""
    found: list[Index] = [*parts_with(x, COMPARING)]
    found += [less(a, b) for part in parts_with(x, ("min", "max")) for a, b in pairwise(part.args)]
    return [c for c in found if isinstance(c, Formula)]


def part_naming(x: Index, names: set[str]) -> Index:
    """The part of a sum that depends on any of the names; the rest is the same whatever these are."""
    if not names & {u.name for u in variables(x)}:
        return 0
    assert isinstance(x, Formula | Var)
    if isinstance(x, Formula) and x.symbol in ("+", "-"):
        parts = [part_naming(a, names) for a in x.args]
        return reduce(add, parts) if x.symbol == "+" else sub(*parts)
    return x


def ask_plan(plan: Plan) -> Iterator[Observed]:
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            at = visit.position
            if isinstance(visit.step, Repeat):
                inside = enter_repeat(visit.step, at)
                yield Observed(inside.loops[-1][1], inside.loops, at.guards, is_count=True)
                continue
            names_only = isinstance(visit.step, Let | Block | Tma)  # what they name is asked again where it is used
            asked: Iterable[Index] = visit.effects.expressions
            if isinstance(visit.step, Compute):
                asked = asked_by_tree(visit.step.tree, visit.step.wholes)
            yield from (Observed(at.expand(x), at.loops, at.guards, names_only, names_only) for x in asked)
            yield from (Observed(at.expand(x), at.loops, at.guards) for x in peers_of(visit.step))
            for slot in visit.effects.slots:
                yield Observed(at.expand(slot.at), at.loops, at.guards)
            for touch in visit.effects.touches:
                memory, flat = at.flat(touch.ref)
                is_global = memory.traits.is_array
                array, aligned = (memory.name, _alignment_of(touch)) if is_global else ("", 1)
                where = at.expand(touch.where)
                there = (*at.guards, *(g for g in conjuncts(where) if isinstance(g, Formula | Var)))
                yield Observed(flat, at.loops, there, is_global, array=array, aligned=aligned)
                yield Observed(where, at.loops, at.guards)
                yield from (Observed(x, at.loops, at.guards) for x in edges_of(visit, touch))


def _alignment_of(touch: Touch) -> int:
    """A thread accesses so many elements at once; what copies boxes asks for 16 bytes."""
    return touch.elems if touch.map is None and touch.elems < ALIGNED else ALIGNED


def edges_of(visit: Visit, touch: Touch) -> Iterator[Index]:
    """Of a box in an array, along each dimension: does it begin and end inside, and if it never does, how much of it is
    there?
    """
    for at, size, extent in sides_of(visit, touch):
        begins, ends = less(-1, at), less(add(at, size), add(extent, 1))
        yield begins if isinstance(begins, Formula | Var) else maximum(0, sub(0, at))
        yield ends if isinstance(ends, Formula | Var) else minimum(size, sub(extent, at))


def sides_of(visit: Visit, touch: Touch) -> Iterator[tuple[Index, int, Index]]:
    """Of a box in an array, along each dimension: where it begins, how long it is, and how long the array is."""
    if touch.map is None or not touch.ref.memory.traits.is_array:
        return
    assert isinstance(visit.step, Tma)
    for d, size, at in zip(touch.map.dims, touch.map.box, visit.step.at, strict=True):
        yield visit.position.expand(at), size, touch.map.memory.shape[d]


def ask_spec(spec: Spec) -> Iterator[Observed]:
    for placed in outline(spec).placed:
        meant, s = placed.meant, placed.statement
        loops = tuple((one.trip, one.count) for one in meant.loops)
        if isinstance(s, Loop):
            own = outline(spec).loops[placed.number]
            yield Observed(own.count, (*loops, (own.trip, own.count)), meant.guards, is_count=True)
            continue
        slots = (substitute(x, meant.values) for x in slots_of(s))
        yield from (Observed(x, loops, meant.guards) for x in (*decisions_of(spec, placed), *slots))
        if not isinstance(s, Call):
            continue
        guards = (*meant.guards, substitute(s.when, meant.values))
        for region in s.regions.values():
            elements = [counter(f"element{d}", n) for d, n in enumerate(region.lengths)]
            at = [add(substitute(x, meant.values), e) for x, e in zip(region.begins, elements, strict=True)]
            for x, n in zip(at, region.buffer.shape, strict=True):
                yield Observed(less(-1, x), loops, guards)
                yield Observed(less(x, n), loops, guards)
            for d, end in region.limits:
                yield Observed(less(at[d], substitute(end, meant.values)), loops, guards)
            for x in region.buffer.layout.place(at, region.buffer.counted_shape).values():
                is_global = region.buffer.traits.is_array
                array = region.buffer.root if is_global else ""
                yield Observed(x, loops, guards, is_global, array=array, is_meant=is_global)
