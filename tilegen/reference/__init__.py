"""What a spec means, executed on physical images without a plan."""

from tilegen.reference.machine import Array, Input
from tilegen.reference.run import run_batches, run_reference

__all__ = ["Array", "Input", "run_batches", "run_reference"]
