"""Plan -> CUDA text. Python owns numbers and addresses; the templates own every line of CUDA and PTX."""

from tilegen.render.addresses import element, pointer, subscript
from tilegen.render.declarations import declare
from tilegen.render.kernel import render
from tilegen.render.launch import launch_info
from tilegen.render.launcher import host_type, render_launcher
from tilegen.render.lines import fold_line
from tilegen.render.literals import literal

__all__ = [
    "declare", "element", "fold_line", "host_type", "launch_info", "literal", "pointer", "render", "render_launcher",
    "subscript",
]  # fmt: skip
