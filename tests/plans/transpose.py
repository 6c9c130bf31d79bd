"""Y[n, m] = X[m, n], float32, 64x64 tiles, 4x4 in registers, 16-byte accesses, an XOR-swizzled shared tile."""

from __future__ import annotations

from tilegen.index import Index, Var, ceil_div, every, less, multiple, xor
from tilegen.plan import Block, Memory, Move, Param, Plan, Repeat, Role, Step, Sync, flat_memory, let, when
from tilegen.proofs.owned_boxes import Owned


def build(rows: Index = 16384, columns: Index = 16384, params: tuple[Param, ...] = ()) -> Plan:
    """``rows`` and ``columns`` may be runtime Vars that are multiples of 4."""
    gx, gy = ceil_div(columns, 64), ceil_div(rows, 64)
    bx, by, tx, i, j = _axis("bx", gx), _axis("by", gy), Var("tx", 256), Var("i", 4), Var("j", 4)
    source = Memory("X", "float32", (rows, columns), (columns, 1), "global", "in")
    target = Memory("Y", "float32", (columns, rows), (rows, 1), "global", "out")
    tile = flat_memory("tile", "float32", 64 * 64, "shared")  # tile[n][m], chunks of 4 m's xor-ed by n / 4
    r, t = flat_memory("r", "float32", 16, "register"), flat_memory("t", "float32", 16, "register")
    lets = [let("m0", by * 64), let("n0", bx * 64), let("a", tx // 16), let("b", tx % 16)]
    m0, n0, a, b = (x.var for x in lets)
    row = let("row", i * 16 + a)

    def chunk(n: Index, c: Index) -> Index:
        return n * 64 + xor(c, n // 4 % 8) * 4

    def fits(x: Index, y: Index) -> Index:
        """x < rows and y < columns, where a tile can stick out."""
        return every(*(less(at, extent) for at, extent in ((x, rows), (y, columns)) if multiple(extent) % 64))

    load = Move(r[i * 4], source[m0 + a * 4 + i, n0 + b * 4], 4, valid=fits(m0 + a * 4 + i, n0 + b * 4))
    turn = Repeat(i, 4, (Move(t[j * 4 + i], r[i * 4 + j]),), unroll=True)
    fetch = Move(r[i * 4], tile[chunk(row.var, b)], 4)
    store = Move(target[n0 + row.var, m0 + b * 4], r[i * 4], 4)
    steps: tuple[Step, ...] = (
        *lets,
        Block("load", (), (
            Repeat(i, 4, (load,), unroll=True),
            Repeat(j, 4, (turn, Move(tile[chunk(b * 4 + j, a)], t[j * 4], 4)), unroll=True),
        ), registers=(r, t), op=0),
        Sync("cta"),
        Block("store", (), (
            Repeat(i, 4, (row, *when(fits(m0 + b * 4, n0 + row.var), fetch, store)), unroll=True),
        ), registers=(r,), op=2),
    )  # fmt: skip
    memories, roles = (source, target, tile), (Role("all", 256, steps),)
    return Plan("transpose", "sm_90", (gx, gy, 1), memories, roles, params)


def owned(plan: Plan) -> tuple[Owned, ...]:
    """The tiles of Y that its CTAs write."""
    bx, by = (_axis(name, extent) for name, extent in zip(("bx", "by"), plan.grid, strict=False))
    return (Owned(plan.memories[1], (bx * 64, by * 64), (64, 64)),)


def _axis(name: str, extent: Index) -> Var:
    return Var(name, extent if isinstance(extent, int) else extent.bound - 1)
