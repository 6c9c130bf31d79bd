"""The permutes that are measured: each a spec text of the op ``permute``, made on the fly.

    python benchmarks/cases.py           # list them
    python benchmarks/cases.py --draw    # draw the odd ones again and say whether they are those of odd_shapes.json
    python benchmarks/cases.py --ragged  # list the ragged ones, which benchmarks/measure_permutes.py measures

The odd ones were drawn by seed 0 and committed before anything was tuned; no kernel may be made for them. Those of TTC
and the tensors are in ttc.json and tensors.json, which say where they come from.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from itertools import pairwise
from math import log, prod
from pathlib import Path
from random import Random

ODD_FILE = Path(__file__).with_name("odd_shapes.json")
SETS = {"ttc": Path(__file__).with_name("ttc.json"), "tensor": Path(__file__).with_name("tensors.json")}
DTYPES = {1: "uint8", 2: "float16", 4: "float32", 8: "float64"}  # by bytes: those that every peer has
BYTES = {name: size for size, name in DTYPES.items()}
RAGGED_BYTES = {"int8": 1, "bfloat16": 2, "float16": 2, "float32": 4}
RAGGED_SEED, RAGGED_COUNT = 39, 40
RAGGED_LEAST, RAGGED_MOST = 4 << 20, 160 << 20  # bytes of an array
LARGEST_SIZE = 10007  # a prime
LEAST_BYTES, MOST_BYTES = 1 << 10, 256 << 20  # of the array; as much again is written
ODD_COUNT = 40


@dataclass(frozen=True)
class Case:
    """One permute: ``shape`` is the source's, dimension d of the destination is dimension ``axes[d]`` of the source."""

    group: str  # transpose | permute | odd | ttc | tensor | ragged
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: str

    @property
    def name(self) -> str:
        """As the kernel is called.

        >>> Case("transpose", (8192, 8192), (1, 0), "float32").name
        'transpose_10_8192x8192_float32'
        """
        return f"{self.group}_{''.join(map(str, self.axes))}_{'x'.join(map(str, self.shape))}_{self.dtype}"

    @property
    def array_bytes(self) -> int:
        """Bytes of the source, and of the destination."""
        return prod(self.shape) * (BYTES | RAGGED_BYTES)[self.dtype]


def spec_text(case: Case, arch: str = "sm_90") -> str:
    """The case as a spec.

    >>> print(spec_text(Case("odd", (3, 5), (1, 0), "uint8")))
    kernel: odd_10_3x5_uint8
    arch: sm_90
    buffers:
      X: {scope: global, dtype: uint8, shape: [3, 5]}
      Y: {scope: global, dtype: uint8, shape: [5, 3]}
    ops:
      - permute: {src: X, dst: Y, axes: [1, 0]}
    <BLANKLINE>
    """
    written = [case.shape[axis] for axis in case.axes]
    return (
        f"kernel: {case.name}\narch: {arch}\nbuffers:\n"
        f"  X: {{scope: global, dtype: {case.dtype}, shape: {list(case.shape)}}}\n"
        f"  Y: {{scope: global, dtype: {case.dtype}, shape: {written}}}\n"
        f"ops:\n  - permute: {{src: X, dst: Y, axes: {list(case.axes)}}}\n"
    )


def all_cases() -> list[Case]:
    """Every case, in the order in which it is measured."""
    return [*transposes(), *permutes(), *odd_cases(), *(case for group in SETS for case in cases_of(group))]


def cases_of(group: str) -> list[Case]:
    """The permutes of a committed set."""
    rows = json.loads(SETS[group].read_text(encoding="utf-8"))["cases"]
    return [Case(group, tuple(row["shape"]), tuple(row["axes"]), row["dtype"]) for row in rows]


def transposes() -> list[Case]:
    """2-D transposes of square matrices."""
    return [Case("transpose", (n, n), (1, 0), DTYPES[size]) for n in (8192, 16384) for size in (4, 2, 1)]


