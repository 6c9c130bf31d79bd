"""torch.library that is none: it keeps what is registered, and calls it as torch's dispatcher does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from calls.pretended import Torch, aligned

from tilegen.dtypes import numpy_dtype


class Symbol:
    """A size that is not known, as a SymInt is while a graph is traced: its text is what was asked of it."""

    def __init__(self, text: str):
        self.text = text

    def _with(self, sign: str, other: Any) -> Symbol:
        return Symbol(f"({self.text} {sign} {other})")

    def __add__(self, other: Any) -> Symbol:
        return self._with("+", other)

    def __sub__(self, other: Any) -> Symbol:
        return self._with("-", other)

    def __mul__(self, other: Any) -> Symbol:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> Symbol:
        return Symbol(f"({other} * {self.text})")

    def __radd__(self, other: Any) -> Symbol:
        return Symbol(f"({other} + {self.text})")

    def __floordiv__(self, other: Any) -> Symbol:
        return self._with("//", other)

    def __mod__(self, other: Any) -> Symbol:
        return self._with("%", other)

    def __str__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        raise AssertionError(f"the value of {self.text} was asked for: it would be fixed in the graph")

    def __eq__(self, other: object) -> bool:
        raise AssertionError(f"{self.text} was compared: it would be fixed in the graph")

    __hash__ = None  # type: ignore[assignment]


def pick(name: str) -> Callable[[Any, Any], Any]:
    """torch.sym_min or torch.sym_max."""
    return lambda a, b: Symbol(f"{name}({a}, {b})")


class Definition:
    """What torch.library.custom_op returns; a call goes through autograd, as far as this room knows of it."""

    def __init__(self, torch: PretendedTorch, name: str, function: Any, mutates_args: Any, schema: str, tags: Any):
        self.torch, self.name, self.function, self.schema = torch, name, function, schema
        self.changed, self.tags = set(mutates_args), tags
        self.fake: Any = None
        self.backward: Any = None
        self.setup: Any = None

    def register_fake(self, function: Any) -> None:
        self.fake = function

    def register_autograd(self, backward: Any, *, setup_context: Any) -> None:
        assert not self.changed, "torch takes no backward of an operator that changes tensors"
        self.backward, self.setup = backward, setup_context

    def __call__(self, *tensors: Any, **params: Any) -> Any:
        guard = self.torch.guards.get(self.name)
        if guard:
            return guard(0b11, *tensors, **params)
        return self.run(*tensors, **params)

    def run(self, *tensors: Any, **params: Any) -> Any:
        made = self.function(*tensors, **params)
        needs = [t.requires_grad for t in tensors]
        if self.torch.grads and any(needs):
            ctx = Context((*needs, False))
            more = {"keyword_only_inputs": params} if "*" in self.schema else {}
            self.setup(ctx=ctx, inputs=tensors, output=made, **more)
            self.torch.contexts.append(ctx)
        return made

    def redispatch(self, keys: int, *tensors: Any, **params: Any) -> Any:
        assert keys == 0b10, "below autograd"
        return self.run(*tensors, **params)


class Context:
    """torch's ctx."""

    def __init__(self, needs: tuple[bool, ...]):
        self.needs_input_grad = needs

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors


class PretendedTorch(Torch):
    """torch with what an operator is registered by. ``grads``: whether grad mode is on."""

    def __init__(self) -> None:
        super().__init__()
        self.defined: dict[str, Definition] = {}
        self.guards: dict[str, Any] = {}
        self.contexts: list[Context] = []
        self.grads, self.capturing = True, False
        self.Tensor.requires_grad, self.Tensor.device = False, SimpleNamespace(type="cuda")
        for name in ("bfloat16", "float8_e4m3fn", "int8", "int32", "float64"):
            setattr(self, name, numpy_dtype(name))
        self.Tag = SimpleNamespace(needs_exact_strides="exact")
        self.cuda = SimpleNamespace(is_current_stream_capturing=lambda: self.capturing)
        self.sym_min, self.sym_max = pick("min"), pick("max")
        self._C._after_autograd_keyset = 0b10
        self.ops = Spaces(self)
        self.library = SimpleNamespace(custom_op=self.define, Library=lambda space, kind: PretendedLibrary(self, space))
        self.is_grad_enabled = lambda: self.grads

    def define(self, name: str, function: Any, /, *, mutates_args: Any, schema: str, tags: Any) -> Definition:
        self.defined[name] = Definition(self, name, function, mutates_args, schema, tags)
        return self.defined[name]

    def tensor(self, array: np.ndarray[Any, Any], requires_grad: bool = False, device: str = "cuda") -> Any:
        placed = aligned(array.shape, array.dtype)
        placed[...] = array
        made = self.Tensor(placed)
        made.requires_grad, made.is_cuda = requires_grad, device == "cuda"
        made.device = SimpleNamespace(type=device)
        made.contiguous = lambda: made
        return made


class Spaces:
    """torch.ops: by namespace, by name, the default overload."""

    def __init__(self, torch: PretendedTorch):
        self._torch = torch

    def __getattr__(self, space: str) -> Any:
        found = {n.partition("::")[2]: d for n, d in self._torch.defined.items() if n.startswith(f"{space}::")}
        return SimpleNamespace(**{name: SimpleNamespace(default=one) for name, one in found.items()})


class PretendedLibrary:
    """torch.library.Library: what it registers lasts as long as it does."""

    def __init__(self, torch: PretendedTorch, space: str):
        self.torch, self.space, self.names = torch, space, list[str]()

    def impl(self, name: str, function: Any, key: str, *, with_keyset: bool) -> None:
        assert key == "AutogradCUDA" and with_keyset
        assert f"{self.space}::{name}" not in self.torch.guards, "torch warns of a kernel that is overridden"
        self.torch.guards[f"{self.space}::{name}"] = function
        self.names.append(f"{self.space}::{name}")

    def __del__(self) -> None:
        for name in self.names:
            self.torch.guards.pop(name, None)


class Fake:
    """A tensor of a graph that is being traced."""

    def __init__(self, shape: Sequence[Any], strides: Sequence[Any], dtype: str = "float32", device: str = "cuda"):
        self.shape, self.strides, self.dtype = shape, strides, f"torch.{dtype}"
        self.device = SimpleNamespace(type=device)

    def stride(self) -> Sequence[Any]:
        return self.strides


def tracing() -> Any:
    """torch as a fake kernel needs it: tensors are what they were asked for."""
    dtypes: Mapping[str, str] = {n: n for n in ("float32", "bfloat16", "float8_e4m3fn", "int8")}
    return SimpleNamespace(
        empty_strided=lambda shape, strides, dtype, device: SimpleNamespace(
            shape=shape, strides=strides, dtype=dtype, device=device
        ),
        sym_min=pick("min"), sym_max=pick("max"), **dtypes,
    )  # fmt: skip
