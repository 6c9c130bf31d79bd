"""The steps of mma: loops over the atoms of a tile, each one instruction or, where a thread is alone, a fused add."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from tilegen.arithmetic import TFLOAT32, Apply, Element, Node
from tilegen.cost.count import count_issues
from tilegen.decisions import PICKED, TILING, Candidate, Choice, Cost, count_words
from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError
from tilegen.index import Index, Var, add, equal, mod, mul, not_, select, sub
from tilegen.index.runs import counter
from tilegen.layouts import MmaAtom
from tilegen.ops.formals import Formals
from tilegen.ops.held import Held, hold
from tilegen.ops.mma.atoms import ROWS, choose_tiling, extents_of, is_function_of, is_named, reject_atom, write_layout
from tilegen.ops.mma.fit import Misfit, ProductFit, fit_atom
from tilegen.ops.mma.flows import spell_tiling
from tilegen.ops.op import Planned
from tilegen.ops.operand import Context, Refused
from tilegen.plan import FILL, Block, Compute, Map, Mma, Ref, Step, repeat, when
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call

ORDERS = ("mn", "nm", "mn_serpentine", "nm_serpentine")  # within a step of K, outermost first
_PICKED_ORDER = ORDERS[0]
_STAYS = {
    "mn": "a's fragment stays while n goes on; each accumulator rests the longest",
    "nm": "b's fragment stays in its registers instead of a's: as many products apart",
    "mn_serpentine": "a's fragment stays while n goes there and back, so b's stays where m goes on",
    "nm_serpentine": "b's fragment stays while m goes there and back, so a's stays where n goes on",
}
_SUMS_LAST = Candidate("m, n, k", None, "each product waits for the one before it, whose sum it goes on with")
_TABLES = {"c": "mn", "a": "mk", "b": "kn"}  # by which atoms a fragment is found


def plan_product(context: Context, call: Call, atoms: Sequence[MmaAtom]) -> Planned:
    """The product by the atom with the largest K that the extents, the arch and the registers allow. Raises Refused."""
    threads = SCOPES[call.scope].size(context.launch.threads)
    operands = {name: context.operand(call, name) for name in ("c", "a", "b")}
    held: dict[str, Held] = {}
    reasons: list[tuple[MmaAtom, str, Misfit | None]] = []
    for name, operand in operands.items():
        held[name] = hold(operand, threads)
    found: tuple[MmaAtom, ProductFit] | None = None
    for atom in atoms:
        if found:
            reasons.append((atom, f"its K is {atom.shape[2]}: more instructions", None))
        elif reason := reject_atom(atom, call, context.arch):
            reasons.append((atom, reason, None))
        else:
            try:
                fit = fit_atom(atom, held)
                _check_atoms(call, atom, held, threads)
            except Misfit as misfit:
                reasons.append((atom, f"{call.regions[misfit.field].text}: {misfit}", misfit))
            else:
                if is_named(atom, call.fields.atom):
                    found = atom, fit
                else:
                    reasons.append((atom, f"{call.fields.atom} is named", None))
    if found is None:
        asked = [reason for reason in reasons if is_named(reason[0], call.fields.atom)] or reasons
        raise Refused(_explain_refusal(call, asked, held, threads))
    tiling = spell_tiling(call, threads, found[0], held["c"])
    others = tuple(Candidate(other.name, None, reason) for other, reason, _ in reasons)
    return _plan(context, call, *found, tiling, others)


def _check_atoms(call: Call, atom: MmaAtom, held: dict[str, Held], threads: int) -> None:
    """Where the call says how atoms lie, each operand must be as ``tiled_mma`` has it."""
    if call.fields.atoms == "auto":
        return
    tiling = choose_tiling(call, atom, threads // atom.threads, held)
    assert tiling is not None
    for name in ("c", "a", "b"):
        try:
            layout = tiling.layout(name.upper(), extents_of(call))
        except LayoutError as error:
            raise Misfit(name, str(error)) from None
        if not is_function_of(held[name], layout):
            raise Misfit(name, "'atoms' and 'permutation' give its elements to other threads or registers")


def _explain_refusal(
    call: Call, reasons: Sequence[tuple[MmaAtom, str, Misfit | None]], held: dict[str, Held], threads: int
) -> str:
    """What speaks against each atom; after the first that only lacks registers, the layout that it needs."""
    said: list[str] = []
    for atom, reason, misfit in reasons:
        text = f"{atom.name}: {reason}"
        if misfit is not None and not any("would fit" in s for s in said):
            tiling = choose_tiling(call, atom, threads // atom.threads, held)
            if tiling is not None:
                name = call.regions[misfit.field].buffer.name
                text += f'; for {name} this would fit: layout: "{write_layout(tiling, call, misfit.field)}"'
        said.append(text)
    return "; ".join(said)


# ---------------------------------------------------------------- the function
def _plan(
    context: Context, call: Call, atom: MmaAtom, fit: ProductFit, tiling: str, others: tuple[Candidate, ...]
) -> Planned:
    """The function, and what was chosen on the way to it."""
    block = _block(context, call, atom, fit)
    issued = count_issues(context.enclose((block,)), context.launch, _is_product)
    per_run, (m, n, k) = prod(fit.counts), extents_of(call)
    threads = SCOPES[call.scope].size(context.launch.threads)
    a_warp = max(1, threads // SCOPES["warp"].threads)
    elems = {name: sum(len(row) for row in getattr(fit, name)) * _elems_of(atom, name) for name in ("c", "a", "b")}
    words = {name: -(-count * DTYPES[call.regions[name].buffer.dtype].bytes // 4) for name, count in elems.items()}
    atoms = (Candidate(atom.name, None, PICKED), *others)
    why = f"the largest K that {k}, the registers and {context.arch.name} allow"
    if atom.a == TFLOAT32:
        why = f"cvt.rna.tf32 rounds a and b first, to nearest and ties away from zero; {why}"
    choices = (
        Choice("atom", atom.name, atoms, why),
        Choice("atoms", {"m": fit.groups[0], "n": fit.groups[1], "k": 1}, (), "side by side, as c's registers lie"),
        _explain_order(_order_of(call)),
        Choice(
            "products", {"per_warp": per_run, "per_cta": issued, "flops": 2 * m * n * k}, (),
            f"a run of a warp, all of a CTA; {m} x {n} x {k} by {count_words(a_warp, 'warp', 'warps')} in a run",
        ),
        Choice("registers_per_thread", {"accumulators": words["c"], "a": words["a"], "b": words["b"]}, (),
               "32-bit registers of the regions"),
    )  # fmt: skip
    named = (Choice(TILING, tiling, (), ""),) if tiling else ()
    pins = ("atom", atom.name), ("order", _order_of(call))
    return Planned((block,), Cost(instructions=issued), (*choices, *named), pins)


def _order_of(call: Call) -> str:
    return _PICKED_ORDER if call.fields.order == "auto" else str(call.fields.order)


def _explain_order(order: str) -> Choice:
    """The order of the products in words, outermost first, and why the others are not taken."""
    names = {o: ", ".join(("k", *o[:2])) + (" serpentine" if o.endswith("serpentine") else "") for o in ORDERS}
    shown = [o for o in ORDERS[:2] if o != order]
    others = (*(Candidate(names[o], None, _STAYS[o]) for o in shown), _SUMS_LAST)
    return Choice("order", names[order], (Candidate(names[order], None, PICKED), *others), _STAYS[order])


def _is_product(step: Step) -> bool:
    return isinstance(step, (Mma, Compute))


def _elems_of(atom: MmaAtom, field: str) -> int:
    """Elements of a fragment in each thread."""
    if atom.name not in ROWS:
        return 1
    return next(o.elems for o in ROWS[atom.name].operands if o.field == field)


def _block(context: Context, call: Call, atom: MmaAtom, fit: ProductFit) -> Block:
    counts = dict(zip("mnk", fit.counts, strict=True))
    loops: dict[str, Index] = {d: counter(context.fresh(f"{d}_atom"), n) for d, n in counts.items()}
    names = frozenset(v.name for v in loops.values() if isinstance(v, Var))
    operands = [context.operand(call, name) for name in ("c", "a", "b")]
    formals = Formals(operands, (True,) * 3, call.scope, names)
    bases = [o.buffer.layout.place(o.region.begins, o.buffer.counted_shape).get("m", 0) for o in operands]

    def see(field: str, at: Index) -> Ref:
        side = list(_TABLES).index(field)
        return formals.see(side, operands[side].memory[add(bases[side], at)])

    is_affine = all(_strides(getattr(fit, field)) is not None for field in _TABLES)
    order = _order_of(call)
    trips = [_turn(loops, counts, order)] if is_affine else _all_trips(counts, order)
    elems, clears = _elems_of(atom, "c"), not_(call.conditions["accumulate"])
    cleared: list[Step] = []
    products: list[Step] = []
    for at in trips:
        c, a, b = (see(field, _place(getattr(fit, field), [at[d] for d in dims])) for field, dims in _TABLES.items())
        if isinstance(at["k"], Var) or at["k"] == 0:
            cleared.append(Map(FILL, c, (), elems, 0))
        products.append(_multiply(atom, c, a, b))
    if is_affine:
        body = (*when(clears, *_nest(cleared, loops, order[:2])), *_nest(products, loops, "k" + order[:2]))
    else:
        body = (*when(clears, *cleared), *products)
    name = "_".join(["mma", *(call.regions[field].buffer.name for field in ("a", "b", "c"))])
    return formals.block(name, body, context.op)


def _multiply(atom: MmaAtom, c: Ref, a: Ref, b: Ref) -> Step:
    if atom.name in ROWS:
        return Mma(ROWS[atom.name], c, a, b)
    first, second, third = (Element(k, atom.c) for k in range(3))
    tree: Node = Apply("fma", (first, second, third), atom.c)
    if atom.c == "int32":  # has no fused add, and needs none: nothing rounds
        tree = Apply("+", (Apply("*", (first, second), atom.c), third), atom.c)
    return Compute(c, tree, (a, b, c))


def _nest(body: Sequence[Step], loops: dict[str, Index], order: str) -> tuple[Step, ...]:
    steps = tuple(body)
    for d in reversed(order):
        var = loops[d]
        steps = repeat(var, steps) if isinstance(var, Var) else steps
    return steps


def _turn(loops: dict[str, Index], counts: dict[str, int], order: str) -> dict[str, Index]:
    """The atoms that the loops come to: of a serpentine the inner loop goes back in every second trip of the outer."""
    outer, inner = order[0], order[1]
    if not order.endswith("serpentine") or counts[outer] == 1 or counts[inner] == 1:
        return loops
    back = sub(counts[inner] - 1, loops[inner])
    return loops | {inner: select(equal(mod(loops[outer], 2), 1), back, loops[inner])}


def _all_trips(counts: dict[str, int], order: str) -> list[dict[str, Index]]:
    """Every atom by its numbers, k outermost."""
    outer, inner = order[0], order[1]
    trips: list[dict[str, Index]] = []
    for k, x, y in product(*(range(counts[d]) for d in "k" + order[:2])):
        goes_back = order.endswith("serpentine") and x % 2 == 1
        trips.append({"k": k, outer: x, inner: counts[inner] - 1 - y if goes_back else y})
    return trips


def _strides(table: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """Registers from a row (column) of fragments to the next; None where they are not the same everywhere."""
    down = table[1][0] - table[0][0] if len(table) > 1 else 0
    across = table[0][1] - table[0][0] if len(table[0]) > 1 else 0
    expected = [[table[0][0] + i * down + j * across for j in range(len(table[0]))] for i in range(len(table))]
    is_affine = expected == [list(row) for row in table] and down >= 0 and across >= 0
    return (down, across) if is_affine else None


def _place(table: Sequence[Sequence[int]], at: Sequence[Index]) -> Index:
    """The register of a fragment: from its numbers, or read off the table where those are constants."""
    i, j = at
    if isinstance(i, int) and isinstance(j, int):
        return table[i][j]
    strides = _strides(table)
    assert strides is not None
    return add(table[0][0], add(mul(i, strides[0]), mul(j, strides[1])))
