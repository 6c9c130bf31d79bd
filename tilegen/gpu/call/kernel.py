"""A kernel as a Python function of arrays.

What is right for one call is right for every call of its kind: the same shapes, dtypes, strides, device and integer
parameters, looked up by one key. A call of a known kind reads its arrays, compares where they lie, and launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilegen.dtypes import DTYPES
from tilegen.errors import CallError, Diagnostic
from tilegen.gpu.call.kinds import Kind, decide
from tilegen.gpu.call.libraries import Readers
from tilegen.gpu.call.meeting import check_alignment, check_overlap
from tilegen.gpu.call.slots import Slot, make_slot, write_maps, write_params
from tilegen.gpu.call.terms import KernelTerms
from tilegen.gpu.cubins import Cubin
from tilegen.gpu.driver import CONFIG_STREAM_AT, NO_CONTEXT, Driver, Function, load_driver


class Kernel:
    """A compiled kernel. ``kernel(x, y)`` launches it over arrays of CuPy, torch or any library, in the spec's order;
    ``kernel(x)`` allocates the arrays that it only writes and returns them (one, or a tuple).

    Runtime parameters are taken from the shapes, or by keyword. The launch is on the current stream of the first
    array's library, and asynchronous. Raises CallError (TG7xx) for what the kernel does not take.
    """

    def __init__(self, terms: KernelTerms, cubin: Cubin, source: str = "", driver: Callable[[], Driver] = load_driver):
        self.terms, self.cubin, self.source = terms, cubin, source
        self._driver = driver
        self._functions: dict[int, Function] = {}
        self._kinds: dict[tuple[Any, ...], Kind] = {}
        self._readers = Readers(terms.kernel, any(DTYPES[a.dtype].kind == "complex" for a in terms.arrays), driver)
        self._floats = tuple((p.name, float(p.default)) for p in terms.params if p.var is None)

    def __repr__(self) -> str:
        words = [a.name for a in self.terms.arrays] + [f"{p.name}=.." for p in self.terms.params]
        return f"<kernel {self.terms.kernel}({', '.join(words)}), {self.cubin.arch}>"

    def __call__(self, *arrays: Any, **params: Any) -> Any:
        # Every call pays for each line here: names are local, and what seldom happens has methods of its own.
        readers, key, pointers, bits = self._readers, [], [], 0
        for array in arrays:
            part, pointer = readers[type(array)](array)
            key.append(part)
            pointers.append(pointer)
            bits |= pointer
        floats = self._take_floats(params) if self._floats else None
        if params:
            key.append(tuple(params.items()))
        try:
            kind = self._kinds[tuple(key)]
        except (KeyError, TypeError):  # a new kind, or a parameter that is nothing to look up
            kind = self._decide(arrays, params, key)
        if bits & kind.mask:
            check_alignment(self.terms.kernel, kind, pointers)
        for i, j, i_bytes, j_bytes in kind.pairs:
            if pointers[i] < pointers[j] + j_bytes and pointers[j] < pointers[i] + i_bytes:
                check_overlap(self.terms.kernel, kind, (i, j), pointers)
        made = kind.makers and [make(pointers) for make in kind.makers]
        stream = kind.stream(kind.device)
        for k, sync in kind.syncs:
            sync(arrays[k], stream)
        slot = kind.spare.pop() if kind.spare else make_slot(kind.form)
        memory, config, arguments = slot
        kind.write(memory, CONFIG_STREAM_AT, stream, 0, 0, *pointers)
        if kind.varies:
            self._write_varying(kind, slot, pointers, floats)
        status = kind.launch(config, kind.handle, arguments, None)
        if status:
            self._launch_again(kind, slot, status)
        kind.spare.append(slot)
        return (made[0] if len(made) == 1 else tuple(made)) if made else None

    # ---------------------------------------------------------------- what few calls come to
    def _take_floats(self, params: dict[str, Any]) -> tuple[float, ...]:
        """Values of the parameters that are no integers: they may vary from call to call of one kind."""
        given = [(name, params.pop(name, default)) for name, default in self._floats]
        try:
            return tuple(float(value) for _, value in given)
        except (TypeError, ValueError):
            wrong = next(f"{name} is a number, not {value!r:.40}" for name, value in given if not _is_number(value))
            raise CallError(Diagnostic("TG709", f"{self.terms.kernel}: {wrong}")) from None

    def _write_varying(self, kind: Kind, slot: Slot, pointers: Sequence[int], floats: Sequence[float] | None) -> None:
        write_params(kind.form, slot, floats or ())
        if self.terms.encode_maps:
            write_maps(kind.form, slot, self.terms.encode_maps(pointers, kind.values))

    def _decide(self, arrays: Sequence[Any], params: dict[str, Any], key: Sequence[Any]) -> Kind:
        libraries = [self._readers.libraries[type(array)] for array in arrays]
        kind = decide(self.terms, arrays, libraries, params, self._load, self._driver().launch)
        self._kinds[tuple(key)] = kind
        return kind

    def _load(self, device: int) -> Function:
        if device not in self._functions:
            image, kernel = self.cubin.image, self.terms.kernel
            self._functions[device] = self._driver().load(image, kernel, device, self.terms.dynamic_bytes)
        return self._functions[device]

    def _launch_again(self, kind: Kind, slot: Slot, status: int) -> None:
        """Where another device's context is current, or none: in the context of the arrays."""
        driver, function = self._driver(), kind.function
        if status in NO_CONTEXT:
            with driver.in_context(function.context):
                status = driver.launch(slot.config, function.handle, slot.arguments, None)
        if status:
            message = f"CUDA does not launch {self.terms.kernel}: {driver.name_status(status)}"
            raise CallError(Diagnostic("TG491", message, hint="an earlier kernel may have failed"))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
