"""What is said of every fault that the tests plant: by an earlier proof, by this one, and by a run of everything.

``python -m tests.proofs.verdicts [TESTS]`` writes the rows of these tests into verdicts.csv beside this file: they run
here and in the code of the commit STEP_0, and each call of ``prove`` is a row. As a plugin of pytest this module notes
the calls. With the earlier proof a test goes on as if it had heard this one, so that both hear of the same faults.

``right``: it passes; ``noted``: it passes with a note of what is not proven. ``runs`` is what the chosen runs find
without the proofs of the whole grid. ``all`` runs all CTAs and trips at all small sizes and those that the proof ran;
``right in part``: the longest of these were left out.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import product
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("verdicts.csv")
STEP_0 = "206db283a836"  # "No rule where a place turns": the proofs before the table of classes
TESTS = ["tests/proofs", "tests/mutants/test_mutants.py"]
_COLUMNS = ("fault", "number", "step 0", "step 0, runs", "now", "now, runs", "all")
_RENAMED = {"tilegen.index.recurrences": "tilegen.index.courses"}  # what tests import, by its name at STEP_0
_NOTES, _HEARD = "TILEGEN_VERDICTS", "TILEGEN_VERDICTS_HEARD"  # where calls are noted; those of this code

_SMALL = {1: 12, 2: 7, 3: 5}  # sizes of each parameter, by how many there are
_MOST_WORK = 1 << 23  # threads that carry out steps in all that runs of one row: half a second
RIGHT, IN_PART = "right", "right in part"  # that all of it ran, or some
NOTED, CRASHED = "noted", "crashed"  # it passes, with a note of what is not proven


# ---------------------------------------------------------------- notes of a test run
class Recorder:
    """Notes of each call of ``prove`` what it says, by the test that is running."""

    def __init__(self, path: str, heard: Mapping[str, list[dict[str, str]]] | None):
        self.path, self.heard = path, heard
        self.test = ""
        self.calls: list[dict[str, str]] = []
        self.prove = importlib.import_module("tilegen.proofs").prove

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Tests that are noted already are not run again; the earlier proof hears what this one heard."""
        done = _read(Path(self.path)) if Path(self.path).exists() else {}
        wanted = (item for item in items if self.heard is None or self.heard.get(item.nodeid))
        items[:] = [item for item in wanted if item.nodeid not in done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.test, self.calls = item.nodeid, []
        for kept in [x for x in vars(item.module).values() if hasattr(x, "cache_clear")]:
            kept.cache_clear()  # each test makes all of its calls, whichever ran before
        result = yield
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"test": self.test, "calls": self.calls}) + "\n")
        return result

    def listen(self, spec: Any, plan: Any, processes: int = 1) -> Any:
        """In place of ``prove``."""
        from tilegen.errors import ProofError

        error = proof = None
        try:
            proof = self.prove(spec, plan, processes)
            said = NOTED if any("not proven" in note for note in proof.notes) else RIGHT
        except ProofError as found:
            error, said = found, found.diagnostics[0].code
        except Exception:
            if self.heard is None:
                raise
            said = CRASHED
        call = {"said": said, "runs": _code_of_runs(spec, plan) if _is_of_grid(said) else said}
        known = None
        if self.heard is None:
            call["all"] = _code_of_all(spec, plan, proof)
        else:
            known = self.heard.get(self.test, [])[len(self.calls) : len(self.calls) + 1]
        self.calls.append(call)
        return self._go_on(error, proof, known[0]["said"] if known else said)

    def _go_on(self, error: Exception | None, proof: Any, heard: str) -> Any:
        from tilegen.errors import Diagnostic, Mark, ProofError
        from tilegen.proofs import Proof

        if heard in (RIGHT, NOTED):
            return proof if proof is not None else Proof((), 0, notes=("not proven",) if heard == NOTED else ())
        raise error or ProofError([Diagnostic(heard, "heard", Mark("", 1, 1))])


def pytest_configure(config: Any) -> None:
    path = os.environ.get(_NOTES)
    if path is None:
        return
    for name, before in _RENAMED.items():
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = importlib.import_module(before)
    heard = os.environ.get(_HEARD)
    recorder = Recorder(path, _read(Path(heard)) if heard else None)
    config.pluginmanager.register(recorder)
    proofs: Any = importlib.import_module("tilegen.proofs")
    proofs.prove = recorder.listen


# ---------------------------------------------------------------- what runs say
def _is_of_grid(said: str) -> bool:
    """Was it found before anything ran?"""
    from tests.mutants.judging import WHOLE_GRID
    from tilegen.proofs import floats

    return said in WHOLE_GRID or said == floats.BEYOND


