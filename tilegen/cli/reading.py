"""What a SPEC on the command line stands for: a file, or standard input."""

from __future__ import annotations

import sys

from tilegen.errors import Diagnostic, InputError
from tilegen.spec import NamedText
from tilegen.spec.sources import MAX_BYTES, decode_text

STDIN = "<stdin>"
Word = str | NamedText


def read_spec(word: str) -> Word:
    """The path, or for ``-`` the text of standard input. Raises InputError (TG001, TG002) where there is none."""
    if word != "-":
        return word
    if sys.stdin is None:
        raise InputError(Diagnostic("TG001", f"cannot read {STDIN}: it is closed"))
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(Diagnostic("TG001", f"cannot read {STDIN}: {error.strerror or error}")) from None
    return decode_text(data, STDIN)
