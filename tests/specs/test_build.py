"""Every spec builds, with all proofs, to the same bytes wherever and whenever it is built."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from specs.kernels import ROOT, SPECS, build_spec, every_spec
from tilegen.cost.compiled import compiled_accesses
from tilegen.pipeline import Built, explain, output_texts

_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d\b|\b(Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w* \d")
_PATH = re.compile(r"(^|[\s\"'(=])(/|~/|[A-Z]:\\)\w")
_MANY_STEPS = 300  # of a proof that takes a while: another process prints such a kernel, and does not prove it
_PRINT_DIGESTS = """
import hashlib, json, sys
from specs.kernels import draft
from tilegen.pipeline import build, output_texts
texts = {path: "".join(output_texts(build(path)).values()) for path in json.loads(sys.argv[1])}
texts |= {path: draft(path).source for path in json.loads(sys.argv[2])}
print(json.dumps({path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()}))
"""


@every_spec
def test_builds_with_all_proofs(path):
    built = build_spec(path)
    assert built.plan.name == path.stem, "a kernel is named like its spec"
    assert built.proof.steps > 0
    assert built.proof.runs


@pytest.mark.slow
@every_spec
def test_same_bytes_in_another_process_from_another_folder(path):
    built = build_spec(path)
    text = built.source if _is_long(built) else "".join(output_texts(built).values())
    assert _digests_elsewhere()[path.name] == hashlib.sha256(text.encode()).hexdigest()


def _is_long(built: Built) -> bool:
    return built.proof.steps > _MANY_STEPS


@cache
def _digests_elsewhere() -> dict[str, str]:
    """What another process, with other string hashes, builds."""
    long = [path.name for path in SPECS if _is_long(build_spec(path))]
    short = [path.name for path in SPECS if path.name not in long]
    command = [sys.executable, "-W", "ignore", "-c", _PRINT_DIGESTS, json.dumps(short), json.dumps(long)]
    folders = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": folders}
    with tempfile.TemporaryDirectory() as folder:
        for path in SPECS:
            (Path(folder) / path.name).write_bytes(path.read_bytes())
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@every_spec
def test_no_path_and_no_date(path):
    for text in output_texts(build_spec(path)).values():
        assert str(ROOT) not in text
        assert not _DATE.search(text), _DATE.search(text)
        assert not _PATH.search(re.sub(r"//.*", "", text)), _PATH.search(text)


@pytest.mark.sweep(35)
@every_spec
def test_a_kernel_goes_to_another_process_and_comes_back(path):
    built = build_spec(path)
    if SPECS.index(path) % 12 == 0:
        explain(built.spec)  # what is kept with a spec stays behind
    again = pickle.loads(pickle.dumps(built))
    assert compiled_accesses(again.plan) == compiled_accesses(built.plan)  # instructions are what they were
    assert (again.spec, again.plan, again.source, again.proof) == (built.spec, built.plan, built.source, built.proof)
