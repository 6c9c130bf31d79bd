"""Buffers and views: memory, dtype, shape and layout, each checked against the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilegen import layouts
from tilegen.arch import ARCHES
from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError, Mark
from tilegen.index import Formula, Index, Var, bound, evaluate, least, mul
from tilegen.near_words import suggest
from tilegen.spaces import SPACES, Space
from tilegen.spec.absent import refuse_later, refuse_mode_word, suggest_dtype
from tilegen.spec.auto import AUTO
from tilegen.spec.buffer_models import BufferFields, ViewFields
from tilegen.spec.data import Buffer
from tilegen.spec.expressions import read_number
from tilegen.spec.findings import Findings, Flawed, shorten
from tilegen.spec.models import check_fields, is_misspelt
from tilegen.spec.names import Register
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node
from tilegen.spec.placing import (
    MAX_ELEMS,
    Setting,
    check_layout_fits,
    check_same_registers,
    is_auto,
    multiply,
    read_layout,
)  # fmt: skip
from tilegen.spec.regions import show_shape
from tilegen.spec.tensor_memory import check_tensor_buffer, check_tensor_total, require_layout
from tilegen.spec.tensor_views import check_axes, view_cells
from tilegen.spec.values import read_promise


@dataclass
class Buffers(Setting):
    """The buffers so far, in order, and what is known of each beside its data."""

    is_pass: bool = False  # of several: then arrays may be workspaces
    found: dict[str, Buffer] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    scopes: dict[str, tuple[str, Mark | None]] = field(default_factory=dict)  # of 'auto' registers: of their first op
    layout_nodes: dict[str, Node] = field(default_factory=dict)
    roles: dict[str, tuple[str, Mark | None]] = field(default_factory=dict)  # of registers: whose they are, since where


def read_buffers(node: Node | None, state: Buffers, register: Register, findings: Findings) -> None:
    """Every buffer of the section, then every view, into ``state``."""
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return
    if not isinstance(node, Mapping):
        message = f"'buffers' must be a mapping of names, not {describe_node(node)}"
        findings.report("TG103", message, node.mark, "write X: {scope: global, dtype: float32, shape: [64]}")
        return
    for key, _ in node.entries:
        with findings.collect():
            register.claim(key.passage, "buffer")
    state.broken.update(key.text for key, _ in node.entries)
    for key, value in node.entries:
        with findings.collect():
            buffer = None if _is_view(value) else _read_buffer(key, value, state, findings)
            if buffer:
                _keep(buffer, value, state)
    _read_views([(k, v) for k, v in node.entries if isinstance(v, Mapping) and _is_view(v)], state, findings)
    order = {key.text: at for at, (key, _) in enumerate(node.entries)}
    state.found = dict(sorted(state.found.items(), key=lambda item: order[item[0]]))
    for key, value in node.entries:
        buffer = state.found.get(key.text)
        if buffer and buffer.over and isinstance(value, Mapping):
            with findings.collect():
                _check_over(buffer, value["over"], state)
    with findings.collect():
        _check_shared_total(node, state)
    with findings.collect():
        check_tensor_total(state.found.values(), state.arch)


def _is_view(node: Node) -> bool:
    """Does it say 'view', or nearly, and no memory of its own?"""
    known = (*BufferFields.model_fields, *ViewFields.model_fields)
    is_meant = isinstance(node, Mapping) and "scope" not in node and is_misspelt("view", node, known)
    return is_meant or (isinstance(node, Mapping) and "view" in node)


def _keep(buffer: Buffer, node: Node, state: Buffers) -> None:
    state.found[buffer.name] = buffer
    state.broken.discard(buffer.name)
    layout = node.get("layout") if isinstance(node, Mapping) else None
    state.layout_nodes[buffer.name] = layout or node


# ---------------------------------------------------------------- buffers of their own
def _read_buffer(key: Scalar, node: Node, state: Buffers, findings: Findings) -> Buffer | None:
    what = f"buffer '{shorten(key.text)}'"
    fields = check_fields(node, BufferFields, what, findings, key.mark)
    if fields is None or not isinstance(node, Mapping):
        return None
    space = SPACES[fields.scope]
    if space.is_brought and not state.is_pass:
        message = f"{what} is a workspace, which one kernel writes for another to read, but the spec is one kernel"
        raise Flawed("TG106", message, node["scope"].mark, "write 'passes', or 'scope: global'")
    if space.has_cells:
        check_tensor_buffer(node, fields.dtype, state.arch, what)
    ok = len(findings.found)
    with findings.collect():
        _check_dtype(node["dtype"], fields.dtype)
    if fields.align & (fields.align - 1):
        findings.report("TG106", f"'align' must be a power of two, not {fields.align}", node["align"].mark)
    elif fields.align % DTYPES.get(fields.dtype, DTYPES["int8"]).bytes:
        findings.report(
            "TG106", f"'align' is {fields.align}, less than an element of {fields.dtype}", node["align"].mark
        )
    if fields.partial and not space.is_callers:
        message = f"'partial' is for arrays that the kernel writes, and {what} is {fields.scope}"
        findings.report("TG106", message, node["partial"].mark, "remove it")
    is_claim = space.is_held and fields.distinct and DTYPES.get(fields.dtype, DTYPES["int8"]).kind in ("int", "uint")
    for promise in ("offsets",) if is_claim else ("distinct", "offsets"):
        if getattr(fields, promise) not in (None, False) and not space.is_callers:
            message = f"'{promise}' is what a caller promises of a global array, and {what} is {fields.scope}"
            findings.report("TG106", message, node[promise].mark, "remove it")
    if fields.over and not (space.is_pooled or space.has_cells):
        message = f"'over' lays shared buffers, or tmem buffers, on each other, and {what} is {fields.scope}"
        findings.report("TG106", message, node["over"].mark, "remove it")
    shape = _read_shape(node["shape"], state, what, space, findings)
    if shape is None or len(findings.found) > ok:
        return None
    values = None if is_claim and fields.values is None else read_promise(node, fields, shape, state.params)
    layout_node = node.get("layout")
    if space.has_cells:
        require_layout(layout_node, shape, fields.dtype, what, key.mark)
    place = layout_node or node["shape"]
    if layout_node and is_auto(layout_node):
        _check_auto(layout_node, space, what)
        if space.is_pooled:  # how many registers it takes depends on who owns them
            check_layout_fits(layouts.row_major(shape), shape, state, what, space, fields.dtype, place)
        return Buffer(
            key.text, fields.scope, fields.dtype, shape, AUTO, key.text, fields.align, "auto", key.mark,
            over=tuple(fields.over or ()), values=values, is_distinct=fields.distinct,
        )  # fmt: skip
    layout = layouts.row_major(shape)
    if layout_node:
        refuse_mode_word(layout_node, shape, fields.dtype, space, what)
        layout = read_layout(layout_node, shape, state, what, findings)
    check_layout_fits(layout, shape, state, what, space, fields.dtype, place)
    text = _text_of(layout_node, layout)
    return Buffer(
        key.text, fields.scope, fields.dtype, shape, layout, key.text, fields.align, text, key.mark,
        partial=fields.partial, over=tuple(fields.over or ()), values=values,
        is_distinct=fields.distinct,
    )  # fmt: skip


def _check_auto(node: Node, space: Space, what: str) -> None:
    """An array lies as its caller has it, or as the text says; raises TG209."""
    if space.is_array:
        message = f"'auto' chooses layouts of shared and register buffers, but {what} is in {space.words}"
        why = ", where its caller laid it out" if space.is_callers else ""
        raise Flawed("TG209", f"{message}{why}", node.mark, "write the layout, or 'row'")


def _text_of(node: Node | None, layout: Any) -> str:
    """A layout as the user wrote it, or as one line where it is a mapping; empty for the default."""
    return node.text if isinstance(node, Scalar) else str(layout) if node else ""


def _check_dtype(node: Node, name: str) -> None:
    if name == "float4_e2m1fn":
        raise refuse_later("the dtype float4_e2m1fn in memory", node)
    if name not in DTYPES:
        raise Flawed("TG109", f"unknown dtype '{shorten(name)}'", node.mark, suggest_dtype(name))


def _read_shape(node: Node, state: Buffers, what: str, space: Space, findings: Findings) -> tuple[Index, ...] | None:
    """The extents; None where one is wrong. Only global buffers may have runtime extents."""
    assert isinstance(node, Sequence)
    shape: list[Index] = []
    for item in node.items:
        with findings.collect():
            names = state.params.launched_names if space.is_brought else state.params.names
            extent = read_number(item, names, f"an extent of {what}", is_size=True)
            if isinstance(extent, (Var, Formula)) and not space.is_array:
                raise Flawed(
                    "TG112",
                    f"an extent of {what} is '{shorten(extent)}', not a constant",
                    item.mark,
                    f"it is a {space.name} buffer",
                )
            if least(extent) < 1:
                raise Flawed("TG106", f"an extent of {what} must be at least 1, not {_say_least(extent)}", item.mark)
            shape.append(extent)
    if len(shape) < len(node.items):
        return None
    elems = int(evaluate(multiply(shape), state.params.defaults))
    if elems > MAX_ELEMS:
        findings.report("TG210", f"{what} has {elems} elements; at most {MAX_ELEMS} are possible", node.mark)
        return None
    return tuple(shape)


def _say_least(extent: Index) -> str:
    return str(extent) if isinstance(extent, int) else f"'{shorten(extent)}', which may be 0"


# ---------------------------------------------------------------- all of shared memory
def _check_shared_total(node: Node, state: Buffers) -> None:
    total, limit = 0, ARCHES[state.arch].max_shared_bytes_per_cta
    for buffer in state.found.values():
        if buffer.traits.is_pooled and buffer.root == buffer.name and not buffer.over:
            reach = multiply(buffer.shape) if buffer.is_auto else layouts.extent_of(buffer.layout, "m")
            total += buffer.traits.round_up(int(bound(reach) - 1) * DTYPES[buffer.dtype].bytes)
            if total > limit:
                message = (
                    f"the shared buffers up to '{buffer.name}' take {total} bytes; a CTA on {state.arch} has {limit}"
                )
                raise Flawed("TG210", message, buffer.mark, "take a smaller shape, several times over")


def _check_over(buffer: Buffer, node: Node, state: Buffers) -> None:
    """What a buffer lies on are buffers of its space and of their own, neighbours there; raises TG105, TG117."""
    assert isinstance(node, Sequence)
    space = buffer.traits
    own = [b.name for b in state.found.values() if b.traits is space and b.root == b.name and not b.over]
    for name, item in zip(buffer.over, node.items, strict=True):
        other = state.found.get(name)
        if name in state.broken:
            raise Flawed()
        if other is None:
            raise Flawed("TG105", f"unknown buffer '{shorten(name)}'", item.mark, suggest(name, own))
        if name not in own:
            has = "itself over others" if other.root == name else "a view"
            has = has if other.traits is space else f"in {other.traits.words}"
            has = "the one that is declared" if name == buffer.name else has
            message = f"'{buffer.name}' lies over {space.name} buffers, but '{name}' is {has}"
            raise Flawed("TG117", message, item.mark, f"it can lie over {', '.join(own)}" if own else "remove 'over'")
    places = sorted(own.index(name) for name in buffer.over)
    if len(set(places)) < len(places):
        raise Flawed("TG117", f"'{buffer.name}' lies over one buffer twice", node.mark, "name each once")
    between = [own[i] for i in range(places[0], places[-1]) if own[i] not in buffer.over]
    if between:
        message = f"'{buffer.name}' lies over neighbours, but '{between[0]}' lies between them"
        raise Flawed("TG117", message, node.mark, f"{space.name} buffers lie in the order in which they are declared")


# ---------------------------------------------------------------- views
def _read_views(entries: list[tuple[Scalar, Mapping]], state: Buffers, findings: Findings) -> None:
    """Views in any order: each once what it is a view of is known."""
    fields = {
        key.text: check_fields(node, ViewFields, f"view '{key.text}'", findings, key.mark) for key, node in entries
    }
    waiting = [(key, node, model) for key, node in entries if (model := fields[key.text])]
    while waiting:
        ready = [w for w in waiting if w[2].view in state.found]
        if not ready:
            break
        for key, node, model in ready:
            with findings.collect():
                _keep(_read_view(key, node, model, state, findings), node, state)
        waiting = [w for w in waiting if w not in ready]
    _report_rootless(waiting, state, findings)


def _report_rootless(waiting: list[tuple[Scalar, Mapping, ViewFields]], state: Buffers, findings: Findings) -> None:
    """Views of nothing, and of each other; a view of what is broken itself is not reported again."""
    targets = {key.text: model.view for key, _, model in waiting}
    for key, node, model in waiting:
        seen = [key.text]
        while seen[-1] in targets and targets[seen[-1]] not in seen:
            seen.append(targets[seen[-1]])
        if model.view not in state.broken:
            near = suggest(model.view, [*state.found, *sorted(state.broken)])
            findings.report("TG105", f"unknown buffer '{shorten(model.view)}'", node["view"].mark, near)
        elif targets.get(seen[-1]) in seen:
            loop = " -> ".join([*seen, targets[seen[-1]]])
            findings.report("TG115", f"views of each other have no bytes: {shorten(loop)}", node["view"].mark)


def _read_view(key: Scalar, node: Mapping, fields: ViewFields, state: Buffers, findings: Findings) -> Buffer:
    what = f"view '{key.text}'"
    other = state.found[fields.view]
    dtype = fields.dtype or other.dtype
    if fields.dtype is not None:
        _check_dtype(node["dtype"], fields.dtype)
        if not (other.traits.is_pooled or other.traits.has_cells) and dtype != other.dtype:
            fix = "copy into shared memory and view that"
            keeps = f"a view of a {other.scope} buffer keeps its dtype, {other.dtype}"
            raise Flawed("TG115", keeps, node["dtype"].mark, fix)
    if fields.axes is not None:
        check_axes(fields.axes, other, node)
        return _transpose(key, node, fields.axes, other, dtype)
    shape = other.shape
    if fields.shape is not None:
        read = _read_shape(node["shape"], state, what, other.traits, findings)
        if read is None:
            raise Flawed()
        shape = read
    layout_node = node.get("layout")
    if other.traits.has_cells:
        return view_cells(key, node, (dtype, shape if fields.shape else None), other, (state, findings))
    if other.is_auto:
        return _follow(key, node, other, dtype, shape, state)
    parent, text = "", "row"
    if layout_node is not None:
        refuse_mode_word(layout_node, shape, dtype, other.traits, what)
        layout = read_layout(layout_node, shape, state, what, findings)
        text = _text_of(layout_node, layout)
    else:
        shape, layout = _reinterpret(node, other, dtype, shape, fields.shape is not None, state)
        if layout is other.layout:
            parent, text = other.name, other.layout_text
    check_layout_fits(layout, shape, state, what, other.traits, dtype, layout_node or node["view"])
    _check_same_bytes(layout, dtype, other, state, what, layout_node or node["view"])
    return Buffer(key.text, other.scope, dtype, shape, layout, other.root, other.align_bytes, text, key.mark, parent)


def _transpose(key: Scalar, node: Mapping, axes: list[int], other: Buffer, dtype: str) -> Buffer:
    for word in ("layout", "shape"):
        if word in node:
            raise Flawed(
                "TG115", f"a view has 'axes' or '{word}', not both", node.key(word).mark, "make a view of the view"
            )
    if sorted(axes) != list(range(len(other.shape))):
        order = f"each of 0 to {len(other.shape) - 1} once"
        near = f"for example {list(range(len(other.shape)))[::-1]}"
        raise Flawed("TG115", f"'axes' must name the dimensions of '{other.name}': {order}", node["axes"].mark, near)
    if DTYPES[dtype].bytes != DTYPES[other.dtype].bytes:
        raise Flawed(
            "TG115", "a transpose keeps the bytes of an element", node["dtype"].mark, "make a view of the view"
        )
    try:
        layout = AUTO if other.is_auto else layouts.permute_dims(other.layout, other.counted_shape, tuple(axes))
    except LayoutError as error:
        raise Flawed("TG201", f"{shorten(error, 200)}, in view '{key.text}'", node["axes"].mark) from None
    shape = tuple(other.shape[a] for a in axes)
    return Buffer(
        key.text, other.scope, dtype, shape, layout, other.root, other.align_bytes, other.layout_text, key.mark,
        other.name, tuple(axes),
    )  # fmt: skip


def _follow(key: Scalar, node: Mapping, other: Buffer, dtype: str, shape: tuple[Index, ...], state: Buffers) -> Buffer:
    """A view of a buffer whose layout is chosen: another shape or another type of one size; raises TG115 else."""
    fix = f"write the layout of '{other.root}' instead of 'auto', or leave it out of the view"
    if "layout" in node:
        message = f"the layout of '{other.root}' is still to be chosen, so nobody can say what a view of it would see"
        raise Flawed("TG115", message, node["layout"].mark, fix)
    if DTYPES[dtype].bytes != DTYPES[other.dtype].bytes:
        message = f"'{other.root}', whose layout is to be chosen, has no elements of {DTYPES[dtype].bytes} bytes"
        raise Flawed("TG115", message, node["dtype"].mark, fix)
    shape, _ = _reinterpret(node, other, dtype, shape, "shape" in node, state)
    return Buffer(
        key.text, other.scope, dtype, shape, AUTO, other.root, other.align_bytes, "auto", key.mark, other.name
    )


def _reinterpret(
    node: Mapping, other: Buffer, dtype: str, shape: tuple[Index, ...], has_shape: bool, state: Buffers
) -> tuple[tuple[Index, ...], Any]:
    """Another shape or dtype without a layout: the other's layout where elements keep their bytes, else dense rows."""
    old, new = DTYPES[other.dtype].bytes, DTYPES[dtype].bytes
    if old == new:
        if not has_shape and dtype == other.dtype:
            raise Flawed(
                "TG115", f"this view is '{other.name}' again", node.mark, "give 'layout', 'axes', 'shape' or 'dtype'"
            )
        values = state.params.defaults
        if evaluate(multiply(shape), values) != evaluate(multiply(other.shape), values):
            message = (
                f"the shape {show_shape(shape)} has not as many elements as {show_shape(other.shape)} of '{other.name}'"
            )
            raise Flawed("TG115", message, node["shape"].mark)
        return shape, other.layout
    if other.layout != layouts.row_major(other.shape):
        raise Flawed(
            "TG115", f"elements of {new} bytes need a layout here: '{other.name}' is not row-major", node["dtype"].mark
        )
    if not has_shape:
        last = mul(other.shape[-1], old)
        if isinstance(last, (Var, Formula)) or last % new:
            raise Flawed(
                "TG115", f"rows of '{other.name}' do not divide into elements of {new} bytes", node["dtype"].mark
            )
        shape = (*other.shape[:-1], last // new)
    return shape, layouts.row_major(shape)


def _check_same_bytes(layout: Any, dtype: str, other: Buffer, state: Buffers, what: str, node: Node) -> None:
    """A view must stay inside the bytes of its root."""
    root = state.found[other.root]
    for values in (state.params.defaults, state.params.lowest):
        reaches = int(evaluate(layouts.extent_of(layout, "m"), values)) * DTYPES[dtype].bytes
        has = int(evaluate(layouts.extent_of(root.layout, "m"), values)) * DTYPES[root.dtype].bytes
        if reaches > has:
            raise Flawed("TG115", f"{what} reaches {reaches} bytes, but '{root.name}' has {has}", node.mark)
    if root.traits.is_held:
        check_same_registers(layout, root, state.threads or 1024, what, node)
