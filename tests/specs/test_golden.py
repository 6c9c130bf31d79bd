"""The CUDA of every spec, byte for byte. `make golden` (UPDATE_GOLDEN=1) rewrites what was proved, and nothing else.

A golden names the functions of the prelude that its kernel takes; what these are stands once, in ``prelude.cu``.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

from specs.kernels import ALL_SPECS, LONG, ROOT, SPECS, build_spec, draft, every_spec
from tilegen.decisions import wrap_line
from tilegen.plan import Plan
from tilegen.render import render_prelude
from tilegen.render.page import arch_sides

GOLDEN = ROOT / "tests" / "golden"
PRELUDE = GOLDEN / "prelude.cu"
_UPDATES = os.environ.get("UPDATE_GOLDEN") == "1"
_TAKES = "// prelude: "
_HEAD = "//// "  # before the name of each function in prelude.cu


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_golden(path):
    """``build_spec`` raises unless every proof passes: no golden of a wrong kernel. The same text is as right."""
    kernel = draft(path) if path.stem in LONG and not _UPDATES else build_spec(path)
    compare_golden(path.stem, kernel.source, kernel.plan)


def compare_golden(name: str, source: str, *plans: Plan) -> None:
    """The text of the kernels of one file is the golden of that name, which an update rewrites."""
    text, taken = take_out_prelude(source, *plans)
    golden = GOLDEN / f"{name}.cu"
    if _UPDATES:
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8", newline="\n")
        write_prelude({**read_prelude(), **taken})
    assert golden.exists(), f"no golden for {name}: `make golden` writes it"
    assert golden.read_text(encoding="utf-8") == text, "the CUDA changed: read the diff, then `make golden`"
    known = read_prelude()
    changed = [name for name, own in taken.items() if known.get(name) != own]
    assert not changed, f"prelude.cu has these otherwise: {changed}; read the diff, then `make golden`"


def take_out_prelude(source: str, *plans: Plan) -> tuple[str, dict[str, str]]:
    """A file's text with one line that names what it takes of the prelude, and these functions by their names."""
    taken = render_prelude(*plans)
    whole = "\n\n".join(taken.values()) + "\n\n" if taken else ""
    assert source.count(whole) == 1 or not taken, "the prelude stands in one piece, before what is the kernel's own"
    names = {name: name + arch_sides(name, plans[0].arch) for name in taken}
    lines = [f"// {line}" for line in wrap_line(f"prelude: {' '.join(names.values())}", 9)]
    text = source.replace(whole, "\n".join(lines) + "\n\n") if taken else source
    return text, {names[name]: own for name, own in taken.items()}


def read_prelude() -> dict[str, str]:
    return _parse_prelude(PRELUDE.read_text(encoding="utf-8")) if PRELUDE.exists() else {}


@cache
def _parse_prelude(text: str) -> dict[str, str]:
    pieces = re.split(f"^{re.escape(_HEAD)}(.*)\n", text, flags=re.M)[1:]
    return dict(zip(pieces[::2], (own.strip("\n") for own in pieces[1::2]), strict=True))


def write_prelude(functions: dict[str, str]) -> None:
    text = "\n\n".join(f"{_HEAD}{name}\n{functions[name]}" for name in sorted(functions)) + "\n"
    PRELUDE.write_text(text, encoding="utf-8", newline="\n")


def _named(golden: Path) -> set[str]:
    """The functions of the prelude that a golden names."""
    found = re.search(f"^{_TAKES}.*(?:\n//  +.*)*", golden.read_text(encoding="utf-8"), re.M)
    return set(found[0].removeprefix(_TAKES).replace("//", " ").split()) if found else set()


@every_spec
def test_a_spec_of_ours_has_no_warning(path):
    assert build_spec(path).warnings == ()


def test_no_golden_without_a_spec():
    own = {f"{p.stem}.cu" for p in ALL_SPECS}
    stale = {p.name for p in GOLDEN.iterdir()} - own - {PRELUDE.name}
    named = set().union(*(_named(GOLDEN / name) for name in own))
    if _UPDATES:
        for name in stale:
            (GOLDEN / name).unlink()
        stale = set()
        write_prelude({name: text for name, text in read_prelude().items() if name in named})
    assert not stale and set(read_prelude()) == named


def test_no_line_is_too_long_and_no_head_either():
    """What a person reads first fits on a screen."""
    for golden in GOLDEN.iterdir():
        lines = golden.read_text(encoding="utf-8").splitlines()
        assert max(map(len, lines)) <= 120, golden.name
        if golden != PRELUDE:
            head = next(n for n, line in enumerate(lines) if not line.startswith("//"))
            assert head <= 25, golden.name
