"""A kernel with stamps, run on a GPU or on the PTX machine, and its stamps compared with the proof's order."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen import gpu
from tilegen.dtypes import numpy_dtype
from tilegen.errors import Diagnostic, EnvironmentLack, SpecError
from tilegen.index import evaluate
from tilegen.pipeline import Built
from tilegen.plan import arrays, default_values
from tilegen.proofs.floats import float_inputs
from tilegen.ptx import parse_kernel, run_kernel
from tilegen.render import render
from tilegen.spec.outline import launch_of
from tilegen.tracing.files import Origin, trace_data
from tilegen.tracing.orders import Orders, check_orders
from tilegen.tracing.readings import Tracing, buffer_bytes, choose_clusters, read_buffer
from tilegen.tracing.sites import Stamped, place_stamps
from tilegen.tracing.timelines import Timeline, join_readings, record_ctas
from tilegen.verifying import compile_for, launch_case
from tilegen.verifying.floats import draw_image
from tilegen.verifying.on_ptx import describe_launch

Image = NDArray[np.uint8]
NOTHING = "TG497"
BUFFER = "stamp__buffer"
PTX = "the PTX machine"
MOST_ON_PTX = 4  # CTAs that the PTX machine runs


@dataclass(frozen=True)
class TraceWishes:
    """``ctas`` are traced at least, each thread has place for so many ``stamps``, ``seed`` is that of the inputs.

    ``device``: gpu or ptx.
    """

    ctas: int = 32
    stamps: int = 4096
    device: str = "gpu"
    seed: int = 1


@dataclass(frozen=True)
class Traced:
    """A timeline, what its stamps say of the proof's orders, and the file's data."""

    built: Built
    timeline: Timeline
    orders: Orders
    data: Mapping[str, Any]

    @property
    def full(self) -> int:
        """The threads whose part of the buffer was full."""
        return sum(r.is_full for r in self.timeline.readings)


def trace_built(built: Built, wishes: TraceWishes) -> Traced:
    """Run a proved kernel with stamps, at the defaults of its params, and join what they say with the proof's order.

    Raises SpecError TG497 where nothing can be stamped, ProofError TG495 where the stamps are no way through the
    plan, ValueError for a number of stamps that cannot be, EnvironmentLack without a compiler, or a GPU for it.
    """
    stamped = stamp_kernel(built, wishes.stamps)
    case = default_values(built.spec.params)
    launch = launch_of(built.spec, case)
    ctas = min(wishes.ctas, MOST_ON_PTX) if wishes.device == "ptx" else wishes.ctas
    tracing = choose_clusters(launch.grid, built.plan.cluster, ctas)
    run = run_on_ptx if wishes.device == "ptx" else run_on_gpu
    image, device = run(built, stamped, tracing, draw_inputs(built, case, wishes.seed))
    return judge_stamps(built, Stamps(stamped, tracing, image, device, wishes.seed))


@dataclass(frozen=True)
class Stamps:
    """What a run left in the buffer: the ``image`` of its bytes. ``seed``: of the inputs; ``date``: of the run."""

    stamped: Stamped
    tracing: Tracing
    image: Image
    device: str
    seed: int
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%d"))


def judge_stamps(built: Built, stamps: Stamps) -> Traced:
    """Join the stamps of a run with what the interpreter does in the same CTAs. Raises ProofError TG495."""
    stamped, case = stamps.stamped, default_values(built.spec.params)
    readings = read_buffer(stamped.plan, stamps.tracing, stamps.image)
    inputs = float_inputs(built.plan, stamps.seed, case)
    found = record_ctas(stamped.plan, stamps.tracing.list_ctas(), inputs, case)
    timeline = join_readings(stamped, readings, found)
    orders = check_orders(timeline)
    sha256 = hashlib.sha256(built.source.encode()).hexdigest()
    origin = Origin(sha256, stamps.device, case, launch_of(built.spec, case), stamps.date)
    return Traced(built, timeline, orders, trace_data(timeline, orders, origin))


def stamp_kernel(built: Built, most: int) -> Stamped:
    """The plan of a kernel with stamps. Raises SpecError TG497 for one that has no site."""
    stamped = place_stamps(built.plan, most)
    if not stamped.sites:
        message = f"kernel '{built.plan.name}' waits for nothing, copies nothing and multiplies nothing: no stamps"
        raise SpecError(Diagnostic(NOTHING, message, built.spec.ops_mark, "trace a kernel that has a copy"))
    return stamped


def with_stamps(built: Built, stamped: Stamped) -> Built:
    """The kernel with stamps, to be compiled: plan and text."""
    return replace(built, plan=stamped.plan, source=render(stamped.plan))


def draw_inputs(built: Built, case: Mapping[str, int], seed: int) -> dict[str, Image]:
    """Bytes of every array: random elements of what is read, zeros of what is only written."""
    drawn, found = float_inputs(built.plan, seed, case), {}
    for m in arrays(built.plan):
        elems = int(evaluate(m.span, dict(case)))
        image = draw_image(drawn[m.name], elems, numpy_dtype(m.dtype)) if m.name in drawn else None
        found[m.name] = np.zeros(elems * m.elem_bytes, np.uint8) if image is None else image.view(np.uint8)
    return found


def run_on_gpu(built: Built, stamped: Stamped, tracing: Tracing, images: Mapping[str, Image]) -> tuple[Image, str]:
    """The buffer of the second launch on a GPU, and the GPU's name: the first one warms up."""
    device = gpu.require_gpu()
    traced = with_stamps(built, stamped)
    cubin = compile_for(device, traced)
    how = launch_case(built, default_values(built.spec.params))
    start = bind_traced(cubin, how, tracing)
    given = {**images, BUFFER: np.zeros(buffer_bytes(stamped.plan, tracing), np.uint8)}
    sizes = {m.name: images[m.name].nbytes for m in arrays(built.plan) if m.access != "in"}
    sizes[BUFFER] = given[BUFFER].nbytes

    def start_twice(views: list[Any]) -> None:
        launch = start(views)
        launch()
        gpu.synchronize()
        launch()

    found = gpu.run_guarded(built.plan.name, (*how.arguments, BUFFER), start_twice, given, sizes)
    return found[BUFFER], device.name


