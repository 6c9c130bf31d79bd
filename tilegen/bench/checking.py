"""Right before fast: the kernel and its peers against what the spec means, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilegen import gpu
from tilegen.bench.meaning import Meaning, NotApplicable, Peer, Prepared, Task
from tilegen.bench.measuring import Candidate, Session
from tilegen.bench.peers import Absent, describe_absence
from tilegen.errors import Diagnostic, ProofError
from tilegen.gpu.call.arrays import dense_strides
from tilegen.pipeline import Built
from tilegen.verifying import verify_gpu

SMALL_BYTES = 4 << 20  # up to here NumPy's meaning of the whole spec is asked as well


def expect_target(session: Session, task: Task) -> Any:
    """What the target of the first set must hold, by a plain loop over its bytes; None without a meaning."""
    if isinstance(task.meaning, str):
        return None
    meaning, (source, target) = task.meaning, task.pairs[0]
    strides = dense_strides(meaning.shape)
    wanted = gpu.allocate_bytes(target.nbytes)
    gpu.gather_image(
        session.watch.instruments, source, wanted, meaning.target_shape, [strides[a] for a in meaning.axes],
        meaning.elem_bytes,
    )  # fmt: skip
    return wanted


def check_kernel(session: Session, built: Built, task: Task, kernel: Candidate, expected: Any, seed: int | None) -> str:
    """How the kernel was found to be right; no seed: NumPy has said so before. Raises ProofError TG421 if it is not."""
    checks = []
    if seed is None:
        checks.append("against the spec's meaning in NumPy, before")
    elif expected is None or expected.nbytes <= SMALL_BYTES:
        verify_gpu(built, [seed])
        checks.append("against the spec's meaning in NumPy")
    if expected is not None:
        meaning = task.meaning
        assert isinstance(meaning, Meaning)
        if found := _run_and_compare(session, task, kernel, expected):
            raise ProofError(Diagnostic("TG421", describe_difference(meaning, found)))
        checks.append("against a plain loop on the GPU")
    return "every byte " + " and ".join(checks)


def _check_peer(session: Session, task: Task, peer: Peer, prepared: Prepared, expected: Any) -> None:
    """Raises NotApplicable for a wrong result; the copy writes to buffers of its own."""
    if expected is None or not peer.writes_target:
        return
    if found := _run_and_compare(session, task, prepared.candidate, expected):
        raise NotApplicable(f"{found.count} bytes of its result are wrong")


def _run_and_compare(session: Session, task: Task, candidate: Candidate, expected: Any) -> gpu.Difference | None:
    """Poison the target of the first set, run once, compare."""
    target = task.pairs[0][1]
    gpu.fill_bytes(target, gpu.POISON)
    candidate(0)
    return gpu.compare_images(session.watch.instruments, target, expected)


def describe_difference(meaning: Meaning, found: gpu.Difference) -> str:
    """Where a target differs, in its own coordinates.

    >>> describe_difference(Meaning("X", "Y", (4, 8), (1, 0), 4), gpu.Difference(2, 20))
    'Y[1, 1] (byte 20) is not what the spec means; 2 of 128 bytes differ'
    """
    rest, at = found.first_byte // meaning.elem_bytes, []
    for stride in dense_strides(meaning.target_shape):
        at.append(rest // stride)
        rest %= stride
    return (
        f"{meaning.target}{at} (byte {found.first_byte}) is not what the spec means; "
        f"{found.count} of {meaning.array_bytes} bytes differ"
    )


def prepare_peers(
    session: Session, task: Task, peers: Sequence[Peer], expected: Any
) -> tuple[dict[str, Prepared], list[Absent]]:
    """The peers that run and are right, and why the others are not here."""
    ready: dict[str, Prepared] = {}
    absent = []
    for peer in peers:
        try:
            prepared = peer.prepare(task)
            _check_peer(session, task, peer, prepared, expected)
            ready[peer.name] = prepared
        except Exception as error:  # whatever a library raises: the kernel is measured without it
            absent.append(describe_absence(peer.name, error))
    return ready, absent
