"""What instructions act on: lanes and memory, clocks and shadows, and what is under way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilegen.ptx.defined import list_read
from tilegen.ptx.held import Barrier, Flight, Meetings, ProductsInFlight
from tilegen.ptx.launch import Array, Cta, Launch, Region
from tilegen.ptx.order import PREVIOUS, Order, Shadow
from tilegen.ptx.state import WARP, Fault, Lanes, State
from tilegen.ptx.tensor_memory import TensorMemory
from tilegen.ptx.text import KernelText, list_names

_WIDEST = 16


class Machine:
    """Some clusters of a launch. ``shadows``: of the arrays that are written, over all of the launch's clusters."""

    def __init__(self, kernel: KernelText, launch: Launch, regions: Mapping[str, Region], ctas: Sequence[Cta]):
        self.state = state = State(kernel, launch, regions, ctas)
        self.order = Order(state)
        self.read_names = frozenset(name for one in kernel.code for name in list_read(one))
        self.narrow = {space: find_granule(kernel, space) for space in ("shared", "global")}
        granules = len(state.shared) // self.narrow["shared"]
        self.shared_shadow = Shadow(self.order, granules, self.narrow["shared"])
        self.shared_views = {w: state.shared.view(f"u{w}") for w in (1, 2, 4, 8)}
        granule = self.narrow["global"]
        self.global_shadows = {
            r.name: Shadow(self.order, -(-len(r.bytes) // granule), granule, r.kept)
            for r in regions.values() if r.is_writable
        }  # fmt: skip
        self.barriers: dict[int, Barrier] = {}
        self.reserved = np.zeros(len(state.shared) // 8, bool)
        self.tried = np.full(state.total, -1)  # the try_wait whose time limit has passed for a lane
        self.flights: list[Flight] = []
        self.committed = np.zeros(state.total, np.int64)  # groups of cp.async of each lane
        self.bulk: dict[int, list[list[int]]] = {}  # of each lane its groups of bulk copies: their stamps
        self.products: dict[int, ProductsInFlight] = {}
        self.tensor = TensorMemory(self.order)
        self.matrices: dict[object, Array] = {}
        self.released: dict[int, Array] = {}  # what st.release told, by address
        self.meetings = Meetings()
        self.ticks = 0  # how often a clock was read
        self.wake: Callable[[], None] = lambda: None
        self.resume: Callable[[Array, int], None] = lambda idx, at: None

    def part(self, lanes: Lanes, mine: slice | Array) -> Lanes:
        """Some of these lanes, by their positions."""
        return lanes if isinstance(mine, slice) else Lanes(lanes.idx[mine], self.state.total)

    def names_of(self, operand: str) -> list[str]:
        return list_names(operand)

    def warpgroup(self, first: int) -> ProductsInFlight:
        return self.products.setdefault(first, ProductsInFlight())

    def reserve(self, byte: int, size: int) -> None:
        self.reserved[byte // 8 : -(-(byte + size) // 8)] = True

    def refuse_barriers(self, byte: Array, size: int) -> None:
        """mbarriers are opaque: no other instruction may touch them."""
        if not self.barriers:
            return
        last = byte + size - 1
        if self.reserved[byte // 8].any() or self.reserved[last // 8].any():
            raise Fault("an access to the bytes of an mbarrier")

    def require_previous(self, idx: Array) -> None:
        """Global memory is that of the kernels before, until the wait for them is known."""
        order = self.order
        if self.state.launch.overlaps and (order.know[idx, order.n + PREVIOUS] == 0).any():
            raise Fault("global memory is accessed before griddepcontrol.wait: the kernels before may still run")

    def check_mask(self, lanes: Lanes, mask: Array, source: Array) -> None:
        lane = (lanes.idx % WARP).astype(np.uint32)
        if not ((mask >> lane) & 1).all():
            raise Fault("a lane that is not in its membermask")
        if not ((mask >> source.astype(np.uint32)) & 1).all():
            raise Fault("a value is taken from a lane that is not in the membermask")

    def list_unfinished(self) -> str:
        """What is still under way when all lanes have ended, or nothing."""
        state, order = self.state, self.order
        if self.flights:
            return "the kernel ends, and copies of cp.async have not been waited for"
        if any(stamps for groups in self.bulk.values() for stamps in groups):
            return "the kernel ends, and bulk copies have not been waited for: they may still read shared memory"
        if any(group for one in self.products.values() for group in one.groups):
            return "the kernel ends, and products of wgmma have not been waited for"
        if said := self.tensor.list_unfinished():
            return said
        if (
            state.launch.overlaps
            and (order.know[state.exists, order.n + PREVIOUS].reshape(len(state.ctas), -1).max(1) == 0).any()
        ):
            return "a CTA ends without griddepcontrol.wait: the next kernel would start before the last one has ended"
        if self.meetings.registers:
            warps = [self.meetings.registers.get(k, 0) for k in range(state.total // WARP)]
            if any(len(set(warps[k : k + 4])) > 1 for k in range(0, len(warps), 4)):
                return "setmaxnreg leaves warps of a warpgroup with different numbers of registers"
        for barrier in self.barriers.values():
            cta = barrier.byte // state.shared_bytes
            own = order.know[cta * state.padded : (cta + 1) * state.padded]
            if barrier.bytes:
                return "the kernel ends, and an mbarrier still counts bytes"
            if barrier.landed >= 0 and own[:, barrier.agent].max() <= barrier.landed:
                return "the kernel ends, and nobody has waited for a copy that reported to an mbarrier"
            lane, stamp, phase = barrier.remote
            if (
                lane >= 0
                and own[:, order.phase_column(barrier.agent)].max() <= phase
                and own[:, order.column[lane]].max() <= stamp
            ):
                return "a CTA may end before a peer of its cluster acts on its mbarrier"
        return ""


def find_granule(kernel: KernelText, space: str) -> int:
    """The bytes of the narrowest access to a state space that a kernel makes: what is remembered together."""
    found = _WIDEST
    for one in kernel.code:
        if one.op.startswith(("ld.param", "ldmatrix", "cp.async.bulk.t", "cp.async.bulk.c", "cp.async.bulk.w")):
            continue
        if one.op.startswith("cp.async.c") and not one.op.startswith("cp.async.commit"):
            found = min(found, int(one.operands[2], 0))
        elif one.op.startswith("tcgen05.alloc") and space == "shared":
            found = min(found, 4)  # an address
        elif one.op.startswith(("ld.", "st.", "atom.", "red.")):
            has = next((s for s in ("shared", "global", "local") if f".{s}" in one.op), space)
            if has == space:
                count = int(m[1]) if (m := re.search(r"\.v(\d)", one.op)) else 1
                bits = re.findall(r"\.[a-z]+?(\d+)(?:x2)?(?=\.|$)", one.op)
                width = int(bits[-1]) // 8 * (2 if one.op.endswith("x2") else 1)
                found = min(found, width * count)
    if space == "global" and any(one.op.startswith("cp.async.bulk.tensor") for one in kernel.code):
        found = min(found, 4)
    return found
