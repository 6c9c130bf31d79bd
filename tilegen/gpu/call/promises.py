"""What a caller promises of arrays, looked at on the device before a launch.

One kernel an array finds the least element that breaks its promise, whatever order threads run in; the call waits for
it. An array is read once. Where no value may stand twice, each element is also entered into a table and looked up
there: 16 to 32 bytes of memory an element, which are given back before the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.errors import CallError, Diagnostic, Mark
from tilegen.gpu.call.kind_of_call import CallKind
from tilegen.gpu.call.launch_memory import LaunchForm, as_argument, make_memory, write_launch
from tilegen.gpu.cubins import Cubin
from tilegen.gpu.driver import Driver, DriverError, Function
from tilegen.index import evaluate
from tilegen.plan import (
    CHECKING_THREADS,
    ENTERS,
    FINDS_TWIN,
    LOOKS,
    PromiseCheck,
    count_checking_ctas,
    count_slots,
)

_WORD_BYTES, _HEAD_WORDS = 8, 2  # of the memory that a check writes: the element, its twin, and then the table
NO_ELEMENT = (1 << 64) - 1


@dataclass(frozen=True)
class FalsePromise:
    """An element that breaks a promise: its number, its index, its value, and the promise.

    ``twin``: of one whose value stands before it too, the first such element's number.
    """

    array: str
    number: int
    at: tuple[int, ...]
    value: Any
    check: PromiseCheck
    values: Mapping[str, Any]
    twin: int | None = None

    @property
    def reason(self) -> str:
        """What is wrong with it, of all that is promised."""
        v = self.check.promise.values.at(dict(self.values))
        value, last = self.value, v.high - 1
        if self.twin is not None:
            at = np.unravel_index(self.twin, self.shape)
            return f"{_show_index(self.array, at)}, element {self.twin}, is {value} too"
        if v.pieces is None:
            is_inside = v.low <= value < v.high
            return f"it is no multiple of {v.step} from {v.low} on" if is_inside else f"it is not in {v.low} : {v.high}"
        if not 0 <= value <= last:
            return f"offsets lie in 0 : {v.high}"
        if self.number == 0:
            return "the first offset is 0"
        if self.number == v.pieces and value != last:
            return f"the last offset is {last}, unless it is less than the one before"
        return "it is less than the offset before it"

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the array."""
        return tuple(int(evaluate(n, dict(self.values))) for n in self.check.promise.shape)


def say_false(kernel: str, found: FalsePromise, mark: Mark | None) -> Diagnostic:
    """The error of an element that breaks a promise.

    >>> from tilegen.arithmetic.values import Values
    >>> from tilegen.index import Var
    >>> from tilegen.plan import Promise
    >>> check = PromiseCheck("c", Promise("ids", "int32", Values(0, 10), (4, 8), Var("elem", 32), Var("elem", 32)))
    >>> say_false("gather", FalsePromise("ids", 13, (1, 5), -1, check, {}), None).message
    'gather: ids[1, 5] is -1 (element 13), but the spec promises values 0 : 10: it is not in 0 : 10'
    """
    where, promise = _show_index(found.array, found.at), found.check.promise
    says = f"{promise.says}{_with_numbers(promise, found.values)}"
    message = (
        f"{kernel}: {where} is {found.value} (element {found.number}), but the spec promises {says}: {found.reason}"
    )
    hint = "correct the array, or the promise in the spec; nothing was launched"
    return Diagnostic("TG716", message, mark, hint)


def _with_numbers(promise: Any, values: Mapping[str, Any]) -> str:
    """What a promise is with the parameters of the call, where it names any."""
    known = promise.values.at(dict(values)).promise
    return "" if known == promise.says else f" (here {known})"


def _show_index(array: str, at: Sequence[Any]) -> str:
    return f"{array}[{', '.join(str(int(i)) for i in at)}]"


def refuse_capture(kernel: str) -> CallError:
    """What a call ends with that would wait for the device while its stream is captured."""
    message = f"{kernel} checks what its arrays hold, which waits for the device, and the stream is being captured"
    hint = "call kernel.check(..) on the arrays before the capture, and set kernel.check_values = False in it"
    return CallError(Diagnostic("TG717", message, None, hint))


