"""Functions of the user's own, which ``--against module:function`` names."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tilegen.near_words import suggest
from tilegen.proofs.against import refuse

_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")


def names_function(text: str) -> bool:
    """Whether a word is written as module:function.

    >>> names_function("mine:softmax"), names_function("torch.compile")
    (True, False)
    """
    return _NAMED.match(text) is not None


def find_function(text: str) -> Callable[..., Any]:
    """The function that ``module:function`` names; modules are looked for in the working directory first.

    Raises InputError TG604.
    """
    module, colon, name = text.partition(":")
    if not colon or not module or not name:
        raise refuse(f"'{text}' is not written as module:function", "write --against my_meanings:softmax")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name, None)
    except Exception as error:
        hint = f"without .py: --against {module[:-3]}:{name}" if module.endswith(".py") else ""
        raise refuse(f"module '{module}' cannot be imported: {type(error).__name__}: {error}", hint) from None
    if not callable(found):
        own = [n for n, one in vars(import_module(module)).items() if callable(one) and not n.startswith("_")]
        raise refuse(f"module '{module}' has no function '{name}'", suggest(name, own))
    function: Callable[..., Any] = found
    return function
