"""Gluon's layouts by their own arguments: of registers, of shared memory, padded; and their calls in the text form."""

from collections.abc import Callable
from inspect import signature
from typing import Any

from tilegen.layouts.gluon.distributed import (
    BlockedLayout,
    DotOperandLayout,
    NVMMADistributedLayout,
    SliceLayout,
    distributed_linear,
)
from tilegen.layouts.gluon.padded import PaddedSharedLayout
from tilegen.layouts.gluon.shared import NVMMASharedLayout, SwizzledSharedLayout, shared_linear
from tilegen.layouts.linear import LinearLayout

__all__ = [
    "FORMS",
    "FORM_ARGUMENTS",
    "BlockedLayout",
    "DotOperandLayout",
    "NVMMADistributedLayout",
    "NVMMASharedLayout",
    "PaddedSharedLayout",
    "SliceLayout",
    "SwizzledSharedLayout",
]

_GLUON: tuple[type, ...] = (
    BlockedLayout, SwizzledSharedLayout, NVMMASharedLayout, SliceLayout, DotOperandLayout, NVMMADistributedLayout,
)  # fmt: skip
# The calls that the text form reads, by name.
FORMS: dict[str, Callable[..., Any]] = {
    "LinearLayout": LinearLayout,
    "DistributedLinearLayout": distributed_linear,
    "SharedLinearLayout": shared_linear,
    **{kind.__name__: kind for kind in _GLUON},
}
# None: any input may be named
FORM_ARGUMENTS: dict[str, set[str] | None] = {name: set(signature(form).parameters) for name, form in FORMS.items()}
FORM_ARGUMENTS["LinearLayout"] = None
