"""Many launches of a spec with passes on two streams, beside a kernel that takes SMs from them: soak.py runs it.

Both streams wait behind a gate while the host enqueues, so that launches follow one another with nothing in between:
the first pass of a launch may start while the last pass of the one before still reads the workspace that both have.
Inputs change from launch to launch, and each launch writes outputs of its own, poisoned before. The workspace of each
stream holds poison before the first launch of a batch. What inputs ask for is what one launch by itself left, which was
compared with the meaning of all passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

from program_runs import Images, draw_images, run_checked
from python_calls import compile_call, given_by_caller, start_by_cupy, type_arrays

from tilegen import gpu
from tilegen.gpu.call import Kernel
from tilegen.pipeline import BuiltProgram
from tilegen.plan import default_values
from tilegen.spec.accumulated import list_unordered

STREAMS, IN_A_ROW = 2, 25
INPUTS = 3  # seeds of them: no launch has those of the launch before, or of the other stream's at its side
GATE, BESIDE = 12, 6  # products that both streams wait for, and that run beside a batch
SIDE = 1536  # of a product's matrices
ALIGNED = 256  # bytes of an output, and between outputs
BATCHES_AHEAD = 20
UNORDERED = "not soaked: its sums have no order, so two launches may differ"


def soak_program(device: gpu.Device, built: BuiltProgram, launches: int, one_workspace: bool = False) -> str:
    """What came of so many launches: "10000 launches, all equal" is right; UNORDERED where two launches may differ.

    With ``one_workspace`` for both streams, a fault, other words show that these launches would tell.
    """
    import cupy

    if list_unordered(built.spec):
        return UNORDERED
    start = start_by_cupy(device, [built])
    wanted = [run_checked(built, start, seed) for seed in range(1, INPUTS + 1)]
    kernel = compile_call(device, built)
    inputs = [
        {name: cupy.asarray(image) for name, image in draw_images(built, seed + 1).items()} for seed in range(INPUTS)
    ]
    lanes = [_Lane.of(built, kernel, inputs, wanted, number) for number in range(STREAMS)]
    given = cache(cupy.get_default_memory_pool().malloc) if one_workspace else None
    rival = cupy.cuda.Stream(non_blocking=True)
    x = cupy.random.rand(SIDE, SIDE, dtype=cupy.float32)
    cupy.cuda.Device().synchronize()
    batches = -(-launches // (STREAMS * IN_A_ROW))
    for batch in range(batches):
        with rival:
            for k in range(GATE + BESIDE):
                x = x @ x * 1e-3
                if k == GATE - 1:
                    gate = rival.record()
        for lane in lanes:
            lane.prepare(gate)
        for k in range(IN_A_ROW):
            for lane in lanes:
                lane.launch(k, given or (None if k else _allocate_poisoned))
        for lane in lanes:
            lane.compare()
        if batch % BATCHES_AHEAD == 0:
            cupy.cuda.Device().synchronize()
    cupy.cuda.Device().synchronize()
    bad, count = sum(int(lane.wrong) for lane in lanes), batches * STREAMS * IN_A_ROW
    return f"{count} launches, all equal" if not bad else f"{bad} of {count} launches differ from one alone"


@dataclass(frozen=True)
class _Lane:
    """A stream: ``calls`` has the arrays of each launch of a batch; of each output a row for each launch, with what the
    row begins as and what it must hold in the end.
    """

    stream: Any
    kernel: Kernel
    params: dict[str, Any]
    calls: tuple[list[Any], ...]
    outputs: dict[str, Any]
    begun: dict[str, Any]
    wanted: dict[str, Any]
    wrong: Any

    @staticmethod
    def of(
        built: BuiltProgram, kernel: Kernel, inputs: Sequence[Images], wanted: Sequence[Images], number: int
    ) -> _Lane:
        """The stream of a number, which begins with other inputs than the others."""
        import cupy

        case = default_values(built.spec.params)
        turns = [(number + k) % INPUTS for k in range(IN_A_ROW)]
        ends = {name: cupy.stack([_pad(found[name]) for found in wanted])[cupy.array(turns)] for name in wanted[0]}
        begun = {}
        for m in built.plan.arrays:
            if m.name in ends:
                begun[m.name] = cupy.full_like(ends[m.name], gpu.POISON)
                if m.access == "inout":
                    begun[m.name] = cupy.stack([_pad(given[m.name].get()) for given in inputs])[cupy.array(turns)]
        outputs = {name: rows.copy() for name, rows in begun.items()}
        sizes = {name: image.nbytes for name, image in wanted[0].items()}
        calls = []
        for k, turn in enumerate(turns):
            raw = [
                outputs[m.name][k][: sizes[m.name]] if m.name in outputs else inputs[turn][m.name]
                for m in built.plan.arrays
            ]
            calls.append(type_arrays(kernel, case, raw))
        stream = cupy.cuda.Stream(non_blocking=True)
        params = given_by_caller(built, case)
        return _Lane(stream, kernel, params, tuple(calls), outputs, begun, ends, cupy.zeros((), cupy.int64))

    def prepare(self, gate: Any) -> None:
        """Poison what launches write, behind the gate."""
        with self.stream:
            self.stream.wait_event(gate)
            for name, rows in self.outputs.items():
                rows[...] = self.begun[name]

    def launch(self, k: int, allocate: Callable[[int], Any] | None) -> None:
        """The launch of a number in its batch; ``allocate`` makes its workspace, else CuPy's pool."""
        import cupy

        with self.stream, cupy.cuda.using_allocator(allocate) if allocate else nullcontext():
            self.kernel(*self.calls[k], **self.params)

    def compare(self) -> None:
        """Count launches of the batch that left something else, beside an output too."""
        import cupy

        with self.stream:
            differ = [(rows != self.wanted[name]).any(axis=1) for name, rows in self.outputs.items()]
            self.wrong[...] += cupy.stack(differ).any(axis=0).sum()


def _pad(image: Any) -> Any:
    """An output, and poison up to the next one."""
    import cupy

    padded = cupy.full(-(-(image.nbytes + 1) // ALIGNED) * ALIGNED, gpu.POISON, cupy.uint8)
    padded[: image.nbytes] = cupy.asarray(image)
    return padded


def _allocate_poisoned(size: int) -> Any:
    """Memory of CuPy's pool for the current stream, which the stream's next launch is given again."""
    import cupy

    memory = cupy.get_default_memory_pool().malloc(size)
    memory.memset_async(gpu.POISON, size)
    return memory
