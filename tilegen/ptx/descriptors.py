"""Descriptors of wgmma and tcgen05: where a matrix lies in shared memory; shape and types of a product."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilegen.ptx.asynchronous import swizzle_bytes
from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.matrices import BITS, unpack
from tilegen.ptx.memory import place_shared
from tilegen.ptx.state import PEER, Fault

_SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
_SPANS_OF_TCGEN05 = {0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}
# Elements narrower than a byte: 16 of them lie in the first bits of 16 bytes.
NARROW = {
    "e2m3": (6, ml_dtypes.float6_e2m3fn),
    "e3m2": (6, ml_dtypes.float6_e3m2fn),
    "e2m1": (4, ml_dtypes.float4_e2m1fn),
}


@dataclass(frozen=True)
class Matrix:
    """A descriptor, decoded: bytes; ``start`` is an address in the CTA's shared memory.

    ``span``: bytes of a row of the swizzle pattern, 0 without one; ``atom``: bytes that it moves together.
    """

    start: int
    leading: int
    stride: int
    span: int
    atom: int = 16

    @property
    def pattern(self) -> int:
        """The bytes after which a swizzle is the same again: 8 rows, or 4 with atoms of 32 bytes."""
        return 128 // self.atom * self.span


@dataclass(frozen=True)
class Tile:
    """What a product reads of a matrix: ``shape`` [mn, k], the type of elements, and along which its rows lie."""

    shape: tuple[int, int]
    kind: str
    along_k: bool


@dataclass(frozen=True)
class Reader:
    """An agent that reads, the clock of what it comes after, a lane of its CTA; ``rank``: the CTA that is read."""

    agent: int
    row: Array
    lane: int
    rank: int = -1


def read_descriptor(bits: int) -> Matrix:
    """Fields of 64 bits (PTX ISA, wgmma: Matrix Descriptor Format).

    >>> read_descriptor(1 << 62 | (1024 >> 4) << 32 | 1 << 16 | 0x40)
    Matrix(start=1024, leading=16, stride=1024, span=128, atom=16)
    """
    if bits >> 49 & 7:
        raise Fault("a matrix descriptor with a base offset is not carried out")
    return Matrix((bits & 0x3FFF) << 4, (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4, _SPANS[bits >> 62 & 3])


def read_tcgen05_descriptor(bits: int) -> Matrix:
    """Fields of 64 bits (PTX ISA, tcgen05: Shared memory descriptor).

    >>> read_tcgen05_descriptor(0x4000404000000040)
    Matrix(start=1024, leading=0, stride=1024, span=128, atom=16)
    """
    if bits >> 46 & 7 != 1:
        raise Fault(f"a matrix descriptor of version {bits >> 46 & 7}: tcgen05 takes version 1")
    if bits >> 49 & 15:
        raise Fault(
            "a matrix descriptor with a base offset, or with an address as its leading offset, is not carried out"
        )
    if bits >> 53 & 255 or bits >> 61 not in _SPANS_OF_TCGEN05 or bits >> 14 & 3 or bits >> 30 & 3:
        raise Fault(f"a matrix descriptor of tcgen05 with bits that have no meaning: {bits:#x}")
    span, atom = _SPANS_OF_TCGEN05[bits >> 61]
    found = Matrix((bits & 0x3FFF) << 4, (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4, span, atom)
    inside = found.start % found.pattern if span else 0
    if span and inside >= span:
        raise Fault(f"a matrix descriptor that begins at {found.start}, {inside} bytes inside of a swizzle's pattern")
    return found


def place_matrix(matrix: Matrix, shape: tuple[int, int], elem_bytes: int, along_k: bool) -> Array:
    """The byte address of each element [mn, k] (PTX ISA, wgmma and tcgen05: strides, shared memory layouts)."""
    mn, k = np.indices(shape)
    unit = 16 // elem_bytes
    if along_k:
        pitch = matrix.span or 16
        chunk = k // unit * (16 if matrix.span else matrix.leading)
        at = mn % 8 * pitch + mn // 8 * matrix.stride + chunk + k % unit * elem_bytes
    elif matrix.span:
        row_elems, rows = matrix.span // elem_bytes, 128 // matrix.atom
        at = (
            mn % row_elems * elem_bytes
            + mn // row_elems * matrix.leading
            + k % rows * matrix.span
            + k // rows * matrix.stride
        )
    else:
        at = mn % unit * elem_bytes + mn // unit * matrix.stride + k % 8 * 16 + k // 8 * matrix.leading
    if matrix.atom == 32:
        at = matrix.start + at
        return np.asarray(at ^ (at >> 7 & 3) << 5)
    return swizzle_bytes(matrix.start + at, matrix.span)


def read_elements(machine: Machine, reader: Reader, matrix: Matrix, tile: Tile) -> Array:
    """Numbers [mn, k] of shared memory, as doubles."""
    size = BITS.get(tile.kind, 8) // 8
    key = matrix, matrix.start & 1023, tile
    start = matrix.start & ~1023
    if key not in machine.matrices:
        machine.matrices[key] = place_matrix(matrix, tile.shape, size, tile.along_k) - start
    byte = find_bytes(machine, reader, machine.matrices[key] + start, size)
    if tile.kind in NARROW:
        return _read_narrow(machine, reader, byte, tile.kind)
    read_bytes(machine, reader, byte)
    return unpack_bytes(machine.shared_views[size][byte // size], tile.kind)


def find_bytes(machine: Machine, reader: Reader, at: Array, size: int) -> Array:
    """Bytes of ``state.shared`` of addresses in the reader's shared memory."""
    low, high = int(at.min()), int(at.max()) + size
    peer = reader.rank + 1 << PEER
    start = int(place_shared(machine, np.array([low | peer]), np.array([reader.lane]), high - low)[0]) - low
    return at + start


