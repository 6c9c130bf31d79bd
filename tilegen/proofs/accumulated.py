"""What CTAs put to the elements of an array that is accumulated into, CTA by CTA, beside what the spec has them put."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilegen.errors import Diagnostic, ProofError
from tilegen.interpret.threads import Cta
from tilegen.reference import Array, Writes


def compare_updates(name: str, made: Writes | None, meant: Writes | None, ctas: Sequence[Cta]) -> None:
    """Raise ProofError TG420 where elements are stored that were to be updated, or updated by another function, and at
    the first element to which a CTA puts another value than the spec says, or nothing, or too much.
    """
    if made is not None and meant is not None and made.function != meant.function:
        said, wanted = (f"updated atomically by '{o.function}'" if o.function else "stored" for o in (made, meant))
        raise ProofError(Diagnostic("TG420", f"{name} is {said}, where the spec has it {wanted}"))
    (keys, values), (wanted_keys, wanted_values) = (_key(one, len(ctas)) for one in (made, meant))
    if np.array_equal(keys, wanted_keys) and values == wanted_values:
        return
    common, i, j = np.intersect1d(keys, wanted_keys, assume_unique=True, return_indices=True)
    size = len(values) // max(1, len(keys))
    got, want = (np.frombuffer(raw, f"V{size}") if size else np.zeros(0, "V1") for raw in (values, wanted_values))
    wrong = common[got[i] != want[j]] if size else common
    extra, missing = np.setdiff1d(keys, wanted_keys), np.setdiff1d(wanted_keys, keys)
    for what, where in (("puts a wrong value to", wrong), ("puts nothing to", missing), ("updates", extra)):
        if len(where):
            at, cta = divmod(int(where[0]), len(ctas))
            tail = ", which the spec does not have it update" if what == "updates" else ""
            message = f"CTA {ctas[cta]} {what} {name} at element offset {at} ({len(where)} elements){tail}"
            raise ProofError(Diagnostic("TG420", message))


def _key(writes: Writes | None, ctas: int) -> tuple[Array, bytes]:
    """A number for each element and CTA, sorted and each once; and the bytes of the values."""
    if writes is None:
        return np.zeros(0, np.int64), b""
    return writes.at * ctas + writes.cta, np.ascontiguousarray(writes.bits).tobytes()
