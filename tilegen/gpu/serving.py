"""One process that runs kernels for others: they build, compile and compare, it copies, launches and copies back.

What a kernel reads and writes goes through memory that both processes have (Linux's memfd); words go through sockets.
A request brings a socket of its own for the answer. Where the server dies, or a kernel has faulted and no other runs in
its process, the request that it had is answered by that, and the next server takes those that wait.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.errors import Diagnostic, EnvironmentLack, ProofError, TilegenError
from tilegen.gpu.cubins import Cubin
from tilegen.gpu.device import Device, require_gpu
from tilegen.gpu.run import FAULT, GUARD_BYTES, GpuLaunch, Image, guard_images, judge_images, launch, run_started
from tilegen.side_by_side import end_processes, find_context, leave_ending_to_its_parent

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

_MOST_BYTES = 1 << 17  # of a message, below what a socket takes at once


@dataclass(frozen=True)
class GpuAccess:
    """Where a GPU is: the device, as ``require_gpu`` has it, and a run on it, as ``run_images`` does one."""

    require: Callable[[str | None], Device]
    run: Callable[[Cubin, GpuLaunch, Mapping[str, Image], Mapping[str, int]], Mapping[str, Image]]


class GpuServer:
    """A process that runs the GPU. Open it before anything in this process has touched the GPU, and close it.

    ``access`` is for processes that are forked after it was opened.
    """

    def __init__(self) -> None:
        self._requests, self._inbox = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.access = GpuAccess(partial(_ask_device, self._requests), partial(_ask_run, self._requests))
        self._process = self._start()

    def _start(self) -> ForkProcess:
        context = find_context()
        assert context is not None, "can_serve() was asked before"
        process = context.Process(target=_serve, args=(self._requests, self._inbox))
        process.start()
        return process

    def look(self) -> None:
        """Start another process where the last has ended; to be called some times a second."""
        if not self._process.is_alive():
            self._process.join()
            self._process = self._start()

    def close(self) -> None:
        end_processes([self._process])
        self._requests.close()
        self._inbox.close()


def can_serve() -> bool:
    """Whether this system has what a server takes: processes that fork, and memory that they share without a name."""
    return hasattr(os, "memfd_create") and hasattr(socket, "send_fds") and find_context() is not None


# ---------------------------------------------------------------- memory that both have
@dataclass(frozen=True)
class _Layout:
    """Where things lie in the shared memory: the cubin first, then each array as it starts and as it ends."""

    cubin_bytes: int
    arrays: tuple[tuple[str, int], ...]  # names, and bytes with guards

    @property
    def total_bytes(self) -> int:
        return self._begin + 2 * sum(_whole_pages(size) for _, size in self.arrays)

    @property
    def _begin(self) -> int:
        return max(mmap.PAGESIZE, _whole_pages(self.cubin_bytes))

    def views(self, memory: mmap.mmap) -> tuple[dict[str, Image], dict[str, Image]]:
        """The arrays before, and after."""
        at, found = self._begin, []
        for _ in range(2):
            views = {}
            for name, size in self.arrays:
                views[name] = np.frombuffer(memory, np.uint8, size, at)
                at += _whole_pages(size)
            found.append(views)
        return found[0], found[1]


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


# ---------------------------------------------------------------- who asks
def _ask_device(requests: socket.socket, arch: str | None = None) -> Device:
    device: Device = _ask(requests, ("require", arch))
    return device


def _ask_run(
    requests: socket.socket, cubin: Cubin, how: GpuLaunch, inputs: Mapping[str, Image], outputs: Mapping[str, int]
) -> dict[str, Image]:  # fmt: skip
    sizes = {name: inputs[name].nbytes if name in inputs else outputs[name] for name in how.arguments}
    layout = _Layout(len(cubin.image), tuple((name, size + 2 * GUARD_BYTES) for name, size in sizes.items()))
    handle = os.memfd_create("tilegen")
    try:
        os.ftruncate(handle, layout.total_bytes)
        memory = mmap.mmap(handle, layout.total_bytes)
        memory[: len(cubin.image)] = cubin.image
        before, after = layout.views(memory)
        guard_images(how.arguments, inputs, outputs, into=before)
        _ask(requests, ("run", replace(cubin, image=b"", log=""), how, layout), handle)
    finally:
        os.close(handle)
    return judge_images(how.kernel, before, after, outputs)  # the memory goes when the last view of it does


def _ask(requests: socket.socket, asked: tuple[Any, ...], *handles: int) -> Any:
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(mine):
        with closing(theirs):
            socket.send_fds(requests, [pickle.dumps(asked)], [theirs.fileno(), *handles])
        answer = mine.recv(_MOST_BYTES)
    if not answer:
        message = "the process that runs the GPU ended before it had an answer"
        raise EnvironmentLack(Diagnostic("TG505", message, hint="`tilegen doctor` tries the GPU"))
    found = pickle.loads(answer)
    if isinstance(found, Exception):
        raise found
    return found


# ---------------------------------------------------------------- who answers
def _serve(requests: socket.socket, inbox: socket.socket) -> None:
    """Answer until nobody can ask any more, or a kernel has faulted."""
    leave_ending_to_its_parent()
    requests.close()
    while True:
        asked, handles, _, _ = socket.recv_fds(inbox, _MOST_BYTES, 2)
        if not asked:
            return
        with closing(socket.socket(fileno=handles[0])) as reply:
            answer = _answer(pickle.loads(asked), handles[1:])
            for handle in handles[1:]:
                os.close(handle)
            with suppress(OSError):  # whoever asked has died
                reply.send(pickle.dumps(answer))
        if isinstance(answer, ProofError) and answer.diagnostics[0].code == FAULT:
            sys.exit(0)


def _answer(asked: tuple[Any, ...], handles: list[int]) -> Any:
    try:
        if asked[0] == "require":
            return require_gpu(asked[1])
        return _run(handles[0], *asked[1:])
    except TilegenError as error:
        return error
    except Exception as error:
        return RuntimeError(f"on the GPU: {type(error).__name__}: {error}"[: _MOST_BYTES // 4])


def _run(handle: int, cubin: Cubin, how: GpuLaunch, layout: _Layout) -> None:
    memory = mmap.mmap(handle, layout.total_bytes)
    before, after = layout.views(memory)
    whole = replace(cubin, image=memory[: layout.cubin_bytes])
    run_started(how.kernel, how.arguments, lambda arrays: launch(whole, how, arrays), before, after)
