"""What ops compute: trees of typed nodes, the table of functions with their errors."""

from tilegen.arithmetic.bounded import Bound, Bounded, find_beyond, make_bounded
from tilegen.arithmetic.domain import FOLDS, TYPED, Domain, Typed
from tilegen.arithmetic.formats import holds_all
from tilegen.arithmetic.functions import FUNCTIONS, MathFunction, type_of
from tilegen.arithmetic.modular import Modular, make_modular
from tilegen.arithmetic.tree import (
    NODE_TYPES,
    Apply,
    Element,
    Literal,
    Node,
    Parameter,
    Whole,
    find_elements,
    list_nodes,
    type_of_element,
)
from tilegen.arithmetic.typed import apply_typed, evaluate_typed, round_to

__all__ = [
    "FOLDS", "FUNCTIONS", "NODE_TYPES", "TYPED", "Apply", "Bound", "Bounded", "Domain", "Element", "Literal",
    "MathFunction", "Modular", "Node", "Parameter", "Typed", "Whole", "apply_typed", "evaluate_typed", "find_beyond",
    "find_elements", "holds_all", "list_nodes", "make_bounded", "make_modular", "round_to", "type_of",
    "type_of_element",
]  # fmt: skip
