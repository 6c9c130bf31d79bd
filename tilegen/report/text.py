"""explain's data as a page of text. Every figure is one that the data holds; the page adds only their units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from tilegen.access import WARP_LANES
from tilegen.arch import ARCHES, Arch
from tilegen.cost.asynchronous import CP_ASYNC, TMA, WHOLE
from tilegen.cost.needs import MOST_ADDRESSES
from tilegen.decisions import (
    COLUMNS,
    PICKED,
    TILE,
    Cost,
    count_words,
    describe_answer,
    describe_cost,
    draw_rows,
    draw_table,
    printable,
    wrap_line,
)
from tilegen.report.descriptors import draw_descriptors
from tilegen.report.summary import say_summary
from tilegen.report.tensor_memory import say_tensor_memory
from tilegen.spaces import SPACES

Data = Mapping[str, Any]

_COSTS = {
    "sectors": "sectors", "wavefronts": "wavefronts", "instructions": "instructions", "shared_bytes": "shared bytes",
    "address_ops": "address ops",
}  # fmt: skip
KINDS = {
    "ld": "load", "st": "store", "ldsm": "ldmatrix load", "stsm": "stmatrix store", "ldgsts": "cp.async", "tma": "TMA",
    "wgmma": "wgmma", "tcgen05": "tcgen05", "red": "atomic update",
} | {f"{kind}matrix{n}": f"{kind}matrix.x{n}" for kind in ("ld", "st") for n in (1, 2, 4)}  # fmt: skip
_CG = "cp.async.cg"
KINDS |= {kind: kind.replace(".zfill", " zfill") for kind in CP_ASYNC}


def explain_text(explained: Data, arch: Arch, shows_all: bool = False, only: int | None = None) -> str:
    """The page: the kernel in a line, what was chosen for all, each op with its variants, choices and accesses, totals,
    what they rest on. No line is longer than COLUMNS.

    ``shows_all``: variants that could not carry an op out too, and accesses that no thread of an inner CTA makes.
    ``only``: one op, by its number from 1, without what is of the whole kernel. Raises ValueError for another number.
    """
    ops = explained["ops"]
    if only is not None and not 1 <= only <= len(ops):
        raise ValueError(
            f"{explained['kernel']} has ops 1 to {len(ops)}" if ops else f"{explained['kernel']} has no op"
        )
    parts = [_head(explained)]
    if only is None:
        parts += [say_tensor_memory(explained["tensor_memory"])] if "tensor_memory" in explained else []
        parts.append(_whole(explained))
    number = 1
    for k, op in enumerate(ops):
        if only in (None, k + 1):
            parts.append([*_op(k + 1, op, shows_all), *_accesses(op, number, op["threads"], shows_all)])
        number += len(op["accesses"])
    parts += [_totals(explained), list(say_trust(explained["trust"])), _basis(arch)] if only is None else []
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _head(explained: Data) -> list[str]:
    grid = " x ".join(map(str, explained["grid"]))
    name, threads = explained["kernel"], explained["threads"]
    lines = wrap_line(say_summary(name, threads, explained["summary"]))
    lines += wrap_line(f"{name} for {explained['arch']}: grid {grid}, {threads} threads a CTA")
    if len(explained["roles"]) > 1:
        lines += wrap_line(f"roles: {'; '.join(map(say_role, explained['roles']))}")
    for one in explained.get("unused", ()):
        lines += wrap_line(f"not used of {explained['arch']}: {one['feature']}, {one['what']}: {one['why']}", 2)
    if explained["params"]:
        values = ", ".join(f"{name} = {value}" for name, value in explained["params"].items())
        lines += wrap_line(f"counted at {values}")
    return lines


def say_role(role: Data) -> str:
    """A role in words."""
    registers = f" of {role['registers']} registers" if role["registers"] else ""
    return f"{role['name']}, {role['threads']} threads{registers}"


def _whole(explained: Data) -> list[str]:
    """What was chosen for the kernel as a whole, and how its tile follows from an atom."""
    lines = [line for c in explained["choices"] for line in _choice(c)]
    return ["the kernel", *lines, *_derivation(explained)] if lines else []


def _derivation(explained: Data) -> list[str]:
    """The chain of a kernel's, or an op's, tiling."""
    lines = explained.get("derivation")
    return ["  from the atom to the tile", *(f"    {line}".rstrip() for line in lines)] if lines else []


# ---------------------------------------------------------------- an op
def _op(number: int, op: Data, shows_all: bool) -> list[str]:
    line = f", line {op['line']}" if op["line"] else ""
    lines = [
        *wrap_line(f"op {number}: {printable(op['text'])}  (scope {op['scope']}{line})"),
        *wrap_line(f"  variant {op['variant']}: {describe_cost(Cost(**op['cost']))}"),
        *_refused(op["refused"], shows_all),
    ]
    for choice in op["choices"]:
        lines += _choice(choice)
    if op.get("functions"):
        lines += ["  functions", *(line for text in op["functions"] for line in wrap_line(f"    {printable(text)}", 6))]
    return [*lines, *draw_descriptors(op.get("descriptors", ()), op.get("started", {})), *_derivation(op)]


def _refused(refused: Sequence[Data], shows_all: bool) -> list[str]:
    """First what could have done it and lost, with what it had chosen; then what could not, or how many could not."""
    shown = [r for r in refused if shows_all or r["cost"]]
    left = len(refused) - len(shown)
    width = max((len(r["variant"]) for r in shown), default=0)
    lines = []
    for r in sorted(shown, key=lambda r: r["cost"] is None):
        start = f"    {'lost   ' if r['cost'] else 'refused'}  {r['variant']:<{width}}  "
        lines += wrap_line(start + printable(r["reason"]), len(start) - 4)
        if r["choices"]:
            had = "; ".join(f"{c['question']}: {describe_answer(c['question'], c['picked'])}" for c in r["choices"])
            lines += wrap_line(f"             with {printable(had)}", 5)
    others = count_words(left, "other variant", "other variants")
    return [*lines, *([f"    {others} cannot: --all says why"] if left else [])]


def _choice(choice: Data) -> list[str]:
    question = choice["question"]
    picked = describe_answer(question, choice["picked"])
    lines = [*wrap_line(printable(f"  {question}: {picked}"), 4), *_candidates(question, choice)]
    if choice["proof"]:
        lines += wrap_line(f"    because: {printable(choice['proof'])}", 9)
    return lines


def _candidates(question: str, choice: Data) -> list[str]:
    """The candidates with their costs, columns of zeros left out; a single candidate is no comparison.

    A verdict stands at the end of its line, or in lines of its own below it; what all candidates share is left out.
    """
    candidates = choice["candidates"]
    if len(candidates) < 2:
        return []
    shown = [name for name in _COSTS if any(c["cost"] and c["cost"][name] for c in candidates)]
    rows = []
    for c, value in zip(candidates, _tell_apart(question, [c["value"] for c in candidates]), strict=True):
        mark = ">" if c["verdict"] == PICKED else " "
        costs = [str(c["cost"][name]) if c["cost"] else "-" for name in shown]
        rows.append((mark, printable(describe_answer(question, value)), *costs))
    about = "~" if question == TILE else ""  # no counts of the accesses that other numbers of these names are
    drawn = draw_rows([("", "", *(f"{about}{_COSTS[name]}" for name in shown)), *rows], 2, "    ", COLUMNS)
    lines, width = drawn[0] if shown else [], max(len(line) for row in drawn for line in row)
    for (first, *others), c in zip(drawn[1:], candidates, strict=True):
        beside = f"{first:<{width}}  {printable(c['verdict'])}"
        below = wrap_line(f"{'':11}{printable(c['verdict'])}") if c["verdict"] != PICKED else []  # which has a mark
        lines += [beside, *others] if len(beside) <= COLUMNS else [first, *others, *below]
    return [*lines, "    ~ estimated by the model of time, to rank these; the first line counts"] if about else lines


def _tell_apart(question: str, values: Sequence[Any]) -> Sequence[Any]:
    """The values with the entries in which they differ, if they are mappings that do."""
    if question == "vector_width" or not all(isinstance(v, Mapping) and v.keys() == values[0].keys() for v in values):
        return values
    differing = [key for key in values[0] if any(v[key] != values[0][key] for v in values)]
    return [{key: v[key] for key in differing} for v in values] if differing else values


# ---------------------------------------------------------------- accesses and totals
_MANY_ALIKE = 8  # accesses in a row that are one line
_SUMMED = ("instructions", "wavefronts", "floor", "bytes_floor", "sectors", "sectors_floor")


def _accesses(op: Data, first: int, threads: int, shows_all: bool) -> list[str]:
    """The accesses with their counts and floors, and what is above a floor or leaves warps idle."""
    accesses = [(n, a) for n, a in enumerate(op["accesses"], first) if shows_all or a["threads"]]
    left = len(op["accesses"]) - len(accesses)
    at_edges = count_words(left, "access", "accesses")
    edges = [f"    {at_edges} only at the edges of arrays: --all lists them"] if left else []
    if not accesses:
        return edges
    rows, idle, decided = [], dict[int, list[str]](), list[str]()
    for number, a in _merge_alike(accesses):
        shared = SPACES[a["space"]].has_banks
        unit, count, floor = (
            ("wavefront", a["wavefronts"], a["floor"]) if shared else ("sector", a["sectors"], a["sectors_floor"])
        )
        if "worst" in a:
            least, worst = count_words(count, unit, f"{unit}s"), count_words(a["worst"], unit, f"{unit}s")
            ends = f"{least} at the least where none is dropped, {worst} at most"
            if a["worst"] == count:
                ends = f"{least} wherever they are, where none is dropped"
            decided.append(f"    memory decides the places of {number}: {ends}")
            floor = None
        rows.append((
            number, a["buffer"], f"{a['space']} {KINDS[a['kind']]}", _say_width(a),
            f"{a['threads']} of {threads}", str(a["instructions"]), count_words(count, unit, f"{unit}s"),
            *(("-", "-") if floor is None else (str(floor), str(count - floor))),
            str(a["bytes_floor"]) if shared else "-",
        ))  # fmt: skip
        if a["instructions"] and a["idle_warps"] and a["kind"] not in WHOLE:
            idle.setdefault(a["idle_warps"], []).append(number)
    head = ("", "buffer", "access", "a lane", "threads", "instructions", "cost", "floor", "above", "by bytes")
    lines = ["  accesses of one CTA, away from the edges", *draw_table(head, rows, 3, "    ", COLUMNS)]
    warps = count_words(-(-threads // WARP_LANES), "warp", "warps")
    for n, names in idle.items():
        lines += wrap_line(f"    idle: {n} of {warps} in {', '.join(names)}", 6)
    lines += [part for line in decided for part in wrap_line(line, 6)]
    return [*lines, *edges, *(line for t in op["traffic"] for line in _above_floor(t, shows_all))]


def _merge_alike(accesses: Sequence[tuple[int, Data]]) -> Iterator[tuple[str, Data]]:
    """Accesses with their numbers as text; many in a row that say the same as one, with the sums of their counts."""
    for _, group in groupby(accesses, key=lambda numbered: numbered[1]):
        (first, one), *others = group
        if len(others) < _MANY_ALIKE:
            yield from ((f"#{number}", a) for number, a in ((first, one), *others))
        else:
            sums = {key: one[key] * (1 + len(others)) for key in (*_SUMMED, "worst") if one.get(key)}
            yield f"#{first} to #{others[-1][0]}", {**one, **sums}


def _say_width(access: Data) -> str:
    """Bytes a lane, and those in the text where the compiler makes another access of it."""
    width, text = access["width_bytes"], access["text_width_bytes"]
    return f"{width} B" if width == text else f"{width} B ({text} B)"


def _above_floor(traffic: Data, shows_all: bool) -> list[str]:
    """A warning where an op touches a sector of an array more often than once."""
    sectors, floor, name = traffic["sectors"], traffic["sectors_floor"], traffic["buffer"]
    if "decided_by_memory" in traffic:
        return []
    if floor is None and not shows_all:
        return []  # the first line says so
    if floor is None:
        return wrap_line(f"    {name}: its sectors' floor was not counted, for over {MOST_ADDRESSES} addresses", 4)
    if sectors <= floor:
        return []
    times = f"{floor} hold what is touched: each is moved {sectors / floor:.2f} times on average"
    return wrap_line(f"    warning: {sectors} sectors of {name} are {traffic['direction']}, and {times}", 4)


def _totals(explained: Data) -> list[str]:
    rows = []
    for name, t in explained["grid_totals"].items():
        if not t["instructions"]:
            continue
        space, kind = name.split("_")
        shared = SPACES[space].has_banks
        counts = [t["wavefronts"], t["floor"], t["wavefronts"] - t["floor"]]
        rows.append((
            f"{space} {KINDS[kind]}s", str(t["instructions"]), *(str(n) if shared else "-" for n in counts),
            "-" if shared else str(t["sectors"]),
        ))  # fmt: skip
    if not rows:
        return []
    ctas = explained["grid"][0] * explained["grid"][1] * explained["grid"][2]
    head = ("", "instructions", "wavefronts", "floor", "conflicts", "sectors")
    notes = [line for note in _uncertain(explained) for line in wrap_line(f"  {note}", 2)]
    return [f"the whole grid, {count_words(ctas, 'CTA', 'CTAs')}", *draw_table(head, rows, 1, "  "), *notes]


def _uncertain(explained: Data) -> Iterator[str]:
    """Where a hardware counter may show another number, and why."""
    totals, accesses = explained["grid_totals"], [a for op in explained["ops"] for a in op["accesses"]]
    loads = totals["global_ld"]
    if loads["least_sectors"] < loads["sectors"]:
        yield (
            "the compiler may leave out loads that nothing uses, and those of what an op before has loaded; at least "
            f"{loads['least_sectors']} sectors are loaded"
        )
    ops = explained["ops"]
    copies = [(a, a["threads"] < op["threads"]) for op in ops for a in op["accesses"] if a["kind"].startswith(_CG)]
    if any(a["kind"].endswith(".zfill") or is_idle for a, is_idle in copies):
        yield (
            "ncu's count of cp.async wavefronts takes no notice of the predicate P0, and may show another number "
            "(docs/access-model.md)"
        )
    if any(a["kind"] == TMA for a in accesses):
        yield "a box of TMA counts whole, its bytes and its sectors, also where it passes an array's end"


def say_trust(trust: Data) -> Iterator[str]:
    """What is proved, promised and claimed, apart; nothing of a kernel that rests on proofs alone."""
    if not trust["promised"] and not trust["claimed"]:
        return
    rows = [
        ("proved", "by build, where promises are kept", [*trust["proved"]]),
        ("promised", "by the caller", [f"{p['array']} holds {p['says']}" for p in trust["promised"]]),
        ("claimed", "by the author", [f"{c['buffer']}: {c['says']}" for c in trust["claimed"]]),
        ("if a promise is false", "", [*trust["if_a_promise_is_false"]["says"]]),
    ]
    for word, who, lines in rows:
        if lines:
            yield f"{word}{', ' if who else ''}{who}:"
            yield from (piece for line in lines for piece in wrap_line(f"  {line}", 4))


def _basis(arch: Arch) -> list[str]:
    names = ", ".join(a.name for a in ARCHES.values() if a.access_model_measured)
    measured = f"The rules behind wavefronts and sectors reproduce what was counted on {names}."
    if not arch.access_model_measured:
        measured = f"The rules behind wavefronts and sectors were counted on {names}, on {arch.name} not yet."
    words = (
        "instructions are warp-wide; the floor of wavefronts is one for each phase with an active lane, which no "
        "placement beats, and those above it are conflicts; by bytes: distinct bytes of each instruction / 128. "
        "Sectors are of 32 bytes; their floor is those that hold what a CTA touches in this access, each once. "
        "A width in brackets is that in the kernel's text, where the compiler makes another of it. "
        f"docs/how-it-works.md says what bounds a kernel. {measured}"
    )
    return wrap_line(words, 0)


# ---------------------------------------------------------------- aligned tables
def lane_ranges(lanes: Sequence[int]) -> str:
    """Lanes in order, runs as ranges.

    >>> lane_ranges([0, 1, 2, 3, 8, 10, 11])
    '0-3 8 10-11'
    """
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
