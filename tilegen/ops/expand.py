"""Ops on whole arrays become the statements that carry them out."""

from __future__ import annotations

from tilegen.ops import WHOLE_OPS
from tilegen.spec.data import Spec, WholeCall


def expand_spec(spec: Spec) -> Spec:
    """The spec with its op on whole arrays expanded into a launch, tiles and copies; other specs as they are.

    Raises SpecError for pins of the op that cannot be.
    """
    calls = [s for s in spec.ops if isinstance(s, WholeCall)]
    return WHOLE_OPS[calls[0].op].expand(spec, calls[0]) if calls else spec
