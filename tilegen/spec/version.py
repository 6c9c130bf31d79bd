"""The version of the language that a spec is written in: each adds to the one before, and means what that meant.

1: all up to clips at the end of an array. 2: clips at both ends, ``pad``, ``values``, ``choices``, computed params.
3: ``passes`` and workspaces.
"""

from __future__ import annotations

from tilegen.spec.findings import Findings
from tilegen.spec.nodes import Node, Scalar, describe_node

VERSION = 3  # the newest


def read_version(node: Node | None, findings: Findings) -> int:
    """The version that a spec says, 0 where it says none: then it is in the newest.

    Reports TG103 for no integer, TG106 for a version that is not known here.
    """
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return 0
    if not isinstance(node, Scalar) or not isinstance(node.value, int) or isinstance(node.value, bool):
        message = f"'version' must be an integer, not {describe_node(node)}"
        findings.report("TG103", message, node.mark, f"write 'version: {VERSION}'")
    elif not 1 <= node.value <= VERSION:
        message = f"version {node.value} of the language is not known here: this tilegen reads 1 to {VERSION}"
        findings.report("TG106", message, node.mark, "a newer tilegen reads it" if node.value > VERSION else "")
    else:
        return node.value
    return 0
