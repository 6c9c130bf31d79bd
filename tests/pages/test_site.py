"""The site of docs/: it builds without a warning, and its search answers what people ask of kernels.

Skips where MkDocs is not installed (``make .venv/installed-docs``); the search also needs a Chromium.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.viewing.browser import needs_browser, open_browser

ROOT = Path(__file__).parents[2]
needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="no mkdocs-material: pip install '.[docs]'"
)
# What people ask in public forums of the field, in the words that they would type, and the page that answers.
QUESTIONS = {
    "why does padding remove shared memory bank conflicts": "layouts",
    "CuTe swizzle order of B M S": "layouts",
    "which lane holds which element of an mma m16n8k16 fragment": "compute",
    "TMA producer warp and consumer warps with mbarrier full and empty": "hopper",
    "cp.async commit wait how many groups in flight": "order-model",
    "fuse bias and gelu into a GEMM epilogue": "cookbook",
    "call a CUDA kernel on a PyTorch tensor": "calling",
    "coalesced access how many sectors does a warp load take": "access-model",
    "softmax kernel rows longer than a warp": "cookbook",
    "missing __syncthreads race in shared memory": "tutorial",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # a notice of its authors, no warning of the build
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site, served: a browser loads no search index from a file."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@needs_mkdocs
def test_the_site_has_all_pages(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages | {"first-minute", "CHANGELOG", "CONTRIBUTING", "SECURITY"} <= {p.stem for p in site.glob("*.html")}
    for frame in re.findall(r'<iframe src="([^"]+)"', (site / "viewer.html").read_text(encoding="utf-8")):
        assert (site / frame).stat().st_size > 10_000


@needs_mkdocs
@needs_browser
@pytest.mark.sweep(3)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_of_a_forum_is_answered_in_the_first_three_hits(address: str, question: str) -> None:
    with open_browser() as browser:
        page = browser.new_page()
        page.goto(f"{address}/index.html")
        page.locator(".md-search__input").click()
        page.locator(".md-search__input").fill(question)
        hits = page.locator(".md-search-result__item")
        hits.first.wait_for(state="attached")
        page.wait_for_timeout(500)
        links = [hits.nth(k).locator("a").first.get_attribute("href") for k in range(min(3, hits.count()))]
        found = [re.sub(r".*/|\.html.*", "", link) for link in links]
    assert QUESTIONS[question] in found
