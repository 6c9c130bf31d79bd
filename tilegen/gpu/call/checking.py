"""Whether arrays are what a kernel was proved for: each against its terms, and all against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tilegen.dtypes import DTYPES
from tilegen.errors import CallError, Diagnostic
from tilegen.gpu.call.arrays import RAW_BITS, Seen, dense_strides
from tilegen.gpu.call.params import Measure, solve_params
from tilegen.gpu.call.signature import ArrayArgument, KernelSignature
from tilegen.index import evaluate, variables
from tilegen.plan import MOST_RESIDENT, RESIDENT_CTAS
from tilegen.scopes import GRID_LIMITS


@dataclass(frozen=True)
class Checked:
    """A call that may be made: parameter values, and per given array the bytes that its layout spans."""

    values: Mapping[str, int | float]
    span_bytes: tuple[int, ...]
    grid: tuple[int, int, int]
    device: int


def check_call(
    terms: KernelSignature, given: Sequence[tuple[ArrayArgument, Seen]], params: Mapping[str, Any],
    count_resident: Callable[[int], int],
) -> Checked:  # fmt: skip
    """All that does not change from one call of a kind to the next. Raises CallError with everything found.

    ``count_resident(device)``: CTAs of the kernel that the device holds at once, asked where the grid is one of them.
    """
    unknown = [name for name in params if name not in {p.name for p in terms.params}]
    found = [_unknown_param(terms, name) for name in unknown]
    for array, seen in given:
        found += check_array(terms.kernel, array, seen)
    found += _check_devices(terms.kernel, given)
    if found:
        raise CallError(found)
    measures = [m for array, seen in given for m in measure_array(array, seen)]
    values, found = solve_params(terms.params, params, measures, terms.kernel)
    if not found:
        found = [d for array, seen in given for d in _check_form(terms.kernel, array, seen, values)]
    if found:
        raise CallError(found)
    spans = tuple(int(evaluate(a.span, values)) * DTYPES[a.dtype].bytes for a, _ in given)
    device = next(s.device for _, s in given if s.device is not None)
    grid = check_grid(terms, values, lambda: count_resident(device))
    return Checked(values, spans, grid, device)


def _unknown_param(terms: KernelSignature, name: str) -> Diagnostic:
    known = ", ".join(p.name for p in terms.params) or "none"
    return Diagnostic("TG701", f"{terms.kernel} has no runtime parameter '{name}'", hint=f"there are: {known}")


# ---------------------------------------------------------------- one array
def check_array(kernel: str, terms: ArrayArgument, seen: Seen) -> list[Diagnostic]:
    """Memory, dtype and rank: what can be said without the parameters."""
    who = f"{kernel}: {terms.name}"
    found = []
    if terms.promise and any(isinstance(n, int) and n == 0 for n in seen.shape):  # a size may be a symbol
        message = f"{who}, of which the spec promises {terms.promise}, is empty: its shape is {_show(seen.shape)}"
        return [Diagnostic("TG704", message, terms.mark, "a kernel has an element or more: leave the call out")]
    if seen.device is None:
        hint = "move it: cupy.asarray(x), or tensor.cuda()"
        found.append(Diagnostic("TG702", f"{who} is not in a GPU's memory", terms.mark, hint))
    if seen.dtype not in (terms.dtype, RAW_BITS.get(terms.dtype)):
        hint = f"convert it, or build a spec whose {terms.name} is {seen.dtype}"
        if terms.promise:  # of libraries whose integers are wider than a spec's, the usual mistake
            ways = f"{terms.name}.to(torch.{terms.dtype}) or {terms.name}.astype('{terms.dtype}')"
            hint = f"{ways}, or 'dtype: {seen.dtype}' in the spec"
        found.append(Diagnostic("TG703", f"{who} holds {seen.dtype}, but must hold {terms.dtype}", terms.mark, hint))
    if seen.fault:
        why, _, fix = seen.fault.partition("; ")
        found.append(Diagnostic("TG705", f"{who} cannot be read in place: {why}", terms.mark, fix))
    if terms.access != "in" and not seen.is_writable:
        found.append(Diagnostic("TG711", f"{who} is written, but the array is read-only", terms.mark, "copy it"))
    if not _fits(terms, seen):
        found.append(_wrong_rank(who, terms, seen))
    return found


def is_image(terms: ArrayArgument, seen: Seen) -> bool:
    """Whether an array comes as its physical image: flat, where its own shape is not."""
    return not terms.is_row and len(seen.shape) == 1 and (len(terms.shape) > 1 or terms.strides is None)


def _fits(terms: ArrayArgument, seen: Seen) -> bool:
    return is_image(terms, seen) or (terms.strides is not None and len(seen.shape) == len(terms.shape))


def _wrong_rank(who: str, terms: ArrayArgument, seen: Seen) -> Diagnostic:
    image = f"its physical image, flat, {terms.span} elements"
    wanted = _show(terms.shape) if terms.strides is not None else f"{image}, for no strides place {terms.layout_text}"
    also = f", or {image}" if terms.strides is not None and not terms.is_row else ""
    hint = "reshape it" if terms.strides is not None else "pass a flat array"
    return Diagnostic("TG704", f"{who} has the shape {_show(seen.shape)}, but must be {wanted}{also}", terms.mark, hint)


def _show(shape: Sequence[Any]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def measure_array(terms: ArrayArgument, seen: Seen) -> list[Measure]:
    """What an array says of the parameters: its extents, and the strides that name one."""
    if is_image(terms, seen):
        return [Measure(terms.span, seen.shape[0], f"{terms.name}, a physical image, has the length")]
    measures = [
        Measure(n, extent, f"{terms.name} has in dimension {d} the extent")
        for d, (n, extent) in enumerate(zip(terms.shape, seen.shape, strict=True))
    ]
    for d, (stride, found) in enumerate(zip(terms.strides or (), seen.strides, strict=True)):
        if not isinstance(stride, int):  # the others are compared with the parameters known, all at once
            words = f"{terms.name} has in dimension {d} the stride"
            measures.append(Measure(stride, found, words, is_weak=True))
    return measures


def _check_form(kernel: str, terms: ArrayArgument, seen: Seen, values: Mapping[str, Any]) -> list[Diagnostic]:
    """Strides, once every extent is right. Those of extents of 1 place nothing."""
    is_flat = is_image(terms, seen)
    wanted = (1,) if is_flat else tuple(int(evaluate(n, values)) for n in terms.strides or ())
    if all(n == 1 or have == want for n, have, want in zip(seen.shape, seen.strides, wanted, strict=True)):
        if is_flat or terms.access == "in" or not overlaps_itself(seen.shape, wanted):
            return []
        message = f"{kernel}: {terms.name} is written, but with strides of {_show(wanted)} its own elements overlap"
        return [Diagnostic("TG707", message, terms.mark, "rows must be at least as far apart as they are long")]
    form = "a physical image" if is_flat else f"the layout {terms.layout_text or 'row'}"
    message = f"{kernel}: {terms.name} has strides of {_show(seen.strides)} elements, but {form} has {_show(wanted)}"
    return [Diagnostic("TG705", message, terms.mark, _stride_fix(seen, wanted))]


def _stride_fix(seen: Seen, wanted: tuple[int, ...]) -> str:
    if wanted == dense_strides(seen.shape):
        return "make it contiguous: cupy.ascontiguousarray(x), or tensor.contiguous()"
    return "copy it into an array of these strides"


# ---------------------------------------------------------------- all together
def _check_devices(kernel: str, given: Sequence[tuple[ArrayArgument, Seen]]) -> list[Diagnostic]:
    places = {seen.device: terms.name for terms, seen in reversed(given) if seen.device is not None}
    if len(places) < 2:
        return []
    said = ", ".join(f"{name} on device {device}" for device, name in sorted(places.items()))
    tables = [t.name for t, _ in given if t.promise]
    hint = f"move them to one: {', '.join(tables)} too, whose elements it reads" if tables else "move them to one"
    return [Diagnostic("TG708", f"{kernel}: its arrays lie on several GPUs: {said}", hint=hint)]


def check_grid(
    terms: KernelSignature, values: Mapping[str, Any], count_resident: Callable[[], int]
) -> tuple[int, int, int]:
    """The CTAs of the launch; raises CallError (TG710) where there are none, or more than CUDA launches."""
    if any(v.name == RESIDENT_CTAS for g in terms.grid for v in variables(g)):
        size, held = prod(terms.cluster), count_resident()
        if held < size:
            message = f"{terms.kernel}: this GPU does not hold {'a cluster' if size > 1 else 'a CTA'} of it"
            raise CallError(Diagnostic("TG710", message, hint="it needs fewer threads, registers or shared memory"))
        values = {**values, RESIDENT_CTAS: min(held, MOST_RESIDENT) // size * size}
    x, y, z = (int(evaluate(g, values)) for g in terms.grid)
    for axis, n, limit, part in zip("xyz", (x, y, z), GRID_LIMITS, terms.cluster, strict=True):
        if not 1 <= n <= limit:
            raise CallError(
                Diagnostic("TG710", f"{terms.kernel}: the grid has {n} CTAs in {axis}; CUDA launches 1 to {limit}")
            )
        if n % part:
            message = f"{terms.kernel}: the grid has {n} CTAs in {axis}, no multiple of the cluster's {part}"
            raise CallError(Diagnostic("TG710", message))
    assert prod((x, y, z)) > 0
    return x, y, z


# ---------------------------------------------------------------- do two arrays share memory
_MOST_WORK = 1 << 20  # candidates of the exact search; beyond it two arrays count as sharing memory


def share_elements(a: Sequence[int], b: Sequence[int], places: tuple[int, int], elem_bytes: tuple[int, int]) -> bool:
    """Whether an element of one array lies on one of the other.

    ``a`` and ``b`` are shape and strides one after the other (in elements), ``places`` the pointers. Nothing is read.

    >>> left, right = (4, 8, 16, 1), (4, 8, 16, 1)  # the halves of rows of 16
    >>> share_elements(left, right, (4096, 4096 + 8 * 4), (4, 4)), share_elements(left, right, (4096, 4124), (4, 4))
    (False, True)
    """
    views = [_view(form, place, n) for form, place, n in zip((a, b), places, elem_bytes, strict=True)]
    try:
        return bool(np.shares_memory(views[0], views[1], max_work=_MOST_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether strides fail to step over what lies inside: then two elements may be one, and who writes last wins.

    >>> overlaps_itself((4, 8), (8, 1)), overlaps_itself((4, 8), (4, 1))
    (False, True)
    """
    reach = 1
    for stride, extent in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


def _view(form: Sequence[int], place: int, elem_bytes: int) -> Any:
    rank = len(form) // 2
    steps = tuple(n * elem_bytes for n in form[rank:])
    return np.asarray(_Memory(place, tuple(form[:rank]), steps, f"|V{elem_bytes}"))


class _Memory:
    """Memory that NumPy may measure and never reads."""

    def __init__(self, place: int, shape: tuple[int, ...], steps: tuple[int, ...], typestr: str):
        self.__array_interface__ = {
            "version": 3, "data": (place, True), "shape": shape, "strides": steps, "typestr": typestr,
        }  # fmt: skip
