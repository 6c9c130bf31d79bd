"""TG218, TG444 to TG446: elements that go where other elements say."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule


def _scatter(promise: str, more: str) -> str:
    return (
        "grid: {bx: 2}\nbuffers:\n"
        "  X: {scope: global, dtype: float32, shape: [128]}\n"
        f'  P: {{scope: global, dtype: int32, shape: [128], values: "0 : 256"{promise}}}\n'
        "  Y: {scope: global, dtype: float32, shape: [256], partial: true}\n"
        "ops:\n"
        f'  - scatter: {{src: "X[bx*64 : +64]", index: "P[bx*64 : +64]", dst: Y{more}}}\n'
    )


def _claimed(index: str) -> str:
    return (
        "buffers:\n"
        "  X: {scope: global, dtype: float32, shape: [64]}\n"
        "  Y: {scope: global, dtype: float32, shape: [64]}\n"
        "  i: {scope: register, dtype: int32, shape: [64], layout: auto, distinct: true}\n"
        "ops:\n"
        f'  - elementwise: {{dst: i, expr: "{index}"}}\n'
        "  - scatter: {src: X, index: i, dst: Y, edge: clip}\n"
    )


def _rounded(expr: str) -> str:
    return (
        "buffers:\n"
        "  X: {scope: global, dtype: float32, shape: [64]}\n"
        "  H: {scope: global, dtype: int32, shape: [16]}\n"
        "  i: {scope: register, dtype: int32, shape: [64], layout: auto}\n"
        "ops:\n"
        f'  - elementwise: {{dst: i, expr: "{expr}"}}\n'
        "  - scatter: {expr: 1, index: i, dst: H, accumulate: add, edge: clip}\n"
    )


def _counts(index: str) -> str:
    return (
        "grid: {bx: ceil(N / 64)}\nparams: {N: {default: 100, max: 4096}}\nbuffers:\n"
        "  B: {scope: global, dtype: uint8, shape: [N]}\n"
        "  H: {scope: global, dtype: int32, shape: [256]}\n"
        "  b: {scope: register, dtype: uint8, shape: [64], layout: auto}\n"
        "ops:\n"
        '  - copy: {src: "B[bx*64 : +64]", dst: b, edge: clip}\n'
        f'  - scatter: {{expr: 1, index: "{index}", dst: H, accumulate: add, edge: clip}}\n'
    )


PLACE_RULES = {
    "TG218": Rule(
        "places that nothing tells apart",
        "A scatter stores each element where its index says. Two elements of one index would race, so somebody says "
        "that no two are the same: the caller of the array that the index is, or the author of registers, by "
        "'distinct: true'. With 'accumulate' an element takes all that goes there.",
        _scatter("", ""),
        _scatter(", distinct: true", ""),
    ),
    "TG444": Rule(
        "two elements go to one place",
        "'distinct: true' of registers claims that no two of all indices of a launch are the same. No proof shows it: "
        "each run looks at it, and this one has found two. Mend the index, or accumulate.",
        _claimed("index(0) // 2"),
        _claimed("63 - index(0)"),
    ),
    "TG445": Rule(
        "a place that comes of floats",
        "An index decides where an element goes, so it must be the same in every right kernel. Sums and products of "
        "floats differ in their last bits. Compare floats, choose between them, or cast those that an array holds.",
        _rounded("where(X * 2.0 < 1.0, 0, 1)"),
        _rounded("where(X < 0.5, 0, 1)"),
    ),
    "TG446": Rule(
        "zeros past an edge that are places",
        "A warning: what is read past the edge of an array is 0, and the index here comes of such a read. So place 0 "
        "gets what nobody means. 'where' gives what is past the edge a place outside of dst: 'edge: clip' drops it.",
        _counts("b"),
        _counts("where(bx*64 + index(0) < N, b, 256)"),
    ),
}
