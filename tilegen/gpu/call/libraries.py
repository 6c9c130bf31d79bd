"""Which library an array is of, by its type."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tilegen.errors import CallError, Diagnostic
from tilegen.gpu.call.arrays import Library, Part
from tilegen.gpu.call.cupy_arrays import cupy_library
from tilegen.gpu.call.exchange import dlpack_library, interface_library
from tilegen.gpu.call.torch_tensors import read_complex_torch, torch_library
from tilegen.gpu.driver import Driver


def library_of(cls: type, driver: Driver) -> Library | None:
    """How arrays of a type are read; None for a type that is no array's."""
    if _is_of(cls, "cupy", "ndarray"):
        return cupy_library()
    if _is_of(cls, "torch", "Tensor"):
        return torch_library()
    if hasattr(cls, "__cuda_array_interface__"):
        return interface_library(driver)
    return dlpack_library() if hasattr(cls, "__dlpack__") else None


def _is_of(cls: type, module: str, name: str) -> bool:
    """Whether a type is a library's array, or made from it; a library that is not loaded has none."""
    base = getattr(sys.modules.get(module), name, None)
    return isinstance(base, type) and issubclass(cls, base)


class Readers(dict[type, Callable[[Any], tuple[Part, int]]]):
    """Type -> how its arrays are read on every call; a type is looked up when it first comes."""

    def __init__(self, kernel: str, reads_complex: bool, driver: Callable[[], Driver]):
        super().__init__()
        self.kernel, self.reads_complex, self.driver = kernel, reads_complex, driver
        self.libraries: dict[type, Library] = {}

    def __missing__(self, cls: type) -> Callable[[Any], tuple[Part, int]]:
        library = library_of(cls, self.driver())
        if library is None:
            message = f"{self.kernel}: {cls.__module__}.{cls.__qualname__} is no array of a GPU"
            hint = "CuPy arrays, torch tensors, and what has __cuda_array_interface__ or __dlpack__ are"
            raise CallError(Diagnostic("TG702", message, hint=hint))
        self.libraries[cls] = library
        is_lazy = library.name == "torch" and self.reads_complex
        self[cls] = read_complex_torch if is_lazy else library.read
        return self[cls]
