"""docs/results.md, the measured parts of other pages of docs/, and pictures: from docs/results/*.json.

``python benchmarks/results_page.py`` rewrites them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cases_page import case_tables, draw_cases, experiment_tables, row_table, tile_table
from gemm_page import gemm_table, product_rows
from ladder_page import ladder_table
from programs_page import BY_PARTS, array_table, say_regret, split_table, table_rows
from r_page import R_TABLE, run_tables

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results.md"
PERFORMANCE = ROOT / "docs" / "performance.md"
HOPPER = ROOT / "docs" / "hopper.md"
GEMM = ROOT / "docs" / "gemm.md"
PASSES = ROOT / "docs" / "passes.md"
_MOST_NAMED = 8  # rows of which one thing is said that are named, and not only counted
_COUNTED = {
    "shared_ld": "shared load wavefronts", "shared_st": "shared store wavefronts", "shared_ldsm": "ldmatrix wavefronts",
    "shared_stsm": "stmatrix wavefronts", "shared_ldgsts": "cp.async wavefronts", "global_ld": "load sectors",
    "global_st": "store sectors",
}  # fmt: skip
_MEASURED = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.S)


def read_results(folder: str = "") -> list[tuple[str, dict[str, Any]]]:
    """(file name, content) of every device."""
    paths = sorted((ROOT / "docs" / "results" / folder).glob("*.json"))
    return [(path.name, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def write_page() -> str:
    """The text of docs/results.md."""
    parts = [
        "# Measured",
        "Every figure comes from a file in `docs/results/`, which `make gpu` writes on the device that it names;"
        " this page is written from them by `python benchmarks/results_page.py`. Predictions are those of"
        " `tilegen explain`, summed over the grid.",
    ]
    parts += [describe(result, name) for name, result in read_results()]
    return "\n\n".join(parts) + "\n"


def _stack(tables: Iterable[str]) -> str:
    """One table of each file, apart from each other."""
    return "\n\n".join(tables)


def fill_measured(text: str) -> str:
    """A page with its measured parts as the results have them; a part is the name of a group of cases, or another's."""

    def fill(match: re.Match[str]) -> str:
        if match[2] == "tiles":
            return f"{match[1]}{_stack(tile_table(*file) for file in read_results('tiles'))}\n{match[3]}"
        if match[2] == "rows":
            return f"{match[1]}{_stack(row_table(*file) for file in read_results('rows'))}\n{match[3]}"
        if match[2] == "tables":
            return f"{match[1]}{_stack(table_rows(*file) for file in read_results('tables'))}\n{match[3]}"
        if match[2] == "gemm":
            files = (file for file in read_results("gemm") if not file[0].startswith(R_TABLE))
            return f"{match[1]}{_stack(gemm_table(*file) for file in files)}\n{match[3]}"
        if match[2] == "products":
            return f"{match[1]}{_stack(product_rows(*file) for file in read_results('products'))}\n{match[3]}"
        if match[2] in ("named", "long", "arrays", "regret"):
            return f"{match[1]}{timed_part(match[2])}\n{match[3]}"
        if match[2] == "checked":
            return f"{match[1]}{checked_part(read_results())}\n{match[3]}"
        if match[2] == "r":
            found = [result for name, result in read_results("gemm") if name.startswith(R_TABLE)]
            return f"{match[1]}{chr(10).join(map(run_tables, found or [None]))}\n{match[3]}"
        if match[2] == "ladder":
            files = (file for file in read_results() if file[1].get("products"))
            return f"{match[1]}{chr(10).join(ladder_table(*file) for file in files)}\n{match[3]}"
        if match[2] in ("experiments", "by_hand"):
            tables = (experiment_tables(match[2], *file) for file in read_results(match[2]))
            return f"{match[1]}{chr(10).join(tables)}\n{match[3]}"
        parts = [case_tables(name, result, match[2]) for name, result in read_results() if result.get("cases")]
        return f"{match[1]}{chr(10).join(parts) or 'Not measured yet.'}\n{match[3]}"

    return _MEASURED.sub(fill, text)


def timed_part(part: str) -> str:
    """What is measured of specs that become several kernels: a group of products, arrays, or the regret of split."""
    files = read_results("programs")
    timed = [file for file in files if not file[0].startswith(BY_PARTS)]
    if part == "regret":
        return _stack(say_regret(name, timed[-1][1], by) for name, by in files if name.startswith(BY_PARTS))
    return _stack(array_table(*file) if part == "arrays" else split_table(*file, part) for file in timed)