def read_bytes(machine: Machine, reader: Reader, byte: Array) -> None:
    shadow = machine.shared_shadow
    shadow.read_async(reader.agent, np.unique(byte // shadow.granule), reader.row)


def unpack_bytes(bits: Array, kind: str) -> Array:
    """Elements of shared memory as doubles."""
    words = np.ascontiguousarray(bits).view(np.uint32) if bits.dtype.itemsize < 4 else bits
    return unpack(words, kind).reshape(bits.shape)


def _read_narrow(machine: Machine, reader: Reader, byte: Array, kind: str) -> Array:
    """Elements of 6 or 4 bits; ``byte``: where each would lie if it had 8.

    Sixteen of them are the first bits of 16 bytes, and the others fill up (PTX ISA, tcgen05: Packing formats).
    """
    width, dtype = NARROW[kind]
    first = byte % 16 * width
    low = byte - byte % 16 + first // 8
    high = byte - byte % 16 + (first + width - 1) // 8
    read_bytes(machine, reader, np.stack([low, high]))
    shared = machine.state.shared
    both = shared[low].astype(np.uint16) | shared[high].astype(np.uint16) << 8
    both = np.where(low == high, shared[low], both)
    found: Array = (both >> first % 8 & (1 << width) - 1).astype(np.uint8).view(dtype).astype(np.float64)
    return found


# ---- shape and types of a product
@dataclass(frozen=True)
class Kind:
    """A kind of tcgen05.mma: K of an instruction, the codes of its types, whether it takes scale factors."""

    k: int
    types: dict[int, str]
    sums: dict[int, str]
    is_scaled: bool = False


_BYTES = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
KINDS = {
    "f16": Kind(16, {0: "f16", 1: "bf16"}, {0: "f16", 1: "f32"}),
    "tf32": Kind(8, {2: "tf32"}, {1: "f32"}),
    "i8": Kind(32, {0: "u8", 1: "s8"}, {2: "s32"}),
    "f8f6f4": Kind(32, _BYTES, {0: "f16", 1: "f32"}),
    "mxf8f6f4": Kind(32, _BYTES, {1: "f32"}, is_scaled=True),
}


@dataclass(frozen=True)
class Product:
    """A product of tcgen05: D [m, n] of A [m, k] and B [n, k]; m and n are those of both CTAs of a pair.

    ``mn_majors``: of A, of B; ``signs``: 1, or -1 where one is negated; ``ids``: bytes of cells that are scale factors.
    """

    m: int
    n: int
    k: int
    types: tuple[str, str]
    sums: str
    mn_majors: tuple[bool, bool]
    signs: tuple[int, int]
    ids: tuple[int, int]
    saturates: bool


def read_instruction(bits: int, kind: str, group: int) -> Product:
    """Fields of 32 bits (PTX ISA, tcgen05: Instruction descriptor). Raises Fault for what no instruction is.

    >>> one = read_instruction(0x8400490, "f16", 1)
    >>> one.m, one.n, one.types, one.sums
    (128, 256, ('bf16', 'bf16'), 'f32')
    """
    its = KINDS[kind]
    where = f"the instruction descriptor {bits:#x} of kind::{kind}"
    if bits & 7:
        raise Fault(f"{where}: sparse products are not carried out")
    a, b = bits >> 7 & 7, bits >> 10 & 7
    sums = 1 if its.is_scaled else bits >> 4 & 3
    if a not in its.types or b not in its.types or sums not in its.sums:
        raise Fault(f"{where} has types that the kind has not")
    types, mn_majors = (its.types[a], its.types[b]), (bool(bits >> 15 & 1), bool(bits >> 16 & 1))
    if its.sums[sums] == "f16" and "bf16" in types:
        raise Fault(f"{where}: sums of bf16 are f32")
    reserved = bits >> 6 & 1 or bits >> 31 if its.is_scaled else bits >> 6 & 1 or bits >> 23 & 1 or bits >> 29
    if reserved or (kind != "i8" and bits >> 3 & 1) or (kind == "i8" and bits >> 13 & 3):
        raise Fault(f"{where} has bits that have no meaning, or none that is carried out")
    if its.is_scaled and not bits >> 23 & 1:
        raise Fault(f"{where}: its factors are ue8m0")
    m, n = (bits >> 24 & 31) * 16, (bits >> 17 & 63) * 8
    ids = (bits >> 29 & 3, bits >> 4 & 3) if its.is_scaled else (0, 0)
    signs = (1 - 2 * (bits >> 13 & 1), 1 - 2 * (bits >> 14 & 1))
    found = Product(m, n, its.k, types, its.sums[sums], mn_majors, signs, ids, bool(bits >> 3 & 1))
    _check_shape(found, kind, group, where)
    return found


def _check_shape(one: Product, kind: str, group: int, where: str) -> None:
    """PTX ISA, tcgen05: Matrix and Data movement shape, and the table of majors."""
    allowed = (128, 256) if group == 2 else (128,) if kind == "mxf8f6f4" else (64, 128)
    step = 8 * group
    if kind == "i8" and one.n > 32:
        step = 16 * group
    if BITS.get(one.types[1], 8) == 8 and one.mn_majors[1]:
        step = 16 * group
    if one.m not in allowed or one.n % step or not 0 < one.n <= 256:
        has = f"cta_group::{group} has M of {' or '.join(map(str, allowed))}, and N by {step} up to 256"
        raise Fault(f"{where}: m{one.m}n{one.n} is no shape: {has}")
