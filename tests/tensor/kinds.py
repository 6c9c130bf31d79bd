"""A product of each kind of tcgen05 by hand: two k-tiles by TMA, one accumulator, one warpgroup that stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilegen.dtypes import DTYPES


@dataclass(frozen=True)
class Kind:
    """What is multiplied, and how it lies: ``a_turned``, ``b_turned``: along M, along N, and not along K."""

    a: str
    b: str
    sums: str = "float32"
    atom: str = ""
    n: int = 64
    a_turned: bool = False
    b_turned: bool = False


def spec_of_kind(kind: Kind, k_tiles: int = 2) -> dict[str, Any]:
    """The spec of one CTA: [128, K] by [K, n], a k-tile of 128 bytes of K."""
    m, n, bk = 128, kind.n, 128 // DTYPES[kind.a].bytes
    mma = {"a": "sa[k]", "b": "sb[k]", "c": "acc", "accumulate": "k > 0", "async": True}
    mma |= {"atom": kind.atom} if kind.atom else {}
    return {
        "kernel": "product", "arch": "sm_100a", "grid": {"bx": 1},
        "buffers": {
            "A": array("global", kind.a, m, bk * k_tiles, layout="col" if kind.a_turned else "row"),
            "B": array("global", kind.b, bk * k_tiles, n, layout="row" if kind.b_turned else "col"),
            "D": array("global", kind.sums, m, n, layout="row"),
            "sa": array("shared", kind.a, k_tiles, m, bk),
            "sb": array("shared", kind.b, k_tiles, bk, n),
            "acc": array("tmem", kind.sums, m, n, layout=f"S[({m}, {n}):(1@TLane, 1@TCol)]"),
            "h": array("register", kind.sums, m, n),
        },
        "roles": {"store": {"threads": 128}, "load": {"threads": 32}, "mma": {"threads": 32}},
        "barriers": {"full": {"slots": k_tiles}, "done": {"slots": 1}},
        "ops": [
            {"role": "load", "do": [{"for": {"k": k_tiles}, "do": [
                load(f"A[:, k*{bk} : +{bk}]", "sa[k]", k_tiles), load(f"B[k*{bk} : +{bk}, :]", "sb[k]", k_tiles),
            ]}]},
            {"role": "mma", "do": [
                {"for": {"k": k_tiles}, "do": [
                    {"wait": {"barrier": f"full[k % {k_tiles}]"}}, {"mma": mma},
                ]},
                {"commit": {"barrier": "done"}},
            ]},
            {"role": "store", "do": [
                {"wait": {"barrier": "done"}}, {"copy": {"src": "acc", "dst": "h"}}, {"copy": {"src": "h", "dst": "D"}},
            ]},
        ],
    }  # fmt: skip


def array(scope: str, dtype: str, *shape: int, layout: str = "auto") -> dict[str, Any]:
    return {"scope": scope, "dtype": dtype, "shape": [*shape], "layout": layout}


def load(src: str, dst: str, slots: int) -> dict[str, Any]:
    return {"copy": {"src": src, "dst": dst, "variant": "tma", "barrier": f"full[k % {slots}]"}}
