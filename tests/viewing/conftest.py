"""What the tests of the page share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.viewing.browser import open_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium for the tests of a module."""
    with open_browser() as opened:
        yield opened
