"""ldmatrix and stmatrix: 8 x 8 matrices between shared memory and the registers of a warp.

Each lane gives the address of one row and holds two elements of every matrix: elements 2 (l % 4) and 2 (l % 4) + 1 of
row l / 4, or with .trans of column l / 4. Where the two sides fit is read off the strides that the bits of laneid
and of the register number have in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tilegen.decisions import Choice
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, div, mod, mul, multiple, substitute, variables
from tilegen.index.runs import counter
from tilegen.ops.formals import Formals
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, Operand, Refused, ref_at
from tilegen.ops.ownership import Ownership, own
from tilegen.ops.pins import NotHad, choose, say_known
from tilegen.ops.thread_loop import over
from tilegen.plan import (
    LDMATRIX,
    LDMATRIX_TRANS,
    MATRIX_ROW_ELEMS,
    STMATRIX,
    STMATRIX_TRANS,
    Block,
    Move,
    Step,
)
from tilegen.spec.data import Buffer, Call

_INSTRUCTIONS = {  # by whether it loads, and whether it transposes
    (True, False): LDMATRIX, (True, True): LDMATRIX_TRANS, (False, False): STMATRIX, (False, True): STMATRIX_TRANS,
}  # fmt: skip
_LANES = 32
_LANE_BITS = 5
_ROWS = MATRIX_ROW_ELEMS


@dataclass(frozen=True)
class Fit:
    """How a register tensor lies over matrices: which way round, and how many registers each step may take."""

    owned: Ownership
    trans: bool
    counts: tuple[int, ...]  # matrices per access, most first


def refuse_matrices(register: Buffer, other: Buffer, context: Context, loads: bool) -> str | None:
    """What can be said against ldmatrix (``loads``) or stmatrix before the layouts are looked at."""
    row = _INSTRUCTIONS[loads, False]
    src, dst = (other, register) if loads else (register, other)
    if not row.moves(src.traits, dst.traits):
        return f"{row.name} moves between shared memory and registers"
    if DTYPES[register.dtype].bytes != 2:
        return f"{row.name} moves elements of 2 bytes, {register.dtype} has {DTYPES[register.dtype].bytes}"
    if row.feature not in context.arch.features:
        return f"{context.arch.name} has no {row.name}"
    return None


def plan_matrices(
    context: Context, call: Call, register: Operand, shared: Operand, loads: bool, pinned: int | None = None
) -> Planned:
    """1, 2 or 4 matrices an access, the cheapest or as ``pinned``.

    Raises Refused where the two layouts are no matrix fragment, NotHad where it has not so many matrices.
    """
    fit = fit_matrices(context, register, shared)
    if pinned not in (None, *fit.counts):
        raise NotHad("matrices", f"matrices that fit in one access: {say_known(fit.counts)}", fit.counts)
    chosen = choose(
        context, fit.counts, lambda n: _block(context, call, fit, shared, loads, n),
        lambda n: pinned in (None, n), lambda n: _value(n, fit.trans),
    )  # fmt: skip
    fits = "registers in order are the words of whole matrices, and each row is 16 contiguous, aligned bytes"
    why = f"the cheapest of {len(fit.counts)} that fit" if len(fit.counts) > 1 else "the only number that fits"
    why = chosen.why_pinned or why
    choices = (
        Choice("matrices", _value(chosen.value, fit.trans), chosen.candidates, f"{why}; {fits}"),
        Choice(
            "registers_per_thread", fit.owned.count, (), "the elements that the register layout gives to one thread"
        ),
    )
    return Planned((chosen.block,), chosen.cost, choices, (("matrices", chosen.value),), counted=chosen.counted)


def _value(count: int, trans: bool) -> dict[str, int | bool]:
    return {"matrices": count, "trans": trans}


# ---------------------------------------------------------------- do the layouts fit
def fit_matrices(context: Context, register: Operand, shared: Operand) -> Fit:
    """Which way round the register tensor consists of matrices whose rows lie in shared memory. Raises Refused."""
    owned = own(context, register, [shared])
    if owned.limits:
        raise Refused(f"threads share {register.region.text} unevenly, and matrices are whole")
    lanes, pair = lane_strides(owned), _pair_stride(owned)
    trans = lanes[2:] == (1, 2, 4)
    if not trans and (*lanes[:2], pair) != (2, 4, 1):
        wanted = "a lane's pair and lanes 0 to 3 (or with .trans every fourth lane)"
        raise Refused(f"the register layout is no 8 x 8 fragment of rows in {shared.buffer.name}: {wanted} hold a row")
    counts = tuple(n for n in (4, 2, 1) if _in_order(owned, 2 * n))
    if not counts:
        raise Refused("the two elements of a pair are not in one 32-bit register")
    first = mul(Var(owned.step, owned.count // 2), 2) if owned.count > 2 else 0
    row = ref_at(shared, _row(owned, trans, 1, first)[0]).offset
    if shared.chunk_elems % _ROWS or multiple(row) % _ROWS:
        chunk = f", and its layout keeps {shared.chunk_elems} together" if shared.chunk_elems % _ROWS else ""
        raise Refused(f"a row of {_ROWS} elements of {shared.buffer.name} is not 16 aligned, contiguous bytes{chunk}")
    return Fit(owned, trans, counts)


def lane_strides(owned: Ownership) -> tuple[int, ...]:
    """Elements of the other side that each bit of laneid moves, low first. Raises Refused where no bits say it."""
    if any("laneid" in {v.name for v in variables(n.value)} for n in owned.numbers):
        raise Refused("the register layout begins at another lane than 0")
    strides: dict[int, int] = {}
    for digit in owned.digits:
        if digit.axes[0] != "laneid":
            continue
        lane, other = digit.strides
        if (
            not isinstance(lane, int)
            or not isinstance(other, int)
            or (lane & (lane - 1)) | (digit.extent & (digit.extent - 1))
        ):
            raise Refused("what a lane holds is not given by the bits of its number")
        first = lane.bit_length() - 1
        strides |= {first + k: other << k for k in range(digit.extent.bit_length() - 1)}
    if sorted(strides) != list(range(_LANE_BITS)):
        raise Refused("the 32 lanes of a warp do not each hold elements of their own")
    return tuple(strides[k] for k in range(_LANE_BITS))


def _pair_stride(owned: Ownership) -> Index | None:
    digit = owned.innermost
    return digit.strides[1] if digit.extent % 2 == 0 else None


def _in_order(owned: Ownership, elems: int) -> bool:
    """Does every ``elems`` elements in register order lie side by side, from an even register on?"""
    if owned.count % elems or multiple(owned.base) % 2:
        return False
    slots = [_slot(owned, number) for number in range(owned.count)]
    groups = [slots[first : first + elems] for first in range(0, len(slots), elems)]
    return all(g[0] % 2 == 0 and all(b == a + 1 for a, b in pairwise(g)) for g in groups)


def _slot(owned: Ownership, number: int) -> int:
    """The register of an element, counted from the base."""
    slot = 0
    for k in reversed(owned.walked):
        digit = owned.digits[k]
        assert isinstance(digit.strides[0], int)
        slot, number = slot + number % digit.extent * digit.strides[0], number // digit.extent
    return slot


# ---------------------------------------------------------------- the function
def _row(owned: Ownership, trans: bool, count: int, first: Index) -> tuple[tuple[Index, ...], Index]:
    """(where the row begins whose address this lane gives, the register of the matrices' first element).

    Lane 8 k + r gives row r of matrix k: the element that lane 4 r holds first, or with ``trans`` lane r / 2 as its
    element r % 2.
    """
    r, k = Var("<row>", _ROWS), counter("<matrix>", count)  # names that no spec may give
    element = add(first, mul(k, 2))
    at, _ = owned.element(add(element, mod(r, 2)) if trans else element)
    holder: dict[str, Index] = {"laneid": div(r, 2) if trans else mul(r, 4)}
    lane = Var("laneid", _LANES)
    giver: dict[str, Index] = {"<row>": mod(lane, _ROWS), "<matrix>": mod(div(lane, _ROWS), count)}
    return tuple(substitute(substitute(x, holder), giver) for x in at), owned.element(first)[1]


def _block(context: Context, call: Call, fit: Fit, shared: Operand, loads: bool, count: int) -> Block:
    name = "_".join(["copy", *(r.buffer.name for r in (*call.read, *call.written))])
    owned = fit.owned
    elems, steps = 2 * count, owned.count // (2 * count)
    step = counter(owned.step, steps)
    at, slot = _row(owned, fit.trans, count, mul(step, elems))
    formals = Formals((owned.operand, shared), (True, True), call.scope, owned.names)
    register, row = formals.see(0, owned.operand.memory[slot]), formals.see(1, ref_at(shared, at))
    via = _INSTRUCTIONS[loads, fit.trans]
    move: Step = Move(register, row, elems, via=via) if loads else Move(row, register, elems, via=via)
    return formals.block(name, owned.guard(over(step, (move,)), stores=not loads), context.op)
