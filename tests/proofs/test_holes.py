"""Wrong kernels that a proof once let pass, and others like them: each is refused, or a note names what is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import pytest

import tilegen
from tests.faults.texts import change_text
from tests.faults.verdicts import proof_code
from tilegen.index import Index, Var, equal, mod, mul, to_c
from tilegen.planner import plan_spec
from tilegen.proofs import Proof, prove
from tilegen.proofs.meaning import check_meaning
from tilegen.spec.data import Spec

WRONG_VALUE, RACE = ("TG420",), ("TG403",)
OWNERS = ("TG416", "TG417", "TG418")  # too many, or none
Expected = tuple[str, ...] | Index  # codes, or what a note may name instead


@cache
def prove_spec(text: str) -> tuple[Spec, Proof]:
    """A right spec with the proof of its own plan."""
    spec = tilegen.load(text)
    return spec, prove(spec, plan_spec(spec))


def assert_refused(proof: Callable[[], Proof], expected: Expected, known: tuple[str, ...] = ()) -> None:
    """It raises one of the codes. Of a product of unknowns, a note that is new and names it will do."""
    notes: list[str] = []
    found = proof_code(lambda: notes.extend(n for n in proof().notes if n not in known))
    if isinstance(expected, tuple):
        assert found in expected, notes
    elif not found:
        assert any(f"'{to_c(expected)}'" in n for n in notes), notes


def assert_told_apart(meant: str, planned: str, expected: Expected) -> None:
    """The plan of one text does not pass for another's."""
    spec, own = prove_spec(meant)
    plan = plan_spec(tilegen.load(planned))
    assert_refused(lambda: prove(spec, plan), expected, own.notes)


def assert_spec_refused(text: str, expected: Expected) -> None:
    """The spec itself is wrong."""
    spec = tilegen.load(text)
    assert_refused(lambda: prove(spec, plan_spec(spec)), expected)


def square_of(v: Var, by: int, rest: int) -> Index:
    return equal(mod(mul(v, v), by), rest)


