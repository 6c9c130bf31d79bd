"""How the files of results are named."""

from __future__ import annotations

import re


def gpu_file(device: str) -> str:
    """The name of a device's file.

    >>> gpu_file("NVIDIA H200")
    'nvidia-h200.json'
    """
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-") + ".json"
