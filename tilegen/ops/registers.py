"""Blocks that touch register tensors: between a memory and registers, between two tensors owned alike, and fills."""

from __future__ import annotations

from tilegen.decisions import Choice
from tilegen.index import Index, Var, add, mul, multiple
from tilegen.index.runs import counter
from tilegen.ops.digits import split_number
from tilegen.ops.edges import allows_run, load_access, may_cut, may_pass_end, see_access, store_access
from tilegen.ops.formals import Formals
from tilegen.ops.op import Planned, plan_one
from tilegen.ops.operand import Context, Operand, Refused, ref_at
from tilegen.ops.ownership import Ownership, guard_held, own
from tilegen.ops.pins import NotHad, choose, say_known
from tilegen.ops.thread_loop import over
from tilegen.plan import FILL, Block, Instruction, Map, Move, Step, when
from tilegen.spec.data import Call

_OWNED = "the elements that the register layout gives to one thread"


def plan_transfer(
    context: Context, call: Call, register: Operand, other: Operand, loads: bool, pinned: tuple[int, int] | None = None
) -> Planned:
    """Registers from memory (``loads``) or to it, in the partition that the register layout induces.

    ``pinned``: elements of a load and of a store, which are one access here. Raises NotHad if it is none of them.
    """
    owned = own(context, register, [other])
    widest = widest_access(owned, other)
    widths = [1 << k for k in range(widest.bit_length())]
    if pinned and pinned not in [(w, w) for w in widths]:
        raise NotHad("width", f"both sides allow accesses of {say_known(widths)} elements", widths)
    size = register.elem_bytes
    chosen = choose(
        context, reversed(widths), lambda w: _transfer_block(context, call, owned, other, loads, w),
        lambda w: pinned in (None, (w, w)), lambda w: {"elems": w, "bytes": w * size},
    )  # fmt: skip
    width = chosen.value
    rule = "powers of two, contiguous in registers and in memory, aligned for every thread and step, at most 16 bytes"
    why = "the widest that both sides allow" if width == widest else f"the cheapest of {len(widths)}, all costed"
    why = chosen.why_pinned or why
    choices = (
        Choice("vector_width", {"elems": width, "bytes": width * size}, chosen.candidates, f"{why}; {rule}"),
        Choice("registers_per_thread", owned.count, (), _OWNED),
        Choice("outer", owned.count // width, (), "registers per thread / vector elements"),
    )
    return Planned((chosen.block,), chosen.cost, choices, (("width", width),), counted=chosen.counted)


def widest_access(owned: Ownership, other: Operand) -> int:
    """The widest power of two of elements that each owner's registers, in order, move to or from memory at once."""
    width = 1
    while _allows(owned, other, width * 2):
        width *= 2
    return width


def _allows(owned: Ownership, other: Operand, width: int) -> bool:
    """Is every group of ``width`` registers, taken in order, one aligned access?"""
    digit = owned.innermost
    if digit.strides[0] != 1 or digit.extent % width or multiple(owned.base) % width:
        return False
    if not owned.keeps_together(width):
        return False
    at, slot = owned.element(owned.number(width))
    return multiple(slot) % width == 0 and allows_run(other, ref_at(other, at), width, digit, 1)


def _transfer_block(context: Context, call: Call, owned: Ownership, other: Operand, loads: bool, width: int) -> Block:
    number = owned.number(width)
    e = Var(context.fresh("e"), width) if may_cut(other, width, owned.innermost) else None
    own_names = owned.names | {context.fresh("e")}
    is_guarded = may_pass_end(other) or bool(owned.limits)
    flat, guarded = (True, not is_guarded), (False, is_guarded)
    formals = Formals((owned.operand, other), flat, call.scope, own_names, guarded)
    one = see_access(
        width, lambda k: guard_held(owned, other, owned.element(add(number, k))[0]),
        lambda k: formals.see(1, ref_at(other, owned.element(add(number, k))[0])), e, other,
    )  # fmt: skip
    move = load_access if loads else store_access
    moves = move(one, lambda k: formals.see(0, owned.operand.memory[owned.element(add(number, k))[1]]))
    body = owned.guard(over(counter(owned.step, owned.count // width), moves), stores=not loads)
    return formals.block(_name("copy", call), body, context.op)


def _walk_held(owned: Ownership, step: Step) -> tuple[Step, ...]:
    """``step`` for each element that a thread has of the region."""
    at, _ = owned.element(owned.number())
    return over(owned.number(), when(owned.holds(at), step))


def plan_convert(context: Context, call: Call, src: Operand, dst: Operand, fn: Instruction | None = None) -> Planned:
    """Registers to registers that the same threads own, through a function of them or as they are."""
    owned = own(context, dst, [src])
    source = own(context, src, [dst])
    _check_alike(owned, source, dst, src)
    _, slot = owned.element(owned.number())
    formals = Formals((dst, src), (True, True), call.scope, owned.names)
    to, from_ = formals.see(0, dst.memory[slot]), formals.see(1, src.memory[_source_slot(owned, source)])
    step: Step = Map(fn, to, (from_,)) if fn else Move(to, from_)
    name = _name(fn.name if fn else "copy", call)
    block = formals.block(name, owned.guard(_walk_held(owned, step)), context.op)
    choice = Choice("registers_per_thread", owned.count, (), "both tensors give every thread the same elements")
    return plan_one(context, block, (choice,))


def _source_slot(owned: Ownership, source: Ownership) -> Index:
    """The source's register of the element that ``owned`` walks: its own strides over the same digits."""
    slot = source.base
    extents = [owned.digits[k].extent for k in owned.walked]
    for k, value in zip(owned.walked, split_number(owned.number(), extents), strict=True):
        slot = add(slot, mul(value, owned.digits[k].strides[1] or 0))
    return slot


def _check_alike(a: Ownership, b: Ownership, dst: Operand, src: Operand) -> None:
    for d in a.digits:
        if d.axes[0] != d.axes[1] or (d.axes[0] != "m" and d.strides[0] != d.strides[1]):
            raise Refused(
                f"{src.region.text} and {dst.region.text} are owned by different threads"
                f" ({src.buffer.layout} against {dst.buffer.layout})"
            )
    if (a.enter, a.held, a.limits) != (b.enter, b.held, b.limits):
        raise Refused(f"{src.region.text} and {dst.region.text} are held by different threads")


def plan_register_fill(context: Context, call: Call, dst: Operand, value: float | int | bool) -> Planned:
    """Every register of the region set to a value by the threads that own it (and hold copies of it)."""
    owned = own(context, dst, [])
    _, slot = owned.element(owned.number())
    formals = Formals((dst,), (True,), call.scope, owned.names)
    step = Map(FILL, formals.see(0, dst.memory[slot]), (), 1, value)
    block = formals.block(_name("fill", call), owned.guard(over(owned.number(), (step,))), context.op)
    choice = Choice("registers_per_thread", owned.count, (), _OWNED)
    return plan_one(context, block, (choice,))


def _name(verb: str, call: Call) -> str:
    verb = f"{call.accumulates}_{verb}" if call.accumulates else verb
    return "_".join([verb, *(r.buffer.name for r in (*call.sources, *call.written))])
