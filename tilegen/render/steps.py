"""Steps as C, each through its macro. A block becomes a call of a function that the page defines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tilegen.dtypes import DTYPES, DType
from tilegen.index import Formula, Index, Var, add, to_c, variables
from tilegen.plan import (
    BYTE_PERMUTE,
    CAST,
    FILL,
    MOVE,
    PRODUCTS,
    QUEUES,
    TENSOR,
    Arrive,
    Await,
    Block,
    Commit,
    Compute,
    Fence,
    Fetch,
    Follow,
    Instruction,
    Let,
    Map,
    Mma,
    Move,
    Peers,
    Pick,
    Ref,
    Repeat,
    Shuffle,
    Slot,
    Stamp,
    Step,
    Sync,
    TensorCopy,
    TensorFence,
    TensorMma,
    Tma,
    UnknownStep,
    Wait,
    Wgmma,
    When,
    effects,
    flatten,
    matrices,
)
from tilegen.plan.instructions import THREAD
from tilegen.render.c_text import (
    argument,
    comment_lines,
    element,
    int_type,
    is_zero,
    literal,
    parameter,
    spell_condition,
    with_note,
    zero_of,
)
from tilegen.render.casts import cast_text
from tilegen.render.formulas import render_tree
from tilegen.render.ladders import Ladder, fold_ladders, name_fold
from tilegen.render.loops import Counter, find_counter
from tilegen.render.names import axis_index, free_names, fresh, held_registers, written_names
from tilegen.render.page import Page, define, rank
from tilegen.render.products import (
    find_loaded,
    keep_loaded,
    keep_words,
    write_operand,
    write_product,
    write_tensor_copy,
    write_tensor_product,
    write_wait,
)
from tilegen.render.stamps import write_stamp
from tilegen.render.updates import render_update
from tilegen.scopes import SCOPES

WARPGROUP_THREADS = SCOPES["warpgroup"].threads
_WORD = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}  # C types to copy bits with
_VECTORS = {"float32": {8: "float2", 16: "float4"}, "float64": {16: "double2"}}  # of elements that C has vectors of


def render_steps(page: Page, steps: Iterable[Step], noted: bool = False) -> str:
    """Steps in order. ``noted``: calls say which operation they carry out."""
    return "\n".join(_render_step(page, step, noted).strip("\n") for step in steps)


def _render_step(page: Page, step: Step | Ladder, noted: bool) -> str:
    """One step through its macro. Raises UnknownStep for a kind of step that has no text."""
    if isinstance(step, Ladder):
        return _render_ladder(page, step)
    text = TEXTS.get(type(step))
    if text is None:
        raise UnknownStep("the renderer", step)
    return str(text(page, step, noted))


def _render_repeat(page: Page, step: Repeat, noted: bool) -> str:
    unroll = "unroll" if step.unroll else "unroll 1" if _holds_wait(step) else ""
    counter = find_counter(step, page.part.threads)
    if counter is None:
        counter, body = Counter(step.var, 0, step.count, 1), step.body
    else:
        body = step.body[1:]
    name, start = counter.var.name, to_c(counter.start)
    condition = to_c(Formula("<", (counter.var, counter.stop), 2))
    advance = f"++{name}" if counter.step == 1 else f"{name} += {to_c(counter.step)}"
    text = render_steps(page, body, noted)
    return str(page.steps.repeat(f"{int_type(counter.var)} {name} = {start}", condition, advance, unroll, text))


def _holds_wait(step: Repeat) -> bool:
    """Does the loop wait for copies, or start TMA's? Copies of its body would gain nothing, and take registers."""
    return any(isinstance(s, Wait | Await | Tma) for s in flatten(step.body))


