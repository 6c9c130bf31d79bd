"""A GPU that is none: arrays of the CPU's memory that say they are a GPU's, and a driver that runs g++'s kernel."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from specs.kernels import SPECS, Draft, small_spec
from text.run import Runner, compile_by_gxx, compile_functions, describe_map, runner_by_gxx

from tilegen.calling import terms_of
from tilegen.dtypes import DTYPES
from tilegen.gpu import Cubin, device
from tilegen.gpu.call import Kernel, PromiseChecks
from tilegen.gpu.call.launch_memory import MAP_BYTES
from tilegen.gpu.call.signature import KernelSignature
from tilegen.gpu.driver import CONFIG_STREAM_AT, Driver, Function
from tilegen.pipeline import Built, BuiltProgram
from tilegen.plan import PromiseCheck, list_checks
from tilegen.render.checks import render_checks


class PretendedDriver(Driver):
    """Launches run at once; ``seen`` has what each of them was. ``refuse``: statuses that the next launches return;
    ``held``: clusters that it says it holds at once.
    """

    def __init__(self, terms: KernelSignature, built: Built | Draft | None = None):
        object.__setattr__(self, "launch", self.start)
        object.__setattr__(self, "library", None)
        self.__dict__.update(terms=terms, seen=[], refuse=[], entered=0, loaded=[], held=3)
        self.__dict__["runner"] = _find_runner(built) if built else None

    def start(self, config: Any, handle: Any, arguments: Any, extra: Any) -> int:
        if self.refuse:
            return self.refuse.pop(0)
        launched = read_launch(config, arguments, self.terms)
        self.seen.append(launched)
        if self.runner:
            self.run(launched, arguments)
        return 0

    def run(self, launched: dict[str, Any], arguments: Any) -> None:
        """The kernel over all CTAs; ``arguments`` has the address of each argument."""
        grid, plan = launched["grid"], self.runner.plan
        shape = (ctypes.c_uint * 7)(*grid, *plan.cluster, launched["threads"])
        ctas = [cta for cta in product(*map(range, grid))]
        flat = (ctypes.c_uint * (3 * len(ctas)))(*(n for cta in ctas for n in cta))
        count = len(self.terms.arrays)
        pointers = launched["arguments"][:count]  # it takes these themselves, and values by address
        addresses = list(arguments._obj)
        args = (ctypes.c_void_p * len(addresses))(*pointers, *addresses[count:])
        assert self.runner.function(args, shape, flat, len(ctas)) == 0

    def load(self, image: bytes, kernel: str, device: int, dynamic_bytes: int) -> Function:
        self.loaded.append((kernel, device, dynamic_bytes))
        return Function(ctypes.c_void_p(1), ctypes.c_void_p(2), device)

    def count_resident(self, function: Function, threads: int, dynamic_bytes: int, cluster: Any) -> int:
        return self.held * int(np.prod(cluster))

    def device_of(self, pointer: int) -> int | None:
        return 0

    def name_status(self, status: int) -> str:
        return f"CUDA_ERROR_{status}"

    @contextmanager
    def in_context(self, context: Any) -> Iterator[None]:
        self.__dict__["entered"] += 1
        yield


def _find_runner(built: Built | Draft) -> Runner:
    path = Path(built.spec.path)
    is_spec = path in SPECS and small_spec(path).plan == built.plan
    return runner_by_gxx(path) if is_spec else compile_by_gxx([built.plan])[0]


def pretend_kernel(built: Built | Draft, runs: bool = True, **terms_instead: Any) -> tuple[Kernel, PretendedDriver]:
    """A spec's kernel on the pretended GPU; without ``runs`` launches are only noted."""
    terms = replace(terms_of(built.spec, built.plan), **terms_instead)
    driver = PretendedDriver(terms, built if runs else None)
    cubin = Cubin(built.plan.name, built.plan.arch, "g++", b"", "", 0, 0, 0, 0, 0)
    return Kernel(terms, cubin, built.source, lambda: driver), driver


