"""Calling kernels from Python, without a GPU: what is accepted runs and is right, what is not is said why."""

from __future__ import annotations

import re
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from specs.kernels import ROOT, SPECS, build_spec, every_spec, small_spec
from text.run import describe_map, requires_gxx

import tilegen
from calls.pretended import (
    Cupy,
    Exchange,
    Interface,
    PretendedEncoder,
    Torch,
    aligned,
    pretend_cupy,
    pretend_kernel,
)
from tests.faults.verdicts import refusal_of
from tilegen import calling
from tilegen.dtypes import numpy_dtype
from tilegen.errors import CallError, EnvironmentLack, TilegenError
from tilegen.gpu import Cubin, driver, tensor_maps
from tilegen.gpu.call.again import launch_nothing
from tilegen.gpu.call.kind_of_call import form_of_output
from tilegen.index import names_of
from tilegen.pipeline import Built, build
from tilegen.plan import arrays
from tilegen.proofs.meaning import parameter_cases
from tilegen.render import launch_info
from tilegen.verifying import make_image

HEAD = "kernel: k\narch: sm_90\nthreads: 32\n"
OPS = 'ops:\n  - copy: {src: "X[0:4, 0:8]", dst: r, edge: clip}\n  - copy: {src: r, dst: "Y[0:4, 0:8]", edge: clip}\n'
REGISTERS = '  r: {scope: register, dtype: float32, shape: [4, 8], layout: "S[(4,8):(8@laneid,1@laneid)]"}\n'


def spec(x: str, y: str, params: str = "", scope: str = "warp", dtype: str = "float32") -> Built:
    """A kernel that copies 4 x 8 elements of X to Y."""
    text = (
        f"{HEAD}{params}buffers:\n  X: {{scope: global, dtype: {dtype}, {x}}}\n"
        f"  Y: {{scope: global, partial: true, dtype: {dtype}, {y}}}\n{REGISTERS}{OPS}"
    )
    text = text.replace("src: ", f"scope: {scope}, src: ").replace("dtype: float32, shape: [4, 8]",
                                                                   f"dtype: {dtype}, shape: [4, 8]")  # fmt: skip
    return build(text)


SIZES = "params: {M: {default: 4, max: 64}, N: {default: 8, multiple_of: 4, max: 64}}\n"
ANY = spec("shape: [M, N]", "shape: [M, N]", SIZES)
PLAIN = spec("shape: [4, 8]", "shape: [4, 8]")
PITCHED = spec('shape: [M, N], layout: "S[(M,N):(ldx,1)]"', 'shape: [M, N], layout: "S[(M,N):(ldy,1)]"',
               SIZES.replace("}}", "}, ldx: {default: 8, max: 512}, ldy: {default: 8, max: 512}}"))  # fmt: skip


cupy = pytest.fixture(pretend_cupy)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    pretended = Torch()
    monkeypatch.setitem(sys.modules, "torch", pretended)  # type: ignore[arg-type]
    return pretended


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> PretendedEncoder:
    pretended = PretendedEncoder()
    monkeypatch.setattr(tensor_maps, "_load_encoder", lambda: pretended)
    return pretended


def refused(kernel: Any, *given: Any, **params: Any) -> tuple[str, str]:
    """The code of the error that a call ends with, and its text."""
    caught = refusal_of(CallError, kernel, *given, **params)
    return caught.diagnostics[0].code, str(caught)


