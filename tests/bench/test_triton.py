"""The Triton peer: its text and its arguments belong together; where Triton is installed, its interpreter runs it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilegen.bench.meaning import Meaning
from tilegen.bench.peers import permute_arguments
from tilegen.bench.tiling import cut_permute

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tilegen" / "bench" / "triton_kernels.py"


def test_the_arguments_are_in_the_kernels_order() -> None:
    tree = ast.parse(KERNELS.read_text(encoding="utf-8"))
    functions = {n.name: [a.arg for a in n.args.args] for n in tree.body if isinstance(n, ast.FunctionDef)}
    assert list(functions) == ["copy_flat", "permute_tiles"]
    names = functions["permute_tiles"]
    assert names[:2] == ["source", "target"] and names[-3:] == ["ROWS", "COLS", "WIDE"]
    tiling = cut_permute(Meaning("X", "Y", (2, 3, 4, 5, 6), (4, 3, 2, 1, 0), 4))
    assert tiling
    given = dict(zip(names[2:-3], permute_arguments(tiling), strict=True))
    assert (given["rows"], given["cols"]) == (2, 6)
    assert (given["source_row"], given["source_col"]) == (360, 1)
    assert (given["target_row"], given["target_col"]) == (1, 120)
    assert [given[f"n{k}"] for k in range(6)] == [3, 4, 5, 1, 1, 1]
    assert [given[f"s{k}"] for k in range(6)] == [120, 30, 6, 0, 0, 0]
    assert [given[f"t{k}"] for k in range(6)] == [2, 6, 24, 0, 0, 0]


RUN = """
import random
from math import prod
import torch
from tilegen.bench.meaning import Meaning
from tilegen.bench.tiling import cut_permute, is_wide, tile_shapes
from tilegen.bench.peers import permute_arguments
from tilegen.bench.triton_kernels import copy_flat, permute_tiles

rng = random.Random(2)
for trial in range(25):
    rank = rng.randint(2, 8)
    shape = tuple(rng.choice([1, 2, 3, 5] + [16, 33] * (rank < 5)) for _ in range(rank))
    axes = tuple(rng.sample(range(rank), rank))
    x = torch.randint(0, 1 << 30, shape, dtype=torch.int32)
    tiling = cut_permute(Meaning("X", "Y", shape, axes, 4))
    y = torch.full([shape[a] for a in axes], -1, dtype=torch.int32)
    if tiling is None:
        copy_flat[(-(-x.numel() // 64),)](x, y, x.numel(), BLOCK=64)
    else:
        tile = rng.choice(tile_shapes(tiling, [64, 1024], [4]))
        tiles = -(-tiling.rows.extent // tile.rows) * -(-tiling.cols.extent // tile.cols)
        grid = (prod(d.extent for d in tiling.outer) * tiles,)
        sizes = permute_arguments(tiling)
        wide = trial % 2 == 0 or is_wide(tiling, tile)
        permute_tiles[grid](x, y, *sizes, ROWS=tile.rows, COLS=tile.cols, WIDE=wide)
    assert torch.equal(y, x.permute(axes).contiguous()), (shape, axes)
print("all equal")
"""


@pytest.mark.skipif(not (find_spec("triton") and find_spec("torch")), reason="torch and triton are not installed")
def test_the_kernels_in_tritons_interpreter() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "all equal", done.stderr
