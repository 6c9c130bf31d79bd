"""The keys of a spec as pydantic models: they check what is written, and the JSON Schema is made from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from tilegen.arch import DEFAULT_ARCH
from tilegen.errors import Mark
from tilegen.near_words import find_near, suggest
from tilegen.spec.findings import Findings, shorten
from tilegen.spec.launch_models import Fields as _Fields
from tilegen.spec.nodes import Mapping, Node, Scalar, Sequence, describe_node, to_plain
from tilegen.spec.phrases import phrase

# Of the language: each version adds to the one before, and means what that meant. 1: all up to clips at the end of an
# array. 2: clips at both ends, ``pad``, ``values``, ``choices``, computed params. 3: ``passes`` and workspaces.
# 4: lets read arrays, ``distinct``, ``offsets``, limits of regions.
VERSION, MOST_PASSES = 4, 32  # the newest version; passes of a spec


class SyncFields(_Fields):
    """The threads of a scope meet; what each wrote before is seen by all after."""

    sync: Literal["warp", "warpgroup", "role", "cta", "cluster", "async"] | list[str] = Field(
        description="who meets (in a role, role and not cta; a list: these roles); async: nobody, but what each thread "
        "wrote to shared memory is seen by TMA from here on"
    )
    when: str | bool | None = Field(default=None, description="only where this condition holds")


class CommitFields(_Fields):
    """What was started asynchronously since the last commit becomes one group; '- commit' alone says the same."""

    commit: bool | Literal["cp_async", "mma"] | dict[str, Any] = Field(
        description="true, never false, or of which queue; {barrier: NAME}: of products in tensor memory, which arrive "
        "there when all that the thread has started is done"
    )
    when: str | bool | None = Field(default=None, description="only where this condition holds")


class AwaitedFields(_Fields):
    """The phase of an mbarrier."""

    barrier: str = Field(description="its name, or one of several: full[k % 3], where phase k // 3 is meant")


class PendingFields(_Fields):
    """How many groups of one queue may still be in flight."""

    cp_async: int | str | None = Field(default=None, description="of this thread's cp.async copies")
    tma: int | str | None = Field(default=None, description="of this thread's TMA stores, which may still be writing")
    mma: int | str | None = Field(default=None, description="of this warpgroup's asynchronous products")
    tmem: int | str | None = Field(
        default=None, description="0: of this warp's asynchronous copies between tensor memory and registers"
    )


class ArriveFields(_Fields):
    """An mbarrier is told that a thread has come here, for itself or for others that it has met before."""

    arrive: dict[str, Any] = Field(description="{barrier: NAME}, with scope and when")


class CommittedFields(_Fields):
    """The mbarrier at which products in tensor memory arrive when they are done."""

    barrier: str = Field(description="a declared barrier, or one of its slots: free[k % 4]")
    to: Literal["cbx", "cby", "cbz"] | None = Field(
        default=None, description="at that slot in every CTA along this axis of the cluster, the own one too"
    )
    when: str | bool | None = Field(default=None, description="only where this condition holds")


class ArrivalFields(_Fields):
    """At which mbarrier, and who."""

    barrier: str = Field(description="a declared barrier, or one of its slots: free[k % 3]")
    scope: Literal["thread", "warp", "warpgroup", "role", "cta"] | None = Field(
        default=None,
        description="thread: every thread; wider: the first thread of each, for what a sync ordered before it",
    )
    to: Literal["cbx", "cby", "cbz"] | None = Field(
        default=None, description="in every CTA along this axis of the cluster, the own one too"
    )
    when: str | bool | None = Field(default=None, description="only where this condition holds")


class RoleFields(_Fields):
    """A part of the threads that runs a list of its own."""

    threads: int | str = Field(description="whole warps; of whole warpgroups, the role begins at one")
    registers: int | str | None = Field(
        default=None, description="of a thread, 24 to 256 by 8 and equal in a warpgroup: taken from, or left to, others"
    )


class RoleBlockFields(_Fields):
    """Statements of one role; neighbouring blocks run side by side."""

    role: str = Field(description="which role")
    do: list[Any] = Field(description="the statements; in them thread axes count the role's own threads")


class BarrierFields(_Fields):
    """Declared mbarriers: copies report to them, or threads arrive."""

    slots: int | str = Field(default=1, description="how many; slot k % slots is meant for phase k // slots")
    open: bool = Field(default=False, description="a wait is for the phase before the one that it names")
    pair: bool = Field(
        default=False,
        description="one for both CTAs of a pair, in the even one: copies and arrivals of both report there, and the "
        "even one alone waits; with 'cta_group: 2'",
    )


class WaitFields(_Fields):
    """Threads go on when few enough of their groups are in flight, when an mbarrier's copies are there, or when the
    kernels launched before have ended.
    """

    wait: int | str | dict[str, Any] = Field(
        description="how many groups may still be in flight: 0 waits for all; {QUEUE: N}; {barrier: NAME}; or previous"
    )
    when: str | bool | None = Field(default=None, description="only where this condition holds")


class LoopFields(_Fields):
    """Loops around statements; several variables nest in order."""

    loop: dict[str, Any] = Field(
        alias="for",
        description="variable: count, or variable: [start, stop] or [start, stop, step]; start >= stop is no trip",
    )
    do: list[Any] = Field(description="the statements that are repeated")
    unroll: bool = Field(
        default=False, description="write the trips out: registers may then be indexed by the variable"
    )


class LetFields(_Fields):
    """Names for values, in order: each is known to those after it, to the rest of the list, and inside of that."""

    let: dict[str, Any] = Field(description="name: an integer or an expression of one")


class WhenFields(_Fields):
    """Statements that are run only where a condition holds."""

    when: str | bool = Field(description="the condition; whoever syncs or waits inside must agree on it")
    do: list[Any] = Field(description="the statements")


class SpecFields(_Fields):
    """A kernel: its launch, its buffers and what it does."""

    kernel: str = Field(description="the name of the kernel, a C identifier")
    version: Annotated[int, Field(ge=1, le=VERSION)] | None = Field(
        default=None, description="the version of the language that the spec is written in; the newest where not given"
    )
    arch: str = Field(default=DEFAULT_ARCH, description="the GPU generation, e.g. sm_90")
    params: dict[str, Any] = Field(
        default={},
        description="name: integer, expression of such or {choices: [..]} (compile-time), or {default: ..} (a runtime "
        "argument)",
    )
    grid: dict[str, Any] = Field(default={}, description="CTAs: {bx, by, bz}")
    cluster: dict[str, Any] = Field(default={}, description="CTAs of a cluster: {cbx, cby, cbz}")
    cta_group: Literal[1, 2] | None = Field(
        default=None,
        description="2: CTAs 2 i and 2 i + 1 along cbx are a pair, whose products in tensor memory one of them starts",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | str | None = Field(
        default=None, description="threads of a CTA, 1 to 1024"
    )
    overlap: Literal["previous"] | None = Field(
        default=None, description="start while the kernel launched before still runs; 'wait: previous' waits for it"
    )
    roles: dict[str, Any] = Field(
        default={}, description="in place of threads: parts of them, in their order, that run side by side"
    )
    barriers: dict[str, Any] = Field(default={}, description="name: mbarriers by which roles wait for one another")
    ctas_per_sm: Annotated[int, Field(ge=1)] | str | None = Field(
        default=None, description="CTAs that one multiprocessor must be able to hold at once: caps their registers"
    )
    buffers: dict[str, Any] = Field(default={}, description="name: the buffer's memory, dtype, shape and layout")
    ops: list[Any] = Field(description="what the kernel does, in order")


class PassFields(_Fields):
    """What a pass says beside the launch, the buffers and the ops of a kernel."""

    name: str = Field(description="the name of the pass; its kernel is called <kernel>_<name>")
    when: str | bool | None = Field(default=None, description="launched only where this condition on params holds")


class ProgramFields(_Fields):
    """Several kernels that one launch runs, one after another."""

    kernel: str = Field(description="the name of the program; a pass adds its own: <kernel>_<pass>")
    version: Annotated[int, Field(ge=1, le=VERSION)] | None = Field(
        default=None, description="the version of the language that the spec is written in; the newest where not given"
    )
    arch: str = Field(default=DEFAULT_ARCH, description="the GPU generation, e.g. sm_90")
    params: dict[str, Any] = Field(default={}, description="as of one kernel; each pass has those that it names")
    buffers: dict[str, Any] = Field(
        default={}, description="arrays that the passes share: global ones of the caller, and workspaces"
    )
    passes: list[Any] = Field(min_length=1, max_length=MOST_PASSES, description="the kernels, in order")


# A pass is a kernel without what all passes share.
PASS_KEYS = (
    *PassFields.model_fields,
    *(k for k in SpecFields.model_fields if k not in ProgramFields.model_fields),
    "buffers",
)


AnyFields = TypeVar("AnyFields", bound=BaseModel)


def field_names(model: type[BaseModel]) -> list[str]:
    """The keys that a model has in a spec."""
    return [field.alias or name for name, field in model.model_fields.items()]


def check_fields(
    node: Node, model: type[AnyFields], what: str, findings: Findings, mark: Mark | None = None
) -> AnyFields | None:
    """The node as ``model``, or None when anything was reported. ``what`` names it; keys are missed at ``mark``."""
    if isinstance(node, Scalar) and node.value is None:
        findings.report("TG007", f"the keys of {what} are missing", mark if mark and node.is_void else node.mark)
        return None
    if not isinstance(node, Mapping):
        needed = [field.alias or name for name, field in model.model_fields.items() if field.is_required()]
        hint = f"write {{{', '.join(f'{key}: ..' for key in needed)}}}" if needed else ""
        findings.report("TG103", f"{what} must be a mapping of keys, not {describe_node(node)}", node.mark, hint)
        return None
    before = len(findings.found)
    for key, value in node.entries:
        if isinstance(value, Scalar) and value.value is None:
            report_null(key, value, findings)
    try:
        fields = model.model_validate(to_plain(node))
    except ValidationError as error:
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for one in error.errors(include_url=False, include_input=False):
            groups.setdefault(_locate(node, one["loc"], one["type"]), []).append(one)
        checked = _Checked(node, model, what, mark or node.mark)
        for path in _find_deepest(node, groups):
            _report(checked, path, groups[path], findings)
        return None
    return fields if len(findings.found) == before and not node.is_torn else None


def is_misspelt(key: str, node: Mapping, known: Iterable[str]) -> bool:
    """Whether a missing key stands there under another name, which is reported anyway."""
    unknown = [k.text for k, _ in node.entries if k.text not in known]
    return node.is_torn or any(find_near(name, known) == key for name in unknown)


def report_null(key: Scalar, value: Scalar, findings: Findings) -> None:
    """Note a value that is missing: a null, or nothing at all."""
    mark = key.mark if value.is_void else value.mark
    name = shorten(key.text)
    message = f"the value of '{name}' is missing" if value.is_void else f"'{name}' must not be null"
    hint = "quote the value if it is a text" if value.text else "write one, or remove the key"
    findings.report("TG007", message, mark, hint)


def _locate(node: Node, loc: tuple[Any, ...], kind: str) -> tuple[Any, ...]:
    """The part of pydantic's path that exists in the file (what follows are names of types in a union)."""
    if kind in ("missing", "extra_forbidden"):
        return loc
    path: list[Any] = []
    for step in loc:
        if isinstance(node, Mapping) and isinstance(step, str) and step in node:
            node = node[step]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        elif isinstance(node, (Sequence, Mapping)):
            continue
        else:
            break
        path.append(step)
    return tuple(path)


