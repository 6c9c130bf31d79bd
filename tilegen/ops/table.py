"""Ops by name, each imported when it is first looked at: a spec uses a few of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TypeVar

from tilegen.ops.op import Op, WholeOp

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