# ---------------------------------------------------------------- every kernel, and what it is launched with
@pytest.mark.sweep(6)
@every_spec
def test_a_call_hands_over_every_array(path: Any, encoder: PretendedEncoder) -> None:
    """The arguments are those with which tests/specs/test_runs.py runs the kernel, and finds that it does what the spec
    means: places of the arrays, sizes, descriptors of what TMA copies."""
    built = small_spec(path)
    case = min(parameter_cases(built.spec), key=lambda c: tuple(c.values()))
    kernel, pretended = pretend_kernel(built, runs=False)
    places: dict[str, int] = {}
    given = []
    for terms in kernel.terms.arrays:
        (memory,) = [m for m in arrays(built.plan) if m.name == terms.name]
        image = make_image(built.spec, memory, case, 1)
        placed = aligned(image.shape, image.dtype)
        shape, strides = form_of_output(terms, case)
        view = np.lib.stride_tricks.as_strided(placed, shape, tuple(n * placed.itemsize for n in strides))
        given.append(Interface(view, typestr=_typestr(terms.dtype)))
        places[terms.name] = placed.ctypes.data
    said = {n for a in kernel.terms.arrays for x in (*a.shape, *(a.strides or ())) for n in names_of(x)}
    assert kernel(*given, **{name: value for name, value in case.items() if name not in said}) is None
    (launched,) = pretended.seen
    held = pretended.held * int(np.prod(built.plan.cluster))  # CTAs that the device says it holds at once
    info = launch_info(built.plan, case | {p.name: held for p in built.spec.params if p.launched is not None})
    assert (launched["threads"], launched["dynamic_bytes"]) == (built.plan.threads, info["dynamic_shared_bytes"])
    assert launched["grid"] == tuple(info["grid"])
    maps = iter(encoder.kept)
    for arg, got in zip(info["args"], launched["arguments"], strict=True):
        if arg["kind"] == "tensor_map":
            described = next(maps)
            assert int.from_bytes(got[:8], sys.byteorder) == described.ctypes.data
            assert (described == describe_map(arg, places[arg["array"]])).all()
        else:
            is_place = arg["kind"] == "pointer"
            value = places[arg["name"]] if is_place else numpy_dtype(arg["dtype"]).type(arg["value"])
            assert got == value, arg["name"]
    assert len(encoder.kept) == kernel.terms.tensor_maps == len(tensor_map_args(built))


def tensor_map_args(built: Built, params: Any = None) -> list[dict[str, Any]]:
    return [a for a in launch_info(built.plan, params)["args"] if a["kind"] == "tensor_map"]


def _typestr(dtype: str) -> str:
    raw = {"bfloat16": "<u2", "float8_e4m3fn": "|u1", "float8_e5m2": "|u1"}
    return raw.get(dtype) or numpy_dtype(dtype).str


