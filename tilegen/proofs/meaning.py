"""What a kernel's CTAs write, run in NumPy, is what its spec means: the inputs, the cases, and the comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from tilegen.arithmetic import TYPED, Domain
from tilegen.arithmetic.modular import Modular, make_modular
from tilegen.arithmetic.running import Running, make_running
from tilegen.dtypes import DTYPES, FACTOR, bits_dtype, numpy_dtype, powers_of_two
from tilegen.errors import Diagnostic, ProofError
from tilegen.index import evaluate
from tilegen.index.recurrences import ALL_TRIPS, Trips
from tilegen.interpret import FaultFound, Record, interpret, record
from tilegen.interpret.run import Outcome
from tilegen.interpret.threads import Cta
from tilegen.ops import OPS, WHOLE_OPS
from tilegen.ops.op import CONVERTS, MOVES, WholeHere
from tilegen.plan import Param, Plan, arrays, default_values
from tilegen.proofs.accumulated import compare_updates
from tilegen.proofs.composed import draw_contents
from tilegen.proofs.described_faults import describe_fault
from tilegen.proofs.fillings import fill_largest
from tilegen.proofs.run_integers import find_run
from tilegen.reference import Array, Input, Writes, run_with_writers
from tilegen.scopes import whole_clusters
from tilegen.spec.data import Spec, WholeCall
from tilegen.spec.outline import is_possible, outline


def parameter_cases(spec: Spec) -> list[dict[str, int]]:
    """Values of the runtime parameters to prove: the defaults, the least, an odd edge case, few CTAs for that.

    Of the last two, those with which nobody would launch the kernel are left out.
    """
    own = [p for p in spec.params if p.var is not None]
    default = default_values(own)
    if not own:
        return [default]
    least = {p.name: max(p.var.step, p.var.least if p.launched is not None else 0) for p in own if p.var}
    edges = {p.name: (min(p.var.bound - 1, least[p.name] + 10 * p.var.step), p.var.step) for p in own if p.var}
    edge = {name: most // step * step for name, (most, step) in edges.items()}
    counts = [{**edge, p.name: n} for p in own for n in few_counts(p)]  # several trips, and not all CTAs as many
    cases = [default, least, edge, *counts]
    return [c for k, c in enumerate(cases) if c not in cases[:k] and (c == default or is_possible(spec, c))]


def few_counts(param: Param) -> list[int]:
    """Some counts of CTAs for a grid that is known at the launch alone: the fewest, as one cluster, and two more."""
    if param.launched is None or param.var is None:
        return []
    fewest, step = max(param.var.step, param.var.least), param.var.step
    return [n for n in (fewest, fewest + 2 * step) if n < param.var.bound]


_EXACT_INTEGERS = {"bool": 2, "float8_e4m3fn": 16, "float8_e5m2": 8, "bfloat16": 256, "float16": 2048, "int8": 127}


def exact_integers(dtype: str) -> int:
    """How many integers from 0 on a dtype holds exactly (not more than are of use)."""
    size = numpy_dtype(dtype).itemsize
    return _EXACT_INTEGERS.get(dtype) or (250 if size == 1 else 32000 if size == 2 else 1 << 24)


def input_pattern(name: str, dtype: str, seed: int = 1, limit: int = 1 << 24) -> Input:
    """Elements of a virtual array by index: integers below ``limit`` that the dtype holds exactly; or powers of two."""
    numpy_type, most = numpy_dtype(dtype), np.uint64(min(limit, exact_integers(dtype)))
    salt = np.uint64(int.from_bytes(hashlib.sha256(f"{name} {seed}".encode()).digest()[:8], "little") | 1)

    def values(index: Array) -> Array:
        with np.errstate(over="ignore"):
            mixed = (index.astype(np.uint64) + salt) * np.uint64(0x9E3779B97F4A7C15)
        if dtype == FACTOR:
            return powers_of_two((mixed >> np.uint64(33)).astype(np.int64))
        return ((mixed >> np.uint64(33)) % most).astype(np.float64).astype(numpy_type)

    return values


def inputs_of(spec: Spec, plan: Plan, seed: int = 1) -> dict[str, Input]:
    """A pattern for every global array that the kernel reads; where values are converted, every dtype holds them."""
    limit = exact_limit(spec)
    return {m.name: input_pattern(m.name, m.dtype, seed, limit) for m in arrays(plan) if m.access != "out"}


def proving_domain(spec: Spec) -> Domain:
    """Where the spec only moves bits, they are bits; else numbers modulo a prime, beside what names places."""
    if find_run(spec):
        return make_running((b.dtype for b in spec.buffers), find_run(spec))
    if all(OPS[call.op].exactness_of(call) == MOVES for call in outline(spec).calls):
        return TYPED
    return make_modular(b.dtype for b in spec.buffers)


def proving_inputs(spec: Spec, plan: Plan, params: Mapping[str, int], seed: int = 1) -> list[dict[str, Input]]:
    """Inputs in ``proving_domain`` that together tell every element from every other, of any array.

    Where values are computed with, they are hashes; where some of them name places, of several kinds, and none where
    passes before that make such have too many CTAs. Where bits are only moved, the elements of all arrays are numbered,
    and each of as many inputs as that takes holds one digit of the numbers, as wide as the narrowest element that an
    array is seen as.
    """
    domain = proving_domain(spec)
    if isinstance(domain, Running):
        return draw_contents(spec, [m for m in arrays(plan) if m.access != "out"], params, domain, seed)
    if isinstance(domain, Modular):
        return [{m.name: partial(domain.draw, m.name, m.dtype, seed=seed) for m in arrays(plan) if m.access != "out"}]
    read = [m for m in arrays(plan) if m.access != "out"]
    units = {m.name: m.elem_bytes for m in read}
    if any(b.dtype != spec.buffer(b.root).dtype for b in spec.buffers):  # bytes of elements go their own ways
        units = dict.fromkeys(units, min(DTYPES[b.dtype].bytes for b in spec.buffers))
    unit = min([8, *units.values()])
    counts = [int(evaluate(m.span, params)) * m.elem_bytes // unit for m in read]
    firsts = np.cumsum([1, *counts]).tolist()  # number 0 is what is filled in where nothing is read
    digits = max(1, -(-int(firsts[-1]).bit_length() // (8 * unit)))
    return [
        {m.name: _digits(m.dtype, unit, first, digit, digits, seed) for m, first in zip(read, firsts, strict=False)}
        for digit in range(digits)
    ]


def _digits(dtype: str, unit: int, first: int, digit: int, digits: int, seed: int) -> Input:
    """One digit of the numbers of an array's units, each times an odd number, which keeps them apart and from 0."""
    numpy_type = numpy_dtype(dtype)
    each, bits = numpy_type.itemsize // unit, 8 * unit
    mask, odd = np.uint64((1 << min(64, bits * digits)) - 1), np.uint64((2 * seed + 1) % (1 << 64))

    def values(index: Array) -> Array:
        numbers: Array = index.astype(np.uint64)[..., None] * np.uint64(each) + np.arange(each, dtype=np.uint64)
        with np.errstate(over="ignore"):
            mixed = (numbers + np.uint64(first)) * np.uint64(0x9E3779B97F4A7C15) * odd
        taken = np.right_shift(mixed & mask, np.uint64(bits * digit)).astype(bits_dtype(unit))
        return np.ascontiguousarray(taken).view(numpy_type)[..., 0]

    return values


