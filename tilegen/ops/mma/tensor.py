"""The steps of mma by tcgen05: one thread starts a product for each atom and step along K, with sums in tensor memory.

Sources: PTX ISA, tcgen05.mma (kinds, shapes, data path layout D), "Matrix descriptors".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilegen.arch.data import TensorMemory
from tilegen.decisions import PICKED, Candidate, Choice
from tilegen.dtypes import DTYPES
from tilegen.errors import Flaw
from tilegen.index import Index, Var, add, any_of, equal, less
from tilegen.kept import keep
from tilegen.layouts import MmaAtom
from tilegen.layouts.core.cells import COLUMN_BYTES
from tilegen.ops.formals import Formals
from tilegen.ops.held import find_places, shape_of_matrix
from tilegen.ops.mma.atoms import (
    FACTORS,
    choose_largest,
    ctas_of,
    extents_of,
    has_factors,
    list_dividing,
    refuse_types,
    tensor_row,
)
from tilegen.ops.mma.factors import find_factors
from tilegen.ops.mma.warpgroups import (
    describe_operand,
    find_starts,
    is_rising,
    reject_described,
    spell_tile,
    start_at,
)
from tilegen.ops.op import Planned, plan_one
from tilegen.ops.operand import Context, Operand, Refused
from tilegen.ops.tensor_copies import begin_of
from tilegen.plan import Ref, Step, TensorMma, When, count_factors, repeat
from tilegen.plan.descriptors import DEPTH_BYTES, TCGEN05
from tilegen.scopes import SCOPES, threads_of
from tilegen.spec.data import Buffer, Call

_SIDES = ("c", "a", "b")
Columns = Mapping[tuple[int, int], int]


def refuse_tensor(call: Call, context: Context) -> str | None:
    """Why tcgen05 cannot carry out a call, before any layout is looked at."""
    buffers = {name: region.buffer for name, region in call.regions.items()}
    if not buffers["c"].traits.has_cells:
        return f"c must be in tensor memory, not in {buffers['c'].traits.words}"
    if not (buffers["a"].traits.is_pooled or buffers["a"].traits.has_cells):
        return f"a must be in shared or tensor memory, not in {buffers['a'].traits.words}"
    if has_factors(call) and buffers["a"].traits.has_cells:
        return "a must be in shared memory where it has factors"
    if not buffers["b"].traits.is_pooled:
        return f"b must be in shared memory, not in {buffers['b'].traits.words}"
    if buffers["a"].root == buffers["c"].root:
        return f"{buffers['c'].name} cannot be multiplied and updated at once"
    if "tcgen05" not in context.arch.features:
        return f"{context.arch.name} has no tcgen05, which is sm_100a's"
    if call.fields.order != "auto":
        return "one instruction multiplies all of N, and M's go one by one: leave 'order' out"
    if SCOPES[call.scope].size(context.launch.threads) != context.launch.threads:
        return f"one thread starts a product, and there are several {call.scope}s here: 'scope: role', or none"
    return refuse_types(call, TCGEN05)


def check_tensor(fields: Any, shape: tuple[int, int, int], dtypes: Mapping[str, str]) -> Flaw | None:
    """What is wrong with a product of M, N and K into tensor memory, before anything is known of layouts."""
    if not fields.asynchronous:
        message = "a product into tensor memory goes on by itself: 'async' is missing"
        return Flaw("TG102", message, "c", "write 'async: true', and 'commit: {barrier: NAME}' behind it")
    if DTYPES[dtypes["c"]].bytes != COLUMN_BYTES:
        message = f"sums of {dtypes['c']} in tensor memory are not yet supported"
        return Flaw("TG190", message, "c", "give it float32, and cast to less behind the copy to registers")
    depth = DEPTH_BYTES // DTYPES[dtypes["a"]].bytes
    for name, side, extent, step in zip("MNK", ("a", "b", "a"), shape, (LANES, _N_STEP, depth), strict=True):
        if extent % step:
            near = [x for x in (extent // step * step, extent // step * step + step) if x]
            message = f"tcgen05 multiplies in steps of {step} along {name}, and {name} is {extent}"
            later = "; products of 64 rows come later" if (name, extent) == ("M", 64) else ""
            return Flaw("TG212", message, side, f"the nearest {name}: {' and '.join(map(str, near))}{later}")
    return None


@keep
def choose_tensor_atom(call: Call) -> MmaAtom:
    """The atom that is named, or that with the largest M, then N, that divide the product's. Raises Refused."""
    none = "no atom of tcgen05, 128 x 8 to 256 x 32 bytes of K, divides"
    if ctas_of(call) > 1:
        none = "no atom of tcgen05 of a pair of CTAs, 256 x 16 to 256 x 32 bytes of K, has all columns of"
    elif has_factors(call):
        none = "no atom of tcgen05 with scale factors, 128 x 8 to 256, or 128 x 128 of several along N, divides"
    return choose_largest(call, _list_fitting(call), none)


def _list_fitting(call: Call) -> list[MmaAtom]:
    """The atoms that divide a product as its operands lie."""
    found, n = [a for a in list_dividing(call, TCGEN05) if a.shape[0] == LANES * a.ctas], extents_of(call)[1]
    if ctas_of(call) > 1:  # the columns of several products would alternate between the CTAs' halves of b
        return [a for a in found if a.shape[1] == n]
    return [a for a in found if begins_factors(a.shape[1], n)] if has_factors(call) else found


def begins_factors(columns: int, n: int) -> bool:
    """May products of so many columns make one of N with scale factors, which begin at those of 128 rows each?"""
    return columns == n or columns % LANES == 0


