"""Plan -> CUDA text. Python owns numbers and addresses; the templates own every line of CUDA and PTX."""

from tilegen.render.c_text import declare, element, fold_line, literal, pointer
from tilegen.render.kernel import render, render_passes, render_prelude
from tilegen.render.launch import launch_info
from tilegen.render.launcher import host_type, render_launcher

__all__ = [
    "declare", "element", "fold_line", "host_type", "launch_info", "literal", "pointer", "render", "render_launcher",
    "render_passes", "render_prelude",
]  # fmt: skip
