"""Buffers of tensor memory whose layout is 'auto': they lie as what multiplies, copies or loads them asks.

Products come first, and copies by tcgen05.cp, which find their operands in one way. Where registers alone are copied,
row r is in lane r, which a warpgroup loads with a row for each thread.
"""

from __future__ import annotations

from dataclasses import replace

from tilegen.auto_layout.pin import list_views, pin_layout
from tilegen.auto_layout.register_flow import say_call
from tilegen.decisions import Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, LayoutError, SpecError
from tilegen.layouts import parse, retype_cells
from tilegen.ops import OPS
from tilegen.ops.cells import CellsNeed, are_same
from tilegen.spec.data import Buffer, Call, Spec
from tilegen.spec.findings import Flawed
from tilegen.spec.outline import outline
from tilegen.spec.placing import find_crossing
from tilegen.spec.tensor_memory import check_tensor_total, say_placement, suggest_placement

_FIX = "let the last dimension count the elements of a row, which share columns"
_Asked = tuple[Call, str, CellsNeed]  # a call, its field, and what it needs there


def choose_tensor_memory(spec: Spec) -> Spec:
    """The spec with a layout for every buffer of tensor memory that has 'auto', and a Choice for each in ``choices``.

    Raises SpecError: TG209 where two ops need two layouts, or none says one; TG210 where columns do not suffice.
    """
    names = [b.name for b in spec.buffers if b.traits.has_cells and b.is_auto and b.root == b.name]
    if not names:
        return spec
    choices = []
    for name in names:
        need = _find_need(spec, name)
        spec = _pin(spec, name, need)
        choices.append(Choice(f"layout of {name}", str(need.layout), (), need.why))
    try:
        check_tensor_total(spec.buffers, spec.arch)
    except Flawed as flaw:
        assert flaw.diagnostic is not None
        raise SpecError(flaw.diagnostic) from None
    return replace(spec, choices=(*spec.choices, *choices))


def _pin(spec: Spec, name: str, need: CellsNeed) -> Spec:
    """The spec with a layout for a buffer and its views. Raises SpecError for views that have no elements under it."""
    views = [b for b in spec.buffers if b.root == name and b.name != name]
    try:
        pinned = pin_layout(spec, name, need.layout)
    except LayoutError as error:
        raise SpecError(Diagnostic("TG115", f"{error}, for views of '{name}'", views[0].mark, _FIX)) from None
    for view in (pinned.buffer(b.name) for b in views):
        if crossing := find_crossing(view.layout, view.shape):
            message = f"{crossing.message}, the shape of view '{view.name}'"
            raise SpecError(Diagnostic(crossing.code, message, view.mark, f"split or join dimensions of '{name}'"))
    return pinned


def _find_need(spec: Spec, name: str) -> CellsNeed:
    """The layout that ops need of a buffer: first those that leave no choice. Raises SpecError."""
    buffer = spec.buffer(name)
    touching = [(c, f) for c in outline(spec).calls for f, r in c.regions.items() if r.buffer.root == name]
    asked = [(c, f, need) for c, f in touching if (need := _need_of_root(spec, c, f))]
    fixed = [one for one in asked if one[2].is_fixed] or asked
    if not fixed:
        return _take_rows(buffer, bool(touching))
    first = fixed[0]
    for other in fixed[1:]:
        if not are_same(first[2].layout, other[2].layout):
            raise SpecError(_report_two(buffer, first, other))
    _, field, need = first
    return replace(need, why=f"{need.why}, as {field} of {say_call(first[0])}")


def _need_of_root(spec: Spec, call: Call, field: str) -> CellsNeed | None:
    """What a call needs of the buffer that an operand is, or is a view of; None where a view has other dimensions."""
    view, need = call.regions[field].buffer, OPS[call.op].cells(call, field)
    if need is None or any(v.axes for v in list_views(spec, view.name)):
        return None
    root = spec.buffer(view.root)
    layout = retype_cells(need.layout, DTYPES[view.dtype].bits, DTYPES[root.dtype].bits)
    return need if view.name == root.name else replace(need, layout=layout)


def _take_rows(buffer: Buffer, is_touched: bool) -> CellsNeed:
    """Rows in lanes, where no op has a say. Raises SpecError where one has, and does not say what it needs."""
    fitting = suggest_placement(buffer.shape, buffer.dtype)
    if is_touched or not fitting:
        what = "no op that names it says" if is_touched else "nothing says"
        message = f"{what} in which lanes and columns '{buffer.name}' lies"
        raise SpecError(Diagnostic("TG209", message, buffer.mark, say_placement(buffer.shape, buffer.dtype)))
    return CellsNeed(parse(fitting), "no op touches it: rows in lanes")  # type: ignore[arg-type]


def _report_two(buffer: Buffer, first: _Asked, other: _Asked) -> Diagnostic:
    (one, f, need), (two, g, own) = first, other
    message = f"'{buffer.name}' needs two layouts: {need.layout} as {f} of {say_call(one)}, and {own.layout} here"
    return Diagnostic("TG209", message, two.mark_of(g), "use two buffers: 'over' lays one on the other's columns")
