"""Words that stand for what is not here, each with what does its work: arches, types, reductions, edges, swizzles; what
this version has not yet; and layouts in notations that buffers do not take.

No such word is a misspelt one (``near_words``), so a hint of ``say_absent`` comes before any "did you mean".
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Map

from tilegen.arch import ARCHES
from tilegen.dtypes import DTYPES
from tilegen.errors import LayoutError
from tilegen.index import Index
from tilegen.layouts import cute
from tilegen.layouts.constructors import mma_shared_layout
from tilegen.near_words import suggest
from tilegen.spaces import Space
from tilegen.spec.findings import Flawed, Passage, shorten
from tilegen.spec.nodes import Mapping, Node, Scalar

_HALF_BYTES = "no type is smaller than a byte: hold two in a uint8, which 'x % 16' and 'x // 16' of an expr take apart"
_MEAN = "write 'op: sum', and divide by the count in an elementwise"
_CLIP = "write 'edge: clip': past the edge reads give 0 and writes are dropped"
_TF32 = "write float32: 'math: tf32' of gemm and a tf32 atom of mma multiply it so"
_OLD_ARCHES = ("volta", "turing", "pascal", "v100", "t4", "p100")
_OF_AMD = "write float8_e4m3fn or float8_e5m2: an NVIDIA GPU has these"
WORDS: dict[str, dict[str, str]] = {
    "dtype": {
        **dict.fromkeys(("int4", "uint4", "int2", "uint2", "int1", "uint1", "s4", "u4", "i4", "nf4"), _HALF_BYTES),
        **dict.fromkeys(("fp4", "float4", "float4_e2m1", "e2m1", "nvfp4", "mxfp4"), _HALF_BYTES),
        **dict.fromkeys(("fp6", "float6_e2m3fn", "float6_e3m2fn"), _HALF_BYTES),
        **dict.fromkeys(("tf32", "tfloat32"), _TF32),
        **dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"), _OF_AMD),
    },
    "op": {
        **dict.fromkeys(("mean", "avg", "average"), _MEAN),
        **dict.fromkeys(("var", "std", "variance"), "sum 'x' and 'x * x' with 'expr', and finish in an elementwise"),
        **dict.fromkeys(("norm", "l2", "sumsq"), "write 'op: sum' with 'expr: \"x * x\"'"),
        **dict.fromkeys(("any", "or"), "write 'op: max' with 'expr: \"where(CONDITION, 1, 0)\"'"),
        **dict.fromkeys(("all", "and"), "write 'op: min' with 'expr: \"where(CONDITION, 1, 0)\"'"),
        **dict.fromkeys(("argmax", "argmin"), "the tile op 'reduce' has it, and says in 'index' where that lies"),
        "logsumexp": "reduce to the max m, then write 'op: sum' with 'expr: \"exp(x - m)\"'",
    },
    "edge": {
        **dict.fromkeys(("zero", "zeros", "pad", "fill", "mask", "masked"), _CLIP),
        **dict.fromkeys(("predicate", "guard", "drop", "true"), _CLIP),
    },
}  # fmt: skip
_MODE = re.compile(r"(?i)(?:(?:swizzle|sw)[_ ]?)?(32|64|128)[_ ]?(?:b|bytes?)?(?:[_ ]?swizzle)?\Z", re.ASCII)
GLUON = {
    "SwizzledSharedLayout": ("vec", "per_phase", "max_phase"),
    "NVMMASharedLayout": ("swizzle_byte_width", "element_bitwidth", "transposed", "fp4_padded"),
    "BlockedLayout": ("size_per_thread", "threads_per_warp", "warps_per_cta"),
    "DistributedLinearLayout": ("reg_bases", "lane_bases", "warp_bases", "block_bases"),
    "NVMMADistributedLayout": ("version", "instr_shape"),
    "SliceLayout": ("dim", "parent"),
    "DotOperandLayout": ("operand_index", "k_width"),
}
_CUTE = re.compile(r"\(?[0-9(][0-9A-Za-z_(), ]*:[0-9(]")


def say_absent(kind: str, word: str) -> str:
    """What does the work of a thing of a kind (dtype, op, edge) that is not here; "" for any other word.

    >>> say_absent("op", "mean")
    "write 'op: sum', and divide by the count in an elementwise"
    """
    return WORDS.get(kind, {}).get(word.lower(), "")


def suggest_arch(word: str) -> str:
    """What to write instead of an arch that is none: the nearest, the oldest, or those that there are.

    >>> suggest_arch("sm90"), suggest_arch("sm_75")[:24]
    ("did you mean 'sm_90'?", 'the oldest arch is sm_80')
    """
    known, oldest = ", ".join(ARCHES), next(iter(ARCHES))
    number = re.fullmatch(r"(?:sm|compute)_?([0-9]{1,9})([a-z]?)", word.lower())
    is_old = number is not None and int(number[1]) < int(oldest.removeprefix("sm_"))
    if is_old or word.lower() in _OLD_ARCHES:
        return f"the oldest arch is {oldest}; there are {known}"
    if number is not None and f"sm_{number[1]}{number[2]}" not in ARCHES:
        return f"there are {known}"
    return suggest(word, ARCHES)


def suggest_dtype(word: str) -> str:
    """What to write instead of a type that is none.

    >>> suggest_dtype("flaot16")
    "did you mean 'float16'?"
    """
    return say_absent("dtype", word) or suggest(word, DTYPES, most=32)


def refuse_mode_word(node: Node, shape: tuple[Index, ...], dtype: str, space: Space, what: str) -> None:
    """Raise Flawed TG200 for the name of a swizzle mode, such as 128B, with the layouts that it may stand for."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return
    found = _MODE.match(node.text.strip())
    if found is None:
        return
    message = f"'{shorten(node.text)}' is a swizzle mode, not a layout, in the layout of {what}"
    if not space.has_banks:
        raise Flawed("TG200", message, node.mark, "a swizzle lies in shared memory; write row, col or S[..] here")
    ways = [way for make in (_say_atoms, _say_swizzle) if (way := make(found[1], shape, dtype))]
    raise Flawed("TG200", message, node.mark, f"write {', '.join(ways)}{' or ' if ways else ''}auto")


