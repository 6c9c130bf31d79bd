"""What one warp-wide access costs: shared-memory wavefronts, global sectors, and the floors below them. Exact.

``warp`` counts loads, stores and matrix accesses, ``asynchronous`` copies by cp.async and by TMA; ``table`` lists
one access bank by bank. Every rule reproduces every count that an H200 (sm_90) gave (``docs/access-model.md``); other
archs use the rules unproven (``Arch.access_model_measured``).

Offsets are byte offsets from a base aligned to 128 bytes, one per lane, -1 where the lane is inactive: shape (32,) for
one access, (n, 32) for a batch. One access gives an int, a batch an int64 array of n.
"""

from tilegen.access.asynchronous import CP_ASYNC_WIDTHS, CpAsyncCost, cp_async_cost, tma_sectors
from tilegen.access.table import BankTable, Phase, Word, bank_table
from tilegen.access.warp import (
    BANK_BYTES,
    BANKS,
    KINDS,
    LINE_BYTES,
    MATRIX_ROWS,
    RED,
    SECTOR_BYTES,
    WARP_LANES,
    WIDTHS,
    Count,
    bytes_floor,
    distinct,
    phases,
    sectors,
    wavefronts,
)

__all__ = [
    "BANKS",
    "BANK_BYTES",
    "CP_ASYNC_WIDTHS",
    "KINDS",
    "LINE_BYTES",
    "MATRIX_ROWS",
    "RED",
    "SECTOR_BYTES",
    "WARP_LANES",
    "WIDTHS",
    "BankTable",
    "Count",
    "CpAsyncCost",
    "Phase",
    "Word",
    "bank_table",
    "bytes_floor",
    "cp_async_cost",
    "distinct",
    "phases",
    "sectors",
    "tma_sectors",
    "wavefronts",
]  # fmt: skip
