"""The atoms of matrix products: one row each, what one instruction multiplies, on how many threads, and who holds what.

An atom computes C[m, n] += A[m, k] B[k, n]. ``ATOMS`` has every row; ``find_atom`` reads a name, ``fragment_of`` says
which thread of the atom holds which element in which register.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tilegen.dtypes import FACTOR
from tilegen.errors import LayoutError
from tilegen.layouts.constructors.arguments import element_bits
from tilegen.layouts.constructors.fragments import (
    C_ITERS,
    REGISTER_BITS,
    iters_of_a,
    iters_of_b,
    on_lanes,
    wgmma_accumulator,
    wgmma_operand_a,
)
from tilegen.layouts.core.iters import Iter, Iters
from tilegen.layouts.core.values import TileLayout
from tilegen.layouts.cute import CuteLayout
from tilegen.near_words import find_near

OPERANDS = {"A": (0, 2), "B": (2, 1), "C": (0, 1)}  # operand -> its dimensions, of (M, N, K)
MODES = "MNK"


@dataclass(frozen=True)
class MmaAtom:
    """One row: C[m, n] += A[m, k] B[k, n] by ``threads`` threads.

    ``name`` ends with the types of D, A, B and C as PTX writes them. ``kind``: simt (one thread, one product), mma_sync
    (a warp, all operands in registers), quad_pair (8 threads of a warp; a layout that no op uses), wgmma (a warpgroup,
    B in shared memory) or tcgen05 (one thread starts it: A and B in shared memory, C in tensor memory). ``factors``:
    the type of the scale factors of 32 neighbours along K that it multiplies A and B by, "" where it takes none.
    ``instruction`` is PTX, "" where there is none to use; it needs the compute capability ``capability`` and the
    feature of an arch ``feature``. ``majors`` say how A and B lie, as BLAS does: tn is A and B along K, nt A along M
    and B along N. ``places``: the atom's threads among those of a CTA, CuTe's ThrID.
    """

    name: str
    kind: str
    shape: tuple[int, int, int]
    a: str
    b: str
    c: str
    instruction: str
    capability: tuple[int, int]
    feature: str = ""
    majors: str = "tn"
    places: CuteLayout = CuteLayout(32, 1)  # noqa: RUF009 - frozen
    factors: str = ""

    @property
    def threads(self) -> int:
        """How many threads carry out one atom."""
        return {"simt": 1, "mma_sync": 32, "quad_pair": 8, "wgmma": 128, "tcgen05": 1}[self.kind]

    @property
    def ctas(self) -> int:
        """How many CTAs have a part of the product: 2 for the pairs of tcgen05.

        >>> find_atom("tcgen05.m256n256k16").ctas, find_atom("tcgen05.m128n256k16").ctas
        (2, 1)
        """
        return 2 if ".cta_group::2" in self.instruction else 1

    @property
    def stem(self) -> str:
        """The name without types: mma.m16n8k16."""
        types = {"simt": 1, "wgmma": 3, "tcgen05": 3}.get(self.kind, 4)
        return ".".join(self.name.split(".")[:-types])

    @property
    def ptx_kind(self) -> str:
        """The ``.kind`` that the instruction of tcgen05 names; "" of other instructions.

        >>> find_atom("tcgen05.m128n64k16").ptx_kind, find_atom("mma.m16n8k16").ptx_kind
        ('f16', '')
        """
        return self.instruction.partition(".kind::")[2].partition(".")[0]

    def dtype(self, operand: str) -> str:
        """The element type of operand A, B or C."""
        return {"A": self.a, "B": self.b, "C": self.c}[operand]


_PTX = {
    "float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "float32": "f32", "float64": "f64", "int8": "s8",
    "uint8": "u8", "int32": "s32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
_BYTES, _FLOAT8 = ("int8", "uint8"), ("float8_e4m3fn", "float8_e5m2")


def _spell_shape(shape: tuple[int, int, int]) -> str:
    m, n, k = shape
    return f"m{m}n{n}k{k}"


# ---------------------------------------------------------------- rows
def _simt() -> Iterator[MmaAtom]:
    """PTX ISA, "fma" and "mad"."""
    for name, dtype, instruction in (
        ("fma.f32", "float32", "fma.rn.f32"), ("fma.f64", "float64", "fma.rn.f64"), ("fma.i32", "int32", "mad.lo.s32"),
    ):  # fmt: skip
        yield MmaAtom(
            name, "simt", (1, 1, 1), dtype, dtype, dtype, instruction, (2, 0), majors="", places=CuteLayout(1, 0)
        )


def _mma_sync() -> Iterator[MmaAtom]:
    """PTX ISA, "mma": shapes, types and "Target ISA Notes". The first row of a shape is the one that its name means."""

    def row(shape: tuple[int, int, int], types: tuple[str, str, str], capability: tuple[int, int]) -> MmaAtom:
        a, b, c = types
        spelled = ".".join(_PTX[t] for t in (c, a, b, c))
        stem = _spell_shape(shape)
        instruction = f"mma.sync.aligned.{stem}.row.col.{spelled}"
        return MmaAtom(f"mma.{stem}.{spelled}", "mma_sync", shape, a, b, c, instruction, capability)

    half, brain, tf32, double = "float16", "bfloat16", "tfloat32", "float64"
    for k, least in ((16, (8, 0)), (8, (7, 5))):
        yield row((16, 8, k), (half, half, "float32"), least)
        yield row((16, 8, k), (half, half, half), least)
        yield row((16, 8, k), (brain, brain, "float32"), (8, 0))
    for k in (8, 4):
        yield row((16, 8, k), (tf32, tf32, "float32"), (8, 0))
    for a in _BYTES:
        for b in _BYTES:
            yield row((16, 8, 32), (a, b, "int32"), (8, 0))
    for a in _FLOAT8:
        for b in _FLOAT8:
            yield row((16, 8, 32), (a, b, "float32"), (8, 9))
    yield row((8, 8, 4), (double, double, double), (8, 0))
    for k in (4, 8, 16):
        yield row((16, 8, k), (double, double, double), (9, 0))


def _quad_pairs() -> Iterator[MmaAtom]:
    """Volta's m8n8k4: lanes 0 to 3 and 16 to 19 are the first of four quad pairs (PTX ISA, "Matrix Fragments for
    mma.m8n8k4 with .f16"). Later GPUs emulate it, so there is no instruction to use."""
    for majors in ("tn", "nt", "nn", "tt"):
        for c in ("float32", "float16"):
            spelled = ".".join(_PTX[t] for t in (c, "float16", "float16", c))
            yield MmaAtom(
                f"mma.m8n8k4.{majors}.{spelled}", "quad_pair", (8, 8, 4), "float16", "float16", c, "", (7, 0),
                majors=majors, places=CuteLayout((4, 2), (1, 16)),
            )  # fmt: skip


