"""Tile, swizzle and compose layouts: the values, where they place elements, and the operations on them.

From below: ``iters`` and ``rows`` of them, ``values``, their ``canonical`` forms, ``dimensions`` and ``measures``,
``tiling``. Nothing here knows a kind of layout from another folder.
"""
