"""How the gradients of an operator are computed: by other kernels, or by functions, whose arguments go by names.

``dY`` is the gradient of Y. The parts of a backward run in order. Each takes tensors by name: the forward's, gradients
of its results, and what parts before it wrote; and it gives gradients, or what parts behind it take.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.errors import CallError, Diagnostic, Mark
from tilegen.gpu.call import ArrayArgument
from tilegen.index import variables
from tilegen.near_words import suggest
from tilegen.operators.signature import OperatorSignature, refuse
from tilegen.operators.sizes import form_of

NO_GRADIENT = "TG714"
Function = Callable[..., Any]


@dataclass(frozen=True)
class Part:
    """One step of a backward: it takes the tensors named, in order, and parameters by keyword.

    ``signature``: of a kernel, which returns its results in order. A function takes its tensors by keyword too, and
    returns gradients by name.
    """

    takes: tuple[str, ...]
    params: tuple[str, ...]
    signature: OperatorSignature | None = None

    @property
    def gives(self) -> tuple[str, ...]:
        """What a kernel writes; what a function gives shows when it has run."""
        return tuple(a.name for a in self.signature.results) if self.signature else ()


@dataclass(frozen=True)
class Gradients:
    """The backward of an operator: ``saved`` are those of its tensors and results, by name, that parts take."""

    forward: OperatorSignature
    parts: tuple[Part, ...] = ()
    saved: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether there is a gradient of a tensor, or a function that may give it."""
        return any(gradient_of(name) in p.gives or p.signature is None for p in self.parts)


def gradient_of(name: str) -> str:
    """The name of a tensor's gradient.

    >>> gradient_of("X")
    'dX'
    """
    return f"d{name}"


# ---------------------------------------------------------------- when the operator is made
def part_of_kernel(signature: OperatorSignature) -> Part:
    """A step that a kernel makes."""
    return Part(tuple(a.name for a in signature.given), tuple(p.name for p in signature.asked), signature)


