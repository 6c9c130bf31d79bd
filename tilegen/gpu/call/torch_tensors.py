"""torch's tensors. torch is not imported here: who has a tensor has it loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from tilegen.gpu.call.arrays import Library, Part, Seen


def torch_library() -> Library:
    """How torch's tensors are read."""
    torch: Any = sys.modules["torch"]
    # What torch's own generated kernels ask; the public function makes an object of it each time.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)

    def stream(device: int) -> int:
        return int(torch.cuda.current_stream(device).cuda_stream)

    def allocate(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, device: int) -> Callable[[], Any]:
        kind = {"dtype": getattr(torch, dtype), "device": torch.device("cuda", device)}
        return partial(torch.empty_strided, shape, strides, **kind)

    return Library("torch", read_torch, look_at_torch, raw or stream, allocate)


def read_torch(tensor: Any) -> tuple[Part, int]:
    """Shape, dtype, device and strides of a tensor, and where it lies."""
    form = tensor.is_contiguous() or (tensor.stride(), tensor.is_neg())
    return (tensor.shape, tensor.dtype, tensor.get_device(), form), tensor.data_ptr()


def read_complex_torch(tensor: Any) -> tuple[Part, int]:
    """The same where a tensor may be a conjugate that was not computed yet."""
    part, pointer = read_torch(tensor)
    return (*part, tensor.is_conj()), pointer


def look_at_torch(tensor: Any) -> Seen:
    """The tensor, named and counted as specs do."""
    lazy = tensor.is_conj() or tensor.is_neg()
    fault = "it is a conjugate or negation that torch has not computed yet; call .resolve_conj().resolve_neg()"
    dtype = str(tensor.dtype).removeprefix("torch.")
    device = tensor.get_device() if tensor.is_cuda else None
    return Seen(
        tuple(tensor.shape), tuple(tensor.stride()), dtype, device, tensor.data_ptr(), fault=fault if lazy else ""
    )
