"""The state of CTAs that run together, and the numbers that hold in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilegen.arithmetic import TYPED, Domain
from tilegen.index import Index, evaluate, variables
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.layouts import bind
from tilegen.scopes import SCOPES, thread_variables
from tilegen.spec.data import Spec
from tilegen.spec.tables import Read

Array = NDArray[Any]
Input = Callable[[Array], Array]


class Writes(NamedTuple):
    """What an op writes of a global array: flat offsets, raw bits, and which of the CTAs that run writes each.

    ``function``: by which it puts them to the elements there, "" where they take their place.
    """

    at: Array
    bits: Array
    cta: Array
    function: str = ""
    claim: Any = None  # the call whose places are claimed to be distinct


class NotUniform(Exception):
    """What CTAs that run together do differs: they run one by one."""


@dataclass
class CtaBatch:
    """CTAs run together: bytes of each shared root, registers of each register root, what was written to arrays.

    ``role``: whose ``threads`` run. Roles have names and guards of their own, and memory in common. A name stands for
    an expression, or for the number that each CTA has.
    """

    spec: Spec
    ctas: Sequence[tuple[int, int, int]]
    inputs: Mapping[str, Input]
    env: Mapping[str, Any]  # runtime params
    trips: Trips = ALL_TRIPS
    domain: Domain = TYPED
    role: str = ""
    named: list[tuple[str, Index | Read | Array]] = field(default_factory=list)  # in sight, the outermost first
    guards: list[Index] = field(default_factory=list)  # conditions around
    sight: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # numbers by scope, with 0, 1, .. names
    shared: dict[str, Array] = field(default_factory=dict)
    registers: dict[str, Array] = field(default_factory=dict)
    rows: dict[str, Array] = field(default_factory=dict)  # by buffer, all elements of an image
    owed: dict[str, Any] = field(default_factory=dict)  # by root, the sums that nobody has looked at
    written: dict[str, list[Writes]] = field(default_factory=dict)
    put: dict[str, list[Any]] = field(default_factory=dict)  # by root, the updates that nobody has looked at

    @property
    def threads(self) -> int:
        """Those that run."""
        return self.spec.threads_of(self.role)

    @property
    def scalars(self) -> dict[str, float]:
        """The params of floating type."""
        return {p.name: float(p.default) for p in self.spec.params if p.var is None}


def numbers_in_sight(machine: CtaBatch, scope: str = "") -> Mapping[str, Any]:
    """The axes of a scope's instances (of the CTAs, an entry for each, without a scope), numbers, and the values of
    those names whose axes are known.
    """
    if scope not in machine.sight:
        machine.sight[scope] = [{**find_instances(machine, scope), **machine.env}]
    found = machine.sight[scope]
    for name, value in machine.named[len(found) - 1 :]:
        env = found[-1]
        if isinstance(value, np.ndarray):
            env = {**env, name: value[env["block"]] if scope else value}
        elif isinstance(value, Read):
            if value.names <= env.keys():
                env = {**env, name: read_element(machine, value, env)}
        elif all(v.name in env for v in variables(value)):
            env = {**env, name: evaluate(value, env)}
        found.append(env)
    return found[-1]


def read_element(machine: CtaBatch, read: Read, env: Mapping[str, Any]) -> Array | int:
    """What a let reads of an array, for each entry of the axes in ``env``; a number where its place names none."""
    array = machine.spec.buffer(read.array)
    numbers = {k: v for k, v in env.items() if not isinstance(v, np.ndarray)}
    shape = tuple(int(evaluate(n, numbers)) for n in array.shape)
    at = [np.clip(evaluate(x, env), 0, n - 1) for x, n in zip(read.at, shape, strict=True)]  # where nothing is read
    offset = bind(array.layout, numbers).place(at, shape).get("m", 0)
    bits = machine.inputs[array.name](np.asarray(offset, np.int64))
    found = machine.domain.integers(bits, array.dtype)
    value = np.where(evaluate(read.when, env), found, evaluate(read.otherwise, env))
    return value if value.ndim else int(value)


def forget_names(machine: CtaBatch, depth: int) -> None:
    """Only the outermost so many names are left."""
    del machine.named[depth:]
    for found in machine.sight.values():
        del found[depth + 1 :]


def cta_axes(machine: CtaBatch, each: int) -> dict[str, Array]:
    """The axes that number CTAs, ``each`` times per CTA."""
    out = {}
    for axis, column, n in zip("xyz", np.array(machine.ctas, np.int64).T, machine.spec.cluster, strict=True):
        out[f"b{axis}"] = np.repeat(column, each)
        out[f"cb{axis}"] = out[f"b{axis}"] % n
    return out


def find_instances(machine: CtaBatch, scope: str) -> dict[str, Any]:
    """The axes that number an op's instances, as arrays. ``instance`` is the first thread of each, over all CTAs.

    Without a scope, those that number CTAs.
    """
    if not scope:
        return cta_axes(machine, 1)
    threads = machine.threads
    first = np.arange(0, threads, SCOPES[scope].size(threads), dtype=np.int64)
    axes = {
        name: np.broadcast_to(evaluate(x, {"tx": first}), first.shape) for name, x in thread_variables(threads).items()
    }
    ctas = len(machine.ctas)
    block = np.repeat(np.arange(ctas), len(first))
    numbered = {name: np.tile(axes[name], ctas) for name in SCOPES[scope].axes} | cta_axes(machine, len(first))
    return {"instance": np.tile(first, ctas) + block * threads, "block": block} | numbered
