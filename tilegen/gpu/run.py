"""Run a kernel on the GPU over images of raw bytes: outputs poisoned before, guards around buffers checked after."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.dtypes import numpy_dtype
from tilegen.errors import Diagnostic, ProofError
from tilegen.gpu.cubins import Cubin
from tilegen.gpu.device import load_cupy, require_gpu
from tilegen.gpu.driver import DriverError, describe_overlap, load_driver
from tilegen.gpu.tensor_maps import encode_tensor_maps

Image = NDArray[np.uint8]

POISON = 0xA5  # no byte of a small integer or of a float of one: what a kernel never wrote is seen to be so
FAULT = "TG491"  # the code of a kernel that faults
GUARD_BYTES = 256  # before and after each buffer; also keeps the buffer aligned to 256 bytes
_STATIC_SHARED_BYTES = 48 * 1024
_ARGUMENT_ALIGN_BYTES = 64  # that of a TMA descriptor, the widest of arguments


@dataclass(frozen=True)
class GpuLaunch:
    """How a kernel is launched: ``arguments`` names its buffers in order, ``params`` are the values after them.

    ``shared_bytes`` is dynamic shared memory. A cluster's shape is part of the kernel (``__cluster_dims__``); here it
    says what the grid must be a multiple of. ``tensor_maps``: the TMA descriptors after the values, as
    ``render.launch_info`` describes them. ``overlaps``: it may start while the kernel before it still runs.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[str, ...]
    params: tuple[np.generic, ...] = ()
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    tensor_maps: tuple[Mapping[str, Any], ...] = ()
    overlaps: bool = False


def read_launch(info: Mapping[str, Any]) -> GpuLaunch:
    """The launch that ``render.launch_info`` or a manifest describes."""
    pointers = tuple(a["name"] for a in info["args"] if a["kind"] == "pointer")
    values = tuple(numpy_dtype(a["dtype"]).type(a["value"]) for a in info["args"] if a["kind"] == "value")
    maps = tuple(a for a in info["args"] if a["kind"] == "tensor_map")
    (x, y, z), block, cluster = (tuple(info[key]) for key in ("grid", "block", "cluster"))
    shared, overlaps = info["dynamic_shared_bytes"], "overlap" in info
    return GpuLaunch(info["kernel"], (x, y, z), block, pointers, values, shared, cluster, maps, overlaps)


def launch(cubin: Cubin, how: GpuLaunch, arrays: Sequence[Any]) -> None:
    """Start the kernel on the current stream; ``arrays`` are CuPy arrays of raw bytes in the order of the arguments.

    It returns before the kernel has run. Raises EnvironmentLack without a GPU for the cubin, ValueError for a launch
    that cannot be.
    """
    require_gpu(cubin.arch)
    if len(arrays) != len(how.arguments):
        raise ValueError(f"{how.kernel} takes {len(how.arguments)} arrays, not {len(arrays)}")
    if any(extent % part for extent, part in zip(how.grid, how.cluster, strict=True)):
        raise ValueError(f"a grid of {how.grid} is not a multiple of the cluster {how.cluster}")
    bind_launch(load_function(cubin, how), how, arguments_of(how, arrays))()


