"""The constructor calls of linear and of Gluon's layouts that the text form reads, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from tilegen.layouts.gluon.distributed import BlockedLayout, DotOperandLayout, NVMMADistributedLayout, SliceLayout
from tilegen.layouts.gluon.shared import NVMMASharedLayout, SwizzledSharedLayout
from tilegen.layouts.linear.values import LinearLayout


def distributed_linear(
    reg_bases: Sequence[Sequence[int]],
    lane_bases: Sequence[Sequence[int]],
    warp_bases: Sequence[Sequence[int]],
    block_bases: Sequence[Sequence[int]],
    shape: Sequence[int],
) -> LinearLayout:
    """Gluon's DistributedLinearLayout, which is a LinearLayout of register, lane, warp and block.

    >>> print(distributed_linear([[1]], [[2]], [], [], [4]))
    LinearLayout(register=[[1]], lane=[[2]], warp=[], block=[], shape=[4])
    """
    return LinearLayout(register=reg_bases, lane=lane_bases, warp=warp_bases, block=block_bases, shape=shape)


def shared_linear(
    offset_bases: Sequence[Sequence[int]], block_bases: Sequence[Sequence[int]] = (), alignment: int = 16
) -> LinearLayout:
    """Gluon's SharedLinearLayout, which is a LinearLayout of offset and block; a layout has no alignment.

    >>> print(shared_linear([[1], [2]]))
    LinearLayout(offset=[[1], [2]], block=[], shape=[4])
    """
    return LinearLayout(offset=offset_bases, block=block_bases)


_GLUON: tuple[type, ...] = (
    BlockedLayout, SwizzledSharedLayout, NVMMASharedLayout, SliceLayout, DotOperandLayout, NVMMADistributedLayout,
)  # fmt: skip
FORMS: dict[str, Callable[..., Any]] = {
    "LinearLayout": LinearLayout,
    "DistributedLinearLayout": distributed_linear,
    "SharedLinearLayout": shared_linear,
    **{kind.__name__: kind for kind in _GLUON},
}
# None: any input may be named
FORM_ARGUMENTS: dict[str, set[str] | None] = {name: set(signature(form).parameters) for name, form in FORMS.items()}
FORM_ARGUMENTS["LinearLayout"] = None
