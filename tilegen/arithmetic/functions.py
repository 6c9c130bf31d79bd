"""The table of functions that an expression may apply: types, meaning, how exact each is and who says so, text in C.

Errors are in ulps of the result, for results that are no denormals. Nothing is contracted: a product is printed so that
a compiler cannot fuse it with an addition behind the text's back, and ``fma`` is one rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic.integers import count_leading_zeros, count_ones, multiply_high, shift_left, shift_right
from tilegen.arithmetic.tree import Apply, Literal, Node, list_nodes

Array = NDArray[Any]

CUDA_MATH = "CUDA Programming Guide, Mathematical Functions, Standard Functions"
IEEE = "IEEE 754, round to nearest even"
GLIBC = "glibc manual, Known Maximum Errors in Math Functions, x86_64"
PTX_EX2 = "PTX ISA, ex2.approx.ftz.f32: relative error 2^-22, results below 2^-126 are 0"
EXACT_RESULT = "the result is one of the arguments, or a truth value"


@dataclass(frozen=True)
class MathFunction:
    """A row of the table.

    ``sources``: how many arguments. ``takes``: of which types, ``gives``: "same" as the arguments, or a type.
    ``exact``: the value in float64, or in integers, where nothing rounds. ``c``: its text for each type of argument,
    with {0}, {1}, .. for the arguments and {use:NAME} for a function of the prelude. ``ulps``: error by type in CUDA,
    for every arch; ``host_ulps``: in C++ on the CPU. ``tiny``: an absolute error that may come on top.
    ``is_monotone``: in its only argument. ``binding``: how tightly an operator of C binds, 0 for a call.
    """

    name: str
    sources: int
    takes: tuple[str, ...]
    exact: Callable[..., Any]
    c: Mapping[str, str]
    gives: str = "same"
    ulps: Mapping[str, float] = field(default_factory=dict)
    host_ulps: Mapping[str, float] = field(default_factory=dict)
    source: str = EXACT_RESULT
    tiny: float = 0.0
    is_monotone: bool = False
    binding: int = 0


SIGNED, UNSIGNED = ("int32", "int64"), ("uint32", "uint64")
FLOATS, INTS = ("float32", "float64"), (*SIGNED, *UNSIGNED)
NUMBERS = (*INTS, *FLOATS)
C_TYPES = {"int32": "int", "int64": "long long", "uint32": "unsigned", "uint64": "unsigned long long"}
# Not -x, of which ptxas may lose the sign.
_NEGATED_INT = {"int32": "{use:negate_int}({0})", "uint32": "(unsigned){use:negate_int}((int)({0}))"}
PTX_SHIFTS = "PTX ISA, shl and shr: a count has no sign, and from the type's bits on all are shifted out"
_HALF = {"float32": 0.5, "float64": 0.5}


def _each(text: str, types: tuple[str, ...]) -> dict[str, str]:
    return dict.fromkeys(types, text)


def _by_type(single: str, double: str) -> dict[str, str]:
    return {"float32": single, "float64": double}


def _of_two(name: str) -> dict[str, str]:
    """The smaller or the larger: of 32-bit ints not what CUDA calls so, in which ptxas may lose a sign."""
    own = {"int32": f"{{use:{name}_int}}({{0}}, {{1}})"} | _each(f"{name}({{0}}, {{1}})", ("int64", *UNSIGNED))
    return own | _by_type(f"f{name}f({{0}}, {{1}})", f"f{name}({{0}}, {{1}})")


def _rounded(
    name: str, sources: int, exact: Callable[..., Any], c: Mapping[str, str], binding: int = 0
) -> MathFunction:
    """An operation of IEEE 754 (of integers, where they have it: modulo the type's size)."""
    return MathFunction(name, sources, tuple(c), exact, c, "same", _HALF, _HALF, IEEE, binding=binding)


def _called(
    name: str, exact: Callable[..., Any], c: tuple[str, str], ulps: tuple[float, float],
    host: tuple[float, float] = (2, 2), source: str = CUDA_MATH,
) -> MathFunction:  # fmt: skip
    """A monotone function of one float, rounded somehow; pairs are of float32 and float64."""
    own, hosts = dict(zip(FLOATS, ulps, strict=True)), dict(zip(FLOATS, host, strict=True))
    said = f"{source}; {GLIBC}"
    return MathFunction(name, 1, FLOATS, exact, _by_type(*c), "same", own, hosts, said, is_monotone=True)


def _of_bits(name: str, exact: Callable[..., Any], binding: int, sources: int = 2) -> MathFunction:
    """An operator of C on the bits of integers."""
    text = f"{{0}} {name} {{1}}" if sources == 2 else f"{name}{{0}}"
    return MathFunction(name, sources, INTS, exact, _each(text, INTS), binding=binding)


def _shifted(name: str, exact: Callable[..., Any]) -> MathFunction:
    """A shift; by a number below the type's bits it is printed as C's."""
    word = "left" if name == "<<" else "right"
    text = _each(f"{{use:shift_{word}}}({{0}}, {{1}})", INTS)
    return MathFunction(name, 2, INTS, exact, text, source=PTX_SHIFTS, binding=11)


def _counted(name: str, exact: Callable[..., Any], c: str) -> MathFunction:
    """A count of bits, in the type of what is counted."""
    text = {type_: f"({C_TYPES[type_]}){c}{'ll' if '64' in type_ else ''}({{0}})" for type_ in INTS}
    return MathFunction(name, 1, INTS, exact, text, binding=15)


def _to_ints(type_: str) -> MathFunction:
    """A conversion between integers, modulo the type's size."""
    takes = ("bool", *(t for t in INTS if t != type_))
    return MathFunction(
        type_, 1, takes, lambda x: np.asarray(x).astype(type_), _each(f"({C_TYPES[type_]}){{0}}", takes), type_,
        binding=15,
    )  # fmt: skip


def _compared(name: str, exact: Callable[..., Any]) -> MathFunction:
    return MathFunction(name, 2, NUMBERS, exact, _each(f"{{0}} {name} {{1}}", NUMBERS), "bool", binding=9)


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-np.asarray(x, np.float64)))


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _min(a: Any, b: Any) -> Any:
    return np.fmin(a, b)


