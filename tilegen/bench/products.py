"""What a gemm does to whole arrays, in numbers: sizes, strides, types, and what is made of each sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import FUNCTIONS, TFLOAT32, Element, Literal, Node, Parameter, Whole
from tilegen.dtypes import numpy_dtype
from tilegen.index import evaluate
from tilegen.ops.gemm.epilogue import read_epilogue
from tilegen.ops.gemm.op import OP as GEMM
from tilegen.ops.gemm.problem import Matrix, read_problem
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.program import Program

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Strided:
    """An array as batches of rows and columns: ``strides`` in elements. What stretches has an extent of 1."""

    name: str
    dtype: str
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]

    @property
    def span(self) -> int:
        """Elements from the first to the last, with those between that are not the array's."""
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def order(self) -> str:
        """How it lies.

        >>> Strided("B", "float16", (1, 64, 32), (0, 1, 64)).order
        'by column'
        """
        return "by row" if self.strides[2] == 1 else "by column" if self.strides[1] == 1 else "with gaps"


@dataclass(frozen=True)
class Terms:
    """d = alpha a b + beta c + bias, which libraries know. ``c``, ``bias``: names of ``Product.named``, or none."""

    alpha: float = 1.0
    beta: float = 1.0
    c: str = ""
    bias: str = ""


@dataclass(frozen=True)
class Product:
    """d = epilogue of a b, for each of a batch.

    ``factors``: the type as which a and b are multiplied. ``tree`` is the epilogue over elements of ``operands``, of
    which "acc" are the sums and others are ``named`` arrays; None where sums are only rounded. ``terms``: what it is
    where it is no more than them. ``scalars``: its params.
    """

    a: Strided
    b: Strided
    d: Strided
    factors: str
    is_batched: bool = False
    named: Mapping[str, Strided] = field(default_factory=dict)
    tree: Node | None = None
    operands: tuple[str, ...] = ()
    text: str = ""
    scalars: Mapping[str, float] = field(default_factory=dict)
    terms: Terms | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.d.shape[1], self.d.shape[2], self.a.shape[2]

    @property
    def flops(self) -> int:
        """Multiplications and additions: 2 M N K for each of the batch."""
        m, n, k = self.sizes
        return 2 * self.d.shape[0] * m * n * k

    @property
    def is_read_again(self) -> bool:
        """Is the array that is written one that the epilogue reads?"""
        return any(array.name == self.d.name for array in self.named.values())

    @property
    def arrays(self) -> tuple[Strided, ...]:
        """Every array once: a, b, those that the epilogue names, d."""
        found = {array.name: array for array in (self.a, self.b, *self.named.values(), self.d)}
        return tuple(found.values())

    def __str__(self) -> str:
        m, n, k = self.sizes
        several = f"{self.d.shape[0]} products" if self.is_batched else "product"
        types = dict.fromkeys([self.a.dtype, self.b.dtype])
        made = f" as {self.d.name} = {self.text}" if self.tree else ""
        as_tf32 = " as tfloat32" if self.factors == TFLOAT32 else ""
        return (
            f"{several} of {m} x {k} ({self.a.order}) and {k} x {n} ({self.b.order}), {' and '.join(types)}{as_tf32} "
            f"into {self.d.dtype} ({self.d.order}){made}"
        )


def is_product(spec: Spec | Program) -> bool:
    """Is the spec a product of whole arrays, in one kernel or several?"""
    return spec.whole is not None and spec.whole.op == GEMM.name


def derive_product(spec: Spec | Program, params: Mapping[str, int]) -> Product:
    """The product that a spec is, with these runtime parameters; of others the defaults."""
    call = spec.whole
    assert call is not None
    problem = read_problem(call)
    batch = int(evaluate(problem.batch, dict(params)))

    def measure(matrix: Matrix) -> Strided:
        asked = (matrix.rows, matrix.columns, *matrix.strides)
        rows, columns, step, *steps = (int(evaluate(x, dict(params))) for x in asked)
        step = step if batch > 1 else 0
        return Strided(matrix.name, matrix.dtype, (batch if step else 1, rows, columns), (step, steps[0], steps[1]))

    floats = {p.name: p for p in spec.params if p.var is None}
    epilogue = read_epilogue(call, problem, {name: p.dtype for name, p in floats.items()})
    d = measure(problem.d)
    return Product(
        measure(problem.a), measure(problem.b), Strided(d.name, d.dtype, (batch, *d.shape[1:]), d.strides),
        problem.factors, batch > 1, {name: measure(m) for name, m in problem.named.items()},
        epilogue.tree if epilogue else None, tuple(epilogue.operands) if epilogue else (), problem.epilogue,
        {name: float(p.default) for name, p in floats.items()}, _read_terms(call, floats),
    )  # fmt: skip


def _read_terms(call: WholeCall, floats: Mapping[str, Any]) -> Terms | None:
    fields = call.fields
    if fields.epilogue is not None:
        return None
    named = [name if name in call.arrays else "" for name in ("c", "bias")]
    alpha, beta = (_number(x, floats) for x in (fields.alpha, fields.beta))
    return None if alpha is None or beta is None else Terms(alpha, beta, *named)


def _number(value: Any, floats: Mapping[str, Any]) -> float | None:
    """A number, or the default of a param; None for anything else that can be written there."""
    if isinstance(value, int | float):
        return float(value)
    return float(floats[value].default) if value in floats else None


# ---------------------------------------------------------------- elements on the host, in float64
def evaluate_exactly(product: Product, sums: Doubles, named: Mapping[str, Doubles]) -> Doubles:
    """What the epilogue makes of sums, all in float64; ``named``: the arrays that it reads, as many elements."""
    if product.tree is None:
        return sums
    elements = [sums if name == "acc" else named[name] for name in product.operands]
    with np.errstate(all="ignore"):
        return np.broadcast_to(np.asarray(_value(product.tree, elements, product.scalars), np.float64), sums.shape)


def _value(node: Node, elements: Sequence[Doubles], scalars: Mapping[str, float]) -> Any:
    if isinstance(node, Element):
        return elements[node.number]
    if isinstance(node, Parameter):
        return np.float64(scalars[node.name])
    if isinstance(node, Literal):
        return np.float64(node.value) if node.type != "bool" else np.bool_(node.value)
    if isinstance(node, Whole):
        raise TypeError("an epilogue has no integers of a place")
    return FUNCTIONS[node.function].exact(*(_value(arg, elements, scalars) for arg in node.args))


def read_rows(image: NDArray[np.uint8], array: Strided, product: Product, rows: Sequence[int]) -> Doubles:
    """Rows of an array on the host, stretched to d's columns, as float64; rows are counted through all batches."""
    m, n, _ = product.sizes
    batches, inside = np.divmod(np.asarray(rows), m)
    steps = [0 if extent == 1 else stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    starts = batches * steps[0] + inside * steps[1]
    elements = image.view(numpy_dtype(array.dtype))
    found: Doubles = elements[starts[:, None] + np.arange(n)[None, :] * steps[2]].astype(np.float64)
    return found
