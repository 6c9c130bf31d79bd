"""One module per op: its fields, its NumPy reference, its variants."""

from tilegen.ops import cast, copy, fill, permute_layout

FORMS = {m.FORM.name: m.FORM for m in (copy, fill, cast, permute_layout)}