class PromiseChecks:
    """The checks of one kernel, or of the passes of a program. ``compile`` makes their machine code, once."""

    def __init__(self, checks: Sequence[PromiseCheck], compile: Callable[[], Cubin], driver: Callable[[], Driver]):
        self.checks = tuple(checks)
        self._compile, self._driver = compile, driver
        self._functions: dict[tuple[int, str], Function] = {}

    @cached_property
    def cubin(self) -> Cubin:
        """Their machine code. Raises what ``compile_cubin`` raises."""
        return self._compile()

    def run(self, kernel: str, kind: CallKind, pointers: Sequence[int]) -> None:
        """Look at the arrays that a call was given, in the order of its stream, and wait. ``pointers``: of these.

        Raises CallError: TG716 with an element of each array whose promise is false, TG717 while the stream is
        captured, TG491 where CUDA fails.
        """
        driver, stream = self._driver(), kind.stream(kind.device)
        if driver.is_capturing(stream):
            raise refuse_capture(kernel)
        places = {array.name: (at, array.mark) for (array, _, _), at in zip(kind.given, pointers, strict=True)}
        found = []
        for check in self.checks:
            pointer, mark = places[check.promise.array]
            try:
                broken = self._look(check, kind, pointer, stream)
            except DriverError as error:
                message = f"CUDA does not check what {check.promise.array} holds: {error}"
                raise CallError(Diagnostic("TG491", f"{kernel}: {message}")) from None
            found += [say_false(kernel, broken, mark)] if broken else []
        if found:
            raise CallError(found)

    def _load(self, device: int, name: str) -> Function:
        if (device, name) not in self._functions:
            self._functions[device, name] = self._driver().load(self.cubin.image, name, device, 0)
        return self._functions[device, name]

    def _look(self, check: PromiseCheck, kind: CallKind, pointer: int, stream: int) -> FalsePromise | None:
        driver, function = self._driver(), self._load(kind.device, check.name)
        shape = tuple(int(evaluate(n, dict(kind.values))) for n in check.promise.shape)
        count = prod(shape)
        slots = count_slots(count) if check.is_distinct else 0
        size = _WORD_BYTES * (_HEAD_WORDS + slots)
        with driver.in_context(function.context):
            memory = driver.allocate(size)
            try:
                driver.fill(memory, 0xFF, size, stream)
                for turn in (ENTERS, LOOKS, FINDS_TWIN) if check.is_distinct else (LOOKS,):
                    form = self._form(check, kind, count, slots, turn)
                    _launch(driver, function, form, stream, (pointer, memory, memory + _WORD_BYTES * _HEAD_WORDS))
                head = np.frombuffer(driver.read(memory, _WORD_BYTES * _HEAD_WORDS, stream), np.uint64)
                number, twin = (int(n) for n in head)
                if number == NO_ELEMENT:
                    return None
                dtype = DTYPES[check.promise.dtype]
                place = int(evaluate(check.promise.place, {**kind.values, check.promise.elem.name: number}))
                raw = driver.read(pointer + place * dtype.bytes, dtype.bytes, stream)
            finally:
                driver.free(memory)
        value = np.frombuffer(raw, numpy_dtype(dtype.name))[0].item()
        at = tuple(int(i) for i in np.unravel_index(number, shape))
        is_twin = twin not in (NO_ELEMENT, number)
        return FalsePromise(
            check.promise.array, number, at, value, check, kind.values, twin if is_twin else None
        )  # fmt: skip

    @staticmethod
    def _form(check: PromiseCheck, kind: CallKind, count: int, slots: int, turn: int) -> LaunchForm:
        params = [("Q", max(0, slots - 1)), ("i", turn), *(("i", kind.values[p.name]) for p in check.params)]
        ctas = 1 if turn == FINDS_TWIN else count_checking_ctas(count)
        return LaunchForm((ctas, 1, 1), CHECKING_THREADS, 0, 3, tuple(params))


def _launch(driver: Driver, function: Function, form: LaunchForm, stream: int, pointers: Sequence[int]) -> None:
    memory = make_memory(form)
    write_launch(memory, stream, pointers)
    status = driver.launch(memory.config, as_argument(function.handle), memory.arguments, None)
    if status:
        raise DriverError("cuLaunchKernelEx", status, driver.name_status(status))