# ---------------------------------------------------------------- libraries
def filled(shape: Any, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    array = aligned(shape, dtype)
    array[...] = np.arange(array.size).reshape(shape)
    return array


@pytest.mark.slow
@requires_gxx
def test_cupy_in_cupy_out(cupy: Cupy) -> None:
    kernel, pretended = pretend_kernel(ANY)
    x = cupy.array(filled((4, 8)))
    y = kernel(x)
    assert isinstance(y, cupy.ndarray) and (y.array == x.array).all()
    assert pretended.seen[0]["stream"] == 7
    cupy.stream = 9
    z = cupy.array(aligned((4, 8)))
    assert kernel(x, z) is None and (z.array == x.array).all()
    assert pretended.seen[1]["stream"] == 9, "the stream that is current at the call"


@requires_gxx
def test_torch_in_torch_out(torch: Torch) -> None:
    kernel, pretended = pretend_kernel(ANY)
    x = torch.Tensor(filled((4, 8)))
    y = kernel(x)
    assert isinstance(y, torch.Tensor) and (y.array == x.array).all()
    assert pretended.seen[0]["stream"] == 40


def test_a_subclass_is_read_as_its_library_does(torch: Torch) -> None:
    class Parameter(torch.Tensor):  # type: ignore[name-defined, misc]
        pass

    kernel, _ = pretend_kernel(ANY, runs=False)
    assert isinstance(kernel(Parameter(filled((4, 8)))), torch.Tensor)


@requires_gxx
@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("bare", [False, True])
def test_dlpack(versioned: bool, bare: bool) -> None:
    kernel, pretended = pretend_kernel(ANY)
    x, y = (Exchange(a, versioned=versioned, bare=bare) for a in (filled((4, 8)), aligned((4, 8))))
    kernel(x, y)
    assert (y.array == x.array).all()
    assert x.asked[-1] == 1 and pretended.seen[0]["stream"] == 0, "CUDA's default stream, as DLPack numbers it"


def test_dlpack_arrays_wait_for_the_stream_of_the_first_library(torch: Torch) -> None:
    kernel, _ = pretend_kernel(ANY, runs=False)
    y = Exchange(aligned((4, 8)))
    for _ in range(2):
        kernel(torch.Tensor(filled((4, 8))), y)
        assert y.asked[-1] == 40


def test_several_libraries_in_one_call(cupy: Cupy, torch: Torch) -> None:
    kernel, pretended = pretend_kernel(ANY, runs=False)
    kernel(torch.Tensor(filled((4, 8))), cupy.array(aligned((4, 8))))
    kernel(cupy.array(filled((4, 8))), torch.Tensor(aligned((4, 8))))
    assert [launched["stream"] for launched in pretended.seen] == [40, 7]


def test_an_array_made_on_another_stream_is_not_raced_with(torch: Torch) -> None:
    kernel, pretended = pretend_kernel(ANY, runs=False)
    kernel(Interface(filled((4, 8)), stream=5), Interface(aligned((4, 8))))
    assert pretended.seen[0]["stream"] == 5
    code, text = refused(kernel, torch.Tensor(filled((4, 8))), Interface(aligned((4, 8)), stream=5))
    assert code == "TG712" and "Y is being made on a stream of its own" in text
    assert refused(kernel, Interface(filled((4, 8)), stream=5), Interface(aligned((4, 8)), stream=6))[0] == "TG712"


def test_outputs_of_a_library_that_cannot_allocate() -> None:
    kernel, _ = pretend_kernel(ANY, runs=False)
    code, text = refused(kernel, Interface(filled((4, 8))))
    assert code == "TG711" and "pass Y too" in text


@requires_gxx
def test_outputs_have_the_layout_of_the_spec(cupy: Cupy, torch: Torch) -> None:
    built = spec("shape: [4, 8]", "shape: [4, 8], layout: col")
    kernel, _ = pretend_kernel(built)
    for x in (cupy.array(filled((4, 8))), torch.Tensor(filled((4, 8)))):
        y = kernel(x).array
        assert (y.shape, y.strides) == ((4, 8), (4, 16))
        assert (y == x.array).all()


# ---------------------------------------------------------------- parameters
def test_parameters_come_from_the_shapes() -> None:
    kernel, pretended = pretend_kernel(ANY, runs=False)
    kernel(Interface(filled((5, 12))), Interface(aligned((5, 12))))
    assert pretended.seen[0]["arguments"][2:] == [5, 12]
    kernel(Interface(filled((5, 12))), Interface(aligned((5, 12))), M=5, N=np.int64(12))
    assert pretended.seen[1]["arguments"][2:] == [5, 12]


def test_pitches_come_from_the_strides() -> None:
    kernel, pretended = pretend_kernel(PITCHED, runs=False)
    x, y = aligned((5, 32))[:, :12], aligned((5, 16))[:, :12]
    kernel(Interface(x), Interface(y))
    assert pretended.seen[0]["arguments"][2:] == [5, 12, 32, 16]
    kernel(Interface(x[:1]), Interface(y[:1]))
    assert pretended.seen[1]["arguments"][2:4] == [1, 12]


@pytest.mark.parametrize(
    ("shapes", "params", "code", "said"),
    [
        (((5, 12), (5, 16)), {}, "TG704", "Y has in dimension 1 the extent 16, but it must be N = 12 (N = 12, since X"),
        (((5, 12), (5, 12)), {"M": 4}, "TG704", "X has in dimension 0 the extent 5, but it must be M = 4 (M = 4 was"),
        (((5, 10), (5, 10)), {}, "TG709", "N must be a multiple of 4, not 10"),
        (((65, 8), (65, 8)), {}, "TG709", "M must be from 1 to 64, not 65"),
        (((4, 8), (4, 8)), {"M": 4.5}, "TG709", "M is an integer, not float"),
        (((4, 8), (4, 8)), {"M": [4]}, "TG709", "M is an integer, not list"),
        (((4, 8), (4, 8)), {"K": 4}, "TG701", "no runtime parameter 'K' (there are: M, N)"),
        (((4, 8, 1), (4, 8)), {}, "TG704", "X has the shape (4, 8, 1), but must be (M, N)"),
        (((32,), (4, 8)), {}, "TG704", "X has the shape (32,), but must be (M, N)"),
    ],
)
def test_what_parameters_cannot_be(shapes: Any, params: Any, code: str, said: str) -> None:
    kernel, pretended = pretend_kernel(ANY, runs=False)
    found, text = refused(kernel, *(Interface(aligned(s)) for s in shapes), **params)
    assert (found, pretended.seen) == (code, []) and said in text


def test_a_parameter_that_no_shape_tells() -> None:
    built = spec("shape: [4, 8]", "shape: [ceil(M / 4), 8]", SIZES)
    kernel, pretended = pretend_kernel(built, runs=False)
    x, y = Interface(filled((4, 8))), Interface(aligned((4, 8)))
    code, text = refused(kernel, x, y, N=4)
    assert code == "TG709" and "M has no value: the shape of Y has no one value for it (pass M=...)" in text
    assert "N has no value: no array's shape says it" in refused(kernel, x, y, M=16)[1]
    assert "the extent 4, but it must be (M + 3) >> 2 = 5 (M = 17 was given)" in refused(kernel, x, y, M=17, N=4)[1]
    kernel(x, y, M=16, N=4)
    assert pretended.seen[0]["arguments"][2:] == [16, 4]


def test_numbers_that_are_no_integers_vary_from_call_to_call() -> None:
    built = spec("shape: [4, 8]", "shape: [4, 8]", "params: {alpha: {dtype: float32, default: 1.5}}\n")
    kernel, pretended = pretend_kernel(built, runs=False)
    x, y = Interface(filled((4, 8))), Interface(aligned((4, 8)))
    for given, wanted in (({}, 1.5), ({"alpha": 2}, 2.0), ({"alpha": np.float32(0.25)}, 0.25), ({}, 1.5)):
        kernel(x, y, **given)
        assert pretended.seen[-1]["arguments"][2] == wanted
    assert len(kernel._kinds) == 1
    code, text = refused(kernel, x, y, alpha="much")
    assert code == "TG709" and "alpha is a number, not 'much'" in text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a", "M is an integer, not str"),
        (None, "M is an integer, not NoneType"),
        (16.0, "M is an integer, not float"),
        ([16], "M is an integer, not list"),
        (2**70, "M is an integer of 64 bits"),
        (10**5000, "M is an integer of 64 bits"),
        (65, "M must be from 1 to 64, not 65"),
    ],
    ids=lambda v: str(v)[:9] if isinstance(v, str) else type(v).__name__,
)
def test_integers_that_are_none(value: Any, said: str) -> None:
    kernel, pretended = pretend_kernel(spec("shape: [4, 8]", "shape: [ceil(M / 4), 8]", SIZES), runs=False)
    text = refused(kernel, Interface(filled((4, 8))), Interface(aligned((4, 8))), M=value, N=4)[1]
    assert said in text and not pretended.seen


