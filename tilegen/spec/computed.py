"""All of a text as what an op computes: names of values, and the value of each result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilegen.arithmetic import Literal, Node, count_written, list_nodes
from tilegen.arithmetic.functions import FLOATS
from tilegen.dtypes import is_held, say_range
from tilegen.near_words import find_near
from tilegen.plan import Param
from tilegen.spec.data import Expression, Region
from tilegen.spec.findings import Passage, shorten
from tilegen.spec.formulas import FLOAT, TOKEN, Collected, FormulaParser
from tilegen.spec.meeting import term_of
from tilegen.spec.names import Names, check_name
from tilegen.spec.words import Token, split_tokens

_MOST_NODES = 2000  # of all trees, the values of names written out


@dataclass(frozen=True)
class Known:
    """What names mean in an expression that computes: ``names`` are integers, and know that the others are there.

    ``operand(name)`` gives a region, or None. ``takes_parts``: a name may stand for a part of an array.
    """

    names: Names
    operand: Callable[[str], Region | None]
    params: Mapping[str, Param]
    takes_parts: bool = True


def parse_formula(
    passage: Passage, known: Known, extents: Sequence[int], results: Sequence[str] = (),
    collected: Collected | None = None,
) -> Expression:  # fmt: skip
    """All of ``passage`` as an expression that computes, behind names of values: ``t = x + y; t * t``.

    With names of ``results`` the text is nothing but values with names, among them each result:
    ``t = x + y; sum = t; square = t * t``. ``collected``: what other expressions of the op
    name. Raises Flawed TG105, TG107, TG108, TG111, TG112 or TG113 at its characters.
    """
    parser = FormulaParser(
        passage, known.names, split_tokens(passage, TOKEN),
        operand=known.operand, params=known.params, extents=extents, takes_parts=known.takes_parts,
        collected=Collected() if collected is None else collected,
    )  # fmt: skip
    if parser.next.kind == "end":
        raise passage.fault("TG111", "an expression is missing here")
    _read_definitions(parser, results)
    if results:
        _refuse_rest(parser, results)
        values = [parser.named[name] for name in results]
    else:
        values = [parser.read()]
        if parser.next.kind != "end":
            is_call = parser.next.text == "(" and parser.tokens[parser.at - 1].kind == "name"
            hint = parser.say_call(parser.tokens[parser.at - 1]) if is_call else parser.say_choice(parser.next)
            raise parser.fault(f"'{parser.next.text}' is not expected here", parser.next, hint=hint)
        _refuse_unread(parser, ())
    trees = tuple(parser.node_of(term_of(value)) for value in values)
    if (count := sum(map(count_written, trees))) > _MOST_NODES:
        message = f"with the values of names written out this has {count} parts; at most {_MOST_NODES} are computed"
        raise passage.fault("TG111", message, 0, len(passage.text), "keep a value in registers, by an op of its own")
    for tree in trees:
        _refuse_not_held(parser, tree)
    return Expression(trees, tuple(parser.collected.wholes), dict(parser.collected.operands), passage.text)


def _read_definitions(parser: FormulaParser, results: Sequence[str]) -> None:
    """NAME = E; as often as it stands there: names that stand for their values from there on."""
    while parser.next.kind == "name" and parser.tokens[parser.at + 1].text == "=":
        token = parser.advance()
        _refuse_taken(parser, token)
        parser.advance()
        parser.named[token.text] = parser.read()
        if token.text not in results:
            parser.unread[token.text] = token
        if parser.next.kind == "end" and results:
            return
        if parser.next.kind == "end":
            write = f"the last value has no name where 'dst' has none; 'dst: {{{token.text}: ..}}' gives it one"
            hint = write if parser.takes_parts else "the last value has no name"
            raise parser.fault("';' is missing at the end", parser.next, hint=hint)
        parser.expect(";")


def _refuse_taken(parser: FormulaParser, token: Token) -> None:
    """Raise TG107 or TG108 for a name that means something already."""
    locate = parser.passage.locate
    check_name(Passage(token.text, lambda a, b: locate(token.start + a, token.start + b)), "value")
    is_operand = parser.operand(token.text) is not None
    if is_operand or token.text in {*parser.named, *parser.names.values, *parser.params}:
        kind = "a value" if token.text in parser.named else "an operand" if is_operand else "a number"
        raise parser.fault(f"'{token.text}' already names {kind}", token, "TG108", "give the value another name")


def _refuse_rest(parser: FormulaParser, results: Sequence[str]) -> None:
    """Raise TG111 for what is no value with a name, for a name that nothing takes, and for a result without a value."""
    lacking = [name for name in results if name not in parser.named]
    if parser.next.kind != "end":
        hint = f"write '{lacking[0]} = ..'" if lacking else "remove it, or name it here and in 'dst'"
        raise parser.fault("'dst' has names, and this value has none", parser.next, hint=hint)
    if parser.tokens[parser.at - 1].text == ";":
        raise parser.fault("a value is missing behind ';'", parser.tokens[parser.at - 1], hint="remove the ';'")
    _refuse_unread(parser, lacking)
    if lacking:
        message = f"'{lacking[0]}' of 'dst' gets no value here"
        raise parser.passage.fault("TG111", message, hint=f"write '{lacking[0]} = ..', or remove it from 'dst'")


def _refuse_unread(parser: FormulaParser, lacking: Sequence[str]) -> None:
    """Raise TG111 for a value that is named and not used. ``lacking``: results without a value."""
    for name, token in parser.unread.items():
        near = find_near(name, lacking)
        hint = f"did you mean '{near}'?" if near else "remove it, with its value"
        raise parser.fault(f"nothing after it uses '{name}'", token, hint=hint)


def _refuse_not_held(parser: FormulaParser, tree: Node) -> None:
    """Raise TG112 at a number that its type would hold as infinity, or as 0: what it meets says which type that is."""
    for number in (n for n in list_nodes(tree) if isinstance(n, Literal) and n.type in FLOATS):
        if not is_held(number.value, number.type):
            token = next(t for t in parser.tokens if FLOAT.match(t.text) and float(t.text) == abs(number.value))
            message = f"{shorten(token.text)} is a {number.type} here, and {say_range(number.type)}"
            hint = "write inf for infinity, or compute with float64" if abs(number.value) > 1 else "write 0.0"
            raise parser.fault(message, token, "TG112", hint)
