"""Pages with parts that the product prints: ``<!-- generated: NAME -->``, the part, ``<!-- end -->``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

_PART = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.S)


def check_parts(path: Path, parts: Mapping[str, Callable[[], str]]) -> None:
    """Assert that a page has exactly these parts, and that they are as printed; UPDATE_GOLDEN=1 rewrites them first."""
    text = path.read_text(encoding="utf-8")
    assert sorted(name for _, name, _, _ in _PART.findall(text)) == sorted(parts)
    wanted = _PART.sub(lambda m: f"{m[1]}{parts[m[2]]()}\n{m[4]}", text)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "a generated part is stale: `make golden` rewrites it"
