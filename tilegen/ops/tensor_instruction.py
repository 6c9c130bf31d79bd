"""Which instruction a step of a product by tcgen05 is, as its descriptor says it."""

from __future__ import annotations

from tilegen.layouts import find_atom
from tilegen.plan import TensorMma
from tilegen.plan.instruction_descriptor import InstructionDescriptor


def describe_instruction(step: TensorMma) -> InstructionDescriptor:
    """The descriptor of the instruction that a step is."""
    atom = find_atom(step.atom)
    (m, n, _), factor = atom.shape, step.factor if atom.factors else 0
    rows = step.a_lies.rows * step.ctas if step.a_lies else m
    assert (atom.ctas, rows, step.columns) == (step.ctas, m, n), f"{step.atom} by {step.ctas} CTAs"
    a_along = step.a_lies.along if step.a_lies else "k"  # in tensor memory neighbours of a row are neighbours of a lane
    found = InstructionDescriptor(
        m, n, atom.a, atom.b, atom.c, a_along, step.b_lies.along, step.ctas == 2, atom.factors, factor, factor
    )
    assert not found.problem(), found.problem()
    return found
