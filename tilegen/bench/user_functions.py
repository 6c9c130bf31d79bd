"""Functions of the user's own as peers: tensors in, tensors out, as they stand and under torch.compile.

A function takes the spec's inputs by the names of their buffers, and params by theirs; it returns the outputs: the only
one, a tuple in the spec's order, or a dict by name. What it returns lies within the bounds that ``tilegen verify``
holds a kernel to, else it is not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilegen import gpu
from tilegen.arithmetic.bounds import find_beyond
from tilegen.bench.libraries import load_library, on_stream
from tilegen.bench.meaning import NotApplicable, Peer, Prepared, Task
from tilegen.bench.products import Doubles, Product
from tilegen.bench.torch_products import read_tensor
from tilegen.calling import terms_of
from tilegen.decisions import count_words
from tilegen.dtypes import DTYPES, numpy_dtype
from tilegen.gpu.call import ArrayArgument
from tilegen.gpu.call.kind_of_call import form_of_output
from tilegen.pipeline import Built, BuiltProgram, list_launched
from tilegen.plan import arguments, arrays, default_values
from tilegen.proofs.against import choose_given
from tilegen.proofs.floats import FloatRun, Held, run_bounded
from tilegen.reference import Array, Input
from tilegen.spec.data import Buffer
from tilegen.spec.outline import declared_buffers
from tilegen.verifying import choose_ctas, locate, mean_together, takes_long_together

COMPILED = "compiled"


@dataclass(frozen=True)
class UserFunction:
    """A function of tensors, and how it was named: ``module:function``."""

    name: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class FunctionTask:
    """A function beside a kernel: its arguments are the tensors of ``inputs`` and ``scalars``, by name."""

    built: Built | BuiltProgram
    case: Mapping[str, int]
    function: Callable[..., Any]
    inputs: tuple[ArrayArgument, ...]
    outputs: tuple[ArrayArgument, ...]
    scalars: Mapping[str, int | float]


def peers_of(
    functions: Sequence[UserFunction], built: Built | BuiltProgram, case: Mapping[str, int]
) -> tuple[Peer, ...]:
    """Two peers of each function. Raises InputError TG604 for one that takes what the spec does not have."""
    peers = []
    for one in functions:
        task = bind_function(one.function, built, case)
        for is_compiled in (False, True):
            name = f"{one.name} {COMPILED}" if is_compiled else one.name
            prepare = partial(prepare_function, task, is_compiled)
            peers.append(Peer(name, "a function of tensors", prepare, writes_target=False, multiply=prepare))
    return tuple(peers)


def bind_function(function: Callable[..., Any], built: Built | BuiltProgram, case: Mapping[str, int]) -> FunctionTask:
    """What a function takes of a kernel's inputs and params."""
    known = terms_of(built.spec, built.plan).arrays
    inputs = {a.name: a for a in known if a.access != "out"}
    scalars: dict[str, int | float] = {c.name: c.value for c in built.spec.constants}
    scalars |= {p.name: case.get(p.name, p.default) for p in arguments(built.spec.params)}
    taken = choose_given(function, {**inputs, **scalars})
    outputs = tuple(a for a in known if a.access != "in")
    return FunctionTask(
        built, case, function, tuple(a for n, a in inputs.items() if n in taken), outputs,
        {n: value for n, value in scalars.items() if n in taken},
    )  # fmt: skip


def prepare_function(asked: FunctionTask, is_compiled: bool, task: Task) -> Prepared:
    """The function over the tensors of every set. Raises NotApplicable where it returns what the spec does not mean."""
    torch = load_library("torch")
    if not torch.cuda.is_available():
        raise NotApplicable("torch finds no GPU")
    sets = [{a.name: view_array(torch, images[a.name], a, asked.case) for a in asked.inputs} for images in task.sets]
    function = compile_function(torch, asked.function) if is_compiled else asked.function
    kept: list[Any] = [None]

    def call(k: int) -> None:
        kept[0] = None  # its memory is free for these results
        with torch.no_grad():
            kept[0] = function(**sets[k % len(sets)], **asked.scalars)

    candidate = on_stream(torch, task, call)

    def find() -> dict[str, Any]:
        candidate(0)
        task.watch.synchronize()
        return name_results(asked.outputs, kept[0], asked.case)

    detail = "torch.compile" if is_compiled else ""
    if isinstance(task.meaning, Product):
        product = task.meaning

        def read(rows: Sequence[int]) -> Doubles:
            return read_tensor(find()[product.d.name], product, rows)

        return Prepared(candidate, detail, read)
    touched = {m.name: m for one in list_launched(asked.built) for m in arrays(one.plan)}
    held = {name: gpu.fetch_bytes(task.sets[0][name]).view(numpy_dtype(m.dtype)) for name, m in touched.items()}
    made = find()
    compare_results(asked, held, {a.name: lay_out(torch, made[a.name], a, asked.case) for a in asked.outputs})
    return Prepared(candidate, detail)


