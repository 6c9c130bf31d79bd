"""Candidates timed on this process's GPU: right first, then in CUDA graphs, in turns with the best so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilegen import gpu
from tilegen.bench.buffers import (
    Images,
    argument_bytes,
    give_workspaces,
    join_passes,
    lay_out,
    list_arrays,
    load_passes,
)
from tilegen.bench.checking import check_kernel, check_passes, expect_target, measure_kernel
from tilegen.bench.meaning import Task
from tilegen.bench.measuring import Candidate as Launch
from tilegen.bench.measuring import Rotation, Session, make_samplers, take_turns, warm_up
from tilegen.bench.products import Product
from tilegen.errors import TilegenError
from tilegen.gpu import CompileError
from tilegen.gpu.driver import load_driver
from tilegen.pipeline import Built, BuiltProgram, list_launched
from tilegen.plan import default_values
from tilegen.tuned import Environment, describe_environment
from tilegen.tuning.engine import visible_gpus
from tilegen.tuning.meters import Asked, Faulted, Guard, Prepared, Timing
from tilegen.verifying import compile_for, verify_built

_FEW_ROUNDS = 3  # of what is plainly slower
_SAMPLE_US = 2000.0  # about so long is a graph of launches
_MOST_LAUNCHES = 20
_NUMPY_TIMES = 10  # as long as the device may take: NumPy carries a spec out more slowly


def find_gpus() -> tuple[GpuMeter, list[dict[str, str]]]:
    """What measures on the GPUs that this process sees, and the environment of a process for each.

    Raises EnvironmentLack TG502 without any.
    """
    driver = load_driver()
    return GpuMeter(driver.compute_capability(0)), visible_gpus(driver.count_devices())


@dataclass(frozen=True)
class GpuMeter:
    """The GPU that a process sees first. ``capability``: what kernels are compiled for ahead, where it is known."""

    capability: tuple[int, int] | None = None

    def describe(self) -> Environment:
        return describe_environment(gpu.require_gpu())

    def prepare(self, built: Built | BuiltProgram) -> None:
        """Compile, which keeps the cubins on disk; no GPU is needed for it."""
        if self.capability is not None:
            target = gpu.Device("the GPU", self.capability, "", 0, 0, 0)
            for one in list_launched(built):
                compile_for(target, one)

    def open(self) -> GpuBench:
        device = gpu.require_gpu()
        return GpuBench(Session(device, gpu.make_stopwatch(device), 0.0))


@dataclass
class _Place:
    """The arrays of a problem, filled, and what was found of them. ``outputs``: of the first set, as a candidate that
    was compared with the spec's meaning has left them.
    """

    problem: tuple[str, int]
    task: Task
    sets: list[Images]
    rotation: Rotation
    expected: Any
    sizes: Mapping[str, int]
    outputs: dict[str, Any] = field(default_factory=dict)
    starts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Loaded:
    """A kernel that is ready over all sets: one call launches it on one."""

    built: Built | BuiltProgram
    passes: tuple[Launch, ...]
    launch: Launch
    images: Sequence[Images]


class GpuBench:
    """The GPU of this process, its stopwatch, and the arrays of the problem that was asked last."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.place: _Place | None = None
        self.loaded: dict[str, _Loaded] = {}
        self.checked: set[str] = set()

    def time(self, asked: Asked, guard: Guard) -> Timing:
        """Check what is new, then time all in turns."""
        with self.session.watch.stream:  # left before the task ends, whatever ends this process later
            try:
                return self._time(asked, guard)
            except (TilegenError, CompileError):
                raise
            except Exception as error:  # CuPy's errors have no base of their own
                guard.begin("what a failure has left", asked.limit_seconds)
                if said := gpu.find_fault():
                    raise Faulted(said) from error
                return Timing({}, "failed", f"{type(error).__name__}: {error}"[:300])
            finally:
                guard.end()

    def _time(self, asked: Asked, guard: Guard) -> Timing:
        new = asked.kernels[0]
        assert new.built is not None
        guard.begin("laying out its arrays", _NUMPY_TIMES * asked.limit_seconds)
        place = self._lay_out(asked, new.built)
        case = default_values(new.built.spec.params)
        if (sizes := argument_bytes(new.built, case)) != place.sizes:
            changed = ", ".join(f"{name} {n} bytes" for name, n in sizes.items() if n != place.sizes.get(name))
            return Timing({}, "refused", f"it is another problem: {changed}")
        self.loaded = {k.key: self.loaded[k.key] for k in asked.kernels if k.key in self.loaded}
        for kernel in asked.kernels:
            if kernel.built is not None and kernel.key not in self.loaded:
                self.loaded[kernel.key] = self._load(place, kernel)
        for kernel in asked.kernels:
            if kernel.key not in self.checked:
                self._check(place, self.loaded[kernel.key], asked, guard)
                self.checked.add(kernel.key)
        return Timing(self._take_turns(place, asked, guard))

    def _lay_out(self, asked: Asked, built: Built | BuiltProgram) -> _Place:
        wanted = asked.problem, asked.seed
        if self.place is None or self.place.problem != wanted:
            self.place, self.loaded, self.checked = None, {}, set()
            case = default_values(built.spec.params)
            task, sets, rotation = lay_out(self.session, built, case, asked.seed)
            sizes = argument_bytes(built, case)
            self.place = _Place(wanted, task, sets, rotation, expect_target(self.session, task), sizes)
        return self.place

    def _load(self, place: _Place, kernel: Prepared) -> _Loaded:
        built = kernel.built
        assert built is not None
        case = default_values(built.spec.params)
        images = give_workspaces(built, case, place.sets)
        passes = load_passes(self.session, built, case, images)
        return _Loaded(built, passes, join_passes(passes), images)

    # ------------------------------------------------------------ right
    def _check(self, place: _Place, loaded: _Loaded, asked: Asked, guard: Guard) -> None:
        """Raises ProofError where an element is not what the spec means."""
        guard.begin("its first launch", asked.limit_seconds)
        if isinstance(place.task.meaning, Product):
            measure_kernel(place.task, place.expected, loaded.launch)
        elif not isinstance(place.task.meaning, str):
            check_kernel(self.session, loaded.built, place.task, loaded.launch, place.expected, None)
        else:
            self._compare(place, loaded, asked, guard)
        if isinstance(loaded.built, BuiltProgram):
            guard.begin("a launch of all its passes", asked.limit_seconds)
            check_passes(self.session, loaded.built, loaded.images[0], loaded.passes)

    def _compare(self, place: _Place, loaded: _Loaded, asked: Asked, guard: Guard) -> None:
        """With what a candidate has left that was found right, bit for bit; where that differs, or there is none, with
        what the spec means in NumPy.
        """
        outputs = self._run_once(place, loaded)
        instruments = self.session.watch.instruments
        if place.outputs and all(
            gpu.compare_images(instruments, image, place.outputs[name]) is None for name, image in outputs.items()
        ):
            return
        guard.begin("its comparison with NumPy", _NUMPY_TIMES * asked.limit_seconds)
        verify_built(loaded.built, "gpu", [asked.seed])
        place.outputs = place.outputs or {name: gpu.keep_bytes(image) for name, image in outputs.items()}

    def _run_once(self, place: _Place, loaded: _Loaded) -> dict[str, Any]:
        """The arrays that a kernel writes, of the first set, once it has run on poison, or on what they held."""
        images = loaded.images[0]
        written = [m for m in list_arrays(loaded.built) if m.access != "in"]
        for memory in written:
            image = images[memory.name]
            if memory.access == "inout":
                gpu.copy_bytes(place.starts.setdefault(memory.name, gpu.keep_bytes(image)), image)
            else:
                gpu.fill_bytes(image, gpu.POISON)
        loaded.launch(0)
        self.session.watch.synchronize()
        return {memory.name: images[memory.name] for memory in written}

    # ------------------------------------------------------------ fast
    def _take_turns(self, place: _Place, asked: Asked, guard: Guard) -> dict[str, tuple[float, ...]]:
        watch, rotation = self.session.watch, place.rotation
        guard.begin("its launches", asked.limit_seconds)
        estimates = {kernel.key: warm_up(watch, self.loaded[kernel.key].launch) for kernel in asked.kernels}
        new, *others = estimates.values()
        is_slow = bool(others) and new > asked.most_times * min(others)
        launches = count_launches(min(estimates.values()))
        samplers: dict[str, tuple[Callable[[], object], ...]] = {
            key: make_samplers(watch, self.loaded[key].launch, rotation.sets, launches) for key in estimates
        }
        guard.begin("its launches in graphs", asked.limit_seconds)
        rounds = min(_FEW_ROUNDS, asked.rounds) if is_slow else asked.rounds
        return dict(take_turns(watch, samplers, rounds, launches, rotation.is_cold).rounds)


def count_launches(fastest_us: float) -> int:
    """Launches of a graph: so many that it takes some milliseconds.

    >>> count_launches(3.0), count_launches(500.0), count_launches(1e5)
    (20, 4, 2)
    """
    return max(2, min(_MOST_LAUNCHES, int(_SAMPLE_US / fastest_us)))
