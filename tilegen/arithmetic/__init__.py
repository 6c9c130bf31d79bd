"""What ops compute: trees of typed nodes, the table of functions with their errors, products of matrices.

Proofs alone compute with remainders (``modular``) and with errors (``bounded``, ``bounds``, over ``formats``): they
import these modules themselves, and what plans a kernel starts without them.
"""

from tilegen.arithmetic.domain import FOLDS, TYPED, UPDATES, Domain, Typed
from tilegen.arithmetic.functions import FUNCTIONS, MathFunction, common_type, describe_functions, to_type, type_of
from tilegen.arithmetic.products import (
    SCALED,
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
    count_written,
    find_elements,
    list_nodes,
    type_of_element,
)
from tilegen.arithmetic.typed import apply_typed, evaluate_typed, round_to

__all__ = [
    "FOLDS", "FUNCTIONS", "NODE_TYPES", "SCALED", "TFLOAT32", "TFLOAT32_CUT", "TFLOAT32_EVEN", "TYPED", "UPDATES",
    "Apply",
    "Domain", "Element", "Literal", "MathFunction", "Node", "Parameter", "Typed", "Whole", "apply_typed", "common_type",
    "count_written", "cut_to_tfloat32", "describe_functions", "evaluate_typed", "find_elements", "list_nodes",
    "multiply", "round_to", "round_to_tfloat32", "to_type", "type_of", "type_of_element",
]  # fmt: skip
