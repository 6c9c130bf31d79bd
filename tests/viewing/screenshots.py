"""The pictures of docs/viewer.md; ``python -m tests.viewing.screenshots`` takes them anew, to be looked at."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.viewing.browser import Watched, open_browser
from tilegen.viewing import layout_page, spec_page

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SHOTS = {  # file: (page, hash, width, height, what to scroll to)
    "viewer-layout": ("", "#p=swizzled&a=column&q=5,0", 1320, 560, ".explorer"),
    "viewer-banks": ("", "#p=swizzled&a=column&n=1", 1320, 480, ".banks"),
    "viewer-mma": ("", "#v=mma", 1180, 620, ".mma"),
    "viewer-code": ("gemm", "#v=code&x=3&y=a5", 1180, 760, ".code"),
    "viewer-steps": ("hgemm_roles", "#v=time", 1080, 600, ".steps"),
    "viewer-roles": ("hgemm_roles", "#v=time", 900, 330, ".timeline"),
}


def take_screenshots() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        for name, (spec, hash, width, height, where) in SHOTS.items():
            path = Path(folder) / f"{spec or 'layouts'}.html"
            page = spec_page(str(ROOT / "specs" / f"{spec}.yaml"))[1] if spec else layout_page()
            path.write_text(page, encoding="utf-8")
            opened = Watched(browser, path, hash, viewport={"width": width, "height": height}, color_scheme="light")
            if name == "viewer-roles":
                opened.page.locator(".event", has_text="wait full[0] phase 0").first.click()
            opened.page.evaluate("name => document.querySelector(name).scrollIntoView()", where)
            opened.page.evaluate("scrollBy(0, -12)")
            opened.page.mouse.move(2, 2)
            opened.page.wait_for_timeout(200)
            opened.page.screenshot(path=PICTURES / f"{name}.png")
            assert opened.said == []
            opened.page.close()


if __name__ == "__main__":
    take_screenshots()
