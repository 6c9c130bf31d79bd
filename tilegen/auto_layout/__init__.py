"""Specs whose buffers have the layout 'auto' become plain: tensor memory lies as ops need it, registers as they own it,
and shared buffers by their cost."""

from __future__ import annotations

from tilegen.auto_layout.choose import choose_layouts, compare_pinned
from tilegen.auto_layout.registers import choose_registers
from tilegen.auto_layout.tensor_memory import choose_tensor_memory

__all__ = ["choose_layouts", "choose_registers", "choose_tensor_memory", "compare_pinned"]
