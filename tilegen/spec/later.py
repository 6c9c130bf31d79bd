"""What the language has and this version has not, and layouts in notations that buffers do not take."""

from __future__ import annotations

import re

from tilegen.errors import LayoutError
from tilegen.layouts import cute
from tilegen.spec.findings import Flawed, Passage
from tilegen.spec.nodes import Mapping, Node, Scalar

GLUON = {
    "SwizzledSharedLayout": ("vec", "per_phase", "max_phase"),
    "NVMMASharedLayout": ("swizzle_byte_width", "element_bitwidth", "transposed", "fp4_padded"),
    "BlockedLayout": ("size_per_thread", "threads_per_warp", "warps_per_cta"),
    "DistributedLinearLayout": ("reg_bases", "lane_bases", "warp_bases", "block_bases"),
    "NVMMADistributedLayout": ("version", "instr_shape"),
    "SliceLayout": ("dim", "parent"),
    "DotOperandLayout": ("operand_index", "k_width"),
}
_CUTE = re.compile(r"\(?[0-9(][0-9A-Za-z_(), ]*:[0-9(]")


def refuse_later(code_name: str, node: Node | Passage, hint: str = "") -> Flawed:
    """The Flawed that says ``not yet supported``."""
    mark = node.locate(0, len(node.text)) if isinstance(node, Passage) else node.mark
    return Flawed("TG190", f"{code_name} is not yet supported", mark, hint)


def refuse_later_layout(node: Node) -> None:
    """Raises TG200 for layouts in a notation that buffers do not take."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return
    text = node.text.strip()
    if _CUTE.match(text) or (cute.is_printed(text) and re.search(r"[<\[]", text)):
        message = "a layout in CuTe's notation is column-major over its shape; buffers take S[...], which is row-major"
        raise Flawed("TG200", message, node.mark, _say_as_tile(text))


def _say_as_tile(text: str) -> str:
    """The same function in S[...] notation, where there is one."""
    try:
        return f"write {cute.to_tile(cute.parse(text))}"
    except LayoutError:
        return "write S[shape:strides]"


def refuse_later_gluon(node: Mapping) -> None:
    """Raises TG201 for the arguments of Gluon's layouts other than PaddedSharedLayout: those are written as calls."""
    for name, arguments in GLUON.items():
        for key in arguments:
            if key in node and "interval_padding_pairs" not in node:
                message = f"{name} is written as a call, as text, not by its argument names"
                raise Flawed("TG201", message, node.key(key).mark, f'"{name}({", ".join(arguments)}, ..)"')
