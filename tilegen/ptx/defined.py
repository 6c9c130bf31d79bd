"""Registers that an instruction reads, and that no way to it is sure to have written."""

from __future__ import annotations

import re

from tilegen.ptx.text import Instruction, KernelText, list_names

# What writes no register: its first operand is read, as all others are.
_READERS = re.compile(
    r"(st|red|bra|bar|barrier|fence|membar|ret|exit|trap|mbarrier\.init|mbarrier\.expect_tx|cp|prefetch|stmatrix"
    r"|griddepcontrol|setmaxnreg|wgmma|tcgen05\.(alloc|dealloc|relinquish_alloc_permit|st|wait|fence|mma|cp|commit))\b"
)
_NAME = re.compile(r"%?[A-Za-z_$][\w$.]*")


def find_undefined(kernel: KernelText) -> tuple[int, str] | None:
    """The first instruction that reads a register too early, and the register; None where there is none.

    A predicate is written on every way to where it is read, any other register on some way: compilers keep values
    undefined where a condition, tested again, leaves them unused.

    >>> from tilegen.ptx.text import parse_kernel
    >>> text = ".entry k() { .reg .b32 %r<3>; .reg .pred %p1; "
    >>> find_undefined(parse_kernel(text + "setp.eq.u32 %p1, %r1, 2; mov.u32 %r1, 1; ret; }", "k"))
    (0, '%r1')
    """
    names = list(kernel.registers)
    numbers = {name: k for k, name in enumerate(names)}
    predicates = sum(1 << k for k, name in enumerate(names) if kernel.registers[name] == 1)
    reads = [_find_names(list_read(one), numbers) for one in kernel.code]
    writes = [_find_names(_written_names(one), numbers) for one in kernel.code]
    surely = [0 if one.guard else bits for one, bits in zip(kernel.code, writes, strict=True)]
    on_all, on_some = _flow(kernel, surely, is_all=True), _flow(kernel, writes, is_all=False)
    for k, read in enumerate(reads):
        if missing := (read & predicates & ~on_all[k]) | (read & ~on_some[k]):
            return k, names[(missing & -missing).bit_length() - 1]
    return None


def _flow(kernel: KernelText, writes: list[int], is_all: bool) -> list[int]:
    """Registers written before each instruction, as bits: on all ways to it, or on some."""
    before: list[int | None] = [None] * (len(kernel.code) + 1)  # None: no way found yet
    before[0], work = 0, [0]
    while work:
        k = work.pop()
        here = before[k]
        if here is None or k == len(kernel.code):
            continue
        after = here | writes[k]
        for target in _list_next(kernel, k):
            known = before[target]
            joined = after if known is None else known & after if is_all else known | after
            if joined != known:
                before[target] = joined
                work.append(target)
    return [-1 if bits is None else bits for bits in before]  # what is never reached reads nothing


def _list_next(kernel: KernelText, k: int) -> list[int]:
    one = kernel.code[k]
    follows = [k + 1] if one.guard or not re.match(r"(bra|ret|exit|trap)\b", one.op) else []
    return [*follows, kernel.labels[one.operands[0]]] if one.op.startswith("bra") else follows


def _written_names(one: Instruction) -> list[str]:
    if one.op.startswith("wgmma.mma"):
        return list_names(one.operands[0])
    return [] if _READERS.match(one.op) or not one.operands else re.split(r"[|,\s{}]+", one.operands[0])


def list_read(one: Instruction) -> list[str]:
    """Names that an instruction reads: its guard, addresses and values.

    >>> list_read(Instruction("st.shared.v2.u32", ("[%r1+4]", "{%r2, %r3}"), "%p1"))
    ['%p1', '%r1', '%r2', '%r3']
    """
    is_written = bool(_written_names(one))
    return [one.guard, *(name for x in one.operands[is_written:] for name in _NAME.findall(x))]


def list_touched(one: Instruction) -> list[str]:
    """Names that an instruction reads or writes.

    >>> list_touched(Instruction("ld.shared.u32", ("%r2", "[%r1+4]")))
    ['', '%r2', '%r1']
    """
    return [one.guard, *(name for x in one.operands for name in _NAME.findall(x))]


def _find_names(names: list[str], numbers: dict[str, int]) -> int:
    return sum(1 << numbers[name] for name in set(names) if name in numbers)
