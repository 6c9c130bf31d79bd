"""The NumPy meaning of a Plan, with happens-before: what its CTAs write, or the first fault."""

from tilegen.interpret.events import Event, Record
from tilegen.interpret.fault import Fault, FaultFound, Unsteady
from tilegen.interpret.run import Outcome, corners, interpret, record
from tilegen.interpret.sizes import SizedCtas, interpret_sizes, may_join_sizes

__all__ = [
    "Event", "Fault", "FaultFound", "Outcome", "Record", "SizedCtas", "Unsteady", "corners", "interpret",
    "interpret_sizes", "may_join_sizes", "record",
]  # fmt: skip
