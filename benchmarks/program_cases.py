"""What is measured of specs that become several kernels: products whose K is split, sums of arrays, gradients.

    python benchmarks/program_cases.py        # list them

The long products were drawn by seed 1 before anything was tuned for them; no kernel may be made for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Where K is shared, or might be: the six that design3 names, two more of few tiles, and the square that may not lose.
NAMED = (
    (64, 64, 100000), (192, 192, 8192), (1000, 1000, 1000), (2048, 7168, 18432), (512, 4096, 14336), (4096, 4096, 4096),
    (128, 128, 65536), (512, 512, 16384), (8192, 8192, 8192),
)  # fmt: skip
LONG_COUNT, MOST_ELEMENTS = 24, 1 << 27
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # that regret is measured over: those of split: auto
ELEMENTS = 1 << 26  # of an array that is summed


@dataclass(frozen=True)
class SplitCase:
    """M x K by K x N of bfloat16, B by columns."""

    m: int
    n: int
    k: int
    group: str = "named"

    @property
    def name(self) -> str:
        """As tables call the case.

        >>> SplitCase(64, 64, 100000).name
        '64x64x100000'
        """
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        """Operations: a multiplication and an addition each count."""
        return 2.0 * self.m * self.n * self.k

    def spec(self, split: int | str = "auto") -> dict[str, Any]:
        """The spec, its K shared by so many CTAs."""
        shapes = {"A": [self.m, self.k], "B": [self.k, self.n], "D": [self.m, self.n]}
        buffers: dict[str, Any] = {
            name: {"scope": "global", "dtype": "bfloat16", "shape": shape} for name, shape in shapes.items()
        }
        buffers["B"]["layout"] = "col"
        ops = [{"gemm": {"a": "A", "b": "B", "d": "D", "split": split}}]
        return {"kernel": "product", "version": 3, "arch": "sm_90a", "buffers": buffers, "ops": ops}


def named_cases() -> list[SplitCase]:
    return [SplitCase(*sides) for sides in NAMED]


def long_cases(seed: int = 1) -> list[SplitCase]:
    """Products whose K is more than 16 times the larger of M and N. Two of three have rows that TMA can read.

    Only ``Random.random`` is used: its sequence is the same in every version of Python.

    >>> all(case.k > 16 * max(case.m, case.n) for case in long_cases()), len(long_cases())
    (True, 24)
    """
    rng = Random(seed)
    drawn: list[SplitCase] = []

    def draw(least: int, most: int) -> int:
        return round(least * (most / least) ** rng.random())

    while len(drawn) < LONG_COUNT:
        m, n = draw(8, 1024), draw(8, 1024)
        k = draw(16 * max(m, n) + 8, 64 * max(m, n) + 4096)
        if len(drawn) % 3:
            m, n, k = (-(-x // 8) * 8 for x in (m, n, k))
        case = SplitCase(m, n, k, "long")
        if case.k > 16 * max(case.m, case.n) and max(m * k, k * n) <= MOST_ELEMENTS and case not in drawn:
            drawn.append(case)
    return drawn


@dataclass(frozen=True)
class ArrayCase:
    """A spec of arrays, a file of specs/ or as data; ``function``: of torch_programs.py, what it means."""

    name: str
    function: str
    spec: str | Mapping[str, Any]
    params: Mapping[str, int] = field(default_factory=dict)

    def source(self) -> Any:
        """What ``tilegen.build`` takes."""
        return ROOT / "specs" / f"{self.spec}.yaml" if isinstance(self.spec, str) else dict(self.spec)


def array_cases() -> Iterator[ArrayCase]:
    """Sums of 2**26 float32 by rows, by columns and of all, and LayerNorm's backward."""
    side = 1 << (ELEMENTS.bit_length() - 1) // 2
    for function, axis, shape in (("sum_columns", 0, [side]), ("sum_rows", 1, [side]), ("sum_all", "all", [1])):
        buffers = {
            "X": {"scope": "global", "dtype": "float32", "shape": [side, side]},
            "Y": {"scope": "global", "dtype": "float32", "shape": shape},
        }
        ops = [{"reduce_array": {"src": "X", "dst": "Y", "axis": axis, "op": "sum"}}]
        spec = {"kernel": function, "version": 3, "arch": "sm_90a", "buffers": buffers, "ops": ops}
        yield ArrayCase(f"{function} {side}x{side}", function, spec)
    for rows in (16384, 4096):
        yield ArrayCase(f"layernorm_backward {rows}x4096", "layernorm_backward", "layernorm_backward", {"M": rows})


if __name__ == "__main__":
    for listed in (*named_cases(), *long_cases(), *array_cases()):
        print(listed.name)