def _asynchronous() -> Iterator[tuple[int, int, str, str, str]]:
    """(N, K, A, B, C) of the asynchronous products: N in steps of 8 up to 256, of integers 8, 24 or a multiple of 16.

    wgmma and tcgen05 with one CTA have the same (PTX ISA, "wgmma.mma_async" and tcgen05 "Supported Matrix Shapes").
    """
    kinds = [(16, a, a, c) for a, c in (("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"))]
    kinds += [(8, "tfloat32", "tfloat32", "float32")]
    kinds += [(32, a, b, c) for c in ("float32", "float16") for a in _FLOAT8 for b in _FLOAT8]
    kinds += [(32, a, b, "int32") for a in _BYTES for b in _BYTES]
    for k, a, b, c in kinds:
        for n in range(8, 257, 8):
            if c != "int32" or not n % 16 or n <= 24:
                yield n, k, a, b, c


def _wgmma() -> Iterator[MmaAtom]:
    """A warpgroup's, of 64 rows."""
    for n, k, a, b, c in _asynchronous():
        name = f"{_spell_shape((64, n, k))}.{'.'.join(_PTX[t] for t in (c, a, b))}"
        yield MmaAtom(
            f"wgmma.{name}", "wgmma", (64, n, k), a, b, c, f"wgmma.mma_async.sync.aligned.{name}", (9, 0), "wgmma",
            places=CuteLayout(128, 1),
        )  # fmt: skip


# A's type -> the kind that tcgen05.mma names, without factors (PTX ISA, tcgen05 "Supported Data Types").
_TCGEN05_KINDS = {
    "float16": "f16", "bfloat16": "f16", "tfloat32": "tf32", "int8": "i8", "uint8": "i8", "float8_e4m3fn": "f8f6f4",
    "float8_e5m2": "f8f6f4",
}  # fmt: skip


SCALED_DEPTH = 32  # elements along K that have one factor of mxf8f6f4