def _max(a: Any, b: Any) -> Any:
    return np.fmax(a, b)


_TABLE = (
    _rounded("+", 2, np.add, _each("{0} + {1}", NUMBERS), binding=12),
    _rounded("-", 2, np.subtract, _each("{0} - {1}", NUMBERS), binding=12),
    _rounded("*", 2, np.multiply, {
        **_each("{0} * {1}", INTS), "float32": "__fmul_rn({0}, {1})", "float64": "__dmul_rn({0}, {1})",
    }, binding=13),
    _rounded("/", 2, np.divide, _each("{0} / {1}", FLOATS), binding=13),
    MathFunction("neg", 1, NUMBERS, np.negative, _each("-{0}", NUMBERS) | _NEGATED_INT, binding=15),
    _rounded("fma", 3, _fma, _by_type("fmaf({0}, {1}, {2})", "fma({0}, {1}, {2})")),
    MathFunction("//", 2, INTS, np.floor_divide, _each("{use:floor_div}({0}, {1})", SIGNED)
                 | _each("{0} / {1}", UNSIGNED), binding=13),
    MathFunction("%", 2, INTS, np.remainder, _each("{use:floor_mod}({0}, {1})", SIGNED)
                 | _each("{0} % {1}", UNSIGNED), binding=13),
    _of_bits("&", np.bitwise_and, 8), _of_bits("^", np.bitwise_xor, 7), _of_bits("|", np.bitwise_or, 6),
    _of_bits("~", np.invert, 15, 1), _shifted("<<", shift_left), _shifted(">>", shift_right),
    MathFunction("mulhi", 2, INTS, multiply_high, {
        "int32": "__mulhi({0}, {1})", "int64": "__mul64hi({0}, {1})", "uint32": "__umulhi({0}, {1})",
        "uint64": "__umul64hi({0}, {1})",
    }),
    _counted("popcount", count_ones, "__popc"), _counted("clz", count_leading_zeros, "__clz"),
    _compared("<", np.less), _compared("<=", np.less_equal), _compared(">", np.greater),
    _compared(">=", np.greater_equal), _compared("==", np.equal), _compared("!=", np.not_equal),
    MathFunction("and", 2, ("bool",), np.logical_and, {"bool": "{0} && {1}"}, binding=5),
    MathFunction("or", 2, ("bool",), np.logical_or, {"bool": "{0} || {1}"}, binding=4),
    MathFunction("not", 1, ("bool",), np.logical_not, {"bool": "!{0}"}, binding=15),
    MathFunction("where", 3, NUMBERS, np.where, _each("{0} ? {1} : {2}", NUMBERS), binding=2),
    MathFunction("min", 2, NUMBERS, _min, _of_two("min")),
    MathFunction("max", 2, NUMBERS, _max, _of_two("max")),
    MathFunction("abs", 1, (*SIGNED, *FLOATS), np.abs, {
        "int32": "abs({0})", "int64": "llabs({0})", "float32": "fabsf({0})", "float64": "fabs({0})",
    }),
    MathFunction("floor", 1, FLOATS, np.floor, _by_type("floorf({0})", "floor({0})"), is_monotone=True),
    _called("sqrt", np.sqrt, ("sqrtf({0})", "sqrt({0})"), (0.5, 0.5), (0.5, 0.5), IEEE),
    _called("rsqrt", lambda x: 1 / np.sqrt(x), ("rsqrtf({0})", "rsqrt({0})"), (2, 1)),
    _called("exp", np.exp, ("expf({0})", "exp({0})"), (2, 1)),
    replace(_called("exp2", np.exp2, ("{use:exp2_approx}({0})", "exp2({0})"), (2, 1), source=PTX_EX2), tiny=2.0**-126),
    _called("log", np.log, ("logf({0})", "log({0})"), (1, 1)),
    _called("log2", np.log2, ("log2f({0})", "log2({0})"), (1, 1)),
    _called("tanh", np.tanh, ("tanhf({0})", "tanh({0})"), (2, 1)),
    _called("erf", _erf, ("erff({0})", "erf({0})"), (2, 2)),
    replace(
        _called("sigmoid", _sigmoid, ("__fdividef(1.0f, 1.0f + expf(-({0})))", "1.0 / (1.0 + exp(-({0})))"), (5, 4),
                (5, 5), f"{CUDA_MATH} (expf), Intrinsic Functions (__fdividef)"),
        tiny=2.0**-126),
    MathFunction("float32", 1, ("bool", *INTS, "float64"), lambda x: np.asarray(x, np.float64),
             _each("(float){0}", ("bool", *INTS, "float64")), "float32", {"float32": 0.5}, {"float32": 0.5}, IEEE,
             is_monotone=True, binding=15),
    MathFunction("float64", 1, ("bool", *INTS, "float32"), lambda x: np.asarray(x, np.float64),
             _each("(double){0}", ("bool", *INTS, "float32")), "float64", is_monotone=True, binding=15),
    *map(_to_ints, INTS),
)  # fmt: skip
FUNCTIONS = {row.name: row for row in _TABLE}


