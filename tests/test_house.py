"""docs/house.md holds: who may import whom, one door per third party, modules that fit on a few pages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tilegen"
HOUSE = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400
# Longer than a module should be; they may only shrink, and go from this table when they are short enough.
TOO_LONG: dict[str, int] = {}
every_module = pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(PACKAGE).as_posix())


def levels() -> dict[str, int]:
    """Room -> level, from the table of docs/house.md."""
    rows = re.findall(r"^\| (\d+) \| ([^|]*) \|", HOUSE, re.M)
    return {room: int(level) for level, rooms in rows for room in re.findall(r"`(\w+)/?`", rooms)}


def doors() -> dict[str, set[str]]:
    """Third party -> the rooms that may import it, from the sentence of docs/house.md."""
    sentence = re.search(r"One door per third party:(.*?)\.", HOUSE, re.S)
    assert sentence
    found = re.findall(r"(\w+) in ((?:`\w+/?`(?: and )?)+)", " ".join(sentence[1].split()))
    return {party: set(re.findall(r"\w+", rooms)) for party, rooms in found}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def folder_of(name: str) -> str:
    """``tilegen.layouts.core`` for all that lies in it; a module that lies in no folder of its room is its own."""
    return ".".join(name.split(".")[:3])


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a module imports, in functions too, and those given to import_module as text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def test_every_room_is_in_the_table():
    rooms = {room_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert set(levels()) == rooms


@pytest.mark.sweep(154)
@every_module
def test_imports_go_down(path):
    table, room = levels(), room_of(path)
    if room in ("__init__", "__main__"):
        return  # the way in: __init__ loads the API when it is used, __main__ is the command line
    for name in imports(path):
        top, *rest = name.split(".")
        if top != "tilegen" or rest[0] in (room, "__version__"):
            continue
        assert table[rest[0]] < table[room], f"{room} (level {table[room]}) imports {rest[0]} (level {table[rest[0]]})"


@pytest.mark.sweep(11)
@pytest.mark.parametrize("room", sorted(levels()))
def test_no_circles_in_a_room(room):
    """Imports for types count, and so do those in functions; nor do the folders of a room import in a circle."""
    names = {name_of(path): path for path in MODULES if room_of(path) == room}
    graph: dict[str, set[str]] = {}
    folders: dict[str, set[str]] = {}
    for name, path in names.items():
        wanted = {n if n in names else n.rpartition(".")[0] for n in imports(path)} & set(names)
        graph[name] = wanted
        folders.setdefault(folder_of(name), set()).update(set(map(folder_of, wanted)) - {folder_of(name)})
    TopologicalSorter(graph).prepare()  # CycleError names the circle
    TopologicalSorter(folders).prepare()


@pytest.mark.sweep(112)
@every_module
def test_one_door_per_third_party(path):
    for name in imports(path):
        party = name.split(".")[0]
        if party in doors():
            assert room_of(path) in doors()[party], f"{party} is imported outside its door"


def test_the_doors_are_all_there():
    assert set(doors()) == {"yaml", "pydantic", "jinja2", "cupy", "torch", "triton", "click", "rich"}
    assert len(levels()) > 20


@pytest.mark.parametrize("room", sorted(levels()))
def test_no_two_things_have_one_name(room):
    """Public classes: a reader of a room who has met one need not ask which of several it is."""
    places: dict[str, list[str]] = {}
    for path in (path for path in MODULES if room_of(path) == room):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@every_module
def test_modules_are_short(path):
    name = path.relative_to(PACKAGE).as_posix()
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= TOO_LONG.get(name, MOST_LINES), f"{name} has {lines} lines"
    if name in TOO_LONG:
        assert lines > MOST_LINES, f"{name} is short enough now: take it from the table"


@pytest.mark.parametrize("module", ["tilegen", "tilegen.cli"])
def test_nothing_heavy_is_imported_at_the_door(module):
    heavy = ("numpy", "pydantic", "jinja2", "cupy", "ml_dtypes", "yaml")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
