"""What people look at: a page of a layout or a spec that works without a network, and pictures for documents."""

from __future__ import annotations

from tilegen.viewing.examples import pack_numbers, unpack_numbers, write_examples
from tilegen.viewing.explained import explained_svg
from tilegen.viewing.linking import link_op
from tilegen.viewing.notebook import notebook_html
from tilegen.viewing.page import PageData, layout_page, write_page
from tilegen.viewing.presets import Preset, PresetGroup, own_presets
from tilegen.viewing.specs import page_of, spec_page

__all__ = [
    "PageData", "Preset", "PresetGroup", "explained_svg", "layout_page", "link_op", "notebook_html", "own_presets",
    "pack_numbers", "page_of", "spec_page", "unpack_numbers", "write_examples", "write_page",
]  # fmt: skip
