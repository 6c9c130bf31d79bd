"""What the site has beside docs/: the order of its pages, files of the root, and pages of the viewer.

MkDocs calls these functions (``hooks`` of mkdocs.yml).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from tilegen.viewing import layout_page, spec_page

ROOT = Path(__file__).parents[1]
OF_THE_ROOT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
TOO_LONG_TO_SEARCH = ("mutants.md",)  # a row for each fault that was planted
VIEWED = "rmsnorm"
README = "first-minute.md"  # beside an index.md, MkDocs leaves a README.md out
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_HEAD = re.compile(r"^\| (to [^|]+) \| \|$")
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\)")
FRAMES = """
## Two pages, live

The tile that wgmma and TMA expect, as `tilegen view` draws it:

<iframe src="view/layout.html" title="A layout in the viewer" style="width: 100%; height: 40rem"></iframe>

RMSNorm, its choices and its CUDA ([the spec](specs/rmsnorm.yaml)):

<iframe src="view/rmsnorm.html" title="A kernel in the viewer" style="width: 100%; height: 40rem"></iframe>
"""


def on_config(config: Any) -> Any:
    """The navigation: the tables of docs/index.md, a section for each."""
    nav: list[Any] = ["index.md", {"The first minute": README}, {"The tutorial": "tutorial.md"}]
    for line in (ROOT / "docs" / "index.md").read_text(encoding="utf-8").splitlines():
        if head := _HEAD.match(line):
            nav.append({head[1].capitalize(): []})
        elif row := _ROW.match(line):
            next(iter(nav[-1].values())).append({row[1]: _move(row[2])})
    config["nav"] = nav
    return config


def on_files(files: Files, config: Any) -> Files:
    """Specs, the root's pages and two pages of the viewer become files of the site."""
    for path in (*(ROOT / "specs").iterdir(), *(ROOT / name for name in OF_THE_ROOT)):
        text = path.read_text(encoding="utf-8")
        files.append(File.generated(config, _move(path.relative_to(ROOT).as_posix()), content=text))
    spec = (ROOT / "specs" / f"{VIEWED}.yaml").read_text(encoding="utf-8")
    files.append(File.generated(config, f"view/{VIEWED}.html", content=spec_page(spec)[1]))
    files.append(File.generated(config, "view/layout.html", content=layout_page("Swizzle(3,3,3) o S[(64,64)]")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that lead out of docs/, or into it from the root, lead to files of the site."""
    if page.file.src_uri in TOO_LONG_TO_SEARCH:
        page.meta["search"] = {"exclude": True}
    if page.file.src_uri == "viewer.md":
        markdown += FRAMES
    return _LINK.sub(lambda found: _move(found[1]), markdown)


def _move(target: str) -> str:
    """A link of a page of docs/ or of the root, as it stands in the site, where these are one folder.

    >>> _move("../specs/gemm.yaml"), _move("docs/cli.md#completion"), _move("../README.md#limits")
    ('specs/gemm.yaml', 'cli.md#completion', 'first-minute.md#limits')
    """
    return target.removeprefix("../").removeprefix("docs/").replace("README.md", README)
