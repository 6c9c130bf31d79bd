"""Gluon's layouts by their own arguments: of registers, of shared memory, padded."""

from tilegen.layouts.gluon.distributed import BlockedLayout, DotOperandLayout, NVMMADistributedLayout, SliceLayout
from tilegen.layouts.gluon.forms import FORM_ARGUMENTS, FORMS
from tilegen.layouts.gluon.padded import PaddedSharedLayout
from tilegen.layouts.gluon.shared import NVMMASharedLayout, SwizzledSharedLayout

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
