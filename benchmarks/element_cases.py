"""Counts, scans, routes and random bits of arrays: what each is in PyTorch, and how its kernel is called.

A case takes torch and the device, and gives a ``Work``. Inputs are random, and rotate through four times the L2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilegen import gpu
from tilegen.bench.measuring import Candidate

ROTATED_L2S = 4
SCANNED, IMAGE = 1 << 24, 1 << 26  # elements, bytes


@dataclass(frozen=True)
class Work:
    """A case on the GPU: ``launch`` runs the kernel on set k, ``check`` raises ValueError where it is wrong.

    ``moved_bytes`` are read and written once; ``read_bytes`` are those that are read. ``eager``: peers that wait for
    the device, which no graph takes.
    """

    launch: Callable[[Any, int], object]
    check: Callable[[Candidate], None]
    peers: Mapping[str, Candidate]
    sets: int
    moved_bytes: int
    read_bytes: int
    eager: Mapping[str, Candidate] = field(default_factory=dict)


Prepare = Callable[[Any, gpu.Device], Work]


@dataclass(frozen=True)
class Case:
    """A spec of specs/ at the sizes that are measured, and what prepares its arrays."""

    params: Mapping[str, int]
    prepare: Prepare


def count_sets(device: gpu.Device, each: int) -> int:
    """Sets of inputs that rotate through four times the L2."""
    return max(2, math.ceil(ROTATED_L2S * device.l2_bytes / each))


def prepare_histogram(torch: Any, device: gpu.Device) -> Work:
    """2^26 bytes, drawn evenly."""
    count = count_sets(device, IMAGE)
    sets = [torch.randint(0, 256, (IMAGE,), device="cuda", dtype=torch.uint8) for _ in range(count)]
    out = torch.empty(256, device="cuda", dtype=torch.uint32)

    def check(run: Candidate) -> None:
        constant = torch.full_like(sets[0], 255)
        for image in (sets[0], constant):
            kept, sets[0] = sets[0], image
            out.view(torch.int32).fill_(-1)
            run(0)
            sets[0] = kept
            if not torch.equal(out.view(torch.int32).long(), torch.bincount(image.int(), minlength=256)):
                raise ValueError("a bin is off")

    peer = lambda k: torch.bincount(sets[k % count], minlength=256)  # noqa: E731
    return Work(
        lambda kernel, k: kernel(sets[k % count], out), check, {}, count, IMAGE, IMAGE, {"torch": peer}
    )  # fmt: skip


def prepare_top_two(torch: Any, device: gpu.Device) -> Work:
    """The two largest of 64 numbers, for each of 524,288 rows; among them rows of equal numbers, and of NaNs."""
    rows, columns = 524_288, 64
    count = count_sets(device, 4 * rows * columns)
    sets = [torch.randn((rows, columns), device="cuda") for _ in range(count)]
    sets[0][:1000] = 1.0
    values = torch.empty((rows, 2), device="cuda")
    places = torch.empty((rows, 2), device="cuda", dtype=torch.int32)

    def check(run: Candidate) -> None:
        values.fill_(float("nan"))
        places.fill_(-1)
        run(0)
        want = torch.sort(sets[0], dim=1, descending=True, stable=True)
        if not (torch.equal(values, want.values[:, :2]) and torch.equal(places.long(), want.indices[:, :2])):
            raise ValueError("a row has others")

    copies = [torch.empty_like(sets[0]) for _ in range(2)]
    read = 4 * rows * columns
    return Work(
        lambda kernel, k: kernel(sets[k % count], values, places), check,
        {
            "torch": lambda k: torch.topk(sets[k % count], 2, dim=1),
            "copy of the input": lambda k: copies[k % 2].copy_(sets[k % count]),
        },
        count, read + 16 * rows, read,
    )  # fmt: skip


def prepare_index_add(torch: Any, device: gpu.Device) -> Work:
    """16384 rows of 4096 numbers added to 16384 others by index, each of them once."""
    rows, width = 16384, 4096
    count = count_sets(device, 2 * rows * width)
    sets = [torch.randn((rows, width), device="cuda").to(torch.bfloat16) for _ in range(count)]
    order = [torch.randperm(rows, device="cuda").int() for _ in range(count)]
    wide = [one.long() for one in order]
    total = torch.zeros((rows, width), device="cuda", dtype=torch.bfloat16)
    other = torch.zeros_like(total)

    def check(run: Candidate) -> None:
        total.copy_(sets[1])
        run(0)
        want = sets[1].clone().index_add_(0, wide[0], sets[0])
        if not torch.equal(total, want):
            raise ValueError("a sum is off")
        total.zero_()

    moved = 3 * 2 * rows * width
    return Work(
        lambda kernel, k: kernel(order[k % count], sets[k % count], total), check,
        {"torch": lambda k: other.index_add_(0, wide[k % count], sets[k % count])}, count, moved, moved * 2 // 3,
    )  # fmt: skip


def prepare_scan_rows(torch: Any, device: gpu.Device) -> Work:
    """Sums so far of 8192 rows of 4096 float32."""
    rows, columns = 8192, 4096
    each = 4 * rows * columns
    count = count_sets(device, each)
    sets = [torch.randn((rows, columns), device="cuda") for _ in range(count)]
    out = [torch.empty((rows, columns), device="cuda") for _ in range(2)]
    compiled = torch.compile(lambda x: torch.cumsum(x, 1))
    return Work(
        lambda kernel, k: kernel(sets[k % count], out[k % 2]), _scan_check(torch, sets, out),
        {"torch": lambda k: torch.cumsum(sets[k % count], 1), "torch.compile": lambda k: compiled(sets[k % count])},
        count, 2 * each, each,
    )  # fmt: skip


def prepare_scan(torch: Any, device: gpu.Device) -> Work:
    """Sums so far of 2^24 float32."""
    count = count_sets(device, 4 * SCANNED)
    sets = [torch.randn(SCANNED, device="cuda") for _ in range(count)]
    out = [torch.empty(SCANNED, device="cuda") for _ in range(2)]
    return Work(
        lambda kernel, k: kernel(sets[k % count], out[k % 2]), _scan_check(torch, sets, out),
        {"torch": lambda k: torch.cumsum(sets[k % count], 0)}, count, 8 * SCANNED, 4 * SCANNED,
    )  # fmt: skip


def _scan_check(torch: Any, sets: list[Any], out: list[Any]) -> Callable[[Candidate], None]:
    """Sums beside those of float64: off by no more than 2^-18 of the sum of what has no sign."""

    def check(run: Candidate) -> None:
        out[0].fill_(float("nan"))
        run(0)
        want, size = (torch.cumsum(x.double(), -1) for x in (sets[0], sets[0].abs()))
        error = ((out[0].double() - want).abs() / size).max().item()
        if not error <= 2.0**-18:
            raise ValueError(f"a sum is off by {error:.2e} of the sum of what has no sign")

    return check


def prepare_dropout(torch: Any, device: gpu.Device) -> Work:
    """2^24 float32, a tenth of them dropped by the words of Philox4x32-10."""
    count = count_sets(device, 8 * SCANNED)
    sets = [torch.randn(SCANNED, device="cuda") for _ in range(count)]
    out = [torch.empty(SCANNED, device="cuda") for _ in range(2)]
    keep = round(0.9 * 2**32)

    def check(run: Candidate) -> None:
        out[0].fill_(float("nan"))
        run(0)
        words = torch.from_numpy(draw_philox(SCANNED, 1234)).cuda()
        want = torch.where(words < keep, sets[0] * torch.tensor(1.1111111, device="cuda"), torch.zeros_like(sets[0]))
        if not torch.equal(out[0], want):
            raise ValueError(f"{int((out[0] != want).sum())} elements are others")

    return Work(
        lambda kernel, k: kernel(sets[k % count], out[k % 2]), check,
        {"torch": lambda k: torch.nn.functional.dropout(sets[k % count], 0.1)}, count, 8 * SCANNED, 4 * SCANNED,
    )  # fmt: skip


def draw_philox(count: int, seed: int, stream: int = 0, offset: int = 0) -> Any:
    """``count`` words of Philox4x32-10 as int64: block b is words 4 b to 4 b + 3 (Salmon and others, 2011, fig. 2)."""
    block, low = np.arange(-(-count // 4), dtype=np.uint64), np.uint64(0xFFFFFFFF)
    words = [block & low, np.full_like(block, offset), np.full_like(block, stream), np.zeros_like(block)]
    keys = [np.uint64(seed), np.uint64(0)]
    for _ in range(10):
        wide = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        high, rest = [w >> np.uint64(32) for w in wide], [w & low for w in wide]
        words = [high[1] ^ words[1] ^ keys[0], rest[1], high[0] ^ words[3] ^ keys[1], rest[0]]
        keys = [(keys[0] + np.uint64(0x9E3779B9)) & low, (keys[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(words, 1).reshape(-1)[:count].astype(np.int64)


CASES = {
    "histogram": Case({"N": IMAGE}, prepare_histogram),
    "top2_rows": Case({"M": 524_288}, prepare_top_two),
    "index_add": Case({"T": 16384, "V": 16384, "D": 4096}, prepare_index_add),
    "scan_rows": Case({"M": 8192, "N": 4096}, prepare_scan_rows),
    "scan": Case({"N": SCANNED}, prepare_scan),
    "dropout_f32": Case({"N": SCANNED}, prepare_dropout),
}