_N_STEP = 8  # of all kinds; that 8-bit b along N takes 16 follows from chunks of 16 bytes
LANES = TensorMemory().lanes  # one for each row of data path layout D


def reject_tensor_layout(call: Call, tile: Buffer) -> str | None:
    """Why no descriptor of tcgen05 says how this product's shared operand lies with the layout that ``tile`` has."""
    return reject_described(call, tile, choose_tensor_atom, TCGEN05)


def plan_tensor(call: Call, context: Context) -> Planned:
    """A product for each atom and step along K, started by the first thread. Raises Refused."""
    atom = choose_tensor_atom(call)
    sides = (*_SIDES, *(name for name in FACTORS if name in call.regions))
    operands = {name: context.operand(call, name) for name in sides}
    in_cells, depth, ctas = operands["a"].buffer.traits.has_cells, atom.shape[2], atom.ctas
    rows, columns = (extent // ctas for extent in atom.shape[:2])  # of a and b, in each CTA that has a part
    c = find_columns(operands["c"], rows, columns * ctas)
    a_tile, a_base = (None, 0) if in_cells else describe_operand(operands["a"], rows, False, TCGEN05)
    a = find_starts(a_tile) if a_tile else find_columns(operands["a"], rows, depth)
    b_tile, b_base = describe_operand(operands["b"], columns, True, TCGEN05)
    m, n, k = (extent // part for extent, part in zip(extents_of(call), atom.shape, strict=True))
    factors = {name: find_factors(operands[name]) for name in sides if name in FACTORS}
    b = find_starts(b_tile)
    is_loop = k > 1 and is_rising(a, m, k) and is_rising(b, n, k) and not factors
    var = Var(context.fresh("k_atom"), k) if is_loop else None
    flat = tuple(not operands[s].buffer.traits.has_cells for s in sides)
    formals = Formals([operands[s] for s in sides], flat, call.scope, [var.name] if var else [])
    adds, row = call.conditions["accumulate"], tensor_row(atom, in_cells)

    def see(side: str, base: Index, at: Index) -> Ref:
        return formals.see(sides.index(side), operands[side].memory[add(base, at)])

    def see_cells(side: str, at: Index) -> Ref:
        lane, column = begin_of(operands[side])
        return formals.see(sides.index(side), operands[side].memory[lane, add(column, at)])

    def see_a(at: Index) -> Ref:
        return see_cells("a", at) if in_cells else see("a", a_base, at)

    def see_factors(step: Index, before: Mapping[str, int]) -> dict[str, Any]:
        """Where the factors of a step along K begin for rows of a and of b, after so many others: of 32 a column."""
        found: dict[str, Any] = {}
        for side, starts in factors.items():
            assert isinstance(step, int)
            start, byte = starts[step]
            found |= {side: see_cells(side, start + count_factors(before[side])), "factor": byte}
        return found

    def multiply(step: Index) -> tuple[Step, ...]:
        return tuple(
            TensorMma(
                row, atom.name, see_cells("c", c[i, j]), see_a(start_at(a, i, step)),
                see("b", b_base, start_at(b, j, step)), a_tile.descriptor if a_tile else None, b_tile.descriptor,
                any_of(less(0, step), adds),
                **see_factors(step, {"sfa": i * rows, "sfb": j * columns}), ctas=ctas,
            )
            for i in range(m) for j in range(n)
        )  # fmt: skip

    products = repeat(var, multiply(var)) if var else tuple(s for step in range(k) for s in multiply(step))
    name = "_".join(["mma", *(call.regions[field].buffer.name for field in ("a", "b", "c"))])
    block = formals.block(name, products, context.op)
    first = equal(threads_of(call.scope, context.launch.threads)[0], 0)
    lies = {"a": spell_tile(a_tile, "M") if a_tile else "none: row r in lane r of tensor memory",
            "b": spell_tile(b_tile, "N")}  # fmt: skip
    choices = _tell_choices(call, atom, lies, m * n * k)
    return plan_one(context, When(first, (block,)), choices, (("atom", atom.name),))


def _tell_choices(call: Call, atom: MmaAtom, lies: Mapping[str, str], count: int) -> tuple[Choice, ...]:
    is_largest = atom == max(_list_fitting(call), key=lambda a: a.shape[1])
    why = "the largest N that divides the product's" if is_largest else "the one that is named"
    return (
        Choice("atom", atom.name, (Candidate(atom.name, None, PICKED),), why),
        Choice("descriptors", lies, (), "compared with what the hardware reads"),
        Choice("products", {"per_run": count}, (), "of one thread, done when what it commits has arrived"),
    )


def find_columns(operand: Operand, rows: int, columns: int) -> Columns:
    """The first element, from the region's, of each matrix of so many rows and columns. Raises Refused where they lie
    otherwise."""
    places, shape = find_places(operand), shape_of_matrix(operand.region)
    lane, column = (places.get(axis, np.zeros(shape, np.int64)) for axis in ("TLane", "TCol"))
    if begin_of(operand)[0] != 0 or (lane != np.arange(shape[0])[:, None] % rows).any():
        raise Refused(f"row r of a product is in lane r of tensor memory, and {operand.region.text} lies otherwise")
    starts = {
        (i, j): int(column[i * rows, j * columns]) for i in range(shape[0] // rows) for j in range(shape[1] // columns)
    }
    for (i, j), start in starts.items():
        block = column[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
        if (block != start + np.arange(columns)).any():
            raise Refused(
                f"column n of a product is n columns on in tensor memory, and {operand.region.text} lies otherwise"
            )
    return starts
