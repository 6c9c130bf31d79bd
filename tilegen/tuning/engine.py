"""Processes that build and processes that measure, behind one client of dask.distributed: here, or at a scheduler."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from distributed import Client, Future, Nanny, Scheduler, SpecCluster, wait

from tilegen.errors import Diagnostic, EnvironmentLack, InputError
from tilegen.tuning.tasks import TOPIC, describe_process

GPU = "gpu"  # the resource of a process that measures
_START_SECONDS = 60
_ASK_SECONDS = 30


@dataclass(frozen=True)
class Workers:
    """The addresses of processes that are there: those that measure, and those that build."""

    measurers: tuple[str, ...]
    builders: tuple[str, ...]

    def __contains__(self, address: str) -> bool:
        return address in self.measurers or address in self.builders


@dataclass
class Engine:
    """A client, and what it has heard: ``last_words`` of processes that have left, by the candidate's key."""

    client: Client
    last_words: dict[str, tuple[str, str]] = field(default_factory=dict)

    def list_workers(self) -> Workers:
        """All processes that are there now."""
        found = self.client.scheduler_info(n_workers=-1)["workers"]
        measurers = tuple(address for address, one in found.items() if one["resources"].get(GPU))
        return Workers(measurers, tuple(address for address in found if address not in measurers))

    def submit(self, address: str, task: Callable[..., Any], *args: Any) -> Future:
        """A task for one process. It runs there or nowhere, so that what ends a process is never tried again."""
        return self.client.submit(task, *args, workers=[address], allow_other_workers=False, pure=False, retries=0)

    def ask(self, addresses: Sequence[str], task: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """What some processes answer, by address."""
        found = self.client.run(task, *args, workers=list(addresses), on_error="return")
        return dict(found)


def wait_for(futures: Sequence[Future], seconds: float) -> None:
    """Wait until one of some results is there, so many seconds at most."""
    with contextlib.suppress(TimeoutError):
        wait(futures, timeout=seconds, return_when="FIRST_COMPLETED")


@contextmanager
def open_engine(
    scheduler: str, measurers: Sequence[Mapping[str, str]], builders: int
) -> Iterator[Engine]:  # fmt: skip
    """The engine: at a scheduler, or where none is named with processes of its own.

    ``measurers``: the environment of each process that measures, such as the GPU that it sees. Raises InputError TG613
    for a scheduler that cannot be reached, or whose processes have other versions; EnvironmentLack TG502 where none
    measures, or none builds, and TG505 where processes here do not start.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # who leaves, and why, is said in our words
    with contextlib.ExitStack() as stack:
        if scheduler:
            client = stack.enter_context(_connect(scheduler))
        else:
            cluster = stack.enter_context(_start_here(measurers, builders))
            client = stack.enter_context(Client(cluster, set_as_default=False))
            client.wait_for_workers(len(measurers) + builders, timeout=_START_SECONDS)
        engine = Engine(client)
        client.subscribe_topic(TOPIC, lambda event: _hear(engine, event))
        _check_workers(engine)
        stack.enter_context(client.as_current())
        yield engine


def _hear(engine: Engine, event: Any) -> None:
    words = event[1]
    engine.last_words[words["key"]] = (words["outcome"], words["message"])


@contextmanager
def _connect(address: str) -> Iterator[Client]:
    try:
        client = Client(address, timeout=_ASK_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        said = str(error).partition("\n")[0]
        hint = "`dask scheduler` starts one, and prints its address"
        raise InputError(Diagnostic("TG613", f"no scheduler answers at {address}: {said}", hint=hint)) from None
    try:
        yield client
    finally:
        client.close()


def _start_here(measurers: Sequence[Mapping[str, str]], builders: int) -> SpecCluster:
    quiet = {"DASK_LOGGING__DISTRIBUTED": "critical", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    options = {"nthreads": 1, "memory_limit": 0, "host": "127.0.0.1", "dashboard": False, "silence_logs": 50}
    workers: dict[str, Any] = {
        f"measure-{k}": {"cls": Nanny, "options": {**options, "resources": {GPU: 1}, "env": {**quiet, **own}}}
        for k, own in enumerate(measurers)
    }
    workers |= {
        f"build-{k}": {"cls": Nanny, "options": {**options, "env": {**quiet, "CUDA_VISIBLE_DEVICES": ""}}}
        for k in range(builders)
    }
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard": False}}
    try:
        return SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.CRITICAL)
    except (RuntimeError, OSError, TimeoutError) as error:
        message = f"the {len(workers)} processes of tune do not start: {error}"
        hint = "take fewer by -j; a program that calls tune is a file, and guards it by `if __name__ == '__main__'`"
        raise EnvironmentLack(Diagnostic("TG505", message, hint=hint)) from error


def _check_workers(engine: Engine) -> None:
    """Raises EnvironmentLack where nobody builds or measures, InputError where versions disagree."""
    workers = engine.list_workers()
    everyone = [*workers.measurers, *workers.builders]
    for found, what, how in (
        (workers.measurers, "measures", f"dask worker ADDRESS --nthreads 1 --resources '{GPU}=1'"),
        (workers.builders, "builds", "dask worker ADDRESS --nthreads 1 --nworkers 8"),
    ):
        if not found:
            message = f"of the {len(everyone)} processes at the scheduler none {what}"
            raise EnvironmentLack(Diagnostic("TG502", message, hint=f"start one: `{how}`"))
    mine = describe_process()
    for address, theirs in engine.ask(everyone, describe_process).items():
        if not isinstance(theirs, dict):
            message = f"the process at {address} cannot load tilegen: {str(theirs)[:200]}"
            raise InputError(Diagnostic("TG613", message, hint="install this version of tilegen where it runs"))
        for name in mine:
            if theirs.get(name) != mine[name]:
                message = f"the process at {address} has {name} {theirs.get(name)}, and this one has {mine[name]}"
                raise InputError(Diagnostic("TG613", message, hint=f"install {name} {mine[name]} where it runs"))


def count_builders(jobs: int, measurers: int) -> int:
    """Processes that build beside those that measure.

    >>> count_builders(16, 1), count_builders(2, 4)
    (15, 1)
    """
    return max(1, jobs - measurers)


def visible_gpus(count: int) -> list[dict[str, str]]:
    """The environment of a process for each GPU that this one sees."""
    said = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in said.split(",") if name.strip()] or [str(k) for k in range(count)]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in names[:count]]