def part_of_function(forward: OperatorSignature, function: Function) -> Part:
    """A step that a function of tensors makes; it takes what its parameters name. Raises CallError TG715."""
    try:
        asked = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise refuse(f"{forward.name}: a backward is a spec or a function, not {function!r:.60}") from None
    scalars = {p.name for p in forward.asked}
    names = [p.name for p in asked if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    return Part(tuple(n for n in names if n not in scalars), tuple(n for n in names if n in scalars))


def plan_gradients(forward: OperatorSignature, parts: Sequence[Part]) -> Gradients:
    """The backward that parts make together, in order. Raises CallError TG715 with everything that does not fit.

    A part takes tensors and results of the forward, gradients of its results, and what parts before it wrote. A kernel
    has the forward's dtype, dimensions and fixed extents of all these.
    """
    found = _check_forward(forward) if parts else []
    known = _list_known(forward)
    wanted = {gradient_of(a.name): a for a in forward.given}
    scalars = {p.name for p in forward.asked}
    for k, part in enumerate(parts):
        for name in part.takes:
            if name not in known:
                message = f"a backward of {forward.name} takes '{name}', which is nothing that it has"
                found.append(_flaw(message, _mark_of(part, name), suggest(name, known)))
        if part.signature is None:
            continue
        later = {name for other in parts[k + 1 :] for name in other.takes}
        found += _check_kernel(forward, part.signature, known, wanted, later)
        for param in part.signature.asked:
            if param.var is not None and param.name not in scalars:
                message = f"a backward of {forward.name} needs {param.name}, which no tensor says and no argument is"
                found.append(_flaw(message, part.signature.mark, "let an extent of a buffer name it"))
        known |= {a.name: a for a in part.signature.results}
    if found:
        raise CallError(found)
    own = {a.name for a in forward.arrays}
    saved = dict.fromkeys(name for part in parts for name in part.takes if name in own)
    return Gradients(forward, tuple(parts), tuple(saved))


def _check_kernel(
    forward: OperatorSignature, kernel: OperatorSignature, known: Mapping[str, ArrayArgument],
    wanted: Mapping[str, ArrayArgument], later: Collection[str],
) -> list[Diagnostic]:  # fmt: skip
    """What does not fit of a kernel's arrays; ``later``: the names that parts behind it take."""
    found = []
    for array in kernel.arrays:
        if array.access == "inout":
            message = f"a backward of {forward.name} changes '{array.name}', which is not its own"
            found.append(_flaw(message, array.mark, "let it write another array"))
        elif array.access == "out" and array.name in known:
            message = f"a backward of {forward.name} writes '{array.name}', which is there before"
            found.append(_flaw(message, array.mark, "give what it writes another name"))
        elif array.access == "out" and array.name not in wanted and array.name not in later:
            message = f"a backward of {forward.name} writes '{array.name}', which is no gradient of a tensor of it"
            found.append(_flaw(f"{message}, and no part behind takes it", array.mark, suggest(array.name, wanted)))
        elif like := {**wanted, **known}.get(array.name):
            found += _compare(forward, array, like)
    return found


def _list_known(forward: OperatorSignature) -> dict[str, ArrayArgument]:
    """What parts may take, by name: tensors, results, and gradients of results."""
    return {a.name: a for a in forward.arrays} | {gradient_of(a.name): a for a in forward.results}


def _check_forward(forward: OperatorSignature) -> list[Diagnostic]:
    names = {a.name: a for a in forward.arrays}
    found = [
        _flaw(f"{forward.name}: '{gradient_of(n)}' is an array, and would be the gradient of {n}",
              names[gradient_of(n)].mark, "rename one of the two")
        for n in names if gradient_of(n) in names
    ]  # fmt: skip
    if forward.changed:
        who = ", ".join(forward.changed)
        mark = names[forward.changed[0]].mark
        message = f"{forward.name} changes {who} in place, so torch computes no gradients through it"
        found.append(_flaw(message, mark, "write an array that is not read, and not partial"))
    return found


def _compare(forward: OperatorSignature, array: ArrayArgument, like: ArrayArgument) -> list[Diagnostic]:
    mine, other = form_of(array).shape, form_of(like).shape
    unlike = len(mine) != len(other) or any(
        a != b for a, b in zip(mine, other, strict=False) if not variables(a) and not variables(b)
    )
    if array.dtype == like.dtype and not unlike:
        return []
    is_own = array.name == like.name
    whose = f"that of {forward.name}" if is_own else f"{like.name}, whose gradient it is,"
    message = f"'{array.name}' of a backward is {_say(array)}, and {whose} is {_say(like)}"
    return [_flaw(message, array.mark, "give both one dtype and one shape")]


def _say(array: ArrayArgument) -> str:
    return f"{array.dtype} [{', '.join(map(str, form_of(array).shape))}]"


def _mark_of(part: Part, name: str) -> Mark | None:
    return next((a.mark for a in part.signature.arrays if a.name == name), None) if part.signature else None


def _flaw(message: str, mark: Mark | None, hint: str = "") -> Diagnostic:
    return refuse(message, mark, hint).diagnostics[0]


# ---------------------------------------------------------------- when it runs
def check_needs(gradients: Gradients, needs: Collection[str]) -> None:
    """Raise CallError TG714 where a tensor requires grad and no part of the backward gives its gradient."""
    found = [refuse_grad(gradients.forward, a) for a in gradients.forward.given
             if a.name in needs and not gradients.has(a.name)]  # fmt: skip
    if found:
        raise CallError(found)


def refuse_grad(forward: OperatorSignature, array: ArrayArgument) -> Diagnostic:
    """What is said of a tensor that requires grad and has no gradient."""
    if forward.changed:
        message = f"{forward.name}: {array.name} requires grad, and an operator that changes tensors has no gradient"
    else:
        message = f"{forward.name}: {array.name} requires grad, but no backward gives {gradient_of(array.name)}"
    ways = f"call it under torch.no_grad(), or on {array.name}.detach()"
    hint = ways if forward.changed else f"pass a spec that writes {gradient_of(array.name)} as 'backward'; or {ways}"
    return Diagnostic(NO_GRADIENT, message, array.mark, hint)


def compute_gradients(
    gradients: Gradients, runs: Sequence[Function], known: Mapping[str, Any], params: Mapping[str, Any],
    needs: Collection[str],
) -> dict[str, Any]:  # fmt: skip
    """Gradients by name; ``runs``: what carries out each part; ``known``: tensors by name, of the forward and gradients
    of its results; ``needs``: the tensors whose gradients are asked for.

    Kernels that nothing needs do not run. Gradients of results come in any strides; where a kernel takes them in rows
    they are made contiguous. Raises CallError TG714 where the functions do not give what is left.
    """
    asked = {gradient_of(name): name for name in needs}
    there, given = dict(known), {gradient_of(a.name) for a in gradients.forward.results}
    for k in _choose_parts(gradients, asked):
        part, run = gradients.parts[k], runs[k]
        scalars = {name: params[name] for name in part.params if name in params}
        if part.signature is None:
            there |= _ask_function(gradients, run, {name: there[name] for name in part.takes} | scalars)
            continue
        rows = {a.name for a in part.signature.given if a.is_row} & given
        made = run(*(there[n].contiguous() if n in rows else there[n] for n in part.takes), **scalars)
        there |= zip(part.gives, made if isinstance(made, tuple) else (made,), strict=True)
    if missing := [name for gradient, name in asked.items() if there.get(gradient) is None]:
        raise CallError([refuse_grad(gradients.forward, a) for a in gradients.forward.given if a.name in missing])
    return {gradient: there[gradient] for gradient in asked}


def _choose_parts(gradients: Gradients, asked: Collection[str]) -> list[int]:
    """The parts that gradients need, by number in order; a function where no kernel gives all that are asked for."""
    needed, chosen = set(asked), list[int]()
    has_all = needed <= {name for part in gradients.parts for name in part.gives}
    for k, part in reversed(list(enumerate(gradients.parts))):
        if needed & set(part.gives) if part.signature else not has_all:
            chosen.insert(0, k)
            needed |= set(part.takes)
    return chosen


def _ask_function(gradients: Gradients, function: Function, given: dict[str, Any]) -> dict[str, Any]:
    made = function(**given)
    able = [gradient_of(a.name) for a in gradients.forward.given]
    if not isinstance(made, Mapping) or not set(made) <= set(able):
        what = (
            f"returned {', '.join(map(str, made))}"
            if isinstance(made, Mapping)
            else f"returned a {type(made).__name__}"
        )
        hint = f"return a dict with keys of {', '.join(able)}"
        raise refuse(f"{gradients.forward.name}: a function of its backward {what}", None, hint)
    return dict(made)
