"""Ops on whole arrays: read, and checked against what they rule out, a launch of the spec's own and other ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilegen import layouts
from tilegen.near_words import suggest
from tilegen.spec.absent import refuse_later_fields
from tilegen.spec.buffers import Buffers
from tilegen.spec.data import Buffer, Nest, Statement, WholeCall
from tilegen.spec.findings import Findings, Flawed, Passage, raise_flaw, shorten
from tilegen.spec.form import WholeForm, operand_field
from tilegen.spec.models import check_fields
from tilegen.spec.names import check_name
from tilegen.spec.nodes import Mapping, Node, Scalar
from tilegen.spec.spelling import spell_index

_CHOSEN = ("grid", "cluster", "cta_group", "threads", "ctas_per_sm", "overlap", "roles", "barriers")
_PINNED = {"threads": 256, "cluster": 2, "overlap": "previous"}  # as ops that have the field write it


def read_whole(key: Scalar, node: Node, form: WholeForm, buffers: Buffers, findings: Findings) -> WholeCall | None:
    """The call of an op on whole arrays; None if some of it was reported. Raises what its form finds wrong.

    Reported are TG105 and TG205, for its operands. Raised first is TG190, for a field that comes later.
    """
    refuse_later_fields(node, form.later, key.text)
    fields = check_fields(node, form.model, key.text, findings, key.mark)
    if fields is None or not isinstance(node, Mapping):
        return None
    arrays: dict[str, Buffer] = {}
    before = len(findings.found)
    given = {name: node[name] for name in form.operands if name in node or name not in form.optional}
    entries = node[key_of(form.named, form)] if form.named and key_of(form.named, form) in node else None
    if isinstance(entries, Mapping):
        for entry, _ in entries.entries:
            with findings.collect():
                _check_named(entry, form)
        given |= {operand_field(entry.text): value for entry, value in entries.entries}
    for name, operand in given.items():
        assert isinstance(operand, Scalar)
        with findings.collect():
            arrays[name] = _find_array(operand.passage, buffers, form.name)
    if len(arrays) < len(given) or len(findings.found) > before:
        return None
    own = {name: value for name in form.model.model_fields if (value := node.get(key_of(name, form))) is not None}
    call = WholeCall(form, fields, arrays, key.mark, given | own)
    raise_flaw(form.check(fields, arrays), call.mark_of)
    return call


def _check_named(entry: Scalar, form: WholeForm) -> None:
    """Raises TG107 and TG108 for a name that an array may not have in the op's expression."""
    name = check_name(entry.passage, "operand")
    if name in form.taken:
        raise Flawed("TG108", f"'{name}' already means something in {form.name}", entry.mark, "give it another name")


def key_of(field: str, form: WholeForm) -> str:
    """How a spec writes a field."""
    return form.model.model_fields[field].alias or field


def _find_array(passage: Passage, buffers: Buffers, op: str) -> Buffer:
    name = passage.text.strip()
    buffer = buffers.found.get(name)
    if buffer is None:
        mark = passage.locate(0, len(passage.text))
        stem = name.split("[")[0]
        if name in buffers.broken:
            raise Flawed()
        if stem in buffers.found:
            raise Flawed("TG205", f"{op} takes whole arrays, not a part of '{stem}'", mark, f"write '{stem}'")
        near = suggest(name, [*buffers.found, *sorted(buffers.broken)])
        raise Flawed("TG105", f"unknown buffer '{shorten(name)}'", mark, near)
    if not buffer.traits.is_array or buffer.root != buffer.name:
        has = "a view" if buffer.traits.is_array else f"in {buffer.traits.words}"
        mark = passage.locate(0, len(passage.text))
        arrays = [b.name for b in buffers.found.values() if b.traits.is_array and b.root == b.name]
        fix = f"whole global arrays: {', '.join(arrays)}" if arrays else "make it a buffer of scope global"
        fix = _say_array(buffer) if buffer.traits.is_array else fix
        raise Flawed("TG205", f"{op} takes whole global arrays, but '{name}' is {has}", mark, fix)
    return buffer


def _say_array(view: Buffer) -> str:
    """A view's bytes as an array of its own, declared where the array is that it is a view of."""
    shape = ", ".join(map(spell_index, view.shape))
    plain = {str(layouts.row_major(view.shape)): "", str(layouts.column_major(view.shape)): ", layout: col"}
    layout = plain.get(str(view.layout), f', layout: "{view.layout}"')
    declared = f"{{scope: global, dtype: {view.dtype}, shape: [{shape}]{layout}}}"
    return f"declare '{view.root}' as the view sees it, and write '{view.root}': {view.root}: {declared}"


def check_alone(root: Mapping, ops: Sequence[Statement], findings: Findings) -> WholeCall | None:
    """The op on whole arrays, if the spec has one; what may not stand beside it is reported (TG116)."""
    found = list(_whole_calls(ops))
    if not found:
        return None
    call = found[0]
    if len(ops) > 1 or isinstance(ops[0], Nest):
        message = f"{call.op} works on whole arrays and is the only op of its kernel"
        findings.report("TG116", message, call.mark, "give it a spec of its own")
    for name in _CHOSEN:
        if name in root:
            message = f"'{name}' is chosen by tilegen where the op is {call.op}"
            is_pin = name in call.form.model.model_fields
            fix = f"pin it inside the op: '{name}: {_PINNED[name]}'" if is_pin else "remove it"
            findings.report("TG116", message, root.key(name).mark, fix)
    return call


def _whole_calls(ops: Sequence[Statement]) -> Iterator[WholeCall]:
    for op in ops:
        if isinstance(op, WholeCall):
            yield op
        elif isinstance(op, Nest):
            yield from _whole_calls(op.body)