@pytest.mark.parametrize("value", [10**400, 1e300, -1e300, [1.0], 1j, None])
def test_numbers_that_no_float32_holds(value: Any) -> None:
    built = spec("shape: [4, 8]", "shape: [4, 8]", "params: {alpha: {dtype: float32, default: 1.5}}\n")
    kernel, pretended = pretend_kernel(built, runs=False)
    x, y = Interface(filled((4, 8))), Interface(aligned((4, 8)))
    assert refused(kernel, x, y, alpha=value)[0] == "TG709"
    kernel(x, y, alpha=2)
    assert len(pretended.seen) == 1 and pretended.seen[0]["arguments"][2] == 2.0


def test_bits_vary_from_call_to_call() -> None:
    """A param of uint32 is no size: 0 and its largest value are values as others, and what is none is refused."""
    built = spec("shape: [4, 8]", "shape: [4, 8]", "params: {seed: {dtype: uint32, default: 7}}\n")
    kernel, pretended = pretend_kernel(built, runs=False)
    x, y = Interface(filled((4, 8))), Interface(aligned((4, 8)))
    for given, wanted in (({}, 7), ({"seed": 0}, 0), ({"seed": np.uint32(2**32 - 1)}, 2**32 - 1), ({}, 7)):
        kernel(x, y, **given)
        assert pretended.seen[-1]["arguments"][2] == wanted
    assert len(kernel._kinds) == 1
    for wrong in (-1, 2**32, 0.5, "much", None):
        code, text = refused(kernel, x, y, seed=wrong)
        assert code == "TG709" and "seed is an integer from 0 to 4294967295, not" in text


def test_a_parameter_may_have_any_name() -> None:
    kernel, _ = pretend_kernel(PLAIN, runs=False)
    assert refused(kernel, Interface(filled((4, 8))), Interface(aligned((4, 8))), self=1)[0] == "TG701"


