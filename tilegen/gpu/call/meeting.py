"""What is compared on every call: where arrays start, and whether what is written meets anything else."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.errors import CallError, Diagnostic
from tilegen.gpu.call.kinds import Kind, elem_bytes, element_form
from tilegen.gpu.call.overlap import share_elements


def check_alignment(kernel: str, kind: Kind, pointers: Sequence[int]) -> None:
    """Raises CallError (TG706) for arrays that do not start at a multiple of what their vectors need."""
    found = []
    for (terms, _, _), pointer in zip(kind.given, pointers, strict=True):
        past = pointer % terms.align_bytes
        if past:
            size = elem_bytes(terms)
            message = f"{kernel}: {terms.name} starts {past} bytes past a multiple of {terms.align_bytes} bytes"
            hint = f"copy it, or build a spec whose {terms.name} has 'align: {max(size, past & -past)}'"
            found.append(Diagnostic("TG706", message, terms.mark, hint))
    if found:
        raise CallError(found)


def check_overlap(kernel: str, kind: Kind, pair: tuple[int, int], pointers: Sequence[int]) -> None:
    """Raises CallError (TG707) where two arrays share an element; the bytes between their first and last do meet."""
    i, j = pair
    distance = (i, j, pointers[j] - pointers[i])
    if distance in kind.apart:
        return
    (a, seen_a, _), (b, seen_b, _) = kind.given[i], kind.given[j]
    forms = element_form(a, seen_a, kind.values), element_form(b, seen_b, kind.values)
    if share_elements(*forms, (pointers[i], pointers[j]), (elem_bytes(a), elem_bytes(b))):
        written, other = (b, a) if b.access != "in" else (a, b)
        does = "written" if other.access != "in" else "read"
        start = f"they start {abs(distance[2])} bytes apart" if distance[2] else "they start at the same byte"
        message = f"{kernel}: {written.name} is written while {other.name} is {does}, but they share memory: {start}"
        raise CallError(Diagnostic("TG707", message, written.mark, f"give {written.name} memory of its own"))
    kind.apart.add(distance)
