"""TG442: which values integers have that a kernel computes."""

from __future__ import annotations

from tilegen.spec.rules.rule import Rule

_CLAMPED = (
    "buffers:\n"
    "  X: {{scope: global, dtype: int32, shape: [64]}}\n"
    "  Y: {{scope: global, dtype: int32, shape: [64]}}\n"
    '  r: {{scope: register, dtype: int32, shape: [64], layout: auto, values: "0 : 64"}}\n'
    "ops:\n"
    '  - elementwise: {{dst: r, expr: "{expr}"}}\n'
    "  - copy: {{src: r, dst: Y}}\n"
)
VALUE_RULES = {
    "TG442": Rule(
        "values that are not shown",
        "'values' of a buffer that ops write is proved, by the interval of each expression that is written there. "
        "Intervals follow sums, products, '//', '%', min, max, bits, and 'where' with what its condition says. They do "
        "not know that two values belong together: 'max(a - b, 0)' has a range, 'max(a, b) - b' has none. Write a "
        "clamp, a '%', or say 'values' of what is read.",
        _CLAMPED.format(expr="max(X, 0)"),
        _CLAMPED.format(expr="min(max(X, 0), 63)"),
    ),
}