def _say_atoms(width: str, shape: tuple[Index, ...], dtype: str) -> str:
    """The atoms of a mode that fill a shape, as TMA writes them and wgmma reads them; "" where they do not fit."""
    known = tuple(n for n in shape if isinstance(n, int))
    try:
        mma_shared_layout(dtype, f"{width}B", known)
    except LayoutError:
        return ""
    extents = f"({', '.join(map(str, known))}{',' * (len(known) == 1)})"
    return f"\"mma_shared_layout('{dtype}', '{width}B', {extents})\" (8-row atoms, for TMA and wgmma)"


def _say_swizzle(width: str, shape: tuple[Index, ...], dtype: str) -> str:
    """The swizzle of a mode, in elements, over the rows of a shape."""
    elems = 16 // DTYPES[dtype].bytes
    chunks = int(width) // 16
    return f'"Swizzle({elems.bit_length() - 1}, {chunks.bit_length() - 1}, 3)" (of its rows as they lie)'


def refuse_later(code_name: str, node: Node | Passage, hint: str = "") -> Flawed:
    """The Flawed that says ``not yet supported``."""
    mark = node.locate(0, len(node.text)) if isinstance(node, Passage) else node.mark
    return Flawed("TG190", f"{code_name} is not yet supported", mark, hint)


def refuse_later_fields(node: Node, later: Map[str, str], what: str) -> None:
    """Raises TG190 for the first field of an op that comes later; ``later``: by name, what to write until then."""
    found = [name for name in later if isinstance(node, Mapping) and name in node]
    if found and isinstance(node, Mapping):
        raise refuse_later(f"'{found[0]}' of {what}", node.key(found[0]), later[found[0]])


def refuse_later_layout(node: Node) -> None:
    """Raises TG200 for layouts in a notation that buffers do not take."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return
    text = node.text.strip()
    if _CUTE.match(text) or (cute.is_printed(text) and re.search(r"[<\[]", text)):
        message = "a layout in CuTe's notation is column-major over its shape; buffers take S[...], which is row-major"
        raise Flawed("TG200", message, node.mark, _say_as_tile(text))


def _say_as_tile(text: str) -> str:
    """The same function in S[...] notation, where there is one."""
    try:
        return f"write {cute.to_tile(cute.parse(text))}"
    except LayoutError:
        return "write S[shape:strides]"


def refuse_later_gluon(node: Mapping) -> None:
    """Raises TG201 for the arguments of Gluon's layouts other than PaddedSharedLayout: those are written as calls."""
    for name, arguments in GLUON.items():
        for key in arguments:
            if key in node and "interval_padding_pairs" not in node:
                message = f"{name} is written as a call, as text, not by its argument names"
                raise Flawed("TG201", message, node.key(key).mark, f'"{name}({", ".join(arguments)}, ..)"')
