"""Specs of one product with scale factors, for shapes of which tiles and factors lie in several ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen.dtypes import numpy_dtype, powers_of_two

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Scaled:
    """D[m, n] = (A sfa) (B sfb) by one CTA; factors of 128 rows and 4 steps along K are 512 bytes of an array, in the
    order in which tcgen05.cp takes them."""

    m: int
    n: int
    k: int
    a: str = "float8_e4m3fn"
    b: str = "float8_e4m3fn"

    @property
    def blocks(self) -> tuple[int, int, int]:
        """Of 128 along M, N and K."""
        return self.m // 128, -(-self.n // 128), self.k // 128

    def spec(self) -> str:
        m, n, k, (mb, nb, kb) = self.m, self.n, self.k, self.blocks
        columns = n if n <= 256 else n // 2
        tma = 'variant: tma, barrier: "full[0]"'
        loads = [(f"A[:, {i * 128} : +128]", f"sa[{i}]") for i in range(kb)] + [("FA", "fa"), ("FB", "fb")]
        for i in range(kb):
            loads += [(f"B[{i * 128} : +128, {j} : +{columns}]", f"sb[{i}, :, {j} : +{columns}]")
                      for j in range(0, n, columns)]  # fmt: skip
        copies = "".join(f'      - copy: {{src: "{x}", dst: "{y}", {tma}}}\n' for x, y in loads)
        stores = "".join(
            f'      - cast: {{src: "acc[{i} : +128]", dst: h}}\n      - copy: {{src: h, dst: "D[{i} : +128]"}}\n'
            for i in range(0, m, 128)
        )
        return f"""kernel: scaled
arch: sm_100a
grid: {{bx: 1}}
buffers:
  A: {{scope: global, dtype: {self.a}, shape: [{m}, {k}]}}
  B: {{scope: global, dtype: {self.b}, shape: [{k}, {n}], layout: col}}
  FA: {{scope: global, dtype: float8_e8m0fnu, shape: [{kb}, {mb}, 2, 256]}}
  FB: {{scope: global, dtype: float8_e8m0fnu, shape: [{kb}, {nb}, 2, 256]}}
  D: {{scope: global, dtype: bfloat16, shape: [{m}, {n}]}}
  sa: {{scope: shared, dtype: {self.a}, shape: [{kb}, {m}, 128], layout: "{_swizzle(kb, m)}"}}
  sb: {{scope: shared, dtype: {self.b}, shape: [{kb}, 128, {n}], layout: "{_swizzle(kb, n, True)}"}}
  a: {{view: sa, shape: [{m}, {k}], layout: "Swizzle(4, 3, 3) o S[({m}, {kb}, 128):(128, {m * 128}, 1)]"}}
  b: {{view: sb, shape: [{k}, {n}], layout: "{_swizzle(kb, n, True)}"}}
  fa: {{scope: shared, dtype: float8_e8m0fnu, shape: [{kb}, {mb}, 2, 256]}}
  fb: {{scope: shared, dtype: float8_e8m0fnu, shape: [{kb}, {nb}, 2, 256]}}
  fa_rows: {{view: fa, shape: [{m}, {k // 32}], layout: "{_rows(mb, kb)}"}}
  fb_rows: {{view: fb, shape: [{nb * 128}, {k // 32}], layout: "{_rows(nb, kb)}"}}
  acc: {{scope: tmem, dtype: float32, shape: [{m}, {n}], layout: "S[({mb}, 128, {n}):({n}@TCol, 1@TLane, 1@TCol)]"}}
  ta: {{scope: tmem, dtype: float8_e8m0fnu, shape: [{m}, {k // 32}], layout: "{_cells(mb, kb)}"}}
  tb: {{scope: tmem, dtype: float8_e8m0fnu, shape: [{nb * 128}, {k // 32}], layout: "{_cells(nb, kb)}"}}
  h: {{scope: register, dtype: bfloat16, shape: [128, {n}], layout: auto}}
roles:
  load: {{threads: 32}}
  mma: {{threads: 32}}
  store: {{threads: 128}}
barriers:
  full: {{slots: 1}}
  done: {{slots: 1}}
ops:
  - role: load
    do:
{copies}  - role: mma
    do:
      - wait: {{barrier: "full[0]"}}
      - copy: {{src: fa_rows, dst: ta, async: true}}
      - copy: {{src: fb_rows, dst: tb, async: true}}
      - mma: {{a: a, b: b, c: acc, sfa: ta, sfb: "tb[0 : {n}]", accumulate: false, async: true}}
      - commit: {{barrier: "done[0]"}}
  - role: store
    do:
      - wait: {{barrier: "done[0]"}}
{stores}"""

    def draw(self) -> dict[str, Array]:
        """Inputs as they lie in memory, and D: small integers and powers of two, whose product is rounded once."""
        random, (mb, nb, kb), steps = np.random.default_rng(1), self.blocks, self.k // 32
        a, b = (
            random.integers(-3, 4, (rows, self.k)).astype(numpy_dtype(dtype))
            for rows, dtype in ((self.m, self.a), (self.n, self.b))
        )
        sfa, sfb = (powers_of_two(random.integers(0, 8, (blocks * 128, steps))) for blocks in (mb, nb))
        wide = [
            x.astype(np.float64) * np.repeat(f[: len(x)].astype(np.float64), 32, 1) for x, f in ((a, sfa), (b, sfb))
        ]
        found = {"A": a, "B": b, "D": (wide[0] @ wide[1].T).astype(np.float32).astype(numpy_dtype("bfloat16"))}
        for name, factors in (("FA", sfa), ("FB", sfb)):
            found[name] = factors.reshape(-1, 4, 32, kb, 4).transpose(3, 0, 2, 1, 4)
        return {name: np.ascontiguousarray(x).reshape(-1) for name, x in found.items()}


def _swizzle(kb: int, rows: int, turned: bool = False) -> str:
    extents, strides = ("128, {}", "1, 128") if turned else ("{}, 128", "128, 1")
    return f"Swizzle(4, 3, 3) o S[({kb}, {extents.format(rows)}):({rows * 128}, {strides})]"


def _rows(blocks: int, kb: int) -> str:
    """Where the factor of a row and a step lies in shared memory: 16 bytes for each of 32 lanes."""
    return f"S[({blocks}, 4, 32, {kb}, 4):(512, 4, 16, {blocks * 512}, 1)]"


def _cells(blocks: int, kb: int) -> str:
    """And in tensor memory."""
    return f"S[({blocks * 4}, 32, {kb}, 4):(4@TCol, 1@TLane, {blocks * 16}@TCol, 1@TCol)] + R[4:32@TLane]"
