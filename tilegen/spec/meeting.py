"""Terms of an expression that computes, and the types in which they meet."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilegen.arithmetic import FUNCTIONS, Literal, Node, common_type, to_type
from tilegen.arithmetic.functions import FLOATS, INTS, SIGNED, find_unmet
from tilegen.index import INT_LIMIT, bound
from tilegen.spec.expressions import Value
from tilegen.spec.findings import Flawed, Passage, shorten
from tilegen.spec.words import Token

_MOST_BITS = 64  # of an integer
_JOINED: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip


@dataclass(frozen=True)
class Term(Value):
    """A part of an expression: an integer of the place (``node`` is None), or a node of a tree.

    ``is_negative``: of a number of the text below 0, which takes the type that it meets as others do; ``wraps``: one
    that stands for its bits, as ``~7``.
    """

    node: Node | None = None
    is_negative: bool = False
    wraps: bool = False

    @property
    def number(self) -> int | None:
        """The integer that a number of the text is, or a param that is one; None for anything else."""
        if self.is_negative and isinstance(self.node, Literal):
            return int(self.node.value)
        is_number = self.node is None and isinstance(self.index, int) and not self.is_condition
        return int(self.index) if is_number else None  # type: ignore[arg-type]

    @property
    def type(self) -> str:
        if self.node is not None:
            return self.node.type
        if self.is_condition:
            return "bool"
        return "int32" if bound(self.index) <= INT_LIMIT else "int64" if bound(self.index) <= 1 << 63 else "uint64"


def term_of(value: Value) -> Term:
    """A value of a parser, which may be an integer of the place, as a term."""
    return value if isinstance(value, Term) else Term(value.index, value.start, value.end, value.is_condition)


def find_meeting_type(passage: Passage, name: str, terms: Sequence[Term], word: Token) -> str:
    """The type in which the arguments of a function meet: numbers of the text take that of the others.

    Raises Flawed TG111 where one with a sign and one without meet, TG112 for a number that the type does not hold.
    """
    typed = [t for t in terms if t.number is None]
    if pair := find_unmet([t.type for t in typed]):
        sides = [next(t for t in typed if t.type == type_) for type_ in pair]
        raise _refuse_meeting(passage, word, *sides)
    plain = [t.type for t in terms if not (t.number is not None and typed and _is_hexadecimal(passage, t))]
    types = [t.type for t in typed]
    is_fixed = types and common_type(types) not in SIGNED  # else a decimal number makes them wider
    type_ = common_type(types if is_fixed else plain, name == "/" or FUNCTIONS[name].takes == FLOATS)
    for term in terms:
        if term.number is not None and type_ in INTS and not term.wraps:
            _refuse_beyond(passage, term, term.number, type_)
    return type_


def type_number(node: Node, type_: str) -> Node:
    """A node in a type; a number of the text is read anew, modulo the type's size where it stands for its bits."""
    typed = to_type(node, type_)
    return wrap_number(int(typed.value), type_) if isinstance(typed, Literal) and type_ in INTS else typed


def make_number(number: int, start: int, end: int, wraps: bool = False) -> Value:
    """A number of the text, which takes the type that it meets."""
    if number >= 0:
        return Value(number, start, end)
    type_ = "int32" if number >= -INT_LIMIT else "int64"
    return Term(0, start, end, False, Literal(number, type_), is_negative=True, wraps=wraps)


def wrap_number(number: int, type_: str) -> Literal:
    """A number of a type, modulo its size.

    >>> wrap_number(-8, "uint32").value, wrap_number(0xFFFFFFFF, "int32").value
    (4294967288, -1)
    """
    info = np.iinfo(type_)
    return Literal((number - int(info.min)) % (1 << info.bits) + int(info.min), type_)


def join_numbers(symbol: str, left: Term, right: Term) -> int | None:
    """What an operator makes of two numbers of the text; None where they are none, or nothing holds the result."""
    a, b = left.number, right.number
    if a is None or b is None or symbol not in _JOINED or (symbol in ("<<", ">>") and not 0 <= b <= _MOST_BITS):
        return None
    found: int = _JOINED[symbol](a, b)
    return found if -1 << _MOST_BITS - 1 <= found < 1 << _MOST_BITS else None


def _is_hexadecimal(passage: Passage, term: Term) -> bool:
    return passage.text[term.start : term.end].lower().startswith("0x")


def _refuse_meeting(passage: Passage, word: Token, signed: Term, unsigned: Term) -> Flawed:
    one, other = (shorten(passage.text[t.start : t.end]) for t in (signed, unsigned))
    message = f"'{one}' is {signed.type} and '{other}' {unsigned.type}, which do not meet in '{word.text}'"
    write = f"write '{unsigned.type}({one})', or '{signed.type}({other})'"
    return passage.fault("TG111", message, word.start, max(word.end, word.start + 1), write)


def _refuse_beyond(passage: Passage, term: Term, number: int, type_: str) -> None:
    """Raise TG112 for a number of the text that is none of a type."""
    info = np.iinfo(type_)
    if not info.min <= number <= info.max:
        text = shorten(passage.text[term.start : term.end])
        message = f"{text} is {type_} here, which holds {info.min} to {info.max}"
        raise passage.fault("TG112", message, term.start, term.end, f"'{type_}({text})' is what is left of its bits")
