"""The best that was measured of a spec on this device, as the spec's text with it written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilegen import __version__, gpu
from tilegen import spec as spec_room
from tilegen.errors import Diagnostic, InputError
from tilegen.spec.data import Spec
from tilegen.spec.pinning import Pins, pin_text
from tilegen.spec.program import Program
from tilegen.tuned.keys import key_of, read_spec
from tilegen.tuned.records import Environment, Record, Skipped, choose_best, latest, read_records, sort_records


@dataclass(frozen=True)
class Tuned:
    """A spec with the best of its candidates written in; its record, and what of the file counted for nothing."""

    source: spec_room.NamedText
    record: Record
    skipped: Skipped


def find_tuned(
    source: spec_room.Source | Spec | Program, path: str | Path, arch: str | None = None,
    params: Mapping[str, int | float] | None = None, here: Environment | None = None,
) -> Tuned:  # fmt: skip
    """The spec with the best of its candidates that a file of results has for this device.

    ``here``: where it is to run; by default this machine's GPU. Without one, all results have to be of one device.
    Raises InputError: TG001 for a file that cannot be read, TG614 where it has nothing for this spec and device; and
    SpecError for a wrong spec.
    """
    given = spec_room.NamedText(source.path, source.text) if isinstance(source, Spec | Program) else source
    arch = arch or (source.arch if isinstance(source, Spec | Program) else None)
    spec = read_spec(given, arch, params)
    found, problem = read_records(path), key_of(spec)
    here = here or find_environment()
    records, skipped = sort_records(found, problem, here)
    places = list(dict.fromkeys(r.environment for r in records))
    if len(places) > 1:  # only without a GPU here
        message = f"{path} has results of {len(places)} devices or versions, and there is no GPU here to choose by"
        said = "; ".join(map(str, places))
        raise InputError(Diagnostic("TG614", f"{message}: {said}", hint="keep the lines of one of them"))
    best = choose_best(list(latest(records).values()))
    if best is None:
        message = f"{path} has no time of this spec on this device"
        message += f": {skipped}" if str(skipped) else ""
        hint = f"`tilegen tune {spec.path} -o {path}` measures it here"
        raise InputError(Diagnostic("TG614", message, hint=hint))
    return Tuned(spec_room.NamedText(spec.path, pin_text(spec.text, read_pins(best.pins))), best, skipped)


def find_environment() -> Environment | None:
    """This machine's GPU, its driver and the compiler that is taken; None without a GPU."""
    device = gpu.find_device()
    return None if device is None else describe_environment(device)


def describe_environment(device: gpu.Device) -> Environment:
    """A device with what compiles for it here."""
    compilers = gpu.find_compilers()
    compiler = str(compilers[0]) if compilers else "no compiler"
    return Environment(device.name, device.driver, compiler, __version__)


def read_pins(data: Mapping[str, Any]) -> Pins:
    """Pins as a record has them: lists and dicts of plain values."""
    ops = [(str(name), dict(fields)) for name, fields in data.get("ops", ())]
    return Pins(
        dict(data.get("keys", {})), dict(data.get("params", {})), dict(data.get("layouts", {})), ops,
        [read_pins(one) for one in data.get("passes", ())],
    )  # fmt: skip


def pins_data(pins: Pins) -> dict[str, Any]:
    """Pins as plain data, without what pins nothing.

    >>> pins_data(read_pins({"params": {"T": 64}, "ops": [["gemm", {"stages": 4}]]}))
    {'params': {'T': 64}, 'ops': [['gemm', {'stages': 4}]]}
    """
    data = {
        "keys": dict(pins.keys), "params": dict(pins.params), "layouts": dict(pins.layouts),
        "ops": [[name, dict(fields)] for name, fields in pins.ops], "passes": [pins_data(one) for one in pins.passes],
    }  # fmt: skip
    return {name: value for name, value in data.items() if value}