def arguments_of(how: GpuLaunch, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """What the kernel takes, in order: arrays, parameters, and the descriptors of arrays that TMA works on."""
    if not how.tensor_maps:
        return (*arrays, *how.params)
    pointers = {name: array.data.ptr for name, array in zip(how.arguments, arrays, strict=True)}
    maps = encode_tensor_maps({"args": how.tensor_maps}, pointers)
    return (*arrays, *how.params, *(m.view("V128") for m in maps))  # CuPy passes arrays of one element by value


def load_function(cubin: Cubin, how: GpuLaunch) -> Any:
    """The kernel as CuPy calls it, allowed its dynamic shared memory: past 48 KB that takes asking."""
    cupy = load_cupy()
    module = cupy.cuda.function.Module()
    module.load(cubin.image)
    function = module.get_function(how.kernel)
    allow_shared(function, how.shared_bytes, cubin.shared_bytes)
    return function


def bind_launch(function: Any, how: GpuLaunch, arguments: tuple[Any, ...]) -> Callable[[], None]:
    """A launch of a loaded kernel with its arguments on the stream that is CuPy's current one when it is called."""
    if not how.overlaps:
        return lambda: function(how.grid, how.block, arguments, shared_mem=how.shared_bytes)
    return _OverlappingLaunch(function, how, arguments, tuple(_aligned_copy(_bytes_of(x)) for x in arguments))


@dataclass(frozen=True)
class _OverlappingLaunch:
    """A launch with the attribute that CuPy has not. ``values``: what the kernel takes for each of its arguments."""

    function: Any
    how: GpuLaunch
    arguments: tuple[Any, ...]
    values: tuple[Image, ...]

    def __call__(self) -> None:
        driver, how = load_driver(), self.how
        addresses = (ctypes.c_void_p * len(self.values))(*(x.ctypes.data for x in self.values))
        stream = load_cupy().cuda.get_current_stream().ptr
        config = describe_overlap(how.grid, how.block, how.shared_bytes, stream)
        if status := driver.launch(config, ctypes.c_void_p(self.function.ptr), addresses, None):
            raise DriverError(how.kernel, status, driver.name_status(status))


def _bytes_of(argument: Any) -> Image:
    """What a kernel takes: the address of a CuPy array, else the value itself."""
    is_array = not isinstance(argument, (np.ndarray, np.generic))
    return np.frombuffer(np.uint64(argument.data.ptr).tobytes() if is_array else argument.tobytes(), np.uint8)


def _aligned_copy(data: Image) -> Image:
    whole = np.zeros(data.size + _ARGUMENT_ALIGN_BYTES, np.uint8)
    start = -whole.ctypes.data % _ARGUMENT_ALIGN_BYTES
    whole[start : start + data.size] = data
    return whole[start : start + data.size]


def allow_shared(function: Any, dynamic_bytes: int, static_bytes: int = 0) -> None:
    """Ask for dynamic shared memory where a kernel has more than 48 KB in all."""
    if dynamic_bytes + static_bytes > _STATIC_SHARED_BYTES:
        driver = load_cupy().cuda.driver
        attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.funcSetAttribute(function.ptr, attribute, dynamic_bytes)


def run_images(
    cubin: Cubin, how: GpuLaunch, inputs: Mapping[str, Image], outputs: Mapping[str, int]
) -> dict[str, Image]:
    """Run the kernel once and return the physical images of its outputs, as ``run_guarded`` does."""
    require_gpu(cubin.arch)
    return run_guarded(how.kernel, how.arguments, lambda arrays: launch(cubin, how, arrays), inputs, outputs)


def run_guarded(
    kernel: str, arguments: Sequence[str], start: Callable[[list[Any]], None], inputs: Mapping[str, Image],
    outputs: Mapping[str, int],
) -> dict[str, Image]:  # fmt: skip
    """Start a kernel in any way, over one CuPy array of bytes for each argument; the physical images of its outputs.

    ``inputs`` holds bytes, ``outputs`` sizes in bytes; a buffer in both starts as its input. Every other output starts
    as POISON, so that bytes outside its layout can be seen to be untouched. Raises ProofError if the kernel faults,
    writes beside a buffer, or changes a buffer that is only an input.
    """
    before = guard_images(arguments, inputs, outputs)
    after = run_started(kernel, arguments, start, before)
    return judge_images(kernel, before, after, outputs)


def run_started(
    kernel: str, arguments: Sequence[str], start: Callable[[list[Any]], None], before: Mapping[str, Image],
    after: Mapping[str, Image] | None = None,
) -> dict[str, Image]:  # fmt: skip
    """Start a kernel in any way over guarded images, and bring back what they are then, into ``after`` where given.

    Raises ProofError if the kernel faults: no other runs in this process from then on.
    """
    cupy = load_cupy()
    guarded = {name: cupy.asarray(image) for name, image in before.items()}
    try:
        start([guarded[name][GUARD_BYTES:-GUARD_BYTES] for name in arguments])
        cupy.cuda.get_current_stream().synchronize()
        return {name: array.get(out=after[name] if after else None) for name, array in guarded.items()}
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as e:
        raise ProofError(Diagnostic(FAULT, f"kernel {kernel} failed on the GPU: {e}")) from e


def guard_images(
    arguments: Sequence[str], inputs: Mapping[str, Image], outputs: Mapping[str, int],
    into: Mapping[str, Image] | None = None,
) -> dict[str, Image]:  # fmt: skip
    """What each buffer starts as, between its guards; ``into`` memory that is there, where it is given."""
    guarded = {}
    for name in arguments:
        size = inputs[name].nbytes if name in inputs else outputs[name]
        image = into[name] if into else np.empty(size + 2 * GUARD_BYTES, np.uint8)
        image[:GUARD_BYTES] = image[-GUARD_BYTES:] = POISON
        image[GUARD_BYTES:-GUARD_BYTES] = _start_image(name, inputs, outputs)
        guarded[name] = image
    return guarded


def _start_image(name: str, inputs: Mapping[str, Image], outputs: Mapping[str, int]) -> Image | int:
    if name not in inputs:
        return POISON
    image = np.ascontiguousarray(inputs[name]).reshape(-1).view(np.uint8)
    if name in outputs and outputs[name] != image.size:
        raise ValueError(f"{name} is {image.size} bytes as an input and {outputs[name]} as an output")
    return image


def judge_images(
    kernel: str, before: Mapping[str, Image], after: Mapping[str, Image], outputs: Mapping[str, int]
) -> dict[str, Image]:
    """The physical images of outputs. Raises ProofError where anything else is not what it was."""
    found = []
    for name, image in before.items():
        changed = after[name] != image
        if name in outputs:
            changed[GUARD_BYTES:-GUARD_BYTES] = False
        if changed.any():
            size = image.size - 2 * GUARD_BYTES
            first = int(changed.argmax()) - GUARD_BYTES
            what = "its input" if 0 <= first < size else "outside"
            found.append(
                Diagnostic(
                    "TG492",
                    f"kernel {kernel} wrote {what}: {int(changed.sum())} bytes, the first at byte {first} of {name} "
                    f"({size} bytes)",
                )
            )
    if found:
        raise ProofError(found)
    return {name: after[name][GUARD_BYTES:-GUARD_BYTES] for name in outputs}
