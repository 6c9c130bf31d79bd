"""Tile, swizzle and compose layouts: the values, where they place elements, and the operations on them."""
