"""What doctest leaves out, and what the processes of a session share."""

import gc
import os
from importlib.util import find_spec

import pytest

from tests.session import begin_session, end_session

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is there: each process of a session has one core

# A module that imports Triton cannot be looked into where Triton is not installed.
WITH_TRITON = ["tilegen/bench/triton_kernels.py", "tilegen/bench/triton_products.py"]
collect_ignore = [] if find_spec("triton") else WITH_TRITON


def pytest_configure(config: pytest.Config) -> None:
    if begin_session():
        config.add_cleanup(end_session)


def pytest_collection_finish() -> None:
    """Thousands of collected tests live to the end: the collector need not walk through them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
