"""The specs that compute on rows, at the sizes at which they are measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = 32768
SPECS = ("softmax_rows", "rmsnorm", "layernorm", "swiglu", "quantize_rows")
# Threads of a CTA by the length of a row: 8 elements, 16 bytes, a thread and more; 1024 threads are slow for bfloat16.
THREADS = {
    "bfloat16": {1024: 128, 4096: 256, 8192: 256, 16384: 512},
    "float32": {1024: 128, 4096: 256, 8192: 512, 16384: 1024},
}
WITHOUT_MEETING = {"swiglu"}  # specs whose threads never wait for each other: 16 elements a thread at most
AUTOTUNED = (4096, 16384)  # lengths at which torch.compile searches too: a search takes seconds


@dataclass(frozen=True)
class ComputeCase:
    """A spec of specs/ over rows of a length: one CTA a row. Elements that were bfloat16 are of ``dtype``."""

    spec: str
    columns: int
    dtype: str
    rows: int = ROWS

    @property
    def name(self) -> str:
        return f"{self.spec} {self.rows}x{self.columns} {self.dtype}"

    @property
    def params(self) -> dict[str, int]:
        threads = THREADS[self.dtype][self.columns]
        if self.spec in WITHOUT_MEETING:
            threads = max(threads, min(1024, self.columns // 16))
        return {"M": self.rows, "N": self.columns, "T": threads}

    @property
    def text(self) -> str:
        """The spec as text, with its types replaced."""
        text = (ROOT / "specs" / f"{self.spec}.yaml").read_text(encoding="utf-8")
        assert "bfloat16" in text
        return text.replace("dtype: bfloat16", f"dtype: {self.dtype}")


def compute_cases() -> Iterator[ComputeCase]:
    """All of them, those that most people have first, so that a run that is cut off has measured these.

    >>> [case.name for case in compute_cases()][:2], len(list(compute_cases()))
    (['softmax_rows 32768x4096 bfloat16', 'rmsnorm 32768x4096 bfloat16'], 40)
    """
    for dtype in THREADS:
        for columns in (4096, 8192, 1024, 16384):
            for spec in SPECS:
                yield ComputeCase(spec, columns, dtype)
