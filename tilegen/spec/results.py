"""The results of an op: their names, and places of their own."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping as Dict
from itertools import combinations

from tilegen.errors import Mark
from tilegen.index import sub
from tilegen.spec.data import Region
from tilegen.spec.findings import Findings, Flawed
from tilegen.spec.form import OpForm, list_fields, name_of_result
from tilegen.spec.names import check_name
from tilegen.spec.nodes import Mapping, find_node

_DST = "dst"  # the field whose names are those that an expression gives values to


def check_names(form: OpForm, node: Mapping, taken: Dict[str, Collection[str]], findings: Findings) -> bool:
    """Reports names of results that mean something else (TG107, TG108); true if none does. ``taken``: names, by what
    they are of.
    """
    given, before = node.get(_DST), len(findings.found)
    if _DST not in form.several or not isinstance(given, Mapping):
        return True
    for key, _ in given.entries:
        with findings.collect():
            check_name(key.passage, "result")
            for kind, names in taken.items():
                if key.text in names:
                    message = f"'{key.text}' already names {kind}"
                    raise Flawed("TG108", message, key.mark, "give the result another name")
    return len(findings.found) == before


def names_of_results(form: OpForm, regions: Dict[str, Region]) -> tuple[str, ...]:
    """The names that the results of a call have, () for the only one without a name."""
    fields = list_fields(regions, (_DST,)) if _DST in form.several else ()
    return tuple(name for name in map(name_of_result, fields) if name)


def find_result(name: str, regions: Dict[str, Region], mark: Mark) -> Region | None:
    """The region of a buffer that an expression names, where the op writes it. Raises TG111 where it writes several."""
    found = [regions[field] for field in list_fields(regions, (_DST,)) if regions[field].buffer.name == name]
    if len(found) > 1:
        hint = f"give the one that is meant a name: 'with: {{NAME: \"{found[0].text}\"}}'"
        raise Flawed("TG111", f"'{name}' is one region here, and several of it are written", mark, hint)
    return found[0] if found else None


def check_results(form: OpForm, regions: Dict[str, Region], node: Mapping, mark: Mark) -> None:
    """Each of several results has its own place. Raises TG212 for two that have elements in common wherever it runs."""
    for name in form.several:
        for one, other in combinations(list_fields(regions, (name,)), 2):
            a, b = regions[one], regions[other]
            if _always_meet(a, b):
                at = find_node(node, other)
                message = f"the results '{name_of_result(one)}' and '{name_of_result(other)}' overlap: "
                message += f"'{a.text}' and '{b.text}'"
                raise Flawed("TG212", message, at.mark if at else mark, "each result has elements of its own")


def _always_meet(a: Region, b: Region) -> bool:
    """Have two regions of one buffer elements in common, whatever their begins are? What another view has is not
    asked here: the proofs see whose bytes it writes.
    """
    if a.buffer.name != b.buffer.name:
        return False
    away = [sub(x, y) for x, y in zip(a.begins, b.begins, strict=True)]
    return all(isinstance(x, int) and -n < x < m for x, n, m in zip(away, a.lengths, b.lengths, strict=True))
