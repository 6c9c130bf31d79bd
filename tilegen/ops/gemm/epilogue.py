"""What is made of each sum: the epilogue's expression as a tree of its own, whatever tiles carry it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilegen.errors import Diagnostic, Mark, SpecError
from tilegen.layouts import row_major
from tilegen.ops.gemm.problem import Problem, spell_epilogue
from tilegen.plan import Param
from tilegen.scopes import CLUSTER_AXES, COUNT_AXES, CTA_AXES, THREAD_AXES
from tilegen.spaces import GLOBAL
from tilegen.spec.computed import Known, parse_formula
from tilegen.spec.data import Buffer, Expression, Region, WholeCall
from tilegen.spec.findings import Flawed, Passage
from tilegen.spec.names import Names

_PLACES = (*THREAD_AXES, *CTA_AXES, *CLUSTER_AXES, *COUNT_AXES)
_MANY = (1 << 30,) * 2  # extents of d, of which index(0) and index(1) could be


def read_epilogue(call: WholeCall, problem: Problem, scalars: Mapping[str, str]) -> Expression | None:
    """The expression over one element of ``acc`` and of each array that it names; None where sums are only rounded.

    ``scalars``: the types of the params that it may name. Raises SpecError for what is no expression of these, at its
    characters of the field: TG105 and TG302 for names, TG111 to TG113 for what cannot be read, TG212 for types.
    """
    if not problem.epilogue:
        return None
    types = {"acc": problem.sums} | {name: m.dtype for name, m in problem.named.items()}
    params = {name: Param(name, dtype, 1.0) for name, dtype in scalars.items()}

    def operand(name: str) -> Region | None:
        if name not in types:
            return None
        buffer = Buffer(name, GLOBAL.name, types[name], (1, 1), row_major((1, 1)), name)
        return Region(buffer, (0, 0), (1, 1), (True, True), name)

    passage = Passage(problem.epilogue, lambda start, end: _locate(call, start, end))
    names = Names({}, beside=(*types, *params)).forbid(
        _PLACES, "an epilogue knows no place", lambda name: "give an array, in 'with'"
    )
    try:
        found = parse_formula(passage, Known(names, operand, params, takes_parts=False), _MANY)
        if found.wholes:
            raise passage.fault("TG302", "an epilogue knows no place", hint="give an array, in 'with'")
    except Flawed as flaw:
        assert flaw.diagnostic is not None
        raise SpecError(_say_missing(flaw.diagnostic, call)) from None
    return found


def _say_missing(finding: Diagnostic, call: WholeCall) -> Diagnostic:
    """An unknown name with what would declare it: a field that is not given, or the param that a factor names."""
    name = finding.mark.text[finding.mark.column - 1 :][: finding.mark.length] if finding.mark else ""
    if finding.code != "TG105" or finding.hint.startswith("did you"):
        return finding
    if name in ("c", "bias"):
        return replace(finding, hint=f"give gemm '{name}: ARRAY'")
    if name in (call.fields.alpha, call.fields.beta):
        return replace(finding, hint=f"declare it: params: {{{name}: {{dtype: float32, default: 1.0}}}}")
    return replace(finding, hint=f"{finding.hint}; 'with: {{{name}: ARRAY}}' would name an array")


def _locate(call: WholeCall, start: int, end: int) -> Mark:
    """Where characters of the expression stand: in the field that has them all, else that which has the first."""
    _, origins = spell_epilogue(call.fields, call.arrays)
    is_past = start >= len(origins)  # where something is missing at the end
    part = [origin for origin in (origins[-1:] if is_past else origins[start:end]) if origin is not None]
    mark = call.mark_of("epilogue")
    if part:
        (field, first), (last_field, last) = part[0], part[-1]
        first = last + 1 if is_past else first
        mark = call.mark_of(field, first, last + 1) if field == last_field else call.mark_of(field)
    assert mark is not None  # calls that are checked come from a text
    return mark
