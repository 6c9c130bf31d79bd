"""What ops accumulate into: one way for a pass and a global array, and no sum of floats that decides anything.

No sync orders CTAs, so who reads or stores an array while others update it has what is there by chance. And sums of
floats depend on the order in which they are added, which differs from run to run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tilegen.arithmetic import Apply, Node, find_elements
from tilegen.dtypes import DTYPES
from tilegen.errors import Mark
from tilegen.spec.data import Call, LetStatement, Nest, Region, Spec, Statement, WholeCall
from tilegen.spec.findings import Findings
from tilegen.spec.form import name_of_result
from tilegen.spec.outline import outline
from tilegen.spec.program import Program
from tilegen.spec.tables import Read

_WHOLE = ("int", "uint", "bool")
_LATER = "do it in a later pass"
_BY = {True: "TMA", False: "threads"}


def accumulated_arrays(spec: Spec) -> frozenset[str]:
    """The global arrays that a kernel accumulates into, by the names of their roots."""
    regions = (r for call in outline(spec).calls if call.accumulates for r in call.written)
    return frozenset(r.buffer.root for r in regions if r.buffer.traits.is_array)


def check_accumulated(spec: Spec, findings: Findings) -> None:
    """Reports TG216 for a global array that a kernel accumulates into and reads or stores, or updates in two ways."""
    calls = outline(spec).calls
    first: dict[str, Call] = {}
    for call in calls if any(c.accumulates for c in calls) else ():
        for region in call.written if call.accumulates else ():
            if not region.buffer.traits.is_array:
                continue
            other = first.setdefault(region.buffer.root, call)
            if other.accumulates != call.accumulates:
                message = f"'{region.buffer.root}' is updated by '{call.accumulates}' here"
                message += f", and by '{other.accumulates}'{_at(other.mark)}: nothing orders the CTAs that do"
                findings.report("TG216", message, region.mark or call.mark, "a pass updates an array by one function")
            elif bool(other.queue) != bool(call.queue):
                message = f"'{region.buffer.root}' is updated by {_BY[bool(call.queue)]} here"
                message += f", and by {_BY[bool(other.queue)]}{_at(other.mark)}: PTX orders neither with the other"
                findings.report("TG216", message, region.mark or call.mark, "let one of them do it")
    for call in calls if first else ():
        for region in call.sources:
            _report_other(region, first, "read", call, findings)
        for region in () if call.accumulates else call.written:
            _report_other(region, first, "stored to", call, findings)


def _report_other(region: Region, first: dict[str, Call], what: str, call: Call, findings: Findings) -> None:
    """Reports a region that other CTAs update while it is read or stored."""
    if (updating := first.get(region.buffer.root)) is not None:
        how = f"accumulated into{_at(updating.mark)}"
        message = f"'{region.buffer.root}' is {how}, and {what} here: no sync orders CTAs"
        hint = _LATER if what == "read" else "store to it in an earlier pass; what an array holds before is an input"
        findings.report("TG216", message, region.mark or call.mark, hint)


def _at(mark: Mark | None) -> str:
    return f" ({mark.spot})" if mark else ""


# ---------------------------------------------------------------- sums in an order that nobody knows
def find_unordered(spec: Spec, before: Iterable[str] = ()) -> frozenset[str]:
    """The arrays that hold what sums of floats in any order came to, by name.

    ``before``: those that passes before this one have left.
    """
    return frozenset(_Flow(spec, before).unordered & {b.root for b in spec.buffers if b.traits.is_array})


def list_unordered(program: Program) -> frozenset[str]:
    """The arrays that hold such sums when all passes have run, by name."""
    found: frozenset[str] = frozenset()
    for one in program.passes:
        found |= find_unordered(one.spec, found)
    return found


def check_unordered(spec: Spec, findings: Findings, before: Iterable[str] = ()) -> None:
    """Reports TG217 where such a value decides something: in a comparison, an integer, a place."""
    flow = _Flow(spec, before)
    for message, mark in dict.fromkeys(flow.wrong):
        hint = "add in a fixed order, as 'reduce' does, or decide by other values"
        findings.report("TG217", message, mark, hint)


class _Flow:
    """Where such values go, statement after statement; bodies of loops twice, as the last may come before the first."""

    def __init__(self, spec: Spec, before: Iterable[str]):
        self.unordered = set(before)
        self.wrong: list[tuple[str, Mark | None]] = []
        has_any = self.unordered or any(_adds_floats(call) for call in outline(spec).calls)
        for _ in range(2 if has_any else 0):  # roles run beside one another
            self._follow(spec.ops)

    def _follow(self, statements: Sequence[Statement]) -> None:
        for s in statements:
            if isinstance(s, Call):
                self._call(s)
            elif isinstance(s, LetStatement):
                for _, read in s.entries:
                    if isinstance(read, Read) and read.array in self.unordered:
                        self._refuse(read.array, "a let reads", read.mark)
            elif isinstance(s, WholeCall):
                self._whole_call(s)
            elif isinstance(s, Nest):
                for _ in range(2):
                    self._follow(s.body)

    def _call(self, call: Call) -> None:
        held = [r for r in call.sources if r.buffer.root in self.unordered]
        if held:
            for what in _list_decided(call, self.unordered):
                self._refuse(held[0].buffer.root, what, call.mark)
        if held or _adds_floats(call):
            self.unordered |= {r.buffer.root for r in call.written}

    def _whole_call(self, call: WholeCall) -> None:
        read, written = (
            [a for f, a in call.arrays.items() if (f in call.form.writes) == is_written] for is_written in (False, True)
        )
        held = [a.root for a in read if a.root in self.unordered]
        if held and any(DTYPES[a.dtype].kind in _WHOLE for a in written):
            self._refuse(held[0], f"{call.op} makes integers of", call.mark)
        if held:
            self.unordered |= {a.root for a in written}

    def _refuse(self, name: str, what: str, mark: Mark | None) -> None:
        message = f"'{name}' holds sums of floats in an order that differs from run to run, and {what} them"
        self.wrong.append((message, mark))


def _adds_floats(call: Call) -> bool:
    return call.accumulates == "add" and any(DTYPES[r.buffer.dtype].kind == "float" for r in call.written)


def _list_decided(call: Call, unordered: Collection[str]) -> Iterator[str]:
    """What a call makes of such values that is no float, in words."""
    if call.expression is None:
        is_moved = all(r.buffer.dtype == w.buffer.dtype for r in call.sources for w in call.written)
        if not is_moved and any(DTYPES[w.buffer.dtype].kind in _WHOLE for w in call.written):
            yield f"{call.op} makes integers of"
        return
    numbers = {n for n, r in enumerate(call.expression.operands.values()) if r.buffer.root in unordered}
    for name, tree in zip(call.fields_written, call.expression.trees, strict=False):
        if any(_decides(node, numbers) for node in _list_applied(tree)):
            yield "a comparison or an integer is made of"
        elif DTYPES[call.regions[name].buffer.dtype].kind in _WHOLE and _holds(tree, numbers):
            of = f" '{name_of_result(name)}'" if name_of_result(name) else ""
            yield f"an integer{of} is made of"
    if any(DTYPES[w.buffer.dtype].kind in _WHOLE for w in call.written[len(call.expression.trees) :]):
        yield f"{call.op} makes integers of"  # the place of an extreme, say


def _list_applied(node: Node) -> Iterator[Apply]:
    if isinstance(node, Apply):
        yield node
        for arg in node.args:
            yield from _list_applied(arg)


def _decides(node: Apply, numbers: Collection[int]) -> bool:
    """Is a truth value, or an integer of a float, made of such an element?"""
    if not _holds(node, numbers):
        return False
    to_integer = node.type.startswith(("int", "uint")) and any("float" in arg.type for arg in node.args)
    return node.type == "bool" or to_integer


def _holds(node: Node, numbers: Collection[int]) -> bool:
    return any(e.number in numbers for e in find_elements(node))
