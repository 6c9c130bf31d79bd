"""The expressions that ops compute: text to a typed tree, each error at its characters.

Integers of the place stay index expressions as long as nothing else meets them, so that masks are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isinf

from tilegen.arithmetic import (
    FUNCTIONS,
    Apply,
    Element,
    Literal,
    Node,
    Parameter,
    Whole,
    type_of_element,
)
from tilegen.arithmetic.functions import FLOATS, INTS, type_of
from tilegen.dtypes import DTYPES
from tilegen.index import Index, Var, bound, least, not_
from tilegen.near_words import suggest
from tilegen.plan import Param
from tilegen.spec.data import Region
from tilegen.spec.expressions import BINDING, Parser, Value
from tilegen.spec.findings import Flawed, shorten
from tilegen.spec.meeting import Term, find_meeting_type, join_numbers, make_number, term_of, type_number, wrap_number
from tilegen.spec.words import Token

TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[A-Za-z_.0-9]*)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<symbol>//|<<|>>|<=|>=|==|!=|&(?!&)|\|(?!\|)|[-+*/%<>(),\[\]:;=^~])",
    re.ASCII,
)
FLOAT = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z")
_HEXADECIMAL = re.compile(r"0[xX][0-9A-Fa-f]+\Z")
_CALLS = tuple(n for n in FUNCTIONS if n.isidentifier() and n not in ("neg", "and", "or", "not", *INTS, *FLOATS))
_BITS = ("&", "|", "^", "<<", ">>")
_WRITTEN = {  # functions of one argument that others have, in the words of this table
    "relu": "max({x}, 0)", "sqr": "{x} * {x}", "square": "{x} * {x}", "silu": "{x} * sigmoid({x})", "fabs": "abs({x})",
    "round": "floor({x} + 0.5)", "ceil": "-floor(-{x})",
}  # fmt: skip
_NEGATION = BINDING["*"]  # how tightly a sign binds: as a product


@dataclass
class Collected:
    """What the expression names: its operands in order of appearance, and the integers of its tree."""

    operands: dict[str, Region] = field(default_factory=dict)
    wholes: list[Index] = field(default_factory=list)


@dataclass
class FormulaParser(Parser):
    """The parser of integers, which also knows elements, floats and functions.

    ``operand(name)`` gives the region that a name stands for, or None; ``extents`` are those of the result, for
    ``index(d)``.
    """

    operand: Callable[[str], Region | None] = lambda name: None
    params: Mapping[str, Param] = field(default_factory=dict)
    extents: Sequence[int] = ()
    collected: Collected = field(default_factory=Collected)
    takes_parts: bool = True
    named: dict[str, Value] = field(default_factory=dict)  # values that the expression names itself
    unread: dict[str, Token] = field(default_factory=dict)  # names that nothing has used yet
    is_in_ceil: bool = False  # there '/' is not an operator but a part of ceil(a / b)

    def binding_of(self, token: Token) -> int:
        return BINDING["//"] if token.text == "/" and not self.is_in_ceil else BINDING.get(token.text, 0)

    def read_inside(self) -> Value:
        """An expression in parentheses, in which '/' divides."""
        around, self.is_in_ceil = self.is_in_ceil, False
        inside = self.read()
        self.is_in_ceil = around
        return inside

    def read_ceil(self, word: Token) -> Value:
        around, self.is_in_ceil = self.is_in_ceil, True
        value = super().read_ceil(word)
        self.is_in_ceil = around
        return value

    def expect(self, symbol: str, code: str = "TG111") -> Token:
        if self.next.text == "=":
            raise self.misplaced()
        return super().expect(symbol, code)

    def say_choice(self, word: Token) -> str:
        """The same, and how values get names, where ``word`` is '=' or ';'."""
        return _SAID.get(word.text) or super().say_choice(word)

    # ------------------------------------------------------------ operands
    def read_operand(self) -> Value:
        token = self.next
        if token.kind == "number" and FLOAT.match(token.text):
            self.advance()
            if isinf(float(token.text)):
                message = f"{shorten(token.text)} is more than any float holds"
                raise self.fault(message, token, "TG112", "infinity is written inf")
            return self.made(Literal(float(token.text), "float32"), token.start, token.end)
        if token.text == "(" and token.kind == "symbol":
            self.advance()
            inside = self.read_inside()
            return replace(inside, start=token.start, end=self.expect(")").end)
        if token.text == "-" and token.kind == "symbol":
            self.advance()
            return self.negate(token, self.read(_NEGATION))
        if token.kind == "name" and token.text == "inf":
            self.advance()
            return self.made(Literal(float("inf"), "float32"), token.start, token.end)
        if token.text == "~" and token.kind == "symbol":
            self.advance()
            operand = self.read(_NEGATION)
            number = term_of(operand).number
            if number is not None and 0 <= number < 1 << 63:  # the bits of the type that it meets
                return make_number(~number, token.start, operand.end, wraps=True)
            return self.apply("~", [operand], token, operand.end)
        if token.kind == "name" and self.tokens[self.at + 1].text == "(" and token.text in INTS:
            self.advance()
            return self.read_conversion(token)
        if token.kind == "name" and self.tokens[self.at + 1].text == "(" and token.text in (*_CALLS, "index"):
            self.advance()
            return self.read_index(token) if token.text == "index" else self.read_function(token)
        if token.text == "not":
            self.advance()
            operand = self.condition_of(self.read(3), token)
            if operand.node is None:
                return Value(not_(operand.index), token.start, operand.end, True)
            return self.apply("not", [operand], token, operand.end)
        if token.kind == "name" and self.tokens[self.at + 1].text == "[":
            raise self.refuse_part(token)
        if token.kind == "name":
            found = self.read_name(token)
            if found is not None:
                return found
        return super().read_operand()

    def read_number(self, token: Token) -> Value:
        if _HEXADECIMAL.match(token.text):
            if int(token.text, 16) >= 1 << 64:
                raise self.fault("this number does not fit 64 bits", token, "TG112", "no type holds it")
            return Value(int(token.text, 16), token.start, token.end)
        suffixed = re.match(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)[A-Za-z]+\Z", token.text)
        if suffixed and not token.text.startswith("0x"):
            hint = f"write {suffixed[1]}: constants have the type of what they meet"
            raise self.fault(f"{shorten(token.text)!r} is not a number", token, hint=hint)
        return super().read_number(token)

    def read_name(self, token: Token) -> Value | None:
        """A value that was named, a buffer, a region with a name, or a param of floating type."""
        if token.text in self.named:
            self.advance()
            self.unread.pop(token.text, None)
            return replace(self.named[token.text], start=token.start, end=token.end)
        region = self.operand(token.text)
        if region is not None:
            self.advance()
            try:
                type_of_element(region.buffer.dtype)
            except ValueError as error:
                raise self.fault(f"'{token.text}': {error}", token, "TG212") from None
            self.collected.operands.setdefault(token.text, region)
            number = list(self.collected.operands).index(token.text)
            return self.made(Element(number, region.buffer.dtype), token.start, token.end)
        param = self.params.get(token.text)
        if param is not None and param.var is None:
            self.advance()
            return self.made(Parameter(param.name, param.dtype), token.start, token.end)
        return None

    def refuse_part(self, word: Token) -> Flawed:
        """TG111 for a region within an expression, with how it gets a name."""
        end = self.passage.text.find("]", word.end) + 1 or len(self.passage.text)
        region = self.passage.text[word.start : end]
        own_name = f"give it a name: 'with: {{NAME: \"{shorten(region)}\"}}'"
        message = f"'{shorten(region)}' is a region, and an expression has names of them"
        hint = own_name if self.takes_parts else "name the whole array"
        return self.passage.fault("TG111", message, word.start, end, hint)

    def read_index(self, word: Token) -> Value:
        """index(d): the coordinate along dimension d of the result."""
        self.expect("(")
        which = self.advance()
        if which.kind != "number" or not which.text.isdigit() or int(which.text) >= len(self.extents):
            has = f"the result has dimensions 0 to {len(self.extents) - 1}"
            raise self.fault(f"index() takes the number of a dimension, not '{shorten(which.text)}'", which, hint=has)
        d = int(which.text)
        n = self.extents[d]
        return Value(coordinate(d, n) if n > 1 else 0, word.start, self.expect(")").end)

    def read_function(self, word: Token) -> Value:
        """A function of the table; min, max and where of integers alone are integers of the place."""
        self.expect("(")
        args = [self.read_inside()]
        while self.accept(","):
            args.append(self.read_inside())
        end = self.expect(")").end
        needs = FUNCTIONS[word.text].sources
        if len(args) != needs:
            message = f"{word.text} takes {needs} argument{'s' * (needs > 1)}, not {len(args)}"
            raise self.fault(message, word, hint=self.say_nested(word.text, args))
        return self.apply(word.text, args, word, end)

    def read_conversion(self, word: Token) -> Value:
        """``uint32(x)`` and its kin: an integer or a condition in that type, modulo its size."""
        type_ = word.text
        self.expect("(")
        value = self.read_inside()
        end = self.expect(")").end
        term = term_of(value)
        if term.type in FLOATS:
            text = shorten(self.passage.text[value.start : value.end])
            hint = "an op whose dst holds integers rounds, 'cast' cuts off"
            raise self.fault(f"'{type_}' takes integers, and '{text}' is {term.type}", word, hint=hint)
        if term.number is not None:
            return self.made(wrap_number(term.number, type_), word.start, end)
        node = self.node_of(term)
        return self.made(node if node.type == type_ else Apply(type_, (node,), type_), word.start, end)

    def say_call(self, word: Token) -> str:
        if word.text in _WRITTEN:
            return f"write '{_WRITTEN[word.text].format(x=self.find_argument(word))}'"
        if word.text in DTYPES:
            return "leave it out: types become one where they meet, and dst's at the end"
        return suggest(word.text, (*_CALLS, "index"))

    def find_argument(self, word: Token) -> str:
        """The text of a call's argument, in parentheses but for a name; "(..)" where it does not end."""
        depth, text = 0, self.passage.text[word.end :].strip()
        for at, character in enumerate(text):
            depth += {"(": 1, ")": -1}.get(character, 0)
            if depth == 0:
                inside = text[1:at].strip()
                return inside if inside.isidentifier() else f"({shorten(inside)})"
        return "(..)"

    # ------------------------------------------------------------ operators
    def negate(self, token: Token, value: Value) -> Value:
        term = self.number_of(value, token)
        if term.number is not None and term.type != "uint64":
            return make_number(-term.number, token.start, value.end)
        if isinstance(term.node, Literal) and term.type in FLOATS:
            return self.made(Literal(-term.node.value, term.node.type), token.start, value.end)
        return self.apply("neg", [value], token, value.end)

    def combine(self, operator: Token, left: Value, right: Value) -> Value:
        symbol = operator.text
        are_integers = _node(left) is None and _node(right) is None
        is_safe = symbol != "-" or least(left.index) >= bound(right.index) - 1
        if symbol == "/":
            self.refuse_integers(operator, left, right)
        elif symbol in _BITS:
            self.refuse_conditions(operator, left, right)
        if (number := join_numbers(symbol, term_of(left), term_of(right))) is not None:
            return make_number(number, left.start, right.end)
        if symbol not in ("/", *_BITS) and are_integers and is_safe:
            return super().combine(operator, left, right)
        if symbol in ("//", "%") and _node(right) is None and right.index == 0:
            self.check_divisor(right)
        return self.apply(symbol, [left, right], operator, right.end, left.start)

    def refuse_integers(self, operator: Token, left: Value, right: Value) -> None:
        """Raise TG111 for '/' between integers: a quotient that is whole and one that is a float are two things."""
        sides = [self.number_of(value, operator) for value in (left, right)]
        if all(side.type in INTS for side in sides):
            above, below = (self.passage.text[side.start : side.end] for side in sides)
            real = f"{above} / {below}.0" if below.isdigit() else f"1.0 * {above} / {below}"
            raise self.passage.fault(
                "TG111", "'/' divides floats, and both sides are integers", left.start, right.end,
                f"write '{shorten(f'{above} // {below}')}' for a whole quotient, '{shorten(real)}' for a float",
            )  # fmt: skip

    def refuse_conditions(self, operator: Token, left: Value, right: Value) -> None:
        """Raise TG111 for '&' and '|' of conditions, which 'and' and 'or' join."""
        word = {"&": "and", "|": "or"}.get(operator.text)
        if word and all(term_of(value).type == "bool" for value in (left, right)):
            message = f"'{operator.text}' takes the bits of integers, and both sides are conditions"
            raise self.passage.fault("TG111", message, left.start, right.end, f"write '{word}'")

    def apply(self, name: str, args: Sequence[Value], word: Token, end: int, start: int | None = None) -> Value:
        """A function of the table, its arguments brought to one type; raises TG111 for types that it does not take."""
        row = FUNCTIONS[name]
        if row.takes == ("bool",):
            nodes = [self.node_of(self.condition_of(a, word)) for a in args]
            return self.made(Apply(name, tuple(nodes), "bool"), word.start if start is None else start, end)
        chosen = [self.condition_of(args[0], word)] if name == "where" else []
        numbers = [self.number_of(a, word) for a in args[len(chosen) :]]
        type_ = find_meeting_type(self.passage, name, numbers, word)
        if type_ not in row.takes:
            wanted = "integers" if row.takes == INTS else " or ".join(row.takes)
            hint = "write 'x * x' for a square" if name == "^" else ""
            raise self.fault(f"'{name}' takes {wanted}, not {type_}", word, hint=hint)
        nodes = [*map(self.node_of, chosen), *(type_number(self.node_of(t), type_) for t in numbers)]
        result = Apply(name, tuple(nodes), type_of(name, (type_,)))
        return self.made(result, word.start if start is None else start, end)

    # ------------------------------------------------------------ what a value is
    def made(self, node: Node, start: int, end: int) -> Term:
        return Term(0, start, end, node.type == "bool", node)

    def require_number(self, value: Value, operator: Token) -> Value:
        if _node(value) is not None:
            text = shorten(self.passage.text[value.start : value.end])
            message = f"'{text}' is no integer of the place, as '{operator.text}' needs here"
            hint = self.say_call(operator) if operator.text == "ceil" else ""
            raise self.passage.fault("TG111", message, value.start, value.end, hint)
        return super().require_number(value, operator)

    def number_of(self, value: Value, operator: Token) -> Term:
        term = term_of(value)
        if term.type == "bool":
            text = shorten(self.passage.text[value.start : value.end])
            message = f"'{operator.text}' takes numbers, but '{text}' is a condition"
            raise self.passage.fault("TG111", message, value.start, value.end, "write 'where(condition, 1, 0)'")
        return term

    def condition_of(self, value: Value, operator: Token) -> Term:
        term = term_of(value)
        if term.type != "bool":
            text = shorten(self.passage.text[value.start : value.end])
            message = f"'{operator.text}' takes conditions, but '{text}' is a number"
            raise self.passage.fault("TG111", message, value.start, value.end, f"write '{text} != 0'")
        return term

    def node_of(self, term: Term) -> Node:
        """The node of a term; an integer of the place gets a number."""
        if term.node is not None:
            return term.node
        if isinstance(term.index, bool):
            return Literal(term.index, "bool")
        if isinstance(term.index, int):
            return Literal(int(term.index), term.type)
        if term.index not in self.collected.wholes:
            self.collected.wholes.append(term.index)
        return Whole(self.collected.wholes.index(term.index), term.type)


def coordinate(d: int, extent: int) -> Var:
    """The variable that stands for index(d) until an op says where its elements lie: a name that no spec may give."""
    return Var(f"index__{d}", extent)


def _node(value: Value) -> Node | None:
    return value.node if isinstance(value, Term) else None


_SAID = {
    "=": "compare with '=='; a value is named before what uses it: 't = x + y; t * t'",
    ";": "write 'NAME = value;' before what uses the name",
}
