"""What the tests of the page share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.viewing.browser import Open, Watched, open_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium for the tests of a module."""
    with open_browser() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Any, pages: dict[str, Path]) -> Iterator[Open]:
    """Opens pages of a module, which have said nothing when the test ends."""
    opened: list[Watched] = []

    def open_one(page: str | Path, hash: str = "", **options: Any) -> Any:
        opened.append(Watched(browser, pages[page] if isinstance(page, str) else page, hash, **options))
        return opened[-1].page

    yield open_one
    assert [said for watched in opened for said in watched.said] == []
    for watched in opened:
        watched.page.close()
