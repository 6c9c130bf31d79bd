"""Promises that a call checks: the element that breaks one is named, and nothing is launched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes  # noqa: F401 - registers bfloat16 and float8 with NumPy
import numpy as np
import pytest
from text.run import requires_gxx

from calls.pretended import Cupy, aligned, pretend_checks, pretend_cupy, pretend_kernel
from tests.faults.verdicts import refusal_of
from tilegen.dtypes import numpy_dtype
from tilegen.errors import CallError
from tilegen.pipeline import Built, build

pytestmark = requires_gxx
SPEC = """
kernel: k
arch: sm_80
params: {{T: {{default: 6, max: 4096}}, N: {{default: 9, max: 4096}}}}
threads: 32
buffers:
  ids: {{scope: global, dtype: {dtype}, shape: {shape}, {promise}}}
  Y: {{scope: global, dtype: float32, shape: [T, N], partial: true}}
  Z: {{scope: global, dtype: {dtype}, shape: [4], partial: true}}
ops:
  - copy: {{src: "ids[{at}0:1]", dst: "Z[0:1]"}}
  - fill: {{dst: "Y[0:1, 0:1]", value: 1}}
"""


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cupy]:
    yield from pretend_cupy(monkeypatch)


class Checked:
    """A kernel that reads an array of which something is promised, and checks it in each call."""

    def __init__(self, cupy: Cupy, promise: str, dtype: str = "int32", shape: str = "[T]"):
        built = build(SPEC.format(dtype=dtype, shape=shape, promise=promise, at="0, " * shape.count(",")))
        assert isinstance(built, Built)
        self.cupy = cupy
        self.kernel, self.driver = pretend_kernel(built, runs=False)
        self.checks = pretend_checks(self.kernel, built)

    def call(self, values: Any, T: int = 6, N: int = 9, dtype: str = "int32", launches: bool = True) -> Any:
        kind = numpy_dtype(dtype)
        table = aligned(np.shape(values), kind)
        table[...] = np.array(values, kind)
        bits = {"bfloat16": "u2", "float8_e4m3fn": "u1", "float8_e5m2": "u1"}.get(dtype, kind)  # as CuPy has them
        arrays = [self.cupy.array(x) for x in (table.view(bits), aligned((T, N)), aligned((4,), bits))]
        return self.kernel(*arrays) if launches else self.kernel.check(*arrays)

    def refuse(self, values: Any, **more: Any) -> str:
        """What a call says; nothing was launched, and all memory was given back."""
        before = len(self.driver.seen)
        error = refusal_of(CallError, self.call, values, **more)
        assert len(self.driver.seen) == before and not self.checks.held
        (found,) = error.diagnostics
        assert found.code == "TG716" and "nothing was launched" in found.hint and found.mark is not None
        return found.message

    def accept(self, values: Any, **more: Any) -> None:
        before = len(self.driver.seen)
        self.call(values, **more)
        assert len(self.driver.seen) == before + 1 and not self.checks.held


def test_a_range(cupy: Cupy) -> None:
    k = Checked(cupy, 'values: "-1 : N"')
    k.accept([-1, 0, 8, 3, 3, 8])
    promised = "the spec promises values -1 : N (here values -1 : 9)"
    assert k.refuse([0, 1, 9, -2, 0, 0]) == f"k: ids[2] is 9 (element 2), but {promised}: it is not in -1 : 9"
    assert k.refuse([0, 1, 8, -2, 99, 0]) == f"k: ids[3] is -2 (element 3), but {promised}: it is not in -1 : 9"
    for value in (2**31 - 1, -(2**31)):
        assert f"ids[5] is {value} (element 5)" in k.refuse([0, 0, 0, 0, 0, value])
    k.accept([0] * 6)


def test_the_first_of_many_elements_whatever_thread_finds_it(cupy: Cupy) -> None:
    k = Checked(cupy, 'values: "0 : N"')
    values = np.zeros(4000, np.int32)
    k.accept(values, T=4000)
    values[1700:] = 77
    assert "ids[1700] is 77 (element 1700)" in k.refuse(values, T=4000)
    values[301] = -5
    assert "ids[301] is -5" in k.refuse(values, T=4000)


def test_a_step(cupy: Cupy) -> None:
    k = Checked(cupy, 'values: "-8 : N * 8 : 8"')
    k.accept([-8, 0, 8, 64, 16, 16])
    promised = "the spec promises values -8 : N * 8 : 8 (here values -8 : 72 : 8)"
    said = f"k: ids[2] is 12 (element 2), but {promised}: it is no multiple of 8 from -8 on"
    assert k.refuse([0, 8, 12, 3, 0, 0]) == said
    assert "not in -8 : 72" in k.refuse([0, 0, 0, 0, 0, 72])


def test_no_value_twice(cupy: Cupy) -> None:
    k = Checked(cupy, 'values: "-1 : N", distinct: true')
    k.accept([-1, 5, -1, 3, 0, -1])
    assert [turn for _, turn in k.checks.seen] == [0, 1, 2]
    message = k.refuse([4, 5, -1, 3, 5, 4])
    assert "ids[4] is 5 (element 4)" in message and message.endswith("ids[1], element 1, is 5 too")
    assert "ids[0] is 9" in k.refuse([9, 9, 1, 1, 1, 1])


def test_no_value_twice_among_many(cupy: Cupy) -> None:
    k = Checked(cupy, 'values: "0 : 1000000", distinct: true')
    values = np.random.default_rng(3).permutation(1_000_000)[:4000]
    k.accept(values, T=4000)
    values[2500], values[3111], values[3900] = values[17], values[2400], values[2400]
    message = k.refuse(values, T=4000)
    assert "(element 2500)" in message and "ids[17], element 17," in message


@pytest.mark.parametrize(("values", "why"), [
    ([1, 2, 3, 4, 5, 9], "ids[0] is 1 (element 0)"), ([0, 2, 1, 4, 5, 9], "ids[2] is 1 (element 2)"),
    ([0, 2, 2, 4, 5, 8], "ids[5] is 8 (element 5)"), ([0, 2, 2, 10, 5, 9], "ids[3] is 10 (element 3)"),
    ([0, -1, 2, 3, 5, 9], "ids[1] is -1 (element 1)"), ([0, 9, 9, 9, 9, 3], "ids[5] is 3 (element 5)"),
])  # fmt: skip
def test_offsets(cupy: Cupy, values: list[int], why: str) -> None:
    k = Checked(cupy, "offsets: N", shape="[T + 1]")
    k.accept([0, 2, 2, 4, 5, 9], T=5)
    k.accept([0, 0, 0, 0, 0, 9], T=5)
    assert why in k.refuse(values, T=5)


def test_two_dimensions(cupy: Cupy) -> None:
    k = Checked(cupy, 'values: "0 : N"', shape="[T, N]")
    values = np.zeros((6, 9), np.int32)
    k.accept(values)
    values[4, 7] = 12
    assert "ids[4, 7] is 12 (element 43)" in k.refuse(values)


@pytest.mark.parametrize(("dtype", "least", "most"), [
    ("int64", -(2**63), 2**63 - 1), ("uint64", 0, 2**64 - 1), ("uint32", 0, 2**32 - 1), ("int8", -128, 127),
    ("uint16", 0, 65535),
])  # fmt: skip
def test_types_of_integers(cupy: Cupy, dtype: str, least: int, most: int) -> None:
    k = Checked(cupy, 'values: "0 : 100"', dtype)
    k.accept([0, 99, 1, 2, 3, 4], dtype=dtype)
    assert f"is {most} (element 5)" in k.refuse([0, 0, 0, 0, 0, most], dtype=dtype)
    if least < 0:
        assert f"is {least} (element 5)" in k.refuse([0, 0, 0, 0, 0, least], dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_floats(cupy: Cupy, dtype: str) -> None:
    k = Checked(cupy, 'values: "-1.5 : 2"', dtype)
    k.accept([-1.5, 1.75, 0, -0.0, 2**-6, 1], dtype=dtype)
    for wrong in (2, -1.75, np.nan, *(() if dtype == "float8_e4m3fn" else (np.inf, -np.inf))):
        assert f"is {float(wrong)} (element 3)" in k.refuse([0, 1, 1, wrong, 5, 0], dtype=dtype)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_each_number_of_a_small_type(cupy: Cupy, dtype: str) -> None:
    k = Checked(cupy, 'values: "-0.5 : 0.375"', dtype)
    for raw in range(256):
        x = np.array([raw], np.uint8).view(numpy_dtype(dtype))[0]
        judge = k.accept if -0.5 <= float(x) < 0.375 else k.refuse
        judge([0, 0, 0, 0, 0, x], dtype=dtype)


def test_a_captured_stream_is_refused(cupy: Cupy) -> None:
    k = Checked(cupy, 'values: "0 : N"')
    k.checks.__dict__["captures"] = True
    (found,) = refusal_of(CallError, k.call, [0] * 6).diagnostics
    assert found.code == "TG717" and "before the capture" in found.hint and not k.driver.seen
    k.kernel.check_values = False
    k.call([0] * 6)
    assert len(k.driver.seen) == 1


def test_a_check_alone_launches_nothing(cupy: Cupy) -> None:
    k = Checked(cupy, 'values: "0 : N"')
    k.kernel.check_values = False
    k.call([0, 0, 99, 0, 0, 0])
    assert len(k.driver.seen) == 1 and not k.checks.seen
    k.call([0] * 6, launches=False)
    assert "ids[2] is 99" in str(refusal_of(CallError, k.call, [0, 0, 99, 0, 0, 0], launches=False))
    assert len(k.driver.seen) == 1


def test_what_is_no_table(cupy: Cupy) -> None:
    """Empty, of another type, on another GPU: said of what it is."""
    k = Checked(cupy, 'values: "0 : N"')
    y, z, table = aligned((6, 9)), aligned((4,), np.int32), aligned((6,), np.int32)

    def ask(ids: Any, device: int = 0) -> Any:
        error = refusal_of(CallError, k.kernel, cupy.array(ids, device), cupy.array(y), cupy.array(z))
        return error.diagnostics[0]

    said = "k: ids, of which the spec promises values 0 : N, is empty: its shape is (0,)"
    assert ask(aligned((0,), np.int32)).message == said
    assert "ids.to(torch.int32)" in ask(aligned((6,), np.int64)).hint
    assert "ids too" in ask(table, 1).hint and "ids on device 1" in ask(table, 1).message
    assert not k.checks.seen and not k.driver.seen


def test_the_short_way_checks_too(cupy: Cupy) -> None:
    """Two arrays of a known kind skip what any call asks, but not this."""
    built = build(
        "kernel: k\narch: sm_80\nthreads: 32\nbuffers:\n"
        '  ids: {scope: global, dtype: int32, shape: [64], values: "0 : 9"}\n'
        "  Y: {scope: global, dtype: int32, shape: [64]}\nops:\n  - copy: {src: ids, dst: Y}\n"
    )
    assert isinstance(built, Built)
    kernel, driver = pretend_kernel(built)
    ids, y = aligned((64,), np.int32), aligned((64,), np.int32)
    for _ in range(2):
        kernel(cupy.array(ids), cupy.array(y))  # the short way is open now
    pretend_checks(kernel, built)
    for _ in range(3):
        kernel(cupy.array(ids), cupy.array(y))
    ids[63] = 9
    assert "ids[63] is 9" in str(refusal_of(CallError, kernel, cupy.array(ids), cupy.array(y)))
    assert len(driver.seen) == 5
    kernel.check_values = False
    kernel(cupy.array(ids), cupy.array(y))
    assert len(driver.seen) == 6 and y[63] == 9
