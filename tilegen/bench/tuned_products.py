"""The Triton peer of a product: its arguments, and the tiles that are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.arithmetic import TFLOAT32
from tilegen.bench.libraries import load_library, pick_fastest
from tilegen.bench.meaning import NotApplicable, Prepared, Task, require_product
from tilegen.bench.products import Doubles, Product, Strided, Terms
from tilegen.bench.torch_products import Tensors, read_tensor, view_sets
from tilegen.dtypes import DTYPES

LINE_BYTES = 128  # of a k-tile's row; some tiles have half or twice as many
_TMA_BYTES = 16  # that rows of what TMA brings begin at multiples of
_LEAST = 16  # of each side of a tile, which tl.dot asks for


@dataclass(frozen=True)
class Tile:
    """M, N and bytes of K of a program's tile, rows of tiles that are made together, stages, warps."""

    rows: int
    columns: int
    depth_bytes: int
    stages: int
    warps: int
    group: int = 8

    def __str__(self) -> str:
        return f"{self.rows} x {self.columns} x {self.depth_bytes} bytes, {self.stages} stages, {self.warps} warps"


TILES = (
    Tile(128, 256, 128, 3, 8), Tile(128, 256, 128, 4, 8), Tile(256, 128, 128, 3, 8), Tile(256, 128, 128, 4, 8),
    Tile(128, 128, 128, 4, 8), Tile(128, 128, 128, 4, 4), Tile(128, 128, 64, 5, 4), Tile(128, 64, 128, 4, 4),
    Tile(64, 128, 128, 4, 4), Tile(64, 256, 128, 4, 8), Tile(64, 64, 128, 5, 4), Tile(32, 64, 256, 4, 4),
    Tile(16, 64, 256, 5, 4), Tile(16, 128, 256, 4, 4), Tile(16, 32, 512, 4, 4), Tile(64, 16, 256, 4, 4),
)  # fmt: skip
WIDE_TILES = (  # of products by fused multiply-adds, which hold their sums in many more registers
    Tile(128, 128, 64, 3, 8), Tile(128, 64, 64, 3, 8), Tile(64, 64, 64, 4, 4), Tile(64, 64, 128, 3, 4),
    Tile(32, 32, 128, 4, 4), Tile(16, 64, 128, 4, 4),
)  # fmt: skip


def fit_tiles(product: Product) -> list[Tile]:
    """The tiles that are no more than twice as large as the product's own sides.

    >>> a, b, d = (Strided(x, "float16", (1, 32, 64), (0, 64, 1)) for x in "ABD")
    >>> sorted({tile.rows for tile in fit_tiles(Product(a, b, d, "float16"))})
    [16, 32, 64]
    """
    m, n, _ = product.sizes
    size = DTYPES[product.a.dtype].bytes
    tiles = WIDE_TILES if product.factors in ("float32", "float64") else TILES
    depth = 32 if size == 1 else _LEAST
    kept = [t for t in tiles if t.rows <= max(_LEAST, 2 * m) and t.columns <= max(_LEAST, 2 * n)]
    return list(dict.fromkeys(replace(t, depth_bytes=max(t.depth_bytes, depth * size)) for t in kept))


def prepare_triton(task: Task) -> Prepared:
    """The kernels of ``triton_products`` with what they add themselves, the fastest of some tiles."""
    product = require_product(task)
    load_library("triton")
    torch, kernels = load_library("torch"), load_library("tilegen.bench.triton_products")
    if product.a.dtype != product.b.dtype and not product.a.dtype.startswith("float8"):
        raise NotApplicable("tl.dot takes factors of one type")
    sets = view_sets(torch, task, product)
    terms = product.terms if product.tree is not None else Terms()
    prepared = pick_fastest(torch, task, _list_candidates(torch, kernels, product, terms or Terms(), sets))

    def read(rows: Sequence[int]) -> Doubles:
        prepared.candidate(0)
        task.watch.synchronize()
        return read_tensor(sets[0][product.d.name], product, rows)

    left_out = ": the product alone, without the epilogue" if terms is None else ""
    return replace(prepared, detail=f"{prepared.detail}{left_out}", read=read, is_whole=terms is not None)