def exact_limit(spec: Spec) -> int:
    """Integers below this are exact in every dtype that the spec converts between."""
    if any(OPS[call.op].exactness_of(call) == CONVERTS for call in outline(spec).calls):
        return min((exact_integers(b.dtype) for b in spec.buffers if b.dtype != FACTOR), default=1 << 24)
    return 1 << 24


def list_apart(spec: Spec, ctas: Sequence[Cta]) -> list[tuple[Cta, ...]]:
    """The CTAs that run together: all, or a cluster at a time where elements of tables are sizes, as all CTAs read the
    same elements then, and may write what these name.
    """
    if not spec.elements:
        return [tuple(ctas)]
    clusters: dict[Cta, tuple[Cta, ...]] = {}
    for cta in ctas:
        first = whole_clusters([cta], spec.cluster)[0]
        clusters[first] = (*clusters.get(first, ()), cta)
    return [*clusters.values()]


def check_meaning(
    spec: Spec, plan: Plan, ctas: Sequence[Cta], params: Mapping[str, int], seed: int = 1, trips: Trips = ALL_TRIPS
) -> int:
    """Run CTAs in NumPy and compare what they wrote with the spec's meaning, bit for bit. Returns the steps run.

    ``trips``: those of its loops that run; raises Unsteady where others cannot be left out.
    """
    return sum(_check_together(spec, plan, own, params, seed, trips) for own in list_apart(spec, ctas))


