"""Ops that clip at the edges of arrays, and ``pad``: what their reads give there in place of 0."""

from __future__ import annotations

from math import copysign

from tilegen.arithmetic.formats import reject_value, say_range
from tilegen.spec.data import Call
from tilegen.spec.findings import Flawed

_THREADS = "let threads copy, as 'variant: gmem_smem' does: without 'async' and 'barrier'"


def is_clipped(call: Call) -> bool:
    """May its regions pass either end of global arrays? Reads give its pad there, and writes are dropped."""
    return bool(call.form.edge) and getattr(call.fields, call.form.edge) == "clip"


def pad_of(call: Call) -> float:
    """What the reads of a call give past the edge of global arrays."""
    return (getattr(call.fields, call.form.pad) or 0) if call.form.pad else 0


def check_pad(call: Call) -> None:
    """Raises TG212 where nothing reads past an edge, or an instruction fills with zeros there, and TG214 for a number
    that an element read is not.
    """
    pad = getattr(call.fields, call.form.pad) if call.form.pad else None
    if pad is None:
        return
    mark, padded = call.mark_of(call.form.pad), [r for r in call.read if r.buffer.traits.is_array]
    if not is_clipped(call):
        message = "'pad' is what reads give past the edge of an array, and nothing is clipped here"
        raise Flawed("TG212", message, mark, "add 'edge: clip'")
    if not padded:
        message = f"'pad' is what reads give past the edge of a global array, and this {call.op} reads none"
        raise Flawed("TG212", message, mark, "remove it: what is written past the edge is dropped")
    if pad and call.queue:
        raise Flawed("TG212", f"TMA and cp.async fill with zeros, not with {pad}", mark, _THREADS)
    if pad == 0 and copysign(1, pad) < 0:
        raise Flawed("TG214", "a pad is no negative zero", mark, "write 'pad: 0'")
    for dtype in dict.fromkeys(r.buffer.dtype for r in padded):
        if (reason := reject_value(pad, dtype)) is not None:
            raise Flawed("TG214", reason, mark, say_range(dtype))
