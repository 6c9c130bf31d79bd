"""What a spec does that is right and seldom meant: names that nothing uses, an input that a result is written onto."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Items

from tilegen.errors import Diagnostic
from tilegen.scopes import SCOPES
from tilegen.spec.data import Call, Statement
from tilegen.spec.nodes import Mapping, Node, Sequence, list_words
from tilegen.spec.outline import walk_statements


def find_unused(root: Mapping, threads: int) -> tuple[Diagnostic, ...]:
    """Warnings for what nothing else names (TG123), and for lanes that have no thread (TG124).

    ``threads``: of a CTA. A spec without ops may leave everything unused: it is being written.
    """
    if not (isinstance(ops := root.get("ops"), Sequence) and ops.items):
        return ()
    said = tuple((value, frozenset(list_words(value))) for value in _list_values(root))
    sections = (("params", "param"), ("buffers", "buffer"), ("roles", "role"))
    found = [w for section, what in sections for w in find_unnamed(root, section, what, said)]
    found += _find_unread(ops)
    node, lanes = root.get("threads"), SCOPES["warp"].threads
    if node is not None and (rest := threads % lanes):
        message = f"{threads} threads leave {lanes - rest} of {lanes} lanes of the last warp without one"
        whole = [str(count) for count in (threads - rest, threads - rest + lanes) if count]
        hint = f"{' or '.join(whole)} threads fill every warp"
        found.append(Diagnostic("TG124", message, node.mark, hint, "warning"))
    return tuple(found)


def find_written_back(ops: Items[Statement]) -> tuple[Diagnostic, ...]:
    """Warnings (TG125) for arrays that were only read so far and get what the kernel has written into another array.

    Registers and shared memory that go back into the array that they came from are a kernel in place, and meant.
    """
    read, written, found = set[str](), set[str](), list[Diagnostic]()
    for call in (s for s in walk_statements(ops) if isinstance(s, Call)):
        sources = {r.buffer.root for r in call.read}
        for region in call.written:
            name = region.buffer.root
            if sources and sources <= written and name in read - written - sources:
                other = ", ".join(sorted(sources))
                message = f"'{name}' was only read so far, and gets here what was written into {other}"
                hint = "write a result into an array of its own"
                found.append(Diagnostic("TG125", message, region.mark or call.mark, hint, "warning"))
        read |= {r.buffer.root for r in call.read if r.buffer.traits.is_callers}
        written |= {r.buffer.root for r in call.written if r.buffer.traits.is_callers}
    return tuple(found)


def find_unnamed(
    root: Mapping, section: str, what: str, said: tuple[tuple[Node, frozenset[str]], ...]
) -> Iterator[Diagnostic]:
    """Warnings for what a section declares and no other value says; ``said``: all values with the words in them."""
    declared = root.get(section)
    if not isinstance(declared, Mapping):
        return
    for key, value in declared.entries:
        if not any(key.text in words for node, words in said if node is not value):
            message = f"nothing uses the {what} '{key.text}'"
            yield Diagnostic("TG123", message, key.mark, "remove it", "warning")


def _find_unread(node: Node) -> Iterator[Diagnostic]:
    """Warnings for names of 'with' that the expression beside them does not have."""
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _find_unread(item)
    elif isinstance(node, Mapping):
        given = node.get("with")
        said = [node[word] for word in ("expr", "epilogue", "index") if word in node]
        if isinstance(given, Mapping) and said:
            words = frozenset(word for value in said for word in list_words(value))
            for key, _ in given.entries:
                if key.text not in words:
                    message = f"the expression does not use '{key.text}' of 'with'"
                    yield Diagnostic("TG123", message, key.mark, "remove it", "warning")
        for _, value in node.entries:
            yield from _find_unread(value)


def _list_values(root: Mapping) -> Iterator[Node]:
    """Every value of the spec; of a section, those of its entries."""
    for _, value in root.entries:
        if isinstance(value, Mapping):
            yield from (inner for _, inner in value.entries)
        else:
            yield value
