"""What ops compute: trees of typed nodes, the table of functions with their errors."""

from tilegen.arithmetic.functions import FUNCTIONS, MathFunction, type_of
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
from tilegen.arithmetic.typed import apply_typed, evaluate_typed, reduce_typed, round_to

__all__ = [
    "FUNCTIONS", "NODE_TYPES", "Apply", "Element", "Literal", "MathFunction", "Node", "Parameter", "Whole",
    "apply_typed", "evaluate_typed", "find_elements", "list_nodes", "reduce_typed", "round_to", "type_of",
    "type_of_element",
]  # fmt: skip