def bind_traced(cubin: gpu.Cubin, how: gpu.GpuLaunch, tracing: Tracing) -> Callable[[list[Any]], Callable[[], None]]:
    """What launches a kernel with stamps over its arrays and, behind them, the buffer."""
    function = gpu.load_function(cubin, how)

    def bind(views: list[Any]) -> Callable[[], None]:
        own = gpu.arguments_of(how, views[:-1])
        return gpu.bind_launch(function, how, (*own, views[-1], np.int32(tracing.every)))

    return bind


def run_on_ptx(built: Built, stamped: Stamped, tracing: Tracing, images: Mapping[str, Image]) -> tuple[Image, str]:
    """The buffer as the PTX machine leaves it, which counts readings of clocks instead of time."""
    if not gpu.find_compilers():
        raise EnvironmentLack(
            Diagnostic("TG501", f"cannot compile for {built.plan.arch}: neither NVRTC nor nvcc is here")
        )
    launch = describe_launch(built, default_values(built.spec.params))
    launch = replace(launch, arguments=(*launch.arguments, BUFFER, np.int32(tracing.every)), overlaps=False)
    text = gpu.print_ptx(with_stamps(built, stamped).source, built.plan.arch, built.plan.name)
    given = {**images, BUFFER: np.zeros(buffer_bytes(stamped.plan, tracing), np.uint8)}
    writable = [m.name for m in arrays(built.plan) if m.access != "in"] + [BUFFER]
    ran = run_kernel(parse_kernel(text, built.plan.name), launch, given, writable, tracing.list_ctas())
    return ran.images[BUFFER], PTX