def _check_together(
    spec: Spec, plan: Plan, ctas: Sequence[tuple[int, int, int]], params: Mapping[str, int], seed: int,
    trips: Trips,
) -> int:  # fmt: skip
    steps, domain = 0, proving_domain(spec)
    for inputs in proving_inputs(spec, plan, params, seed):
        try:
            outcome = interpret(plan, ctas, inputs, params, trips, domain)
        except FaultFound as found:
            raise ProofError(describe_fault(spec, found)) from None
        compare_outcome(spec, outcome, inputs, params, trips)
        if spec.whole is not None and not isinstance(domain, Modular):  # else ``check_whole`` looks at all of a sum
            compare_whole(spec, spec.whole, outcome.written, inputs, params, domain)
        steps = outcome.steps
    return steps


def compare_outcome(
    spec: Spec, outcome: Outcome, inputs: Mapping[str, Input], params: Mapping[str, int], trips: Trips
) -> None:
    """Raise ProofError TG420 where what CTAs wrote, in ``proving_domain``, or who did, is not what the spec means."""
    domain = proving_domain(spec)
    wanted = run_with_writers(spec, outcome.ctas, inputs, params, trips, domain)
    did = list_written(outcome)
    for name in sorted(set(wanted) | set(did)):
        meant, made = wanted.get(name), did.get(name)
        if any(one is not None and one.function for one in (meant, made)):
            compare_updates(name, made, meant, outcome.ctas)
            continue
        compare_images(spec, name, made and (made.at, made.bits), meant and (meant.at, meant.bits), domain)
        _compare_writers(name, outcome, meant)


def list_written(outcome: Outcome) -> dict[str, Writes]:
    """What CTAs wrote of each array, or put to it: with the CTAs and by which function, as the reference says it."""
    found = {name: Writes(*written, outcome.writers[name]) for name, written in outcome.written.items()}
    return found | {name: Writes(*updates) for name, updates in outcome.updates.items()}


# ---------------------------------------------------------------- plan and meaning side by side
def digest_outcome(
    spec: Spec, plan: Plan, ctas: Sequence[tuple[int, int, int]], params: Mapping[str, int], trips: Trips
) -> tuple[int, bytes]:
    """The steps of CTAs in NumPy, and a digest of what they wrote: what ``digest_meaning`` gives, or they are wrong.

    For specs that compute, of which one kind of input shows all. Raises what ``check_meaning`` raises.
    """
    (inputs,), domain = proving_inputs(spec, plan, params), proving_domain(spec)
    try:
        outcome = interpret(plan, ctas, inputs, params, trips, domain)
    except FaultFound as found:
        raise ProofError(describe_fault(spec, found)) from None
    return outcome.steps, _digest(spec, list_written(outcome), domain)


def digest_meaning(
    spec: Spec, plan: Plan, ctas: Sequence[tuple[int, int, int]], params: Mapping[str, int], trips: Trips
) -> bytes:
    """A digest of what the spec means by the CTAs with their clusters."""
    (inputs,), domain = proving_inputs(spec, plan, params), proving_domain(spec)
    together = whole_clusters(ctas, plan.cluster)
    return _digest(spec, run_with_writers(spec, together, inputs, params, trips, domain), domain)


