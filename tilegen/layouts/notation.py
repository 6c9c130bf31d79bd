"""The text form of layouts: ``parse`` reads what ``str`` writes, and the seeds' shorter forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from tilegen.errors import LayoutError, show_text
from tilegen.index import Index, add, bound, div, least, mod, mul, sub
from tilegen.layouts.constructors import ARGUMENTS, CONSTRUCTORS, MmaTiling, row_major, tile_mma, tiled_mma
from tilegen.layouts.core.iters import Iter, Iters, is_symbolic, require_axis, spell
from tilegen.layouts.core.values import ComposeLayout, Layout, SwizzleLayout, TileLayout
from tilegen.layouts.gluon import FORM_ARGUMENTS, FORMS, PaddedSharedLayout
from tilegen.layouts.words import NotationWord, split_words
from tilegen.near_words import find_near, suggest

MAX_CHARACTERS = 4096
MAX_DEPTH = 32  # of parentheses
MAX_ITERS = 64
MAX_OPERATORS = 256  # of integer expressions
MAX_VALUE = 1 << 62

_LATER = ("Layout", "CuTe")
_WORDS = {"True": True, "False": False, "None": None, "null": None}


def parse(text: str, names: Mapping[str, Index] | None = None) -> Layout:
    """The layout that ``text`` describes; extents, strides and offsets are integer expressions over ``names``.

    ``S[shape:strides] + R[shape:strides] + offset@axis``, ``Swizzle(M, B, S)``, ``Swizzle(M, B, S) o S[...]``,
    ``Compose(Swizzle(M, B, S), S[...])``, constructors by name such as ``mma_fragment('m16n8k16', 'A')``,
    ``PaddedSharedLayout(pairs, bases, ctas, shape)``, ``PaddedSharedLayout.with_identity_for(pairs, shape, order)``,
    ``LinearLayout(lane=[[0, 1], [1, 0]])``, Gluon's other layouts by name (values with ``to_linear(shape)``); a shape
    without strides is row-major. Raises LayoutError with ``span``, ``hint`` and ``code`` (TG104 unknown axis,
    TG105 notation, TG201 values that cannot be).

    >>> print(parse("S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid"))
    S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid
    >>> print(parse("S[(8, chunks*512)]", {"chunks": 2}))
    S[(8, 1024):(1024, 1)]
    """
    if len(text) > MAX_CHARACTERS:
        raise LayoutError(f"a layout has at most {MAX_CHARACTERS} characters", span=(0, len(text)), code="TG105")
    with show_text(text):
        return _Parser(text, names or {}).read()


def read_mma(text: str, names: Mapping[str, Index] | None = None) -> tuple[MmaTiling, str] | None:
    """The tiling and the operand of a text that is one call of tiled_mma; None for any other text.

    Raises LayoutError as ``parse`` does.

    >>> tiling, operand = read_mma("tiled_mma('fma.f32', (16, 16, 1), (R=4, R=4, null), 'C', (128, 128, 8))")
    >>> operand, tiling.threads
    ('C', 256)
    >>> read_mma("S[(8, 64)]") is None
    True
    """
    if not text.lstrip().startswith(tiled_mma.__name__):
        return None
    parse(text, names)
    parser = _Parser(text, names or {})
    name = parser.advance().text
    values, options = parser.arguments(set(ARGUMENTS[name]))
    given = signature(tiled_mma).bind(*values, **options).arguments
    operand = given.pop("operand")
    return tile_mma(**given), operand


class _Parser:
    """Recursive descent over the tokens, one method for each form."""

    def __init__(self, text: str, names: Mapping[str, Index]):
        self.tokens = split_words(text)
        self.names = names
        self.at = 0
        self.depth = 0
        self.operators = 0

    # ------------------------------------------------------------ tokens
    @property
    def token(self) -> NotationWord:
        return self.tokens[self.at]

    def advance(self) -> NotationWord:
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        if self.token.kind in ("symbol", "name") and self.token.text == text:
            self.advance()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.refuse(f"expected '{text}', found {self.found()}")

    def found(self) -> str:
        return "the end" if self.token.kind == "end" else f"'{self.token.text}'"

    def refuse(self, message: str, hint: str = "") -> LayoutError:
        token = self.token
        return LayoutError(message, span=(token.start, max(token.end, token.start + 1)), hint=hint, code="TG105")

    def located(self, start: int, build: Callable[[], Any]) -> Any:
        """``build()``, whose LayoutError gets the text from ``start`` to here as its place."""
        try:
            return build()
        except LayoutError as error:
            if error.span is None:
                error.span = (start, self.tokens[max(0, self.at - 1)].end)
            raise

    # ------------------------------------------------------------ layouts
    def read(self) -> Layout:
        layout = self.layout()
        if self.token.kind != "end":
            raise self.refuse(f"unexpected {self.found()} after the layout")
        return layout

    def layout(self) -> Layout:
        token = self.token
        forms: dict[str, Callable[[], Layout]] = {
            "S": self.tile, "Swizzle": self.swizzled, "SwizzleLayout": self.swizzled, "Compose": self.compose,
            "ComposeLayout": self.compose, **dict.fromkeys(CONSTRUCTORS, self.constructed),
            "PaddedSharedLayout": self.padded, "PaddedSharedLayout.with_identity_for": self.padded,
            **dict.fromkeys(FORMS, self.formed),
        }  # fmt: skip
        if token.kind == "name" and token.text in forms:
            return forms[token.text]()
        if token.text in _LATER or token.kind == "int" or token.text == "(":
            name = token.text if token.kind == "name" else "a layout in CuTe's form"
            raise LayoutError(f"{name} is not yet supported", span=(token.start, token.end))
        near = find_near(token.text, [*forms, "R"])
        hint = f"did you mean '{near}'?" if near else f"a layout starts with {', '.join(forms)}"
        raise self.refuse(f"expected a layout, found {self.found()}", hint)

    def tile(self) -> TileLayout:
        start = self.token.start
        shard = self.iters("S")
        replica: Iters = ()
        offset: list[tuple[str, Index]] = []
        while self.accept("+"):
            if self.token.text == "R":
                replica += self.iters("R")
            else:
                value, axis = self.term(), self.axis()
                offset.append((axis, value))
        return self.located(start, lambda: TileLayout(shard, replica, tuple(offset)))  # type: ignore[no-any-return]

    def iters(self, letter: str) -> Iters:
        start = self.token.start
        self.expect(letter)
        self.expect("[")
        shape = self.items(self.expression)
        strides = self.items(lambda: self.located(self.token.start, self.stride)) if self.accept(":") else None
        self.expect("]")
        if strides is None:
            return self.located(start, lambda: row_major(shape).shard)  # type: ignore[no-any-return]
        if len(shape) != len(strides):
            place = (start, self.tokens[self.at - 1].end)
            hint = "a stride for each extent: S[(8,4):(4,1)]"
            raise LayoutError(f"{len(shape)} extents but {len(strides)} strides", span=place, hint=hint)
        pairs = zip(shape, strides, strict=True)
        return self.located(start, lambda: tuple(Iter(n, s, axis) for n, (s, axis) in pairs))  # type: ignore[no-any-return]

    def stride(self) -> tuple[Index, str]:
        return self.expression(), self.axis()

    def axis(self) -> str:
        if not self.accept("@"):
            return "m"
        token = self.advance()
        if token.kind != "name":
            self.at -= token.kind != "end"
            raise self.refuse(f"expected an axis after '@', found {self.found()}")
        return self.located(self.tokens[self.at - 1].start, lambda: require_axis(token.text).name)  # type: ignore[no-any-return]

    def items(self, read: Callable[[], Any]) -> list[Any]:
        """One item, or a parenthesised list of them."""
        if not self.opens_list():
            return [read()]
        self.expect("(")
        items = [read()]
        while self.accept(","):
            if self.token.text == ")":
                break
            if len(items) == MAX_ITERS:
                raise self.refuse(f"a layout has at most {MAX_ITERS} iters")
            items.append(read())
        self.expect(")")
        return items

    def opens_list(self) -> bool:
        """Whether the parenthesis here holds a list: it has a comma of its own, or closes right before ':' or ']'."""
        depth = 0
        for at in range(self.at, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[at].text, 0)
            if depth == 0:
                return at > self.at and self.tokens[at + 1].text in (":", "]")
            if depth == 1 and self.tokens[at].text == ",":
                return True
        return False

    def swizzled(self) -> Layout:
        swizzle = self.swizzle()
        if not self.accept("o"):
            return swizzle
        return self.composed(swizzle)

    def swizzle(self) -> SwizzleLayout:
        start = self.token.start
        if not self.accept("SwizzleLayout"):
            self.expect("Swizzle")
        values, options = self.arguments({"per_element", "swizzle_len", "atom_len", "inner"})
        if len(values) + len(options.keys() - {"inner"}) != 3 or not all(isinstance(v, int) for v in values):
            raise LayoutError(
                "Swizzle takes three numbers of bits", span=(start, self.tokens[self.at - 1].end),
                hint="Swizzle(per_element, swizzle_len, atom_len), for example Swizzle(3, 3, 3)", code="TG105",
            )  # fmt: skip
        return self.located(start, lambda: _call(SwizzleLayout, values, options))  # type: ignore[no-any-return]

    def compose(self) -> ComposeLayout:
        self.advance()
        self.expect("(")
        swizzle = self.swizzle()
        self.expect(",")
        composed = self.composed(swizzle)
        self.expect(")")
        return composed

    def composed(self, swizzle: SwizzleLayout) -> ComposeLayout:
        start = self.token.start
        if self.token.text != "S" and self.token.text not in CONSTRUCTORS:
            raise self.refuse(f"a swizzle composes with a tile layout S[...], found {self.found()}")
        tile = self.layout()
        return self.located(start, lambda: ComposeLayout(swizzle, tile))  # type: ignore[no-any-return, arg-type]

    def constructed(self) -> Layout:
        token = self.advance()
        values, options = self.arguments(set(ARGUMENTS[token.text]))
        built = self.located(token.start, lambda: _call(CONSTRUCTORS[token.text], values, options))
        return self.composed(built) if isinstance(built, SwizzleLayout) and self.accept("o") else built

    def padded(self) -> PaddedSharedLayout:
        token = self.advance()
        if token.text == "PaddedSharedLayout":
            build, names = PaddedSharedLayout, {"interval_padding_pairs", "offset_bases", "cga_layout", "shape"}
        else:
            build = PaddedSharedLayout.with_identity_for  # type: ignore[assignment]
            names = {"interval_padding_pairs", "shape", "order", "cga_layout"}
        values, options = self.arguments(names)
        return self.located(token.start, lambda: _call(build, values, options))  # type: ignore[no-any-return]

    def formed(self) -> Any:
        token = self.advance()
        values, options = self.arguments(FORM_ARGUMENTS[token.text])
        return self.located(token.start, lambda: _call(FORMS[token.text], values, options))

    # ------------------------------------------------------------ calls
    def arguments(self, allowed: set[str] | None) -> tuple[list[Any], dict[str, Any]]:
        self.expect("(")
        values: list[Any] = []
        options: dict[str, Any] = {}
        while self.token.text != ")" or self.token.kind != "symbol":
            if self.token.kind == "name" and self.tokens[self.at + 1].text == "=":
                if (allowed is not None and self.token.text not in allowed) or self.token.text in options:
                    hint = f"arguments are {', '.join(sorted(allowed))}" if allowed else "each argument once"
                    raise self.refuse(f"no argument {self.found()}", hint)
                key = self.advance().text
                self.expect("=")
                options[key] = self.argument()
            elif options:
                raise self.refuse("a positional argument after a named one")
            else:
                values.append(self.argument())
            if not self.accept(","):
                break
            if len(values) > MAX_ITERS:
                raise self.refuse("too many arguments")
        self.expect(")")
        return values, options

    def argument(self) -> Any:
        if self.token.kind == "text":
            return self.advance().text[1:-1]
        if self.token.text in _WORDS and self.token.text not in self.names:
            return _WORDS[self.advance().text]
        if self.token.text == "(":
            return self.tuple_or_expression()
        if self.token.text == "[":
            return self.nested(self.token, self.list)
        if self.token.text in FORMS and self.token.kind == "name":
            return self.nested(self.token, self.formed)
        return self.expression()

    def list(self) -> Any:
        """[1, 0] or [[32, 1], [64, 2]]: lists of integer expressions, empty ones too."""
        items: Any = []
        self.expect("[")
        while self.token.text != "]":
            if len(items) == MAX_ITERS:
                raise self.refuse(f"a list has at most {MAX_ITERS} entries")
            items.append(self.argument())
            if not self.accept(","):
                break
        self.expect("]")
        return items

    def tuple_or_expression(self) -> Any:
        start = self.at
        self.expect("(")
        items = [self.nested(self.token, self.tuple_item)]
        if self.token.text == ",":
            while self.accept(",") and self.token.text != ")":
                if len(items) == MAX_ITERS:
                    raise self.refuse(f"a tuple has at most {MAX_ITERS} entries")
                items.append(self.nested(self.token, self.tuple_item))
            self.expect(")")
            return tuple(items)
        self.at = start
        return self.expression()

    def tuple_item(self) -> Any:
        """An expression, a text, None, a tuple, or R=4, which is its own text."""
        if self.token.text == "R" and self.tokens[self.at + 1].text == "=":
            self.at += 2
            return f"R={spell(self.expression())}"
        return self.argument()

    # ------------------------------------------------------------ integer expressions
    def expression(self) -> Index:
        value = self.term()
        while self.token.text in ("+", "-") and self.token.kind == "symbol":
            operator = self.advance()
            value = self.compute(operator, value, self.term())
        return value

    def term(self) -> Index:
        value = self.factor()
        while self.token.text in ("*", "//", "%") and self.token.kind == "symbol":
            operator = self.advance()
            value = self.compute(operator, value, self.factor())
        return value

    def factor(self) -> Index:
        token = self.advance()
        if token.kind == "int":
            return self.require_small(int(token.text) if len(token.text) < 20 else MAX_VALUE + 1, token)
        if token.kind == "name":
            return self.name(token)
        if token.text == "-" and token.kind == "symbol":
            return self.compute(token, 0, self.nested(token, self.factor))
        if token.text == "(" and token.kind == "symbol":
            value = self.nested(token, self.expression)
            self.expect(")")
            return value
        self.at -= token.kind != "end"
        raise self.refuse(f"expected a number or a name, found {self.found()}")

    def nested(self, token: NotationWord, read: Callable[[], Index]) -> Index:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LayoutError("parentheses nest too deeply", span=(token.start, token.end), code="TG105")
        value = read()
        self.depth -= 1
        return value

    def name(self, token: NotationWord) -> Index:
        if token.text in self.names:
            return self.names[token.text]
        hint = suggest(token.text, sorted(self.names)) or f"names are {'many' if self.names else 'none here'}"
        raise LayoutError(f"'{token.text}' is not defined", span=(token.start, token.end), hint=hint)

    def compute(self, operator: NotationWord, a: Index, b: Index) -> Index:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            raise LayoutError("too many operators", span=(operator.start, operator.end), code="TG105")
        if operator.text in ("//", "%") and (b == 0 if isinstance(b, int) else least(b) == 0):
            raise LayoutError(f"{spell(b)} may be zero", span=(operator.start, operator.end))
        if any(is_symbolic(x) for x in (a, b)) and any(isinstance(x, int) and x < 0 for x in (a, b)):
            raise LayoutError("a negative number", span=(operator.start, operator.end))
        functions: dict[str, Callable[[Index, Index], Index]] = {"+": add, "-": sub, "*": mul, "//": div, "%": mod}
        return self.require_small(functions[operator.text](a, b), operator)

    def require_small(self, value: Index, token: NotationWord) -> Index:
        if bound(value) > MAX_VALUE + 1 or (isinstance(value, int) and value < -MAX_VALUE):
            raise LayoutError("a number beyond 2**62", span=(token.start, token.end))
        return value


def _call(function: Callable[..., Any], values: list[Any], options: dict[str, Any]) -> Any:
    """Call with the user's arguments; a signature that does not fit is the user's error."""
    try:
        return function(*values, **options)
    except TypeError as error:
        raise LayoutError(f"{function.__name__}: {str(error).split(') ', 1)[-1]}", code="TG105") from None
