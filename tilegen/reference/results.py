"""No two results of one op are written to one place: what is left there would depend on how a plan carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, ProofError
from tilegen.kept import keep
from tilegen.reference.machine import Array, CtaBatch
from tilegen.reference.places import find_written
from tilegen.spec.data import Call
from tilegen.spec.form import name_of_result


def check_results(machine: CtaBatch, call: Call, env: Mapping[str, Any]) -> None:
    """Raises ProofError TG408 at the first byte that two results of a call have in common, in some CTA of ``env``."""
    for one, other in _list_rivals(call):
        a, b = (_list_bytes(machine, call, name, env) for name in (one, other))
        if (common := np.intersect1d(a, b)).size:
            where = call.regions[one].buffer.root
            message = f"results '{name_of_result(one)}' and '{name_of_result(other)}' both write byte {common[0]}"
            message += f" of {where}"
            raise ProofError(Diagnostic("TG408", message, call.mark_of(other), "each result has elements of its own"))


@keep
def _list_rivals(call: Call) -> tuple[tuple[str, str], ...]:
    """The pairs of fields that are written to the bytes of one buffer."""
    pairs = combinations(call.fields_written, 2)
    return tuple((a, b) for a, b in pairs if call.regions[a].buffer.root == call.regions[b].buffer.root)


def _list_bytes(machine: CtaBatch, call: Call, name: str, env: Mapping[str, Any]) -> Array:
    """The bytes that a result takes, numbered through all CTAs for what each has of its own."""
    region = call.regions[name]
    size = DTYPES[region.buffer.dtype].bytes
    at = find_written(machine, region, env)
    return np.asarray((at.reshape(-1, 1) * size + np.arange(size)).ravel())
