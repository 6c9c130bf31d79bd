"""Special registers that are others at each reading: clocks. The machine has one for all of its SMs."""

from __future__ import annotations

from tilegen.ptx.launch import Array
from tilegen.ptx.machine import Machine
from tilegen.ptx.rows import Step
from tilegen.ptx.state import Lanes

CLOCKS = ("%clock", "%clock64", "%globaltimer")  # PTX ISA 9.0, Special Registers


def read_clock(machine: Machine, target: Array) -> Step:
    """Each reading is one more than the one before, whoever makes it: times have the order in which lanes ran."""

    def read(lanes: Lanes) -> None:
        machine.ticks += 1
        target[lanes.at] = machine.ticks

    return read
