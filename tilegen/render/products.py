"""Products of matrices that run by themselves: the calls that start them, descriptors, what is waited for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilegen.dtypes import DTYPES
from tilegen.index import div, multiple, to_c
from tilegen.ops.tensor_instruction import describe_instruction
from tilegen.plan import (
    PRODUCTS,
    QUEUES,
    TENSOR_LOADS,
    Block,
    MatrixDescriptor,
    Memory,
    OperandForm,
    Ref,
    Step,
    TensorCopy,
    TensorMma,
    Tma,
    Wait,
    Wgmma,
    effects,
    flatten,
    subscript,
)
from tilegen.plan.descriptors import CHUNK_BYTES, TCGEN05
from tilegen.plan.instructions import BOX, READS
from tilegen.render.c_text import element, elems_of, is_zero, pointer
from tilegen.render.names import held_registers
from tilegen.render.page import Page


def write_operand(place: Any, operand: OperandForm, step: Step) -> str:
    """Registers as the words that the row names, memory as a pointer, an array that a descriptor describes as that."""
    if operand.lies == BOX and not isinstance(place, Ref):
        assert isinstance(step, Tma)
        return f"&{step.map.name}"
    if not place.memory.traits.is_held:
        return pointer(place)
    if DTYPES[place.memory.dtype].c == operand.word:
        return pointer(place)
    return f"({'const ' if operand.use == READS else ''}{operand.word} *)&{element(place)}"


def write_product(page: Page, step: Wgmma, noted: bool) -> str:
    """A call of the function for this N and for how a and b lie."""
    forms = "registers" if step.a_lies is None else step.a_lies.along, step.b_lies.along
    n, suffix = step.b_lies.rows, _FORMS[forms[0], "a"] + _FORMS[forms[1], "b"]
    name = page.use_as(step.via.prelude.replace("nN", f"n{n}") + suffix, step.via.prelude, n, *forms)
    lies = {"a": step.a_lies, "b": step.b_lies}
    args = []
    for o in step.via.operands:
        place, matrix = getattr(step, o.field), lies.get(o.field)
        args.append(write_operand(place, o, step) if matrix is None else _write_descriptor(page, place, matrix))
    return str(page.steps.instruction(name, [*args, to_c(step.accumulate)]))


# What the name of a product's function says of its operands: those in shared memory along K are the plain ones.
_FORMS = {("k", "a"): "", ("k", "b"): "", ("mn", "a"): "_am", ("mn", "b"): "_bn", ("registers", "a"): "_ar"}


def write_tensor_product(page: Page, step: TensorMma, noted: bool) -> str:
    """A call of the function of this kind, with the instruction's descriptor as a number, and in words."""
    lies, args = {"a": step.a_lies, "b": step.b_lies}, []
    for o in step.via.operands:
        place, matrix = getattr(step, o.field), lies.get(o.field)
        args.append(pointer(place) if matrix is None else _write_descriptor(page, place, matrix))
    places, args = args[:3], args[3:]  # c, a and b; of factors
    shape, sums, *types = step.atom.split(".")[-4:]
    majors = [
        f", {x} along {'M' if x == 'a' else 'N'}" for x, matrix in lies.items() if matrix and matrix.along == "mn"
    ]
    note = f"{shape}, {sums} of {' and '.join(types)}{''.join(majors)}"
    note += f", byte {step.factor} of factors" if args else ""
    assert step.ctas == page.plan.cta_group, f"{step.atom} in a plan of {page.plan.cta_group} CTAs"
    args = [*places, f"0x{describe_instruction(step).encode():08x}u", *args, to_c(step.accumulate)]
    return str(page.steps.instruction(page.use_tensor(step.via.prelude), args, note))


def write_tensor_copy(page: Page, step: TensorCopy, noted: bool) -> str:
    """A call of the function of this shape."""
    args = [pointer(step.dst), _write_descriptor(page, step.src, step.src_lies)]
    return str(page.steps.instruction(page.use_tensor(step.via.prelude), args))


def _write_descriptor(page: Page, place: Ref, matrix: MatrixDescriptor) -> str:
    """The descriptor of a matrix that starts at a place; one of the whole memory, and 16 bytes on for each 1 added."""
    helper = page.use("tcgen05_descriptor" if matrix.engine == TCGEN05 else "matrix_descriptor")
    parts = [matrix.leading_bytes, matrix.stride_bytes, matrix.swizzle_bytes]
    parts += [matrix.chunk_bytes] if matrix.chunk_bytes != CHUNK_BYTES else []
    call = f"{helper}<{', '.join(map(str, parts))}>"
    at, each = subscript(place), CHUNK_BYTES // place.memory.elem_bytes
    if is_zero(at) or each < 1 or multiple(at) % each:
        return f"{call}({pointer(place)})"
    return f"{call}({place.memory.name}) + {to_c(div(at, each))}"


def keep_words(page: Page, memories: Iterable[Memory]) -> list[tuple[str, int]]:
    """Arrays of registers as words, and how many each has."""
    held = []
    for m in memories:
        c, words = DTYPES[m.dtype].c, elems_of(m) * m.elem_bytes // 4
        word = c if c in ("float", "int", "unsigned") else "unsigned"
        is_word = word == c and m.name not in page.constant
        held.append((m.name if is_word else f"({word} *){m.name}", words))
    return held


def write_wait(page: Page, step: Wait, noted: bool) -> str:
    """A wait for a queue; the compiler moves no use of the registers that its instructions write before it."""
    kept = {PRODUCTS: page.multiplied, TENSOR_LOADS: page.loaded}.get(step.queue, ())
    pending = None if QUEUES[step.queue].together == "warp" else step.pending
    assert pending is not None or not step.pending, f"{step.queue} is waited for as a whole"
    return str(page.steps.wait(QUEUES[step.queue].wait, pending, keep_words(page, kept)))


def find_loaded(block: Block, around: Iterable[Memory]) -> tuple[Memory, ...]:
    """Registers that tensor memory is loaded into, by their names in a function: by itself, or by who calls it."""
    names = {m.name for m in around}
    given = [f for f, actual in block.args if isinstance(actual, Ref) and actual.memory.name in names]
    own = {m.name for m in (*block.registers, *(f for f, _ in block.args))}
    refs = [r.memory for step in flatten(block.body) for r in effects(step).refs]
    captured = [m for m in refs if m.name in names - own]
    return tuple({m.name: m for m in (*held_registers(block.body, TENSOR_LOADS), *given, *captured)}.values())


def keep_loaded(page: Page, block: Block) -> str:
    """The text behind a call that waits for loads, so that the compiler uses the caller's registers after it only."""
    if not any(isinstance(s, Wait) and s.queue == TENSOR_LOADS for s in flatten(block.body)):
        return ""
    given = {actual.memory.name for _, actual in block.args if isinstance(actual, Ref)}
    named = {m.name for m in held_registers((block,), TENSOR_LOADS)}
    return str(page.steps.keep(keep_words(page, [m for m in page.loaded if m.name not in given | named])))