# ---------------------------------------------------------------- texts; ROW stands for what differs
LOOPED = """kernel: looped
threads: 32
buffers:
  X: {scope: global, dtype: float32, shape: [1010, 32]}
  Y: {scope: global, dtype: float32, shape: [1010, 32], partial: true}
  A: {scope: shared, dtype: float32, shape: [3, 32]}
ops:
  - for: {t: 1000}
    do:
      - copy: {src: "X[ROW]", dst: "A[t % 3]"}
      - sync: cta
      - copy: {src: "A[t % 3]", dst: "Y[t]"}
      - sync: cta
"""
ONE_SIZE = """kernel: sized
threads: 64
grid: {bx: 4}
params: {N: {default: 4096, max: 1048576}}
buffers:
  X: {scope: global, dtype: float32, shape: [8, 64]}
  Y: {scope: global, dtype: float32, shape: [4, 64], partial: true}
  Z: {scope: global, dtype: float32, shape: [N], partial: true}
ops:
  - copy: {src: "X[ROW]", dst: "Y[bx]"}
"""
ONE, TWO, THREE = (
    "N: {default: 4096, max: 1048576}",
    "N: {default: 256, max: 4096}, M: {default: 128, max: 4096}",
    ", K",
)
TWO_SIZES = ONE_SIZE.replace(ONE, TWO).replace("shape: [N]", "shape: [N, M]")
THREE_SIZES = TWO_SIZES.replace(TWO, f"{TWO}, K: {{default: 64, max: 2048}}").replace("[N, M]", "[N, M, K]")
WIDER = "  W: {scope: global, dtype: float32, shape: [4, 3, 64], partial: true}\n  Z:"
WHEN = '  - copy: {src: "X[bx]", dst: "W[bx, %d]", when: "%s"}\n'
GRID_OF_SIZE = """kernel: sized
threads: 64
grid: {bx: N // 64}
params: {N: {default: 1024, max: 16777216, multiple_of: 64}}
buffers:
  X: {scope: global, dtype: float32, shape: [N + 64]}
  Y: {scope: global, dtype: float32, shape: [N]}
ops:
  - copy: {src: "X[ROW : +64]", dst: "Y[bx*64 : +64]"}
"""
GRID_OF_TWO = """kernel: sized
threads: 64
grid: {bx: N // 64, by: M}
params: {N: {default: 256, max: 65536, multiple_of: 64}, M: {default: 4, max: 4096}}
buffers:
  X: {scope: global, dtype: float32, shape: [M + 1, N]}
  Y: {scope: global, dtype: float32, shape: [M, N]}
ops:
  - copy: {src: "X[ROW, bx*64 : +64]", dst: "Y[by, bx*64 : +64]"}
"""
OVERLAPPING = """kernel: overlapping
threads: 64
grid: {bx: 1000}
buffers:
  X: {scope: global, dtype: float32, shape: [1000, 64]}
  Y: {scope: global, dtype: float32, shape: [1000, 64]%s}
ops:
  - copy: {src: "X[bx]", dst: "Y[%s]"%s}
"""
PARAMS_AT = "N}\nparams: {N: {default: 1000, max: 100000}}"
OVERLAPPING_AT = change_text(OVERLAPPING, ("{bx: 1000}", f"{{bx: {PARAMS_AT}"), ("[1000,", "[N,"))
OVERLAPPING_AT_TWO = """kernel: overlapping
threads: 64
grid: {bx: N, by: M}
params: {N: {default: 100, max: 4000}, M: {default: 4, max: 50}}
buffers:
  X: {scope: global, dtype: float32, shape: [M, N, 64]}
  Y: {scope: global, dtype: float32, shape: [M, N, 64]}
ops:
  - copy: {src: "X[by, bx]", dst: "Y[by, %s]"%s}
"""
HALF = "where(t < 100, warpid, 1 - warpid)"
IN_PLACE = """kernel: in_place
threads: 64
buffers:
  X: {scope: global, dtype: float32, shape: [400, 64], partial: true}
  kept: {scope: register, dtype: float32, shape: [32], layout: auto}
ops:
  - for: {t: 200}
    do:
      - copy: {scope: warp, src: "X[ROW, HALF*32 : +32]", dst: kept}
      - elementwise: {scope: warp, dst: kept, expr: kept * 2}
      - copy: {scope: warp, src: kept, dst: "X[ROW, HALF*32 : +32]"}
""".replace("HALF", HALF)
AGAIN = """kernel: again
threads: 64
buffers:
  X: {scope: global, dtype: float32, shape: [400, 64]}
  Y: {scope: global, dtype: float32, shape: [400, 64], partial: true}
ops:
  - for: {t: 200}
    do:
      - copy: {scope: warp, src: "X[t, HALF*32 : +32]", dst: "Y[ROW, HALF*32 : +32]"}
""".replace("HALF", HALF)
LENGTHS = """kernel: lengths
threads: 64
grid: {bx: 4}
params: {K: {default: 4096, max: 65536, multiple_of: 64}}
buffers:
  X: {scope: global, dtype: float32, shape: [5, K + 64]}
  Y: {scope: global, dtype: float32, shape: [4, K]}
  A: {scope: shared, dtype: float32, shape: [2, 64]}
ops:
  - for: {k: K // 64}
    do:
      - copy: {src: "X[ROW, k*64 : +64]", dst: "A[PUT]"}
      - sync: cta
      - copy: {src: "A[TAKE]", dst: "Y[bx, k*64 : +64]"}
      - sync: cta
"""
K, K_AND_M = "K: {default: 4096, max: 65536, multiple_of: 64}", ", M: {default: 5, max: 2000}"
LENGTHS_AND_SIZE = LENGTHS.replace(K, K + K_AND_M).replace("[5, K", "[M + 5, K")


def with_more(text: str, *parts: str) -> str:
    """The kernel with each condition alone deciding something else, so that none is new to the proof."""
    return text.replace("  Z:", WIDER) + "".join(WHEN % (k, part) for k, part in enumerate(parts))


