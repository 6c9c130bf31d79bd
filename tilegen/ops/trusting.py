"""What a kernel rests on: what is proved of it, what its caller promises, what its author claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tilegen.index import Var, bound
from tilegen.kept import keep
from tilegen.ops.digits import split_number
from tilegen.ops.indexed import promised_index
from tilegen.ops.operand import offset_at
from tilegen.plan import Claim, Param, Promise, Trust
from tilegen.spec.data import Buffer, Call, LetStatement, Spec
from tilegen.spec.outline import fresh_name, outline
from tilegen.spec.pads import is_clipped
from tilegen.spec.tables import Read
from tilegen.spec.tested import find_uses


@keep
def find_trust(spec: Spec) -> Trust:
    """What a kernel rests on, from its text."""
    promised = tuple(one for b in spec.buffers for one in _promise_of(b, spec.params))
    dropped, elsewhere, undefined = list[str](), list[str](), list[str]()
    for number, call in enumerate(outline(spec).calls):
        for where, is_indexed in _list_places(spec, number, call):
            if is_indexed and not call.stores_by_index and _reads_inside(call):
                continue
            kept = elsewhere if is_indexed else dropped
            (kept if is_clipped(call) else undefined).append(f"op {number + 1} at {where}")
    return Trust(
        tuple(_list_proved(spec)), promised, tuple(dict.fromkeys(list_claims(spec))), tuple(dropped),
        tuple(elsewhere), (*_list_reads(spec), *undefined),
    )  # fmt: skip


def _reads_inside(call: Call) -> bool:
    """Does a gather read an element of its region, or give 0, whatever its index holds?"""
    from tilegen.ops.index_places import is_inside_by_types  # of kernels that gather alone

    return is_clipped(call) or is_inside_by_types(call)


def _list_places(spec: Spec, number: int, call: Call) -> Iterator[tuple[str, bool]]:
    """The regions of an op whose places rest on elements of tables, or (True) on an index."""
    uses = find_uses(spec)
    at_places = {p.field for p in uses.of_call(number)}
    for field, region in call.regions.items():
        is_indexed = bool(call.form.index) and region is call.indexed
        if is_indexed or (region.buffer.traits.is_array and (field in at_places or number in uses.under)):
            yield region.text or region.buffer.name, is_indexed


def _list_reads(spec: Spec) -> Iterator[str]:
    """Elements that are read at places which other elements name, and which those may lead astray."""
    uses = find_uses(spec)
    for s in outline(spec).find(LetStatement):
        for var, value in s.entries:
            if isinstance(value, Read) and not uses.tested.issuperset(uses.indexed.get(var.name, ())):
                at = ", ".join(map(str, value.at))
                yield f"the let of {var.name} at {value.array}[{at}]"


def _list_proved(spec: Spec) -> Iterator[str]:
    yield "every access lies inside of its array and is aligned"
    claimed = {claim.buffer for claim in list_claims(spec)}
    partial = [b.name for b in spec.buffers if b.partial and b.traits.is_array and b.name not in claimed]
    left = f", but of {', '.join(partial)}, which may be left" if partial else ""
    aside = f" ({', '.join(sorted(claimed))} aside: claimed)" if claimed else ""
    yield f"no two threads store to one element, and every element is written{left}{aside}"
    yield "no thread reads what another has yet to write, and every wait ends"
    yield "runs of chosen CTAs give what the spec means"


@keep
def list_scattered(spec: Spec) -> tuple[Call, ...]:
    """The calls that store elements where an index says."""
    return tuple(call for call in outline(spec).calls if call.stores_by_index and not call.accumulates)


def list_claims(spec: Spec) -> Iterator[Claim]:
    """What the author of a spec claims, and no proof shows: runs look at it."""
    for call in list_scattered(spec):
        dst = call.regions["dst"].buffer
        if promised_index(call) is None:
            yield Claim(dst.name, "no two elements that are scattered to it go to one place")
        if dst.traits.is_array and not dst.partial:
            yield Claim(dst.name, "every element of it is written")


def _promise_of(buffer: Buffer, params: Sequence[Param]) -> Iterator[Promise]:
    """What the caller promises of a global array, with where its elements lie."""
    if buffer.values is None or not buffer.traits.is_callers or buffer.name != buffer.root:
        return
    most = prod(bound(n) - 1 for n in buffer.shape)
    elem = Var(fresh_name("elem", {*(p.name for p in params), buffer.name}), max(1, most))
    place = offset_at(buffer, split_number(elem, buffer.shape))  # type: ignore[arg-type]
    yield Promise(buffer.name, buffer.dtype, buffer.values, buffer.shape, elem, place)
