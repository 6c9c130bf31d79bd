"""A mistake is one error: what follows from a word that is misspelt is not said beside it."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from tilegen.errors import TilegenError
from tilegen.ops import ALL_OPS
from tilegen.spec import load

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
KEYS = (
    "ops",
    "roles",
    "threads",
    "scope",
    "src",
    "dst",
    "edge",
    "clip",
    "with",
    "do",
    "let",
    "for",
    "expr",
    "when",
    "copy",
)


def misspell(word: str, rng: Random) -> str:
    """A letter dropped, doubled or exchanged with the next; never a word of its own in these specs."""
    at = rng.randrange(len(word) - 1)
    drawn = (
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    )
    return rng.choice([one for one in drawn if len(one) > 1 and one not in KEYS and one != word] or [word + "q"])


def say(text: str) -> list[str]:
    try:
        load(text, ALL_OPS)
    except TilegenError as error:
        return [f"{d.code} {d.message} ({d.hint})" for d in error.diagnostics]
    return []


@pytest.mark.sweep(5)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_misspelt_key_is_one_error(path: Path) -> None:
    text, rng = path.read_text(encoding="utf-8"), Random(path.stem)
    for key in KEYS:
        places = [m.start(1) for m in re.finditer(rf"^[^#\n]*?(?<![\w.])({key})(?=: )", text, re.M)]
        for place in places[:2]:
            wrong = misspell(key, rng)
            said = say(text[:place] + wrong + text[place + len(key) :])
            assert len(said) == 1, (key, wrong, said)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_misspelt_declaration_is_one_error_at_all_its_uses(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    names = re.findall(r"^  ([A-Za-z_]\w*): \{(?:scope|view|default|slots|threads)", text, re.M)
    for name in names:
        said = say(re.sub(rf"^  {name}: ", f"  {name}zz: ", text, count=1, flags=re.M))
        assert len(said) == 1 or all("zz" in one for one in said), (name, said)