class PretendedChecks(Driver):
    """Checks of promises run at once, by g++; ``seen`` has the kernel of each launch, and its turn.

    ``captures``: whether the stream is being captured. ``held``: memory that was not given back.
    """

    def __init__(self, checks: Sequence[PromiseCheck]):
        object.__setattr__(self, "launch", self.start)
        object.__setattr__(self, "library", None)
        words = ("unsigned long long *", "unsigned long long *", "unsigned long long", "int")
        text = render_checks(checks)
        texts = [
            (text, c.name, (f"const {DTYPES[c.promise.dtype].storage} *", *words, *("int" for _ in c.params)))
            for c in checks
        ]
        functions = dict(zip([c.name for c in checks], compile_functions(texts), strict=True))
        self.__dict__.update(functions=functions, names=list(functions), seen=[], captures=False, held={})

    def load(self, image: bytes, kernel: str, device: int, dynamic_bytes: int) -> Function:
        return Function(ctypes.c_void_p(1 + self.names.index(kernel)), ctypes.c_void_p(2), device)

    def start(self, config: Any, handle: Any, arguments: Any, extra: Any) -> int:
        name = self.names[ctypes.addressof(handle._obj) - 1]
        x, y, z, threads, *_ = struct.unpack_from("=7I", bytes(config._obj), 0)
        addresses = list(arguments._obj)
        pointers = [struct.unpack("=Q", ctypes.string_at(at, 8))[0] for at in addresses[:3]]
        shape = (ctypes.c_uint * 7)(x, y, z, 1, 1, 1, threads)
        flat = (ctypes.c_uint * (3 * x))(*(n for cta in range(x) for n in (cta, 0, 0)))
        args = (ctypes.c_void_p * len(addresses))(*pointers, *addresses[3:])
        self.seen.append((name, struct.unpack("=i", ctypes.string_at(addresses[4], 4))[0]))
        assert self.functions[name](args, shape, flat, x) == 0
        return 0

    def allocate(self, size: int) -> int:
        memory = ctypes.create_string_buffer(size)
        self.held[ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    def free(self, pointer: int) -> None:
        del self.held[pointer]

    def fill(self, pointer: int, byte: int, size: int, stream: int) -> None:
        ctypes.memset(pointer, byte, size)

    def read(self, pointer: int, size: int, stream: int) -> bytes:
        return ctypes.string_at(pointer, size)

    def is_capturing(self, stream: int) -> bool:
        return bool(self.captures)

    @contextmanager
    def in_context(self, context: Any) -> Iterator[None]:
        yield


def pretend_checks(kernel: Kernel, built: Built | BuiltProgram) -> PretendedChecks:
    """Let a pretended kernel check what its caller promises, in each call."""
    checks = list_checks(built.plan)
    driver = PretendedChecks(checks)
    cubin = Cubin(built.plan.name, built.plan.arch, "g++", b"", "", 0, 0, 0, 0, 0)
    kernel.promises, kernel.check_values = PromiseChecks(checks, lambda: cubin, lambda: driver), True
    return driver


def read_launch(config: Any, arguments: Any, terms: KernelSignature) -> dict[str, Any]:
    """What a launch starts, read from memory as the driver reads it, and its arguments as the kernel declares them."""
    raw = bytes(config._obj)
    x, y, z, threads, _, _, dynamic = struct.unpack_from("=7I", raw, 0)
    stream, _, attributes = struct.unpack_from("=QQI", raw, CONFIG_STREAM_AT)
    params = ["i" if p.var is not None else {"float32": "f", "uint32": "I"}[p.dtype] for p in terms.params]
    codes = ["Q"] * len(terms.arrays) + params + [f"{MAP_BYTES}s"] * terms.tensor_maps
    cells = [ctypes.string_at(at, struct.calcsize(f"={code}")) for at, code in zip(arguments._obj, codes, strict=True)]
    values = [struct.unpack(f"={code}", cell)[0] for code, cell in zip(codes, cells, strict=True)]
    return {"grid": (x, y, z), "threads": threads, "dynamic_bytes": dynamic, "stream": stream,
            "attributes": attributes, "arguments": values}  # fmt: skip


class PretendedEncoder:
    """cuTensorMapEncodeTiled for g++'s kernel: the descriptor starts with the address of what it says.

    ``asked`` has what each was made of. ``status``: what is returned, 0 for success.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.kept: list[np.ndarray[Any, Any]] = []
        self.status = 0

    def __call__(self, descriptor: Any, dtype: int, rank: int, pointer: Any, dims: Any, strides: Any, box: Any,
                 steps: Any, interleave: int, swizzle: int, promotion: int, fill: int) -> int:  # fmt: skip
        assert set(steps) == {1} and (interleave, promotion, fill) == (0, 2, 0)
        self.asked.append({
            "pointer": pointer.value, "elem_bytes": {0: 1, 1: 2, 2: 4, 4: 8}[dtype], "dims": list(dims),
            "strides_bytes": list(strides)[: rank - 1], "box": list(box), "swizzle_bytes": [0, 32, 64, 128][swizzle],
        })  # fmt: skip
        self.kept.append(describe_map(self.asked[-1], pointer.value))
        ctypes.memmove(descriptor, ctypes.byref(ctypes.c_uint64(self.kept[-1].ctypes.data)), 8)
        return self.status


# ---------------------------------------------------------------- arrays
def aligned(shape: Any, dtype: Any = np.float32, at: int = 0) -> np.ndarray[Any, Any]:
    """Zeros that start ``at`` bytes past a multiple of 256."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    whole = np.zeros(size + 512, np.uint8)
    start = -whole.ctypes.data % 256 + at
    return whole[start : start + size].view(dtype).reshape(shape)


def draw_floats(*shape: int, seed: int = 7, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Numbers around 0, the same for a seed, where a kernel may read them 16 bytes at a time."""
    array = aligned(shape, dtype)
    array[...] = np.random.default_rng(seed).standard_normal(shape)
    return array


class Interface:
    """Any library's array, by __cuda_array_interface__."""

    def __init__(self, array: np.ndarray[Any, Any], **more: Any):
        self.array, self.more = array, more

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        array = self.array
        return {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.ctypes.data, False), "version": 3,
            "strides": array.strides, **self.more,
        }  # fmt: skip


class Cupy:
    """CuPy, as far as a call knows it. Its name in sys.modules is ``cupy``."""

    def __init__(self) -> None:
        self.stream = 7

        class ndarray:
            def __init__(self, shape: Any, dtype: Any, memory: Any, strides: Any, device: int = 0):
                steps = strides or np.empty(shape, dtype).strides
                self.array = np.lib.stride_tricks.as_strided(memory.view(dtype), shape, steps)
                self.shape, self.dtype, self.strides = self.array.shape, self.array.dtype, self.array.strides
                self.data = SimpleNamespace(ptr=self.array.ctypes.data, device_id=device)
                self._c_contiguous = self.array.flags.c_contiguous

        self.ndarray, self.dtype = ndarray, np.dtype
        self.cuda = SimpleNamespace(
            get_current_stream=lambda device: SimpleNamespace(ptr=self.stream), Device=lambda device: nullcontext(),
            alloc=lambda size: aligned(size, np.uint8),
        )  # fmt: skip

    def array(self, array: np.ndarray[Any, Any], device: int = 0) -> Any:
        return self.ndarray(array.shape, array.dtype, array, array.strides, device)


def pretend_cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cupy]:
    """``import cupy`` gives the pretended one: the body of a fixture."""
    pretended = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", pretended)  # type: ignore[arg-type]
    device.load_cupy.cache_clear()
    yield pretended
    device.load_cupy.cache_clear()


