"""The ops: each is one object of one module, and one row here."""

from tilegen.ops import cast, copy, fill, permute, permute_layout
from tilegen.ops.op import Op, WholeOp

OPS: dict[str, Op] = {op.name: op for op in (copy.OP, fill.OP, cast.OP, permute_layout.OP)}
WHOLE_OPS: dict[str, WholeOp] = {op.name: op for op in (permute.OP,)}
ALL_OPS: dict[str, Op | WholeOp] = {**OPS, **WHOLE_OPS}
