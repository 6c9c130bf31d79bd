"""A plan's text, compiled and run on the machine: the same way to run it as tests/text/run.py has by g++."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tests.faults.texts import change_text
from tilegen.dtypes import numpy_dtype
from tilegen.gpu import POISON, find_compilers, print_ptx
from tilegen.plan import Plan
from tilegen.ptx import KernelText, parse_kernel, read_launch, run_kernel
from tilegen.render import launch_info, render
from tilegen.scopes import whole_clusters

PINNED = "NVRTC 13.5"  # as the extra ``ptx`` of pyproject.toml has it: another release prints other PTX
COMPILER = str(find_compilers()[0].version) if find_compilers() else "no compiler"
HAS_NVRTC = PINNED in COMPILER


def give_input(image: np.ndarray[Any, Any], argument: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Put what is given of an array into its image; only what the kernel reads must be given."""
    name, size = argument["name"], argument["bytes"]
    if name in inputs:
        given = np.ascontiguousarray(inputs[name]).reshape(-1).view(np.uint8)
        assert given.size >= size, f"{name}: {given.size} bytes given, {size} needed"
        image[:] = given[:size]
    else:
        assert argument["access"] != "in", f"no input {name}"


def choose_ctas(
    plan: Plan, grid: Sequence[int], ctas: Sequence[tuple[int, int, int]] | None
) -> list[tuple[int, int, int]]:
    """These CTAs, or all, with the rest of their clusters."""
    wanted = list(product(*(range(n) for n in grid))) if ctas is None else list(ctas)
    return list(whole_clusters(wanted, plan.cluster))  # type: ignore[arg-type]


@dataclass(frozen=True)
class PtxRunner:
    """A kernel compiled to PTX."""

    plan: Plan
    kernel: KernelText

    def run(
        self,
        inputs: Mapping[str, Any],
        params: Mapping[str, int | float] | None = None,
        ctas: Sequence[tuple[int, int, int]] | None = None,
    ) -> dict[str, Any]:
        """The physical images of all arrays that the kernel may write, poison where it wrote nothing.

        ``inputs``: raw arrays by name (inputs, and inout arrays), any shape, as many elements as the memory spans.
        """
        info = launch_info(self.plan, params)
        arrays = [a for a in info["args"] if a["kind"] == "pointer"]
        images = {}
        for a in arrays:
            images[a["name"]] = np.full(a["bytes"], POISON, np.uint8)
            give_input(images[a["name"]], a, inputs)
        wanted = choose_ctas(self.plan, info["grid"], ctas)
        written = {a["name"]: numpy_dtype(a["dtype"]) for a in arrays if a["access"] != "in"}
        ran = run_kernel(self.kernel, read_launch(info), images, list(written), wanted)
        return {name: ran.images[name].view(dtype) for name, dtype in written.items()}


def compile_plan(plan: Plan, *pairs: tuple[str, str], before: str = "") -> PtxRunner:
    """The runner of a plan, whose text has each old part replaced by a new one, which must be there.

    ``before``: functions that the new parts call.
    """
    text = before + change_text(render(plan), *pairs)
    return PtxRunner(plan, parse_kernel(print_ptx(text, plan.arch, plan.name), plan.name))