# ---------------------------------------------------------------- arrays that are not what the kernel takes
@pytest.mark.parametrize(
    ("x", "code", "said"),
    [
        (aligned((4, 8), np.float64), "TG703", "X holds float64, but must hold float32"),
        (aligned((8, 4)), "TG704", "X has in dimension 0 the extent 8, but it must be 4"),
        (aligned((4, 16))[:, ::2], "TG705", "strides of (16, 2) elements, but the layout row has (8, 1) (make it cont"),
        (aligned((4, 8), at=8), "TG706", "X starts 8 bytes past a multiple of 16 bytes (copy it, or build a spec"),
        (aligned((8, 4)).T, "TG705", "strides of (1, 4) elements"),
    ],
)  # fmt: skip
def test_an_array_that_is_not_what_the_spec_says(x: Any, code: str, said: str) -> None:
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    found, text = refused(kernel, Interface(x), Interface(aligned((4, 8))))
    assert (found, pretended.seen) == (code, []) and said in text


def test_all_that_is_wrong_is_said_at_once() -> None:
    kernel, _ = pretend_kernel(PLAIN, runs=False)
    caught = refusal_of(CallError, kernel, Interface(aligned((4, 8), np.int8)), Interface(aligned((4, 8, 1))))
    assert [d.code for d in caught.diagnostics] == ["TG703", "TG704"]
    assert all(d.mark and d.mark.line for d in caught.diagnostics)


@pytest.mark.parametrize("count", [0, 3])
def test_a_wrong_number_of_arrays(count: int) -> None:
    kernel, _ = pretend_kernel(PLAIN, runs=False)
    code, text = refused(kernel, *[Interface(aligned((4, 8)))] * count)
    assert code == "TG701" and "(call k(X, Y) or k(X))" in text


@pytest.mark.parametrize("thing", [[1.0], None, 3, "x"])
def test_what_is_no_array(thing: Any) -> None:
    kernel, _ = pretend_kernel(PLAIN, runs=False)
    code, text = refused(kernel, thing, Interface(aligned((4, 8))))
    assert code == "TG702" and type(thing).__name__ in text


class Broken:
    """Says that it is an array, and not what array."""

    def __init__(self, said: Any):
        self.__cuda_array_interface__ = said

    __cuda_array_interface__: Any = None


