"""What an element of a result is, as a tree of typed nodes over elements of operands, integers of the place and params.

A tree is made once, by the reader of a spec; the interpreter, the spec's own meaning, the bounds on rounding and the
text of the kernel all follow it node by node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

from tilegen.dtypes import DTYPES, FACTOR
from tilegen.kept import keep

NODE_TYPES = ("bool", "int32", "int64", "uint32", "uint64", "float32", "float64")
_NARROW = {"float": "float32", "int": "int32", "uint": "int32", "bool": "bool"}


@dataclass(frozen=True)
class Element:
    """The element of operand number ``number``, stored as ``dtype``, at the place of the result."""

    number: int
    dtype: str

    @property
    def type(self) -> str:
        return type_of_element(self.dtype)


@dataclass(frozen=True)
class Whole:
    """An integer that an index expression gives: number ``number`` of the step's."""

    number: int
    type: str = "int32"


@dataclass(frozen=True)
class Parameter:
    """A param of the kernel that is no size: a float, or bits of uint32."""

    name: str
    type: str = "float32"


@dataclass(frozen=True)
class Literal:
    """A number of the text."""

    value: float | int | bool
    type: str


@dataclass(frozen=True)
class Apply:
    """A row of ``arithmetic.FUNCTIONS`` applied to nodes."""

    function: str
    args: tuple[Node, ...]
    type: str


Node = Union[Element, Whole, Parameter, Literal, Apply]  # noqa: UP007 - a runtime alias


def type_of_element(dtype: str) -> str:
    """The type in which elements of a dtype are computed with.

    >>> type_of_element("bfloat16"), type_of_element("uint8"), type_of_element("uint32")
    ('float32', 'int32', 'uint32')

    Raises ValueError for a dtype that nothing computes with: complex64, complex128 and scale factors.
    """
    if dtype in NODE_TYPES:
        return dtype
    kind = DTYPES[dtype].kind
    if kind not in _NARROW or dtype == FACTOR:
        raise ValueError(f"nothing computes with {dtype}")
    return _NARROW[kind]


def list_nodes(node: Node) -> Iterator[Node]:
    """Every node of a tree, arguments before what is applied to them."""
    if isinstance(node, Apply):
        for arg in node.args:
            yield from list_nodes(arg)
    yield node


def find_elements(node: Node) -> tuple[Element, ...]:
    """The operands that a tree reads, each once, by number.

    >>> x, y = Element(0, "float32"), Element(1, "float32")
    >>> [e.number for e in find_elements(Apply("+", (y, Apply("*", (x, y), "float32")), "float32"))]
    [0, 1]
    """
    found = {n.number: n for n in list_nodes(node) if isinstance(n, Element)}
    return tuple(found[k] for k in sorted(found))


@keep
def count_written(node: Node) -> int:
    """The nodes of a tree, each as often as it stands there.

    >>> half = Apply("*", (Element(0, "float32"), Literal(0.5, "float32")), "float32")
    >>> count_written(half), count_written(Apply("+", (half, half), "float32"))
    (3, 7)
    """
    return 1 + sum(count_written(arg) for arg in node.args) if isinstance(node, Apply) else 1
