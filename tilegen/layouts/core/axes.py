"""The named axes that a layout places elements on."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from tilegen.errors import LayoutError

# Hardware scopes from the inside out, and the threads in one of each that has a fixed number.
SCOPES = ("thread", "warp", "warpgroup", "cta")
THREADS_IN = {"thread": 1, "warp": 32, "warpgroup": 128}


@dataclass(frozen=True)
class Axis:
    """A named coordinate. A thread axis counts ``sub`` (thread, warp, ...) inside ``scope``; others have neither.

    >>> AXES["wid_in_wg"]
    Axis(name='wid_in_wg', kind='thread', scope='warpgroup', sub='warp')
    """

    name: str
    kind: str  # grid | cluster | thread | memory
    scope: str = ""
    sub: str = ""


_TABLE = (
    *(Axis(name, "grid") for name in ("bx", "by", "bz")),
    *(Axis(name, "cluster") for name in ("cbx", "cby", "cbz")),
    Axis("tx", "thread", "cta", "thread"),
    Axis("warpid", "thread", "cta", "warp"),
    Axis("laneid", "thread", "warp", "thread"),
    Axis("wgid", "thread", "cta", "warpgroup"),
    Axis("tid_in_wg", "thread", "warpgroup", "thread"),
    Axis("wid_in_wg", "thread", "warpgroup", "warp"),
    *(Axis(name, "memory") for name in ("m", "P", "F", "Bank", "TLane", "TCol")),
)
AXES = {axis.name: axis for axis in _TABLE}
AXIS_ORDER = {name: position for position, name in enumerate(AXES)}


def require_axis(name: str) -> Axis:
    """The axis of that name.

    Raises LayoutError (TG104) with the nearest name when there is none.

    >>> require_axis("laneid").scope
    'warp'
    """
    if axis := AXES.get(name):
        return axis
    near = get_close_matches(name, AXES, n=1) or get_close_matches(name.lower().replace("_", ""), AXES, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"axes are {' '.join(AXES)}"
    raise LayoutError(f"there is no axis '{name}'", hint=hint, code="TG104")
