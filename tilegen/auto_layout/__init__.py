"""Specs whose buffers have the layout 'auto' become plain: registers by who owns what, shared buffers by their cost."""

from __future__ import annotations

from tilegen.auto_layout.choose import choose_layouts, compare_pinned
from tilegen.auto_layout.registers import choose_registers

__all__ = ["choose_layouts", "choose_registers", "compare_pinned"]
