"""The CUDA of every spec, byte for byte. `make golden` (UPDATE_GOLDEN=1) rewrites what was proved, and nothing else."""

from __future__ import annotations

import os

from specs.kernels import ROOT, SPECS, build_spec, every_spec

GOLDEN = ROOT / "tests" / "golden"
_UPDATES = os.environ.get("UPDATE_GOLDEN") == "1"


@every_spec
def test_golden(path):
    source = build_spec(path).source  # raises unless every proof passes: no golden of a wrong kernel
    golden = GOLDEN / f"{path.stem}.cu"
    if _UPDATES:
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(source, encoding="utf-8", newline="\n")
    assert golden.exists(), f"no golden for {path.name}: `make golden` writes it"
    assert golden.read_text(encoding="utf-8") == source, "the CUDA changed: read the diff, then `make golden`"


@every_spec
def test_a_spec_of_ours_has_no_warning(path):
    assert build_spec(path).warnings == ()


def test_no_golden_without_a_spec():
    stale = {p.name for p in GOLDEN.iterdir()} - {f"{p.stem}.cu" for p in SPECS}
    if _UPDATES:
        for name in stale:
            (GOLDEN / name).unlink()
        stale = set()
    assert not stale