def permutes() -> list[Case]:
    """3-D and 4-D permutes of 256 MiB: a batch of matrices, heads of attention, and dimensions that are all unlike."""
    shapes = {
        (0, 2, 1): (64, 1024, 1024), (0, 2, 1, 3): (8, 2048, 32, 128), (2, 1, 0, 3): (32, 64, 128, 256),
        (3, 2, 1, 0): (32, 64, 128, 256),
    }  # fmt: skip
    return [
        Case("permute", (first * 4 // size, *rest), axes, DTYPES[size])
        for axes, (first, *rest) in shapes.items()
        for size in (4, 2)
    ]


def odd_cases() -> list[Case]:
    """The odd shapes as they were committed."""
    rows = json.loads(ODD_FILE.read_text(encoding="utf-8"))
    return [Case("odd", tuple(row["shape"]), tuple(row["axes"]), row["dtype"]) for row in rows]


# ---------------------------------------------------------------- how the odd ones were drawn
def draw_odd(seed: int = 0, count: int = ODD_COUNT) -> list[Case]:
    """Shapes of rank 2 to 5 and sizes 1 to 10007 that hold 1 KiB to 256 MiB, no permute the identity, none twice.

    The ranks and the element sizes take turns, so that each comes as often. Only ``Random.random`` is used: its
    sequence is the same in every version of Python.
    """
    rng = Random(seed)
    drawn: list[Case] = []
    while len(drawn) < count:
        rank, size = 2 + len(drawn) % 4, (4, 2, 1, 8)[len(drawn) // 4 % 4]
        case = Case("odd", _draw_shape(rng, rank, size), _draw_axes(rng, rank), DTYPES[size])
        if LEAST_BYTES <= case.array_bytes <= MOST_BYTES and list(case.axes) != sorted(case.axes) and case not in drawn:
            drawn.append(case)
    return drawn


def _draw_shape(rng: Random, rank: int, elem_bytes: int) -> tuple[int, ...]:
    """Some sizes 1, a third of the others prime; the whole even on a scale of logarithms, large ones more often."""
    elems = LEAST_BYTES / elem_bytes * (MOST_BYTES / LEAST_BYTES) ** rng.random() ** 0.5
    weights = [0.0 if rng.random() < 1 / 12 else 0.2 - log(1 - rng.random()) for _ in range(rank)]
    sizes = [min(LARGEST_SIZE, round(elems ** (w / max(sum(weights), 0.1)))) for w in weights]
    return tuple(next_prime(n) if rng.random() < 1 / 3 and n > 1 else n for n in sizes)


def _draw_axes(rng: Random, rank: int) -> tuple[int, ...]:
    return tuple(sorted(range(rank), key=[rng.random() for _ in range(rank)].__getitem__))


def next_prime(least: int) -> int:
    """The least prime that is not less.

    >>> next_prime(1), next_prime(8), next_prime(10000)
    (2, 11, 10007)
    """
    n = max(2, least)
    while any(n % k == 0 for k in range(2, int(n**0.5) + 1)):
        n += 1
    return n


# ---------------------------------------------------------------- rows that begin at any byte
REPORTED = (
    ((3667, 6732), (1, 0), "int8"), ((14894, 9728), (1, 0), "int8"), ((2993, 3005), (1, 0), "bfloat16"),
    ((4140, 15112), (1, 0), "float16"), ((34, 17, 19, 9, 49, 10), (3, 1, 5, 4, 0, 2), "int8"),
)  # fmt: skip


def ragged_cases(seed: int = RAGGED_SEED, count: int = RAGGED_COUNT) -> list[Case]:
    """Permutes most of whose rows are no whole vectors: those that were reported, and drawn ones up to ``count``.

    Ranks 2 to 6, 4 to 160 MiB an array. Of the drawn sizes half are made odd, and a third of the rest even but no
    multiple of four. The ranks take turns, two-dimensional ones come twice; no permute is one once merged, none twice.

    >>> cases = ragged_cases()
    >>> len(cases), cases[0].shape, sorted({len(case.shape) for case in cases})
    (40, (3667, 6732), [2, 3, 4, 5, 6])
    """
    rng = Random(seed)
    found = [Case("ragged", *case) for case in REPORTED]
    while len(found) < count:
        rank = (2, 3, 4, 2, 5, 6)[len(found) % 6]
        dtype = ("int8", "int8", *RAGGED_BYTES)[int(rng.random() * 6)]
        elems = RAGGED_LEAST / RAGGED_BYTES[dtype] * (RAGGED_MOST / RAGGED_LEAST) ** rng.random()
        weights = [0.3 + rng.random() for _ in range(rank)]
        sizes = [max(3, round(elems ** (w / sum(weights)))) for w in weights]
        case = Case("ragged", tuple(_make_ragged(rng, n) for n in sizes), _draw_axes(rng, rank), dtype)
        moved = all(b != a + 1 for a, b in pairwise(case.axes))  # no neighbours stay together
        if moved and RAGGED_LEAST <= case.array_bytes <= RAGGED_MOST and case not in found:
            found.append(case)
    return found


def _make_ragged(rng: Random, size: int) -> int:
    chance = rng.random()
    return size | 1 if chance < 1 / 2 else (size | 3) - 1 if chance < 2 / 3 else size


def odd_text(cases: list[Case]) -> str:
    """The text of odd_shapes.json, a case on each line."""
    rows = [json.dumps({"shape": c.shape, "axes": c.axes, "dtype": c.dtype}) for c in cases]
    return "[\n" + ",\n".join(rows) + "\n]\n"


def main() -> int:
    if sys.argv[1:] == ["--draw"]:
        is_same = odd_text(draw_odd()) == ODD_FILE.read_text(encoding="utf-8")
        print(f"{ODD_FILE.name} is {'what seed 0 draws' if is_same else 'NOT what seed 0 draws'}")
        return 0 if is_same else 1
    for case in ragged_cases() if sys.argv[1:] == ["--ragged"] else all_cases():
        print(f"{case.name:48} {case.array_bytes:>12} bytes read, as many written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
