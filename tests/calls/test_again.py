"""Calls of the kind that the last one was: the short way. What it does is what a kernel does that was never called."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from calls.pretended import Cupy, Exchange, Guards, Interface, Torch, aligned, offer_functions, pretend_kernel
from calls.test_call import ANY, PITCHED, PLAIN, refused, spec
from tilegen.errors import CallError
from tilegen.gpu import device
from tilegen.gpu.call import again, libraries
from tilegen.gpu.call.again import launch_nothing
from tilegen.gpu.call.dlpack import exchange_library

Make = Callable[..., Any]  # (NumPy array, device=0) -> an array of a library
LIBRARIES = ("cupy", "torch", "torch with guards", "interface", "dlpack", "dlpack's functions")


@pytest.fixture(params=LIBRARIES)
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Arrays of each library."""
    cupy, torch = Cupy(), Torch()
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    device.load_cupy.cache_clear()
    if request.param == "torch with guards":
        monkeypatch.setattr(libraries, "find_guard", lambda _: Guards)

    class Exported(Exchange):
        pass

    said = offer_functions(Exported)
    yield {
        "cupy": cupy.array,
        "torch": lambda array, device=0, **more: torch.Tensor(array, device=device, **more),
        "torch with guards": lambda array, device=0, **more: torch.Tensor(array, device=device, **more),
        "interface": lambda array, device=0: Interface(array),
        "dlpack": lambda array, device=0: Exchange(array, (2, device)),
        "dlpack's functions": lambda array, device=0: Exported(array, (2, device)),
    }[request.param]
    assert sorted(said.freed) == sorted(said.exported), "every tensor that was given is freed"
    device.load_cupy.cache_clear()


def outcome(kernel: Any, pretended: Any, *given: Any) -> Any:
    """What a call launched, or said."""
    count = len(pretended.seen)
    try:
        kernel(*given)
    except CallError as error:
        assert len(pretended.seen) == count
        return str(error)
    (launched,) = pretended.seen[count:]
    return launched


def forbid(*_: Any) -> Any:
    raise AssertionError("not the short way")


def forms(dtype: Any = np.float32) -> dict[str, np.ndarray[Any, Any]]:
    """Memory as a kernel of 4 x 8 float32 may find it where it did find 4 x 8 float32, row-major."""
    whole = aligned((16, 16), np.float64)
    flat = whole.view(np.float32).reshape(-1)
    rows = flat[:32].reshape(4, 8)
    return {
        "the same": rows,
        "elsewhere": flat[64:96].reshape(4, 8),
        "another dtype, the same bytes": rows.view(np.int32),
        "another dtype, as many bytes an element": rows.view(np.uint32),
        "wider elements": whole[:2].reshape(-1)[:32].reshape(4, 8),
        "other strides": flat[:64].reshape(4, 16)[:, :8],
        "columns": flat[:32].reshape(8, 4).T,
        "steps of two": flat[:64].reshape(4, 16)[:, ::2],
        "another shape": flat[:32].reshape(8, 4),
        "flat": flat[:32],
        "resized": flat[:24].reshape(3, 8),
        "wider": flat[:48].reshape(4, 12),
        "of more dimensions": rows[None],
        "one row": flat[:8].reshape(1, 8),
        "one row of far apart ones": flat[:64].reshape(2, 32)[:1, :8],
        "one column": flat[:4].reshape(4, 1),
        "empty": flat[:0].reshape(0, 8),
        "off by an element": flat[1:33].reshape(4, 8),
        "off by 16 bytes": flat[4:36].reshape(4, 8),
    }


@pytest.mark.sweep(22)
@pytest.mark.parametrize("which", ["x", "y"])
@pytest.mark.parametrize("in_place", [False, True], ids=["another", "in place"])
@pytest.mark.parametrize("built", [PLAIN, ANY, PITCHED], ids=["fixed", "sizes", "pitches"])
def test_what_was_seen_says_nothing_of_what_comes(make: Make, built: Any, in_place: bool, which: str) -> None:
    """Anything may have become of an array since the last call, in the same object too."""
    for name, form in forms().items():
        kernel, pretended = pretend_kernel(built, runs=False)
        x, y, fresh = make(forms()["the same"]), make(aligned((4, 8))), make(form)
        for _ in range(2):
            assert "arguments" in outcome(kernel, pretended, x, y)
        if in_place:
            (x if which == "x" else y).__dict__.update(fresh.__dict__)
            given = x, y
        else:
            given = (fresh, y) if which == "x" else (x, fresh)
        for _ in range(2):
            assert outcome(kernel, pretended, *given) == outcome(*pretend_kernel(built, runs=False), *given), name


