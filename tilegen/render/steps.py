"""Steps as C, each through its macro. A block becomes a call of a function that the page defines."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tilegen.dtypes import DTYPES, DType
from tilegen.index import Index, Op, Var, add, to_c, variables
from tilegen.plan import (
    Arrive,
    Await,
    Block,
    Commit,
    Let,
    Map,
    Move,
    Ref,
    Repeat,
    Slot,
    Step,
    Sync,
    Tma,
    Wait,
    When,
    matrices,
)  # fmt: skip
from tilegen.render.addresses import element, is_zero, pointer
from tilegen.render.declarations import argument, int_type, parameter
from tilegen.render.functions import define, rank
from tilegen.render.lines import comment_lines, with_note
from tilegen.render.literals import COMPLEX_PART, literal, zero_of
from tilegen.render.names import free_names, fresh, refs_of, written_names
from tilegen.render.page import Page

_WORD = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}  # C types to copy bits with


def render_steps(page: Page, steps: Iterable[Step], noted: bool = False) -> str:
    """Steps in order. ``noted``: calls say which operation they carry out."""
    return "\n".join(_render_step(page, step, noted).strip("\n") for step in steps)


def _render_step(page: Page, step: Step, noted: bool) -> str:
    """One step through its macro."""
    macros = page.steps
    body = partial(render_steps, page, getattr(step, "body", ()), noted)
    match step:
        case Let(var, value):
            return str(macros.let(int_type(var), var.name, to_c(value)))
        case Repeat(var, n, unroll=unroll):
            return str(macros.repeat(int_type(var), var.name, to_c(Op("<", (var, n), 2)), unroll, body()))
        case When(condition):
            return str(macros.when(to_c(condition), body()))
        case Block():
            return _render_call(page, step, noted)
        case Move():
            return _render_move(page, step)
        case Map():
            return _render_map(page, step)
        case Sync(scope):
            return str(macros.sync(scope, to_c(page.wgid)))
        case Commit(queue):
            return str(macros.commit(queue))
        case Wait(queue, pending):
            return str(macros.wait(queue, pending))
        case Tma():
            return _render_tma(page, step)
        case Arrive(slot, announced):
            return str(macros.arrive(_slot(slot), announced))
        case Await(slot, parity):
            return str(macros.await_phase(_slot(slot), to_c(parity)))


def _render_move(page: Page, move: Move) -> str:
    if matrices(move):
        return _render_matrices(page, move)
    dst, src = DTYPES[move.dst.memory.dtype], DTYPES[move.src.memory.dtype]
    assert dst.bytes == src.bytes, f"a move of {src.name} to {dst.name} changes the size of an element"
    bytes_ = move.elems * dst.bytes
    if move.via == "cp.async":
        inside = "" if move.valid is True else to_c(move.valid)
        return str(page.steps.cp_async(pointer(move.dst), pointer(move.src), bytes_, inside))
    streams = [side for side, ref in (("src", move.src), ("dst", move.dst)) if ref.memory.cache == "stream"]
    plain = move.elems == 1 and (dst == src or _hold_bits(dst, src)) and not streams
    word = "" if plain else _WORD[bytes_]
    valid = "" if move.valid is True else f"({to_c(move.valid)})" if isinstance(move.valid, Op) else to_c(move.valid)
    zero = zero_of(dst) if plain else f"{word}{{}}" if word.startswith("uint") else "0"
    return str(page.steps.move(element(move.dst), element(move.src), word, valid, zero, streams, bytes_))


def _render_matrices(page: Page, move: Move) -> str:
    """A call of the intrinsic: the registers as 32-bit words, and the row whose address this lane gives."""
    kind, _, trans = move.via.partition(".")
    register, row = (move.dst, move.src) if kind == "ldmatrix" else (move.src, move.dst)
    name = f"{kind}_x{matrices(move)}{'_trans' if trans else ''}"
    return str(page.steps.matrices(name, element(register), element(row), kind == "ldmatrix"))


def _render_tma(page: Page, step: Tma) -> str:
    coordinates = [to_c(x) for x in reversed(step.at)]  # the innermost first
    slot = _slot(step.done) if step.done else ""
    return str(page.steps.tma(pointer(step.shared), step.map.name, coordinates, slot))


def _slot(slot: Slot) -> str:
    """A pointer to an mbarrier."""
    return slot.barrier.name if is_zero(slot.at) else f"&{slot.barrier.name}[{to_c(slot.at)}]"


def _hold_bits(*dtypes: DType) -> bool:
    """All are names of C's unsigned type of their size."""
    return all(d.typedef or d.kind == "uint" for d in dtypes)


def _render_map(page: Page, step: Map) -> str:
    if step.fn == "byte_permute":
        dst, first, second = (element(r) for r in (step.dst, *step.srcs))
        return str(page.steps.byte_permute(dst, first, second, f"0x{step.value:04x}"))
    names = {v.name for r in refs_of(step) for v in variables(r.offset)} | {r.memory.name for r in refs_of(step)}
    e = fresh("e", names) if step.elems > 1 else ""
    at: Index = Var(e, step.elems) if e else 0
    dst, *srcs = (element(Ref(r.memory, (*r.at[:-1], add(r.at[-1], at)))) for r in refs_of(step))
    if step.fn == "fill":
        value, note = literal(step.value, step.dst.memory.dtype)
    else:
        assert step.fn == "cast", f"no map {step.fn}"
        value, note = _cast(page, srcs[0], step.srcs[0].memory.dtype, step.dst.memory.dtype), ""
    return str(page.steps.map(dst, value, e, step.elems, note))


def _cast(page: Page, x: str, src: str, dst: str) -> str:
    """The value of ``x``, of element type ``src``, as ``dst``: what NumPy and ml_dtypes give.

    Undefined there and here: a float beyond an integer type's range. Different here: a NaN stays a NaN, but its sign
    and payload may change.
    """
    parts = (COMPLEX_PART.get(src), COMPLEX_PART.get(dst))
    return str(page.macros("casts.cu.j2").cast(x, DTYPES[src], DTYPES[dst], *parts)).strip("\n")


def _render_call(page: Page, block: Block, noted: bool) -> str:
    formals = [f for f, _ in block.args]
    own = {f.name for f in (*formals, *block.registers)}
    captured = [x for n, x in free_names(block.body, page.wgid).items() if n not in own]
    captured = sorted(captured, key=partial(rank, page.plan))
    written = written_names(block.body)
    signature = (tuple(parameter(x, written) for x in (*captured, *formals)), tuple(map(with_note, block.registers)),
                 render_steps(page, block.body))  # fmt: skip
    name = define(page, block.name, signature, block.note)
    args = [*(x.name for x in captured), *(argument(f, a, written) for f, a in block.args)]
    text = page.plan.operations[block.op].text if noted and 0 <= block.op < len(page.plan.operations) else ""
    return str(page.steps.call(name, args, " ".join(comment_lines(text))))
