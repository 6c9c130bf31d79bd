"""An operator with all that belongs to it, before torch knows of it: its kernels, its gradients, theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from tilegen.operators.gradients import Gradients, part_of_function, part_of_kernel, plan_gradients
from tilegen.operators.kernels import Kernels
from tilegen.operators.signature import OperatorSignature, derive_signature
from tilegen.pipeline import Source, load_kernel
from tilegen.spec.data import Spec

Settings = Mapping[str, int | float]
Step = Union["Operator", Callable[..., Any]]


@dataclass(frozen=True)
class Operator:
    """``steps`` carry out the parts of its gradients: operators of their own, and functions."""

    signature: OperatorSignature
    kernels: Kernels
    gradients: Gradients
    steps: tuple[Step, ...] = ()


def plan_operator(
    name: str, source: Source, backward: Sequence[Any] = (), arch: str | None = None, params: Settings | None = None
) -> Operator:
    """An operator and those of its backward, which are ``name_backward``, ``name_backward2`` and so on.

    ``params`` go to each spec that has them. Raises what ``load`` raises, and CallError TG715.
    """
    spec = load_kernel(source, arch, params, what="an operator")
    signature = derive_signature(name, spec)
    steps, parts = list[Step](), []
    for k, one in enumerate(backward):
        if callable(one):
            steps.append(one)
            parts.append(part_of_function(signature, one))
            continue
        spec_of_part = _load_part(one, arch, params or {})
        own = derive_signature(f"{name}_backward{k + 1 if k else ''}", spec_of_part)
        steps.append(Operator(own, Kernels(spec_of_part, arch), Gradients(own)))
        parts.append(part_of_kernel(own))
    return Operator(signature, Kernels(spec, arch), plan_gradients(signature, parts), tuple(steps))


def _load_part(source: Source, arch: str | None, params: Settings) -> Spec:
    """A spec with those of the parameters that it has."""
    spec = load_kernel(source, arch, what="an operator")
    own = ({c.name for c in spec.constants} | {p.name for p in spec.params}) & set(params)
    return load_kernel(spec, arch, {name: params[name] for name in own}) if own else spec
