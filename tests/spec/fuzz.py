"""Many mutated specs, loaded and built: ``python -m tests.spec.fuzz --count 100000``. Numbers say which, in any order.

What is wrong is an exception that is none of tilegen's own, more than 10 seconds, or more than 1 GB. CI runs a few
hundred (``tests/spec/test_spec_fuzz.py``).
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import tilegen
from tilegen.errors import TilegenError, format_error
from tilegen.spec.rules import RULES

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
MOST_SECONDS, MOST_KB = 10, 1 << 20
RICH = """\
kernel: rich
arch: sm_90
params: {N: {default: 64, multiple_of: 8, max: 4096}, C: 3, a: {dtype: float32, default: 1.5}}
grid: {bx: ceil(N / 64), by: C}
cluster: {cbx: 1}
threads: 128
buffers:
  X: {scope: global, dtype: float32, shape: [C, N, 4, 32], layout: "S[(C,N,4,32):(N*128,128,32,1)]", align: 8}
  s: {scope: shared, dtype: float32, shape: [4, 4, 32], layout: "Swizzle(2,3,3) o S[(4,4,32):(128,32,1)]"}
  t: {view: s, axes: [0, 2, 1]}
  u: {view: s, dtype: uint8, shape: [4, 512], layout: row}
  r: {scope: register, dtype: float32, shape: [4, 32], layout: "S[(4,32):(1,1@laneid)] + R[2:1] + 0@laneid"}
ops:
  - for: {k: [0, C, 1], h: 2}
    unroll: true
    do:
      - copy: {scope: warp, src: "X[by, bx*64 + warpid]", dst: "s[warpid]", when: warpid == 0 and not k > 1}
      - sync: warp
        when: warpid < 2
      - copy: {scope: warp, src: "s[warpid, :, 0 : +32]", dst: r}
      - fill: {dst: "s[0:2]", value: 0.5}
  - sync: cta
