"""What doctest leaves out, and what the processes of a session share."""

from importlib.util import find_spec

import pytest

from tests.session import begin_session, end_session

# A module that imports Triton cannot be looked into where Triton is not installed.
collect_ignore = [] if find_spec("triton") else ["tilegen/bench/triton_kernels.py"]


def pytest_configure(config: pytest.Config) -> None:
    if begin_session():
        config.add_cleanup(end_session)
