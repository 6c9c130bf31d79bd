"""A kernel as a Python function of arrays.

What is right for one call is right for every call of its kind: the same shapes, dtypes, strides, device and integer
parameters, looked up by one key. A call of a known kind reads its arrays, compares where they lie, and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tilegen.dtypes import DTYPES
from tilegen.errors import CallError, Diagnostic, EnvironmentLack, TilegenError
from tilegen.gpu.call.again import Again, launch_nothing, repeat_over_two
from tilegen.gpu.call.kind_of_call import CallKind, check_alignment, check_overlap, decide, unreadable
from tilegen.gpu.call.launch_memory import MAP_BYTES, LaunchMemory, make_memory, write_launch, write_maps, write_params
from tilegen.gpu.call.libraries import Readers
from tilegen.gpu.call.params import MOST_BITS, read_bits, read_scalar
from tilegen.gpu.call.promises import PromiseChecks
from tilegen.gpu.call.signature import KernelSignature
from tilegen.gpu.cubins import Cubin
from tilegen.gpu.driver import NO_BINARY, NO_CONTEXT, Driver, DriverError, Function, load_driver


class Kernel:
    """A compiled kernel. ``kernel(x, y)`` launches it over arrays of CuPy, torch or any library, in the spec's order;
    ``kernel(x)`` allocates the arrays that it only writes and returns them (one, or a tuple).

    Runtime parameters are taken from the shapes, or by keyword. The launch is on the current stream of the first
    array's library, and asynchronous. Raises CallError (TG7xx) for what the kernel does not take.
    """

    def __init__(
        self, terms: KernelSignature, cubin: Cubin, source: str = "", driver: Callable[[], Driver] = load_driver
    ):
        self.terms, self.cubin, self.source = terms, cubin, source
        self.check_values = False  # whether each call looks at what its caller promises, and waits for that
        self.promises: PromiseChecks | None = None
        self._driver = driver
        self._functions: dict[int, Function] = {}
        self._kinds: dict[tuple[Any, ...], CallKind] = {}
        self._again: Again = launch_nothing  # the short way of calls of the last kind
        self._ways: dict[tuple[type, Any], Again] = {}  # type and shape of a first array -> the last such
        self._readers = Readers(terms.kernel, any(DTYPES[a.dtype].kind == "complex" for a in terms.arrays), driver)
        self._floats = tuple((p.name, p.default, read_scalar(p.dtype)) for p in terms.params if p.var is None)

    def __repr__(self) -> str:
        words = [a.name for a in self.terms.arrays] + [f"{p.name}=.." for p in self.terms.params]
        return f"<kernel {self.terms.kernel}({', '.join(words)}), {self.cubin.arch}>"

    def load(self, device: int) -> Function:
        """Load the kernel on a GPU, as its first call there does. Raises EnvironmentLack TG503, CallError TG491."""
        if device not in self._functions:
            image, kernel = self.cubin.image, self.terms.kernel
            try:
                self._functions[device] = self._driver().load(image, kernel, device, self.terms.dynamic_bytes)
            except DriverError as e:
                raise self._explain_load(e, device) from None
        return self._functions[device]

    def __call__(self, /, *arrays: Any, **params: Any) -> Any:
        is_short = len(arrays) == 2 and not params and not self.check_values
        if is_short and (self._again(arrays) or self._again_in_turn(arrays)):
            return None
        return self._call(arrays, params)

    def check(self, /, *arrays: Any, **params: Any) -> None:
        """Look at what a call of these arrays promises, and wait for it; nothing is launched that computes.

        Raises what the call would, and CallError TG716 with an element whose promise is false, TG717 while the stream
        is captured. Of a kernel whose caller promises nothing, it asks what any call does.
        """
        self._call(arrays, params, launches=False)

    def _again_in_turn(self, arrays: tuple[Any, ...]) -> bool:
        """The short way of a kind before the last: such as that of another size."""
        try:
            again = self._ways[type(arrays[0]), arrays[0].shape]
        except Exception:
            return False
        if again is self._again or not again(arrays):
            return False
        self._again = again
        return True

    def _call(self, arrays: tuple[Any, ...], params: dict[str, Any], launches: bool = True) -> Any:
        """Any call: read, looked up or decided, compared, launched; without ``launches``, checked instead."""
        key, pointers, bits = [], [], 0
        for array in arrays:
            try:
                part, pointer = self._readers[type(array)](array)
            except TilegenError:
                raise
            except Exception as error:
                raise unreadable(self.terms.kernel, array, error) from error
            key.append(part)
            pointers.append(pointer)
            bits |= pointer
        floats = self._take_floats(params) if self._floats else ()
        if params:
            key.append(tuple(params.items()))
        try:
            kind = self._kinds[tuple(key)]
        except (KeyError, TypeError):  # a new kind, or a parameter that is nothing to look up
            kind = self._decide(arrays, params, tuple(key))
        if bits & kind.mask:
            check_alignment(self.terms.kernel, kind, pointers)
        for i, j, i_bytes, j_bytes in kind.pairs:
            if pointers[i] < pointers[j] + j_bytes and pointers[j] < pointers[i] + i_bytes:
                check_overlap(self.terms.kernel, kind, (i, j), pointers)
        for k, sync in kind.syncs:
            sync(arrays[k], kind.stream(kind.device))
        if self.promises is not None and (self.check_values or not launches):
            self.promises.run(self.terms.kernel, kind, pointers)
        if not launches:
            return None
        made = [make(pointers) for make in kind.makers]
        self._launch(kind, pointers, floats)
        if kind.is_short and not self.check_values:
            self._shorten(kind, arrays)
        return (made[0] if len(made) == 1 else tuple(made)) if made else None

    def _launch(self, kind: CallKind, pointers: Sequence[int], floats: Sequence[float] = ()) -> None:
        """Launch a call of a decided kind, on all arrays in order; ``floats``: parameters that are no integers."""
        try:
            memory = kind.spare.pop()
        except IndexError:
            memory = make_memory(kind.form)
        write_launch(memory, kind.stream(kind.device), pointers)
        if kind.varies:
            self._write_varying(kind, memory, pointers, floats)
        status = kind.launch(memory.config, kind.handle, memory.arguments, None)
        if status:
            self._launch_again(kind, memory, status)
        kind.spare.append(memory)

    # ---------------------------------------------------------------- what few calls come to
    def _take_floats(self, params: dict[str, Any]) -> tuple[float, ...]:
        """Values of the parameters that are no integers: they may vary from call to call of one kind."""
        given = [(name, params.pop(name, default), read) for name, default, read in self._floats]
        try:
            return tuple(read(value) for _, value, read in given)
        except (TypeError, ValueError, OverflowError):
            wrong = next(_say_wrong(name, value, read) for name, value, read in given if not _is_read(value, read))
            raise CallError(Diagnostic("TG709", f"{self.terms.kernel}: {wrong}")) from None

    def _write_varying(
        self, kind: CallKind, memory: LaunchMemory, pointers: Sequence[int], floats: Sequence[float]
    ) -> None:
        if floats:
            try:
                write_params(kind.form, memory, floats)
            except OverflowError:
                names = ", ".join(name for name, *_ in self._floats)
                message = f"{self.terms.kernel}: of {names}, not all are numbers that float32 holds"
                raise CallError(Diagnostic("TG709", message)) from None
        if kind.encode:
            write_maps(kind.form, memory, kind.encode(tuple(pointers)))

    def _encode(self, kind: CallKind, pointers: Sequence[int]) -> bytes:
        """The tensor maps of a call, in its arrays' context: the driver may ask for one, and a thread may have none."""
        assert self.terms.encode_maps is not None
        with self._driver().in_context(kind.function.context):
            images = self.terms.encode_maps(pointers, kind.values)
        assert [len(image) for image in images] == [MAP_BYTES] * kind.form.maps
        return b"".join(images)

    def _keep_maps(self, kind: CallKind) -> None:
        """Have the tensor maps of a kind of call encoded when its pointers are new."""
        if kind.form.maps:
            kind.keep_maps(lambda pointers: self._encode(kind, pointers))

    def _decide(self, arrays: Sequence[Any], params: dict[str, Any], key: tuple[Any, ...]) -> CallKind:
        libraries = [self._readers.libraries[type(array)] for array in arrays]
        kind = decide(self.terms, arrays, libraries, params, self.load, self._driver())
        self._keep_maps(kind)
        with suppress(TypeError):  # an array whose form is nothing to look up is decided on every time
            self._kinds[key] = kind
            kind.is_short = len(key) == len(arrays) == 2 and not (kind.makers or kind.syncs or self._floats)
        return kind

    def _shorten(self, kind: CallKind, arrays: Sequence[Any]) -> None:
        """Take the short way of a kind in the next call; anew where it did not know these arrays of its kind again.

        (torch's modes are a part of what it compares. Arrays that interleave never go the short way.)
        """
        shape = getattr(arrays[0], "shape", None)
        key = type(arrays[0]), shape if isinstance(shape, tuple) else None
        was_tried = kind.again is self._again or kind.again is self._ways.get(key)
        if kind.again is None or (was_tried and not kind.apart):
            x, y = (self._readers.libraries[type(array)].match(array) for array in arrays)
            kind.again = repeat_over_two(kind, x, y, self._launch_again)
        self._again = self._ways[key] = kind.again

    def _explain_load(self, error: DriverError, device: int) -> TilegenError:
        if error.status == NO_BINARY:
            message = f"GPU {device} does not run {self.terms.kernel}, which is built for {self.cubin.arch}"
            return EnvironmentLack(Diagnostic("TG503", message, hint="leave 'arch' out to build for the current GPU"))
        return CallError(Diagnostic("TG491", f"CUDA does not load {self.terms.kernel}: {error}"))

    def _launch_again(self, kind: CallKind, memory: LaunchMemory, status: int) -> None:
        """Where another device's context is current, or none: in the context of the arrays."""
        driver, function = self._driver(), kind.function
        if status in NO_CONTEXT:
            with driver.in_context(function.context):
                status = driver.launch(memory.config, kind.handle, memory.arguments, None)
        if status:
            message = f"CUDA does not launch {self.terms.kernel}: {driver.name_status(status)}"
            raise CallError(Diagnostic("TG491", message, hint="an earlier kernel may have failed"))


def _say_wrong(name: str, value: Any, read: Callable[[Any], float]) -> str:
    if read is read_bits:
        return f"{name} is an integer from 0 to {MOST_BITS}, not {_show(value)}"
    return f"{name} is a number, not {_show(value)}"


def _is_read(value: Any, read: Callable[[Any], float]) -> bool:
    try:
        read(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _show(value: Any) -> str:
    return "one that large" if isinstance(value, int) else f"{value!r:.40}"
