"""The steps of mma by wgmma: a fence, a product for each atom and step along K, and unless it is async its wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from tilegen.arithmetic import TFLOAT32
from tilegen.decisions import PICKED, Candidate, Choice
from tilegen.errors import LayoutError
from tilegen.index import Index, Var, add, any_of, less, mod, mul, multiple
from tilegen.index.bounds import is_below
from tilegen.kept import keep
from tilegen.layouts import MmaAtom, SwizzleLayout, row_major, tile_of
from tilegen.ops.formals import Formals
from tilegen.ops.held import find_places, hold, shape_of_matrix
from tilegen.ops.mma.atoms import choose_largest, extents_of, list_dividing, refuse_types, wgmma_row
from tilegen.ops.mma.descriptors import DescribedTile, SwizzleMode, describe_places, mode_of
from tilegen.ops.mma.fragments import Fragments, read_fragments
from tilegen.ops.op import Planned, plan_one
from tilegen.ops.operand import Context, Operand, Refused, bind, memory_of
from tilegen.plan import PRODUCTS, Commit, Fence, Ref, Step, Wait, Wgmma, repeat
from tilegen.plan.descriptors import CHUNK_BYTES, WGMMA
from tilegen.scopes import SCOPES
from tilegen.spec.data import Buffer, Call, Region

ROWS = 64  # that an atom has of A and C
THREADS = SCOPES["warpgroup"].threads
_SIDES = ("c", "a", "b")
Starts = Mapping[tuple[int, int], int]


def refuse_warpgroup(call: Call, context: Context) -> str | None:
    """Why wgmma cannot carry out a call, before any layout is looked at."""
    buffers = {name: region.buffer for name, region in call.regions.items()}
    if not buffers["b"].traits.is_pooled:
        return "b must be in shared memory"
    if not buffers["c"].traits.is_held:
        return f"c must be in registers, not in {buffers['c'].traits.words}"
    if not (buffers["a"].traits.is_held or buffers["a"].traits.is_pooled):
        return f"a must be in registers or shared memory, not in {buffers['a'].traits.words}"
    if "wgmma" not in context.arch.features:
        return f"{context.arch.name} has no wgmma, which is sm_90a's"
    if call.fields.order != "auto":
        return "one instruction multiplies all of N, and M's go one by one: leave 'order' out"
    threads = SCOPES[call.scope].size(context.launch.threads)
    if threads != THREADS:
        return f"a warpgroup of {THREADS} threads multiplies together, and {SCOPES[call.scope].one} has {threads}"
    if refusal := refuse_types(call, WGMMA):
        return refusal
    if buffers["a"].root == buffers["c"].root:
        return f"{buffers['c'].name} cannot be multiplied and updated at once"
    return None


@keep
def choose_atom(call: Call) -> MmaAtom:
    """The atom that is named, or that with the largest N that divides the product's. Raises Refused."""
    return choose_largest(call, list_dividing(call, WGMMA), "no atom of wgmma, 64 x 8 to 256 x 32 bytes of K, divides")


def reject_layout(call: Call, tile: Buffer) -> str | None:
    """Why no descriptor of wgmma says how this product's shared operand lies with the layout that ``tile`` has."""
    return reject_described(call, tile, choose_atom, WGMMA)


