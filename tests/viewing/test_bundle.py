"""The committed page.js and page.css are what viewer/src gives, and small enough to be sent around."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

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


def data_of(page: str) -> dict[str, Any]:
    """The JSON data that a page was given."""
    return dict(json.loads(page.partition('id="data">')[2].partition("</script>")[0]))


@pytest.mark.parametrize("name", ["gemm", "hgemm_roles", "copy_staged"])
def test_no_path_of_the_machine_is_in_a_page(name: str) -> None:
    page = spec_page(str(ROOT / "specs" / f"{name}.yaml"))[1]
    assert str(ROOT) not in page and data_of(page)["spec"]["path"] == f"{name}.yaml"


def test_the_kernel_line_is_that_of_the_kernel() -> None:
    spec = data_of(spec_page(str(ROOT / "specs" / "gemm.yaml"))[1])["spec"]
    after = " ".join(spec["cuda"][spec["kernel_line"] :][:2])
    assert "__global__" in after and f"{spec['kernel']}(" in after


@pytest.mark.parametrize(
    ("text", "shape", "opens", "own"),
    [
        ("tiled_mma('mma.m16n8k16', (2, 2, 1), None, 'C', (64, 32, 16))", None, "mma", [64, 32]),
        ("tiled_mma('mma.m16n8k16', (2, 2, 1), None, 'A', (64, 32, 16))", None, "mma", [64, 16]),
        ("tiled_mma('mma.m16n8k16', (2, 2, 1), None, 'C', (64, 32, 16))", [32, 64], "layout", [32, 64]),
        ("S[(8, 64)]", None, "layout", [8, 64]),
    ],
)
def test_a_product_opens_as_one(text: str, shape: list[int] | None, opens: str, own: list[int]) -> None:
    data = data_of(layout_page(text, shape))
    assert data["opens"] == opens and data["presets"][0]["layouts"][0]["shape"] == own


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
