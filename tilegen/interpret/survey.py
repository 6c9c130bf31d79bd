"""What a plan touches, before it runs: how wide, and whether it reads or writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tilegen.plan import MATRIX_ROW_ELEMS, Block, Move, Plan, Ref, Step, Tma, matrices

CHUNK_BYTES = 16  # TMA moves whole chunks of shared memory


@dataclass(frozen=True)
class Use:
    """How a plan touches a memory: the fewest elements in one access, and whether it reads and writes."""

    least_elems: int = 1
    is_read: bool = False
    is_written: bool = False


def survey(plan: Plan) -> dict[str, Use]:
    """How each memory is touched, through the formals of Blocks.

    An access never has fewer bytes than its memory's least, so that is the grain of the races.
    """
    uses: dict[str, Use] = {}

    def touch(name: str, elems: int, is_read: bool) -> None:
        old = uses.get(name, Use(elems))
        uses[name] = Use(min(old.least_elems, elems), old.is_read or is_read, old.is_written or not is_read)

    def visit(steps: Iterable[Step], names: Mapping[str, str]) -> None:
        for step in steps:
            if isinstance(step, Move):
                for ref, is_read in ((step.src, True), (step.dst, False)):
                    is_row = matrices(step) and ref.memory.space != "register"
                    elems = MATRIX_ROW_ELEMS if is_row else step.elems
                    touch(names.get(ref.memory.name, ref.memory.name), elems, is_read)
            elif isinstance(step, Tma):
                size, is_load = step.map.memory.elem_bytes, step.done is not None
                touch(step.map.memory.name, 1, is_load)
                shared = names.get(step.shared.memory.name, step.shared.memory.name)
                touch(shared, max(1, CHUNK_BYTES // size), not is_load)
            elif isinstance(step, Block):
                actual = {f.name: a.memory.name for f, a in step.args if isinstance(a, Ref)}
                visit(step.body, {**names, **{f: names.get(a, a) for f, a in actual.items()}})
            else:
                visit(getattr(step, "body", ()), names)

    for role in plan.roles:
        visit(role.steps, {})
    return uses
