"""A kind of call: all that is decided once, and what is compared on every call of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from tilegen.dtypes import DTYPES
from tilegen.errors import CallError, Diagnostic, TilegenError
from tilegen.gpu.call.arrays import Library, Seen
from tilegen.gpu.call.checking import Checked, check_call, is_image, share_elements
from tilegen.gpu.call.launch_memory import LaunchForm, LaunchMemory, as_argument
from tilegen.gpu.call.signature import ArrayArgument, KernelSignature
from tilegen.gpu.driver import Driver, Function
from tilegen.index import evaluate
from tilegen.plan import pairs_apart

Given = tuple[ArrayArgument, Seen, Library]
Maker = Callable[[list[int]], Any]  # makes an output, and puts its pointer among the others
Encode = Callable[[tuple[int, ...]], bytes]  # pointers -> the tensor maps of a call, one behind the other
_KEPT_MAPS = 64  # sets of pointers of one kind whose tensor maps are kept; another 300 bytes each


class CallKind:
    """Calls that differ in pointers, streams and float parameters alone."""

    __slots__ = ("again", "apart", "device", "encode", "form", "function", "given", "handle", "is_short", "launch",
                 "makers", "mask", "pairs", "passes", "reach", "spare", "stream", "syncs", "values",
                 "varies")  # fmt: skip

    def __init__(
        self, given: Sequence[Given], checked: Checked, form: LaunchForm, function: Function, launch: Callable[..., int]
    ):
        self.given, self.form, self.function = tuple(given), form, function
        self.values, self.device = checked.values, checked.device
        self.launch, self.handle = launch, as_argument(function.handle)
        self.varies = form.maps > 0 or any(value is None for _, value in form.params)
        self.spare: list[LaunchMemory] = []  # what no thread is using
        self.mask = max(a.align_bytes for a, _, _ in given) - 1  # what no pointer may have, unless its array may
        self.pairs = pairs_of([a for a, _, _ in given], checked.span_bytes)
        self.reach = max((n for _, _, *sizes in self.pairs for n in sizes), default=0)  # further apart, no pair meets
        self.apart: set[tuple[int, int, int]] = set()  # distances at which two arrays interleave and do not meet
        self.stream = choose_stream(given)
        self.makers: tuple[Maker, ...] = ()
        self.syncs = syncs_of(given)
        self.encode: Encode | None = None
        self.is_short = False  # whether the short way is open to such calls: two arrays, and all is in them
        self.again: Callable[[tuple[Any, ...]], bool] | None = None
        self.passes: Any = None  # of a program: what its kernels are launched with

    def keep_maps(self, encode: Encode) -> None:
        """Tensor maps depend on the pointers alone: those of arrays that come again are not encoded again."""
        self.encode = lru_cache(_KEPT_MAPS)(encode)


def match_arrays(terms: KernelSignature, arrays: Sequence[Any]) -> tuple[ArrayArgument, ...]:
    """The terms of each array that was given: of all, or of all but those that are only written. Raises TG701."""
    inputs = tuple(a for a in terms.arrays if a.access != "out")
    for accepted in (terms.arrays, inputs):
        if arrays and len(arrays) == len(accepted):
            return accepted
    ways = {f"{terms.kernel}({', '.join(a.name for a in way)})": None for way in (terms.arrays, inputs) if way}
    count = f"{len(arrays)} array" + ("" if len(arrays) == 1 else "s")
    raise CallError(Diagnostic("TG701", f"{terms.kernel} was called with {count}", hint=f"call {' or '.join(ways)}"))


def decide(
    terms: KernelSignature, arrays: Sequence[Any], libraries: Sequence[Library], params: Mapping[str, Any],
    load: Callable[[int], Function], driver: Driver,
) -> CallKind:  # fmt: skip
    """The kind of a call. Raises CallError with everything that is wrong with it."""
    matched = match_arrays(terms, arrays)
    given = []
    for array_terms, array, library in zip(matched, arrays, libraries, strict=True):
        try:
            given.append((array_terms, library.look(array), library))
        except TilegenError:
            raise
        except Exception as error:
            raise unreadable(terms.kernel, array, error) from error
    checked = check_call(
        terms, [(t, seen) for t, seen, _ in given], params, partial(count_resident, terms, load, driver)
    )
    check_streams(terms.kernel, given)
    kind = CallKind(given, checked, form_of(terms, checked), load(checked.device), driver.launch)
    if len(matched) < len(terms.arrays):
        kind.makers = plan_outputs(terms, given, checked)
    return kind


def count_resident(terms: KernelSignature, load: Callable[[int], Function], driver: Driver, device: int) -> int:
    """CTAs of a kernel that a device holds at once."""
    return driver.count_resident(load(device), terms.threads, terms.dynamic_bytes, terms.cluster)


def code_of(dtype: str) -> str:
    """How ``struct`` packs a parameter that is no size."""
    return "I" if dtype == "uint32" else "f"


def form_of(terms: KernelSignature, checked: Checked) -> LaunchForm:
    """What all launches of a kind of call have in common."""
    codes = tuple((code_of(p.dtype), None) if p.var is None else ("i", checked.values[p.name]) for p in terms.params)
    return LaunchForm(
        checked.grid, terms.threads, terms.dynamic_bytes, len(terms.arrays), codes, terms.tensor_maps, terms.overlaps
    )


def unreadable(kernel: str, array: Any, error: Exception) -> CallError:
    """What a call ends with where an array does not say what it is, or its library refuses to."""
    said = next(iter(str(error).splitlines()), "")[:160]
    message = f"{kernel}: this {type(array).__qualname__} cannot be read as an array: {type(error).__name__}: {said}"
    return CallError(Diagnostic("TG702", message))


def pairs_of(arrays: Sequence[ArrayArgument], span_bytes: Sequence[int]) -> tuple[tuple[int, int, int, int], ...]:
    """Every two arrays that may not share a byte, by number, and the bytes of each from its first to its last."""
    return tuple((i, j, span_bytes[i], span_bytes[j]) for i, j in pairs_apart([a.access for a in arrays]))


# ---------------------------------------------------------------- streams
def choose_stream(given: Sequence[Given]) -> Callable[[int], int]:
    """The current stream of the first array's library; of libraries that name none, the array's own or CUDA's default.

    (0 is the legacy default stream.)
    """
    library, own = given[0][2], own_stream(given)
    return library.stream or (lambda device: own)


def own_stream(given: Sequence[Given]) -> int:
    """The stream on which an array says that it is made; 0 where none says so."""
    return next((s.stream for _, s, _ in given if s.stream is not None), 0)


def check_streams(kernel: str, given: Sequence[Given]) -> None:
    """Arrays that say on which stream they are made must agree with the launch: nothing is synchronised in secret."""
    said = {seen.stream: terms.name for terms, seen, _ in reversed(given) if seen.stream is not None}
    if len(said) > 1 or (said and given[0][2].stream is not None):
        name = next(iter(said.values()))
        message = f"{kernel}: {name} is being made on a stream of its own, not on that of the launch"
        raise CallError(Diagnostic("TG712", message, hint="synchronise that stream, or pass arrays of one library"))


def syncs_of(given: Sequence[Given]) -> tuple[tuple[int, Callable[[Any, int], Any]], ...]:
    """Arrays that the launch's stream must be made to wait for, and how.

    It need not for those whose library names that stream, nor for those that were ready on it when they were read:
    a library that names no stream was asked to be ready on CUDA's default stream.
    """
    first = given[0][2]
    is_default = first.stream is None and not own_stream(given)
    return tuple(
        (k, library.syncs)
        for k, (_, _, library) in enumerate(given)
        if library.syncs and not (is_default if library.stream is None else library is first)
    )


# ---------------------------------------------------------------- outputs
def plan_outputs(terms: KernelSignature, given: Sequence[Given], checked: Checked) -> tuple[Maker, ...]:
    """How each array that is only written is made, in the order of the arguments."""
    library = next((lib for _, _, lib in given if lib.allocate), None)
    outputs = [(at, array) for at, array in enumerate(terms.arrays) if array.access == "out"]
    if library is None or library.allocate is None:
        message = f"{terms.kernel}: arrays of {given[0][2].name} cannot be allocated here"
        raise CallError(Diagnostic("TG711", message, hint=f"pass {', '.join(a.name for _, a in outputs)} too"))
    forms = [(at, a.dtype, *form_of_output(a, checked.values)) for at, a in outputs]
    return tuple(
        _maker(at, library.allocate(shape, strides, dtype, checked.device), library.read)
        for at, dtype, shape, strides in forms
    )


def _maker(at: int, allocate: Callable[[], Any], read: Callable[[Any], tuple[Any, int]]) -> Maker:
    def make(pointers: list[int]) -> Any:
        array = allocate()
        pointers.insert(at, read(array)[1])
        return array

    return make


def form_of_output(array: ArrayArgument, values: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides, in elements; the physical image, flat, of a layout that no strides describe."""
    if array.strides is None:
        return (int(evaluate(array.span, values)),), (1,)
    shape, strides = (tuple(int(evaluate(n, values)) for n in x) for x in (array.shape, array.strides))
    return shape, strides


