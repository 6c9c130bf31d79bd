"""Ops on whole arrays become the statements that carry them out."""

from __future__ import annotations

from tilegen.ops import EXPANSIONS
from tilegen.spec.data import Spec, WholeCall


def expand_spec(spec: Spec) -> Spec:
    """The spec with its op on whole arrays expanded into a launch, tiles and copies; other specs as they are.

    Raises SpecError for pins of the op that cannot be.
    """
    calls = [s for s in spec.ops if isinstance(s, WholeCall)]
    return EXPANSIONS[calls[0].op](spec, calls[0]) if calls else spec
