"""The specs that compute on rows, at the sizes at which they are measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = 32768
SPECS = ("softmax_rows", "rmsnorm", "layernorm", "swiglu", "quantize_rows")
AUTOTUNED = (4096, 16384)  # lengths at which torch.compile searches too: a search takes seconds


@dataclass(frozen=True)
class Shape:
    """How a row lies over threads: ``rows`` of them for a CTA, one for each warp; 0: one row, which all share.

    ``ctas`` a multiprocessor, for which the compiler bounds registers; 0: no bound.
    """

    threads: int
    ctas: int = 0
    rows: int = 0


# By the length of a row, for all specs but those of CHOSEN.
SHAPES = {
    "bfloat16": {1024: Shape(128), 4096: Shape(256), 8192: Shape(256), 16384: Shape(512)},
    "float32": {1024: Shape(128), 4096: Shape(256), 8192: Shape(512), 16384: Shape(1024)},
}
CHOSEN = {
    ("softmax_rows", "bfloat16", 1024): Shape(64, rows=2),
    ("rmsnorm", "bfloat16", 1024): Shape(64, rows=2),
    ("layernorm", "bfloat16", 1024): Shape(64, ctas=21),
    ("quantize_rows", "bfloat16", 1024): Shape(64, rows=2),
    ("layernorm", "bfloat16", 4096): Shape(128),
    ("swiglu", "bfloat16", 4096): Shape(256, ctas=5),
    ("softmax_rows", "bfloat16", 8192): Shape(512, ctas=4),
    ("rmsnorm", "bfloat16", 8192): Shape(512, ctas=4),
    ("swiglu", "bfloat16", 8192): Shape(1024, ctas=2),
    ("softmax_rows", "bfloat16", 16384): Shape(256),
    ("rmsnorm", "bfloat16", 16384): Shape(1024, ctas=2),
    ("layernorm", "bfloat16", 16384): Shape(256),
    ("swiglu", "bfloat16", 16384): Shape(1024, ctas=2),
    ("quantize_rows", "bfloat16", 16384): Shape(256, ctas=3),
    ("rmsnorm", "float32", 4096): Shape(512, ctas=2),
    ("layernorm", "float32", 4096): Shape(512),
    ("rmsnorm", "float32", 8192): Shape(1024, ctas=2),
    ("layernorm", "float32", 16384): Shape(512, ctas=2),
}


@dataclass(frozen=True)
class ComputeCase:
    """A spec of specs/ over rows of a length. Elements that were bfloat16 are of ``dtype``."""

    spec: str
    columns: int
    dtype: str
    rows: int = ROWS
    pinned: Shape | None = None

    @property
    def name(self) -> str:
        return f"{self.spec} {self.rows}x{self.columns} {self.dtype}"

    @property
    def shape(self) -> Shape:
        """The pinned one, or the table's."""
        usual = SHAPES[self.dtype][self.columns]
        return self.pinned or CHOSEN.get((self.spec, self.dtype, self.columns), usual)

    @property
    def params(self) -> dict[str, int]:
        return {"M": self.rows, "N": self.columns, "T": self.shape.threads}

    @property
    def text(self) -> str:
        """The spec as text, with its types replaced, its launch bound added, its rows given to warps.

        >>> case = ComputeCase("softmax_rows", 1024, "float32", pinned=Shape(128, 8, 4))
        >>> [line.strip() for line in case.text.splitlines() if line.startswith(("grid", "ctas", "  - cast"))]
        ['grid: {bx: M // 4}', 'ctas_per_sm: 8', '- cast: {scope: warp, src: "X[bx*4 + warpid : +1]", dst: x}']
        """
        text = (ROOT / "specs" / f"{self.spec}.yaml").read_text(encoding="utf-8")
        assert "bfloat16" in text
        text = text.replace("dtype: bfloat16", f"dtype: {self.dtype}")
        if self.shape.ctas:
            text = text.replace("\nthreads: T\n", f"\nthreads: T\nctas_per_sm: {self.shape.ctas}\n")
        if rows := self.shape.rows:
            text = text.replace("M: {default: 256}", f"M: {{default: 256, multiple_of: {rows}}}")
            text = text.replace("grid: {bx: M}", f"grid: {{bx: M // {rows}}}")
            text = text.replace("[bx : +1", f"[bx*{rows} + warpid : +1")
            text = re.sub(r"(\n  - \w+: \{)", r"\1scope: warp, ", text)
        return text


def compute_cases() -> Iterator[ComputeCase]:
    """All of them, those that most people have first, so that a run that is cut off has measured these.

    >>> [case.name for case in compute_cases()][:2], len(list(compute_cases()))
    (['softmax_rows 32768x4096 bfloat16', 'rmsnorm 32768x4096 bfloat16'], 40)
    """
    for dtype in SHAPES:
        for columns in (4096, 8192, 1024, 16384):
            for spec in SPECS:
                yield ComputeCase(spec, columns, dtype)
