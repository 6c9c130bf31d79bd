"""Right before fast: the kernel and its peers against what the spec means: bit for bit, products against float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilegen import gpu
from tilegen.arithmetic.formats import FLOAT_FORMATS
from tilegen.bench.accuracy import Accuracy, Exact, count_unwritten, find_beyond, find_exact, measure_accuracy
from tilegen.bench.meaning import Meaning, NotApplicable, Peer, Prepared, Task, prepare_peer
from tilegen.bench.measuring import Candidate, Session
from tilegen.bench.peers import Absent, describe_absence
from tilegen.bench.products import Product, read_rows
from tilegen.dtypes import DTYPES
from tilegen.errors import Diagnostic, ProofError
from tilegen.gpu.call.arrays import dense_strides
from tilegen.pipeline import Built, BuiltProgram
from tilegen.spec.accumulated import list_unordered
from tilegen.verifying import verify_built

SMALL_BYTES = 4 << 20  # up to here NumPy's meaning of the whole spec is asked as well
SMALL_FLOPS = 1 << 31  # of a product: up to here, within its bounds
UNWRITTEN = 0xFF  # bytes of a NaN in every float type


def expect_target(session: Session, task: Task) -> Any:
    """What the target of the first set must hold, by a plain loop over its bytes; None without a meaning.

    Of a product it is an ``Exact``: some rows in float64, by a plain loop.
    """
    if isinstance(task.meaning, str):
        return None
    if isinstance(task.meaning, Product):
        return find_exact(session.watch.instruments, task.meaning, task.sets[0])
    meaning, (source, target) = task.meaning, task.pairs[0]
    strides = dense_strides(meaning.shape)
    wanted = gpu.allocate_bytes(target.nbytes)
    gpu.gather_image(
        session.watch.instruments, source, wanted, meaning.target_shape, [strides[a] for a in meaning.axes],
        meaning.elem_bytes,
    )  # fmt: skip
    return wanted


def asks_numpy(meaning: Meaning | Product | str) -> bool:
    """Whether NumPy's meaning of the whole spec is asked: where nothing else says it, and where that takes seconds."""
    if isinstance(meaning, Product):
        return meaning.flops <= SMALL_FLOPS
    return isinstance(meaning, str) or meaning.array_bytes <= SMALL_BYTES


def check_kernel(
    session: Session, built: Built | BuiltProgram, task: Task, kernel: Candidate, expected: Any, seed: int | None
) -> str:
    """How the kernel was found to be right; no seed: NumPy has said so before. Raises ProofError TG421 if it is not."""
    if isinstance(task.meaning, Product):
        small = seed is not None and asks_numpy(task.meaning)
        if small:
            verify_built(built, "gpu", [seed or 0])
        numpy = ", and within the bounds of the spec's meaning in NumPy" if small or seed is None else ""
        return f"{expected} against float64, every element written{numpy}"
    checks = []
    if seed is None:
        checks.append("against the spec's meaning in NumPy, before")
    elif asks_numpy(task.meaning):
        verify_built(built, "gpu", [seed])
        checks.append("against the spec's meaning in NumPy")
    if expected is not None:
        meaning = task.meaning
        assert isinstance(meaning, Meaning)
        if found := _run_and_compare(session, task, kernel, expected):
            raise ProofError(Diagnostic("TG421", describe_difference(meaning, found)))
        checks.append("against a plain loop on the GPU")
    return "every byte " + " and ".join(checks)


