"""One module per op: its fields, its NumPy reference, its variants. Ops on whole arrays have an expansion instead."""

from tilegen.ops import cast, copy, fill, permute, permute_layout
from tilegen.spec.form import Form

_MODULES = (copy, fill, cast, permute_layout)
_WHOLE = (permute,)
FORMS: dict[str, Form] = {m.FORM.name: m.FORM for m in _MODULES} | {m.FORM.name: m.FORM for m in _WHOLE}
VARIANTS = {m.FORM.name: m.VARIANTS for m in _MODULES}
QUEUES = {copy.FORM.name: copy.queue_of}  # of ops that may be asynchronous: the queue of a call
REFERENCES = {m.FORM.name: m.reference for m in _MODULES}
EXPANSIONS = {m.FORM.name: m.expand for m in _WHOLE}
SOURCES = {m.FORM.name: m.reference for m in _WHOLE}
