"""What a result of tuning is about: a hash of what a spec says, whatever its comments and its choices are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from tilegen import spec as spec_room
from tilegen.ops import ALL_OPS
from tilegen.spec.data import Spec
from tilegen.spec.printing import print_spec
from tilegen.spec.program import Program


def read_spec(
    source: spec_room.Source, arch: str | None = None, params: Mapping[str, int | float] | None = None
) -> Spec | Program:
    """A checked spec as it is written: no op is expanded, no layout chosen. Raises SpecError, InputError."""
    return spec_room.load(source, ALL_OPS, arch, dict(params or {}))


def key_of(spec: Spec | Program) -> str:
    """A hash of the printed spec. Which other choices a param has makes no difference.

    >>> texts = ("kernel: k\\nthreads: T\\nparams: {T: %s}\\nops: []\\n" % T for T in ("64", "{choices: [64, 32]}"))
    >>> one, other = (key_of(read_spec(text)) for text in texts)
    >>> one == other
    True
    """
    plain = replace(spec, constants=tuple(replace(c, choices=()) for c in spec.constants))
    return hashlib.sha256(print_spec(plain).encode()).hexdigest()[:32]
