"""A run of tuning in a process of its own, on the pretended device: ``python client.py SPEC FILE LOG``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tuning.pretended import Pretended

from tilegen.tuning import Devices, TuneWishes, tune

if __name__ == "__main__":
    spec, file, log = sys.argv[1:]
    tune(spec, file, TuneWishes(over={"T": (32, 64, 96, 128)}), Devices(Pretended(log, seconds=0.3), [{}]))
