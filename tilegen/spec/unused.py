"""What a spec declares and does not use: nothing is wrong with it, but it is seldom meant."""

from __future__ import annotations

from collections.abc import Iterator

from tilegen.errors import Diagnostic
from tilegen.scopes import SCOPES
from tilegen.spec.nodes import Mapping, Node, Sequence, list_words


def find_unused(root: Mapping, threads: int) -> tuple[Diagnostic, ...]:
    """Warnings for params and buffers that nothing else names (TG123), and for lanes that have no thread (TG124).

    ``threads``: of a CTA. A spec without ops may leave everything unused: it is being written.
    """
    if not (isinstance(ops := root.get("ops"), Sequence) and ops.items):
        return ()
    found = [*_find_unnamed(root, "params", "param"), *_find_unnamed(root, "buffers", "buffer")]
    node, lanes = root.get("threads"), SCOPES["warp"].threads
    if node is not None and (rest := threads % lanes):
        message = f"{threads} threads leave {lanes - rest} of {lanes} lanes of the last warp without one"
        whole = [str(count) for count in (threads - rest, threads - rest + lanes) if count]
        hint = f"{' or '.join(whole)} threads fill every warp"
        found.append(Diagnostic("TG124", message, node.mark, hint, "warning"))
    return tuple(found)


def _find_unnamed(root: Mapping, section: str, what: str) -> Iterator[Diagnostic]:
    declared = root.get(section)
    if not isinstance(declared, Mapping):
        return
    for key, value in declared.entries:
        elsewhere = (word for node in _other_values(root, value) for word in list_words(node))
        if key.text not in elsewhere:
            message = f"nothing uses the {what} '{key.text}'"
            in_tmem = isinstance(value, Mapping) and "scope" in value and "tmem" in list_words(value["scope"])
            hint = "no op uses tensor memory yet, and the CUDA allocates none" if in_tmem else "remove it"
            yield Diagnostic("TG123", message, key.mark, hint, "warning")


def _other_values(root: Mapping, own: Node) -> Iterator[Node]:
    """Every value of the spec but that of a declaration."""
    for _, value in root.entries:
        if isinstance(value, Mapping):
            yield from (inner for _, inner in value.entries if inner is not own)
        else:
            yield value