def _find_deepest(node: Node, paths: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The paths without those of which an entry is among them: that a list is no number is not what is wrong, nor that
    a mapping is no text.
    """
    inner = {path[:-1] for path in paths if path and not isinstance(_find(node, path[:-1]), Scalar)}
    return [path for path in paths if path not in inner]


def _find(node: Node, path: tuple[Any, ...]) -> Node:
    for step in path:
        node = node[step] if isinstance(node, Mapping) else node.items[step]  # type: ignore[union-attr]
    return node


def _name(path: tuple[Any, ...], what: str) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f"'{shorten(text)}' of {what}" if text else what


def _find_stand_in(node: Mapping, model: type[BaseModel]) -> str:
    """The only key that is missing, where one unknown key stands that is near to none; "" elsewhere."""
    known = field_names(model)
    needed = [field.alias or name for name, field in model.model_fields.items() if field.is_required()]
    missing = [key for key in needed if key not in node]
    unknown = [key.text for key, _ in node.entries if key.text not in known]
    return missing[0] if len(missing) == len(unknown) == 1 and not find_near(unknown[0], known) else ""


@dataclass(frozen=True)
class _Checked:
    """A mapping of the text, the model that it is read as, what it is, and where its keys are missed."""

    node: Mapping
    model: type[BaseModel]
    what: str
    mark: Mark


def _report(checked: _Checked, path: tuple[Any, ...], faults: list[Any], findings: Findings) -> None:
    """What pydantic found at one place of a mapping."""
    node, model, what = checked.node, checked.model, checked.what
    kind = faults[0]["type"]
    known = field_names(model)
    if kind == "missing":
        if not is_misspelt(str(path[-1]), node, known) and not _find_stand_in(node, model):
            findings.report("TG102", f"{what} needs the key '{path[-1]}'", checked.mark, f"add '{path[-1]}: ...'")
        return
    if kind == "extra_forbidden":
        owner = _find(node, path[:-1])
        assert isinstance(owner, Mapping)
        name = str(path[-1])
        message = f"unknown key '{shorten(name)}' in {what}"
        due = _find_stand_in(owner, model) if owner is node else ""
        hint = f"'{due}' is missing: is it meant?" if due else suggest(name, known, most=32)
        findings.report("TG101", message, owner.key(name).mark, hint)
        return
    found = _find(node, path)
    if isinstance(found, Scalar) and found.value is None:
        if len(path) != 1:  # else it was reported
            findings.report("TG007", f"{_name(path, what)} must not be null", found.mark, "write a value, or quote it")
        return
    if isinstance(found, Scalar) and found.is_torn:
        return
    flaw = phrase(faults, found, str(path[-1]) if path else "")
    findings.report(flaw.code, f"{_name(path, what)} {flaw.message}", found.mark, flaw.hint)
