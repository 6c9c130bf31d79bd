"""What every page offers: layouts of the chapter's demo and one of each other kind, and tiled products with each R."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from tilegen import drawing
from tilegen.cost.mma_runs import RunPrice, price_runs
from tilegen.layouts import MmaTiling, PaddedSharedLayout, derive_mma, lay_out_mma, tile_mma


@dataclass(frozen=True)
class Preset:
    """A layout to open: ``text`` as the page reads it, ``note`` what there is to see."""

    key: str
    name: str
    text: str
    shape: tuple[int, ...]
    dtype: str
    note: str = ""


@dataclass(frozen=True)
class PresetGroup:
    """Presets under one heading."""

    name: str
    layouts: tuple[Preset, ...]


_MEMORY = (
    (
        "row",
        "8 x 64 rows",
        "S[(8, 64):(64, 1)]",
        (8, 64),
        "float16",
        "Every row is one line of 128 bytes: a column lies in one bank.",
    ),
    (
        "swizzled",
        "8 x 64 under the 128-byte swizzle",
        "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]",
        (8, 64),
        "float16",
        "The row's number is XORed into that of the 16-byte chunk: a column meets eight banks.",
    ),
    (
        "padded",
        "32 x 32 with padding, Gluon's",
        "PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0])",
        (32, 32),
        "float32",
        "One element is left out after every 32: the next row starts one bank further.",
    ),
    ("column", "8 x 64 columns", "S[(8, 64):(1, 8)]", (8, 64), "float16", ""),
    (
        "wide",
        "128 x 256 under the 128-byte swizzle",
        "Swizzle(3, 3, 3) o S[(128, 4, 64):(64, 8192, 1)]",
        (128, 256),
        "float16",
        "Four panels of 64 columns, as TMA writes them and a tensor core reads them.",
    ),
    (
        "cute",
        "CuTe's nested modes",
        "(8,(2,4)):(2,(1,16))",
        (8, 8),
        "float32",
        "CuTe counts column-major; element (i, j) is at the same place here and there.",
    ),
    (
        "triton",
        "Gluon's SwizzledSharedLayout",
        "SwizzledSharedLayout(8, 1, 8, [1, 0])",
        (8, 64),
        "float16",
        "Linear over F2: the place of i ^ j is the place of i XOR that of j.",
    ),
)
_REGISTERS = (
    (
        "fragment",
        "8 x 16 on two warps",
        "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)]",
        (8, 16),
        "float16",
        "Two iters add up on laneid; the last one counts a lane's own registers.",
    ),
    (
        "replicated",
        "the same, copied and moved",
        "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid",
        (8, 16),
        "float16",
        "Warps 5 and 6 hold the tile, 9 and 10 a copy.",
    ),
    ("mma_a", "mma.m16n8k16, A", "mma_fragment('m16n8k16', 'A')", (16, 16), "float16", ""),
    ("mma_b", "mma.m16n8k16, B", "mma_fragment('m16n8k16', 'B')", (16, 8), "float16", ""),
    ("mma_c", "mma.m16n8k16, C", "mma_fragment('m16n8k16', 'C')", (16, 8), "float32", ""),
    ("local", "a row for each thread of a warpgroup", "wg_local_layout(16)", (128, 16), "float32", ""),
    ("blocked", "Gluon's BlockedLayout", "BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])", (32, 32), "float32", ""),
)
_TENSOR = (
    (
        "tmem",
        "accumulator, 128 x 256",
        "S[(128, 256):(1@TLane, 1@TCol)]",
        (128, 256),
        "float32",
        "Row to lane, column to column.",
    ),
    (
        "tmem_224",
        "two accumulators of 112 columns",
        "S[(2, 128, 112):(112@TCol, 1@TLane, 1@TCol)]",
        (2, 128, 112),
        "float32",
        "224 columns: no power of two, so that scale factors have room beside them.",
    ),
    (
        "scales",
        "scale factors, four copies",
        "S[(32, 16):(1@TLane, 1@TCol)] + R[4:32@TLane]",
        (32, 16),
        "uint8",
        "32 rows, copied to each quarter of the 128 lanes: every warp finds them in its own.",
    ),
    ("datapath_d", "datapath D, M = 128", "tmem_datapath_layout('D', 128, 256)", (128, 256), "float32", ""),
    (
        "datapath_f",
        "datapath F, M = 64",
        "tmem_datapath_layout('F', 64, 256)",
        (64, 256),
        "float32",
        "Each warp's 32 lanes hold 16 rows.",
    ),
    (
        "atom",
        "tcgen05.ld 32x32b, 128 x 64",
        "tcgen05_atom_layout('32x32b', (128, 64), 'float32')",
        (128, 64),
        "float32",
        "The registers of a warpgroup that the load fills.",
    ),
)
_GROUPS = (("Shared memory", _MEMORY), ("Threads and registers", _REGISTERS), ("Tensor memory", _TENSOR))


@cache
def own_presets() -> tuple[PresetGroup, ...]:
    """What every page offers.

    >>> own_presets()[2].layouts[1].shape
    (2, 128, 112)
    """
    return tuple(PresetGroup(name, tuple(map(_read_preset, rows))) for name, rows in _GROUPS)


def _read_preset(row: tuple[str, str, str, tuple[int, ...], str, str]) -> Preset:
    key, name, text, shape, dtype, note = row
    return Preset(key, name, spell_for_page(drawing.read_subject(text, shape)), shape, dtype, note)


_AS_WRITTEN = ("CuteLayout", "ComposedLayout", "BlockedLayout", "SwizzledSharedLayout", "NVMMASharedLayout")


def spell_for_page(subject: drawing.Subject) -> str:
    """The layout in a notation that the page reads: as it was given, or as the map that it is.

    >>> spell_for_page(drawing.read_subject("mma_fragment('m16n8k16', 'C')"))
    'S[(2, 8, 4, 2):(2, 4@laneid, 1@laneid, 1)]'
    """
    given: Any = subject.given
    if type(given).__name__ in _AS_WRITTEN or isinstance(given, PaddedSharedLayout):
        return str(given)
    return str(subject.layout)


def preset_of(key: str, name: str, layout: Any, shape: Sequence[int], dtype: str, note: str = "") -> Preset:
    """A layout of any kind as a preset. Raises LayoutError for a shape of another size."""
    subject = drawing.take_subject(layout, shape)
    return Preset(key, name, spell_for_page(subject), tuple(shape), dtype, note)


def subject_dtype(text: str) -> str:
    """The element type to begin with where a layout names none: half-size elements of shared memory, words elsewhere.

    >>> subject_dtype("S[(8, 64)]"), subject_dtype("S[8:1@laneid]")
    ('float16', 'float32')
    """
    return "float32" if "@" in text or "register" in text else "float16"


def read_layout_preset(text: str, shape: Sequence[int] | None) -> Preset:
    """The layout of a text, as what the page begins with. Raises LayoutError as ``drawing.read_subject``."""
    subject = drawing.read_subject(text, shape)
    given = spell_for_page(subject)
    return Preset("given", text if len(text) <= 60 else f"{text[:57]}...", given, subject.shape, subject_dtype(given))


# ---------------------------------------------------------------- tiled products
_TILINGS = (
    (
        "fma",
        "fma.f32 on 16 x 16 threads, 128 x 128 x 8",
        ("fma.f32", "(16,16,1):(16,1,0)", ("R=4", "R=4", None), (128, 128, 8)),
    ),
    (
        "fma_lanes",
        "the same, lanes in squares",
        ("fma.f32", "((2,8),(2,8)):((1,32),(2,4))", ("R=4", "R=4"), (128, 128, 8)),
    ),
    ("mma", "mma.m16n8k16 on 2 x 2 warps, 128 x 128 x 32", ("mma.m16n8k16", (2, 2, 1), (32, 32, 16), (128, 128, 32))),
)


@cache
def own_tilings() -> tuple[dict[str, Any], ...]:
    """The tilings that every page offers, as ``tiling_data`` gives them."""
    return tuple(tiling_data(key, name, tile_mma(*given)) for key, name, given in _TILINGS)


def tiling_data(key: str, name: str, tiling: MmaTiling) -> dict[str, Any]:
    """A tiling and every valid R of it as JSON data: ``layout`` of C over ``tile``, ``period``, ``modes``, prices.

    ``given`` is the R whose layout of C is the tiling's own, None where no R gives it.
    """
    prices = price_runs(tiling)
    own = lay_out_mma(tiling, "C")
    same = [p.run for p in prices if lay_out_mma(p.tiling, "C") == own]
    return {"key": key, "name": name, "given": same[0] if same else None, "runs": [_run_data(p, own) for p in prices]}


def _run_data(price: RunPrice, own: Any) -> dict[str, Any]:
    modes = derive_mma(price.tiling).modes
    layout = lay_out_mma(price.tiling, "C")
    kept = ("name", "atom", "atoms", "native", "period", "repetitions", "tile", "run")
    return {
        "run": price.run, "is_given": layout == own, "layout": str(layout), "tile": [m.covered for m in modes[:2]],
        "period": [m.period for m in modes[:2]], "columns": price.columns, "shape": price.shape,
        "modes": [{**{name: getattr(m, name) for name in kept}, "shape": m.shape} for m in modes],
        "store": asdict(price.store), "load_a": asdict(price.load_a) if price.load_a else None,
        "load_b": asdict(price.load_b) if price.load_b else None,
    }  # fmt: skip
