"""Steps on tensor memory. The modules that carry them out are loaded where a kernel has such steps."""

from __future__ import annotations

from typing import Any

from tilegen.interpret.site import Site
from tilegen.plan import Effects


def start_cell_copy(step: Any, touched: Effects, site: Site) -> None:
    """A copy from shared memory."""
    from tilegen.interpret.tensor_copies import start_cell_copy

    start_cell_copy(step, touched, site)


def start_product(step: Any, touched: Effects, site: Site) -> None:
    """A product that adds up there."""
    from tilegen.interpret.tensor_products import start_product

    start_product(step, touched, site)


def move_cells(step: Any, touched: Effects, site: Site) -> None:
    """A copy to registers, or from there."""
    from tilegen.interpret.tensor_moves import move_cells

    move_cells(step, touched, site)


def fence_cells(step: Any, site: Site) -> None:
    """A fence of tcgen05."""
    from tilegen.interpret.tensor_moves import fence

    fence(step, site)
