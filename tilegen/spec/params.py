"""The section ``params``: integers that are known when a kernel is built, and arguments that its launch gives."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence as List
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Integral, Real

from tilegen.dtypes import is_held, say_range
from tilegen.errors import Flaw
from tilegen.index import INT_LIMIT, Index, Var
from tilegen.near_words import suggest
from tilegen.plan import Param, arguments, default_values
from tilegen.spec.data import Constant
from tilegen.spec.expressions import read_constant
from tilegen.spec.findings import Findings, Flawed, shorten
from tilegen.spec.launch_models import ChoiceFields, ParamFields
from tilegen.spec.models import check_fields, report_null
from tilegen.spec.names import FORBIDDEN, Names, Register
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node, list_words

_OVERRIDE = "(--set, or params in Python)"


@dataclass
class Params:
    """What the section ``params`` declares, and the names it gives to expressions."""

    runtime: list[Param] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    @property
    def names(self) -> Names:
        values: dict[str, Index] = {c.name: c.value for c in self.constants}
        values |= {p.name: p.var for p in arguments(self.runtime) if p.var is not None}
        others = [p for p in self.runtime if p.var is None]
        words = {"uint32": "of uint32, which 'expr' of an op alone names", "float32": "a float32, not an integer"}
        unused = {p.name: Flaw(FORBIDDEN, f"'{p.name}' is {words[p.dtype]}") for p in others}
        return Names(values, unused, frozenset(self.broken))

    @property
    def launched_names(self) -> Names:
        """The same with counts of CTAs that the launch alone knows, as extents of workspaces."""
        return self.names.with_values({p.name: p.var for p in self.runtime if p.launched is not None and p.var})

    @property
    def defaults(self) -> dict[str, int]:
        """The runtime integers at their defaults."""
        return default_values(self.runtime)

    @property
    def lowest(self) -> dict[str, int]:
        """The runtime integers at their smallest."""
        return {p.name: p.var.least for p in self.runtime if p.var is not None}


def read_params(node: Node | None, overrides: Dict[str, int | float], register: Register, findings: Findings) -> Params:
    """Every parameter; ``overrides`` replace constants and defaults."""
    params = Params()
    if node is not None and not isinstance(node, Mapping):
        if not (isinstance(node, Scalar) and node.value is None):
            message = f"'params' must be a mapping of names, not {describe_node(node)}"
            findings.report("TG103", message, node.mark, "write params: {M: 4096}")
            items = node.items if isinstance(node, Sequence) else ()
            params.broken.update(key.text for i in items if isinstance(i, Mapping) for key, _ in i.entries)
        return params
    entries = node.entries if node else ()
    computed: list[tuple[Scalar, Scalar]] = []
    for key, value in entries:
        before = len(findings.found)
        with findings.collect():
            name = register.claim(key.passage, "param")
            if isinstance(value, Scalar) and isinstance(value.value, str) and name not in overrides:
                computed.append((key, value))
            else:
                _read_param(name, key, value, overrides.get(name), params, findings)
        if len(findings.found) > before:
            params.broken.add(key.text)
    _compute_params(computed, params, findings)
    order = {key.text: at for at, (key, _) in enumerate(entries)}
    params.constants.sort(key=lambda constant: order[constant.name])
    known = [key.text for key, _ in node.entries] if node else []
    for name in overrides:
        if name not in known:
            message = f"there is no param '{shorten(name)}' to set {_OVERRIDE}"
            findings.report("TG105", message, None, suggest(name, known))
    return params


def _read_param(name: str, key: Scalar, node: Node, override: float | None, params: Params, findings: Findings) -> None:
    if isinstance(node, Mapping) and "choices" in node:
        choices = check_fields(node, ChoiceFields, f"param '{name}' with choices", findings, key.mark)
        if choices:
            params.constants.append(_choose(name, choices.choices, node["choices"], override))
    elif isinstance(node, Mapping):
        fields = check_fields(node, ParamFields, f"param '{name}'", findings, key.mark)
        if fields:
            params.runtime.append(_make_param(name, fields, node, override))
    elif isinstance(node, Scalar) and node.value is None:
        report_null(key, node, findings)
    elif isinstance(node, Scalar) and isinstance(node.value, int | str) and not isinstance(node.value, bool):
        value = _check_override(name, override, node.value if isinstance(node.value, int) else 0)
        if not 0 <= value < INT_LIMIT:
            raise Flawed("TG106", f"param '{name}' must be from 0 to {INT_LIMIT - 1}, not {value}", node.mark)
        params.constants.append(Constant(name, value))
    else:
        message = f"param '{name}' must be an integer, an expression or {{default: ..}}, not {describe_node(node)}"
        raise Flawed("TG103", message, node.mark, "a runtime argument is {default: 8192, multiple_of: 8}")


def _compute_params(entries: List[tuple[Scalar, Scalar]], params: Params, findings: Findings) -> None:
    """Those that follow from others, which may stand before or behind them; raises TG106 for what names itself."""
    left = list(entries)
    while left:
        names = {key.text for key, _ in left}
        ready = [entry for entry in left if names.isdisjoint(list_words(entry[1]))]
        if not ready:
            key, value = left[0]
            said = f"'{key.text}' is computed from itself" + ("" if len(left) == 1 else ", by way of others")
            params.broken.update(names)
            findings.report("TG106", said, value.mark, "give one of them a number")
            return
        for key, value in ready:
            params.broken.add(key.text)
            with findings.collect():
                params.constants.append(Constant(key.text, _compute(key.text, value, params)))
                params.broken.discard(key.text)
        left = [entry for entry in left if entry not in ready]


def _compute(name: str, node: Scalar, params: Params) -> int:
    known = {c.name: c.value for c in params.constants}
    reason = "'{name}' is given at the launch: a param is computed from those that are known when the kernel is built"
    names = Names(known, broken=frozenset(params.broken)).forbid([p.name for p in params.runtime], reason)
    value = read_constant(node, names, f"param '{name}'")
    if not 0 <= value < INT_LIMIT:
        raise Flawed("TG106", f"param '{name}' must be from 0 to {INT_LIMIT - 1}, not {value}", node.mark)
    return value


def _choose(name: str, choices: List[int], node: Node, override: float | None) -> Constant:
    """The first of the choices, or the one that is set. Raises TG106 for no choice, two equal ones, or another one."""
    said = ", ".join(map(str, choices))
    double = next((x for at, x in enumerate(choices) if x in choices[:at]), None)
    if double is not None:
        raise Flawed("TG106", f"{double} is two of the choices of '{name}'", node.mark, "write it once")
    for x in choices:
        if not 0 <= x < INT_LIMIT:
            raise Flawed("TG106", f"a choice of '{name}' must be from 0 to {INT_LIMIT - 1}, not {x}", node.mark)
    value = _check_override(name, override, choices[0])
    if value not in choices:
        message = f"'{name}' is set to {value}, which is none of its choices {_OVERRIDE}"
        raise Flawed("TG106", message, None, f"they are {said}")
    return Constant(name, value, (value, *(x for x in choices if x != value)))


def _check_override(name: str, override: float | None, value: int) -> int:
    if override is None:
        return value
    if isinstance(override, bool) or not isinstance(override, Integral):
        message = f"'{name}' is set to {shorten(repr(override))}, which is no integer {_OVERRIDE}"
        raise Flawed("TG103", message)
    if not 0 <= override < INT_LIMIT:
        number = override if abs(override) < 2**64 else "a number beyond 64 bits"
        message = f"'{name}' is set to {number}; it must be from 0 to {INT_LIMIT - 1} {_OVERRIDE}"
        raise Flawed("TG106", message)
    return int(override)


def _read_bits(name: str, default: float, node: Mapping, override: float | None) -> int:
    """The value of a uint32 param. Raises TG103 for what is no integer, TG106 for one that uint32 does not hold."""
    value = default if override is None else override
    place = node["default"].mark if override is None else None
    said = f"the default of '{name}'" if override is None else f"'{name}' {_OVERRIDE}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise Flawed("TG103", f"{said} is an integer, as a uint32 is, not {shorten(repr(value))}", place)
    if not 0 <= value < 1 << 32:
        raise Flawed("TG106", f"{said} must be from 0 to {(1 << 32) - 1}, not {shorten(str(value))}", place)
    return int(value)


def _make_param(name: str, fields: ParamFields, node: Mapping, override: float | None) -> Param:
    if fields.dtype != "int32":
        for word in ("multiple_of", "max"):
            if word in node:
                raise Flawed("TG101", f"a {fields.dtype} param has no '{word}'", node.key(word).mark, "remove it")
    if fields.dtype == "uint32":
        return Param(name, "uint32", _read_bits(name, fields.default, node, override))
    if fields.dtype == "float32":
        value = fields.default if override is None else override
        if isinstance(value, bool) or not isinstance(value, Real):
            message = f"'{name}' is set to {shorten(repr(value))}, which is no number {_OVERRIDE}"
            raise Flawed("TG103", message)
        with suppress(OverflowError):  # of an integer beyond all floats
            if is_held(float(value), "float32"):
                return Param(name, "float32", float(value))
        if override is None:
            raise Flawed(
                "TG106", f"the default of '{name}' is {value}, and {say_range('float32')}", node["default"].mark
            )
        message = f"'{name}' is set to what no float32 holds {_OVERRIDE}"
        raise Flawed("TG106", message, None, say_range("float32"))
    at = node["default"]
    if not isinstance(fields.default, int):
        raise Flawed("TG103", f"the default of an int32 param is an integer, not {fields.default}", at.mark)
    default, step = _check_override(name, override, fields.default), fields.multiple_of
    said = f"the default of '{name}'" if override is None else f"'{name}' {_OVERRIDE}"
    place = at.mark if override is None else None
    if default < 1 or default > fields.max:
        raise Flawed("TG106", f"{said} must be from 1 to {fields.max}, not {default}", place)
    if default % step:
        near = max(step, default - default % step)
        raise Flawed("TG106", f"{said} must be a multiple of {step}, not {default}", place, f"for example {near}")
    return Param(name, "int32", default, Var(name, fields.max + 1, step, step))
