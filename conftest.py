"""What doctest leaves out: a module that imports Triton cannot be looked into where Triton is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["tilegen/bench/triton_kernels.py"]
