"""What a spec means, executed on physical images without a plan."""

from tilegen.reference.machine import Array, Input, Writes
from tilegen.reference.run import run_batches, run_reference, run_with_writers

__all__ = ["Array", "Input", "Writes", "run_batches", "run_reference", "run_with_writers"]