def _render_sync(page: Page, step: Sync, noted: bool) -> str:
    """The meeting; named barriers of the CTA are the warpgroups', then the roles', then those of several roles."""
    if step.roles:
        barrier, threads = page.meeting_of(step.roles)
        return str(page.steps.sync(step.scope, "", barrier, threads))
    warpgroup = to_c(add(axis_index("wgid", page.part.threads), page.part.first // WARPGROUP_THREADS))
    return str(page.steps.sync(step.scope, warpgroup, page.part.barrier, page.part.threads))


# ---------------------------------------------------------------- instructions
def _render_instruction(page: Page, step: Move | Map | Mma | Tma, noted: bool) -> str:
    """A data step as its row says: C of its own, or a call of the prelude."""
    row = effects(step).instruction
    assert row is not None
    if row.function and isinstance(step, Move):
        return render_update(page, step)
    if row.prelude:
        return _render_prelude_call(page, step, row)
    if isinstance(step, Map):
        return _render_map(page, step)
    if row is not MOVE or not isinstance(step, Move):
        raise UnknownStep("the renderer", row)
    return _render_move(page, step)


def _render_prelude_call(page: Page, step: Move | Map | Mma | Tma, row: Instruction) -> str:
    """A call of the row's function: its operands in their order, then conditions, coordinates and mbarriers."""
    touched = effects(step)
    helper = row.prelude.format(**_blanks(step))
    if isinstance(step, Tma) and step.function:
        helper = page.use_as(f"{row.prelude}_{len(step.at)}d", row.prelude, len(step.at))
    if isinstance(step, Tma) and step.rank is not None:
        assert page.plan.cta_group == 2, "a load reports to the other CTA of a pair, and the plan has none"
        helper = page.use_as(f"{helper}_pair", "tma_load", len(step.at), 2)
    args = [write_operand(getattr(step, o.field), o, step) for o in row.operands]
    args += [to_c(x) for x in reversed(step.at)] if isinstance(step, Tma) else []  # the innermost first
    args += [to_c(t.where) for t in touched.read if isinstance(step, Move) and t.lies == THREAD and t.where is not True]
    args += [_slot(slot) for slot in touched.slots]
    args += [_mask(step.peers)] if isinstance(step, Tma) and step.peers else []
    args += [to_c(step.rank)] if isinstance(step, Tma) and step.rank is not None else []
    return str(page.steps.instruction(helper, args))


def _blanks(step: Move | Map | Mma | Tma) -> dict[str, object]:
    """What a step fills into the name of its row's function."""
    if isinstance(step, Tma):
        return {"rank": len(step.at)}
    if isinstance(step, Mma):
        return {}
    if isinstance(step, Map):
        return {"bytes": step.elems * step.dst.memory.elem_bytes}
    valid, bytes_ = "" if step.valid is True else "_or_zero", step.elems * step.dst.memory.elem_bytes
    return {"bytes": bytes_, "count": matrices(step) or bytes_ // 4, "or_zero": valid}


def _render_move(page: Page, move: Move) -> str:
    dst, src = DTYPES[move.dst.memory.dtype], DTYPES[move.src.memory.dtype]
    assert dst.bytes == src.bytes, f"a move of {src.name} to {dst.name} changes the size of an element"
    bytes_ = move.elems * dst.bytes
    streams = [side for side, ref in (("src", move.src), ("dst", move.dst)) if ref.memory.cache == "stream"]
    plain = move.elems == 1 and (dst == src or _hold_bits(dst, src)) and not streams
    vectors = _VECTORS.get(dst.name, {}) if dst == src and not streams else {}
    word = "" if plain else vectors.get(bytes_, _WORD[bytes_])
    valid = "" if move.valid is True else spell_condition(move.valid)
    valid = f"({valid})" if isinstance(move.valid, Formula) else valid
    zero = zero_of(dst) if plain else f"{word}{{}}" if word[-1].isdigit() else "0"
    load = "load_stream_after" if page.plan.overlaps else "load_stream"  # arrays may be written until its wait
    return str(page.steps.move(element(move.dst), element(move.src), word, valid, zero, streams, bytes_, load))


def _mask(peers: Peers) -> str:
    """The CTAs of a cluster by their ranks, a bit for each."""
    if is_zero(peers.first):
        return str(peers.bits)
    first = to_c(peers.first)
    return f"{peers.bits} << {first if isinstance(peers.first, Var) else f'({first})'}"


def _render_arrive(page: Page, step: Arrive, noted: bool) -> str:
    """A call of the function that arrives so: at once or by itself, at the own CTA's mbarrier or at others'."""
    helper, args = "mbarrier_arrive", [_slot(step.slot)]
    if step.peers and step.landed != TENSOR:
        raise UnknownStep("the renderer", step)
    if step.landed:
        helper = QUEUES[step.landed].arrive
        if step.peers:
            helper, args = f"{helper}_to", [*args, _mask(step.peers)]
        helper = page.use_tensor(helper) if step.landed == TENSOR else helper
    elif step.rank is not None:
        helper = f"mbarrier_arrive_peer{'_released' if step.slot.barrier.order == 'cluster' else ''}"
        args.append(to_c(step.rank))
    elif step.bytes:
        helper, args = "mbarrier_expect", [*args, str(step.bytes)]
    return str(page.steps.instruction(helper, args))


def _slot(slot: Slot) -> str:
    """A pointer to an mbarrier."""
    return slot.barrier.name if is_zero(slot.at) else f"&{slot.barrier.name}[{to_c(slot.at)}]"


def _hold_bits(*dtypes: DType) -> bool:
    """All are names of C's unsigned type of their size."""
    return all(d.typedef or d.kind == "uint" for d in dtypes)


def _render_map(page: Page, step: Map) -> str:
    """A function of registers, as a loop over its elements; of whole words, as a macro of its own has it."""
    if step.fn.widths_bytes:
        words = [element(r) for r in (step.dst, *step.srcs)]
        return str(getattr(page.steps, step.fn.name)(*words, f"0x{step.value:04x}"))
    refs = (step.dst, *step.srcs)
    names = {v.name for r in refs for v in variables(r.offset)} | {r.memory.name for r in refs}
    e = fresh("e", names) if step.elems > 1 else ""
    at: Index = Var(e, step.elems) if e else 0
    dst, *srcs = (element(Ref(r.memory, (*r.at[:-1], add(r.at[-1], at)))) for r in refs)
    value, note = _value_of(page, step, srcs)
    return str(page.steps.map(dst, value, e, step.elems, note))


def _value_of(page: Page, step: Map, srcs: list[str]) -> tuple[str, str]:
    """The C text of a function's result, and what to say beside it."""
    if step.fn.c:
        return step.fn.c.format(*srcs), ""
    if step.fn.name not in FUNCTIONS:
        raise UnknownStep("the renderer", step.fn)
    return FUNCTIONS[step.fn.name](page, step, srcs)


def _fill(page: Page, value: Any, dtype: str) -> tuple[str, str]:
    """A literal, but for a zero of a condition that the compiler must not see."""
    if dtype == "float64" and page.is_conditional and page.hides(value):
        return f"{page.use('hidden_zero')}()", ""
    return literal(value, dtype)


def _render_compute(page: Page, step: Compute, noted: bool) -> str:
    """One assignment: the tree over the texts of its operands."""
    wholes = [to_c(x) if isinstance(x, (int, Var)) else f"({to_c(x)})" for x in step.wholes]
    text = render_tree(page, step.tree, [element(r) for r in step.srcs], wholes, step.dst.memory.dtype)
    return str(page.steps.assign(element(step.dst), text))


def _shuffled_word(step: Shuffle) -> str:
    """The type of C that a shuffle takes several elements as, or one that C has no shuffle for."""
    dtype = DTYPES[step.dst.memory.dtype]
    is_known = step.way == "xor" or dtype.c in ("float", "double", "int", "unsigned")
    return "" if step.elems == 1 and is_known else {4: "unsigned", 8: "unsigned long long"}[step.elems * dtype.bytes]


def _shuffled_lane(step: Shuffle) -> tuple[str, str]:
    """The end of the name of CUDA's function, and the lane that it takes: of a number, its rest by 32 (CUDA C++
    Programming Guide, Warp Shuffle Functions)."""
    if step.way not in ("set", "clear"):
        return f"_{step.way}", str(step.lanes)
    if step.lanes == SCOPES["warp"].threads - 1:
        return "", str(step.lanes if step.way == "set" else 0)
    return "", f"threadIdx.x | {step.lanes}" if step.way == "set" else f"threadIdx.x & ~{step.lanes}"


def _render_fetch(page: Page, step: Fetch, noted: bool) -> str:
    """An element as an integer of the kernel's; where it is not read another value stands for it."""
    kind, text = int_type(step.test.raw if step.test else step.var), element(step.src)
    if step.where is not True:
        text = f"{to_c(step.where)} ? ({kind}){text} : {to_c(step.otherwise)}"
    if step.test is None:
        return str(page.steps.let(kind, step.var.name, text))
    t, own = step.test, int_type(step.var)
    names = t.raw.name, t.kept.name, step.var.name
    return str(page.steps.tested_fetch(names, (kind, own), text, to_c(t.holds), to_c(t.instead)))


def _render_pick(page: Page, step: Pick, noted: bool) -> str:
    """An integer of the kernel's that a register has."""
    kind = int_type(step.var)
    cast = "" if kind == DTYPES[step.src.memory.dtype].c else f"({kind})"
    return str(page.steps.let(kind, step.var.name, cast + element(step.src)))


def _render_when(page: Page, step: When, noted: bool) -> str:
    around, page.is_conditional = page.is_conditional, True
    body = render_steps(page, step.body, noted)
    page.is_conditional = around
    return str(page.steps.when(spell_condition(step.condition), body))


def _render_block(page: Page, block: Block, noted: bool) -> str:
    formals = [f for f, _ in block.args]
    own = {f.name for f in (*formals, *block.registers)}
    captured = [x for n, x in free_names(block.body, page.part.threads).items() if n not in own]
    captured = sorted(captured, key=partial(rank, page.plan))
    written = written_names(block.body)
    folded = fold_ladders(block)
    around = page.multiplied, page.loaded, page.constant
    page.multiplied, page.loaded = held_registers(block.body, PRODUCTS), find_loaded(block, page.loaded)
    page.constant = frozenset(m.name for m in (*page.multiplied, *page.loaded)) - written
    signature = (tuple(parameter(x, written) for x in (*captured, *formals)), tuple(map(with_note, folded.registers)),
                 render_steps(page, folded.body))  # fmt: skip
    page.multiplied, page.loaded, page.constant = around
    name = define(page, block.name, signature, block.note)
    args = [*(x.name for x in captured), *(argument(f, a, written) for f, a in block.args)]
    text = page.plan.operations[block.op].text if noted and 0 <= block.op < len(page.plan.operations) else ""
    call = str(page.steps.call(name, args, " ".join(comment_lines(text))))
    return call + keep_loaded(page, block)


def _render_ladder(page: Page, step: Ladder) -> str:
    """A call of the function that the page has for these lanes."""
    name, fold = name_fold(page, step)
    own = element(step.into)
    return str(page.steps.assign(own, f"{define(page, name, fold, fold.note)}({own})"))


# Functions of registers whose text a template or Python has; those with ``c`` in their row need none.
FUNCTIONS: dict[str, Callable[[Page, Map, list[str]], tuple[str, str]]] = {
    FILL.name: lambda page, step, srcs: _fill(page, step.value, step.dst.memory.dtype),
    CAST.name: lambda page, step, srcs: (
        cast_text(page, srcs[0], step.srcs[0].memory.dtype, step.dst.memory.dtype), ""
    ),
    BYTE_PERMUTE.name: lambda page, step, srcs: ("", ""),  # whole words: its own macro
}  # fmt: skip
TEXTS: dict[type, Callable[[Page, Any, bool], str]] = {
    Let: lambda page, step, noted: page.steps.let(int_type(step.var), step.var.name, to_c(step.value)),
    Fetch: _render_fetch,
    Pick: _render_pick,
    Repeat: _render_repeat,
    When: _render_when,
    Block: _render_block,
    Move: _render_instruction,
    Map: _render_instruction,
    Mma: _render_instruction,
    Wgmma: write_product,
    TensorMma: write_tensor_product,
    TensorCopy: write_tensor_copy,
    Tma: _render_instruction,
    Compute: _render_compute,
    Shuffle: lambda page, step, noted: page.steps.shuffle(
        element(step.dst), element(step.src), *_shuffled_lane(step), _shuffled_word(step)
    ),
    Sync: _render_sync,
    Fence: lambda page, step, noted: page.steps.fence(keep_words(page, page.multiplied)),
    TensorFence: lambda page, step, noted: page.steps.commit(f"tmem_fence_{step.side}"),
    Commit: lambda page, step, noted: page.steps.commit(QUEUES[step.queue].commit),
    Wait: write_wait,
    Follow: lambda page, step, noted: page.steps.follow(),
    Arrive: _render_arrive,
    Await: lambda page, step, noted: page.steps.await_phase(
        _slot(step.slot), to_c(step.parity), step.slot.barrier.order
    ),
    Stamp: write_stamp,
}
