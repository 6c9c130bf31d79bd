"""A Spec as the YAML that a person could have written: what ``load`` reads back as an equal Spec."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dict
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from tilegen.arithmetic.values import Values
from tilegen.index import Formula, Index, sub, substitute
from tilegen.plan import Param, arguments
from tilegen.scopes import CLUSTER_AXES, COUNT_AXES, CTA_AXES
from tilegen.spec.buffer_models import BufferFields
from tilegen.spec.data import (
    ArriveStatement,
    Buffer,
    Call,
    CommitStatement,
    FollowStatement,
    LetStatement,
    Loop,
    Nest,
    RoleBlock,
    Spec,
    Statement,
    SyncStatement,
    WaitStatement,
    WhenStatement,
    WholeCall,
)
from tilegen.spec.launch_models import ParamFields
from tilegen.spec.pinning import spell
from tilegen.spec.program import Program
from tilegen.spec.spelling import spell_index
from tilegen.spec.tables import Read
from tilegen.spec.terms import BarrierTerms, RoleTerms, SlotName
from tilegen.spec.waits import word_of

_WIDTH = 120  # of a line; what is longer in braces is written on lines of its own


def print_spec(spec: Spec | Program) -> str:
    """The text of a spec, its notes as comments above it: loaded it is equal, and it builds to the same kernels.

    Ops are printed as their fields say, all else as the data says. Raises TypeError for a kind of statement that is
    not known here, ValueError for an expression that no spec can hold.

    >>> from tilegen.spec import load
    >>> text = "{kernel: k, threads: 8 * 4, ops: [{for: {i: 4, j: 2}, do: [sync: warp, {wait: 0, when: j < i}]}]}\\n"
    >>> print(print_spec(load(text, {})))
    kernel: k
    arch: sm_90
    threads: 32
    ops:
      - for: {i: 4, j: 2}
        do:
          - sync: warp
          - wait: 0
            when: j < i
    <BLANKLINE>
    """
    lines = _print_program(spec) if isinstance(spec, Program) else _print_kernel(spec)
    return "\n".join(lines) + "\n"


def _print_kernel(spec: Spec) -> Iterator[str]:
    yield from _print_notes(spec)
    yield from _print_title(spec, describe_arrays(spec)["params"])
    yield from _print_launch(spec)
    if spec.buffers:
        yield from _print_section("buffers", describe_arrays(spec)["buffers"], False)
    yield from _print_ops(spec.ops, "", "ops")


def _print_program(program: Program) -> Iterator[str]:
    """What the passes share, then each; counts of CTAs as ``rows.bx_count``."""
    yield from _print_title(program, _fields_of_params(program))
    known = {b.name: b for b in program.buffers}
    shared = _print_section("buffers", {b.name: _fields_of_buffer(b, known) for b in program.buffers}, False)
    yield from (_write_counts(line, program) for line in shared if program.buffers)
    yield "passes:"
    for one in program.passes:
        yield f"  - name: {spell(one.name)}"
        if one.when is not True:
            yield f"    when: {_spell_condition(one.when)}"
        own = {name: f for name, f in describe_arrays(one.spec)["buffers"].items() if name not in known}
        lines = [
            *_print_notes(one.spec),
            *_print_launch(one.spec),
            *(_print_section("buffers", own, False) if own else ()),
        ]
        lines += _print_ops(one.spec.ops, "", "ops")
        yield from (f"    {_write_counts(line, program)}" for line in lines)


def _write_counts(line: str, program: Program) -> str:
    for count in program.counts:
        axis = COUNT_AXES[count.axis]
        line = re.sub(rf"\b{count.param.name}\b", f"{count.owner}.{axis}", line)
    return line


def _spell_condition(when: Index) -> str:
    return str(when).lower() if isinstance(when, bool) else spell_index(when)


def _print_notes(spec: Spec) -> Iterator[str]:
    for note in spec.notes:
        yield from (f"# {line}" for line in textwrap.wrap(note, _WIDTH - 2))


def _print_title(spec: Spec | Program, params: Dict[str, Any]) -> Iterator[str]:
    yield f"kernel: {spell(spec.kernel)}"
    if spec.version:
        yield f"version: {spec.version}"
    yield f"arch: {spell(spec.arch)}"
    if params:
        yield from _print_section("params", params, is_short=not arguments(spec.params))


def _print_launch(spec: Spec) -> Iterator[str]:
    launched = {p.name: p.launched for p in spec.params if p.launched is not None}
    for name, axes, extents in (("grid", CTA_AXES, spec.grid), ("cluster", CLUSTER_AXES, spec.cluster)):
        said = {axis: _value_of(substitute(n, launched)) for axis, n in zip(axes, extents, strict=True) if n != 1}
        if said:
            yield from _print_section(name, said)
    if spec.cta_group > 1:
        yield f"cta_group: {spec.cta_group}"
    if spec.overlaps:
        yield "overlap: previous"
    if spec.roles:
        yield from _print_section("roles", {r.name: _fields_of_role(r) for r in spec.roles}, False)
    elif spec.threads:  # an op on whole arrays, not yet expanded, has none
        yield f"threads: {spec.threads}"
    if spec.barriers:
        yield from _print_section("barriers", {b.name: _fields_of_barrier(b) for b in spec.barriers}, False)
    if spec.ctas_per_sm:
        yield f"ctas_per_sm: {spec.ctas_per_sm}"


def describe_arrays(spec: Spec) -> dict[str, dict[str, Any]]:
    """The sections ``params`` and ``buffers`` of a spec, as a dict holds them."""
    known = {b.name: b for b in spec.buffers}
    return {"params": _fields_of_params(spec), "buffers": {b.name: _fields_of_buffer(b, known) for b in spec.buffers}}


def _fields_of_params(spec: Spec | Program) -> dict[str, Any]:
    constants = {c.name: {"choices": [*c.choices]} if c.choices else c.value for c in spec.constants}
    return constants | {p.name: _fields_of_param(p) for p in arguments(spec.params)}


def _fields_of_role(role: RoleTerms) -> dict[str, Any]:
    return {"threads": role.threads} | ({"registers": role.registers} if role.registers else {})


def _fields_of_barrier(barrier: BarrierTerms) -> dict[str, Any]:
    said = {"open": barrier.open, "pair": barrier.pair}
    return {"slots": barrier.slots} | {key: True for key, holds in said.items() if holds}


def _print_section(name: str, entries: Dict[str, Any], is_short: bool = True) -> Iterator[str]:
    """``name: {..}`` on one line where it is short, else an entry a line."""
    if is_short and len(line := f"{name}: {spell(entries)}") <= _WIDTH:
        yield line
        return
    yield f"{name}:"
    for key, value in entries.items():
        yield from _print_entry(key, value, "  ")


def _print_entry(key: str, value: Any, indent: str, lead: str = "") -> Iterator[str]:
    """``key: value``; a mapping that is too long for a line with a line for each of its own entries."""
    line = f"{indent}{lead}{spell(key)}: {spell(value)}"
    if len(line) <= _WIDTH or not isinstance(value, Dict):
        yield line
        return
    yield f"{indent}{lead}{spell(key)}:"
    for inner, one in value.items():
        yield f"{indent}{' ' * len(lead)}  {spell(inner)}: {spell(one)}"


def _value_of(x: Index) -> int | str:
    """A number or an expression as a value of YAML."""
    return x if isinstance(x, int) and x >= 0 else spell_index(x)


def _without_defaults(fields: Dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != model.model_fields[name].default}


# ---------------------------------------------------------------- params and buffers
def _fields_of_param(param: Param) -> dict[str, Any]:
    fields: dict[str, Any] = {"dtype": param.dtype, "default": param.default}
    if param.var is not None:
        fields |= {"multiple_of": param.var.step, "max": param.var.bound - 1}
    return _without_defaults(fields, ParamFields)


def _fields_of_buffer(buffer: Buffer, known: Dict[str, Buffer]) -> dict[str, Any]:
    shape = [_value_of(n) for n in buffer.shape]
    layout = {"layout": buffer.layout_text} if buffer.layout_text else {}
    if buffer.root == buffer.name:
        over = list(buffer.over) or None
        promised = _print_promise(buffer.values) if buffer.values else {}
        own = {
            "partial": buffer.partial,
            **promised,
            "distinct": buffer.is_distinct,
            "over": over,
            "align": buffer.align_bytes,
        }
        more = _without_defaults(own, BufferFields)
        return {"scope": buffer.scope, "dtype": buffer.dtype, "shape": shape} | layout | more
    other = known[buffer.parent or buffer.root]
    fields: dict[str, Any] = {"view": other.name}
    if buffer.axes:
        fields["axes"] = list(buffer.axes)
    elif buffer.shape != other.shape:
        fields["shape"] = shape
    if buffer.dtype != other.dtype:
        fields["dtype"] = buffer.dtype
    return fields if buffer.parent else fields | layout


def _print_promise(values: Values) -> dict[str, Any]:
    if values.pieces is not None:
        return {"offsets": _value_of(sub(values.places[1], 1))}
    return {"values": _print_values(values)}


def _print_values(values: Values) -> str:
    ends = [str(x) if isinstance(x, int | float) else spell_index(x) for x in (values.low, values.high)]
    return " : ".join([*ends, *([str(values.step)] if values.step > 1 else [])])


# ---------------------------------------------------------------- statements
def head_of(statement: Statement) -> str:
    """A statement's own line, without what stands inside of it; a condition in a line of its own is put behind.

    >>> from tilegen.spec import load
    >>> spec = load("{kernel: k, threads: 32, ops: [{for: {i: 4}, do: [{wait: 0, when: i < 2}]}]}\\n", {})
    >>> head_of(spec.ops[0]), head_of(spec.ops[0].body[0])
    ('for: {i: 4}', 'wait: 0 when: i < 2')
    """
    bare = replace(statement, body=()) if isinstance(statement, Nest) and not isinstance(statement, Loop) else statement
    if isinstance(statement, Loop):
        return f"for: {spell({statement.var.name: _range_of(statement)})}"
    lines = [line for line in _print_statement(bare, "") if not line.strip().startswith("do:")]
    return " ".join(line.removeprefix("- ").strip() for line in lines)


def _print_ops(statements: Sequence[Statement], indent: str, key: str) -> Iterator[str]:
    """``key``, and under it a list of statements."""
    if not statements:
        yield f"{indent}{key}: []"
        return
    yield f"{indent}{key}:"
    for statement in statements:
        yield from _print_statement(statement, f"{indent}  ")


def _print_statement(statement: Statement, indent: str) -> Iterator[str]:
    if isinstance(statement, (Call, WholeCall)):
        yield from _print_entry(statement.op, _fields_of_call(statement), indent, "- ")
    elif isinstance(statement, Loop):
        yield from _print_loop(statement, indent)
    elif isinstance(statement, LetStatement):
        yield from _print_entry("let", _spell_let(statement), indent, "- ")
    elif isinstance(statement, WhenStatement):
        yield from _print_simple({}, statement.when, indent, always=True)
        yield from _print_ops(statement.body, f"{indent}  ", "do")
    elif isinstance(statement, RoleBlock):
        yield f"{indent}- role: {spell(statement.role)}"
        yield from _print_ops(statement.body, f"{indent}  ", "do")
    elif isinstance(statement, ArriveStatement):
        yield from _print_arrive(statement, indent)
    elif isinstance(statement, SyncStatement):
        yield from _print_simple({"sync": list(statement.roles) or statement.scope}, statement.when, indent)
    elif isinstance(statement, CommitStatement):
        if statement.when is True and not statement.queue:
            yield f"{indent}- commit"
        else:
            yield from _print_simple({"commit": word_of(statement) or True}, statement.when, indent)
    elif isinstance(statement, FollowStatement):
        yield f"{indent}- wait: previous"
    elif isinstance(statement, WaitStatement):
        slot = statement.barrier
        word, pending = word_of(statement), statement.pending
        what = {"barrier": _spell_slot(slot)} if slot else {word: pending} if word else pending
        yield from _print_simple({"wait": what}, statement.when, indent)
    else:
        raise TypeError(f"spec/printing.py does not know {type(statement).__name__}")


def _spell_let(statement: LetStatement) -> dict[str, int | str]:
    """The names of a let and their values; an element that is a part of a value stands in it."""
    elements: dict[str, str] = {}
    said: dict[str, int | str] = {}
    for var, value in statement.entries:
        if not isinstance(value, Read):
            said[var.name] = _put_elements(_value_of(value), elements)
            continue
        at = (str(_put_elements(spell_index(x), elements)) for x in value.at)
        element = f"{value.array}[{', '.join(at)}]"
        (elements if value.is_inside else said)[var.name] = element
    return said


def _put_elements(text: int | str, elements: Dict[str, str]) -> int | str:
    if isinstance(text, int):
        return text
    return re.sub(r"[A-Za-z_]\w*", lambda word: elements.get(word[0], word[0]), text)


def _print_arrive(s: ArriveStatement, indent: str) -> Iterator[str]:
    """The scope is said only where it is narrower than all threads of the place."""
    fields: dict[str, Any] = {"barrier": _spell_slot(s.barrier)}
    if s.scope not in ("role", "cta") and not s.landed:
        fields["scope"] = s.scope
    if s.to:
        fields["to"] = s.to
    if s.when is not True:
        fields["when"] = s.when if isinstance(s.when, bool) else spell_index(s.when)
    yield from _print_entry("commit" if s.landed else "arrive", fields, indent, "- ")


def _print_simple(fields: dict[str, Any], when: Index, indent: str, always: bool = False) -> Iterator[str]:
    """One statement of a line, and a second line for its condition, if it has one or it is ``always`` said."""
    if when is not True or always:
        fields |= {"when": when if isinstance(when, bool) else spell_index(when)}
    for lead, (key, value) in zip(("- ", "  "), fields.items(), strict=False):
        yield f"{indent}{lead}{key}: {spell(value)}"


def _fields_of_call(call: Call | WholeCall) -> dict[str, Any]:
    """The fields of an op that are not as they are by default, its condition last."""
    declared = type(call.fields).model_fields
    said: dict[str, Any] = {}
    for name in sorted(declared, key=lambda name: name == "when"):
        value, default = getattr(call.fields, name), declared[name].default
        if value != default or type(value) is not type(default):
            said[declared[name].alias or name] = value
    return said


def _spell_slot(slot: SlotName) -> str:
    if slot.count is not None:
        return f"{slot.name}[{spell_index(Formula('%', (slot.count, slot.slots), slot.slots))}]"
    return slot.name if slot.index == 0 else f"{slot.name}[{spell_index(slot.index)}]"


def _print_loop(loop: Loop, indent: str) -> Iterator[str]:
    """A loop; loops that hold nothing but a loop share one ``for``."""
    nest = [loop]
    while len(nest[-1].body) == 1 and isinstance(inner := nest[-1].body[0], Loop) and inner.unroll == loop.unroll:
        nest.append(inner)
    yield f"{indent}- for: {spell({one.var.name: _range_of(one) for one in nest})}"
    if loop.unroll:
        yield f"{indent}  unroll: true"
    yield from _print_ops(nest[-1].body, f"{indent}  ", "do")


def _range_of(loop: Loop) -> Any:
    if loop.step != 1:
        return [_value_of(loop.start), _value_of(loop.stop), _value_of(loop.step)]
    return _value_of(loop.stop) if loop.start == 0 else [_value_of(loop.start), _value_of(loop.stop)]
