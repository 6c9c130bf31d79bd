"""What tcgen05.mma is told of a product in 32 bits: its types, how its operands lie, M and N, and where factors are.

Source: PTX ISA, tcgen05 "Instruction descriptor", and "Supported Matrix Shapes" for what there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_SUMS = {"float16": 0, "float32": 1, "int32": 2}
_NARROW = {
    "float8_e4m3fn": 0, "float8_e5m2": 1, "float6_e2m3fn": 3, "float6_e3m2fn": 4, "float4_e2m1fn": 5,
}  # fmt: skip
FLOAT4, FLOAT4_PACKED = "float4_e2m1fn", 1  # the number where both operands are float4, two elements a byte
_INTS = {"uint8": 0, "int8": 1}
_FORMATS = {"float16": 0, "bfloat16": 1, "tfloat32": 2, **_NARROW, **_INTS}
_FACTORS = {"float8_e4m3fn": 0, "float8_e8m0fnu": 1}
# kind -> types of A and B, types of C; A and B of f16 and tf32 are of one type
_KINDS = {
    "f16": (("float16", "bfloat16"), ("float32", "float16")),
    "tf32": (("tfloat32",), ("float32",)),
    "i8": (tuple(_INTS), ("int32",)),
    "f8f6f4": (tuple(_NARROW), ("float32", "float16")),
}
_STEP = 8  # of N; M is counted in 16 rows
_MOST_COLUMNS = 256
_LANES = 128
_MANY_COLUMNS = 32  # from which integers come in twice the step


@dataclass(frozen=True)
class InstructionDescriptor:
    """One product of tcgen05.mma, dense and without ``.ws``: c[m, n] += a[m, k] b[k, n].

    ``m`` and ``n`` are the whole product's: of both CTAs where it is a ``pair``'s. ``a``, ``b`` and ``c`` are types, of
    tf32 tfloat32. ``a_along`` and ``b_along``: an operand's elements follow one another along "k" or "mn".
    ``factors``: the type of the factors of a and b (float8_e8m0fnu or float8_e4m3fn), "" without them;
    ``a_factor`` and ``b_factor``: which bytes of each column of theirs the product takes, 0 to 3.
    """

    m: int
    n: int
    a: str
    b: str
    c: str
    a_along: str = "k"
    b_along: str = "k"
    pair: bool = False
    factors: str = ""
    a_factor: int = 0
    b_factor: int = 0

    @property
    def kind(self) -> str:
        """The ``.kind`` that tcgen05.mma names; "" where none has these types.

        Two operands of float4 with factors are packed, as mxf4 and mxf4nvf4 read them.

        >>> InstructionDescriptor(128, 256, "bfloat16", "bfloat16", "float32").kind
        'f16'
        """
        for kind, (factors, sums) in _KINDS.items():
            is_one = kind not in ("f16", "tf32") or self.a == self.b
            if self.a in factors and self.b in factors and self.c in sums and is_one:
                return "" if (self.a, self.c) == ("bfloat16", "float16") else self._with_factors(kind)
        return ""

    def _with_factors(self, kind: str) -> str:
        if not self.factors:
            return kind
        if kind != "f8f6f4" or self.c != "float32" or self.factors not in _FACTORS:
            return ""
        if self.a == self.b == FLOAT4:
            return "mxf4" if self.factors == "float8_e8m0fnu" else "mxf4nvf4"
        return "mxf8f6f4" if self.factors == "float8_e8m0fnu" else ""

    def problem(self) -> str:
        """Why there is no such product; "" where there is.

        >>> InstructionDescriptor(128, 260, "float16", "float16", "float32").problem()
        'f16 multiplies 8 to 256 columns in steps of 8, not 260'
        """
        if not self.kind:
            factors = f" with factors of {self.factors}" if self.factors else ""
            return f"tcgen05.mma does not multiply {self.a} by {self.b} into {self.c}{factors}"
        whole = 2 * _LANES if self.pair else _LANES
        rows = (whole,) if self.factors and not self.pair else (whole // 2, whole)
        if self.m not in rows:
            of = "a pair of CTAs" if self.pair else "one CTA"
            return f"{self.kind} of {of} multiplies {' or '.join(map(str, rows))} rows, not {self.m}"
        step = self._step()
        if self.n % step or not step <= self.n <= _MOST_COLUMNS:
            return f"{self.kind} multiplies {step} to {_MOST_COLUMNS} columns in steps of {step}, not {self.n}"
        if not {self.a_along, self.b_along} <= {"k", "mn"}:
            return f"an operand lies along k or mn, not {self.a_along} and {self.b_along}"
        if "mn" in (self.a_along, self.b_along) and self.kind in ("mxf4", "mxf4nvf4"):
            return f"both operands of {self.kind} lie along K"
        return self._find_wrong_factor()

    def _step(self) -> int:
        """The step of N: larger for pairs, for many columns of integers, and for bytes that lie along N."""
        is_many = self.kind == "i8" and (self.pair or self.n >= _MANY_COLUMNS)
        is_across = self.b_along == "mn" and self.b in (*_NARROW, *_INTS)
        return _STEP * (2 if self.pair else 1) * (2 if is_many or is_across else 1)

    def _find_wrong_factor(self) -> str:
        every = {"mxf8f6f4": (0, 1, 2, 3), "mxf4": (0, 2)}.get(self.kind, (0,))
        if {self.a_factor, self.b_factor} <= set(every):
            return ""
        found = f"{self.a_factor} and {self.b_factor}"
        return f"the factors of {self.kind} begin at byte {' or '.join(map(str, every))} of a column, not {found}"

    def encode(self) -> int:
        """The 32 bits of the descriptor of a product that there is.

        >>> hex(InstructionDescriptor(128, 256, "bfloat16", "bfloat16", "float32").encode())
        '0x8400490'
        """
        is_packed = self.factors and self.a == self.b == FLOAT4
        a, b = (FLOAT4_PACKED if is_packed else _FORMATS[one] for one in (self.a, self.b))
        majors = (self.a_along == "mn") << 15 | (self.b_along == "mn") << 16
        bits = a << 7 | b << 10 | majors | self.n // 8 << 17 | self.m // 16 << 24
        if not self.factors:
            return bits | _SUMS[self.c] << 4
        return bits | self.b_factor << 4 | _FACTORS[self.factors] << 23 | self.a_factor << 29


def decode_instruction(bits: int, kind: str) -> InstructionDescriptor:
    """The product of one CTA that 32 bits say, under the ``.kind`` that stands beside them: what ``encode`` put there.

    A pair's bits are the same; ``m`` says then how many rows both have. Raises ValueError for bits of no product.

    >>> decode_instruction(0x8400490, "f16").n, decode_instruction(0x8400490, "f16").a
    (256, 'bfloat16')
    """
    is_scaled, is_packed = kind.startswith("mx"), kind in ("mxf4", "mxf4nvf4")
    of_kind = _KINDS["f8f6f4" if is_scaled else kind][0]
    types = {FLOAT4_PACKED: FLOAT4} if is_packed else {_FORMATS[one]: one for one in of_kind}
    sums = {number: name for name, number in _SUMS.items()}
    factors = {number: name for name, number in _FACTORS.items()}
    a, b, c = bits >> 7 & 7, bits >> 10 & 7, bits >> 4 & 3
    if a not in types or b not in types or (c not in sums and not is_scaled):
        raise ValueError(f"0x{bits:08x} says no product of {kind}")
    more: dict[str, Any] = {"a_along": "mn" if bits >> 15 & 1 else "k", "b_along": "mn" if bits >> 16 & 1 else "k"}
    if is_scaled:
        more |= {"factors": factors[bits >> 23 & 1], "a_factor": bits >> 29 & 3, "b_factor": c}
    found = InstructionDescriptor(
        (bits >> 24 & 31) * 16, (bits >> 17 & 63) * 8, types[a], types[b], "float32" if is_scaled else sums[c],
        **more,
    )  # fmt: skip
    if found.encode() != bits:
        raise ValueError(f"0x{bits:08x} sets bits that no product of {kind} has")
    return found