"""
TEXTS = [RICH, *(path.read_text(encoding="utf-8") for path in SPECS)]
PIECES = [
    *"()[]{}:,'\"|>&*!%@`#-+~?\\/ \t\n0", "null", "true", "010", "0x1F", "1e400", "-1", "99999999999999999999", "4:32",
    "on", "<<: ", "&a ", "*a", "!!python/object:os.system ", "---\n", "- ", ": ", "S[(4,4):(1@laneid,1)]", "1@m",
    "Swizzle(3,3,3)", "auto", "M", "//", "ceil(", "bx", "laneid", "X[0:1]", "\x00", "\ufeff", "\u2028", "\xe9",
    "\u0663", "tmem", "for", "view: s", "when: k == 0", "[[[[[[", "{a: b}", "1000000000000", "2147483648", ".inf",
    ".nan", "not ", " and ", "float64", "warpgroup", "R[2:1]", "^", "\r", "\x85", "cta", "0.5",
]  # fmt: skip
# Those that leave a spec likely to load, so that what comes after loading is tried too.
KIND_PIECES = [
    "1", "2", "3", "5", "7", "8", "16", "31", "32", "33", "64", "100", "128", "uint8", "float16", "float32", "float64",
    "int64", "bool", "complex128", "float8_e5m2", "thread", "warp", "warpgroup", "cta", "auto", "row", "col", "bx",
    "warpid", "laneid", "tx", "clip", "true", "false", "sm_80", "sm_90", "sm_90a", "sm_100a", "partial: true, ",
]  # fmt: skip


def mutate(number: int) -> str:
    """A text of a spec with up to eight changes of a character, a word or a line."""
    rng = random.Random(number)
    text, is_gentle = rng.choice(TEXTS), rng.random() < 0.5
    for _ in range(rng.randint(1, 3 if is_gentle else 8)):
        text = swap_word(rng, text) if is_gentle else change(rng.randint, text)
    return text + "\n"


def swap_word(rng: random.Random, text: str) -> str:
    """One word, or number, in place of another of its kind."""
    first = text.index("\n") if text.startswith("kernel") else 0
    words = list(re.finditer(r"\w+", text[first:]))
    word = rng.choice(words)
    piece = rng.choice([rng.choice(KIND_PIECES), rng.choice(words)[0]])
    return text[: first + word.start()] + piece + text[first + word.end() :]


def change(pick: Callable[[int, int], int], text: str) -> str:
    """One change of any kind; ``pick(first, last)`` picks a number, by chance or as hypothesis draws it."""
    kinds = ("insert", "delete", "replace", "swap lines", "drop line", "double line", "swap words")
    kind, at = kinds[pick(0, len(kinds) - 1)], pick(0, max(0, len(text) - 1))
    piece = PIECES[pick(0, len(PIECES) - 1)]
    if kind == "insert":
        return text[:at] + piece + text[at:]
    if kind == "delete":
        return text[:at] + text[at + pick(1, 12) :]
    if kind in ("replace", "swap words"):
        words = list(re.finditer(r"\w+|[^\w\s]", text))
        if not words:
            return piece
        word, other = words[at % len(words)], words[pick(0, len(words) - 1)]
        return text[: word.start()] + (piece if kind == "replace" else other[0]) + text[word.end() :]
    lines = text.split("\n")
    line, target = at % len(lines), pick(0, len(lines) - 1)
    if kind == "swap lines":
        lines[line], lines[target] = lines[target], lines[line]
    elif kind == "drop line":
        del lines[line]
    else:
        lines.insert(target, lines[line])
    return "\n".join(lines)


def answer(text: str, carry_out: Callable[[str], object] = tilegen.build) -> str:
    """``built``, or the code of the first error: in known codes, at places that exist."""
    try:
        carry_out(text)
    except TilegenError as error:
        assert error.diagnostics and format_error(error)
        for finding in error.diagnostics:
            assert finding.code in RULES, finding
            assert finding.mark is None or finding.mark.column <= len(finding.mark.text) + 1, finding
        return error.diagnostics[0].code
    return "built"


def try_one(number: int) -> tuple[int, str, str, float]:
    """(number, what came of it, what is wrong with that, seconds)."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(12 * MOST_SECONDS)
    before, start, wrong, what = _peak_kb(), time.perf_counter(), "", ""
    try:
        what = answer(mutate(number))
    except BaseException:
        what, wrong = "exception", traceback.format_exc(limit=-6)
    signal.alarm(0)
    seconds = time.perf_counter() - start
    if seconds > MOST_SECONDS:
        wrong += f"{seconds:.1f} s"
    if _peak_kb() > max(before, MOST_KB):
        wrong += f"{_peak_kb() >> 10} MB"
    return number, what, wrong, seconds


def _give_up(*_: object) -> None:
    raise TimeoutError


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=1e9, help="start nothing after this many")
    args = parser.parse_args()
    numbers, start = range(args.first, args.first + args.count), time.monotonic()
    answers, faults, slowest = Counter[str](), 0, (0.0, -1)
    with multiprocessing.Pool(args.processes, maxtasksperchild=500) as pool:
        for number, what, wrong, seconds in pool.imap_unordered(try_one, numbers, chunksize=20):
            answers[what] += 1
            slowest = max(slowest, (seconds, number))
            if wrong:
                faults += 1
                print(f"--- {number}: {what}\n{wrong}", flush=True)
            if answers.total() % 5000 == 0:
                print(f"{answers.total()} in {time.monotonic() - start:.0f} s, {faults} wrong", flush=True)
            if time.monotonic() - start > args.seconds:
                pool.terminate()
                break
    print(f"{answers.total()} specs, {answers['built']} built, {len(answers)} answers, {faults} wrong, "
          f"the slowest {slowest[0]:.1f} s (number {slowest[1]})")  # fmt: skip
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
