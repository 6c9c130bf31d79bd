"""``sync: [a, b]``: all threads of some roles meet, and the others go on."""

from __future__ import annotations

import numpy as np
import pytest
from text.run import compile_plans, requires_runner

from tests.faults.verdicts import build_codes
from tilegen.pipeline import build, load
from tilegen.planner import plan_spec
from tilegen.render import render
from tilegen.spec.printing import print_spec

ORDERS = ("load math other", "other math load", "math other load")
every_order = pytest.mark.parametrize("order", ORDERS)
ROLES = {
    "load": '{fill}      - for: {{k: 6}}\n        do:\n          - copy: {{src: "X[k]", dst: s}}\n{meet}{free}',
    "math": '      - for: {{k: 6}}\n        do:\n{meet}          - copy: {{src: s, dst: "Y[k]"}}\n{free}',
    "other": '      - for: {{k: 2}}\n        do:\n          - copy: {{src: "X[k]", dst: "Z[k]"}}\n',
}
MEET = "          - sync: [load, math]\n"


def spec(order: str, **parts: str) -> str:
    """One role fills a tile, another empties it, in turns; a third does something else, and less often."""
    texts = {"fill": "", "meet": MEET, "free": MEET}
    roles = "".join(f"  {name}: {{threads: {32 if name == 'load' else 64}}}\n" for name in order.split())
    own = {name: texts | {k.split("_")[1]: v for k, v in parts.items() if k.startswith(name)} for name in ROLES}
    blocks = "".join(f"  - role: {name}\n    do:\n{ROLES[name].format(**own[name])}" for name in order.split())
    return (
        f"kernel: turns\nroles:\n{roles}buffers:\n  X: {{scope: global, dtype: float32, shape: [6, 128]}}\n"
        "  Y: {scope: global, dtype: float32, shape: [6, 128]}\n"
        "  Z: {scope: global, dtype: float32, shape: [2, 128]}\n  s: {scope: shared, dtype: float32, shape: [128]}\n"
        f"ops:\n{blocks}"
    )


@every_order
def test_turns_are_proved(order: str) -> None:
    assert build_codes(spec(order)) == set()


FAULTS = {
    "the loader does not wait until the tile was read": ({"load_free": "", "math_free": ""}, "TG403"),
    "nobody waits until the tile is full": ({"load_meet": "", "math_meet": ""}, "TG403 TG404"),
    "one comes half as often": ({"math_free": ""}, "TG403 TG413"),
    "one comes once more": ({"load_free": MEET + MEET}, "TG403 TG404 TG413"),
    "not in the last trip": ({"math_free": "          - {sync: [load, math], when: k < 5}\n"}, "TG413"),
}


@every_order
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, order: str) -> None:
    parts, code = FAULTS[fault]
    found = build_codes(spec(order, **parts))
    assert found and found <= set(code.split())


def test_its_text_is_a_named_barrier_of_both() -> None:
    plan = build(spec("load math other")).plan
    body = render(plan).partition('extern "C"')[2]
    # 160 threads: 0 is the CTA's, 1 and 2 are the warpgroups', 3 to 5 the roles'
    assert body.count("sync_role(6, 96);") == 4
    assert "sync: [load, math]" in print_spec(load(spec("load math other")))
    again = plan_spec(load(print_spec(load(spec("load math other")))))
    assert render(again).partition('extern "C"')[2] == body


@pytest.mark.sweep(1)
@requires_runner
@every_order
def test_its_text_runs(order: str) -> None:
    plan = build(spec(order)).plan
    (runner,) = compile_plans([plan])
    x = np.arange(6 * 128, dtype=np.float32)
    images = runner.run({"X": x}, {}, [(0, 0, 0)])
    assert (images["Y"] == x).all() and (images["Z"] == x[:256]).all()


@pytest.mark.parametrize(("meet", "code"), [
    ("[load, load]", "TG119"), ("[load]", "TG119"), ("[math, other]", "TG119"), ("[load, nobody]", "TG105"),
])  # fmt: skip
def test_what_is_refused(meet: str, code: str) -> None:
    assert build_codes(spec("load math other", load_meet=f"          - sync: {meet}\n")) == {code}


def test_too_many_named_barriers() -> None:
    """A CTA has 16; each warpgroup, each role and each set of roles takes one."""
    names = [f"r{k}" for k in range(8)]
    roles = "".join(f"  {name}: {{threads: 32}}\n" for name in names)
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]][:6]
    blocks = "".join(
        f"  - role: {name}\n    do:\n      - copy: {{src: X, dst: s}}\n"
        + "".join(f"      - sync: [{a}, {b}]\n" for a, b in pairs if name in (a, b))
        for name in names
    )
    text = (
        f"kernel: k\nroles:\n{roles}buffers:\n  X: {{scope: global, dtype: float32, shape: [32]}}\n"
        f"  s: {{scope: shared, dtype: float32, shape: [32]}}\nops:\n{blocks}"
    )
    assert build_codes(text) == {"TG190"}
