"""Specs whose shared buffers have the layout 'auto' become plain ones: each layout chosen by what its accesses cost."""

from __future__ import annotations

from tilegen.auto_layout.choose import choose_layouts, compare_pinned

__all__ = ["choose_layouts", "compare_pinned"]