# ---------------------------------------------------------------- those that once passed
NESTED = [
    "t + where(t + where(t < 500, 100, 0) == 560 and t > 499, 1, 0)",
    "t + where(t + where(t < 500, 100, 0) < 550 or t < 500, 0, 1)",
    "t + where(t % 8 + 4*where(t < 500, 0, t % 2) == 9, 1, 0)",
]
PARTS = [
    (ONE_SIZE, ("N % 4096 == 1000", "N > 300000", "N < 700000")),
    (TWO_SIZES, ("M + 100 == N", "M % 32 == 5", "M > 60")),
    (TWO_SIZES, ("M + N == 1000", "M > 300", "M < 400")),
    (TWO_SIZES, ("M // 32 == N // 64", "M % 32 > 20", "N > 500")),
    (TWO_SIZES, ("M % 37 == 5", "N % 41 == 7", "M < N")),
]
OF_ONE = {
    "N % 4096 == 1000 and N > 300000 and N < 700000": WRONG_VALUE,
    "N // 4096 % 2 == 1 and N % 4096 == 77 and N > 400000": WRONG_VALUE,
    "N * N % 99991 == 500": square_of(Var("N", 1048577), 99991, 500),
    "N > 500000 and N < 500100": WRONG_VALUE,
}
OF_TWO = {
    "M*N % 1009 == 500 and M > 50 and N > 60": equal(mod(mul(Var("M", 4097), Var("N", 4097)), 1009), 500),
    "M % 37 == 5 and N % 41 == 7": WRONG_VALUE,
    "M + 100 == N and M % 32 == 5": WRONG_VALUE,
    "M + N == 1000 and M > 300 and M < 400": WRONG_VALUE,
    "M // 32 == N // 64 and M % 32 > 20 and N > 500": WRONG_VALUE,
    "M == 300 + bx and N == 301 and bx == 2": WRONG_VALUE,
    "(M + N) % 64 == 33 and M > N and bx == 1 and N % 5 == 3": WRONG_VALUE,
}
OF_GRIDS = {
    "bx*bx % 60013 == 4 and bx > 2": square_of(Var("bx", 1 << 18), 60013, 4),
    "(bx*bx) % 60013 == 4 and bx > 2": square_of(Var("bx", 1 << 18), 60013, 4),
    "bx == 5000": WRONG_VALUE,
    "bx == 5000 and N % 4096 == 64": WRONG_VALUE,
    "bx * 100 == N and bx > 50": WRONG_VALUE,
    "N // 64 - 1 == bx and bx % 37 == 5 and bx > 100": WRONG_VALUE,
    "N // 64 == bx + 1 and bx % 1024 == 5 and bx > 6000": WRONG_VALUE,
    "N // 128 == bx and bx % 256 == 5 and bx > 6": WRONG_VALUE,
    "N // 128 == bx and bx % 256 == 5 and bx > 600": WRONG_VALUE,
}
OF_LENGTHS = [
    "K // 64 == k + 1 and k == 76",
    "K // 64 == k + 1 and k > 70 and k < 200",
    "K // 64 == k + 1 and k % 37 == 3 and k > 70",
    "K // 128 == k and k % 11 == 3",
    "K // 128 == k and k % 11 == 3 and k > 40",
]
PARTIAL = ", partial: true"
BACK = "where(bx < 500, bx, bx - 300)"
NESTED_CTAS = "bx + where(bx < 500, 100, 0)"
OF_OWNERS = {
    "moved back": OVERLAPPING % ("", BACK, ""),
    "moved back, partial": OVERLAPPING % (PARTIAL, BACK, ""),
    "two of nested": OVERLAPPING % (PARTIAL, f"bx + where({NESTED_CTAS} == 560 and bx > 499, 1, 0)", ""),
    "none of nested": OVERLAPPING % ("", "bx", f', when: "{NESTED_CTAS} != 560 or bx < 500"'),
    "in place": OVERLAPPING.replace("X[bx]", "Y[bx]") % (PARTIAL, BACK, ""),
}
OF_OWNERS_AT = {
    "bx - where(N == 5000 and bx == 7, 1, 0)": OWNERS,
    "bx - where(N > 5000 and N < 6000 and bx == 7, 1, 0)": OWNERS,
    "bx - where(N % 97 == 5 and bx == 7, 1, 0)": OWNERS,
    "bx - where(N % 1009 == 500 and bx > 0, 1, 0)": OWNERS,
    "bx - where(N * N % 10007 == 9 and N > 3000 and bx > 0, 1, 0)": square_of(Var("N", 100001), 10007, 9),
}
UNOWNED_AT = ["N != 5000 or bx != 7", "bx * 3 != N - 2000"]
OF_TRIPS = {
    "50 back": IN_PLACE.replace("ROW", "where(t < 100, t, t - 50)"),
    "2 back": IN_PLACE.replace("ROW", "where(t < 100, t, t - 2)"),
    "written again": AGAIN.replace("ROW", "where(t < 100, t, t - 50)"),
}

