"""One GPU for several specs that are worked on side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from tilegen import gpu
from tilegen.cli.options import Manner
from tilegen.verifying import HERE


@contextmanager
def open_gpu(manner: Manner, specs: int) -> Iterator[tuple[int, gpu.GpuAccess, Callable[[], object]]]:
    """In how many processes so many specs are worked on that want a GPU, where these find it, and what ``tend`` does.

    Several processes have one that runs the GPU for them. Where this system has no such thing, and a GPU, they are one.
    """
    if min(manner.jobs, specs) < 2:
        yield manner.jobs, HERE, lambda: None
    elif not gpu.can_serve():
        yield 1 if gpu.find_device() else manner.jobs, HERE, lambda: None
    else:
        ahead = [gpu.find_compilers]  # loaded while the first specs are built, compilers are there for later ones
        with closing(gpu.GpuServer()) as server:

            def tend() -> None:
                server.look()
                if ahead:
                    ahead.pop()()

            yield manner.jobs, server.access, tend
