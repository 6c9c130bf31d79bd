"""What a test session makes once for all of its processes: a large kernel takes seconds to prove, and many tests look.

The session's first process makes a folder for it, which ends with the session; nothing is taken from an earlier one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_FOLDER = "TILEGEN_TEST_SESSION"
_TRIES_ALL = os.environ.get("TILEGEN_TESTS") == "all"  # as `make slow` does


def examples(most: int) -> int:
    """How many examples hypothesis draws: all of them in `make slow`, an eighth in `make test`."""
    return most if _TRIES_ALL else max(10, most // 8)


def begin_session() -> bool:
    """Whether this process began it, and ends it; those that it starts have its environment."""
    if _FOLDER in os.environ:
        return False
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="tilegen-tests-")
    return True


def make_folder() -> str:
    """A folder that ends with the session."""
    return tempfile.mkdtemp(dir=os.environ[_FOLDER])


def end_session() -> None:
    shutil.rmtree(os.environ.pop(_FOLDER), ignore_errors=True)


def once(make: Callable[P, R]) -> Callable[P, R]:
    """Results by their arguments: of this process, else of another of the session; what is raised is not kept."""
    known: dict[Any, R] = {}

    @wraps(make)
    def found(*args: P.args, **kwargs: P.kwargs) -> R:
        key = args, tuple(sorted(kwargs.items()))
        if key not in known:
            module = make.__module__.removeprefix("tests.")  # one file, whichever folder it is looked for from
            known[key] = _share(f"{module}.{make.__qualname__} {key!r}", lambda: make(*args, **kwargs))
        return known[key]

    return found


def _share(key: str, make: Callable[[], Any]) -> Any:
    path = Path(os.environ[_FOLDER]) / hashlib.sha256(key.encode()).hexdigest()
    with open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # who comes second waits for the result
        file.seek(0)
        if text := file.read():
            return pickle.loads(text)
        result = make()
        file.write(pickle.dumps(result))
        return result
