"""The NumPy meaning of a Plan, with happens-before: what its CTAs write, or the first fault."""

from tilegen.interpret.events import Event, Record
from tilegen.interpret.fault import Fault, FaultFound, Unsteady
from tilegen.interpret.run import Outcome, corners, interpret, record

__all__ = ["Event", "Fault", "FaultFound", "Outcome", "Record", "Unsteady", "corners", "interpret", "record"]