def type_of(function: str, types: tuple[str, ...]) -> str:
    """The type of a function's result, its arguments being of one type (of ``where``: all but the first).

    >>> type_of("<", ("float32", "float32")), type_of("exp2", ("float64",))
    ('bool', 'float64')
    """
    row = FUNCTIONS[function]
    return types[-1] if row.gives == "same" else row.gives


def common_type(types: Sequence[str], floating: bool = False) -> str:
    """An int meets a float as float32; of two sizes the larger; an int64 holds every uint32.

    >>> common_type(["bool"]), common_type(["int32", "int64"]), common_type(["int64", "float32"])
    ('int32', 'int64', 'float32')
    >>> common_type(["uint32", "uint64"]), common_type(["uint32", "int64"]), common_type(["uint32"])
    ('uint64', 'int64', 'uint32')

    Of types that do not meet (``find_unmet``) one that holds most of both.
    """
    if "float64" in types:
        return "float64"
    if floating or "float32" in types:
        return "float32"
    if "uint64" in types:
        return "uint64"
    if "int64" in types or ("uint32" in types and "int32" in types):
        return "int64"
    return "uint32" if "uint32" in types else "int32"


def find_unmet(types: Sequence[str]) -> tuple[str, str] | None:
    """A signed type and one without a sign that nothing holds both of, or that are of one size; None for others.

    >>> find_unmet(["int32", "uint32"]), find_unmet(["int64", "uint32"]), find_unmet(["int32", "uint32", "float32"])
    (('int32', 'uint32'), None, None)
    """
    if any(t in types for t in FLOATS):
        return None
    pairs = (("int32", "uint32"), ("int32", "uint64"), ("int64", "uint64"))
    return next((pair for pair in pairs if set(pair) <= set(types)), None)


def to_type(node: Node, type_: str) -> Node:
    """A node in another type; a number of the text is read anew.

    >>> to_type(Literal(2, "int32"), "float32")
    Literal(value=2.0, type='float32')
    """
    if node.type == type_:
        return node
    if isinstance(node, Literal):
        return Literal(float(node.value) if type_ in FLOATS else int(node.value), type_)
    return Apply(type_, (node,), type_)


def describe_functions(trees: Iterable[Node]) -> list[str]:
    """A line for each function that rounds, by type: its error in ulps, and where that is from; exact ones in one line.

    >>> from tilegen.arithmetic import Element
    >>> x = Element(0, "float32")
    >>> lines = describe_functions([Apply("exp", (Apply("max", (x, x), "float32"),), "float32")])
    >>> print(*lines, sep="\\n")
    exp float32: 2 ulps (2 on the CPU); CUDA Programming Guide, Mathematical Functions, Standard Functions; glibc \
manual, Known Maximum Errors in Math Functions, x86_64
    exact: max
    """
    used = dict.fromkeys((n.function, n.type) for t in trees for n in list_nodes(t) if isinstance(n, Apply))
    lines, exact = [], dict.fromkeys(name for name, type_ in used if type_ not in FUNCTIONS[name].ulps)
    for name, type_ in used:
        row = FUNCTIONS[name]
        if type_ not in row.ulps:
            continue
        host = row.host_ulps[type_]
        error = f"{row.ulps[type_]:g} {'ulp' if row.ulps[type_] <= 1 else 'ulps'}"
        error += f" ({host:g} on the CPU)" if row.source != FUNCTIONS["+"].source else ""
        error += f" and {row.tiny:.2g}" if row.tiny else ""
        lines.append(f"{name} {type_}: {error}; {row.source}")
    return [*lines, *([f"exact: {', '.join(exact)}"] if exact else [])]
