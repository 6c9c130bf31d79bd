"""A proved kernel again: more inputs in NumPy, or on a GPU, image against image, bit for bit."""

from tilegen.verifying.devices import SEEDS, choose_device, verify, verify_built
from tilegen.verifying.floats import choose_ctas, verify_floats_run
from tilegen.verifying.images import locate, make_image, verify_run
from tilegen.verifying.on_gpu import HERE, compile_for, launch_case, verify_gpu
from tilegen.verifying.programs import mean_together, takes_long_together
from tilegen.verifying.verified import Verified, reads_arrays

__all__ = [
    "HERE",
    "SEEDS",
    "Verified",
    "choose_ctas",
    "choose_device",
    "compile_for",
    "launch_case",
    "locate",
    "make_image",
    "mean_together",
    "reads_arrays",
    "takes_long_together",
    "verify",
    "verify_built",
    "verify_floats_run",
    "verify_gpu",
    "verify_run",
]
