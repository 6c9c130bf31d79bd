"""Integer index expressions with known range and divisibility. One text: C prints it, the interpreter evaluates it."""

from tilegen.index.conditions import (
    any_of,
    conjuncts,
    count_operators,
    differ,
    equal,
    every,
    not_,
    substitute,
    variables,
)
from tilegen.index.expressions import (
    Index,
    Op,
    Var,
    add,
    bound,
    ceil_div,
    div,
    least,
    less,
    mod,
    mul,
    multiple,
    sub,
    terms,
    total,
    xor,
)
from tilegen.index.text import INT_LIMIT, compile_text, evaluate, to_c

__all__ = [
    "INT_LIMIT", "Index", "Op", "Var", "add", "any_of", "bound", "ceil_div", "compile_text", "conjuncts",
    "count_operators", "differ", "div", "equal", "evaluate", "every", "least", "less", "mod", "mul", "multiple", "not_",
    "sub", "substitute", "terms", "to_c", "total", "variables", "xor",
]  # fmt: skip