def _list_candidates(
    torch: Any, kernels: Any, product: Product, terms: Terms, sets: list[Tensors]
) -> Iterator[tuple[str, Callable[[int], None]]]:
    language = load_library("triton.language")
    size, tf32 = DTYPES[product.a.dtype].bytes, product.factors == TFLOAT32
    sums = {"int8": language.int32, "float64": language.float64}.get(product.a.dtype, language.float32)
    common = {"SUMS": sums, "PRECISION": "tf32" if tf32 else "ieee"}
    has_boxes = terms == Terms() and not why_no_boxes(product)
    for tile in fit_tiles(product):
        sides = {"BM": tile.rows, "BN": tile.columns, "BK": tile.depth_bytes // size, "GROUP": tile.group}
        how = {"num_stages": tile.stages, "num_warps": tile.warps}
        yield str(tile), _bind_tiles(kernels, product, terms, sets, sides | common, how)
        if has_boxes:
            yield f"{tile}, TMA", _bind_boxes(torch, kernels, product, sets, sides | common, how)


def _bind_tiles(
    kernels: Any, product: Product, terms: Terms, sets: list[Tensors], constants: dict[str, Any], how: dict[str, int]
) -> Callable[[int], None]:
    m, n, k = product.sizes
    down, across = -(-m // constants["BM"]), -(-n // constants["BN"])
    added = [product.named[x] if x else product.d for x in (terms.c, terms.bias)]
    numbers = (terms.alpha, terms.beta, m, n, k, *list_strides(product, added))
    constants = constants | {
        "IS_EVEN": not (m % constants["BM"] or n % constants["BN"] or k % constants["BK"]),
        "HAS_ALPHA": terms.alpha != 1, "HAS_C": bool(terms.c), "HAS_BIAS": bool(terms.bias),
    }  # fmt: skip
    names = [x.name for x in (product.a, product.b, product.d, *added)]

    def multiply(number: int) -> None:
        tensors = sets[number % len(sets)]
        grid = (down * across, product.d.shape[0])
        kernels.multiply_tiles[grid](*(tensors[name] for name in names), *numbers, **constants, **how)

    return multiply


def list_strides(product: Product, added: Sequence[Strided]) -> list[int]:
    """Strides of batch, rows and columns of a, b, d and what is added, 0 along what stretches."""
    return [
        0 if extent == 1 else stride
        for array in (product.a, product.b, product.d, *added)
        for extent, stride in zip(array.shape, array.strides, strict=True)
    ]


def why_no_boxes(product: Product) -> str:
    """Why TMA cannot bring a product's arrays, or \"\"."""
    if product.is_batched:
        return "a batch"
    if product.d.strides[2] != 1:
        return f"{product.d.name} does not lie by row"
    for array in (product.a, product.b, product.d):
        size, steps = DTYPES[array.dtype].bytes, array.strides[1:]
        if 1 not in steps or max(steps) * size % _TMA_BYTES:
            return f"rows of {array.name} begin at odd bytes"
    return ""


def _bind_boxes(
    torch: Any, kernels: Any, product: Product, sets: list[Tensors], constants: dict[str, Any], how: dict[str, int]
) -> Callable[[int], None]:
    m, n, k = product.sizes
    turned = [x.strides[2] != 1 for x in (product.a, product.b)]
    bm, bn, bk = (constants[name] for name in ("BM", "BN", "BK"))
    constants = constants | {"A_TURNED": turned[0], "B_TURNED": turned[1]}
    boxes = ((bk, bm) if turned[0] else (bm, bk), (bn, bk) if turned[1] else (bk, bn), (bm, bn))
    made: list[list[Any]] = []

    def describe() -> None:
        descriptor = load_library("triton.tools.tensor_descriptor").TensorDescriptor
        for tensors in sets:
            a, b, d = (tensors[x.name] for x in (product.a, product.b, product.d))
            matrices = (a.t() if turned[0] else a, b.t() if turned[1] else b, d)
            made.append([descriptor.from_tensor(x, list(box)) for x, box in zip(matrices, boxes, strict=True)])

    def multiply(number: int) -> None:
        if not made:
            describe()
        processors = torch.cuda.get_device_properties("cuda").multi_processor_count
        grid = (min(processors, -(-m // bm) * -(-n // bn)),)
        kernels.multiply_boxes[grid](*made[number % len(made)], m, n, k, **constants, **how)

    return multiply
