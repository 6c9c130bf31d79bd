"""docs/house.md holds: who may import whom, one door per third party, modules that fit on a few pages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
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
MOST_FUNCTION_LINES, MOST_ARGUMENTS = 60, 6
# Functions with more arguments, and how many; they may only shrink, and go from this table when they have few enough.
MANY_ARGUMENTS: dict[str, int] = {
    # click and Triton make them of options and of addresses and strides.
    "bench/triton_kernels.py:permute_tiles": 29,
    "bench/triton_products.py:multiply_tiles": 35,
    "bench/triton_products.py:multiply_boxes": 14,
    "cli/commands.py:build": 8,
    "cli/commands.py:verify": 7,
    "cli/commands.py:explain": 12,
    "cli/measured.py:bench": 8,
    # Nothing that always travels together has a name yet.
    "interpret/machine.py:Machine.__init__": 7,
    "ops/partition.py:tile_block": 8,
    "ops/partition.py:_see_side": 7,
    "ops/partition_choice.py:plan_tile": 8,
    "spec/placing.py:check_layout_fits": 7,
}
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


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a module imports, in functions too, and those given to import_module as text."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in (
            getattr(node.func, "id", ""), getattr(node.func, "attr", "")
        ):  # fmt: skip
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
    assert set(doors()) == {
        "yaml", "pydantic", "jinja2", "cupy", "torch", "triton", "click", "rich", "distributed", "filelock",
    }  # fmt: skip
    assert len(levels()) > 20


@pytest.mark.parametrize("room", sorted(levels()))
def test_no_two_things_have_one_name(room):
    """Public classes: a reader of a room who has met one need not ask which of several it is."""
    places: dict[str, list[str]] = {}
    for path in (path for path in MODULES if room_of(path) == room):
        for node in ast.walk(parse(path)):
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


def functions(node: ast.AST, inside: str = "", is_class: bool = False) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
    """Every function of a module with the names that it stands in, and whether it is a method."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield f"{inside}{child.name}", child, is_class
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        yield from functions(child, f"{inside}{child.name}." if named else inside, isinstance(child, ast.ClassDef))


def count_arguments(function: ast.FunctionDef, is_method: bool) -> int:
    """Those that a caller gives: neither self nor cls."""
    a = function.args
    names = [one.arg for one in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if one]
    return len(names) - (is_method and names[:1] in (["self"], ["cls"]))


@every_module
def test_functions_are_short(path):
    """What is longer has two ideas at least, or one that has no name yet."""
    found = functions(parse(path))
    lines = [(name, (f.end_lineno or f.lineno) - f.lineno + 1) for name, f, _ in found]
    assert [(name, n) for name, n in lines if n > MOST_FUNCTION_LINES] == []


@every_module
def test_functions_have_few_arguments(path):
    """What always travels together is a thing with a name."""
    module = path.relative_to(PACKAGE).as_posix()
    found = functions(parse(path))
    counts = [(f"{module}:{name}", count_arguments(f, is_method)) for name, f, is_method in found]
    many = {name: count for name, count in counts if count > MOST_ARGUMENTS}
    known = {name: count for name, count in MANY_ARGUMENTS.items() if name.startswith(f"{module}:")}
    assert {name: count for name, count in many.items() if count > known.get(name, 0)} == {}
    assert known == many, "fewer than the table says: lower the number, or take the entry from the table"


@every_module
def test_nothing_is_known_by_its_address(path):
    """Numbers and values instead: an address says nothing after its object is gone, nor in another process."""
    calls = [node for node in ast.walk(parse(path)) if isinstance(node, ast.Call)]
    assert [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "id"] == []


@every_module
def test_what_a_check_finds_is_a_flaw(path):
    """Not a tuple of texts, of which each reader must know which is the code and which the fix."""
    found = [f for _, f, _ in functions(parse(path)) if f.returns]
    texts = re.compile(r"tuple\[str, str, str(, str)*\] \| None")
    assert [f.name for f in found if f.returns and texts.search(ast.unparse(f.returns))] == []


def test_the_table_of_arguments_names_modules():
    assert {name.partition(":")[0] for name in MANY_ARGUMENTS} <= {p.relative_to(PACKAGE).as_posix() for p in MODULES}


@pytest.mark.parametrize("module", ["tilegen", "tilegen.cli"])
def test_nothing_heavy_is_imported_at_the_door(module):
    heavy = ("numpy", "pydantic", "jinja2", "cupy", "ml_dtypes", "yaml")
    code = f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
