"""The integer expressions of a spec: text to Index, each error at its characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilegen.index import (
    COMPARISONS,
    Formula,
    Index,
    Var,
    add,
    any_of,
    bound,
    ceil_div,
    div,
    every,
    least,
    maximum,
    minimum,
    mod,
    mul,
    not_,
    select,
    sub,
)  # fmt: skip
from tilegen.spec.findings import Flawed, Passage, shorten
from tilegen.spec.names import Names
from tilegen.spec.nodes import Node, Scalar, describe_node, say_number
from tilegen.spec.reads import Reads
from tilegen.spec.words import Token, split_tokens

MAX_DEPTH = 24
_VALUE_LIMIT = 1 << 62  # beyond, an offset in bytes could leave 64 bits

BINDING = {
    "or": 1, "and": 2, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "//": 10, "%": 10,
}  # fmt: skip
_NOT_BINDING = 3
_CHOICE = re.compile(r"((?:(?! if | else ).)*) if ((?:(?! if | else ).)*) else ((?:(?! if | else ).)*)")  # Python's


@dataclass(frozen=True)
class Value:
    """What a part of an expression comes to, and which characters it is."""

    index: Index
    start: int
    end: int
    is_condition: bool = False


@dataclass
class Parser:
    """Top-down operator precedence over the tokens of one passage; values are built as they are read.

    ``is_size``: of an array or a grid, which may pass 63 bits where params have no max, for no launch has such sizes.
    ``reads``: takes the elements of arrays that the expression names, None where it may name none.
    """

    passage: Passage
    names: Names
    tokens: list[Token]
    at: int = 0
    depth: int = 0
    is_size: bool = False
    reads: Reads | None = None

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def advance(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, symbol: str) -> bool:
        """Take the next token if it is ``symbol``."""
        if self.next.kind == "symbol" and self.next.text == symbol:
            self.at += 1
            return True
        return False

    def expect(self, symbol: str, code: str = "TG111") -> Token:
        token = self.next
        if self.accept(symbol):
            return token
        if token.text == "/":
            raise self.misplaced()
        where = f"before '{token.text}'" if token.text else "at the end"
        raise self.fault(f"'{symbol}' is missing {where}", token, code, self.say_choice(token))

    def misplaced(self) -> Flawed:
        """The next token belongs to no expression."""
        if self.next.text == "/":
            return self.fault("'/' stands only in ceil(a / b)", self.next, hint="write '//' or 'ceil(a / b)'")
        return self.fault(f"'{self.next.text}' is not expected here", self.next, hint=self.say_choice(self.next))

    def say_choice(self, word: Token) -> str:
        """How Python's ``a if c else b`` is written, where ``word`` is its if; "" elsewhere."""
        if word.text != "if":
            return ""
        pieces = re.fullmatch(
            r"((?:(?! if | else ).)*) if ((?:(?! if | else ).)*) else (.*)", self.passage.text.strip()
        )
        yes, condition, no = pieces.groups() if pieces else ("a", "c", "b")
        return f"write 'where({shorten(condition)}, {shorten(yes)}, {shorten(no)})'"

    def say_nested(self, name: str, args: Sequence[Value]) -> str:
        """min or max of more than two values, as calls of two; "" for others."""
        if name not in ("min", "max") or len(args) < 3:
            return ""
        first, *rest = (self.passage.text[a.start : a.end] for a in args)
        for one in rest:
            first = f"{name}({first}, {one})"
        return f"write '{shorten(first)}'"

    def fault(self, message: str, token: Token, code: str = "TG111", hint: str = "") -> Flawed:
        return self.passage.fault(code, message, token.start, max(token.end, token.start + 1), hint)

    def read(self, weakest: int = 0) -> Value:
        """An expression whose operators bind more strongly than ``weakest``."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fault(f"nested deeper than {MAX_DEPTH} levels", self.next)
        left = self.read_operand()
        while (binding := self.binding_of(self.next)) > weakest:
            operator = self.advance()
            right = self.read(binding)
            left = self.combine(operator, left, right)
            if operator.text in COMPARISONS and self.next.text in COMPARISONS:
                raise self.fault("comparisons do not chain", self.next, hint="join two comparisons with 'and'")
        self.depth -= 1
        return left

    def binding_of(self, token: Token) -> int:
        """How strongly an operator binds, 0 for any other token."""
        return BINDING.get(token.text, 0)

    def read_operand(self) -> Value:
        token = self.advance()
        if token.kind == "number":
            return self.read_number(token)
        if token.text == "(" and token.kind == "symbol":
            inside = self.read()
            return replace(inside, start=token.start, end=self.expect(")").end)
        if token.text == "not":
            operand = self.require_condition(self.read(_NOT_BINDING), token)
            return Value(not_(operand.index), token.start, operand.end, True)
        if token.text == "ceil" and self.next.text == "(":
            return self.read_ceil(token)
        if token.text in CALLS and self.next.text == "(":
            return self.read_call(token)
        if token.text in ("true", "false"):
            return Value(token.text == "true", token.start, token.end, True)
        if token.kind == "name" and token.text not in BINDING:
            if self.next.text == "(":
                raise self.fault(f"'{token.text}' is not a function here", token, hint=self.say_call(token))
            if self.next.text == "[":
                return self.read_element(token)
            return Value(self.names.find(token.text, self.passage, token.start), token.start, token.end)
        self.at -= 1
        if token.text == "-":
            raise self.fault("numbers in a spec are never negative", token, hint="write 'a - b'")
        raise self.fault(
            f"a value is missing before '{token.text}'" if token.text else "a value is missing at the end", token
        )

    def read_element(self, word: Token) -> Value:
        """``ids[row]``: an element of an array, which a let alone may read; raises TG126 elsewhere."""
        if self.reads is None:
            message = f"'{word.text}[..]' reads memory, and integers here are computed without it"
            hint = f"write 'let: {{x: \"{word.text}[..]\"}}' before this, and 'x' here"
            raise self.fault(message, word, "TG126", hint)
        array = self.reads.find(word.text, self.passage.locate(word.start, word.end))
        self.expect("[")
        at = [self.require_number(self.read(), word).index]
        while self.accept(","):
            at.append(self.require_number(self.read(), word).index)
        end = self.expect("]").end
        var = self.reads.take(array, tuple(at), self.passage.locate(word.start, end))
        return Value(var, word.start, end)

    def say_call(self, word: Token) -> str:
        """What may be written instead of a function that is none."""
        forms = ["ceil(a / b)", *(form for form, _ in CALLS.values())]
        return f"calls are {', '.join(forms[:-1])} and {forms[-1]}"

    def read_number(self, token: Token) -> Value:
        if not token.text.isdigit():
            raise self.fault(f"{shorten(token.text)!r} is not an integer", token, hint="write it in decimal digits")
        if len(token.text) > 1 and token.text[0] == "0":
            raise self.fault(
                f"{shorten(token.text)!r} has leading zeros", token, hint="write it in decimal, without leading zeros"
            )
        if len(token.text) > 19 or int(token.text) >= _VALUE_LIMIT:
            raise self.fault("this number does not fit 63 bits", token, "TG112")
        return Value(int(token.text), token.start, token.end)

    def read_ceil(self, word: Token) -> Value:
        self.expect("(")
        top = self.require_number(self.read(BINDING["+"]), word)
        if self.next.text in ("+", "-"):
            raise self.fault(
                "ceil divides a product or one in parentheses", self.next, hint="write 'ceil((a + b) / c)'"
            )
        slash = self.next
        if not self.accept("/"):
            raise self.fault("ceil needs a division", slash, hint="write 'ceil(a / b)'")
        bottom = self.require_number(self.read(BINDING["*"]), slash)
        end = self.expect(")").end
        self.check_dividend(top)
        self.check_divisor(bottom)
        return self.check_range(Value(ceil_div(top.index, bottom.index), word.start, end))

    def read_call(self, word: Token) -> Value:
        """``min(a, b)``, ``max(a, b)`` or ``where(c, a, b)``."""
        form, function = CALLS[word.text]
        self.expect("(")
        args = [self.read()]
        while self.accept(","):
            args.append(self.read_argument(word, args))
        end = self.expect(")").end
        if len(args) != form.count(",") + 1:
            message = f"{word.text} takes {form.count(',') + 1} values, not {len(args)}"
            hint = self.say_nested(word.text, args) or f"write '{form}'"
            raise self.passage.fault("TG111", message, word.start, end, hint)
        numbers = args
        if word.text == "where":
            if not args[0].is_condition:
                text = shorten(self.passage.text[args[0].start : args[0].end])
                message = f"where picks by a condition, but '{text}' is a number"
                raise self.passage.fault("TG111", message, args[0].start, args[0].end)
            numbers = args[1:]
        for value in numbers:
            self.require_number(value, word)
        return self.check_range(Value(function(*(a.index for a in args)), word.start, end))

    def read_argument(self, word: Token, before: Sequence[Value]) -> Value:
        """A further argument of a call; an arm of ``where`` reads memory only where it is taken."""
        picks = self.reads is not None and word.text == "where" and before[0].is_condition
        if self.reads is None or not picks:
            return self.read()
        condition = before[0].index
        self.reads.arms.append(condition if len(before) == 1 else not_(condition))
        value = self.read()
        self.reads.arms.pop()
        return value

    def combine(self, operator: Token, left: Value, right: Value) -> Value:
        """One operator applied to two values, checked."""
        symbol = operator.text
        if symbol in ("and", "or"):
            a, b = self.require_condition(left, operator).index, self.require_condition(right, operator).index
            return Value(every(a, b) if symbol == "and" else any_of(a, b), left.start, right.end, True)
        a, b = self.require_number(left, operator).index, self.require_number(right, operator).index
        if symbol in COMPARISONS:
            return Value(COMPARISONS[symbol](a, b), left.start, right.end, True)
        if symbol in ("//", "%"):
            self.check_dividend(left)
            self.check_divisor(right)
        functions: dict[str, Callable[[Index, Index], Index]] = {"+": add, "-": sub, "*": mul, "//": div, "%": mod}
        return self.check_range(Value(functions[symbol](a, b), left.start, right.end))

    def check_divisor(self, value: Value) -> None:
        if least(value.index) < 1:
            text = self.passage.text[value.start : value.end]
            what = "is 0" if isinstance(value.index, int) else "may be 0"
            hint = "" if isinstance(value.index, int) else "max(.., 1) never is"
            raise self.passage.fault("TG112", f"the divisor '{shorten(text)}' {what}", value.start, value.end, hint)

    def check_dividend(self, value: Value) -> None:
        """A negative number is refused here; what varies is judged where it stands, which may be nowhere that runs."""
        if isinstance(value.index, int) and value.index < 0:
            text = shorten(self.passage.text[value.start : value.end])
            message = f"the dividend '{text}' is {value.index}: what is divided is never negative"
            raise self.passage.fault("TG112", message, value.start, value.end)

    def check_range(self, value: Value) -> Value:
        text = shorten(self.passage.text[value.start : value.end])
        is_launched = self.is_size and not isinstance(value.index, int)
        if (bound(value.index) > _VALUE_LIMIT and not is_launched) or least(value.index) < -_VALUE_LIMIT:
            raise self.passage.fault(
                "TG112", f"'{text}' may not fit 63 bits", value.start, value.end, "give params a 'max'"
            )
        return value

    def require_condition(self, value: Value, operator: Token) -> Value:
        if not value.is_condition:
            text = shorten(self.passage.text[value.start : value.end])
            raise self.passage.fault(
                "TG111", f"'{operator.text}' joins conditions, but '{text}' is a number", value.start, value.end
            )
        return value

    def require_number(self, value: Value, operator: Token) -> Value:
        if value.is_condition:
            text = shorten(self.passage.text[value.start : value.end])
            raise self.passage.fault(
                "TG111", f"'{operator.text}' takes numbers, but '{text}' is a condition", value.start, value.end
            )
        return value


CALLS: dict[str, tuple[str, Callable[..., Index]]] = {
    "min": ("min(a, b)", minimum), "max": ("max(a, b)", maximum), "where": ("where(c, a, b)", select),
}  # fmt: skip


def parse_value(passage: Passage, names: Names, is_size: bool = False, reads: Reads | None = None) -> Value:
    """All of ``passage`` as one expression; ``is_size`` and ``reads`` as a Parser has them.

    >>> page = Passage("ceil(M / 64) * 2", lambda start, end: None)
    >>> parse_value(page, Names({"M": 100})).index
    4
    """
    parser = Parser(passage, names, split_tokens(passage), is_size=is_size, reads=reads)
    if parser.next.kind == "end":
        raise passage.fault("TG111", "an expression is missing here")
    value = parser.read()
    if parser.next.kind != "end":
        raise parser.misplaced()
    return value


def read_number(
    node: Node, names: Names, what: str, is_size: bool = False, may_be_negative: bool = False,
    reads: Reads | None = None,
) -> Index:  # fmt: skip
    """An integer or an expression of one; ``what`` says in a message what it is for, the rest as a Parser has it."""
    if isinstance(node, Scalar) and node.value is None:
        raise Flawed("TG007", f"{what} is missing", node.mark, "write a number or an expression")
    if not isinstance(node, Scalar) or not isinstance(node.value, (int, str)) or isinstance(node.value, bool):
        message = f"{what} must be an integer or an expression, not {describe_node(node)}"
        raise Flawed("TG103", message, node.mark, say_number(node))
    if isinstance(node.value, int):
        return check_integer(node, what)
    value = parse_value(node.passage, names, is_size, reads)
    if value.is_condition:
        raise Flawed("TG103", f"{what} must be a number, but this is a condition", node.mark)
    if bound(value.index) <= 0 and not may_be_negative:
        message = f"{what} must not be negative, but is {bound(value.index) - 1}"
        raise node.passage.fault("TG112", message, value.start, value.end)
    return value.index


def check_integer(node: Scalar, what: str) -> int:
    """A literal integer that is not negative and fits 63 bits."""
    number = int(node.value)
    if number < 0:
        raise Flawed("TG106", f"{what} must not be negative, but is {number}", node.mark)
    if number >= _VALUE_LIMIT:
        raise Flawed("TG106", f"{what} does not fit 63 bits", node.mark)
    return number


def read_constant(node: Node, names: Names, what: str) -> int:
    """As ``read_number``, for what must be known when the kernel is built."""
    index = read_number(node, names, what)
    if isinstance(index, (Var, Formula)):
        raise Flawed("TG112", f"{what} must be a compile-time constant, but is '{shorten(index)}'", node.mark)
    return index


def read_condition(node: Node, names: Names, key: str = "when") -> Index:
    """true, false or a condition."""
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        raise Flawed(
            "TG103",
            f"'{key}' must be a condition, not {describe_node(node)}",
            node.mark,
            f"for example '{key}: warpid == 0'",
        )
    value = parse_value(node.passage, names)
    if not value.is_condition:
        raise Flawed(
            "TG103",
            f"'{key}' must be a condition, but this is a number",
            node.mark,
            f"for example '{shorten(node.text)} == 0'",
        )
    return value.index