def _tcgen05() -> Iterator[MmaAtom]:
    """Products into tensor memory, dense and without ``.ws``: of one CTA into 64 or 128 lanes, of a pair into 128.

    Of a pair N comes in twice the steps (PTX ISA, tcgen05 "Supported Matrix Shapes"). With scale factors of one CTA
    into 128 lanes alone, one factor an instruction (PTX ISA, tcgen05 "Block Scaling").
    """
    alone = CuteLayout(1, 0)
    for n, k, a, b, c in _asynchronous():
        for m, ctas in ((64, 1), (128, 1), (256, 2)):
            if n % ((32 if c == "int32" else 16) if ctas == 2 else 8):
                continue
            name = f"tcgen05.{_spell_shape((m, n, k))}.{'.'.join(_PTX[t] for t in (c, a, b))}"
            instruction = f"tcgen05.mma.cta_group::{ctas}.kind::{_TCGEN05_KINDS[a]}"
            yield MmaAtom(name, "tcgen05", (m, n, k), a, b, c, instruction, (10, 0), "tcgen05", places=alone)
    for n, k, a, b, c in _asynchronous():
        if k == SCALED_DEPTH and a in _FLOAT8 and c == "float32":
            name = f"tcgen05.mxf8f6f4.{_spell_shape((128, n, k))}.{'.'.join(_PTX[t] for t in (c, a, b))}"
            instruction = "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale"
            yield MmaAtom(
                name, "tcgen05", (128, n, k), a, b, c, instruction, (10, 0), "tcgen05", places=alone, factors=FACTOR
            )


ATOMS: tuple[MmaAtom, ...] = (*_simt(), *_mma_sync(), *_quad_pairs(), *_wgmma(), *_tcgen05())


# ---------------------------------------------------------------- names
_CUTE = re.compile(r"SM\d+_(\d+)x(\d+)x(\d+)_([A-Z0-9]+)_([TN]{2})")
_UNIVERSAL = {"float": "fma.f32", "double": "fma.f64", "int": "fma.i32"}


@cache
def _by_name() -> dict[str, tuple[MmaAtom, ...]]:
    found: dict[str, list[MmaAtom]] = {}
    for atom in ATOMS:
        names = [atom.name, atom.stem] if atom.kind != "simt" else [atom.name]
        if atom.a == atom.b and atom.kind != "simt":
            names.append(f"{atom.stem}.{_PTX[atom.a]}")
        for name in names:
            found.setdefault(name, []).append(atom)
    return {name: tuple(rows) for name, rows in found.items()}


def find_atom(name: str, a: str | None = None, b: str | None = None, c: str | None = None) -> MmaAtom:
    """The row of a name, of operands of types ``a``, ``b`` and ``c`` where they are known.

    A name may leave out types: mma.m16n8k16, mma.m16n8k16.bf16 and mma.m16n8k16.f32.bf16.bf16.f32 are names; the first
    row that fits is meant. CuTe's names (SM80_16x8x16_F32F16F16F32_TN, UniversalFMA<float>) are read too. Raises
    LayoutError for a name that there is not, and for types that its rows do not have.

    >>> find_atom("mma.m16n8k16").instruction
    'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32'
    >>> find_atom("mma.m16n8k8", a="tfloat32").c
    'float32'
    """
    rows = _by_name().get(_from_cute(name)) if isinstance(name, str) else None
    if rows is None:
        raise _no_atom(name)
    wanted = {"A": a, "B": b, "C": c}
    for row in rows:
        if all(dtype in (None, row.dtype(operand)) for operand, dtype in wanted.items()):
            return row
    asked = ", ".join(f"{operand} of {dtype}" for operand, dtype in wanted.items() if dtype)
    has = "; ".join(dict.fromkeys(f"{row.a} x {row.b} -> {row.c}" for row in rows))
    raise LayoutError(f"{name} does not take {asked}", hint=f"it has {has}")


def _no_atom(name: object) -> LayoutError:
    names = _by_name()
    near = find_near(str(name)[:60], names)
    few = [n for n in names if not n.startswith(("wgmma", "tcgen05"))]
    stems = [n for n in few if n.count(".") == 1 or (n.startswith("mma.m8n8k4.") and n.count(".") < 3)]
    others = "wgmma.m64nNk16, k8 or k32, tcgen05.m64nNk16, m128nNk16 or m256nNk16, k8 or k32"
    hint = f"did you mean '{near}'?" if near else f"atoms are {', '.join(stems)}, {others}"
    return LayoutError(f"there is no atom {name!r}", hint=hint)


def _from_cute(name: str) -> str:
    """A name of CuTe's as one of the table; others are themselves."""
    if name.startswith("UniversalFMA<"):
        return _UNIVERSAL.get(name[len("UniversalFMA<") :].rstrip(">").split(",")[0], name)
    found = _CUTE.fullmatch(name)
    if not found:
        return name
    m, n, k = (int(found[i]) for i in (1, 2, 3))
    for atom in (atom for atom in ATOMS if atom.kind != "tcgen05"):  # whose names in CuTe have no shape
        types = "".join(_PTX[t].upper() for t in (atom.c, atom.a, atom.b, atom.c))
        if (atom.shape, types, atom.majors) == ((m, n, k), found[4], found[5].lower()):
            return atom.name
    return name