class Withheld:
    """As torch answers for a tensor that requires a gradient."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("Can't export tensors that require gradient")


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (Broken(3), "this Broken cannot be read as an array: TypeError: 'int' object is not subscriptable"),
        (Broken({}), "KeyError: 'data'"),
        (Broken({"data": (64, False), "shape": (4, 8), "typestr": "?!"}), "TypeError: data type '?!' not understood"),
        (Withheld(), "this Withheld cannot be read as an array: BufferError: Can't export tensors that require grad"),
    ],
    ids=["no dict", "an empty dict", "no dtype", "refused"],
)
def test_an_array_that_does_not_say_what_it_is(thing: Any, said: str) -> None:
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    for given in ((thing, Interface(aligned((4, 8)))), (Interface(filled((4, 8))), thing)):
        code, text = refused(kernel, *given)
        assert code == "TG702" and said in text
    assert not pretended.seen


def test_memory_of_the_cpu() -> None:
    kernel, _ = pretend_kernel(PLAIN, runs=False)
    code, text = refused(kernel, aligned((4, 8)), aligned((4, 8)))
    assert code == "TG702" and "X is not in a GPU's memory (move it" in text


def test_outputs_that_may_not_be_written() -> None:
    kernel, _ = pretend_kernel(PLAIN, runs=False)
    x, y = filled((4, 8)), aligned((4, 8))
    locked = Interface(y, data=(y.ctypes.data, True))
    assert refused(kernel, Interface(x), locked)[0] == "TG711"
    assert refused(kernel, Interface(x), Exchange(y, versioned=True, flags=1))[0] == "TG711"
    kernel(Interface(x, data=(x.ctypes.data, True)), Interface(y))


def test_arrays_of_two_gpus(cupy: Cupy) -> None:
    kernel, _ = pretend_kernel(PLAIN, runs=False)
    code, text = refused(kernel, cupy.array(filled((4, 8))), cupy.array(aligned((4, 8)), 1))
    assert code == "TG708" and "X on device 0, Y on device 1" in text
    kernel(*(cupy.array(aligned((4, 8)), 1) for _ in range(2)))


def test_alignment_that_a_spec_does_not_need() -> None:
    kernel, pretended = pretend_kernel(spec("shape: [4, 8], align: 4", "shape: [4, 8]"), runs=False)
    kernel(Interface(aligned((4, 8), at=4)), Interface(aligned((4, 8))))
    assert refused(kernel, Interface(aligned((4, 8), at=4)), Interface(aligned((4, 8), at=4)))[0] == "TG706"
    assert refused(kernel, Interface(aligned((4, 8), at=2)), Interface(aligned((4, 8))))[0] == "TG706"
    assert len(pretended.seen) == 1


# ---------------------------------------------------------------- overlap
def test_an_output_that_is_the_input() -> None:
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x = Interface(filled((4, 8)))
    code, text = refused(kernel, x, x)
    assert code == "TG707" and "Y is written while X is read, but they share memory: they start at the same" in text
    assert (refused(kernel, x, x)[0], pretended.seen) == ("TG707", []), "also when the kind of the call is known"


def test_overlap_by_one_element_and_by_none() -> None:
    kernel, pretended = pretend_kernel(spec("shape: [4, 8]", "shape: [4, 8], align: 4"), runs=False)
    whole = aligned(100)
    x, touching, inside = (whole[k : k + 32].reshape(4, 8) for k in (0, 32, 31))
    kernel(Interface(x), Interface(touching))
    assert "they start 124 bytes apart" in refused(kernel, Interface(x), Interface(inside))[1]
    assert len(pretended.seen) == 1


def test_halves_of_rows_do_not_overlap() -> None:
    kernel, pretended = pretend_kernel(PITCHED, runs=False)
    rows = aligned((4, 16))
    for _ in range(2):
        kernel(Interface(rows[:, :8]), Interface(rows[:, 8:]))
    assert refused(kernel, Interface(rows[:, :8]), Interface(rows[:, 4:12]))[0] == "TG707"
    assert len(pretended.seen) == 2


def test_inputs_may_be_one_array() -> None:
    built = build_spec(next(p for p in SPECS if p.stem == "mma_fragments"))
    kernel, pretended = pretend_kernel(built, runs=False)
    given = [Interface(aligned([int(n) for n in a.shape], _typestr(a.dtype))) for a in kernel.terms.arrays]
    given[2] = Interface(given[3].array) if kernel.terms.arrays[2].dtype == kernel.terms.arrays[3].dtype else given[2]
    kernel(*given)
    assert len(pretended.seen) == 1


def test_an_output_whose_rows_overlap() -> None:
    kernel, _ = pretend_kernel(PITCHED, runs=False)
    x = Interface(filled((4, 8)))
    y = np.lib.stride_tricks.as_strided(aligned((4, 8)), (4, 8), (16, 4))
    code, text = refused(kernel, x, Interface(y))
    assert code == "TG707" and "its own elements overlap" in text


# ---------------------------------------------------------------- layouts
@requires_gxx
def test_other_layouts_take_strides_or_the_physical_image() -> None:
    built = spec("shape: [4, 8]", 'shape: [4, 8], layout: "S[(4,8):(1,5)]"')
    kernel, _ = pretend_kernel(built)
    x, image = filled((4, 8)), aligned(39)
    strided = np.lib.stride_tricks.as_strided(image, (4, 8), (4, 20))
    kernel(Interface(x), Interface(strided))
    assert (strided == x).all()
    image[...] = 0
    kernel(Interface(x), Interface(image))
    assert (strided == x).all()
    assert refused(kernel, Interface(x), Interface(aligned(38)))[0] == "TG704"
    assert refused(kernel, Interface(x), Interface(aligned((4, 8))))[0] == "TG705"


def test_a_layout_that_no_strides_describe_takes_its_image() -> None:
    built = spec("shape: [4, 8]", 'shape: [4, 8], layout: "S[(4,2,4):(4,16,1)]"')
    kernel, pretended = pretend_kernel(built, runs=False)
    kernel(Interface(filled((4, 8))), Interface(aligned(32)))
    code, text = refused(kernel, Interface(filled((4, 8))), Interface(aligned((4, 8))))
    assert code == "TG704" and "must be its physical image, flat, 32 elements" in text
    assert len(pretended.seen) == 1


# ---------------------------------------------------------------- launches
def test_another_devices_context_is_left_for_the_launch() -> None:
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    pretended.refuse.append(201)
    kernel(Interface(filled((4, 8))), Interface(aligned((4, 8))))
    assert (pretended.entered, len(pretended.seen)) == (1, 1)


def test_a_launch_that_fails_is_an_error_with_cudas_name() -> None:
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    pretended.refuse.append(700)
    code, text = refused(kernel, Interface(filled((4, 8))), Interface(aligned((4, 8))))
    assert code == "TG491" and "CUDA_ERROR_700" in text


@pytest.mark.parametrize(("status", "wanted"), [(209, "TG503: GPU 0 does not run"), (200, "TG491: CUDA does not load")])
def test_a_cubin_that_does_not_load(monkeypatch: pytest.MonkeyPatch, status: int, wanted: str) -> None:
    def fail(*_: Any) -> Any:
        raise driver.DriverError("cuModuleLoadData", status, "CUDA_ERROR")

    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    monkeypatch.setitem(pretended.__dict__, "load", fail)
    with pytest.raises(TilegenError, match=wanted):
        kernel(Interface(filled((4, 8))), Interface(aligned((4, 8))))


def test_threads_that_call_at_once_share_no_memory() -> None:
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    pairs = [(aligned((4, 8)), aligned((4, 8))) for _ in range(8)]
    start, inner = threading.Barrier(len(pairs)), pretended.launch

    def slow(*args: Any) -> int:
        if pretended.seen:
            start.wait(10)  # every thread has written its arguments, none has been launched
        return inner(*args)

    object.__setattr__(pretended, "launch", slow)
    kernel(*map(Interface, pairs[0]))
    assert kernel._again is not launch_nothing
    threads = [threading.Thread(target=kernel, args=tuple(map(Interface, pair))) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = {tuple(a.ctypes.data for a in pair) for pair in pairs}
    assert {tuple(launched["arguments"]) for launched in pretended.seen[1:]} == wanted


def test_a_grid_that_cuda_does_not_launch() -> None:
    params = "params: {M: {default: 4, max: 100000}}\n"
    built = build(
        f"{HEAD}{params}grid: {{by: M}}\nbuffers:\n  X: {{scope: global, dtype: float32, shape: [M, 32]}}\n"
        "  Y: {scope: global, dtype: float32, shape: [M, 32]}\n"
        'ops:\n  - copy: {scope: warp, src: "X[by]", dst: "Y[by]"}\n'
    )
    kernel, _ = pretend_kernel(built, runs=False)
    code, text = refused(kernel, *(Interface(aligned((70000, 32))) for _ in range(2)))
    assert code == "TG710" and "70000 CTAs in y; CUDA launches 1 to 65535" in text


@pytest.mark.slow
@pytest.mark.parametrize(("held", "cluster", "ctas"), [(1, 1, 1), (132, 1, 132), (5000, 1, 1024), (66, 2, 132)])
def test_a_grid_of_the_ctas_that_fit_at_once(held: int, cluster: int, ctas: int) -> None:
    text = (ROOT / "specs" / "tiles_resident.yaml").read_text()
    built = build(text.replace("threads:", f"cluster: {{cbx: {cluster}}}\nthreads:"))
    kernel, pretended = pretend_kernel(built, runs=False)
    pretended.__dict__["held"] = held
    x, y = (Interface(aligned((1, 64), np.float16)) for _ in range(2))
    kernel(x, y)
    assert pretended.seen[0]["grid"] == (ctas, 1, 1), "min(resident, 1024)"
    kernel, pretended = pretend_kernel(built, runs=False)
    pretended.__dict__["held"] = 0
    code, said = refused(kernel, x, y)
    assert code == "TG710" and f"this GPU does not hold a {'cluster' if cluster > 1 else 'CTA'} of it" in said


def test_tensor_maps_follow_the_parameters() -> None:
    asked = []

    def encode(pointers: Any, values: Any) -> list[bytes]:
        asked.append((tuple(pointers), dict(values)))
        return [bytes([k]) * 128 for k in (1, 2)]

    kernel, pretended = pretend_kernel(ANY, runs=False, tensor_maps=2, encode_maps=encode)
    x, y = filled((4, 8)), aligned((4, 8))
    kernel(Interface(x), Interface(y))
    assert asked == [((x.ctypes.data, y.ctypes.data), {"M": 4, "N": 8})]
    assert pretended.seen[0]["arguments"][4:] == [b"\1" * 128, b"\2" * 128]


TRANSPOSE_TMA = next(p for p in SPECS if p.stem == "transpose_tma")  # X: [M, 212], Y: [212, M]


@requires_gxx
def test_descriptors_are_of_the_calls_arrays_and_sizes(encoder: PretendedEncoder) -> None:
    built = build_spec(TRANSPOSE_TMA)
    kernel, pretended = pretend_kernel(built)
    for m in (64, 100):
        x, y = filled((m, 212)), aligned((212, m))
        encoder.asked.clear()
        kernel(Interface(x), Interface(y))
        assert (y == x.T).all()
        places = {"X": x.ctypes.data, "Y": y.ctypes.data}
        keys = ("elem_bytes", "dims", "strides_bytes", "box", "swizzle_bytes")
        wanted = [{"pointer": places[a["array"]]} | {k: a[k] for k in keys} for a in tensor_map_args(built, {"M": m})]
        assert encoder.asked == wanted and len(wanted) == 2
    assert pretended.entered == 2, "descriptors are encoded in the context of the arrays"


def test_descriptors_of_arrays_that_come_again_are_kept(encoder: PretendedEncoder) -> None:
    kernel, pretended = pretend_kernel(build_spec(TRANSPOSE_TMA), runs=False)
    first, second = ([Interface(aligned((64, 212))), Interface(aligned((212, 64)))] for _ in range(2))
    for given in (first, first, second, first, second):
        kernel(*given)
    assert len(encoder.asked) == 4, "two for each pair of arrays"
    images = [launched["arguments"][-2:] for launched in pretended.seen]
    assert images[0] == images[1] == images[3] != images[2] == images[4]
    assert kernel._again is not launch_nothing, "a call with descriptors takes the short way"
    kernel(Interface(aligned((32, 212))), Interface(aligned((212, 32))))
    assert len(encoder.asked) == 6, "another size, other descriptors"


def test_a_descriptor_that_the_driver_refuses(encoder: PretendedEncoder) -> None:
    kernel, pretended = pretend_kernel(build_spec(TRANSPOSE_TMA), runs=False)
    x, y = Interface(aligned((64, 212))), Interface(aligned((212, 64)))
    encoder.status = 1
    code, text = refused(kernel, x, y)
    assert code == "TG491" and "no descriptor for transpose_tma: cuTensorMapEncodeTiled returns 1" in text
    assert not pretended.seen
    encoder.status = 0
    kernel(x, y)
    assert len(pretended.seen) == 1, "what failed is not kept"


# ---------------------------------------------------------------- compile
def test_the_gpus_own_arch_is_taken() -> None:
    assert calling.choose_arch("sm_90", (12, 0)) == "sm_120"
    with pytest.raises(EnvironmentLack, match="TG503: this GPU is sm_75"):
        calling.choose_arch("sm_90", (7, 5))


def test_compile_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> Any:
        raise OSError("no such file")

    driver.load_driver.cache_clear()
    monkeypatch.setattr(driver.ctypes, "CDLL", absent)
    with pytest.raises(EnvironmentLack, match="TG502: calling a kernel needs an NVIDIA GPU: no "):
        tilegen.compile(SPECS[0])
    driver.load_driver.cache_clear()


def test_compile_builds_for_the_gpu_and_takes_params(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def compile_cubin(source: str, arch: str, name: str) -> Any:
        compiled.append((arch, name))
        return Cubin(name, arch, "none", b"", "", 0, 0, 0, 0, 0)

    ada = SimpleNamespace(compute_capability=lambda device: (8, 9), current_device=lambda: 0)
    monkeypatch.setattr(calling, "compile_cubin", compile_cubin)
    monkeypatch.setattr(calling, "load_driver", lambda: ada)
    path = next(p for p in SPECS if p.stem == "transpose_tile")
    kernel = tilegen.compile(path, params={"M": 128, "N": 64})
    assert compiled == [("sm_89", "transpose_tile")]
    assert [a.shape for a in kernel.terms.arrays] == [(128, 64), (64, 128)]
    assert repr(kernel) == "<kernel transpose_tile(X, Y), sm_89>"
    assert re.search(r"for sm_89\.$", kernel.source, re.M)
    spec = tilegen.load(path, params={"M": 128, "N": 64})
    assert [a.shape for a in tilegen.compile(spec, arch="sm_80").terms.arrays] == [(128, 64), (64, 128)]
    wider = tilegen.compile(spec, params={"N": 128})
    assert (wider.cubin.arch, [a.shape for a in wider.terms.arrays]) == ("sm_89", [(128, 128), (128, 128)])
