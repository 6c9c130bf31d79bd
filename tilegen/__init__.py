"""tilegen: readable CUDA kernels from YAML specs of buffers, layouts and tile operations.

    built = tilegen.build(tilegen.load("specs/permute_sf.yaml"))
    print(built.source)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilegen.calling import compile as compile
    from tilegen.gpu.call import Kernel as Kernel
    from tilegen.pipeline import Built as Built
    from tilegen.pipeline import build as build
    from tilegen.pipeline import explain as explain
    from tilegen.pipeline import load as load

__version__ = "0.1.0"
__all__ = ["Built", "Kernel", "build", "compile", "explain", "load"]

_LAZY = {name: "tilegen.pipeline" for name in ("Built", "build", "explain", "load")}
_LAZY |= {"compile": "tilegen.calling", "Kernel": "tilegen.gpu.call", "layouts": "", "access": ""}


def __getattr__(name: str) -> Any:
    """The API is imported when it is first used, so that ``tilegen --help`` loads none of it."""
    if name not in _LAZY:
        raise AttributeError(f"module 'tilegen' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name) if _LAZY[name] else import_module(f"tilegen.{name}")
