"""Every field of a statement or a step that may hold an index is asked, or stands in a table of exceptions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path as File
from typing import Any

import tilegen
from tests.interpret.pair_plans import Pairs, plan_pairs
from tilegen import plan as plan_room
from tilegen.index import Formula, Var, add, every, less
from tilegen.plan import Plan
from tilegen.planner import plan_spec
from tilegen.proofs.observed import list_observed
from tilegen.spec import data
from tilegen.spec.data import Spec

Path = tuple[Any, ...]  # names of fields, places in tuples and keys of mappings
Key = tuple[str, str]  # the class and its field

SPECS = File(__file__).parents[2] / "specs"
MARK = Var("bz", 4)  # none of these specs has a third axis
SOME = [
    "hgemm_cluster", "hgemm_persistent", "attention_hopper", "masked_halo", "rows_any_size", "mma_tile", "permute_ring",
    "blocks_so_far", "copy_ring", "tiles_by_turns", "gemm_quantized", "broadcast_cluster", "sgemm_small",
]  # fmt: skip
OF_ARRAYS = "how an array lies is the same for all CTAs: what they access of it is asked as places"
EXCEPTIONS: dict[Key, str] = {
    ("Region", "buffer"): OF_ARRAYS,
    ("Ref", "memory"): OF_ARRAYS,
    ("TensorMap", "memory"): OF_ARRAYS,
    ("Block", "args"): "formal names; what they stand for is asked where they are used",
    ("Block", "registers"): OF_ARRAYS,
    ("SlotName", "count"): "a wait of the spec changes no value; the parity that the plan waits for is asked",
    ("Expression", "operands"): "the same regions as the call's",
}


def list_leaves(thing: Any, key: Key = ("", ""), path: Path = (), is_index: bool = False) -> Iterator[tuple[Key, Path]]:
    """Where an index stands, or may stand, in nested data, with the class and the field that hold it."""
    if isinstance(thing, tuple | Mapping):
        for n, x in thing.items() if isinstance(thing, Mapping) else enumerate(thing):
            yield from list_leaves(x, key, (*path, n), is_index)
    elif key == ("LetStatement", "entries") and isinstance(thing, int):
        return  # a name for a constant is written out where it is used
    elif is_index and (isinstance(thing, int | Formula) or (isinstance(thing, Var) and path[-1] != 0)):
        yield key, path
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type | Formula | Var):
        for field in dataclasses.fields(thing):
            own = type(thing).__name__, field.name
            holds = "Index" in re.findall(r"\w+", str(field.type))
            if own not in EXCEPTIONS:
                yield from list_leaves(getattr(thing, field.name), own, (*path, field.name), holds)


def mark(thing: Any, path: Path) -> Any:
    """The same data where the index at a place names one axis of CTAs more."""
    if not path:
        return every(thing, less(MARK, 2)) if isinstance(thing, bool) else add(thing, MARK)
    first, *rest = path
    if isinstance(thing, tuple):
        return (*thing[:first], mark(thing[first], tuple(rest)), *thing[first + 1 :])
    if isinstance(thing, Mapping):
        return {**thing, first: mark(thing[first], tuple(rest))}
    return dataclasses.replace(thing, **{first: mark(getattr(thing, first), tuple(rest))})


@cache
def find_places() -> dict[tuple[str, Key], tuple[Spec, Plan, Path]]:
    """Of each class and field the first place in any of the specs and of their plans."""
    found: dict[tuple[str, Key], tuple[Spec, Plan, Path]] = {}
    for name in SOME:
        spec = tilegen.load(SPECS / f"{name}.yaml")
        plan = plan_spec(spec)
        for key, path in list_leaves(spec.ops):
            found.setdefault(("spec", key), (spec, plan, ("ops", *path)))
        for key, path in list_leaves(plan.roles):
            found.setdefault(("plan", key), (spec, plan, ("roles", *path)))
    return found


def is_asked(of: str, spec: Spec, plan: Plan, path: Path) -> bool:
    """Does what is observed name the axis that stands at a place?"""
    marked = (mark(spec, path), plan) if of == "spec" else (spec, mark(plan, path))
    return any(MARK.name in q.names for q in list_observed(*marked))


def test_every_field_that_holds_an_index_is_asked() -> None:
    places = find_places()
    assert len(places) > 20
    assert [place for place, found in places.items() if not is_asked(place[0], *found)] == []


def test_ranks_of_pairs_are_asked() -> None:
    """Whom a load reports to, whom a commit tells, and whose barrier a thread arrives at."""
    spec, plan = tilegen.load(SPECS / "hgemm_cluster.yaml"), plan_pairs(Pairs(pairs=2))
    ranks = {("Tma", "rank"), ("Peers", "first"), ("Arrive", "rank")}
    found = {key: ("roles", *path) for key, path in list_leaves(plan.roles) if key in ranks}
    assert found.keys() == ranks
    assert [key for key, path in found.items() if not is_asked("plan", spec, plan, path)] == []


def test_every_exception_is_a_field() -> None:
    fields = {(c.__name__, f.name) for room in (data, plan_room) for c in vars(room).values()
              if dataclasses.is_dataclass(c) and isinstance(c, type) for f in dataclasses.fields(c)}  # fmt: skip
    assert EXCEPTIONS.keys() <= fields
