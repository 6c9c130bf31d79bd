"""Threads and what they hold: lanes of several clusters side by side, registers as rows of one value a lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilegen.ptx.launch import Array, Cta, Launch, Region, TensorMap
from tilegen.ptx.text import Instruction, KernelText, PtxError

WARP = 32
GENERIC = {"shared": 7 << 44, "local": 6 << 44, "param": 5 << 44}  # where other state spaces lie in generic addresses
_SHARED_START = 1024
PEER = 24  # bits of an address in shared memory; above them the rank of the CTA in its cluster, plus 1
_NUMPY = {"b": "u", "u": "u", "s": "i", "f": "f"}
_POISON = 0xDEADBEEF


class Fault(Exception):
    """What a kernel does wrong, at an instruction; ``earlier`` is the other one, of a race."""

    def __init__(self, message: str, earlier: int = -1):
        self.message, self.earlier, self.at = message, earlier, -1
        super().__init__(message)


class Lanes:
    """Some lanes: ``at`` indexes rows (a slice where all are here), ``idx`` are their numbers, ascending."""

    __slots__ = ("at", "idx", "n", "whole")

    def __init__(self, idx: Array, total: int):
        self.idx, self.n = idx, len(idx)
        self.at: Any = slice(None) if len(idx) == total else idx
        self.whole = False  # whether all lanes of each warp that is here are


def numpy_type(suffix: str) -> np.dtype[Any]:
    """``u32`` -> uint32; ``b`` is unsigned, ``pred`` bool."""
    if suffix == "pred":
        return np.dtype(bool)
    return np.dtype(f"{_NUMPY[suffix[0]]}{int(suffix.lstrip('busf')) // 8}")


class State:
    """The lanes of ``ctas`` (whole clusters, one after another), and memory that they alone see.

    A CTA's lanes are padded to whole warps; ``exists`` says which there are.
    """

    def __init__(self, kernel: KernelText, launch: Launch, regions: Mapping[str, Region], ctas: Sequence[Cta]):
        self.kernel, self.launch, self.regions, self.ctas = kernel, launch, regions, list(ctas)
        self.padded = -(-launch.threads // WARP) * WARP
        self.total = self.padded * len(ctas)
        self.peers = int(np.prod(launch.cluster))
        self.lane = np.arange(self.total)
        self.cta = self.lane // self.padded
        self.tid = self.lane % self.padded
        self.exists = self.tid < launch.threads
        self.rank = self.cta % self.peers
        self.files = {1: np.zeros((0, 0), bool)}
        self._place_registers()
        self._place_variables()
        self.specials = self._make_specials()
        self.constants: dict[tuple[str, str], Array] = {}
        self.at = 0  # the instruction that runs
        self.sorted_regions = sorted(regions.values(), key=lambda r: r.base)
        self.bases = np.array([r.base for r in self.sorted_regions], np.int64)

    def _place_registers(self) -> None:
        self.rows: dict[str, Array] = {}
        by_bits: dict[int, list[str]] = {}
        for name, bits in self.kernel.registers.items():
            by_bits.setdefault(bits, []).append(name)
        for bits, names in by_bits.items():
            if bits == 1:
                file = np.zeros((len(names), self.total), bool)
            else:
                file = np.full((len(names), self.total), _POISON & (1 << bits) - 1, f"u{bits // 8}")
            self.rows |= dict(zip(names, file, strict=True))

    def _place_variables(self) -> None:
        sizes = {"shared": _SHARED_START, "local": 0, "const": 0, "global": 0}
        self.places: dict[str, tuple[str, int]] = {}
        for v in sorted(self.kernel.variables, key=lambda v: v.size == 0):
            start = -(-sizes[v.space] // max(v.align, 16)) * max(v.align, 16)
            self.places[v.name] = v.space, start
            sizes[v.space] = start + (v.size or self.launch.shared_bytes)
        if sizes["const"] or sizes["global"]:
            raise PtxError("variables in constant or global memory of the module are not carried out")
        self.shared_bytes = -(-sizes["shared"] // 128) * 128
        self.shared = np.full(self.shared_bytes * len(self.ctas), 0xCD, np.uint8)
        self.shared_end = -(-sizes["shared"] // 16) * 16
        self.local_bytes = -(-sizes["local"] // 16) * 16
        self.local = np.full(self.local_bytes * self.total, 0xCD, np.uint8)
        self.params: dict[str, tuple[int, Any]] = {}
        offset = 0
        if len(self.kernel.params) != len(self.launch.arguments):
            raise PtxError(
                f"{self.kernel.name} takes {len(self.kernel.params)} arguments, not {len(self.launch.arguments)}"
            )
        for p, given in zip(self.kernel.params, self.launch.arguments, strict=True):
            offset = -(-offset // p.align) * p.align
            self.params[p.name] = offset, given
            offset += p.size
        self.maps = {o: g for o, g in self.params.values() if isinstance(g, TensorMap)}

    def _make_specials(self) -> dict[str, Array]:
        x, y, z = self.launch.grid
        coordinates = np.array(self.ctas, np.int64)[self.cta]
        found: dict[str, Any] = {"%tid.x": self.tid, "%laneid": self.lane % WARP, "%cluster_ctarank": self.rank,
                                 "%warpid": self.tid // WARP, "%smid": self.cta, "%ntid.x": self.launch.threads,
                                 "%cluster_nctarank": self.peers, "WARP_SZ": WARP}  # fmt: skip
        for k, axis in enumerate("xyz"):
            side = self.launch.cluster[k]
            found |= {f"%ctaid.{axis}": coordinates[:, k], f"%nctaid.{axis}": (x, y, z)[k],
                      f"%cluster_ctaid.{axis}": coordinates[:, k] % side, f"%cluster_nctaid.{axis}": side,
                      f"%clusterid.{axis}": coordinates[:, k] // side}  # fmt: skip
            if axis != "x":
                found |= {f"%tid.{axis}": 0, f"%ntid.{axis}": 1}
        return {name: np.broadcast_to(np.asarray(v).astype(np.uint32), self.total) for name, v in found.items()}

    # ---- operands
    def row(self, name: str, dtype: np.dtype[Any]) -> Array:
        """A register, constant, special register or address as a row of this type, to read or to write in place."""
        held = self.rows.get(name)
        if held is None:
            held = self.specials.get(name)
        if held is not None:
            if held.dtype == dtype:
                return held
            if held.dtype.kind == "b" or dtype.kind == "b" or held.dtype.itemsize != dtype.itemsize:
                raise PtxError(f"{name} is of {held.dtype.itemsize * 8} bits, and taken as {dtype}")
            return held.view(dtype) if held.flags.c_contiguous else np.ascontiguousarray(held).view(dtype)
        return self.constant(name, dtype)

    def wide_row(self, name: str, kind: str) -> Array:
        """A register at its own width, of a kind of numbers (u, i, f): where it may be wider than the instruction."""
        held = self.rows.get(name)
        if held is None:
            held = self.specials.get(name)
        return self.constant(name, np.dtype(f"{kind}8")) if held is None else held.view(f"{kind}{held.dtype.itemsize}")

    def constant(self, text: str, dtype: np.dtype[Any]) -> Array:
        key = text, str(dtype)
        if key not in self.constants:
            self.constants[key] = np.broadcast_to(self._read_constant(text, dtype), self.total)
        return self.constants[key]

    def _read_constant(self, text: str, dtype: np.dtype[Any]) -> Array:
        if text in self.places or text in self.params:
            value = self.places[text][1] if text in self.places else self.params[text][0]
        elif text[:2] in ("0f", "0F", "0d", "0D"):
            value = int(text[2:], 16)
            if (text[1] in "fF" and dtype.itemsize == 8) or (text[1] in "dD" and dtype.itemsize == 4):
                narrow = np.array([value], "u4" if text[1] in "fF" else "u8").view("f4" if text[1] in "fF" else "f8")
                return narrow.astype(dtype)[0]  # type: ignore[no-any-return]
        elif "." in text:
            return np.array(float(text)).astype(dtype)
        else:
            try:
                value = int(text.rstrip("U"), 8 if text[0] == "0" and text[1:].isdigit() else 0)
            except ValueError:
                raise PtxError(f"{text!r} is no register, constant or variable") from None
        if dtype.kind == "b":
            return np.array(bool(value))
        bits = 8 * dtype.itemsize
        return np.array([value & (1 << bits) - 1], np.uint64).astype(f"u{dtype.itemsize}").view(dtype)[0]  # type: ignore[no-any-return]

    def param_value(self, name: str) -> Any:
        """What a parameter holds: an address, a number."""
        given = self.params[name][1]
        return self.regions[given].base if isinstance(given, str) else given

    def select(self, idx: Array) -> Lanes:
        """Lanes by their numbers."""
        lanes = Lanes(idx, self.total)
        warps, counts = np.unique(idx // WARP, return_counts=True)
        lanes.whole = bool((counts == self.exists.reshape(-1, WARP)[warps].sum(1)).all())
        return lanes

    def instruction(self, at: int) -> Instruction:
        return self.kernel.code[at]
