"""Copies between registers and tensor memory that the spec waits for: ``async: true``, and ``wait: {tmem: 0}``."""

from __future__ import annotations

import pytest

from tests.faults.texts import change_text
from tests.faults.verdicts import refusal_of
from tests.nvcc.compile import compile_text, requires_nvcc
from tests.ptx.kernels import requires_nvrtc
from tests.tensor.test_cells import write
from tilegen.errors import TilegenError
from tilegen.pipeline import build, load
from tilegen.plan import TENSOR_LOADS, TENSOR_STORES, Wait, flatten
from tilegen.planner import plan_spec
from tilegen.render import render
from tilegen.spec.printing import print_spec
from tilegen.verifying.devices import verify

WAIT = "  - wait: {tmem: 0}\n"
STORED = "  - copy: {src: r, dst: t, async: true}\n"
LOADED = '  - copy: {src: "t[:, 32 : 64]", dst: y, async: true}\n'
TRIP = """kernel: trip
arch: sm_100a
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [128, 64]}
  Y: {scope: global, dtype: float32, shape: [128, 64]}
  t: {scope: tmem, dtype: float32, shape: [128, 64], layout: auto}
  r: {scope: register, dtype: float32, shape: [128, 64], layout: auto}
  x: {scope: register, dtype: float32, shape: [128, 32], layout: auto}
  y: {scope: register, dtype: float32, shape: [128, 32], layout: auto}
ops:
  - copy: {src: X, dst: r}
""" + STORED + WAIT + """  - copy: {src: "t[:, 0 : 32]", dst: x, async: true}
""" + LOADED + WAIT + """  - elementwise: {dst: x, expr: x + y}
  - copy: {src: x, dst: "Y[:, 0 : 32]"}
  - copy: {src: y, dst: "Y[:, 32 : 64]"}
"""  # fmt: skip
IN_ROLE = WAIT.replace("  -", "          -")
ARRIVE = """          - sync: role
          - arrive: {barrier: "read[t % 1]"}
"""
LOAD_X, LOAD_Y = (
    f'          - copy: {{src: "acc[:, {first} : {first + 32}]", dst: {name}, async: true}}\n'
    for first, name in ((0, "x"), (32, "y"))
)
ROLES = """kernel: roles
arch: sm_100a
buffers:
  A: {scope: global, dtype: bfloat16, shape: [128, 64]}
  B: {scope: global, dtype: bfloat16, shape: [64, 64], layout: col}
  D: {scope: global, dtype: float32, shape: [2, 128, 64]}
  sa: {scope: shared, dtype: bfloat16, shape: [128, 64], layout: auto}
  sb: {scope: shared, dtype: bfloat16, shape: [64, 64], layout: auto}
  acc: {scope: tmem, dtype: float32, shape: [128, 64], layout: auto}
  x: {scope: register, dtype: float32, shape: [128, 32], layout: auto}
  y: {scope: register, dtype: float32, shape: [128, 32], layout: auto}
roles:
  store: {threads: 128}
  load: {threads: 32}
  mma: {threads: 32}
barriers: {full: {slots: 1}, done: {slots: 1}, read: {slots: 1, open: true}}
ops:
  - role: load
    do:
      - copy: {src: A, dst: sa, variant: tma, barrier: full}
      - copy: {src: B, dst: sb, variant: tma, barrier: full}
  - role: mma
    do:
      - wait: {barrier: full}
      - for: {t: 2}
        do:
          - wait: {barrier: "read[t % 1]"}
          - mma: {a: sa, b: sb, c: acc, accumulate: false, async: true}
          - commit: {barrier: "done[t % 1]"}
  - role: store
    do:
      - for: {t: 2}
        do:
          - wait: {barrier: "done[t % 1]"}
""" + LOAD_X + LOAD_Y + IN_ROLE + ARRIVE + """          - copy: {src: x, dst: "D[t, :, 0 : 32]"}
          - copy: {src: y, dst: "D[t, :, 32 : 64]"}
"""  # fmt: skip
HALVES = change_text(TRIP, ("float32", "bfloat16"))
# All of t at once, by a loop that is written out.
UNROLLED = change_text(
    TRIP,
    ("x: {scope: register, dtype: float32, shape: [128, 32]", "x: {scope: register, dtype: float32, shape: [128, 64]"),
    ('  - copy: {src: "t[:, 0 : 32]", dst: x, async: true}\n' + LOADED, """  - for: {k: 2}
    unroll: true
    do:
      - copy: {src: "t[:, k*32 : +32]", dst: "x[:, k*32 : +32]", async: true}
"""),
    ("  - elementwise: {dst: x, expr: x + y}\n", ""), ('Y[:, 0 : 32]', "Y"),
    ('  - copy: {src: y, dst: "Y[:, 32 : 64]"}\n', ""),
    ("  y: {scope: register, dtype: float32, shape: [128, 32], layout: auto}\n", ""),
)  # fmt: skip
# What lies between loads and their wait branches, and leaves tensor memory alone.
BRANCHES = change_text(
    TRIP,
    (LOADED + WAIT, LOADED + """  - for: {k: 3}
    do:
      - elementwise: {dst: r, expr: r * 2.0}
  - when: bx > 0
    do:
      - elementwise: {dst: r, expr: r + 1.0}
""" + WAIT),
    ("  - copy: {src: x, dst", "  - copy: {src: r, dst: Y}\n  - sync: cta\n  - copy: {src: x, dst"),
    ("threads: 128\n", "threads: 128\ngrid: {bx: 2}\n"), ("[128, 64]}\n  Y", "[128, 64]}\n  Y"),
    ('Y: {scope: global, dtype: float32, shape: [128, 64]}', 'Y: {scope: global, dtype: float32, shape: [2, 128, 64]}'),
    ("dst: Y}", 'dst: "Y[bx]"}'), ('"Y[:, ', '"Y[bx, :, '),
)  # fmt: skip
TWO = """kernel: two
arch: sm_100a
buffers:
  X: {scope: global, dtype: float32, shape: [128, 64]}
  Y: {scope: global, dtype: float32, shape: [128, 64]}
  t: {scope: tmem, dtype: float32, shape: [128, 64], layout: auto}
  r: {scope: register, dtype: float32, shape: [128, 64], layout: auto}
  x: {scope: register, dtype: float32, shape: [128, 32], layout: auto}
  y: {scope: register, dtype: float32, shape: [128, 32], layout: auto}
roles: {one: {threads: 128}, other: {threads: 128}}
ops:
  - role: one
    do:
      - copy: {src: X, dst: r}
      - copy: {src: r, dst: t}
  - sync: cta
  - role: one
    do:
      - copy: {src: "t[:, 0 : 32]", dst: x, async: true}
      - wait: {tmem: 0}
      - copy: {src: x, dst: "Y[:, 0 : 32]"}
  - role: other
    do:
      - copy: {src: "t[:, 32 : 64]", dst: y, async: true}
      - wait: {tmem: 0}
      - copy: {src: y, dst: "Y[:, 32 : 64]"}
"""
# The cast waits for all loads of its warp, which lands x too.
LANDED = change_text(
    TRIP, ("  y: {scope: register, dtype: float32", "  y: {scope: register, dtype: bfloat16"),
    (LOADED + WAIT, '  - cast: {src: "t[:, 32 : 64]", dst: y}\n'), ("expr: x + y", "expr: x * 2.0"),
    ("Y: {scope: global, dtype: float32, shape: [128, 64]}\n", """Y: {scope: global, dtype: float32, shape: [128, 32]}
  Z: {scope: global, dtype: bfloat16, shape: [128, 32]}
"""), ('"Y[:, 32 : 64]"', "Z"), ('"Y[:, 0 : 32]"', "Y"),
)  # fmt: skip
# As many statements that wait as waits: two of the statements are two waits each, and two wait at mbarriers.
PRODUCT = change_text(
    write("bf16"), ("src: r, dst: ta}\n", "src: r, dst: ta, async: true}\n" + WAIT),
    ("src: acc, dst: x}\n", "src: acc, dst: x, async: true}\n" + WAIT),
)  # fmt: skip
RIGHT = {
    "landed": LANDED,
    "product": PRODUCT,
    "two": TWO,
    "trip": TRIP,
    "halves": HALVES,
    "roles": ROLES,
    "unrolled": UNROLLED,
    "branches": BRANCHES,
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_is_proved(name: str) -> None:
    assert build(RIGHT[name]).warnings == ()


def test_two_loads_are_in_flight_and_one_statement_waits() -> None:
    """For what the role starts: the only waits are those that the spec has."""
    of_trip, of_roles = (
        [s.queue for role in plan_spec(load(text)).roles for s in flatten(role.steps) if isinstance(s, Wait)]
        for text in (TRIP, ROLES)
    )
    assert of_trip == [TENSOR_STORES, TENSOR_LOADS] * 2
    assert of_roles == [TENSOR_LOADS]


@pytest.mark.parametrize("text", [TRIP, ROLES])
def test_what_is_printed_is_the_same_spec(text: str) -> None:
    again = load(print_spec(load(text)))
    assert plan_spec(again).roles == plan_spec(load(text)).roles
    assert "wait: {tmem: 0}" in print_spec(again)


@requires_nvcc
@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", RIGHT)
def test_it_compiles(name: str) -> None:
    report = compile_text(render(plan_spec(load(RIGHT[name]))), "sm_100a")
    assert (report.stack, report.spills) == (0, 0), report


@requires_nvrtc
@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", RIGHT)
def test_the_compiled_kernel_does_what_the_spec_means(name: str) -> None:
    """On the machine of PTX, on which registers of a load are nobody's before wait::ld: no compiler copies them."""
    assert verify(RIGHT[name], device="ptx", seeds=[1]).device == "ptx"


# ---------------------------------------------------------------- planted faults
OTHER = "      - wait: {tmem: 0}\n"
TWO_QUEUES = change_text(
    TWO, ("  r: {scope", "  s: {scope: shared, dtype: float32, shape: [128, 64]}\n  r: {scope"),
    (OTHER, f"      - copy: {{src: X, dst: s, variant: cp_async}}\n      - commit\n{OTHER}"), most=1,
)  # fmt: skip
FAULTS = {  # the spec, what is changed, the code, part of the message, what to write
    "no wait for loads": (TRIP, (LOADED + WAIT, LOADED), "TG438", "a tcgen05.ld still fills", "wait: {tmem: 0}"),
    "registers are read before the wait": (
        TRIP, (WAIT + "  - elementwise: {dst: x, expr: x + y}\n", "  - elementwise: {dst: x, expr: x + y}\n" + WAIT),
        "TG438", "reads register x[0], which a tcgen05.ld still fills", "wait: {tmem: 0}"),
    "registers are written before the wait": (
        TRIP, (LOADED, LOADED + "  - fill: {dst: x, value: 0}\n"),
        "TG438", "writes register x[0], which a tcgen05.ld still fills", "wait: {tmem: 0}"),
    "registers are loaded twice": (TRIP, (LOADED, LOADED * 2), "TG438", "still fills", "wait: {tmem: 0}"),
    "cells are read before the wait": (TRIP, (STORED + WAIT, STORED), "TG422", "tmem t", "wait: {tmem: 0}"),
    "registers of a store are written": (
        TRIP, (STORED + WAIT, STORED + "  - fill: {dst: r, value: 0}\n" + WAIT),
        "TG438", "which a tcgen05.st still reads", "wait: {tmem: 0}"),
    "nobody waits for a load": (
        TRIP, ("  - elementwise: {dst: x, expr: x + y}\n", LOADED), "TG438", "which a tcgen05.ld still fills",
        "wait: {tmem: 0}"),
    "the kernel ends with a load in flight": (
        TRIP, ('  - copy: {src: y, dst: "Y[:, 32 : 64]"}\n', '  - copy: {src: y, dst: "Y[:, 32 : 64]"}\n' + LOADED),
        "TG423", "no wait lands it", "wait: {tmem: 0}"),
    "the kernel ends with a store in flight": (
        TRIP, ('  - copy: {src: y, dst: "Y[:, 32 : 64]"}\n', '  - copy: {src: y, dst: "Y[:, 32 : 64]"}\n' + STORED),
        "TG423", "this store to tensor memory is still in flight", "wait: {tmem: 0}"),
    "an arrival before the wait": (
        ROLES, (IN_ROLE + ARRIVE, ARRIVE + IN_ROLE), "TG403", "which tcgen05.ld of warp 0 reads", ""),
    "a wait by another role": (
        ROLES, (IN_ROLE, ""), "TG190", "waited for in another list", "in the same list"),
    "a wait by another role alone": (
        TWO, (OTHER, ""), "TG438", "reads register x[0], which a tcgen05.ld still fills", "wait: {tmem: 0}"),
    # what is refused where it is planned
    "a role waits that starts none": (
        ROLES, ("      - wait: {barrier: full}\n", "      - wait: {barrier: full}\n" + OTHER),
        "TG304", "role mma has none", "leave it out"),
    "a copy that waits for itself": (
        ROLES, (f"{LOAD_X}{LOAD_Y}", f"{LOAD_X}{LOAD_Y}".replace(", async: true", "")),
        "TG304", "asynchronous copies of tensor memory, and role store has none", "leave it out"),
    "a number of groups": (TRIP, (WAIT, "  - wait: 1\n"), "TG304", "not for all but 1", "write 'wait: {tmem: 0}'"),
    "a commit": (TRIP, (WAIT, f"  - commit\n{WAIT}"), "TG304", "this commit closes", "remove it: copies of tensor"),
    "one wait for two queues": (
        TWO_QUEUES, (OTHER, "      - wait: 0\n"),
        "TG304", "copies of tensor memory and others", "wait: {tmem: 0}, and"),
    "a barrier": (
        ROLES, ("dst: x, async: true", "dst: x, async: true, barrier: full"),
        "TG301", "'wait: {tmem: 0}' behind it", ""),
    "a wait inside of a loop": (
        TRIP, (LOADED + WAIT, f"{LOADED}  - for: {{k: 2}}\n    do:\n    {WAIT}"),
        "TG190", "in another list of statements", "in the same list"),
    "a load under a condition": (
        BRANCHES, (LOADED, LOADED.replace("true}", "true, when: bx > 0}")), "TG190", "in another list", "same list"),
    "a load that the next trip waits for": (
        TRIP, (LOADED + WAIT, f"  - for: {{k: 2}}\n    do:\n    {WAIT}    {LOADED}{WAIT}"),
        "TG190", "in another list", "same list"),
    "a loop that loads between": (
        TRIP, (LOADED + WAIT, f"{LOADED}  - for: {{k: 2}}\n    do:\n    {LOADED.replace('y, async: true', 'y')}{WAIT}"),
        "TG190", "in another list", "same list"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    text, change, code, said, fix = FAULTS[name]
    first = refusal_of(TilegenError, build, change_text(text, change, most=1)).diagnostics[0]
    assert first.code == code and said in first.message and fix in first.hint, first