def draw_pictures() -> Iterator[tuple[Path, str]]:
    """(path, text) of the pictures of every device that the cases ran on."""
    for name, result in read_results():
        if result.get("cases"):
            yield ROOT / "docs" / "results" / f"{Path(name).stem}-cases.svg", draw_cases(result)


# ---------------------------------------------------------------- docs/results.md
def describe(result: dict[str, Any], name: str) -> str:
    """One device's section."""
    kernels = result["kernels"]
    right = sum(k["correct"] for k in kernels.values())
    counters = [row for k in kernels.values() for row in (k.get("counters") or {}).values()]
    equal = sum(row["predicted"] == row["counted"] for row in counters)
    parts = [
        f"## {result['device']}, driver {result['driver']}, {result['date']}",
        f"From `docs/results/{name}`. {result['note'] + ' ' if 'note' in result else ''}"
        f"{right} of {len(kernels)} kernels are right: every byte of every array, for"
        f" every parameter case and two inputs each. {equal} of {len(counters)} predicted totals equal the hardware's"
        " counters (`smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_*`,"
        f" `l1tex__t_sectors_pipe_lsu_mem_global_op_*`).{_witness_text(kernels)}{_since_text(kernels)}",
        launch_line(result.get("launches", {})),
        sanitizer_line(kernels),
        soak_line(kernels),
        program_line(result.get("programs", {})),
        counter_table(kernels | list_passes(result.get("programs", {}))),
        instruction_line(result.get("per_instruction", {})),
        random_lines(result.get("random", {})),
        mixed_lines(result.get("mixed", {})),
        loop_table(result.get("warp_permute_loop", {})),
        call_table(result.get("calls", [])),
        time_table(kernels),
        compute_table(result.get("compute", {})),
        product_table(result.get("products", {})),
    ]
    return "\n\n".join(p for p in parts if p)


def _witness_text(kernels: dict[str, Any]) -> str:
    """Counts that differ and why, as random kernels have them."""
    rows = ((name, what, row) for name, k in kernels.items() for what, row in (k.get("counters") or {}).items())
    differ = [(name, what, row) for name, what, row in rows if row.get("why")]
    said = [f"`{name}` {what} {r['counted']} for {r['predicted']} ({r['why']})" for name, what, r in differ]
    return (
        f" The others: {', '.join(said)}; P0: docs/access-model.md; tables: what they hold decides it." if said else ""
    )


def _since_text(kernels: dict[str, Any]) -> str:
    """Kernels that are others since they were measured."""
    return f" Changed since: {said}." if (said := _group_since(kernels)) else ""


def soak_line(kernels: dict[str, Any]) -> str:
    """Kernels with roles that were launched many times beside another kernel, and of which that is not said."""
    rows = {name: k for name, k in kernels.items() if "soak" in k or "soak_since" in k}
    if not rows:
        return ""
    said = sorted({k["soak"] for k in rows.values() if "soak" in k})
    since = f" Changed since: {changed}." if (changed := _group_since(rows, "soak_since")) else ""
    return f"Kernels with roles beside a kernel that competes for the GPU: {', '.join(said)}.{since}"


def _group_since(rows: dict[str, Any], field: str = "since") -> str:
    """What has changed since, each with the rows of which that is said, or with how many they are.

    >>> _group_since({"a": {"since": "names"}, "b": {"since": "names"}, "c": {}})
    'names (`a`, `b`)'
    """
    found: dict[str, list[str]] = {}
    for name, row in rows.items():
        if field in row:
            found.setdefault(row[field], []).append(f"`{name}`")
    named = {why: ", ".join(own) if len(own) <= _MOST_NAMED else f"{len(own)} of them" for why, own in found.items()}
    return "; ".join(f"{why} ({who})" for why, who in named.items())


def list_passes(programs: dict[str, Any]) -> dict[str, Any]:
    """The kernel of every pass by its name, of the specs with passes that are right."""
    return {name: row for program in programs.values() for name, row in program.get("passes", {}).items()}


