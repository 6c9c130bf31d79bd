"""The word that is meant by one that is none: a slip of the pen, or what another tool calls the same thing.

A word that names a thing which is not here is no slip: ``sm_75`` is no misspelt ``sm_90``, ``int4`` no ``int64`` and
``argmax`` no ``max``. What does such a thing's work is said by ``spec.absent``, where anything does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_SYNONYMS = {
    "smem": "shared", "gmem": "global", "local": "register", "rmem": "register", "reg": "register", "block": "cta",
    "wg": "warpgroup", "lane": "laneid", "warp_id": "warpid", "tid": "tx", "fp32": "float32", "f32": "float32",
    "float": "float32", "fp16": "float16", "f16": "float16", "half": "float16", "bf16": "bfloat16", "fp64": "float64",
    "double": "float64", "int": "int32", "fp8": "float8_e4m3fn", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "e8m0": "float8_e8m0fnu", "ue8m0": "float8_e8m0fnu",
    "name": "kernel", "block_dim": "threads", "target": "arch", "source": "src", "barrier": "sync",
    "from": "src", "to": "dst", "destination": "dst", "size": "shape", "dims": "shape", "type": "dtype",
    "memory": "scope", "space": "scope", "blocks": "grid", "blockIdx": "bx", "threadIdx": "tx", "tensor": "tmem",
    "tensor_memory": "tmem", "ampere": "sm_80", "a100": "sm_80", "ada": "sm_89", "hopper": "sm_90a", "h100": "sm_90a",
    "h200": "sm_90a", "blackwell": "sm_100a", "b200": "sm_100a", "memcpy": "copy", "load": "copy", "store": "copy",
    "transpose": "permute", "matmul": "gemm", "dot": "mma", "syncthreads": "sync", "map": "elementwise",
    "memset": "fill", "zero": "fill", "if": "when", "while": "for", "body": "do", "add": "sum", "mul": "prod",
    "multiply": "prod", "product": "prod", "amax": "max", "maximum": "max", "amin": "min", "minimum": "min",
    "row_major": "row", "rowmajor": "row", "column_major": "col", "col_major": "col", "columnmajor": "col",
    "column": "col", "sum": "add", "take": "gather", "take_along_axis": "gather", "lookup": "gather",
    "index_add": "scatter",
}  # fmt: skip


def suggest(word: str, words: Iterable[str], most: int = 16) -> str:
    """The nearest of ``words`` as a question, or the words there are, if they are no more than ``most``.

    >>> suggest("lane_id", ["laneid", "warpid"])
    "did you mean 'laneid'?"
    >>> suggest("q", ["A", "B"])
    'there are A, B'
    """
    known = list(words)
    if near := find_near(word, known):
        return f"did you mean '{near}'?"
    return f"there {'are' if len(known) > 1 else 'is only'} {', '.join(known)}" if 0 < len(known) <= most else ""


def find_near(word: str, words: Iterable[str]) -> str:
    """The one of ``words`` that is meant by a word which is none of them; "" if none is near.

    Words with other digits are other things, and one letter is a slip of no longer word.

    >>> find_near("smem", ["shared", "global"]), find_near("sheard", ["shared", "global"]), find_near("q", ["A", "B"])
    ('shared', 'shared', '')
    >>> find_near("sm_75", ["sm_90"]), find_near("argmax", ["max"]), find_near("b", ["bz"])
    ('', '', '')
    """
    known = list(words)
    other = _SYNONYMS.get(word, _SYNONYMS.get(word.lower(), ""))
    if other in known:
        return other
    near = [k for k in known if k.lower() == word.lower()]
    if not near and len(word) > 1:
        near = [k for k in get_close_matches(word[:80], known, 3, 0.6) if _is_slip(word[:80], k)]
    return near[0] if near else ""


def _is_slip(word: str, known: str) -> bool:
    """Whether one may be written for the other: with the same start, and the same digits in numbers that both have."""
    ours, theirs = ([sorted(n) for n in re.findall(r"[0-9]+", text)] for text in (word, known))
    shared = min(len(ours), len(theirs))
    if ours[:shared] != theirs[:shared]:
        return False
    is_turned = sorted(known) == sorted(word)  # letters that changed places
    return known[0] == word[0] or is_turned or word in known or SequenceMatcher(None, known, word).ratio() > 0.7
