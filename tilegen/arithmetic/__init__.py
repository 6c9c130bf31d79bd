"""What ops compute: trees of typed nodes, the table of functions with their errors, products of matrices."""

from tilegen.arithmetic.bounded import Bounded, make_bounded
from tilegen.arithmetic.bounds import Bound, find_beyond
from tilegen.arithmetic.describing import describe_functions
from tilegen.arithmetic.domain import FOLDS, TYPED, Domain, Typed
from tilegen.arithmetic.formats import holds_all
from tilegen.arithmetic.functions import FUNCTIONS, MathFunction, type_of
from tilegen.arithmetic.modular import Modular, make_modular
from tilegen.arithmetic.products import (
    TFLOAT32,
    TFLOAT32_CUT,
    TFLOAT32_EVEN,
    cut_to_tfloat32,
    multiply,
    round_to_tfloat32,
)
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
    "FOLDS", "FUNCTIONS", "NODE_TYPES", "TFLOAT32", "TFLOAT32_CUT", "TFLOAT32_EVEN", "TYPED", "Apply", "Bound",
    "Bounded", "Domain", "Element", "Literal", "MathFunction", "Modular", "Node", "Parameter", "Typed", "Whole",
    "apply_typed", "cut_to_tfloat32", "describe_functions", "evaluate_typed", "find_beyond", "find_elements",
    "holds_all", "list_nodes", "make_bounded", "make_modular", "multiply", "round_to", "round_to_tfloat32",
    "type_of", "type_of_element",
]  # fmt: skip