def _code_of_runs(spec: Any, plan: Any) -> str:
    """What the chosen runs alone find."""
    from tests.faults.verdicts import proof_code
    from tilegen.proofs.runs import check_run, list_runs

    try:
        return proof_code(lambda: [check_run(spec, plan, run) for run in list_runs(spec, plan)]) or RIGHT
    except Exception:  # of a plan that ranges refuse
        return CRASHED


def _code_of_all(spec: Any, plan: Any, proof: Any) -> str:
    """What all CTAs and trips show, at all small sizes and those that the proof ran."""
    from tests.faults.verdicts import proof_code
    from tilegen.index.recurrences import ALL_TRIPS
    from tilegen.proofs.meaning import check_meaning, parameter_cases
    from tilegen.proofs.runs import list_runs
    from tilegen.proofs.trips import count_work
    from tilegen.spec.outline import launch_of

    try:
        ran = [dict(run.case) for run in list_runs(spec, plan)]
    except Exception:
        ran = [dict(case) for case in parameter_cases(spec)]
    left, is_whole = _MOST_WORK, True
    for case in [*ran, *(case for case in small_cases(spec) if case not in ran)]:
        x, y, z = launch_of(spec, case).grid
        ctas = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)] if x * y * z <= 1 << 13 else []
        work = count_work(plan, ctas, case, ALL_TRIPS)
        if not ctas or work > left:
            is_whole = False
            continue
        left -= work
        try:
            code = proof_code(lambda ctas=ctas, case=case: check_meaning(spec, plan, ctas, case))
        except Exception:
            return CRASHED
        if code:
            return code
    return RIGHT if is_whole else IN_PART


def small_cases(spec: Any) -> Iterator[dict[str, int]]:
    """All combinations of the first sizes of each parameter that can be launched."""
    from tilegen.spec.outline import is_possible

    own = [(p.name, p.var) for p in spec.params if p.var is not None]
    most = _SMALL.get(len(own), 3)
    for values in product(*(range(1, most + 1) for _ in own)):
        case = {name: k * var.step for k, (name, var) in zip(values, own, strict=True)}
        if all(case[name] < var.bound for name, var in own) and is_possible(spec, case):
            yield case


# ---------------------------------------------------------------- the table
def _read(path: Path) -> dict[str, list[dict[str, str]]]:
    notes = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {note["test"]: note["calls"] for note in notes}


def run_tests(tree: Path, tests: list[str], notes: Path, heard: Path | None = None) -> None:
    """The tests of a tree, each call of ``prove`` noted. What they assert does not matter."""
    env = {**os.environ, "PYTHONPATH": str(tree), _NOTES: str(notes), **({_HEARD: str(heard)} if heard else {})}
    options = ["-p", "tests.proofs.verdicts", "-p", "no:cacheprovider", "-m", "slow or not slow"]
    options += ["--continue-on-collection-errors"]
    options += ["--deselect", "tests/mutants/test_mutants.py::test_every_sync_and_address_is_planted_once"]
    options += ["--deselect", "tests/mutants/test_mutants.py::test_the_table_is_of_these_specs"]
    subprocess.run([sys.executable, "-m", "pytest", *options, *tests], cwd=tree, env=env, check=False)


def lay_out_before(folder: Path) -> Path:
    """The code of STEP_0 with the tests of this tree."""
    archive = subprocess.run(["git", "archive", STEP_0], cwd=REPOSITORY, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    copytree(REPOSITORY / "tests", folder / "tests", dirs_exist_ok=True)
    return folder


def write_table(now: Path, before: Path) -> None:
    """The rows of these notes in place of what the table has of the same tests; of tests that both ran."""
    mine, other = _read(now), _read(before)
    mine = {test: calls for test, calls in mine.items() if test in other}
    rows = [row for row in read_table() if row["fault"] not in mine] if TABLE.exists() else []
    for test, calls in mine.items():
        was = other[test]
        for k, call in enumerate(calls):
            old = was[k] if k < len(was) else {"said": "", "runs": ""}
            values = test, str(k), old["said"], old["runs"], call["said"], call["runs"], call["all"]
            rows.append(dict(zip(_COLUMNS, values, strict=True)))
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["fault"], int(row["number"]))))


def read_table() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(tests: list[str]) -> None:
    """Rows of all of TESTS take an hour or two, those of a file minutes."""
    with tempfile.TemporaryDirectory() as folder:
        tree = lay_out_before(Path(folder) / "before")
        now, before = Path(folder) / "now.jsonl", Path(folder) / "before.jsonl"
        run_tests(REPOSITORY, tests or TESTS, now)
        run_tests(tree, tests or TESTS, before, now)
        write_table(now, before)


if __name__ == "__main__":
    main(sys.argv[1:])
