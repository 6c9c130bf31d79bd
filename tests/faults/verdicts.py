"""What is said of a fault: by the proofs, by the interpreter, by a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from tilegen.errors import ProofError, TilegenError
from tilegen.interpret import Fault, FaultFound, interpret
from tilegen.pipeline import build
from tilegen.plan import Plan

E = TypeVar("E", bound=TilegenError)
ONE_CTA = ((0, 0, 0),)


def proof_code(proof: Callable[[], object]) -> str:
    """The code of the first thing that a proof, or a run, finds; "" if it finds nothing."""
    try:
        proof()
    except ProofError as error:
        return error.diagnostics[0].code
    return ""


def fault_of_run(run: Callable[[], object]) -> Fault | None:
    """The fault that stops a run, or None."""
    try:
        run()
    except FaultFound as found:
        assert found.fault.message and found.diagnostics[0].code == found.fault.code
        return found.fault
    return None


def fault_of(
    plan: Plan, inputs: Mapping[str, Any] | None = None, ctas: Sequence[Sequence[int]] = ONE_CTA, **params: int
) -> Fault | None:
    """The fault that stops the plan, or None."""
    return fault_of_run(lambda: interpret(plan, ctas, inputs or {}, params))


def build_codes(spec: Any) -> set[str]:
    """The codes of all that a build ends with; none if it is built."""
    try:
        build(spec)
    except TilegenError as error:
        return {d.code for d in error.diagnostics}
    return set()


def refusal_of(kind: type[E] | tuple[type[E], ...], act: Callable[..., object], *given: Any, **more: Any) -> E:
    """The error that a call ends with."""
    with pytest.raises(kind) as caught:
        act(*given, **more)
    return caught.value
