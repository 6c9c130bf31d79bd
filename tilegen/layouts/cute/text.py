"""The text of CuTe layouts: ``parse`` reads what ``str`` writes, and what CuTe prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tilegen.errors import LayoutError, show_text
from tilegen.layouts.cute.swizzles import UNITS, ComposedLayout, Swizzle
from tilegen.layouts.cute.values import MAX_DEPTH, CuteLayout, IntTree

MAX_CHARACTERS = 4096

_TOKEN = re.compile(
    r"\s*(?:(?P<pointer>_?(?:[a-z]+_)?ptr\[\d+b\]\(\w*\))|(?P<int>-?_?\d+)|(?P<word>[A-Za-z]+)|(?P<symbol>[():,<>]))",
    re.ASCII,
)
_PRINTED = re.compile(r"\s*(?:(?:Sw?|Swizzle)<|_?(?:[a-z]+_)?ptr\[|[(_0-9])", re.ASCII)
_NOT_KNOWN = {
    "?": "an extent or a stride that is known when the kernel runs, and a layout here has numbers: put them in",
    "@": "a layout of coordinates places nothing in memory: paste the layout of the tensor itself",
    "*": "give the product of static and dynamic numbers as one number",
}


def is_printed(text: str) -> bool:
    """Whether a text begins as CuTe prints layouts.

    >>> is_printed("Sw<3,4,3> o (8,64):(64,1)"), is_printed("S[8:1]")
    (True, False)
    """
    return _PRINTED.match(text) is not None


def parse(text: str) -> CuteLayout | Swizzle | ComposedLayout:
    """The value of ``shape:stride``, ``Sw<B,M,S> unit`` or ``Sw<B,M,S> unit o offset o shape:stride``.

    A shape alone is column-major; ``_8`` is 8, as CuTe prints static ints; parentheses always make a tuple; a swizzle
    without unit counts elements; ``o offset`` may be left out. ``S<`` and ``Swizzle<`` stand for ``Sw<``. A pointer as
    CuTe prints one, ``smem_ptr[16b]`` and its address, may stand before the layout: a swizzle before it is one of
    bytes, and the layout counts its elements of so many bits. Raises LayoutError with ``span`` and ``code`` TG105 for
    what is none of these, TG201 for values that cannot be.

    >>> print(parse("(4,(2,3)):(2,(1,8))"), parse("(_4, _2)"), parse("Sw<3,4,3> bytes"))
    (4,(2,3)):(2,(1,8)) (4,2):(1,4) Sw<3,4,3> bytes
    >>> print(parse("Sw<3,3,3> o (8,64):(64,1)"))
    Sw<3,3,3> elements o 0 o (8,64):(64,1)
    >>> print(parse("Sw<1,4,3> o smem_ptr[16b]" "(unset) o (_64,_16):(_16,_1)"))
    Sw<1,3,3> elements o 0 o (64,16):(16,1)
    """
    if len(text) > MAX_CHARACTERS:
        raise LayoutError(f"a layout has at most {MAX_CHARACTERS} characters", span=(0, len(text)), code="TG105")
    with show_text(text):
        return _Parser(text).read()


class _Parser:
    """Recursive descent over (kind, text, start, end), one method for each form."""

    def __init__(self, text: str):
        self.tokens: list[tuple[str, str, int, int]] = []
        self.at = 0
        end = len(text.rstrip())
        place = 0
        while place < end:
            found = _TOKEN.match(text, place)
            if not found or not found.lastgroup:
                at = place + len(text[place:]) - len(text[place:].lstrip())
                message, hint = f"{text[at]!r} has no meaning in a CuTe layout", _NOT_KNOWN.get(text[at], "")
                raise LayoutError(message, span=(at, at + 1), hint=hint, code="TG105")
            kind = found.lastgroup
            self.tokens.append((kind, found[kind], found.start(kind), found.end()))
            place = found.end()
        self.tokens.append(("end", "the end", end, end + 1))

    def accept(self, *texts: str) -> str | None:
        kind, text, _, _ = self.tokens[self.at]
        if kind == "end" or text not in texts:
            return None
        self.at += 1
        return text

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.refuse(f"'{text}'")

    def refuse(self, expected: str) -> LayoutError:
        _, text, start, end = self.tokens[self.at]
        return LayoutError(f"expected {expected}, found {text}", span=(start, end), code="TG105")

    def located(self, start: int, build: Callable[[], Any]) -> Any:
        """``build()``, whose LayoutError gets the text from token ``start`` to here as its place."""
        try:
            return build()
        except LayoutError as error:
            if error.span is None:
                error.span = (self.tokens[start][2], self.tokens[max(start, self.at - 1)][3])
            raise

    def read(self) -> CuteLayout | Swizzle | ComposedLayout:
        if self.pointer() is not None:
            self.expect("o")
        value = self.swizzled() if self.accept("Sw", "S", "Swizzle") else self.layout()
        if self.tokens[self.at][0] != "end":
            raise self.refuse("the end")
        return value

    def pointer(self) -> int | None:
        """The bits of what a pointer points to, if one stands here."""
        kind, text, _, _ = self.tokens[self.at]
        if kind != "pointer":
            return None
        self.at += 1
        return int(text.partition("[")[2].partition("b")[0])

    def swizzled(self) -> Swizzle | ComposedLayout:
        start = self.at - 1
        self.expect("<")
        numbers = [self.integer()]
        while self.accept(","):
            numbers.append(self.integer())
        if len(numbers) != 3:
            raise self.refuse("three numbers B,M,S")
        self.expect(">")
        unit = self.accept(*UNITS)
        has_pointer = self.tokens[self.at + (self.tokens[self.at][1] == "o")][0] == "pointer"
        own = unit or ("bytes" if has_pointer else "elements")
        swizzle: Swizzle = self.located(start, lambda: Swizzle(numbers[0], numbers[1], numbers[2], own))
        is_over = self.accept("o")
        if has_pointer:
            elem_bits = self.pointer() or 8
            swizzle = self.located(start, lambda: swizzle.in_elements(elem_bits))
            is_over = self.accept("o")
        if not is_over:
            return swizzle
        offset = 0
        if self.tokens[self.at][0] == "int" and self.tokens[self.at + 1][1] == "o":
            offset = self.integer()
            self.expect("o")
        layout = self.layout()
        composed: ComposedLayout = self.located(start, lambda: ComposedLayout(swizzle, offset, layout))
        return composed

    def layout(self) -> CuteLayout:
        start = self.at
        shape = self.tree()
        stride = self.tree() if self.accept(":") else None
        layout: CuteLayout = self.located(start, lambda: CuteLayout(shape, stride))  # type: ignore[arg-type]
        return layout

    def tree(self, depth: int = 0) -> IntTree:
        if not self.accept("("):
            return self.integer()
        if depth == MAX_DEPTH:
            raise self.refuse(f"at most {MAX_DEPTH} nested parentheses")
        branches = [self.tree(depth + 1)]
        while self.accept(","):
            if self.tokens[self.at][1] == ")":
                break  # Python's one-tuple, (4,)
            branches.append(self.tree(depth + 1))
        self.expect(")")
        return tuple(branches)

    def integer(self) -> int:
        kind, text, start, end = self.tokens[self.at]
        if kind != "int":
            raise self.refuse("an integer")
        self.at += 1
        if end - start > 20:
            raise LayoutError("the number is too large", span=(start, end), code="TG105")
        return int(text.replace("_", ""))