def _digest(spec: Spec, written: Mapping[str, Writes], domain: Domain) -> bytes:
    """Of every element that was written: its array, its offset, its bits, and the CTA that wrote it."""
    found = hashlib.sha256()
    for name, (at, values, cta, function, _) in sorted(written.items()):
        if len(at):
            raw = domain.bits(DTYPES[spec.buffer(name).dtype].bytes)
            found.update(f"{name} {len(at)} {function} ".encode())
            found.update(np.ascontiguousarray(at, np.int64).tobytes())
            found.update(np.ascontiguousarray(cta, np.int64).tobytes())
            found.update(np.ascontiguousarray(values).view(raw).tobytes())
    return found.digest()


def _compare_writers(name: str, outcome: Outcome, meant: Writes | None) -> None:
    """Raise ProofError TG420 at the first element that another CTA writes than the spec has it."""
    if meant is None or not len(meant.at):
        return
    writers = outcome.writers[name]
    if (wrong := np.flatnonzero(writers != meant.cta)).size:
        k = int(wrong[0])
        planned, wanted = (outcome.ctas[int(cta[k])] for cta in (writers, meant.cta))
        message = (
            f"{name} is written by CTA {planned} at element offset {int(meant.at[k])}, where CTA {wanted} writes it"
        )
        raise ProofError(Diagnostic("TG420", f"{message} by the spec ({len(wrong)} elements)"))


def compare_whole(
    spec: Spec, call: WholeCall, written: Mapping[str, tuple[Array, Array]], inputs: Mapping[str, Input],
    params: Mapping[str, int], domain: Domain,
) -> None:  # fmt: skip
    """What was written is what the op on whole arrays means: the tiles that carry it out have no say in it."""
    given = {field: inputs[array.name] for field, array in call.arrays.items() if array.name in inputs}
    scalars = {p.name: float(p.default) for p in spec.params if p.var is None}
    here = WholeHere(given, params, domain, scalars, {p.name: p.dtype for p in spec.params if p.var is None})
    for name in call.form.writes:
        array = call.arrays[name].name
        at, _ = written[array]
        values = np.ascontiguousarray(WHOLE_OPS[call.op].reference(call, at, here)[name])
        compare_images(spec, array, written[array], (at, values), domain)


def compare_images(
    spec: Spec, name: str, got: tuple[Array, Array] | None, want: tuple[Array, Array] | None, domain: Domain
) -> None:
    """Raise ProofError TG420 at the first element of an array that differs, is missing, or should not be there."""
    raw = domain.bits(DTYPES[spec.buffer(name).dtype].bytes)
    empty = (np.zeros(0, np.int64), np.zeros(0, raw))
    (at, values), (wanted_at, wanted) = (got or empty), (want or empty)
    values, wanted = (np.ascontiguousarray(x).view(raw) for x in (values, wanted))
    if np.array_equal(at, wanted_at) and np.array_equal(values, wanted):
        return
    common, i, j = np.intersect1d(at, wanted_at, return_indices=True)
    wrong = common[values[i] != wanted[j]]
    extra, missing = np.setdiff1d(at, wanted_at), np.setdiff1d(wanted_at, at)
    for what, where in (("has a wrong value at", wrong), ("is not written at", missing), ("is written at", extra)):
        if len(where):
            tail = ", which the spec does not write" if what == "is written at" else ""
            message = f"{name} {what} element offset {int(where[0])} ({len(where)} elements){tail}"
            raise ProofError(Diagnostic("TG420", message))


def record_events(spec: Spec, plan: Plan, rows: int) -> Record:
    """So many rows of events of the first CTA and its cluster, at the default parameters; a fault ends them.

    Tables hold their largest elements.
    """
    spec, plan = fill_largest(spec, plan)
    case = parameter_cases(spec)[0]
    inputs = next(iter(proving_inputs(spec, plan, case)))
    return record(plan, [(0, 0, 0)], inputs, case, rows, proving_domain(spec))
