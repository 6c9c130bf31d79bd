"""What is made of each sum: the epilogue's expression as a tree of its own, whatever tiles carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.errors import Diagnostic, SpecError
from tilegen.ops import elementwise
from tilegen.ops.gemm.problem import Problem
from tilegen.spec import load
from tilegen.spec.data import Call, Expression, WholeCall

_FORMS = {"elementwise": elementwise.OP}


def read_epilogue(call: WholeCall, problem: Problem, scalars: Mapping[str, str]) -> Expression | None:
    """The expression over one element of ``acc`` and of each array that it names; None where sums are only rounded.

    ``scalars``: the types of the params that it may name. Raises SpecError for what is no expression of these.
    """
    if not problem.epilogue:
        return None
    types = {"acc": problem.sums} | {name: m.dtype for name, m in problem.named.items()}
    target = next(name for name in ("result", "result_", "result__") if name not in {*types, *scalars})
    all_types = types | {target: problem.d.dtype}
    arrays = {name: {"scope": "global", "dtype": t, "shape": [1, 1]} for name, t in all_types.items()}
    params = {name: {"dtype": t, "default": 1.0} for name, t in scalars.items()}
    op = {"elementwise": {"dst": target, "expr": problem.epilogue}}
    data = {"kernel": "epilogue", "threads": 32, "params": params, "buffers": arrays, "ops": [op]}
    try:
        (found,) = load(data, _FORMS).ops
    except SpecError as error:
        said = (replace(d, mark=call.mark, message=f"{d.message}, in the epilogue") for d in error.diagnostics)
        raise SpecError(tuple(said)) from None
    assert isinstance(found, Call) and found.expression is not None
    if found.expression.wholes:
        known = ", ".join(types)
        message = f"an epilogue names {known}, params and numbers, no integers of a place"
        raise SpecError(Diagnostic("TG302", message, call.mark, "give an array, in 'with'"))
    return found.expression
