"""How wgmma and tcgen05 find a matrix in shared memory: its descriptor, and the bytes that the hardware reads by it.

Sources: PTX ISA, wgmma.mma_async, "Shared Memory Matrix Layout": Strides, Canonical Layouts, Matrix Descriptor Format;
tcgen05, "Canonical Layouts" and "Shared memory descriptor".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 16  # swizzles move whole chunks, and all fields count in them
# Chunks that one swizzle of tcgen05 moves, its rows, and the elements that it is for, along M or N.
WIDE_BYTES, WIDE_ROW_BYTES, WIDE_ELEM_BYTES = 32, 128, 4
DEPTH_BYTES = 32  # that one instruction multiplies of each row along K, whatever the type
GROUP = 8  # rows, or steps along K, that follow one another at a pitch of their own
MODES = {0: 0, 128: 1, 64: 2, 32: 3}  # bytes of a swizzle -> its number in bits 62 and 63
WGMMA, TCGEN05 = "wgmma", "tcgen05"  # engines: what reads a matrix by a descriptor
# engine -> bytes of the elements that may lie along M or N, their chunks whole in every swizzle
_ALONG_MN = {WGMMA: (2,), TCGEN05: (1, 2)}
_VERSION = {WGMMA: 0, TCGEN05: 1}  # in bits 46 to 48: tcgen05 reads no descriptor of wgmma's
_MODE_AT = {WGMMA: 62, TCGEN05: 61}  # the bit that the number of the swizzle begins at
_FIELD_LIMIT = 1 << 18  # of an address or an offset in bytes
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class MatrixDescriptor:
    """The matrix that one product reads: ``rows`` along M or N, 32 bytes of each along K, and how it lies.

    ``along``: elements follow one another along "k" or along "mn" (of wgmma those of 2 bytes only). Chunks of
    ``chunk_bytes`` trade places in rows of ``swizzle_bytes`` (0: they do not). A copy to tensor memory reads
    ``depth_bytes`` of each row, 16. ``leading_bytes`` and ``stride_bytes``
    are the descriptor's offsets. ``engine``, wgmma or tcgen05, reads it. Where the matrix begins is the place of the
    step that names it.
    """

    rows: int
    elem_bytes: int
    along: str
    swizzle_bytes: int
    leading_bytes: int
    stride_bytes: int
    engine: str = WGMMA
    chunk_bytes: int = CHUNK_BYTES
    depth_bytes: int = DEPTH_BYTES

    @property
    def depth(self) -> int:
        """Elements along K."""
        return self.depth_bytes // self.elem_bytes

    @property
    def elems(self) -> int:
        return self.rows * self.depth

    @property
    def pattern_bytes(self) -> int:
        """What the places repeat after, before which base offset 0 is the only one that is right."""
        return max(CHUNK_BYTES, GROUP * self.swizzle_bytes)

    @property
    def room_bytes(self) -> int:
        """How far from the start of a pattern a matrix may begin: along K, in the first of its rows."""
        return max(1, self.swizzle_bytes) if self.along == "k" else 1

    @property
    def span_bytes(self) -> int:
        """Bytes from the matrix's start, before the swizzle, to behind its last element."""
        return int(self.offsets().max()) + self.elem_bytes

    @property
    def group(self) -> int:
        """Rows, or steps along K, that follow one another before the stride: a pattern of wide chunks has half of 8."""
        return GROUP * CHUNK_BYTES // self.chunk_bytes

    @property
    def uses_leading(self) -> bool:
        """Whether the hardware reads the leading offset: not along K under a swizzle, where rows are whole.

        >>> [MatrixDescriptor(64, 2, "k", swizzle, 128, 1024).uses_leading for swizzle in (128, 0)]
        [False, True]
        """
        return self.along == "mn" or not self.swizzle_bytes

    @property
    def mode(self) -> int:
        """The number of the swizzle, as the descriptor has it: of wgmma in bits 62 and 63, of tcgen05 in 61 to 63.

        >>> [MatrixDescriptor(64, 2, "k", 128, 16, 1024, engine).mode for engine in ("wgmma", "tcgen05")]
        [1, 2]
        """
        if self.engine == WGMMA:
            return MODES[self.swizzle_bytes]
        return 1 if self.chunk_bytes == WIDE_BYTES else 2 * MODES[self.swizzle_bytes]

    def problem(self) -> str:
        """Why there is no such descriptor; "" where there is.

        >>> MatrixDescriptor(64, 2, "k", 128, 16, 1000).problem()
        'its offsets are multiples of 16 bytes below 262144, not 16 and 1000'
        """
        if self.swizzle_bytes not in MODES or self.along not in ("k", "mn") or self.engine not in _ALONG_MN:
            return f"wgmma or tcgen05 reads a matrix along k or mn in rows of 0, 32, 64 or 128 bytes, not {self}"
        if any(x % CHUNK_BYTES or not 0 <= x < _FIELD_LIMIT for x in (self.leading_bytes, self.stride_bytes)):
            found = f"{self.leading_bytes} and {self.stride_bytes}"
            return f"its offsets are multiples of {CHUNK_BYTES} bytes below {_FIELD_LIMIT}, not {found}"
        if wrong := self._find_wrong_chunk():
            return wrong
        if self.along == "mn" and self.rows * self.elem_bytes % max(CHUNK_BYTES, self.swizzle_bytes):
            return f"along M or N it has whole rows of {self.swizzle_bytes} bytes, not {self.rows} elements"
        return ""

    def _find_wrong_chunk(self) -> str:
        """Why chunks of this size may not trade places, with elements that lie so; "" where they may."""
        if self.chunk_bytes == CHUNK_BYTES:
            most = _ALONG_MN[self.engine]
            if self.along == "k" or self.elem_bytes in most:
                return ""
            sizes = f"elements of {' or '.join(map(str, most))} bytes may lie along M or N, not of {self.elem_bytes}"
            if self.engine == WGMMA:
                return f"only {sizes}"
            wide = f"chunks of {WIDE_BYTES} bytes, Swizzle(3, 2, 2) over rows of {WIDE_ROW_BYTES}, which threads write"
            wide = (
                f"; those of {WIDE_ELEM_BYTES} do in {wide} and TMA does not"
                if self.elem_bytes == WIDE_ELEM_BYTES
                else ""
            )
            return f"in chunks of 16 bytes only {sizes}{wide}; along K all may"
        found = self.engine, self.along, self.elem_bytes, self.swizzle_bytes, self.chunk_bytes
        if found == (TCGEN05, "mn", WIDE_ELEM_BYTES, WIDE_ROW_BYTES, WIDE_BYTES):
            return ""
        what = f"{self.engine}'s elements of {self.elem_bytes} bytes along {self.along} in rows of {self.swizzle_bytes}"
        wide = f"{WIDE_ELEM_BYTES} bytes along mn trade places by {WIDE_BYTES} bytes, in rows of {WIDE_ROW_BYTES}"
        return f"only tcgen05's elements of {wide}, not {what} by {self.chunk_bytes}"

    def offsets(self) -> Ints:
        """Bytes from the matrix's start to each element, (rows, depth), before chunks trade places.

        >>> MatrixDescriptor(16, 2, "k", 128, 16, 1024).offsets()[[0, 1, 8], 1].tolist()
        [2, 130, 1026]
        """
        pitch = max(CHUNK_BYTES, self.swizzle_bytes)
        row, k = np.arange(self.rows)[:, None], np.arange(self.depth)[None, :]
        if self.along == "k":
            byte = k * self.elem_bytes
            over = self.leading_bytes if not self.swizzle_bytes else CHUNK_BYTES  # from one chunk to the next
            within = byte // CHUNK_BYTES * over + byte % CHUNK_BYTES
            return row // GROUP * self.stride_bytes + row % GROUP * pitch + within
        byte = row * self.elem_bytes
        over, deep = self.leading_bytes, self.stride_bytes
        if not self.swizzle_bytes:
            over, deep = deep, over
        return byte // pitch * over + byte % pitch + k // self.group * deep + k % self.group * pitch

    def swap_chunks(self, byte: Any) -> Any:
        """Where a byte of shared memory lies, counted from a multiple of the pattern: bits 7 and up choose."""
        return byte ^ ((byte >> 7) & max(0, self.swizzle_bytes // self.chunk_bytes - 1)) * self.chunk_bytes

    def encode(self, start: int) -> int:
        """The 64 bits of the descriptor of a matrix that begins at byte ``start`` of shared memory.

        >>> hex(MatrixDescriptor(64, 2, "k", 128, 16, 1024).encode(0x2020))
        '0x4000004000010202'
        >>> hex(MatrixDescriptor(64, 2, "k", 128, 16, 1024, "tcgen05").encode(0x2020))
        '0x4000404000010202'
        """
        fields = (start, self.leading_bytes, self.stride_bytes)
        first, leading, stride = ((x % _FIELD_LIMIT) // CHUNK_BYTES for x in fields)
        version, mode = _VERSION[self.engine] << 46, self.mode << _MODE_AT[self.engine]
        return first | leading << 16 | stride << 32 | version | mode