def check_passes(session: Session, built: BuiltProgram, images: Mapping[str, Any], passes: Sequence[Candidate]) -> str:
    """A launch of all passes beside the same passes with a wait behind each, on the first set, bit for bit.

    ``images``: the arrays and workspaces of that set. Raises ProofError TG421 where a launch leaves something else, as
    it may where a pass starts before the one before it has written. Sums of floats in any order are no two times the
    same bits: arrays of these are compared with the spec's meaning alone.
    """
    program, unordered = built.plan, list_unordered(built.spec)
    written = [m for m in program.arrays if m.access != "in"]
    starts = {m.name: gpu.keep_bytes(images[m.name]) for m in written if m.access == "inout"}
    alone: dict[str, Any] = {}
    for waits in (True, False):
        for name in (*(m.name for m in written), *(m.name for m in program.workspaces)):
            gpu.copy_bytes(starts[name], images[name]) if name in starts else gpu.fill_bytes(images[name], gpu.POISON)
        for one in passes:
            one(0)
            if waits:
                session.watch.synchronize()
        if waits:
            alone = {m.name: gpu.keep_bytes(images[m.name]) for m in written}
    for name, image in ((name, image) for name, image in alone.items() if name not in unordered):
        if found := gpu.compare_images(session.watch.instruments, images[name], image):
            message = f"{program.name}: a launch of all passes leaves other bytes in {name} than its passes one by one"
            where = f"byte {found.first_byte} is the first of {found.count} that differ"
            raise ProofError(Diagnostic("TG421", f"{message}: {where}"))
    return f"a launch leaves every byte that its {len(passes)} passes leave one by one"


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


# ---------------------------------------------------------------- products
def measure_kernel(task: Task, exact: Exact, kernel: Candidate) -> Accuracy:
    """How near to float64 the kernel is. Raises ProofError TG421 where it is not as near as its types allow."""
    product, image = exact.product, task.sets[0][exact.product.d.name]
    _start_target(exact, image)
    kernel(0)
    task.watch.synchronize()
    got = gpu.fetch_bytes(image)
    if exact.start is None and product.d.dtype in FLOAT_FORMATS:  # a NaN that no product is
        left = count_unwritten(got, product.d, DTYPES[product.d.dtype].bytes, UNWRITTEN)
        if left:
            what = f"{left} elements of {product.d.name} were not written" if left > 0 else (
                f"{-left} elements between those of {product.d.name} were written"
            )  # fmt: skip
            raise ProofError(Diagnostic("TG421", what))
    rows = read_rows(got, product.d, product, exact.rows)
    if found := find_beyond(exact, rows):
        raise ProofError(Diagnostic("TG421", found))
    return measure_accuracy(exact, rows)


def measure_peer(task: Task, exact: Exact, prepared: Prepared) -> Accuracy:
    """How near to float64 a peer is. Raises NotApplicable where it is further than its types allow."""
    if prepared.read is None:
        raise NotApplicable("its result cannot be read")
    image = task.sets[0][exact.product.d.name]
    _start_target(exact, image)
    rows = prepared.read(exact.rows)
    if found := find_beyond(exact, rows, prepared.is_whole, rounds_sums=True):
        raise NotApplicable(f"its result is wrong: {found}")
    return measure_accuracy(exact, rows, prepared.is_whole)


def _start_target(exact: Exact, image: Any) -> None:
    """Poison the target; where it is read again, give it what it had."""
    if exact.start is None:
        gpu.fill_bytes(image, UNWRITTEN if exact.product.d.dtype in FLOAT_FORMATS else gpu.POISON)
    else:
        gpu.copy_bytes(exact.start, image)


def prepare_peers(
    session: Session, task: Task, peers: Sequence[Peer], expected: Any
) -> tuple[dict[str, Prepared], list[Absent]]:
    """The peers that run and are right, and why the others are not here."""
    ready: dict[str, Prepared] = {}
    absent = []
    for peer in peers:
        try:
            prepared = prepare_peer(peer, task)
            if isinstance(expected, Exact):
                prepared = replace(prepared, accuracy=measure_peer(task, expected, prepared))
            else:
                _check_peer(session, task, peer, prepared, expected)
            ready[peer.name] = prepared
        except Exception as error:  # whatever a library raises: the kernel is measured without it
            absent.append(describe_absence(peer.name, error))
    return ready, absent
