"""The ops: each is one object of one module, and one row here, imported when it is first looked at."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from importlib import import_module
from typing import Any, TypeVar

from tilegen.ops.op import Op, WholeOp
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.program import Program

_TILE_ROWS = {
    "copy": "tilegen.ops.copy",
    "fill": "tilegen.ops.fill",
    "cast": "tilegen.ops.cast",
    "elementwise": "tilegen.ops.elementwise",
    "reduce": "tilegen.ops.reduce",
    "scan": "tilegen.ops.scan",
    "gather": "tilegen.ops.gather",
    "scatter": "tilegen.ops.scatter",
    "mma": "tilegen.ops.mma",
    "permute_layout": "tilegen.ops.permute_layout",
}
_WHOLE_ROWS = {
    "permute": "tilegen.ops.permute",
    "reduce_array": "tilegen.ops.reduce_array",
    "scan_array": "tilegen.ops.scan_array",
    "gemm": "tilegen.ops.gemm",
}
_PASS_ROWS = {
    "gemm_parts": "tilegen.ops.gemm.parts_meant",
    "gemm_sum": "tilegen.ops.gemm.sum_meant",
    "reduce_array_parts": "tilegen.ops.reduce_array.parts_meant",
    "scan_array_chunks": "tilegen.ops.scan_array.chunks_meant",
    "scan_array_results": "tilegen.ops.scan_array.results_meant",
}

AnyOp = TypeVar("AnyOp", bound=Op | WholeOp)


class OpTable(MutableMapping[str, AnyOp]):
    """Name -> op, in the order of ``rows``, which say in what module each op is ``OP``."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._rows: dict[str, AnyOp | str] = dict(rows)

    def __getitem__(self, name: str) -> AnyOp:
        row = self._rows[name]
        if isinstance(row, str):
            op: AnyOp = import_module(row).OP
            self._rows[name] = op
            return op
        return row

    def __setitem__(self, name: str, op: AnyOp) -> None:
        self._rows[name] = op

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __len__(self) -> int:
        return len(self._rows)


OPS: OpTable[Op] = OpTable(_TILE_ROWS)
WHOLE_OPS: OpTable[WholeOp] = OpTable(_WHOLE_ROWS | _PASS_ROWS)  # also what passes mean, which no spec names
ALL_OPS: OpTable[Op | WholeOp] = OpTable(_TILE_ROWS | _WHOLE_ROWS)


def expand_spec(spec: Spec, is_pass: bool = False) -> Spec | Program:
    """The spec with its op on whole arrays expanded into a launch, tiles and copies, or several; others as they are.

    ``is_pass``: it is one kernel. Raises SpecError for pins of the op that cannot be.
    """
    calls = [s for s in spec.ops if isinstance(s, WholeCall)]
    if not calls:
        return spec
    call = calls[0]
    if is_pass and call.form.joined:
        call = replace(call, fields=call.fields.model_copy(update=call.form.joined))
    return WHOLE_OPS[call.op].expand(spec, call)


def find_op(name: str) -> Any:
    """The op of that name, an Op or a WholeOp."""
    return ALL_OPS[name] if name in ALL_OPS else WHOLE_OPS[name]


def _name_of(op: Op | WholeOp) -> tuple[Callable[[str], Any], tuple[str]]:
    return find_op, (op.name,)


# A spec that goes to another process names its ops.
copyreg.pickle(Op, _name_of)
copyreg.pickle(WholeOp, _name_of)
