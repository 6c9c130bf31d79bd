"""The ops: each is one object of one module, and one row here."""

import copyreg
from collections.abc import Callable
from typing import Any

from tilegen.ops import cast, copy, elementwise, fill, gemm, mma, permute, permute_layout, reduce
from tilegen.ops.op import Op, WholeOp

OPS: dict[str, Op] = {
    op.name: op for op in (copy.OP, fill.OP, cast.OP, elementwise.OP, reduce.OP, mma.OP, permute_layout.OP)
}
WHOLE_OPS: dict[str, WholeOp] = {op.name: op for op in (permute.OP, gemm.OP)}
ALL_OPS: dict[str, Op | WholeOp] = {**OPS, **WHOLE_OPS}


def find_op(name: str) -> Any:
    """The op of that name, an Op or a WholeOp."""
    return ALL_OPS[name]


def _name_of(op: Op | WholeOp) -> tuple[Callable[[str], Any], tuple[str]]:
    return find_op, (op.name,)


# A spec that goes to another process names its ops.
copyreg.pickle(Op, _name_of)
copyreg.pickle(WholeOp, _name_of)
