"""The ops: each is one object of one module, and one row here."""

import copyreg
from collections.abc import Callable
from typing import Any

from tilegen.ops.op import Op, WholeOp
from tilegen.ops.table import OpTable

_TILE_ROWS = {
    "copy": "tilegen.ops.copy",
    "fill": "tilegen.ops.fill",
    "cast": "tilegen.ops.cast",
    "elementwise": "tilegen.ops.elementwise",
    "reduce": "tilegen.ops.reduce",
    "mma": "tilegen.ops.mma",
    "permute_layout": "tilegen.ops.permute_layout",
}
_WHOLE_ROWS = {"permute": "tilegen.ops.permute", "gemm": "tilegen.ops.gemm"}

OPS: OpTable[Op] = OpTable(_TILE_ROWS)
WHOLE_OPS: OpTable[WholeOp] = OpTable(_WHOLE_ROWS)
ALL_OPS: OpTable[Op | WholeOp] = OpTable(_TILE_ROWS | _WHOLE_ROWS)


def find_op(name: str) -> Any:
    """The op of that name, an Op or a WholeOp."""
    return ALL_OPS[name]


def _name_of(op: Op | WholeOp) -> tuple[Callable[[str], Any], tuple[str]]:
    return find_op, (op.name,)


# A spec that goes to another process names its ops.
copyreg.pickle(Op, _name_of)
copyreg.pickle(WholeOp, _name_of)