def elem_bytes(array: ArrayArgument) -> int:
    """Bytes of an element."""
    return DTYPES[array.dtype].bytes


def element_form(array: ArrayArgument, seen: Seen, values: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape and strides of what is really read or written, one after the other."""
    if is_image(array, seen):
        return (*seen.shape, *seen.strides)
    shape, strides = form_of_output(array, values)
    return (*shape, *strides)


# ---------------------------------------------------------------- what is compared on every call
def check_alignment(kernel: str, kind: CallKind, pointers: Sequence[int]) -> None:
    """Raises CallError (TG706) for arrays that do not start at a multiple of what their vectors need."""
    found = []
    for (terms, _, _), pointer in zip(kind.given, pointers, strict=True):
        past = pointer % terms.align_bytes
        if past:
            size = elem_bytes(terms)
            message = f"{kernel}: {terms.name} starts {past} bytes past a multiple of {terms.align_bytes} bytes"
            hint = f"copy it, or build a spec whose {terms.name} has 'align: {max(size, past & -past)}'"
            found.append(Diagnostic("TG706", message, terms.mark, hint))
    if found:
        raise CallError(found)


def check_overlap(kernel: str, kind: CallKind, pair: tuple[int, int], pointers: Sequence[int]) -> None:
    """Raises CallError (TG707) where two arrays share an element; the bytes between their first and last do meet."""
    i, j = pair
    distance = (i, j, pointers[j] - pointers[i])
    if distance in kind.apart:
        return
    (a, seen_a, _), (b, seen_b, _) = kind.given[i], kind.given[j]
    forms = element_form(a, seen_a, kind.values), element_form(b, seen_b, kind.values)
    if share_elements(*forms, (pointers[i], pointers[j]), (elem_bytes(a), elem_bytes(b))):
        written, other = (b, a) if b.access != "in" else (a, b)
        does = "written" if other.access != "in" else "read"
        start = f"they start {abs(distance[2])} bytes apart" if distance[2] else "they start at the same byte"
        message = f"{kernel}: {written.name} is written while {other.name} is {does}, but they share memory: {start}"
        raise CallError(Diagnostic("TG707", message, written.mark, f"give {written.name} memory of its own"))
    kind.apart.add(distance)
