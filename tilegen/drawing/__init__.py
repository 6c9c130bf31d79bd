"""One layout for a person: read in any notation, described, located, converted, its banks, and its picture."""

from __future__ import annotations

from tilegen.drawing.banking import ACCESSES, bank_picture, find_banks
from tilegen.drawing.describing import describe_layout, locate
from tilegen.drawing.picture import Picture, crop_picture, draw_layout, draw_memory, print_picture
from tilegen.drawing.reading import TARGETS, Subject, convert, read_layout, read_subject, take_subject
from tilegen.drawing.svg import svg_of, svg_page
from tilegen.drawing.texts import banks_text, layout_text, places_text

__all__ = [
    "ACCESSES",
    "TARGETS",
    "Picture",
    "Subject",
    "bank_picture",
    "banks_text",
    "convert",
    "crop_picture",
    "describe_layout",
    "draw_layout",
    "draw_memory",
    "find_banks",
    "layout_text",
    "locate",
    "places_text",
    "print_picture",
    "read_layout",
    "read_subject",
    "svg_of",
    "svg_page",
    "take_subject",
]