def test_a_tensor_that_moved_to_another_gpu(make: Make, request: pytest.FixtureRequest) -> None:
    if "interface" in request.node.callspec.id:
        pytest.skip("CUDA is asked for the device of a pointer")
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x, y = make(aligned((4, 8))), make(aligned((4, 8)))
    for _ in range(2):
        kernel(x, y)
    x.__dict__.update(make(x.array, device=1).__dict__)
    assert refused(kernel, x, y)[0] == "TG708"
    y.__dict__.update(make(y.array, device=1).__dict__)
    kernel(x, y)
    assert [device for _, device, _ in pretended.loaded] == [0, 1]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("built", [ANY, PITCHED], ids=["sizes", "pitches"])
def test_any_call_after_any_other_is_as_if_it_were_the_first(make: Make, built: Any) -> None:
    pool = {name: (make(x), make(aligned(x.shape, x.dtype))) for name, x in forms().items()}
    fresh = {name: outcome(*pretend_kernel(built, runs=False), *given) for name, given in pool.items()}
    launched = [name for name, found in fresh.items() if isinstance(found, dict)]
    assert len(launched) >= 6
    for before in launched:
        for name, given in pool.items():
            kernel, pretended = pretend_kernel(built, runs=False)
            for _ in range(2):
                kernel(*pool[before])
            assert outcome(kernel, pretended, *given) == fresh[name], (before, name)


@pytest.mark.sweep(3)
def test_any_order_of_calls_is_as_if_each_were_the_first(make: Make) -> None:
    rng = random.Random(1)
    kernel, pretended = pretend_kernel(PITCHED, runs=False)
    pool = [make(form) for _ in range(2) for form in forms().values()]
    good = make(aligned((4, 8))), make(aligned((4, 8)))
    seen = set()
    for _ in range(400):
        given = [rng.choice(pool) if rng.random() < 0.3 else same for same in good]
        found = outcome(kernel, pretended, *given)
        assert found == outcome(*pretend_kernel(PITCHED, runs=False), *given)
        seen.add(type(found))
    assert seen == {dict, str}, "some were launched, some were not"


