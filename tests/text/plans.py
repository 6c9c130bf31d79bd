"""Hand-written plans, to render before any op exists: each is what an op would build."""

from __future__ import annotations

from tilegen.decisions import Candidate, Choice, Cost, Operation
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, add, ceil_div, every, less
from tilegen.plan import (
    CAST,
    FILL,
    LDMATRIX,
    LDMATRIX_TRANS,
    STMATRIX,
    STMATRIX_TRANS,
    Block,
    Map,
    Memory,
    Move,
    Param,
    Plan,
    Repeat,
    Role,
    Step,
    Sync,
    flat_memory,
    let,
    repeat,
    when,
)


def build_permute_sf(dtype: str = "float32") -> Plan:
    """Two 4x32 tiles transposed by one warp through shared memory, XOR-swizzled."""
    width = DTYPES[dtype].bytes
    vec = max(1, min(16 // width, 8))
    per_pass = 32 * vec
    laneid, i, s, r = Var("laneid", 32), Var("i", max(1, 256 // per_pass)), Var("s", 2), Var("r", 4)
    In, Out = (flat_memory(n, dtype, 256, "global", access=a) for n, a in (("In", "in"), ("Out", "out")))
    A = flat_memory("A", dtype, 256, "shared", note="two tiles of 4 rows, 32 columns")
    B = flat_memory("B", dtype, 256, "shared", offset_bytes=256 * width, note="two tiles of 32 rows, 4 columns")
    src, dst = flat_memory("src", dtype, 128, "shared"), flat_memory("dst", dtype, 128, "shared")
    tmp = flat_memory("tmp", dtype, 4, "register")
    row = r ^ laneid // 8
    permute = Block(
        "permute_layout",
        ((src, A[s * 128]), (dst, B[s * 128])),
        (
            *repeat(r, [Move(tmp[r], src[add(row * 32, laneid)])]),
            Sync("warp"),
            *repeat(r, [Move(dst[add(laneid * 4, row)], tmp[r])]),
        ),
        (tmp,),
        note="One warp: read through the source layout, meet, write through the destination layout.",
        op=1,
    )

    def copy(name: str, src_: Memory, dst_: Memory, op: int) -> Block:
        f = flat_memory("src", dtype, 256, src_.space, access="in"), flat_memory("dst", dtype, 256, dst_.space)
        at = i * per_pass + laneid * vec if vec > 1 else i * per_pass + laneid
        body = repeat(i, [Move(f[1][at], f[0][at], vec)])
        return Block(name, ((f[0], src_[0]), (f[1], dst_[0])), body, note="One warp copies 256 elements.", op=op)

    steps: tuple[Step, ...] = (
        copy("copy", In, A, 0),
        Sync("warp"),
        Repeat(s, 2, (permute,)),
        Sync("warp"),
        copy("copy", B, Out, 2),
    )
    cost = Cost(wavefronts=16, instructions=16)
    wide, narrow = (
        Candidate({"elems": 4, "bytes": 16}, Cost(sectors=32), "picked"),
        Candidate({"elems": 1, "bytes": 4}, Cost(sectors=32, instructions=8), "more instructions"),
    )
    k = [
        Candidate({"k": k, "shift": s, "mask": m}, Cost(wavefronts=w), "")
        for k, s, m, w in ((2, 3, 3, 16), (0, 3, 0, 64), (1, 3, 1, 32))
    ]
    operations = (
        Operation(
            "copy",
            "gmem_smem",
            "warp",
            "copy In -> A",
            11,
            Cost(sectors=32, wavefronts=8, instructions=4),
            choices=(Choice("vector_width", wide.value, (wide, narrow), "floor reached"),),
        ),
        Operation(
            "permute_layout",
            "warp_xor",
            "warp",
            "permute_layout A -> B",
            12,
            cost,
            choices=(Choice("xor_k", k[0].value, tuple(k), "all k searched"),),
        ),
        Operation("copy", "gmem_smem", "warp", "copy B -> Out", 13, Cost(sectors=32, wavefronts=8, instructions=4)),
    )
    return Plan("permute_sf", "sm_90", (1, 1, 1), (In, Out, A, B), (Role("all", 32, steps),), operations=operations)


def build_transpose(rows: int = 132, columns: int = 200, dtype: str = "float32") -> Plan:
    """Y[n, m] = X[m, n] in 64x64 tiles with edges, 4x4 elements in registers, XOR-swizzled tile."""
    gx, gy = -(-columns // 64), -(-rows // 64)
    bx, by, tx, i, j = Var("bx", gx), Var("by", gy), Var("tx", 256), Var("i", 4), Var("j", 4)
    X = Memory("X", dtype, (rows, columns), (columns, 1), "global", "in")
    Y = Memory("Y", dtype, (columns, rows), (rows, 1), "global", "out")
    tile = flat_memory("tile", dtype, 64 * 64, "shared", note="64 columns of X; chunk of 4 rows xor (column / 4) % 8")
    r, t = flat_memory("r", dtype, 16, "register"), flat_memory("t", dtype, 4, "register")
    set_a, set_b = let("a", tx // 16), let("b", tx % 16)
    a, b = set_a.var, set_b.var

    def in_tile(n: Index, chunk: Index) -> Index:
        return add(n * 64, ((n // 4) % 8 ^ chunk) * 4)

    m, n = by * 64 + a * 4 + i, bx * 64 + b * 4
    set_row = let("row", i * 16 + a)
    row = set_row.var
    steps: tuple[Step, ...] = (
        set_a,
        set_b,
        *repeat(i, [Move(r[i * 4], X[m, n], 4, valid=every(less(m, rows), less(n, columns)))]),
        *repeat(j, [*repeat(i, [Move(t[i], r[i * 4 + j])]), Move(tile[in_tile(b * 4 + j, a)], t[0], 4)]),
        Sync("cta"),
        *repeat(i, [set_row, *when(every(less(bx * 64 + row, columns), less(by * 64 + b * 4, rows)),
                                   Move(Y[bx * 64 + row, by * 64 + b * 4], tile[in_tile(row, b)], 4))]),
    )  # fmt: skip
    return Plan("transpose", "sm_90", (gx, gy, 1), (X, Y, tile, r, t), (Role("all", 256, steps),))


def build_runtime_copy() -> Plan:
    """An M x N array with a pitch of N + 3, both known at launch only, copied dense; 32-wide CTAs of one row each."""
    M, N = Var("M", 1 << 14, 1, 1), Var("N", 1 << 14, 1, 1)
    bx, by, laneid = Var("bx", 1 << 14), Var("by", 1 << 14), Var("laneid", 32)
    X = Memory("X", "int32", (M, N), (N + 3, 1), "global", "in")
    Y = Memory("Y", "int32", (M, N), (N, 1), "global", "out")
    src = Memory("src", "int32", (M, N), (N + 3, 1), "global", "in")
    dst = Memory("dst", "int32", (M, N), (N, 1), "global", "out")
    c = bx * 32 + laneid
    body = when(less(c, N), Move(dst[by, c], src[by, c]))
    steps = (Block("copy_row", ((src, X[0, 0]), (dst, Y[0, 0])), body, note="One row, a lane an element."),)
    params = tuple(Param(v.name, "int32", d, v) for v, d in ((M, 5), (N, 70)))
    return Plan("runtime_copy", "sm_80", (ceil_div(N, 32), M, 1), (X, Y), (Role("all", 32, steps),), params)


def build_cast(src: str, dst: str, elems: int = 4, threads: int = 64) -> Plan:
    """Out = In as another element type, through registers."""
    In, Out = (
        flat_memory("In", src, threads * elems, "global", access="in"),
        flat_memory("Out", dst, threads * elems, "global", access="out"),
    )
    x, y = flat_memory("x", src, elems, "register"), flat_memory("y", dst, elems, "register")
    X, Y = flat_memory("src", src, elems, "register"), flat_memory("dst", dst, elems, "register")
    tx, e = Var("tx", threads), Var("i", elems)
    steps = (
        *repeat(e, [Move(x[e], In[tx * elems + e])]),
        Block("convert", ((X, x[0]), (Y, y[0])), (Map(CAST, Y[0], (X[0],), elems),), note=f"{src} to {dst}."),
        *repeat(e, [Move(Out[tx * elems + e], y[e])]),
    )  # fmt: skip
    return Plan(f"cast_{src}_{dst}", "sm_90", (1, 1, 1), (In, Out, x, y), (Role("all", threads, steps),))


def build_fill(dtype: str, value: object, elems: int = 4, threads: int = 128) -> Plan:
    """Out = value: registers filled, stored as wide as they go."""
    Out = flat_memory("Out", dtype, threads * elems, "global", access="out")
    x, tx = flat_memory("x", dtype, elems, "register"), Var("tx", threads)
    width = min(elems, 16 // DTYPES[dtype].bytes)
    stores = [Move(Out[tx * elems + w], x[w], width) for w in range(0, elems, width)]
    return Plan(
        f"fill_{dtype}",
        "sm_90",
        (1, 1, 1),
        (Out, x),
        (Role("all", threads, (Map(FILL, x[0], (), elems, value), *stores)),),
    )  # type: ignore[arg-type]


def build_fragment(dtype: str = "float16") -> Plan:
    """A warp's tile through an array of narrow registers: 16-byte loads, single moves, stores of half the width."""
    vec = 16 // DTYPES[dtype].bytes
    elems = 2 * vec
    In, Out = (flat_memory(n, dtype, 32 * elems, "global", access=a) for n, a in (("In", "in"), ("Out", "out")))
    x, y = flat_memory("x", dtype, elems, "register"), flat_memory("y", dtype, elems, "register")
    laneid, i, j = Var("laneid", 32), Var("i", 2), Var("j", vec)
    X, Y = flat_memory("src", dtype, elems, "register"), flat_memory("dst", dtype, elems, "register")
    shuffle = Block("interleave", ((X, x[0]), (Y, y[0])), repeat(i, repeat(j, [Move(Y[j * 2 + i], X[i * vec + j])])))
    steps = (
        *repeat(i, [Move(x[i * vec], In[i * (32 * vec) + laneid * vec], vec)]),
        shuffle,
        *repeat(h := Var("h", 4), [Move(Out[laneid * elems + h * (vec // 2)], y[h * (vec // 2)], vec // 2)]),
    )
    return Plan(f"fragment_{dtype}", "sm_90", (1, 1, 1), (In, Out, x, y), (Role("all", 32, steps),))


def build_pool() -> Plan:
    """More shared memory than fits statically, two views of one place, captured variables, a warpgroup meeting."""
    In, Out = (
        flat_memory("In", "uint32", 16384, "global", access="in"),
        flat_memory("Out", "uint32", 16384, "global", access="out"),
    )
    A, B = flat_memory("A", "uint32", 16384, "shared"), flat_memory("B", "float32", 16384, "shared", note="A again")
    tx, i = Var("tx", 256), Var("i", 64)
    dst = flat_memory("dst", "uint32", 128, "shared")
    tid_in_wg, wgid = Var("tid_in_wg", 128), Var("wgid", 2)
    fill = Block(
        "load",
        ((dst, A[wgid * 128 + i * 256]),),
        (Move(dst[tid_in_wg], In[wgid * 128 + i * 256 + tid_in_wg]), Sync("warpgroup")),
    )
    steps = (
        Repeat(i, 64, (fill,)),
        Repeat(i, 64, (Move(Out[i * 256 + tx], B[i * 256 + tx]),)),
    )
    return Plan("pool", "sm_90", (1, 1, 1), (In, Out, A, B), (Role("all", 256, steps),))


def build_matrices(n: int, trans: bool, warps: int = 2) -> Plan:
    """n matrices a warp: In -> shared -> registers through ldmatrix -> Held, and through stmatrix -> shared -> Out."""
    elems = 64 * n
    In, Held, Out = (
        flat_memory(name, "uint16", warps * elems, "global", access=access)
        for name, access in (("In", "in"), ("Held", "out"), ("Out", "out"))
    )
    S = flat_memory("S", "uint16", warps * elems, "shared")
    T = flat_memory("T", "uint16", warps * elems, "shared", offset_bytes=warps * elems * 2)
    r, warp, lane = flat_memory("r", "uint16", 2 * n, "register"), Var("warpid", warps), Var("laneid", 32)
    first, mine, row = warp * elems, warp * elems + lane * (2 * n), warp * elems + lane % (8 * n) * 8
    load, store = (LDMATRIX_TRANS, STMATRIX_TRANS) if trans else (LDMATRIX, STMATRIX)
    steps = (
        Move(S[mine], In[mine], 2 * n), Sync("warp"),
        Move(r[0], S[row], 2 * n, via=load), Move(Held[first + lane * (2 * n)], r[0], 2 * n),
        Move(T[row], r[0], 2 * n, via=store), Sync("warp"),
        Move(Out[mine], T[mine], 2 * n),
    )  # fmt: skip
    name = f"matrices_{n}{'_trans' if trans else ''}"
    return Plan(name, "sm_90", (1, 1, 1), (In, Held, Out, S, T, r), (Role("all", 32 * warps, steps),))