# ---------------------------------------------------------------- who holds what
@cache
def fragment_of(atom: MmaAtom, operand: str) -> TileLayout:
    """The registers of one atom's threads for operand A [m, k], B [k, n] or C [m, n]: threads, and elements on m.

    Threads are on laneid, those of wgmma on wid_in_wg and laneid; one thread alone has no thread axis. Sources: PTX
    ISA, "Matrix Fragments for mma..." and "Register Fragments" of wgmma.mma_async; A of wgmma may lie in registers as
    here, or in shared memory. Raises LayoutError for another operand, and for what no thread holds: B of wgmma, and
    every operand of tcgen05.

    >>> print(fragment_of(find_atom("mma.m16n8k16"), "B"))
    S[(2, 4, 2, 8):(2, 1@laneid, 1, 4@laneid)]
    >>> print(fragment_of(find_atom("mma.m8n8k4"), "C"))
    S[(8, 4, 2):(4@laneid, 1@laneid, 1)]
    """
    require_operand(operand)
    if atom.kind == "simt":
        return TileLayout((Iter(1, 1),))
    if not is_held(atom, operand):
        raise LayoutError(f"{atom.stem} {_say_where(atom, operand)}: no thread holds it", hint=_hint_at(atom, operand))
    if atom.kind == "wgmma":
        return wgmma_operand_a(atom.a) if operand == "A" else wgmma_accumulator(atom.shape[1])
    rows, columns = _quad_pair_iters(atom, operand) if atom.kind == "quad_pair" else _warp_iters(atom, operand)
    return TileLayout(rows + columns)


def require_operand(operand: str) -> None:
    """Raises LayoutError for what is none of A, B and C.

    >>> require_operand("A")
    """
    if not isinstance(operand, str) or operand not in OPERANDS:
        raise LayoutError(f"an operand is 'A', 'B' or 'C', not {operand!r}")


def is_held(atom: MmaAtom, operand: str) -> bool:
    """Whether threads hold an operand in registers. A of wgmma may lie there, or in shared memory.

    >>> [is_held(find_atom("wgmma.m64n8k16"), operand) for operand in OPERANDS]
    [True, False, True]
    """
    return atom.kind != "tcgen05" and (atom.kind != "wgmma" or operand != "B")


def _say_where(atom: MmaAtom, operand: str) -> str:
    return f"reads {operand} from shared memory" if operand != "C" else "keeps C in tensor memory"


def _hint_at(atom: MmaAtom, operand: str) -> str:
    if operand != "C":
        return "its layout is that of the shared buffer, mma_shared_layout(dtype, swizzle_bytes, shape)"
    (m, n, _), datapath = atom.shape, {64: "F", 128: "D", 256: "A"}[atom.shape[0]]
    rows = m // atom.ctas
    return f"its layout is that of the buffer in tensor memory, tmem_datapath_layout('{datapath}', {rows}, {n})"


def _warp_iters(atom: MmaAtom, operand: str) -> tuple[Iters, Iters]:
    """A register holds v elements along K; a lane holds k / (4 v) such vectors, for each of the rows that it has."""
    m, _, k = atom.shape
    v = max(1, REGISTER_BITS // element_bits(atom.a))
    if operand == "B":
        return iters_of_b(k // (4 * v), v)
    rows, columns = C_ITERS if operand == "C" else iters_of_a(k // (4 * v), v)
    return (rows if m == 16 else rows[1:]), columns


def _quad_pair_iters(atom: MmaAtom, operand: str) -> tuple[Iters, Iters]:
    """Lane q + 16 h of the pair, q < 4, h < 2. A and B hold 4 elements along K (t of A, n of B), or along M or N."""
    q, h, four = on_lanes(4, 1), on_lanes(2, 16), Iter(4, 1)
    if operand != "C":
        along_k = atom.majors["AB".index(operand)] == "tn"["AB".index(operand)]
        outer, k = ((h, q), (four,)) if along_k else ((h, four), (q,))
        return (outer, k) if operand == "A" else (k, outer)
    if atom.c == "float16":
        return (h, q), (Iter(8, 1),)
    return (h, Iter(2, 2), on_lanes(2, 1)), (Iter(2, 4), on_lanes(2, 2), Iter(2, 1))