class Torch:
    """torch, as far as a call knows it. Its name in sys.modules is ``torch``."""

    def __init__(self) -> None:
        class Tensor:
            is_cuda = True

            def __init__(self, array: np.ndarray[Any, Any], conj: bool = False, device: int = 0, neg: bool = False):
                self.array, self._conj, self._neg, self._device = array, conj, neg, device
                self.shape, self.dtype = array.shape, f"torch.{array.dtype.name}"

            def stride(self) -> tuple[int, ...]:
                return tuple(n // self.array.itemsize for n in self.array.strides)

            def is_conj(self) -> bool:
                return self._conj

            def is_neg(self) -> bool:
                return self._neg

            def get_device(self) -> int:
                return self._device

            def data_ptr(self) -> int:
                return self.array.ctypes.data

        def empty_strided(shape: Any, strides: Any, *, dtype: Any, device: Any) -> Any:
            span = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
            image = aligned(span, dtype)
            steps = tuple(n * image.itemsize for n in strides)
            return Tensor(np.lib.stride_tricks.as_strided(image, shape, steps))

        self.Tensor, self.empty_strided = Tensor, empty_strided
        self.device = lambda kind, number: (kind, number)
        self.float32, self.uint8, self.float16 = np.float32, np.uint8, np.float16
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 40 + device)


