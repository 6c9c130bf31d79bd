"""What scatters rest on that is not proved: what the author claims, and what the proofs ask beside it.

An index of a register that says ``distinct`` is a claim: no two elements of a launch go to one place. It is checked in
every run, and listed; no proof stands on it but that of who owns what. Of an index that the caller promises to be
distinct it is proved that CTAs read other elements of it. That every element is written is claimed of both.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilegen.arithmetic import Element
from tilegen.arithmetic.intervals import ValueRange, has_range
from tilegen.dtypes import numpy_dtype
from tilegen.errors import Diagnostic
from tilegen.index import Formula, Index, add, bound, conjuncts, least, names_of, substitute, to_c
from tilegen.index.bounds import is_below
from tilegen.ops.elementwise import measure_trees
from tilegen.ops.indexed import axis_of, index_dtype, promised_index
from tilegen.ops.trusting import list_scattered
from tilegen.plan import Pick, Plan, begin, walk
from tilegen.proofs.finding import MAY_BE_EQUAL, UNPROVEN_RANGE, Finding
from tilegen.proofs.value_ranges import measure_calls
from tilegen.spec.data import Buffer, Call, Region, Spec
from tilegen.spec.form import operand_field
from tilegen.spec.outline import outline, written_roots
from tilegen.spec.pads import is_clipped

ZEROS = "TG446"


def claimed_arrays(spec: Spec) -> frozenset[str]:
    """The global arrays of which it is claimed that every element is written, by their memories."""
    written = (call.regions["dst"].buffer for call in list_scattered(spec))
    return frozenset(buffer.root for buffer in written if buffer.traits.is_array)


def check_scattered(spec: Spec) -> list[Diagnostic]:
    """What nothing tells from the places of a scatter (TG441): what else touches its array, and places of another
    promised index, or of one that counts from elsewhere.
    """
    found = [*_check_promised(spec), *_check_gathered(spec)]
    for call in list_scattered(spec):
        dst = call.regions["dst"].buffer
        for other in outline(spec).calls if dst.traits.is_array else ():
            reads = any(r.buffer.root == dst.root for r in other.read)
            if reads or (any(r.buffer.root == dst.root for r in other.written) and not other.stores_by_index):
                does = "read" if reads else "written"
                spot = f" at {call.mark.spot}" if call.mark else ""
                message = f"'{dst.root}' is {does} here, and a scatter{spot}"
                message += " stores to it: nothing says that these are other elements"
                hint = "a later pass may do it, or let both write arrays of their own"
                found.append(Diagnostic(MAY_BE_EQUAL, message, other.mark, hint))
    return found


def _check_gathered(spec: Spec) -> Iterator[Diagnostic]:
    """No op writes an array of which a gather may read any element that there is."""
    for call in outline(spec).calls:
        if call.form.index and not call.stores_by_index and call.indexed.open:
            root = call.indexed.buffer.root
            if root in written_roots(spec):
                message = (
                    f"'{root}' is written in this kernel, and a gather may read any element of it: nothing says that"
                )
                hint = "a later pass may read it; or name a part that its CTA writes, 'lo : +length'"
                yield Diagnostic(MAY_BE_EQUAL, f"{message} these are other elements", call.mark_of("src"), hint)


def _check_promised(spec: Spec) -> list[Diagnostic]:
    """No two values of a promised index are the same, so no two places are: where one index names all of them, and
    all count from one place of the launch.
    """
    found, firsts = list[Diagnostic](), dict[str, tuple[Call, Buffer, Buffer, int, Index]]()
    params = {p.name for p in spec.params}
    for placed in outline(spec).placed:
        call = placed.statement
        if not isinstance(call, Call) or call not in list_scattered(spec) or (index := promised_index(call)) is None:
            continue
        dst = call.regions["dst"]
        d = [d for d, is_kept in enumerate(dst.kept) if is_kept][axis_of(call)]
        begin = substitute(dst.begins[d], placed.meant.values)
        if not dst.buffer.traits.is_array:
            continue
        own = (call, index.buffer, dst.buffer, d, begin)
        first = firsts.setdefault(dst.buffer.root, own)
        if names_of(begin) <= params and own[1:] == first[1:]:
            continue
        spot = f" at {first[0].mark.spot}" if first[0].mark and first[0] != call else ""
        if index.buffer != first[1]:
            why = f"another array names places of it{spot}, {first[1].name}"
            hint = "let one array name all of its places, or accumulate"
        else:
            why = f"places of '{dst.text}' count from {to_c(begin)}, those of others" + (spot or " do not")
            hint = "let all count from one place of the launch, and the index say the rest; or accumulate"
        message = f"no two elements of '{index.buffer.name}' are the same, but two of '{dst.buffer.root}' may be: "
        found.append(Diagnostic(MAY_BE_EQUAL, message + why, call.mark_of("index"), hint))
    return found


def find_zeros(spec: Spec) -> list[Diagnostic]:
    """Warnings (TG446) for indices that are registers as a read left them which gives 0 past the edge of an array."""
    calls, found = outline(spec).calls, []
    for k, call in enumerate(calls):
        if not call.stores_by_index or call.expression is None or not isinstance(call.expression.trees[-1], Element):
            continue
        index = list(call.expression.operands.values())[call.expression.trees[-1].number].buffer
        writers = [c for c in calls[:k] if any(r.buffer.root == index.root for r in c.written)]
        if not index.traits.is_array and writers and _gives_zeros(writers[-1]):
            spot = f" at {writers[-1].mark.spot}" if writers[-1].mark else ""
            message = (
                f"past the edge of its array the read{spot} gives 0, and 0 is a place of '{call.regions['dst'].text}'"
            )
            hint = f"'where(.. < N, {index.name}, -1)' gives what is past it no place, with 'edge: clip'"
            found.append(Diagnostic(ZEROS, message, call.mark_of("index"), hint, severity="warning"))
    return found


def _gives_zeros(call: Call) -> bool:
    """Does a call move elements as they are, and zeros where an array has ended?"""
    reads = any(r.buffer.traits.is_array and not _is_whole(r) for r in call.read)
    return is_clipped(call) and reads and call.expression is None


def _is_whole(region: Region) -> bool:
    """Does a region of known extents lie inside of its array wherever it begins?"""
    each = zip(region.begins, region.lengths, region.buffer.shape, strict=True)
    return all(bound(x) - 1 + n <= least(extent) for x, n, extent in each)


# ---------------------------------------------------------------- where an index lies
def index_range(spec: Spec, number: int) -> tuple[Index, Index]:
    """The least that an index may be, and a number that it is below: by promise, by what ops write, or by its type.

    ``number``: of the call. Two calls that say the same may read other elements.
    """
    call = outline(spec).calls[number]
    assert call.expression is not None
    tree = call.expression.trees[-1]
    info = np.iinfo(numpy_dtype(index_dtype(tree)))
    found: ValueRange | None = None
    read = measure_calls(spec)[number].read
    if isinstance(tree, Element):
        name, region = list(call.expression.operands.items())[tree.number]
        if region.buffer.values is not None:
            return region.buffer.values.places
        found = read.get(operand_field(name))  # of all that may be read there, what is not written here too
    elif all(name in read for name in call.fields_read if has_range(call.regions[name].buffer.dtype)):
        values = {name: read.get(name) for name in call.fields_read}
        found = measure_trees(call, values, frozenset(p.name for p in spec.params))[-1]
    return (int(info.min), int(info.max) + 1) if found is None else (found.low, found.high)


def unproven_picks(spec: Spec, plan: Plan) -> Iterator[Finding]:
    """Every integer that a thread takes for a place has the range that the plan says it has."""
    calls = outline(spec).calls
    for role in plan.roles:
        for visit in walk(role.steps, begin(role.threads)):
            step, op = visit.step, visit.position.op
            if not isinstance(step, Pick):
                continue
            if not 0 <= op < len(calls) or not calls[op].form.index:
                yield Finding(UNPROVEN_RANGE, f"the plan takes {step.var.name} for a place, and no op of the spec does")
                continue
            low, high = index_range(spec, op)
            if not _lies_within(low, high, step):
                yield _say(calls[op], op, low, high, step)


def _lies_within(low: Index, high: Index, step: Pick) -> bool:
    """Is all of a range what a step says of its variable?"""
    var = step.var
    if least(low) < var.least or (bound(high) - 1 > var.bound):
        return False
    return all(_implies(high, c, step) for known in step.known for c in conjuncts(known))


def _implies(high: Index, condition: Index, step: Pick) -> bool:
    """Does a condition hold of all numbers below ``high``?"""
    if not isinstance(condition, Formula) or condition.symbol != "<" or condition.args[0] != step.var:
        return False
    return is_below(add(high, -1), condition.args[1], ())


def _say(call: Call, op: int, low: Index, high: Index, step: Pick) -> Finding:
    assert call.expression is not None
    region = call.indexed
    dtype = index_dtype(call.expression.trees[-1])
    below = next((to_c(c.args[1]) for c in step.known if isinstance(c, Formula)), str(step.var.bound))
    message = f"an index of '{region.text}' is {to_c(low)} to {to_c(add(high, -1))}, as far as is known of {dtype}"
    message += f", and there are {below} places"
    rest = "drop the rest" if call.stores_by_index else "read 0 outside"
    hint = f"say 'values' of the array that it comes from, clamp it with min and max, or {rest} with 'edge: clip'"
    return Finding(UNPROVEN_RANGE, message, "error", op, region.buffer.root, hint=hint)
