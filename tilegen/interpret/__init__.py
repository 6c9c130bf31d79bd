"""The NumPy meaning of a Plan, with happens-before: what its CTAs write, or the first fault."""

from tilegen.interpret.fault import Fault, FaultFound, Unsteady
from tilegen.interpret.run import Outcome, corners, interpret

__all__ = ["Fault", "FaultFound", "Outcome", "Unsteady", "corners", "interpret"]