Case = tuple[str, str, str, Expected]  # a text, what is right at its place and what is wrong, what is expected


def looped(text: str) -> str:
    """Both stages of a loop are those of its trip."""
    return text.replace("PUT", "k % 2").replace("TAKE", "k % 2")


def where_few(text: str, right: str, faults: Iterable[tuple[str, Expected]]) -> list[Case]:
    """The next row is taken where a condition holds; of whole tiles, the next tile."""
    step = right.partition("*")[2] or "1"
    return [(text, right, f"{right} + where({few}, {step}, 0)", expected) for few, expected in faults]


def all_wrong(faults: Iterable[str]) -> list[tuple[str, Expected]]:
    return [(few, WRONG_VALUE) for few in faults]


PASSED: list[Case] = [
    *((LOOPED, "t", row, WRONG_VALUE) for row in NESTED),
    *where_few(ONE_SIZE, "bx", OF_ONE.items()),
    *where_few(TWO_SIZES, "bx", OF_TWO.items()),
    *(
        case
        for text, all_of in PARTS
        for case in where_few(with_more(text, *all_of), "bx", all_wrong([" and ".join(all_of)]))
    ),
    *where_few(GRID_OF_SIZE, "bx*64", OF_GRIDS.items()),
    *where_few(looped(LENGTHS), "bx", all_wrong(OF_LENGTHS)),
]
PASSED_ALONE: list[tuple[str, str, Expected]] = [
    *((name, text, OWNERS) for name, text in OF_OWNERS.items()),
    *((row, OVERLAPPING_AT % ("", row, ""), expected) for row, expected in OF_OWNERS_AT.items()),
    *((few, OVERLAPPING_AT % ("", "bx", f', when: "{few}"'), OWNERS) for few in UNOWNED_AT),
    *((name, text, RACE) for name, text in OF_TRIPS.items()),
]


def named(cases: list[Case]) -> list[object]:
    return [pytest.param(*case, id=case[2]) for case in cases]


def test_all_that_once_passed_are_here() -> None:
    assert len(PASSED) + len(PASSED_ALONE) == 48


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("text", "right", "wrong", "expected"), named(PASSED))
def test_a_fault_that_once_passed_is_found(text: str, right: str, wrong: str, expected: Expected) -> None:
    assert_told_apart(text.replace("ROW", right), text.replace("ROW", wrong), expected)


@pytest.mark.sweep(6)
@pytest.mark.parametrize(("text", "expected"), [pytest.param(*case[1:], id=case[0]) for case in PASSED_ALONE])
def test_a_spec_that_once_passed_is_refused(text: str, expected: Expected) -> None:
    assert_spec_refused(text, expected)


@pytest.mark.parametrize("text", OF_TRIPS.values(), ids=OF_TRIPS)
def test_all_trips_show_the_race_that_a_few_do(text: str) -> None:
    spec = tilegen.load(text)
    assert proof_code(lambda: check_meaning(spec, plan_spec(spec), [(0, 0, 0)], {})) in RACE