class Exchange:
    """Any library's array, by DLPack alone; ``asked`` has the streams that it was asked to be ready on."""

    def __init__(self, array: np.ndarray[Any, Any], device: tuple[int, int] = (2, 0), versioned: bool = False,
                 flags: int = 0, bare: bool = False):  # fmt: skip
        self.array, self.device, self.versioned, self.flags, self.bare = array, device, versioned, flags, bare
        self.asked: list[int | None] = []
        self.asked_device = 0
        self.given: list[_Versioned] = []  # as long as the array is: several threads may be reading

    def __dlpack_device__(self) -> tuple[int, int]:
        self.asked_device += 1
        return self.device

    def __dlpack__(self, stream: int | None = None) -> Any:
        if stream is not None and self.device[0] not in (2, 13):
            raise RuntimeError("this memory has no streams")
        self.asked.append(stream)
        given = self.describe()
        if self.versioned:
            return _new_capsule(ctypes.addressof(given), b"dltensor_versioned", None)
        return _new_capsule(ctypes.addressof(given) + _Versioned.tensor.offset, b"dltensor", None)

    def describe(self, deleter: Any = None) -> _Versioned:
        array = self.array
        rank = array.ndim
        shape = (ctypes.c_int64 * rank)(*array.shape)
        strides = (ctypes.c_int64 * rank)(*(n // array.itemsize for n in array.strides))
        code = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[array.dtype.kind]
        tensor = _Tensor(
            array.ctypes.data - 64, *self.device, rank, code, 8 * array.itemsize, 1, ctypes.addressof(shape),
            None if self.bare else ctypes.addressof(strides), 64,
        )  # fmt: skip
        given = _Versioned(1, 0, None, deleter, self.flags, tensor)
        given.tables = shape, strides
        self.given.append(given)
        return given


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("device", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    tables: Any  # what the tensor points to
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class _Api(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p), ("export", ctypes.c_void_p), ("import", ctypes.c_void_p),
        ("export_view", ctypes.c_void_p), ("current", ctypes.c_void_p),
    )  # fmt: skip


def offer_functions(cls: type[Exchange], major: int = 1, name: bytes = b"dlpack_exchange_api") -> SimpleNamespace:
    """Give a type DLPack's C functions. ``stream`` is the one that they call current, ``refuses`` the next export;
    ``exported`` and ``freed`` are the places of tensors.
    """
    said = SimpleNamespace(stream=5, refuses=False, exported=[], freed=[], name=name)

    def delete(at: int) -> None:
        said.freed.append(at)

    def export(array: Exchange, out: int) -> int:
        if said.refuses:
            return -1
        at = ctypes.addressof(array.describe(ctypes.cast(said.delete, ctypes.c_void_p)))
        ctypes.c_void_p.from_address(out).value = at
        said.exported.append(at)
        return 0

    def current(kind: int, device: int, out: int) -> int:
        assert kind == 2
        ctypes.c_void_p.from_address(out).value = said.stream + device
        return 0

    said.delete = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(delete)
    said.export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(export)
    said.current = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(current)
    functions = (ctypes.cast(f, ctypes.c_void_p) if f else None for f in (0, said.export, 0, 0, said.current))
    said.api = _Api(major, 3, None, *functions)
    cls.__dlpack_c_exchange_api__ = _new_capsule(  # type: ignore[attr-defined]
        ctypes.addressof(said.api), said.name, None
    )
    return said


class Guards:
    """torch's check of a tensor's form, in one call."""

    def __init__(self, tensor: Any):
        self.form = self.form_of(tensor)

    def check(self, tensor: Any) -> bool:
        return self.form == self.form_of(tensor)

    @staticmethod
    def form_of(t: Any) -> Any:
        return type(t), getattr(t, "array", None) is not None and (
            t.shape, t.dtype, t.stride(), t.get_device(), t.is_conj(), t.is_neg()
        )  # fmt: skip
