"""One module per op: its fields, its NumPy reference, its variants."""

from tilegen.ops import cast, copy, fill, permute_layout

_MODULES = (copy, fill, cast, permute_layout)
FORMS = {m.FORM.name: m.FORM for m in _MODULES}
VARIANTS = {m.FORM.name: m.VARIANTS for m in _MODULES}
QUEUES = {copy.FORM.name: copy.queue_of}  # of ops that may be asynchronous: the queue of a call
REFERENCES = {m.FORM.name: m.reference for m in _MODULES}
