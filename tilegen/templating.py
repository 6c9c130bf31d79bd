"""The one door to Jinja: the directory of templates, of CUDA and of the specs that tilegen writes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def templates(comment: str) -> jinja2.Environment:
    """The directory of templates, whose statements stand alone on lines that ``comment`` and a per cent sign begin.

    ``comment`` is "//" for CUDA, and "#" for specs. Errors: a name that a template is not given is jinja2's
    UndefinedError when the template is rendered.

    >>> templates("#").from_string("#% for n in sizes\\n- {{ n }}\\n#% endfor\\n").render(sizes=[3, 4])
    '- 3\\n- 4\\n'
    """
    import jinja2  # only what writes something loads it

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), undefined=jinja2.StrictUndefined,
        line_statement_prefix=f"{comment}%", line_comment_prefix=f"{comment}#", block_start_string="<%",
        block_end_string="%>", comment_start_string="<#", comment_end_string="#>", trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, bytecode_cache=_compiled_templates(),
    )  # fmt: skip
    environment.globals["fail"] = _fail
    return environment


def read_template(name: str) -> str:
    """The text of a template of the directory."""
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def fill_in(text: str, **values: Any) -> str:
    """A text that is a template itself, with values in the places of their names.

    >>> fill_in("{{ a }} of {{ b }}", a=1, b=2)
    '1 of 2'
    """
    import jinja2

    template = jinja2.Template(text, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return str(template.render(**values))


def _compiled_templates() -> jinja2.BytecodeCache | None:
    """Compiled templates beside their texts, as Python keeps modules; None where that is not wanted or not possible."""
    folder = _TEMPLATES / "__pycache__"
    if sys.dont_write_bytecode:
        return None
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    if not os.access(folder, os.W_OK):
        return None
    import jinja2

    return jinja2.FileSystemBytecodeCache(str(folder))


def _fail(message: str) -> None:
    raise AssertionError(message)
