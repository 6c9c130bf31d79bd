"""The functions that a tree uses, with how exact each is and who says so, in words."""

from __future__ import annotations

from collections.abc import Iterable

from tilegen.arithmetic.functions import FUNCTIONS
from tilegen.arithmetic.tree import Apply, Node, list_nodes


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
