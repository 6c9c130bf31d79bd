"""Plans of which every value and place is right, and which no GPU carries out as they are meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilegen
from tests.faults.parts import change_memories, change_parts, rewrite
from tests.faults.steps import is_a, mutate, turn, with_steps
from tests.faults.verdicts import proof_code
from tilegen.index import Formula, Index, Var, every, less
from tilegen.plan import (
    Arrive,
    Await,
    Block,
    Commit,
    Map,
    Memory,
    Move,
    Plan,
    Repeat,
    Sync,
    TensorMap,
    Tma,
    Wait,
    When,
    flat_memory,
)
from tilegen.plan.instructions import CAST
from tilegen.planner import plan_spec
from tilegen.proofs import prove
from tilegen.spec.data import Spec

SPECS = Path(__file__).resolve().parents[2] / "specs"


def planned(source: str | Path) -> tuple[Spec, Plan]:
    spec = tilegen.load(source)
    plan = plan_spec(spec)
    assert not proof_code(lambda: prove(spec, plan))
    return spec, plan


@pytest.mark.parametrize("parity", [3, 2, -1])
def test_a_parity_is_0_or_1(parity: int) -> None:
    spec, plan = planned(SPECS / "copy_tma.yaml")
    wrong = mutate(plan, is_a(Await), turn(parity=parity))
    assert proof_code(lambda: prove(spec, wrong)) == "TG414"


def test_an_arrival_does_one_thing() -> None:
    _, plan = planned(SPECS / "copy_tma.yaml")
    with pytest.raises(ValueError, match="announces bytes, or is at another CTA"):
        mutate(plan, lambda x: isinstance(x, Arrive) and x.bytes > 0, turn(rank=0))


@pytest.mark.parametrize(("scope", "roles"), [("role", ("load", "move")), ("cta", ("load",)), ("roles", ())])
def test_roles_are_named_by_the_sync_of_roles_alone(scope: str, roles: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="no other"):
        Sync(scope, roles=roles)


MOVED = """kernel: moved
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [1024]}
  Y: {scope: global, dtype: float32, shape: [1024]}
  h: {scope: register, dtype: float32, shape: [8]}
ops:
  - copy: {scope: thread, src: "X[tx*8 : +8]", dst: h}
  - copy: {scope: thread, src: h, dst: "Y[tx*8 : +8]"}
"""


def test_registers_that_a_loop_has_written_are_not_read_by_it() -> None:
    spec, plan = planned(MOVED)
    (role,) = plan.roles
    load, store = role.steps
    assert isinstance(store, Block)
    h, i = flat_memory("h", "float32", 9, "register"), Var("i", 8)
    load = rewrite(load, lambda x: h if isinstance(x, Memory) and x.name == "h" else None)
    y, at = next((formal, actual) for formal, actual in store.args if formal.name == "Y")
    assert isinstance(y, Memory)
    store = Block("store_h_Y", ((h, h[0]), (y, at)), (Repeat(i, 8, (Move(y[i], h[i + 1], 1),), True),), op=store.op)
    steps = (load, Map(CAST, h[1], (h[0],), 8), store)
    memories = tuple(h if m.name == "h" else m for m in plan.memories)
    wrong = with_steps(replace(plan, memories=memories), *steps)
    assert proof_code(lambda: prove(spec, wrong)) == "TG416"


CLIPPED = """kernel: clipped
params: {M: {default: 1000, max: 1048576}}
grid: {bx: ceil(M / 16)}
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [M, 128]}
  Y: {scope: global, dtype: float32, shape: [M, 128]}
ops:
  - copy: {src: "X[bx*16 : +16]", dst: "Y[bx*16 : +16]", edge: clip}
"""


def test_a_product_that_its_type_does_not_hold_is_found_in_a_condition() -> None:
    spec, plan = planned(CLIPPED)

    def times(x: Index) -> Index:
        return Formula("*", (x, 4096), 2**31 - 1)

    def change(x: Any) -> Any:
        if isinstance(x, When) and isinstance(x.condition, Formula) and x.condition.symbol == "<":
            a, b = x.condition.args
            both = every(x.condition, Formula("<", (times(a), times(b)), 2))
            return replace(x, condition=both, body=rewrite(x.body, change))
        return None

    assert proof_code(lambda: prove(spec, change_parts(plan, change))) == "TG416"


TWICE = """kernel: twice
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [128]}
  Y: {scope: global, dtype: float32, shape: [128]}
  Z: {scope: global, dtype: float32, shape: [128]}
  h: {scope: register, dtype: float32, shape: [1]}
ops:
  - copy: {src: X, dst: Y}
  - sync: cta
  - copy: {scope: thread, src: "Y[127 - tx : +1]", dst: h}
  - copy: {scope: thread, src: h, dst: "Z[tx : +1]"}
"""


def test_what_a_kernel_writes_is_not_streamed() -> None:
    spec, plan = planned(TWICE)

    def stream(x: Any) -> Any:
        return replace(x, cache="stream") if isinstance(x, Memory) and x.name == "Y" else None

    def change(x: Any) -> Any:
        if isinstance(x, Block) and x.name == "copy_Y_h":
            return replace(x, args=tuple((rewrite(f, stream), a) for f, a in x.args), body=rewrite(x.body, stream))
        return None

    assert proof_code(lambda: prove(spec, change_parts(plan, change))) == "TG416"


def store_by_tma(rows: int, columns: int, pitch: int) -> tuple[Spec, Plan]:
    """A tile goes to shared memory by threads, and from there by one box."""
    spec, plan = planned(f"""kernel: boxes
arch: sm_90
threads: 128
buffers:
  X: {{scope: global, dtype: float16, shape: [{rows}, {columns}]}}
  Y: {{scope: global, dtype: float16, shape: [{rows}, {pitch}], partial: true}}
  tile: {{scope: shared, dtype: float16, shape: [{rows}, {columns}]}}
ops:
  - copy: {{src: X, dst: tile}}
  - sync: cta
  - copy: {{src: tile, dst: "Y[:, :{columns}]"}}
""")
    plan = change_memories(plan, lambda m: replace(m, align_bytes=1024) if m.name == "tile" else m)
    y, tile = (next(m for m in plan.memories if m.name == name) for name in ("Y", "tile"))
    (role,) = plan.roles
    load, sync, _ = role.steps
    store = Tma(TensorMap("Y_map", y, (0, 1), (rows, columns)), (0, 0), tile[0])
    by_one = When(less(Var("tx", 128), 1), (store, Commit("bulk"), Wait("bulk", 0)))
    return spec, with_steps(plan, load, Sync("async"), sync, by_one)


@pytest.mark.parametrize(
    ("sizes", "code"),
    [((64, 64, 72), ""), ((64, 64, 68), "TG414"), ((512, 8, 8), "TG414"), ((4, 512, 512), "TG414")],
)
def test_a_descriptor_is_one_that_the_driver_encodes(sizes: tuple[int, int, int], code: str) -> None:
    spec, plan = store_by_tma(*sizes)
    assert proof_code(lambda: prove(spec, plan)) == code


def test_a_cta_has_the_shared_memory_that_is_asked_for() -> None:
    spec, plan = planned(SPECS / "copy_tma.yaml")
    far = change_memories(plan, lambda m: replace(m, offset_bytes=1 << 20) if m.space == "shared" else m)
    assert proof_code(lambda: prove(spec, far)) == "TG414"