def program_line(programs: dict[str, Any]) -> str:
    """What was found of specs with passes: right, counted, launched in every way, sanitized, launched many times."""
    if not programs:
        return ""
    rows, passes = list(programs.values()), list_passes(programs)
    counters = [row for one in passes.values() for row in (one.get("counters") or {}).values()]
    equal = sum(row["predicted"] == row["counted"] for row in counters)
    ways = {way: {name: row["ways"][way] for name, row in programs.items() if way in row.get("ways", {})}
            for way in ("header", "cupy", "torch")}  # fmt: skip
    said = [
        f"{sum(row['correct'] for row in rows)} of {len(rows)} specs with passes are right: each pass, and all in a row"
    ]
    said.append(f"{equal} of {len(counters)} predicted totals of their {len(passes)} kernels equal the counters")
    soaked = sorted({row["soak"] for row in rows if "soak" in row})
    said += [f"On two streams beside a kernel that competes for the GPU: {', '.join(soaked)}"] if soaked else []
    lines = [launch_line({way: found for way, found in ways.items() if found}), sanitizer_line(programs, "specs")]
    return " ".join([f"{'. '.join(said)}.", *filter(None, lines)]) + _witness_text(passes)


def checked_part(results: list[tuple[str, dict[str, Any]]]) -> str:
    """What docs/passes.md says of checks on GPUs: a line of each device that ran programs."""
    lines = [f"{r['device']}, {r['date']}: {program_line(r['programs'])}" for _, r in results if r.get("programs")]
    return _stack(lines) or "Counters of passes are not compared with the predictions on any GPU yet."


def instruction_line(found: dict[str, Any]) -> str:
    """Kernels whose every instruction was counted."""
    said = ", ".join(f"`{n}` {'agrees' if p['agree'] else 'DIFFERS'}" for n, p in found.items())
    return f"Instruction by instruction (source counters), the same widths, counts and costs: {said}." if said else ""


def launch_line(launches: dict[str, dict[str, str]]) -> str:
    """How many kernels were right by each way of launching them."""
    names = {"header": "their C++ headers", "cupy": "calls with CuPy arrays", "torch": "calls with torch tensors"}
    said = [f"{names[way]} {sum(s == 'ok' for s in k.values())} of {len(k)}" for way, k in launches.items()]
    return f"Launched in other ways, right to the last byte: by {', by '.join(said)}." if said else ""


def sanitizer_line(kernels: dict[str, Any], what: str = "kernels") -> str:
    """What compute-sanitizer said of a launch of each kernel."""
    said = [tuple(k["sanitizer"].items()) for k in kernels.values() if k.get("sanitizer")]
    own = sum(not name.endswith(" large") for name in kernels)
    each = "; ".join(
        f"{said.count(one)} of {own} {what} {', '.join(f'{tool} {words}' for tool, words in one)}"
        for one in dict.fromkeys(said)
    )
    return f"compute-sanitizer: {each}." if said else ""