def compile_function(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled for these shapes."""
    with suppress(AttributeError):
        torch._dynamo.reset()  # a fresh start for each kernel: else the limit of recompilations is reached
    made: Callable[..., Any] = torch.compile(function, dynamic=False)
    return made


# ---------------------------------------------------------------- tensors
def form_array(array: ArrayArgument, case: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of an array as a tensor. Raises NotApplicable where no strides describe its layout."""
    if array.strides is None:
        raise NotApplicable(f"no strides describe the layout of {array.name}, {array.layout_text}")
    return form_of_output(array, case)


def view_array(torch: Any, image: Any, array: ArrayArgument, case: Mapping[str, int]) -> Any:
    """An array's bytes as a tensor over the same memory."""
    size = DTYPES[array.dtype].bytes
    flat = torch.from_dlpack(gpu.view_elems(image, (image.nbytes // size,), size)).view(getattr(torch, array.dtype))
    return flat.as_strided(*form_array(array, case))


def lay_out(torch: Any, result: Any, array: ArrayArgument, case: Mapping[str, int]) -> Array:
    """A result as the array's physical image on the host; what lies between its elements is 0."""
    shape, strides = form_array(array, case)
    span = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    image = torch.zeros(span, dtype=result.dtype, device=result.device)
    image.as_strided(shape, strides).copy_(result)
    found: Array = image.view(torch.uint8).cpu().numpy().view(numpy_dtype(array.dtype))
    return found


def name_results(outputs: Sequence[ArrayArgument], made: Any, case: Mapping[str, int]) -> dict[str, Any]:
    """What a function returned, by the names of the outputs. Raises NotApplicable for what these are not."""
    names = [a.name for a in outputs]
    found = made if isinstance(made, Mapping) else dict(
        zip(names, made if isinstance(made, list | tuple) else (made,), strict=False)
    )  # fmt: skip
    count = len(made) if isinstance(made, Mapping | list | tuple) else 1
    if set(found) != set(names) or count != len(names):
        said = ", ".join(map(str, made)) if isinstance(made, Mapping) else count_words(count, "result", "results")
        raise NotApplicable(f"it returns {said or 'nothing'}, and the kernel writes {', '.join(names)}")
    for array in outputs:
        result, what, (shape, _) = found[array.name], f"what it returns for {array.name}", form_array(array, case)
        dtype = str(getattr(result, "dtype", type(result).__name__)).removeprefix("torch.")
        if dtype != array.dtype:
            raise NotApplicable(f"{what} is {dtype}, not {array.dtype}")
        if tuple(result.shape) != shape:
            raise NotApplicable(f"{what} has the shape {list(result.shape)}, not {list(shape)}")
    return dict(found)


# ---------------------------------------------------------------- right before fast
def compare_results(asked: FunctionTask, held: Mapping[str, Array], results: Mapping[str, Array]) -> None:
    """Raise NotApplicable at the first element that is further from the spec's meaning than verify lets a kernel be.

    ``held``: physical images of the arrays that kernels touch, workspaces too, as a launch has left them; ``results``:
    what the function made. Sums may be made in any order, as ``verify --against`` allows. Of a large grid the elements
    of as many CTAs as are affordable are compared, from all over it.
    """
    declared, case = declared_buffers(asked.built.spec), asked.case
    given: dict[str, Input] = {name: image.__getitem__ for name, image in held.items()}
    with np.errstate(all="ignore"):  # random bits are NaNs of every kind
        bounds = find_bounds(asked, given)
    for name, (at, want) in sorted(bounds.items()):
        got = results[name][at]
        wrong, _ = find_beyond(got, want)
        if wrong.any():
            first = int(wrong.argmax())
            place = _say_place(declared[name], int(at[first]), case)
            value, error = float(want.value[first]), float(want.error[first])
            raise NotApplicable(
                f"{place} is {float(got[first]):.8g}, not {value:.8g} +- {error:.2g}; {int(wrong.sum())} of {len(at)} "
                "elements are too far off: compute in float32, and round once"
            )


def _say_place(buffer: Buffer, offset: int, case: Mapping[str, int]) -> str:
    return f"{buffer.name}{locate(buffer, offset, case)}"


def find_bounds(asked: FunctionTask, given: Mapping[str, Input]) -> dict[str, Held]:
    """What the spec means by elements of the outputs, sums in any order.

    Of a program: all passes composed. Where that takes NumPy long, what a workspace holds after a launch is taken for
    exact, and CTAs of the passes that write outputs are asked. Raises NotApplicable where passes change what they read.
    """
    built, outputs = asked.built, {a.name for a in asked.outputs}
    if isinstance(built, BuiltProgram):
        if not takes_long_together(built):
            read = {m.name: given[m.name] for m in built.plan.arrays if m.access != "out"}
            composed = mean_together(built, read, is_tight=False)
            return {name: bound for name, bound in composed.items() if name in outputs}
        _refuse_changed(built, outputs)
    elements = sum(int(np.prod(form_array(a, asked.case)[0])) for a in asked.outputs)
    bounds: dict[str, Held] = {}
    for one in list_launched(built):
        own = default_values(one.spec.params)
        case = own | {name: value for name, value in asked.case.items() if name in own}
        read = {m.name: given[m.name] for m in arrays(one.plan) if m.access != "out"}
        if outputs & {m.name for m in arrays(one.plan) if m.access != "in"}:
            found = run_bounded(
                one.spec, FloatRun(choose_ctas(one, case, elements, seed=0), read, case), is_tight=False
            )
            bounds |= {name: bound for name, bound in found.items() if name in outputs}
    return bounds


def _refuse_changed(built: BuiltProgram, outputs: set[str]) -> None:
    """Raise NotApplicable where a pass reads an array that passes write: what it read is not there any more."""
    for one in list_launched(built):
        if changed := [m.name for m in arrays(one.plan) if m.access != "out" and m.name in outputs]:
            said = f"the passes change {', '.join(changed)}, which {one.plan.name} reads"
            raise NotApplicable(f"{said}, and NumPy takes too long for all of them: set smaller params")
