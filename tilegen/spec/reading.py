"""A spec's text to what it says: a Spec of one kernel, or a Program of several."""

from __future__ import annotations

from collections.abc import Mapping as Dict

from tilegen.near_words import find_near
from tilegen.spec.data import Spec
from tilegen.spec.findings import Findings
from tilegen.spec.form import Form
from tilegen.spec.loader import Reading, read_spec
from tilegen.spec.models import ProgramFields, SpecFields
from tilegen.spec.nodes import Mapping
from tilegen.spec.program import Program
from tilegen.spec.sources import OwnData, Source, compose_source, read_source


def load(
    source: Source,
    forms: Dict[str, Form],
    arch: str | None = None,
    overrides: Dict[str, int | float] | None = None,
) -> Spec | Program:
    """The checked spec of a file, of a text (a str with a newline in it), or of a dict; a Program if it has ``passes``.

    ``forms``: the ops by name. ``arch`` overrides the spec's; ``overrides`` sets compile-time params and the defaults
    of runtime ones. Raises InputError when the file cannot be read, SpecError with every finding otherwise, TypeError
    for a source that is none of these.

    >>> load("kernel: k\\nthreads: 32\\nops: []\\n", {}).kernel
    'k'
    """
    given = read_source(source)
    findings = Findings()
    root = compose_source(source, given, findings)
    reading = Reading(given, forms, arch, overrides or {})
    if not _has_passes(root):
        return read_spec(root, reading, findings)
    from tilegen.spec.passes import read_program  # few specs need it

    return read_program(root, reading, findings)


def load_own(data: OwnData, forms: Dict[str, Form]) -> Spec:
    """The checked spec of one kernel, or of one pass, that tilegen wrote itself."""
    given, findings = read_source(data), Findings()
    return read_spec(compose_source(data, given, findings), Reading(given, forms), findings, is_pass=True)


def _has_passes(root: Mapping) -> bool:
    """Does it say 'passes', or nearly?"""
    known = (*SpecFields.model_fields, *ProgramFields.model_fields)
    return any((key.text if key.text in known else find_near(key.text, known)) == "passes" for key, _ in root.entries)
