"""explain's data as a page of text. Every figure is one that the data holds; the page adds only their units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilegen.arch import ARCHES, Arch
from tilegen.cost.cp_async import CP_ASYNC
from tilegen.decisions import Cost, count_words, describe_cost, describe_value, printable

Data = Mapping[str, Any]

_COSTS = {
    "sectors": "sectors", "wavefronts": "wavefronts", "instructions": "instructions", "shared_bytes": "shared bytes",
    "address_ops": "address ops",
}  # fmt: skip
KINDS = {
    "ld": "load", "st": "store", "ldsm": "ldmatrix load", "stsm": "stmatrix store", "ldgsts": "cp.async", "tma": "TMA",
} | {f"{kind}matrix{n}": f"{kind}matrix.x{n}" for kind in ("ld", "st") for n in (1, 2, 4)}  # fmt: skip
KINDS |= {kind: kind.replace(".zfill", " zfill") for kind in CP_ASYNC}


def explain_text(explained: Data, arch: Arch) -> str:
    """The page: what was chosen for all, each op with its variants, choices and accesses, totals, what they rest on."""
    parts = [_head(explained), _whole(explained["choices"])]
    number = 1
    for k, op in enumerate(explained["ops"]):
        parts.append([*_op(k + 1, op), *_accesses(op["accesses"], number)])
        number += len(op["accesses"])
    parts.append(_totals(explained))
    parts.append(_basis(arch))
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _head(explained: Data) -> list[str]:
    grid = " x ".join(map(str, explained["grid"]))
    lines = [f"{explained['kernel']} for {explained['arch']}: grid {grid}, {explained['threads']} threads a CTA"]
    if explained["params"]:
        values = ", ".join(f"{name} = {value}" for name, value in explained["params"].items())
        lines.append(f"counted at {values}")
    return lines


def _whole(choices: Sequence[Data]) -> list[str]:
    """What was chosen for the kernel as a whole."""
    return ["the kernel", *(line for c in choices for line in _choice(c))] if choices else []


# ---------------------------------------------------------------- an op
def _op(number: int, op: Data) -> list[str]:
    line = f", line {op['line']}" if op["line"] else ""
    lines = [
        f"op {number}: {printable(op['text'])}  (scope {op['scope']}{line})",
        f"  variant {op['variant']}: {describe_cost(Cost(**op['cost']))}",
        *_refused(op["refused"]),
    ]
    for choice in op["choices"]:
        lines += _choice(choice)
    return lines


def _refused(refused: Sequence[Data]) -> list[str]:
    """First what could have done it and lost, then what could not."""
    width = max((len(r["variant"]) for r in refused), default=0)
    ordered = sorted(refused, key=lambda r: r["cost"] is None)
    return [
        f"    {'lost   ' if r['cost'] else 'refused'}  {r['variant']:<{width}}  {printable(r['reason'])}"
        for r in ordered
    ]


def _choice(choice: Data) -> list[str]:
    question = choice["question"]
    picked = _answer(question, choice["picked"])
    lines = [printable(f"  {question}: {picked}"), *_candidates(question, choice)]
    if choice["proof"]:
        lines.append(f"    because: {printable(choice['proof'])}")
    return lines


def _answer(question: str, value: Any) -> str:
    """An answer in words; of a vector whose two sides have accesses of different widths, both."""
    words = describe_value(question, value)
    if question == "vector_width" and isinstance(value, Mapping) and {"load_bytes", "store_bytes"} <= set(value):
        words += f": loads {value['load_bytes']}, stores {value['store_bytes']}"
    return words


def _candidates(question: str, choice: Data) -> list[str]:
    """The candidates with their costs, columns of zeros left out; a single candidate is no comparison."""
    candidates = choice["candidates"]
    if len(candidates) < 2:
        return []
    shown = [name for name in _COSTS if any(c["cost"] and c["cost"][name] for c in candidates)]
    rows = []
    for c in candidates:
        mark = ">" if c["verdict"] == "picked" else " "
        costs = [str(c["cost"][name]) if c["cost"] else "-" for name in shown]
        rows.append((mark, printable(_answer(question, c["value"])), *costs, printable(c["verdict"])))
    lines = draw_table(("", "", *(_COSTS[name] for name in shown), ""), [(*r[:-1], "") for r in rows], 2, "    ")
    width = max(map(len, lines))
    return [lines[0], *(f"{text:<{width}}  {row[-1]}" for text, row in zip(lines[1:], rows, strict=True))]


# ---------------------------------------------------------------- accesses and totals
def _accesses(accesses: Sequence[Data], first: int) -> list[str]:
    if not accesses:
        return []
    rows = []
    for number, a in enumerate(accesses, first):
        shared = a["space"] == "shared"
        counts = [a["wavefronts"], a["floor"], a["wavefronts"] - a["floor"], a["bytes_floor"]]
        rows.append((
            f"#{number}", a["buffer"], f"{a['space']} {KINDS[a['kind']]}", f"{a['width_bytes']} B",
            str(a["instructions"]), *(str(n) if shared else "-" for n in counts), "-" if shared else str(a["sectors"]),
        ))  # fmt: skip
    head = ("", "buffer", "access", "a lane", "instructions", "wavefronts", "floor", "conflicts", "by bytes", "sectors")
    return ["  accesses of one CTA, away from the edges", *draw_table(head, rows, 3, "    ")]


def _totals(explained: Data) -> list[str]:
    rows = []
    for name, t in explained["grid_totals"].items():
        if not t["instructions"]:
            continue
        space, kind = name.split("_")
        shared = space == "shared"
        counts = [t["wavefronts"], t["floor"], t["wavefronts"] - t["floor"]]
        rows.append((
            f"{space} {KINDS[kind]}s", str(t["instructions"]), *(str(n) if shared else "-" for n in counts),
            "-" if shared else str(t["sectors"]),
        ))  # fmt: skip
    if not rows:
        return []
    ctas = explained["grid"][0] * explained["grid"][1] * explained["grid"][2]
    head = ("", "instructions", "wavefronts", "floor", "conflicts", "sectors")
    return [f"the whole grid, {count_words(ctas, 'CTA', 'CTAs')}", *draw_table(head, rows, 1, "  ")]


def _basis(arch: Arch) -> list[str]:
    names = ", ".join(a.name for a in ARCHES.values() if a.access_model_measured)
    measured = f"The rules behind wavefronts and sectors reproduce what was counted on {names}."
    if not arch.access_model_measured:
        measured = f"The rules behind wavefronts and sectors were counted on {names}, on {arch.name} not yet."
    return [
        "instructions are warp-wide; floor: a wavefront for each phase with an active lane, which no placement beats;",
        "conflicts = wavefronts - floor; by bytes: distinct bytes / 128, what another lane map could reach;",
        f"sectors are of 32 bytes. {measured}",
    ]


# ---------------------------------------------------------------- aligned tables
def draw_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: str = "") -> list[str]:
    """Lines of columns as wide as they need; the first ``left`` columns are aligned left, the others right.

    >>> print("\\n".join(draw_table(("name", "count"), [("a", "10"), ("long", "5")])))
    name  count
    a        10
    long      5
    """
    widths = [max(len(row[k]) for row in (head, *rows)) for k in range(len(head))]

    def draw(row: Sequence[str]) -> str:
        cells = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True))]
        return (indent + "  ".join(cells)).rstrip()

    return [draw(head), *(draw(row) for row in rows)]


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