def test_the_short_way_is_taken(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, pretended = pretend_kernel(ANY, runs=False)
    x, y, z = (make(aligned((4, 8))) for _ in range(3))
    kernel(x, y)
    monkeypatch.setattr(kernel, "_call", forbid)
    for given in ((x, y), (x, z), (x, z), (y, x)):
        kernel(*given)
        wanted = [array.array.ctypes.data for array in given]
        assert pretended.seen[-1]["arguments"] == [*wanted, 4, 8]
    assert len(pretended.seen) == 5


def test_kinds_in_turn_are_decided_once_each(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, pretended = pretend_kernel(ANY, runs=False)
    pairs = [[make(aligned(shape)) for _ in range(2)] for shape in ((4, 8), (5, 12))]
    for pair in pairs:
        kernel(*pair)
    monkeypatch.setattr(kernel, "_call" if hasattr(pairs[0][0], "shape") else "_decide", forbid)
    for pair in 2 * pairs:
        kernel(*pair)
    assert [launched["arguments"][2:] for launched in pretended.seen] == 3 * [[4, 8], [5, 12]]
    assert len(pretended.loaded) == 1


def test_more_and_fewer_arguments_than_the_last_call_had(make: Make) -> None:
    kernel, pretended = pretend_kernel(ANY, runs=False)
    x, y = make(aligned((4, 8))), make(aligned((4, 8)))
    kernel(x, y)
    assert refused(kernel)[0] == refused(kernel, x, y, x)[0] == "TG701"
    assert refused(kernel, x, None)[0] == refused(kernel, 3, y)[0] == "TG702"
    assert refused(kernel, x, y, M=5)[0] == "TG704"
    kernel(x, y, M=4)
    assert len(pretended.seen) == 2


def test_a_shape_that_is_a_list_and_changes() -> None:
    """What an array handed out once is not what it is compared with later."""
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    shape = [4, 8]
    x, y = Interface(aligned((4, 8)), shape=shape, strides=None), Interface(aligned((4, 8)))
    for _ in range(2):
        kernel(x, y)
    shape.reverse()
    assert refused(kernel, x, y)[0] == "TG704"
    assert kernel._again is launch_nothing and len(pretended.seen) == 2


# ---------------------------------------------------------------- streams, threads, failures
def test_the_stream_is_that_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = Cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[arg-type]
    device.load_cupy.cache_clear()
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x, y = cupy.array(aligned((4, 8))), cupy.array(aligned((4, 8)))
    streams = [7, 7, 9, 9, 0, 7]
    for cupy.stream in streams:
        kernel(x, y)
    assert [launched["stream"] for launched in pretended.seen] == streams
    device.load_cupy.cache_clear()


def test_many_threads_and_many_places(make: Make) -> None:
    """Each launch has the two arrays of one call, also where threads change between any two steps of it."""
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    pairs = [(make(aligned((4, 8))), make(aligned((4, 8)))) for _ in range(6)]
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for k in range(150):
                kernel(*pairs[(number * (k % 3) + k % 2) % len(pairs)])
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed and len(pretended.seen) == 600
    wanted = {tuple(array.array.ctypes.data for array in pair) for pair in pairs}
    assert {tuple(launched["arguments"]) for launched in pretended.seen} == wanted


def test_a_call_inside_of_a_launch(make: Make) -> None:
    """As from a signal's handler, or while the driver runs another thread."""
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    outer, inner = ([make(aligned((4, 8))) for _ in range(2)] for _ in range(2))
    start, inside = pretended.launch, []

    def launch(*args: Any) -> int:
        if len(pretended.seen) % 2 and not inside:
            inside.append(True)
            kernel(*inner)
            inside.pop()
        return int(start(*args))

    object.__setattr__(pretended, "launch", launch)
    for _ in range(4):
        kernel(*outer)
    places = [tuple(array.array.ctypes.data for array in pair) for pair in (outer, inner)]
    found = [tuple(launched["arguments"]) for launched in pretended.seen]
    assert found == [places[0], places[1], places[0], places[1], places[0], places[1], places[0]]


def test_a_launch_that_failed_leaves_nothing_behind(make: Make) -> None:
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x, y = make(aligned((4, 8))), make(aligned((4, 8)))
    for _ in range(2):
        kernel(x, y)
    pretended.refuse.append(700)
    assert "CUDA_ERROR_700" in refused(kernel, x, y)[1]
    pretended.refuse.append(201)
    kernel(x, y)
    assert pretended.entered == 1, "in the context of the arrays"
    kernel(x, y)
    assert pretended.seen[-1] == pretended.seen[0] and len(pretended.seen) == 4


def test_descriptors_that_failed_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []
    written: list[bytes] = []
    write = again.write_maps

    def write_and_tell(form: Any, memory: Any, maps: bytes) -> None:
        written.append(maps)
        write(form, memory, maps)

    monkeypatch.setattr(again, "write_maps", write_and_tell)

    def encode(pointers: Any, values: Any) -> list[bytes]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [bytes([answer]) * 128]

    kernel, pretended = pretend_kernel(ANY, runs=False, tensor_maps=1, encode_maps=encode)
    first, second = ([Interface(aligned((4, 8))) for _ in range(2)] for _ in range(2))
    answers += [1, ValueError("no"), 2]
    kernel(*first)
    with pytest.raises(ValueError, match="no"):
        kernel(*second)
    kernel(*first)
    kernel(*first)
    assert len(written) == 1, "not again where the memory holds them"
    kernel(*second)
    maps = [launched["arguments"][-1][0] for launched in pretended.seen]
    assert maps == [1, 1, 1, 2]


# ---------------------------------------------------------------- CuPy
def test_cupys_own_arrays() -> None:
    """They need no GPU to lie somewhere."""
    cupy = pytest.importorskip("cupy")
    memory = cupy.cuda.UnownedMemory(1 << 40, 1 << 20, None, 0)

    def array(*shape: int, dtype: Any = "float32", at: int = 0, device_id: int = 0) -> Any:
        where = cupy.cuda.UnownedMemory(1 << 40, 1 << 20, None, device_id) if device_id else memory
        return cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(where, at))

    match = libraries.match_cupy(array(4, 8))
    assert match(array(4, 8)) == 1 << 40 and match(array(4, 8, at=256)) == (1 << 40) + 256
    reshaped = array(4, 8)
    reshaped.shape = (8, 4)
    others = {
        "dtype": array(4, 8, dtype="int32"), "viewed": array(4, 8).view("uint32"), "shape": array(8, 4),
        "in place": reshaped, "transposed": array(8, 4).T, "strides": array(4, 16)[:, :8],
        "steps": array(4, 16)[:, ::2], "flat": array(32), "a row": array(1, 8), "another GPU": array(4, 8, device_id=1),
        "no array": np.zeros((4, 8)),
    }  # fmt: skip
    assert {name: match(other) for name, other in others.items() if match(other)} == {}
    for form in (array(4, 16)[:, :8], array(2, 32)[:1, :8], array(8, 4).T):
        match = libraries.match_cupy(form)
        assert match(form) == 1 << 40 and not match(array(*form.shape))


# ---------------------------------------------------------------- torch
def test_what_torch_has_not_computed_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    for guard in (None, Guards):
        torch = Torch()
        monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
        monkeypatch.setattr(libraries, "find_guard", lambda _, guard=guard: guard)
        for dtype, lazy in ((np.float32, {"neg": True}), (np.complex64, {"conj": True}), (np.complex64, {"neg": True})):
            built = spec("shape: [4, 8]", "shape: [4, 8]", dtype=np.dtype(dtype).name)
            kernel, pretended = pretend_kernel(built, runs=False)
            x, y = (torch.Tensor(aligned((4, 8), dtype)) for _ in range(2))
            for _ in range(2):
                kernel(x, y)
            code, text = refused(kernel, torch.Tensor(x.array, **lazy), y)
            assert code == "TG705" and ".resolve_conj()" in text
            kernel(x, y)
            assert len(pretended.seen) == 3


def test_a_mode_of_torch_that_the_guard_compares_too(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = SimpleNamespace(name="grad")

    class Moody(Guards):
        @staticmethod
        def form_of(tensor: Any) -> Any:
            return mode.name, Guards.form_of(tensor)

    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    monkeypatch.setattr(libraries, "find_guard", lambda _: Moody)
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x, y = (torch.Tensor(aligned((4, 8))) for _ in range(2))
    kernel(x, y)
    mode.name = "inference"
    kernel(x, y)
    monkeypatch.setattr(kernel, "_call", forbid)
    kernel(x, y)
    assert len(pretended.seen) == 3


def test_a_guard_that_does_not_tell_tensors_apart_is_not_trusted() -> None:
    assert libraries.find_guard(Torch()) is None, "there is none"
    for answers in ([True] * 7, [False] * 7, [True, True, False, False, False, True, False]):
        torch = MagicMock()
        torch._C._dynamo.guards.TensorGuards.return_value.check.side_effect = answers
        assert libraries.find_guard(torch) is None
    torch = MagicMock()
    torch._C._dynamo.guards.TensorGuards.return_value.check.side_effect = [True, True] + [False] * 5
    assert libraries.find_guard(torch) is not None


@pytest.mark.slow
def test_torchs_own_guard_and_tensors() -> None:
    torch = pytest.importorskip("torch")
    guard = libraries.find_guard(torch)
    assert guard is not None
    x = torch.zeros(4, 8)
    match = libraries.match_torch(guard, x)
    base = torch.zeros(16, 16)
    negated = torch.zeros(64, dtype=torch.complex64).conj().imag
    others = {
        "dtype": torch.zeros(4, 8, dtype=torch.int32), "half as wide": torch.zeros(4, 8, dtype=torch.float16),
        "shape": torch.zeros(8, 4), "resized": torch.zeros(4, 8).resize_(3, 8), "transposed": torch.zeros(8, 4).t(),
        "in place": torch.zeros(8, 4).t_(), "strides": base[:4, :8], "a row": torch.zeros(1, 8), "flat": x.view(-1),
        "negated": negated.clone().resize_(4, 8)._neg_view(), "resized and negated": negated.resize_(4, 8),
        "elsewhere": torch.zeros(4, 8, device="meta"), "parameter": torch.nn.Parameter(x), "no tensor": x.numpy(),
        "set": torch.zeros(4, 8).set_(base.untyped_storage(), 0, (4, 8), (16, 1)),
    }  # fmt: skip
    assert match(x) == x.data_ptr() and match(base[:2].view(4, 8)) == base.data_ptr()
    assert {name: match(other) for name, other in others.items() if match(other)} == {}
    y = torch.zeros(4, 8)
    y.data = torch.zeros(8, 4)
    assert not match(y)
    z = torch.zeros(4, 8, dtype=torch.complex64)
    assert libraries.match_torch(guard, z)(z) and not libraries.match_torch(guard, z)(z.conj())
    assert libraries.match_torch(guard, z.real)(z.real) and not libraries.match_torch(guard, z.real)(x)


# ---------------------------------------------------------------- DLPack
def test_a_gpus_array_is_not_asked_where_it_lies_again() -> None:
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x, y = Exchange(aligned((4, 8))), Exchange(aligned((4, 8)))
    kernel(x, y)
    asked = x.asked_device
    x.asked.clear()
    kernel(x, y)
    assert x.asked_device == asked and x.asked == [1], "asked once, to be ready on CUDA's default stream"
    x.device = (1, 0)
    code, text = refused(kernel, x, y)
    assert code == "TG702" and "not in a GPU's memory" in text
    assert len(pretended.seen) == 2


def exported(**more: Any) -> tuple[Any, Any]:
    """A type with DLPack's C functions, and what they say."""

    class Exported(Exchange):
        pass

    return Exported, offer_functions(Exported, **more)


def test_functions_of_a_type_are_called_in_place_of_its_methods() -> None:
    Exported, said = exported()
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x, y = Exported(aligned((4, 8))), Exported(aligned((4, 8)))
    for said.stream in (5, 5, 6):
        kernel(x, y)
    assert [launched["stream"] for launched in pretended.seen] == [5, 5, 6], "its library's current stream"
    assert not x.asked and not y.asked_device and said.exported == said.freed != []
    code, text = refused(kernel, x, Exported(aligned((4, 8)), flags=1))
    assert code == "TG711" and "read-only" in text
    said.refuses = True
    code, text = refused(kernel, x, y)
    assert code == "TG702" and "its type's C function gives no tensor" in text
    assert len(pretended.seen) == 3 and said.exported == said.freed


def test_functions_wait_for_no_stream_so_the_method_is_asked() -> None:
    Exported, _ = exported()
    Other, said = exported()
    said.stream = 6
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x, y, plain = Exported(aligned((4, 8))), Other(aligned((4, 8))), Exchange(aligned((4, 8)))
    kernel(x, y)
    assert (x.asked, y.asked, pretended.seen[-1]["stream"]) == ([], [5], 5)
    kernel(x, plain)
    assert plain.asked[-1] == 5
    z = Other(aligned((4, 8)))
    kernel(z, x)
    assert (x.asked, z.asked, pretended.seen[-1]["stream"]) == ([6], [], 6), "each type has its own"
    kernel(plain, y)
    assert pretended.seen[-1]["stream"] == 0 and y.asked == [5, 1]
    kernel(Interface(aligned((4, 8)), stream=9), plain)
    assert pretended.seen[-1]["stream"] == 9 and plain.asked[-1] == 9


@pytest.mark.parametrize("more", [{"major": 2}, {"name": b"another"}])
def test_functions_of_another_version_are_left_alone(more: Any) -> None:
    Exported, said = exported(**more)
    assert exchange_library(Exported) is None
    kernel, pretended = pretend_kernel(PLAIN, runs=False)
    x, y = Exported(aligned((4, 8))), Exported(aligned((4, 8)))
    kernel(x, y)
    assert x.asked and not said.exported and pretended.seen[0]["stream"] == 0


def test_torchs_own_functions() -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has none")
    library = exchange_library(torch.Tensor)
    assert library is not None
    x = torch.zeros(4, 16)[:, :8]
    seen = library.look(x)
    assert (seen.shape, seen.strides, seen.dtype, seen.device) == ((4, 8), (16, 1), "float32", None)
    assert seen.pointer == x.data_ptr() and library.match(x)(x) == x.data_ptr()
    assert not library.match(x)(torch.zeros(4, 8))
