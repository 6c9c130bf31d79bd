"""Specs whose shared buffers have the layout 'auto' become plain ones: each layout chosen by what its accesses cost."""

from __future__ import annotations

from tilegen.resolve.resolving import compare_pinned, resolve_spec

__all__ = ["compare_pinned", "resolve_spec"]