def reject_described(call: Call, tile: Buffer, choose: Callable[[Call], MmaAtom], engine: str) -> str | None:
    """Why no descriptor of an engine says how a product's operand in ``tile`` lies, or None. ``choose``: its atom."""
    try:
        atom = choose(call)
        for name, rows in (("a", atom.shape[0] // atom.ctas), ("b", atom.shape[1] // atom.ctas)):
            region = call.regions[name]
            if region.buffer.name == tile.name:
                _mode_of(region, tile, engine)  # most swizzles are none that it knows: no more need be known of them
                lies = replace(region, buffer=tile)
                if reason := _explain_lie(lies, region.text, rows, name == "b", engine):
                    return reason
    except Refused as refusal:
        return str(refusal)
    return None


@lru_cache(maxsize=4096)
def _explain_lie(region: Region, text: str, rows: int, transposed: bool, engine: str) -> str:
    """Why no descriptor says how a region lies, of which the layout is asked about again and again; ``text``: its."""
    try:
        describe_operand(bind(region, memory_of(region.buffer)), rows, transposed, engine)
    except Refused as refusal:
        return str(refusal)
    return ""


def plan_warpgroup(context: Context, call: Call) -> Planned:
    """Fence, products, commit and wait; of an async one the last two are the spec's. Raises Refused."""
    atom = choose_atom(call)
    operands = {name: context.operand(call, name) for name in _SIDES}
    c = _find_fragments(operands["c"], atom, "C")
    a_shared = operands["a"].memory.traits.is_pooled
    b_tile, b_base = describe_operand(operands["b"], atom.shape[1], True)
    a_tile, a_base = describe_operand(operands["a"], ROWS, False) if a_shared else (None, 0)
    a = find_starts(a_tile) if a_tile else _find_fragments(operands["a"], atom, "A")
    b = find_starts(b_tile)
    m, n, k = (extent // part for extent, part in zip(extents_of(call), atom.shape, strict=True))
    if set(c) != {(i, j) for i in range(m) for j in range(n)}:
        raise Refused(f"the registers of {operands['c'].buffer.name} are not those of {m * n} atoms of {atom.stem}")
    bases: dict[str, Index] = {"b": b_base, "a": a_base, "c": _register_base(operands["c"])}
    if not a_shared:
        bases["a"] = _register_base(operands["a"])
    var = Var(context.fresh("k_atom"), k) if k > 1 and is_rising(a, m, k) and is_rising(b, n, k) else None
    formals = Formals([operands[s] for s in _SIDES], (True,) * 3, call.scope, [var.name] if var else [])
    row, adds = wgmma_row(atom, not a_shared), call.conditions["accumulate"]

    def see(side: str, at: Index) -> Ref:
        return formals.see(_SIDES.index(side), operands[side].memory[add(bases[side], at)])

    def multiply(step: Index) -> tuple[Step, ...]:
        return tuple(
            Wgmma(
                row, see("c", c[i, j]), see("a", start_at(a, i, step)), see("b", start_at(b, j, step)),
                b_tile.descriptor, a_tile.descriptor if a_tile else None, any_of(less(0, step), adds),
            )
            for i in range(m) for j in range(n)
        )  # fmt: skip

    products = repeat(var, multiply(var)) if var else tuple(s for step in range(k) for s in multiply(step))
    done = () if call.fields.asynchronous else (Commit(PRODUCTS), Wait(PRODUCTS))
    name = "_".join(["wgmma", *(call.regions[field].buffer.name for field in ("a", "b", "c"))])
    block = formals.block(name, (Fence(), *products, *done), context.op)
    lies = {s: spell_tile(t, d) for s, t, d in (("a", a_tile, "M"), ("b", b_tile, "N")) if t}
    choices = (
        Choice("atom", atom.name, (Candidate(atom.name, None, PICKED),), _explain_atom(call, atom)),
        Choice("descriptors", lies, (), "compared with what the hardware reads"),
        Choice("products", {"per_run": m * n * k}, (), "a warpgroup's, in one group" if done else "of the open group"),
    )
    return plan_one(context, block, choices, (("atom", atom.name),))


def _explain_atom(call: Call, atom: MmaAtom) -> str:
    is_largest = atom == max(list_dividing(call, WGMMA), key=lambda a: a.shape[1])
    why = "the largest N that divides the product's" if is_largest else "the one that is named"
    return f"{why}; the last 13 bits of a float32 are dropped" if atom.a == TFLOAT32 else why


def spell_tile(tile: DescribedTile, rows: str) -> str:
    lies = tile.descriptor
    swizzle = f"{lies.swizzle_bytes}B" if lies.swizzle_bytes else "unswizzled"
    swizzle += f" of {lies.chunk_bytes}B chunks" if lies.chunk_bytes != CHUNK_BYTES else ""
    return f"{'K' if lies.along == 'k' else rows}-major {swizzle}"


# ---------------------------------------------------------------- shared memory
def describe_operand(
    operand: Operand, rows: int, transposed: bool, engine: str = WGMMA
) -> tuple[DescribedTile, Index]:  # fmt: skip
    """The matrices of a region as an engine reads them, and where the region begins before chunks trade places.

    Raises Refused.
    """
    region, buffer, size = operand.region, operand.buffer, operand.elem_bytes
    mode = _mode_of(region, buffer, engine)
    linear = find_places(operand).get("m", np.zeros(shape_of_matrix(region), np.int64))
    try:
        tile = describe_places((linear.T if transposed else linear) * size, size, mode, rows)
    except LayoutError as error:
        raise Refused(f"{region.text}: {error}") from None
    whole = row_major(buffer.shape) if isinstance(buffer.layout, SwizzleLayout) else tile_of(buffer.layout)
    base = whole.place(region.begins, buffer.shape).get("m", 0)
    lies = tile.descriptor
    for start in {start for row in tile.starts for start in row}:
        byte = mul(add(base, start), size)
        first = multiple(byte) % 16 == 0 and is_below(mod(byte, lies.pattern_bytes), lies.room_bytes, ())
        if multiple(byte) % lies.pattern_bytes and not first:
            raise Refused(f"{region.text} is not known to begin at a multiple of {lies.pattern_bytes} bytes")
    return tile, base


def _mode_of(region: Region, tile: Buffer, engine: str = WGMMA) -> SwizzleMode:
    """Which of an engine's swizzles a tile has, of which a region is told where there is none. Raises Refused."""
    try:
        return mode_of(tile.layout, tile.dtype, engine)
    except LayoutError as error:
        raise Refused(f"{region.text}: {error}") from None


def find_starts(tile: DescribedTile) -> Starts:
    return {(i, s): start for i, row in enumerate(tile.starts) for s, start in enumerate(row)}


# ---------------------------------------------------------------- registers
def _register_base(operand: Operand) -> Index:
    base: Index = operand.buffer.layout.place(operand.region.begins, operand.buffer.counted_shape).get("m", 0)
    return base


def _find_fragments(operand: Operand, atom: MmaAtom, name: str) -> Starts:
    """The register of each fragment, by its place among those of the matrix. Raises Refused."""
    found: Fragments = read_fragments(hold(operand, THREADS), atom, name)
    down, across = found.rows.shape[2], found.columns.shape[2]
    starts = {}
    for f, register in enumerate(found.at):
        rows, columns = found.rows[0, f], found.columns[0, f]
        first, left = int(rows[0]), int(columns[0])
        whole = np.array_equal(rows, first + np.arange(down)) and np.array_equal(columns, left + np.arange(across))
        if not whole or first % down or left % across:
            raise Refused(f"the registers of {operand.buffer.name} are no {down} x {across} blocks of neighbours")
        starts[first // down, left // across] = register
    return starts


def is_rising(starts: Starts, count: int, steps: int) -> bool:
    """Whether each row's matrices begin at the same distance from one another along K."""
    return all(starts[i, s] == starts[i, 0] + s * (starts[i, 1] - starts[i, 0]) and starts[i, 1] > starts[i, 0]
               for i in range(count) for s in range(steps))  # fmt: skip


def start_at(starts: Starts, row: int, step: Index) -> Index:
    if isinstance(step, int):
        return starts[row, step]
    return add(starts[row, 0], mul(step, starts[row, 1] - starts[row, 0]))


def list_registers(call: Call) -> Sequence[str]:
    """The operands of a product by wgmma that are in registers."""
    return [name for name in ("c", "a") if call.regions[name].buffer.traits.is_held]
