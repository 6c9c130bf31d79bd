"""Roles and mbarriers in the head of a spec: parts of the threads that run side by side, and how they wait for another.

Roles lie in the CTA in order. One of whole warpgroups begins at one; idle warps fill the gap before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.arch import ARCHES
from tilegen.arch.data import registers_for
from tilegen.scopes import SCOPES
from tilegen.spec.absent import refuse_later
from tilegen.spec.expressions import read_constant
from tilegen.spec.findings import Findings, Flawed
from tilegen.spec.models import BarrierFields, RoleFields, check_fields
from tilegen.spec.names import Names, Register
from tilegen.spec.nodes import Mapping, Node, Scalar, describe_node
from tilegen.spec.slots import BARRIER, MOST_SLOTS
from tilegen.spec.terms import BarrierTerms, RoleTerms

MAX_THREADS = 1024  # of a CTA
_WARP, _WARPGROUP = SCOPES["warp"].threads, SCOPES["warpgroup"].threads
_LEAST_REGISTERS, _MOST_REGISTERS, _REGISTERS_STEP = 24, 256, 8  # PTX ISA, setmaxnreg


def read_roles(
    root: Mapping, names: Names, arch: str, register: Register, findings: Findings
) -> tuple[tuple[RoleTerms, ...], int]:
    """The roles with their places, and the threads of a CTA, idle ones too; (), 0 without roles."""
    node = root.get("roles")
    if node is None or not _is_section(node, "roles", findings):
        return (), 0
    assert isinstance(node, Mapping)
    if "threads" in root:
        mark = root.key("threads").mark
        findings.report("TG118", "'threads' stands beside 'roles', which say how many there are", mark, "remove it")
    if not node.entries:
        findings.report("TG118", "a spec with 'roles' has one at least", node.mark, "or give 'threads' alone")
    read: list[RoleTerms] = []
    for key, value in node.entries:
        with findings.collect():
            name = register.claim(key.passage, "role")
            fields = check_fields(value, RoleFields, f"role '{name}'", findings, key.mark)
            if fields is not None and isinstance(value, Mapping):
                read.append(_read_role(key, value, names, arch))
    placed, threads = _place_roles(read)
    if threads > MAX_THREADS:
        message = f"a CTA has at most {MAX_THREADS} threads, and the roles take {threads}, idle warps included"
        findings.report("TG118", message, root.key("roles").mark)
    return placed, threads


def _read_role(key: Scalar, node: Mapping, names: Names, arch: str) -> RoleTerms:
    threads = read_constant(node["threads"], names, f"the threads of '{key.text}'")
    if not _WARP <= threads <= MAX_THREADS or threads % _WARP:
        message = f"role '{key.text}' must have whole warps, up to {MAX_THREADS} threads, not {threads}"
        hint = f"a multiple of {_WARP}" if threads % _WARP else f"for example {min(max(threads, _WARP), MAX_THREADS)}"
        raise Flawed("TG106", message, node["threads"].mark, hint)
    registers = 0
    if "registers" in node:
        given = node["registers"]
        registers = read_constant(given, names, f"the registers of '{key.text}'")
        if not _LEAST_REGISTERS <= registers <= _MOST_REGISTERS or registers % _REGISTERS_STEP:
            limits = f"a multiple of {_REGISTERS_STEP} from {_LEAST_REGISTERS} to {_MOST_REGISTERS}"
            raise Flawed("TG106", f"'registers' must be {limits}, not {registers}", given.mark)
        if "setmaxnreg" not in ARCHES[arch].features:
            message = f"threads of {arch} have as many registers as the launch gives them"
            raise Flawed("TG106", message, node.key("registers").mark, "setmaxnreg came with sm_90a: 'arch: sm_90a'")
    return RoleTerms(key.text, threads, registers, 0, key.mark)


def _place_roles(roles: Sequence[RoleTerms]) -> tuple[tuple[RoleTerms, ...], int]:
    """Every role with its first thread, and the end of the last: of a whole warpgroup, where registers are given."""
    placed: list[RoleTerms] = []
    end = 0
    for r in roles:
        first = _round_up(end, _WARPGROUP) if r.threads % _WARPGROUP == 0 else end
        placed.append(RoleTerms(r.name, r.threads, r.registers, first, r.mark))
        end = first + r.threads
    return tuple(placed), _round_up(end, _WARPGROUP) if any(r.registers for r in roles) else end


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def check_registers(roles: Sequence[RoleTerms], threads: int, arch: str, ctas: int, findings: Findings) -> None:
    """What roles want of registers is what the launch owns (TG118); a warpgroup's threads have equally many."""
    if not any(r.registers for r in roles) or threads > MAX_THREADS:
        return
    cap = registers_for(ARCHES[arch], threads, max(1, ctas))
    wanted: dict[int, RoleTerms] = {}
    for r in roles:
        for group in range(r.first // _WARPGROUP, (r.first + r.threads - 1) // _WARPGROUP + 1):
            other = wanted.setdefault(group, r)
            if other.registers != r.registers:
                has = f"'{other.name}' has {other.registers or 'none'}, '{r.name}' has {r.registers or 'none'}"
                message = f"the roles of one warpgroup have equal 'registers': {has}"
                findings.report("TG118", message, r.mark, "setmaxnreg is for whole warpgroups")
                return
    total = sum((r.registers or cap) * _WARPGROUP for r in wanted.values())
    if total > cap * threads:
        each = " + ".join(str(r.registers or cap) for r in wanted.values())
        owned = f"the launch gives {cap} to each of {threads} threads"
        message = f"the warpgroups want {each} registers a thread, {total} in all; {owned}, {cap * threads}"
        findings.report("TG118", message, next(iter(wanted.values())).mark, "take some from one of the roles")


def read_barriers(node: Node | None, names: Names, register: Register, findings: Findings) -> dict[str, BarrierTerms]:
    """The mbarriers that a spec declares, by name."""
    found: dict[str, BarrierTerms] = {}
    if node is None or not _is_section(node, "barriers", findings):
        return found
    assert isinstance(node, Mapping)
    for key, value in node.entries:
        with findings.collect():
            name = register.claim(key.passage, BARRIER)
            if isinstance(value, Mapping) and "scope" in value:  # flags between CTAs, in global memory
                found[name] = BarrierTerms(name, _read_slots(value, names, name), mark=key.mark)
                raise refuse_later("a barrier with a scope, by which CTAs wait for one another,", value["scope"])
            fields = check_fields(value, BarrierFields, f"barrier '{name}'", findings, key.mark)
            if fields is None or not isinstance(value, Mapping):
                continue
            found[name] = BarrierTerms(name, _read_slots(value, names, name), fields.open, fields.pair, key.mark)
    return found


def _read_slots(node: Mapping, names: Names, barrier: str) -> int:
    slots = read_constant(node["slots"], names, f"the slots of '{barrier}'") if "slots" in node else 1
    if not 1 <= slots <= MOST_SLOTS:
        raise Flawed("TG106", f"'slots' must be from 1 to {MOST_SLOTS}, not {slots}", node["slots"].mark)
    return slots


def _is_section(node: Node, name: str, findings: Findings) -> bool:
    if isinstance(node, Mapping):
        return True
    if not (isinstance(node, Scalar) and node.value is None):
        findings.report("TG103", f"'{name}' must be a mapping of names, not {describe_node(node)}", node.mark)
    return False