# ---------------------------------------------------------------- new kinds
NEW_OF_ONE = [
    "N % 4096 % 100 == 37 and N > 500000",
    "N % 1000 % 37 % 5 == 3 and N > 999000",
    "N // 7 % 11 == 3 and N // 13 % 5 == 2 and N > 1000000",
    "N * 3 == 30000 + 3*bx",
    "N * 6 == 60004 + bx * 2",
    "min(N, 70000) % 1000 == 77 and N > 50000",
    "max(N, 70000) - 70000 == 12345 + bx",
    "where(N % 3 == 1, N, 2*N) == 200002",
    "(N + where(N % 2 == 0, 1, 0)) % 4096 == 4001 and N > 800000",
    "N // 4096 == 100 and N % 4096 == 4095 - bx",
    "max(N - 500000, 500000 - N) == 17",
    "N - N // 1000 * 1000 == 999 and N // 1000 == 777",
    "N % 143 < 11 and N == 1003",
    "N % 101 > 40 and N > 2071 and N < 2080",
    "N % 100 // 10 == 5 and N > 2055 and N < 2100",
    "N - bx == 408 and N % 8 == 1",
]
NEW_OF_TWO = [
    "min(M, N) == 1000 and max(M, N) == 1003",
    "M * 3 == N * 2 and M > 1000 and M % 7 == 5",
    "M * 2 + N * 3 == 5000 and M == N",
    "(M + N) // 64 == 50 and (M - N + 4096) % 128 == 77",
    "M // 16 * 16 == N and M % 16 == 9 and M > 3000",
    "min(M, 300) + min(N, 500) == 777 and M > 290",
    "(M * 64 + N) % 4096 == 4000 and M > 500",
    "N > 3*M and N < 3*M + 3 and M > 1000",
    "M % 16 == 3 and N % 16 == 5 and M // 16 == N // 16 + 7",
    "M * 100 + N == 123456",
    "M - N == 100 and N % 3 + M % 8 == 6",
    "N % 32 + M % 32 == 60",
    "M % 128 + N % 128 == 250",
    "M + bx == 3450 and M % 64 % 7 == 0",
]
NEW_OF_THREE = [
    "M == 100 + K and N == 200 + K and K % 64 == 61",
    "M % 32 == 7 and N % 32 == 9 and K % 32 == 11",
    "M < N and N < K and K < M + 3",
    "M + N + K == 6000 and M == N and bx == 1",
    "M == 2*N and K == 3*N and N == 123",
    "M < K and N == M + 5 and K % 100 == 77 and M > K - 2",
    "M + N == K and M == 2*N and K > 1000",
]
NEW_OF_GRIDS = [
    "bx * 6 == N // 64 - 4 and bx > 100",
    "bx == 100000",
    "bx % 1024 % 100 == 99 and bx > 4000",
    "bx // 100 == 1500 and bx % 100 == 37",
    "min(bx, N // 128) % 777 == 700 and bx > 9000",
    "N // 64 == 33333 and bx == 22222",
    "bx > 70000 and bx % 97 == 5 and N % 4096 == 192",
    "N // 64 - bx == 1000 and bx % 64 == 9 and bx > 3000",
    "bx * 2 == N // 64 - 1 and bx % 1000 == 777",
    "N // 64 % 128 == 127 and bx % 128 == 3 and bx > 1000",
]
NEW_OF_GRIDS_OF_TWO = [
    "bx == by and bx % 37 == 5 and bx > 100",
    "by == M - 1 and bx == N // 64 - 1 and M > 1000 and bx > 300",
    "by * 64 == N and M == by + 2",
    "by % 16 == 7 and bx % 16 == 9 and M % 16 == 11 and N // 64 % 16 == 13",
    "by == 3000 and N // 64 == 500",
    "M == N // 64 and bx == 55 and by == 55",
    "by * 3 == M + 1 and M > 1000 and bx == 2",
    "min(bx, by) == 200 and M > 3000",
    "bx * 6 + 4 == N // 64 and by == 3 and bx > 50",
    "by * 7 + 5 == M and by % 3 == 1 and by > 40",
    "N + M == 19562",
    "5*N - by == 175883",
    "5*by - bx == 142 and by % 5 == 0",
    "N - M == 3207 and bx == by",
]
NEW_OF_LENGTHS = [
    "K // 64 == k + 2 and k == 701",
    "K % 4096 == 64 and k == 65",
    "K // 64 - k == 3 and k % 128 == 77",
    "k * 3 * 64 == K - 128 and k > 90",
    "min(K // 64, 500) == k + 1 and k % 8 == 3 and k > 300",
    "K // 64 == 777 and k == 333",
]
NEW_OF_LENGTHS_AND_SIZE = [
    "K // 64 == M and k == M - 1 and M > 100",
    "k + M == 600 and K // 64 == k + 1 and M > 77",
    "M % 37 == 5 and k % 41 == 7 and K // 64 == k + 1 and M > 1000",
    "M * 64 == K + 128 and k == 17 and M > 90",
    "K // 64 % 7 == 3 and M % 11 == 5 and k % 13 == 9 and k > 200",
    "min(M, K // 64) == 345 and k == 344",
    "bx + 3*(K // 64) == 1165 and k == 7",
]
NEW_OF_STAGES = ["K // 64 == k + 1 and k == 300", "K // 64 - 1 == k and k > 200 and k < 220 and bx == 1"]
NEW_OF_OWNERS = [
    "N == 3000 and M == 20 and bx == 1234",
    "N - bx == 3 and N % 37 == 5 and by == 7",
    "bx * 3 == N - 2 and N % 8 == 1 and N > 100 and by == M - 1",
    "M == by + 5 and N == bx + 3 and N % 64 == 63",
    "min(N, 2000) == bx + 1 and N > 2500 and M == 3",
    "N % 100 % 7 == 3 and M % 16 == 9 and bx == 2",
    "N == 40 * M and bx == by and by == 11",
    "max(N, 64 * M) == 2048 and bx == 5 and by == 1",
]


