"""The specs of docs/torch.md, and small ones for what they do not show."""

from __future__ import annotations

from pathlib import Path

from tests.pages.reference import whole_specs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "torch.md"
RMSNORM = ROOT / "specs" / "rmsnorm.yaml"
DX, DW = whole_specs(PAGE)

REGISTERS = '  r: {scope: register, dtype: float32, shape: [4, 8], layout: "S[(4,8):(8@laneid,1@laneid)]"}\n'


def copy_spec(x: str, y: str, params: str = "", name: str = "move") -> str:
    """A kernel that copies 4 x 8 elements of X to Y; what is said of each comes behind its scope and dtype."""
    head = f"kernel: {name}\narch: sm_80\nthreads: 32\n{params}"
    return (
        f"{head}buffers:\n  X: {{scope: global, dtype: float32, {x}}}\n  Y: {{scope: global, dtype: float32, {y}}}\n"
        f'{REGISTERS}ops:\n  - copy: {{scope: warp, src: "X[0:4, 0:8]", dst: r, edge: clip}}\n'
        f'  - copy: {{scope: warp, src: r, dst: "Y[0:4, 0:8]", edge: clip}}\n'
    )


SQUARE = """kernel: square
arch: sm_80
params: {M: {default: 4}, c: {dtype: float32, default: 1.0}}
grid: {bx: M}
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [M, 64]}
  Y: {scope: global, dtype: float32, shape: [M, 64]}
ops:
  - elementwise: {dst: "Y[bx : +1]", expr: "x * x * c", with: {x: "X[bx : +1]"}}
"""
SQUARE_BACKWARD = """kernel: square_backward
arch: sm_80
params: {M: {default: 4}, c: {dtype: float32, default: 1.0}}
grid: {bx: M}
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [M, 64]}
  dY: {scope: global, dtype: float32, shape: [M, 64]}
  dX: {scope: global, dtype: float32, shape: [M, 64]}
ops:
  - elementwise: {dst: "dX[bx : +1]", expr: "2.0 * c * x * g", with: {x: "X[bx : +1]", g: "dY[bx : +1]"}}
"""
ADD = """kernel: add
arch: sm_80
params: {M: {default: 4}}
grid: {bx: M}
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [M, 64]}
  Y: {scope: global, dtype: float32, shape: [M, 64]}
ops:
  - elementwise: {dst: "Y[bx : +1]", expr: "x + y", with: {x: "X[bx : +1]", y: "Y[bx : +1]"}}
"""
