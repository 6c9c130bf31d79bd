"""What is under way: mbarriers, copies, products."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilegen.ptx.launch import Array


@dataclass
class Barrier:
    """An mbarrier at a byte of ``state.shared``. ``phase``: how many have completed. Clocks are of its own CTA's
    arrivals, and of those whose scope is the cluster.
    """

    byte: int
    count: int
    lane: int  # that made it
    made: int
    agent: int
    pending: int
    own: Array
    wide: Array
    done_own: Array
    done_wide: Array
    fenced: int = -1  # the stamp of the fence behind its making
    phase: int = 0
    bytes: int = 0
    landed: int = -1  # the stamp of the last copy that reported to it
    remote: tuple[int, int, int] = (-1, 0, 0)  # the last lane of another CTA that acted on it, when, and in which phase


@dataclass
class Flight:
    """Copies of one cp.async: its lanes, what they fill, and the group of each; -1 where it has landed."""

    idx: Array
    granules: Array
    group: Array


@dataclass
class ProductsInFlight:
    """What a warpgroup has in flight: groups of (registers, shape, stamp), the last one not committed yet.

    ``unfenced``: registers that were touched since the last fence; None: there was no fence yet.
    """

    groups: list[list[tuple[frozenset[str], str, int]]] = field(default_factory=lambda: [[]])
    unfenced: set[str] | None = None

    def flying(self) -> dict[str, str]:
        return {name: shape for group in self.groups for names, shape, _ in group for name in names}


class Meetings:
    """Named barriers, and those of clusters: who has come so far, with the instruction that each waits at."""

    def __init__(self) -> None:
        self.named: dict[tuple[int, int], list[tuple[Array, int, Array | None]]] = {}
        self.counts: dict[tuple[int, int], int] = {}
        self.cluster_came: dict[int, set[int]] = {}
        self.cluster_clock: dict[int, Array] = {}
        self.cluster_done: dict[
            int, tuple[int, Array]
        ] = {}  # of a cluster: meetings so far, and what the last one told
        self.lane_meeting: dict[int, int] = {}
        self.registers: dict[int, int] = {}
        self.free: dict[int, int] = {}