def with_stages(put: str, take: str) -> str:
    return LENGTHS.replace("ROW", "bx").replace("PUT", put).replace("TAKE", take)


NEW: list[Case] = [
    *where_few(ONE_SIZE, "bx", all_wrong(NEW_OF_ONE)),
    *where_few(TWO_SIZES, "bx", all_wrong(NEW_OF_TWO)),
    *where_few(THREE_SIZES, "bx", all_wrong(NEW_OF_THREE)),
    *where_few(GRID_OF_SIZE, "bx*64", all_wrong(NEW_OF_GRIDS)),
    *where_few(GRID_OF_TWO, "by", all_wrong(NEW_OF_GRIDS_OF_TWO)),
    *where_few(looped(LENGTHS), "bx", all_wrong(NEW_OF_LENGTHS)),
    *where_few(looped(LENGTHS_AND_SIZE), "bx", all_wrong(NEW_OF_LENGTHS_AND_SIZE)),
]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("text", "right", "wrong", "expected"), named(NEW))
def test_new_kinds(text: str, right: str, wrong: str, expected: Expected) -> None:
    assert_told_apart(text.replace("ROW", right), text.replace("ROW", wrong), expected)


@pytest.mark.slow
@pytest.mark.parametrize("few", NEW_OF_STAGES)
def test_new_kinds_of_stages(few: str) -> None:
    """A stage is taken before it is there, or another one is filled."""
    right, wrong = "k % 2", f"(k + where({few}, 1, 0)) % 2"
    for planned in (with_stages(wrong, right), with_stages(right, wrong)):
        assert_told_apart(with_stages(right, right), planned, ("TG420", "TG404"))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("few", NEW_OF_OWNERS)
def test_new_kinds_of_owners(few: str) -> None:
    """A row is left out, or written by a neighbour too."""
    assert_spec_refused(OVERLAPPING_AT_TWO % ("bx", f', when: "not ({few})"'), OWNERS)
    other = "where(bx > 0, bx - 1, bx + 1)"
    assert_spec_refused(OVERLAPPING_AT_TWO % (f"where({few} and N > 1, {other}, bx)", ""), OWNERS)


@pytest.mark.parametrize("few", ["N == 5000", "N % 97 == 5"])
def test_elements_that_nobody_owns_hide_no_second_owner(few: str) -> None:
    """A row of a partial array has no owner at the usual sizes."""
    row = f"bx - where({few} and bx == 7, 1, 0)"
    assert_spec_refused(OVERLAPPING_AT % (PARTIAL, row, ', when: "bx > 0"'), OWNERS)
