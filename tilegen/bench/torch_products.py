"""Products by PyTorch: cuBLAS as it calls it, and whole expressions, eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilegen import gpu
from tilegen.arithmetic import FUNCTIONS, TFLOAT32, Element, Literal, Node, Parameter, Whole
from tilegen.bench.libraries import load_library, on_stream
from tilegen.bench.meaning import NotApplicable, Prepared, Task, require_product
from tilegen.bench.products import Doubles, Product, Strided
from tilegen.dtypes import DTYPES

Tensors = dict[str, Any]  # the arrays of one set as tensors, by name


# ---------------------------------------------------------------- tensors
def view_sets(torch: Any, task: Task, product: Product) -> list[Tensors]:
    """The arrays of every set as tensors over the same memory. Raises NotApplicable where torch has no GPU."""
    if not torch.cuda.is_available():
        raise NotApplicable("torch finds no GPU")
    return [{x.name: view_strided(torch, images[x.name], x, product) for x in product.arrays} for images in task.sets]


def view_strided(torch: Any, image: Any, array: Strided, product: Product) -> Any:
    """A tensor of a batch's matrices, or of one where it has one, or where there is no batch."""
    size = DTYPES[array.dtype].bytes
    flat = torch.from_dlpack(gpu.view_elems(image, (image.nbytes // size,), size)).view(getattr(torch, array.dtype))
    first = 0 if array.shape[0] > 1 or (product.is_batched and array.name == product.d.name) else 1
    return flat.as_strided(array.shape[first:], array.strides[first:])


def read_tensor(result: Any, product: Product, rows: Sequence[int]) -> Doubles:
    """Rows of a result, of all batches in order, as float64 on the host."""
    m, n, _ = product.sizes
    taken = [result[divmod(row, m)] if product.is_batched else result[row] for row in rows]
    found: Doubles = np.stack([row.double().cpu().numpy() for row in taken]).reshape(len(rows), n)
    return found


# ---------------------------------------------------------------- cuBLAS
@dataclass(frozen=True)
class _Way:
    """How a library is called on one set of tensors: it leaves the result in ``result(tensors)``."""

    detail: str
    run: Callable[[Tensors], Any]
    result: Callable[[Tensors], Any]
    is_whole: bool = True


def prepare_cublas(task: Task) -> Prepared:
    """The first call of torch that carries the product out by cuBLAS, with what it adds to it itself."""
    torch, product = load_library("torch"), require_product(task)
    torch.backends.cuda.matmul.allow_tf32 = product.factors == TFLOAT32
    sets = view_sets(torch, task, product)
    failed: Exception | None = None
    for way in _list_ways(torch, product, sets[0][product.d.name].device):
        try:
            on_stream(torch, task, lambda k, way=way: way.run(sets[k]))(0)  # type: ignore[misc]
            task.watch.synchronize()
        except Exception as error:  # what one version of torch does not have, or cuBLAS does not take
            failed = error
            continue
        return _prepare_way(torch, task, product, sets, way)
    raise failed or NotApplicable("torch has no call for it")


def _prepare_way(torch: Any, task: Task, product: Product, sets: list[Tensors], way: _Way) -> Prepared:
    candidate = on_stream(torch, task, lambda k: way.run(sets[k % len(sets)]))

    def read(rows: Sequence[int]) -> Doubles:
        candidate(0)
        task.watch.synchronize()
        return read_tensor(way.result(sets[0]), product, rows)

    return Prepared(candidate, way.detail, read, way.is_whole)


def _list_ways(torch: Any, product: Product, device: Any) -> Iterator[_Way]:
    """Calls that could carry a product out, the best first. Raises NotApplicable where there is none."""
    a, b, d = product.a, product.b, product.d
    if is_8_bit(product):
        yield from _list_8_bit_ways(torch, product, device)
        return

    def factors(x: Tensors) -> tuple[Any, Any]:
        left, right = x[a.name], x[b.name]
        return (_stretch(left, x[d.name]), right) if left.dim() == right.dim() < x[d.name].dim() else (left, right)

    multiply, call = (torch.matmul, "torch.matmul") if product.is_batched else (torch.mm, "torch.mm")
    if d.dtype == a.dtype:
        yield from _list_adding_ways(torch, product)
        yield _of_product(product, call, lambda x: multiply(*factors(x), out=x[d.name]))
        return
    wide, own = (getattr(torch, x.dtype) for x in (d, a))
    if not product.is_batched:
        run = lambda x: torch.mm(*factors(x), out_dtype=wide, out=x[d.name])  # noqa: E731
        yield _of_product(product, "torch.mm, out_dtype", run)
    note = f"{call}, its result is {a.dtype}"
    yield _scratched(torch, product, note, own, lambda x, out: multiply(*factors(x), out=out))


def is_8_bit(product: Product) -> bool:
    """Are factors of a byte? Raises NotApplicable for batches of them, which torch does not multiply."""
    if product.a.dtype != "int8" and not product.a.dtype.startswith("float8"):
        return False
    if product.is_batched:
        raise NotApplicable(f"torch multiplies no batches of {product.a.dtype}")
    return True


def _of_product(product: Product, call: str, run: Callable[[Tensors], Any]) -> _Way:
    """The product without an epilogue, into d."""
    return _Way(_without_epilogue(product, call), run, lambda x: x[product.d.name], product.tree is None)


def _without_epilogue(product: Product, call: str) -> str:
    return call if product.tree is None else f"{call}: the product alone, without the epilogue"


def _list_adding_ways(torch: Any, product: Product) -> Iterator[_Way]:
    """d = alpha a b + beta x, of arrays of one type: what cuBLAS adds itself."""
    terms, d = product.terms, product.d
    if terms is None or product.tree is None or (terms.c and terms.bias):
        return
    added, beta = (
        (product.named["c"], terms.beta) if terms.c else (product.named["bias"], 1.0) if terms.bias else (d, 0.0)
    )
    if added.dtype != d.dtype:
        return
    add = torch.baddbmm if product.is_batched else torch.addmm

    def run(x: Tensors) -> Any:
        left, right, extra = x[product.a.name], x[product.b.name], x[added.name]
        if product.is_batched:
            left, right = _stretch(left, x[d.name]), _stretch(right, x[d.name])
        elif added.shape[1] == 1 < d.shape[1]:
            extra = extra[0]  # a bias of one dimension is added in the product's own epilogue
        return add(extra, left, right, beta=beta, alpha=terms.alpha, out=x[d.name])

    yield _Way("torch.baddbmm" if product.is_batched else "torch.addmm", run, lambda x: x[d.name])


def _stretch(x: Any, d: Any) -> Any:
    """One matrix for all of a batch."""
    return x if x.dim() == d.dim() else x.expand(d.shape[0], *x.shape)


def _scratched(torch: Any, product: Product, call: str, dtype: Any, multiply: Callable[[Tensors, Any], Any]) -> _Way:
    """The product into memory of its own, in another type than d's."""
    held: dict[int, Any] = {}

    def result(x: Tensors) -> Any:
        d = x[product.d.name]
        if d.data_ptr() not in held:
            held[d.data_ptr()] = torch.empty(d.shape, dtype=dtype, device=d.device)
        return held[d.data_ptr()]

    return _Way(_without_epilogue(product, call), lambda x: multiply(x, result(x)), result, product.tree is None)


def _list_8_bit_ways(torch: Any, product: Product, device: Any) -> Iterator[_Way]:
    a, b, d = product.a.name, product.b.name, product.d.name
    if product.a.dtype == "int8":
        if product.d.dtype == "int32":
            yield _of_product(product, "torch._int_mm", lambda x: torch._int_mm(x[a], x[b], out=x[d]))
            return
        call = "torch._int_mm, its result is int32"
        yield _scratched(torch, product, call, torch.int32, lambda x, out: torch._int_mm(x[a], x[b], out=out))
        return
    one = torch.ones((), device=device)

    def multiply(x: Tensors, out: Any) -> Any:
        return torch._scaled_mm(x[a], x[b], one, one, out_dtype=out.dtype, use_fast_accum=True, out=out)

    call = "torch._scaled_mm, use_fast_accum"
    yield _of_product(product, call, lambda x: multiply(x, x[d]))
    yield _scratched(torch, product, f"{call}, its result is bfloat16", torch.bfloat16, multiply)


# ---------------------------------------------------------------- whole expressions
def prepare_eager(task: Task) -> Prepared:
    """The product and its epilogue, operation by operation. Raises NotApplicable where there is no epilogue."""
    product = require_product(task)
    if product.tree is None:
        raise NotApplicable("without an epilogue it is what cublas is")
    return _prepare_whole(task, lambda torch, function: function)


def prepare_compiled(task: Task) -> Prepared:
    """The same, compiled for these shapes with all tiles that torch tries."""

    def compile_whole(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        with suppress(AttributeError):
            torch._dynamo.reset()  # a fresh start for each kernel: else the limit of recompilations is reached
        made: Callable[..., Any] = torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")
        return made

    return _prepare_whole(task, compile_whole, "max-autotune-no-cudagraphs")


def _prepare_whole(
    task: Task, make: Callable[[Any, Callable[..., Any]], Callable[..., Any]], detail: str = ""
) -> Prepared:
    torch, product = load_library("torch"), require_product(task)
    torch.backends.cuda.matmul.allow_tf32 = product.factors == TFLOAT32
    sets = view_sets(torch, task, product)
    function = make(torch, write_function(torch, product, sets[0][product.d.name].device))
    names = [product.a.name, product.b.name, *(array.name for array in product.named.values())]
    kept: list[Any] = [None]

    def run(k: int) -> None:
        kept[0] = None  # its memory is free for this result
        tensors = sets[k % len(sets)]
        kept[0] = function(*(tensors[name] for name in names))

    candidate = on_stream(torch, task, run)

    def read(rows: Sequence[int]) -> Doubles:
        candidate(0)
        task.watch.synchronize()
        return read_tensor(kept[0], product, rows)

    return Prepared(candidate, detail, read)


def write_function(torch: Any, product: Product, device: Any) -> Callable[..., Any]:
    """A function of a, b and the arrays that the epilogue names, in their order, that returns d.

    Raises NotApplicable for products that torch has no function for.
    """
    multiply = _choose_multiply(torch, product, device)
    result, tree, names = getattr(torch, product.d.dtype), product.tree, list(product.named)
    saturated = _saturate(torch, product.d.dtype)
    scalars, operands = dict(product.scalars), product.operands

    def whole(a: Any, b: Any, *others: Any) -> Any:
        sums = multiply(a, b)
        if tree is None:
            return sums if sums.dtype == result else saturated(sums).to(result)
        given = dict(zip(names, others, strict=True)) | {"acc": sums}
        elements = [given[name] for name in operands]
        return saturated(evaluate_tensors(torch, tree, elements, scalars)).to(result)

    return whole


def _choose_multiply(torch: Any, product: Product, device: Any) -> Callable[[Any, Any], Any]:
    if not is_8_bit(product):
        return lambda a, b: torch.matmul(a, b)
    if product.a.dtype == "int8":
        return lambda a, b: torch._int_mm(a, b)
    made = getattr(torch, product.d.dtype if product.tree is None else "bfloat16")
    one = torch.ones((), device=device)
    return lambda a, b: torch._scaled_mm(a, b, one, one, out_dtype=made, use_fast_accum=True)


def _saturate(torch: Any, dtype: str) -> Callable[[Any], Any]:
    """What the conversion to a type does to values beyond it, which torch's own does not."""
    if dtype.startswith("float8"):
        most = torch.finfo(getattr(torch, dtype)).max
        return lambda x: x.clamp(-most, most)
    if DTYPES[dtype].kind == "int":
        info = torch.iinfo(getattr(torch, dtype))
        return lambda x: x.round().clamp(info.min, info.max) if x.is_floating_point() else x.clamp(info.min, info.max)
    return lambda x: x


def evaluate_tensors(torch: Any, node: Node, elements: Sequence[Any], scalars: dict[str, float]) -> Any:
    """The value of an epilogue's tree over tensors, each converted to the type in which it is computed with.

    Numbers stay Python's. Raises NotApplicable for a function that torch has no name for.
    """
    if isinstance(node, Element):
        return elements[node.number].to(getattr(torch, node.type))
    if isinstance(node, Parameter):
        return scalars[node.name]
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Whole):
        raise NotApplicable("an epilogue has no integers of a place")
    args = [evaluate_tensors(torch, arg, elements, scalars) for arg in node.args]
    name = node.function
    if not any(torch.is_tensor(x) for x in args):
        found = FUNCTIONS[name].exact(*args)
        return found.item() if hasattr(found, "item") else found
    functions = _tensor_functions(torch)
    if name not in functions:
        raise NotApplicable(f"torch has no {name}")
    return functions[name](*args)


def _tensor_functions(torch: Any) -> dict[str, Callable[..., Any]]:
    """A function of torch for each of the table's, of tensors and numbers, at least one of them a tensor."""

    def pick(x: Any, y: Any, is_max: bool) -> Any:
        if torch.is_tensor(x) and torch.is_tensor(y):
            return torch.maximum(x, y) if is_max else torch.minimum(x, y)
        tensor, number = (x, y) if torch.is_tensor(x) else (y, x)
        return tensor.clamp(min=number) if is_max else tensor.clamp(max=number)

    unary = ("abs", "floor", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "tanh", "erf", "sigmoid")
    return {name: getattr(torch, name) for name in unary} | {
        "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
        "neg": lambda x: -x, "fma": lambda x, y, z: x * y + z,
        "//": lambda x, y: x // y, "%": lambda x, y: x % y,
        "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
        "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
        "and": lambda x, y: x & y, "or": lambda x, y: x | y, "not": lambda x: ~x,
        "where": torch.where, "min": lambda x, y: pick(x, y, False), "max": lambda x, y: pick(x, y, True),
        "float32": lambda x: x.to(torch.float32), "float64": lambda x: x.to(torch.float64),
        "int64": lambda x: x.to(torch.int64), "int32": lambda x: x.to(torch.int32),
    }  # fmt: skip
