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


def rows(kernel: str, arrays: str, elementwise: str, params: str = "") -> str:
    """A kernel on arrays of M rows."""
    buffers = "".join(f"  {name}: {{scope: global, dtype: float32, shape: [M, 64]}}\n" for name in arrays.split())
    return (
        f"kernel: {kernel}\narch: sm_80\nparams: {{M: {{default: 4}}{params}}}\ngrid: {{bx: M}}\nthreads: 32\n"
        f"buffers:\n{buffers}ops:\n  - elementwise: {{{elementwise}}}\n"
    )


C = ", c: {dtype: float32, default: 1.0}"
SQUARE = rows("square", "X Y", 'dst: "Y[bx : +1]", expr: "x * x * c", with: {x: "X[bx : +1]"}', C)
GRADIENT = 'dst: "dX[bx : +1]", expr: "2.0 * c * x * g", with: {x: "X[bx : +1]", g: "dY[bx : +1]"}'
SQUARE_BACKWARD = rows("square_backward", "X dY dX", GRADIENT, C)
ADD = rows("add", "X Y", 'dst: "Y[bx : +1]", expr: "x + y", with: {x: "X[bx : +1]", y: "Y[bx : +1]"}')