def counter_table(kernels: dict[str, Any]) -> str:
    """Per kernel: registers, and predicted = counted totals (or both where they differ)."""
    rows = [f"| kernel | registers | {' | '.join(_COUNTED.values())} |", "|---|---" + "|---" * len(_COUNTED) + "|"]
    for name, k in kernels.items():
        if k.get("counters"):
            cells = [_both(k["counters"][kind]) for kind in _COUNTED]
            rows.append(f"| {name} | {k['registers']} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _both(row: dict[str, Any]) -> str:
    if row["predicted"] == row["counted"]:
        return str(row["counted"])
    return f"predicted {row['predicted']}, counted {row['counted']}"


def random_lines(found: dict[str, Any]) -> str:
    """Random kernels whose counters were compared, and why some of them differ."""
    if not found:
        return ""
    first, last = found["first"], found["first"] + found["kernels"] - 1
    said = (
        f"Random kernels {first} to {last} (`benchmarks/random_kernels.py`, every second with cp.async): all seven"
        f" counters of {found['equal']} of {found['kernels']} are as predicted."
    )
    return said + _say_others(found)


def mixed_lines(found: dict[str, Any]) -> str:
    """Kernels that mix widths: their counters, and their sectors over the floor."""
    if not found:
        return ""
    ratios = sorted(((ratio, name) for name, ratio in found["over_floor"].items()), reverse=True)
    worst = ", ".join(f"`{name}` {ratio:.3f}" for ratio, name in ratios[:3])
    said = (
        f"Kernels that mix widths (`benchmarks/mixed_widths.py`): all seven counters of {found['equal']} of"
        f" {found['kernels']} are as predicted. Sectors over their floor, the worst: {worst}."
    )
    return said + _say_others(found)


def _say_others(found: dict[str, Any]) -> str:
    """Counters that differ from the prediction, and why."""
    others = [(n, what, row) for n, rows in found["others"].items() for what, row in rows.items()]
    if not others:
        return ""
    each = ", ".join(f"`{n}` {w} {r['counted']} for {r['predicted']} ({r['why'] or '?'})" for n, w, r in others)
    return (
        f" The others: {each}. P0: the machine code names a predicate that ncu takes no notice of"
        " ([why](access-model.md#cpasync)); by the hardware: its own counter says what was predicted."
    )


def loop_table(loop: dict[str, Any]) -> str:
    """Shared memory throughput of permute_layout."""
    if not loop:
        return ""
    rows = [
        "32 warps an SM, each permuting its own 4x32 float32 pair 4096 times: (bytes read + written) /"
        " (clock64 span x 128), lowest SM, median of five launches.",
        "",
        "| variant | ratio |",
        "|---|---|",
    ]
    rows += [f"| {asked} ({row['variant']}) | {row['lowest_sm_ratio']:.3f} |" for asked, row in loop.items()]
    return "\n".join(rows)


def call_table(calls: list[dict[str, Any]]) -> str:
    """Host time of calls from Python, and what the driver takes of it."""
    if not calls:
        return ""
    rows = [
        "Host time of a call from Python, us: 10,000 calls over two arrays, in chunks of 500.",
        "",
        "| arrays | sizes | mean | median chunk | best chunk | at most |",
        "|---|---|---|---|---|---|",
    ]
    for row in calls:
        limit = f"{row['limit_us']:.0f}" if "limit_us" in row else ""
        times = " | ".join(f"{row[f'{what}_us']:.2f}" for what in ("mean", "median", "best"))
        rows.append(f"| {row['arrays']} | {row['sizes']} | {times} | {limit} |")
    return "\n".join(rows)


def time_table(kernels: dict[str, Any]) -> str:
    """Times of the kernels that move enough for a time to say something."""
    large = {n: k for n, k in kernels.items() if "ratio_to_copy" in k}
    if not large:
        return ""
    rows = [
        "Median time over rotated buffers, interleaved with a device-to-device copy of as many bytes; the ratio is"
        " t_copy / t, median of pairs.",
        "",
        "| kernel | MB moved | us | GB/s | of a copy |",
        "|---|---|---|---|---|",
    ]
    for name, k in large.items():
        moved = f"{k['bytes'] / 1e6:.0f}"
        rows.append(f"| {name} | {moved} | {k['median_us']} | {k['gb_per_s']} | {k['ratio_to_copy']} |")
    return "\n".join(rows)


def compute_table(rows: dict[str, Any]) -> str:
    """Specs that compute on rows beside a copy of as many bytes and PyTorch."""
    if not rows:
        return ""
    peers = list(dict.fromkeys(name for row in rows.values() for name in row.get("peers", {})))
    lines = [
        "Specs that compute on rows, one CTA a row; every element compared with float64, some rows with the bounds of"
        " the spec's own meaning. Ratios are t_other / t, medians of pairs, buffers rotated past four times the L2; a"
        " peer that took no part has no number.",
        "",
        f"| kernel | threads | us | GB/s | {' | '.join(peers)} |",
        "|---|---|---|---|" + "---|" * len(peers),
    ]
    for name, row in rows.items():
        if not row["correct"]:
            lines.append(f"| {name} | {row['params']['T']} | WRONG | |{' |' * len(peers)}")
            continue
        ratios = (f"{row['peers'][p]['ratio']:.3f}" if p in row["peers"] else "" for p in peers)
        us, rate = row["median_us"], row["gb_per_s"]
        lines.append(f"| {name} | {row['params']['T']} | {us} | {rate} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def product_table(rows: dict[str, Any]) -> str:
    """Products and attention beside cuBLAS and PyTorch's attention."""
    if not rows:
        return ""
    lines = [
        "Products and attention at full size, random numbers, interleaved; the result compared with float64. Ratios are"
        " t_other / t, medians of pairs. cuBLAS multiplies alone; these kernels do their epilogue too.",
        "",
        "| kernel | us | TFLOP/s | beside | registers | spilled bytes |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        if not row["correct"]:
            lines.append(f"| {name} | WRONG | | | | |")
            continue
        peers = ", ".join(f"{peer} {data['ratio']:.3f}" for peer, data in row["peers"].items())
        spilled = f"{row['registers']} | {row['spill_bytes']}"
        lines.append(f"| {name} | {row['median_us']} | {row['tflops']} | {peers} | {spilled} |")
    since = _group_since(rows)
    return "\n".join([*lines, *([f"\nChanged since: {since}."] if since else [])])


def main() -> None:
    PAGE.write_text(write_page(), encoding="utf-8")
    for path in (PERFORMANCE, HOPPER, GEMM, PASSES):
        path.write_text(fill_measured(path.read_text(encoding="utf-8")), encoding="utf-8")
    for path, text in draw_pictures():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
