"""What doctest leaves out, which cases of a sweep are slow, and what the processes of a session share."""

import gc
import os
from collections import defaultdict
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


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of each ``sweep(few)``, a few cases that are spread over all of them stay; the others are slow."""
    sweeps = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sweep") and not item.get_closest_marker("slow"):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    for cases in sweeps.values():
        few = cases[0].get_closest_marker("sweep").args[0]
        kept = {len(cases) * k // few for k in range(few)}
        for k, case in enumerate(cases):
            if k not in kept:
                case.add_marker("slow")


def pytest_collection_finish() -> None:
    """Thousands of collected tests live to the end: the collector need not walk through them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)
