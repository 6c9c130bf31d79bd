"""The committed page.js and page.css are what viewer/src gives, and small enough to be sent around."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.viewing.browser import VIEWER, needs_esbuild, needs_node
from tilegen.viewing import layout_page, spec_page

ROOT = Path(__file__).parents[2]
MOST_BYTES = 400_000


@needs_node
@needs_esbuild
def test_the_bundle_is_up_to_date() -> None:
    done = subprocess.run(["node", "build.js", "--check"], cwd=VIEWER, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_pages_are_small_and_alone() -> None:
    pages = [layout_page(), spec_page(str(ROOT / "specs" / "hgemm_roles.yaml"))[1]]
    for page in pages:
        assert len(page.encode()) < MOST_BYTES
        assert "default-src 'none'" in page  # the browser itself refuses to load anything
        assert "src=" not in page.split('id="data"')[0] and "@import" not in page


def test_the_same_spec_gives_the_same_bytes() -> None:
    path = str(ROOT / "specs" / "copy_staged.yaml")
    assert spec_page(path) == spec_page(path)


def test_texts_of_a_spec_cannot_end_the_data() -> None:
    spec = {
        "kernel": "k", "threads": 32, "grid": {"bx": 1},
        "buffers": {
            "A": {"scope": "global", "dtype": "float32", "shape": [32]},
            "B": {"scope": "global", "dtype": "float32", "shape": [32]},
        },
        "ops": [{"copy": {"src": "A", "dst": "B"}}],
    }  # fmt: skip
    import yaml

    text = f"# </script><script>alert(1)</script>\n{yaml.safe_dump(spec)}"
    page = spec_page(text)[1]
    assert "alert(1)" in page and "<script>alert" not in page
