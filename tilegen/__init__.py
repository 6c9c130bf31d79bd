"""tilegen: readable CUDA kernels from YAML specs of buffers, layouts and tile operations.

    built = tilegen.build(tilegen.load("specs/permute_sf.yaml"))
    print(built.source)

``load``, ``build``, ``explain``, ``verify`` and ``compile`` take a path, a text with a line break in it, a dict of what
the YAML would hold, or a Spec. What they raise is a TilegenError (SpecError, InputError, ProofError, EnvironmentLack;
CallError from a kernel), or a TypeError or ValueError for an argument that is none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilegen import notebooks

if TYPE_CHECKING:
    from tilegen import access as access
    from tilegen import layouts as layouts
    from tilegen.calling import compile as compile
    from tilegen.errors import CallError as CallError
    from tilegen.errors import EnvironmentLack as EnvironmentLack
    from tilegen.errors import InputError as InputError
    from tilegen.errors import LayoutError as LayoutError
    from tilegen.errors import ProofError as ProofError
    from tilegen.errors import SpecError as SpecError
    from tilegen.errors import TilegenError as TilegenError
    from tilegen.gpu.call import Kernel as Kernel
    from tilegen.operators.registering import torch_op as torch_op
    from tilegen.pipeline import Built as Built
    from tilegen.pipeline import BuiltProgram as BuiltProgram
    from tilegen.pipeline import build as build
    from tilegen.pipeline import expand as expand
    from tilegen.pipeline import explain as explain
    from tilegen.pipeline import load as load
    from tilegen.spec.data import Spec as Spec
    from tilegen.spec.printing import print_spec as print_spec
    from tilegen.spec.program import Program as Program
    from tilegen.verifying import Verified as Verified
    from tilegen.verifying import verify as verify

__version__ = "0.2.0"
__all__ = [
    "Built", "BuiltProgram", "CallError", "EnvironmentLack", "InputError", "Kernel", "LayoutError", "Program",
    "ProofError", "Spec", "SpecError", "TilegenError", "Verified", "access", "build", "compile", "expand",
    "explain", "layouts", "load", "print_spec", "torch_op", "verify",
]  # fmt: skip

_MODULES = {
    "tilegen.pipeline": ("Built", "BuiltProgram", "build", "expand", "explain", "load"),
    "tilegen.errors": (
        "CallError", "EnvironmentLack", "InputError", "LayoutError", "ProofError", "SpecError", "TilegenError",
    ),
    "tilegen.calling": ("compile",),
    "tilegen.gpu.call": ("Kernel",),
    "tilegen.operators.registering": ("torch_op",),
    "tilegen.spec.data": ("Spec",),
    "tilegen.spec.program": ("Program",),
    "tilegen.spec.printing": ("print_spec",),
    "tilegen.verifying": ("Verified", "verify"),
}  # fmt: skip
_LAZY = {name: module for module, names in _MODULES.items() for name in names} | {"layouts": "", "access": ""}


def _draw(value: Any) -> str | None:
    """A value as a notebook shows it."""
    drawn: str | None = import_module("tilegen.viewing").notebook_html(value)
    return drawn


notebooks.draw_with(_draw)


def __getattr__(name: str) -> Any:
    """The API is imported when it is first used, so that ``tilegen --help`` loads none of it."""
    if name not in _LAZY:
        raise AttributeError(f"module 'tilegen' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name) if _LAZY[name] else import_module(f"tilegen.{name}")


def __dir__() -> list[str]:
    """What completion shows: the API, imported or not, and none of what this module needs for itself."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
