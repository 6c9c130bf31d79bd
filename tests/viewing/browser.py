"""A real Chromium for the tests, where there is one."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VIEWER = Path(__file__).parents[2] / "viewer"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PLAYWRIGHT = importlib.util.find_spec("playwright")
AXE = VIEWER / "node_modules" / "axe-core" / "axe.min.js"
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or PLAYWRIGHT is None,
    reason="no Chromium on PATH" if CHROMIUM is None else "no playwright: pip install '.[browser]'",
)
needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm ci in viewer/")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node")
needs_esbuild = pytest.mark.skipif(
    not (VIEWER / "node_modules" / "esbuild").is_dir(), reason="no esbuild: npm ci in viewer/"
)


def write_pages(folder: Path, texts: Mapping[str, str]) -> dict[str, Path]:
    """A file of each page, by its name."""
    pages = {name: folder / f"{name}.html" for name in texts}
    for name, page in pages.items():
        page.write_text(texts[name], encoding="utf-8")
    return pages


@contextmanager
def open_browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


Open = Callable[..., Any]  # (a page's name, or a file; the hash of its URL; options) -> the page


class Watched:
    """A page opened from a file, and what its console said; requests for anything else are refused and noted."""

    def __init__(self, browser: Any, path: Path, hash: str = "", **options: Any):
        self.said: list[str] = []
        self.page = browser.new_page(**{"viewport": {"width": 1400, "height": 900}, **options})
        self.page.set_default_timeout(10_000)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", self._note)
        self.page.goto(f"{path.as_uri()}{hash}")

    def _note(self, request: Any) -> None:
        if not request.url.startswith(("file:", "about:", "data:")):
            self.said.append(f"asked for {request.url}")
