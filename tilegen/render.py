"""Plan -> CUDA text. Python owns numbers and addresses; the templates own every line of CUDA and PTX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, count, pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any

import jinja2
import numpy as np

from tilegen.describe import describe_operation, printable
from tilegen.dtypes import DTYPES, DType, numpy_dtype
from tilegen.index import INT_LIMIT, Index, Op, Var, add, bound, evaluate, mul, to_c, variables
from tilegen.plan import (
    CLUSTER_AXES,
    CTA_AXES,
    Block,
    Let,
    Map,
    Memory,
    Move,
    Plan,
    Ref,
    Repeat,
    Role,
    Step,
    Sync,
    When,
    arrays,
    thread_variables,
    walk,
)

STATIC_SHARED_LIMIT = 48 * 1024  # bytes; beyond it CUDA gives shared memory only at launch
COLUMNS = 110
_TEMPLATES = Path(__file__).parent / "templates"
_WORD = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}  # C types to copy bits with
_COMPLEX_PART = {"complex64": DTYPES["float32"], "complex128": DTYPES["float64"]}


# ---------------------------------------------------------------- addresses
def subscript(ref: Ref) -> Index:
    """What stands between the brackets: the flat offset, or per dimension (coordinate) * pitch, kept factored.

    >>> X = Memory("X", "float32", (6400, 8000), (8000, 1), "global")
    >>> print(subscript(X[Var("by", 100) * 64 + Var("row", 64), Var("bx", 125) * 64]))
    (by * 64 + row) * 8000 + bx * 64
    """
    if len(ref.at) < 2:
        return ref.offset
    parts: list[Any] = []
    for x, pitch in zip(ref.at, ref.memory.pitches, strict=True):
        term = _factored(x, pitch)
        parts += term.args if isinstance(term, Op) and term.symbol == "+" else [term]
    constant = sum(p for p in parts if isinstance(p, int))
    parts = [p for p in parts if not isinstance(p, int)] + ([constant] if constant else [])
    if len(parts) < 2:
        return parts[0] if parts else 0
    return Op("+", tuple(parts), sum(bound(p) - 1 for p in parts) + 1)


def _factored(x: Index, pitch: Index) -> Index:
    """x * pitch, a sum not distributed."""
    if isinstance(x, int) or (isinstance(pitch, int) and pitch in (0, 1)):
        return mul(x, pitch)
    if isinstance(x, Op) and x.symbol == "+":
        return Op("*", (x, pitch), (bound(x) - 1) * (bound(pitch) - 1) + 1)
    return mul(x, pitch)


def element(ref: Ref) -> str:
    """The C lvalue of an element.

    >>> element(Memory("A", "float32", (256,), (1,), "shared")[Var("s", 2) * 128])
    'A[s * 128]'
    """
    return f"{ref.memory.name}[{to_c(subscript(ref))}]"


def pointer(ref: Ref) -> str:
    """The address of an element: ``A``, or ``&A[s * 128]``."""
    return ref.memory.name if _is_zero(subscript(ref)) else f"&{element(ref)}"


def _is_zero(x: Index) -> bool:
    return isinstance(x, int) and x == 0


# ---------------------------------------------------------------- declarations
def declare(memory: Memory) -> str:
    """A local or shared array, aligned for the vector accesses that it can see.

    >>> declare(Memory("tmp", "float16", (4,), (1,), "register"))
    '__align__(8) half_t tmp[4]'
    """
    dtype, elems = DTYPES[memory.dtype], _elems(memory)
    align = memory.align_bytes if memory.space == "shared" else min(16, _power_of_two(elems * dtype.bytes))
    return f"{f'__align__({align}) ' if align > dtype.bytes else ''}{dtype.c} {memory.name}[{elems}]"


def _elems(memory: Memory) -> int:
    span = memory.span
    assert isinstance(span, int), f"{memory.name} is {memory.space} memory of no fixed size"
    return span


def _power_of_two(x: int) -> int:
    """The largest power of two that is at most x."""
    return 1 << max(x, 1).bit_length() - 1


def _parameter(x: Var | Memory, written: frozenset[str]) -> str:
    """A parameter of a __device__ function."""
    if isinstance(x, Var):
        return f"{_int_type(x)} {x.name}"
    const, c = "" if x.name in written else "const ", DTYPES[x.dtype].c
    return f"{const}{c} (&{x.name})[{_elems(x)}]" if x.space == "register" else f"{const}{c} *{x.name}"


def _argument(formal: Any, actual: Any, written: frozenset[str]) -> str:
    """What a call passes for ``formal``: a value, a pointer, or an array."""
    if isinstance(formal, Var):
        return to_c(actual)
    const, c, m = "" if formal.name in written else "const ", DTYPES[formal.dtype].c, actual.memory
    if formal.space != "register":
        return f"({const}{c} *){pointer(actual)}" if DTYPES[m.dtype].c != c else pointer(actual)
    if DTYPES[m.dtype].c == c and _elems(m) == _elems(formal) and _is_zero(actual.offset):
        return str(m.name)
    return f"*({const}{c} (*)[{_elems(formal)}])&{element(actual)}"


def _int_type(x: Var) -> str:
    return "int" if x.bound <= INT_LIMIT else "size_t"


def literal(value: Any, dtype: str) -> tuple[str, str]:
    """A constant as C text, exact to the last bit, and what to say beside it where the text alone does not.

    >>> literal(0.1, "float32"), literal(1, "float16"), literal(-(2**31), "int32")
    (('0.1f', ''), ('0x3c00', '1.0'), ('-2147483647 - 1', ''))
    """
    d, x = DTYPES[dtype], np.asarray(0 if value is None else value).astype(numpy_dtype(dtype))[()]
    if d.kind == "bool":
        return ("true" if x else "false"), ""
    if d.kind == "complex":
        parts = [literal(v, _COMPLEX_PART[dtype].name)[0] for v in (x.real, x.imag)]
        return f"{d.c}{{{', '.join(parts)}}}", ""
    if d.kind != "float":
        suffix = ("u" if d.kind == "uint" and d.bits >= 32 else "") + ("ll" if d.bits == 64 else "")
        least = d.kind == "int" and d.bits >= 32 and int(x) == -(1 << d.bits - 1)  # C has no such literal
        return (f"{int(x) + 1}{suffix} - 1" if least else f"{int(x)}{suffix}"), ""
    if d.typedef:  # held as bits
        return f"0x{int.from_bytes(x.tobytes(), 'little'):0{d.bits // 4}x}", str(float(x))
    if np.isfinite(x):
        return str(x) + ("f" if d.bits == 32 else ""), ""  # the shortest text that reads back as x
    bits = int.from_bytes(x.tobytes(), "little")
    return (f"__uint_as_float(0x{bits:08x}u)" if d.bits == 32 else f"__longlong_as_double(0x{bits:016x}ll)"), str(x)


def _zero(dtype: DType) -> str:
    return "0" if dtype.typedef else f"{dtype.c}{{}}" if dtype.kind == "complex" else literal(0, dtype.name)[0]


# ---------------------------------------------------------------- what steps name and write
def _expressions(step: Step) -> Iterator[Any]:
    """The index expressions that a step prints itself (not those of its body)."""
    if isinstance(step, Let):
        yield step.value
    elif isinstance(step, Repeat):
        yield step.count
    elif isinstance(step, When):
        yield step.condition
    elif isinstance(step, Move):
        yield step.valid
    elif isinstance(step, Block):
        yield from (actual for _, actual in step.args if not isinstance(actual, Ref))
    yield from (subscript(r) for r in _refs(step))


def _refs(step: Step) -> Iterator[Ref]:
    if isinstance(step, Move):
        yield from (step.dst, step.src)
    elif isinstance(step, Map):
        yield from (step.dst, *step.srcs)
    elif isinstance(step, Block):
        yield from (actual for _, actual in step.args if isinstance(actual, Ref))


def _free_names(steps: Iterable[Step], wgid: Index, known: frozenset[str] = frozenset()) -> dict[str, Var | Memory]:
    """Variables and memories that steps use and do not define, by name in order of first use."""
    found: dict[str, Var | Memory] = {}
    for step in steps:
        inner: Iterable[Step] = getattr(step, "body", ())
        used: dict[str, Var | Memory] = {r.memory.name: r.memory for r in _refs(step)}
        for x in (*_expressions(step), *([wgid] if isinstance(step, Sync) and step.scope == "warpgroup" else [])):
            used |= {v.name: v for v in sorted(variables(x), key=lambda v: v.name)}
        if isinstance(step, Block):
            own = {m.name for m in (*(formal for formal, _ in step.args), *step.registers)}
            used |= {n: x for n, x in _free_names(inner, wgid).items() if n not in own}
        else:
            used |= _free_names(inner, wgid, frozenset([step.var.name]) if isinstance(step, Repeat) else frozenset())
        found |= {n: x for n, x in used.items() if n not in known and n not in found}
        if isinstance(step, Let):
            known |= {step.var.name}
    return found


def _written(steps: Iterable[Step]) -> frozenset[str]:
    """Names of the memories that steps write."""
    names: set[str] = set()
    for step in steps:
        if isinstance(step, (Move, Map)):
            names.add(step.dst.memory.name)
        elif isinstance(step, Block):
            inner, formals = _written(step.body), {f.name: a for f, a in step.args}
            names |= {formals[n].memory.name if n in formals else n for n in inner} - {m.name for m in step.registers}
        else:
            names |= _written(getattr(step, "body", ()))
    return frozenset(names)


# ---------------------------------------------------------------- shared memory and launch
@dataclass(frozen=True)
class SharedUse:
    """How shared memory is declared: arrays of their own, or pointers into one pool (``pool`` is its name)."""

    memories: tuple[Memory, ...]
    bytes: int
    dynamic: bool
    pool: str
    align: int


def plan_shared(plan: Plan) -> SharedUse:
    """One array per shared memory, unless two overlap or all together exceed what CUDA declares statically."""
    used = {r.memory.name for role in plan.roles for step in walk(role.steps) for r in _refs(step)}
    memories = tuple(m for m in plan.memories if m.space == "shared" and m.name in used)
    spans = sorted((m.offset_bytes, m.offset_bytes + _elems(m) * m.elem_bytes) for m in memories)
    bytes_ = max((end for _, end in spans), default=0)
    pooled = bytes_ > STATIC_SHARED_LIMIT or any(a[1] > b[0] for a, b in pairwise(spans))
    pool = _fresh("smem", {m.name for m in plan.memories} | {plan.name}) if pooled else ""
    align = max((m.align_bytes for m in memories), default=16)
    return SharedUse(memories, bytes_, bytes_ > STATIC_SHARED_LIMIT, pool, align)


def launch_info(plan: Plan, params: Mapping[str, int | float] | None = None) -> dict[str, Any]:
    """What a caller needs to launch the kernel, as JSON data; runtime parameters not given have their defaults.

    ``args`` are in the kernel's order: pointers with the bytes behind them, then values.

    >>> from tilegen.plan import Param
    >>> launch_info(Plan("k", "sm_90", (Var("M", 65) // 8, 1, 1), (), (Role("all", 32, ()),),
    ...                  (Param("M", "int32", 64, Var("M", 65)),)), {"M": 16})["grid"]
    [2, 1, 1]
    """
    values = {p.name: (params or {}).get(p.name, p.default) for p in plan.params}
    shared = plan_shared(plan)
    args: list[dict[str, Any]] = []
    for m in arrays(plan):
        size = mul(m.span, m.elem_bytes)
        args.append({
            "name": m.name, "kind": "pointer", "dtype": m.dtype, "access": m.access, "align_bytes": m.align_bytes,
            "bytes": int(evaluate(size, values)), "bytes_expression": to_c(size),
        })  # fmt: skip
    args += [{"name": p.name, "kind": "value", "dtype": p.dtype, "value": values[p.name]} for p in plan.params]
    return {
        "kernel": plan.name, "arch": plan.arch, "grid": [int(evaluate(x, values)) for x in plan.grid],
        "grid_expression": [to_c(x) for x in plan.grid], "block": [plan.threads, 1, 1], "cluster": list(plan.cluster),
        "dynamic_shared_bytes": shared.bytes if shared.dynamic else 0,
        "static_shared_bytes": 0 if shared.dynamic else shared.bytes, "args": args,
    }  # fmt: skip


# ---------------------------------------------------------------- rendering
@dataclass
class _Page:
    """The text so far: prelude functions used, and the __device__ functions with the notes above them."""

    plan: Plan
    helpers: dict[str, str] = field(default_factory=dict)
    functions: dict[str, tuple[Any, list[str]]] = field(default_factory=dict)
    modules: dict[str, Any] = field(default_factory=dict)

    def use(self, helper: str) -> str:
        """The name of a prelude function, which the page then defines (after those that it uses itself)."""
        if helper not in self.helpers:
            self.helpers[helper] = str(getattr(self.macros("prelude.cuh.j2"), helper)()).strip("\n")
        return helper

    def macros(self, template: str) -> Any:
        """The macros of a template. Jinja takes milliseconds to compile one, so only what a plan needs is loaded."""
        if template not in self.modules:
            shared = {"use": self.use, "arch": int(re.sub(r"\D", "", self.plan.arch))}
            self.modules[template] = _environment().get_template(template).make_module(shared)
        return self.modules[template]

    @property
    def steps(self) -> Any:
        return self.macros("steps.cu.j2")

    @property
    def wgid(self) -> Index:
        wgid = thread_variables(self.plan.threads)["wgid"]
        return Var("wgid", bound(wgid)) if isinstance(wgid, Op) else wgid


def render(plan: Plan, spec_name: str = "", prelude: bool = True) -> str:
    """The kernel as one header-free CUDA file; the same plan gives the same bytes.

    ``prelude=False`` leaves out the definitions of the intrinsics (the small functions around PTX), for a host that
    brings its own.
    """
    page, roles, first = _Page(plan), [], 0
    for role in plan.roles:
        roles.append(_render_role(page, role, first))
        first += role.threads
    free = _free_names((s for role in plan.roles for s in role.steps), page.wgid)
    if len(roles) > 1:
        free["tx"] = Var("tx", plan.threads)
    text = _environment().get_template("kernel.cu.j2").render(
        header=_header(plan, spec_name),
        name=plan.name,
        threads=plan.threads,
        cluster=plan.cluster if plan.cluster != (1, 1, 1) else (),
        params=_kernel_params(plan),
        shared=_shared_texts(plan_shared(plan)),
        builtins=_builtins(page, free),
        roles=roles,
        functions=[_function(page, name) for name in page.functions],
        helpers=list(page.helpers.values()) if prelude else [],
        typedefs=_typedefs(plan),
    )
    return "\n".join(folded for line in text.strip().splitlines() for folded in fold_line(line)) + "\n"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), undefined=jinja2.StrictUndefined,
        line_statement_prefix="//%", line_comment_prefix="//#", block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>", trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["declare"] = lambda m: declare(m)
    environment.globals["fail"] = _fail
    return environment


@cache
def _prelude_names() -> tuple[str, ...]:
    return tuple(re.findall(r"^//% macro (\w+)", (_TEMPLATES / "prelude.cuh.j2").read_text(), re.M))


def _fail(message: str) -> None:
    raise AssertionError(message)


def _header(plan: Plan, spec_name: str) -> list[str]:
    launch = launch_info(plan)
    kind = "dynamic" if launch["dynamic_shared_bytes"] else "static"
    cluster = f"clusters of ({', '.join(map(str, plan.cluster))}), " if plan.cluster != (1, 1, 1) else ""
    lines = [
        f"{plan.name}: generated by tilegen{f' from {spec_name}' if spec_name else ''}, for {plan.arch}.",
        f"Launch: grid ({', '.join(launch['grid_expression'])}), {cluster}{plan.threads} threads, "
        f"{launch[f'{kind}_shared_bytes']} bytes of {kind} shared memory.",
        *(f"{m.name}: {m.note}" for m in arrays(plan) if m.note), *plan.notes,
    ]  # fmt: skip
    for n, operation in enumerate(plan.operations, 1):
        head, *rest = describe_operation(operation)
        lines += ["", f"{n}. {head}", *(f"   {line}" for line in rest)]
    return [piece for line in lines for piece in _comment(line)]


def _comment(text: str) -> list[str]:
    """Lines that may stand after ``//``: wrapped, and nothing that could end the comment or continue it."""
    lead = text[: len(text) - len(text.lstrip())]
    pieces = wrap(
        printable(text).strip(), COLUMNS - 3, initial_indent=lead, subsequent_indent=lead + "  ", break_on_hyphens=False
    )
    return [p + "." if p.endswith("\\") else p for p in pieces] or [""]


def _note(text: str) -> str:
    """A comment at the end of a line."""
    return f"  // {' '.join(_comment(text))}" if text else ""


def _noted(memory: Memory) -> Memory:
    return replace(memory, note=_note(memory.note))


def _shared_texts(shared: SharedUse) -> dict[str, Any]:
    memories = [
        {"name": m.name, "c": DTYPES[m.dtype].c, "offset_bytes": m.offset_bytes, "declared": declare(m),
         "note": _note(m.note)} for m in shared.memories
    ]  # fmt: skip
    return {"pool": shared.pool, "dynamic": shared.dynamic, "bytes": shared.bytes, "align": shared.align,
            "memories": memories}  # fmt: skip


def _kernel_params(plan: Plan) -> list[str]:
    written = {m.name for m in plan.memories if m.access != "in"}
    pointers = [_parameter(m, frozenset(written)).replace("*", "*__restrict__ ") for m in arrays(plan)]
    return pointers + [f"{_int_type(p.var) if p.var else DTYPES[p.dtype].c} {p.name}" for p in plan.params]


def _typedefs(plan: Plan) -> list[DType]:
    """Typedefs of the element types that occur."""
    steps = [s for role in plan.roles for s in walk(role.steps)]
    used = {m.dtype for m in plan.memories} | {r.memory.dtype for s in steps for r in _refs(s)}
    used |= {m.dtype for s in steps if isinstance(s, Block) for m in (*s.registers, *(f for f, _ in s.args))}
    return [d for d in DTYPES.values() if d.typedef and d.name in used]


def _builtins(page: _Page, free: Mapping[str, Var | Memory]) -> list[tuple[str, str]]:
    """The kernel's own variables that its steps use, with what defines each."""
    values = thread_variables(page.plan.threads)
    wanted = {n for n, x in free.items() if isinstance(x, Var)} - {p.name for p in page.plan.params}
    if any(isinstance(values.get(n), (Var, Op)) for n in wanted):
        wanted.add("tx")
    texts = {"tx": "threadIdx.x"} | {n: to_c(x) for n, x in values.items() if n != "tx"}
    texts |= {axis: f"blockIdx.{axis[-1]}" for axis in CTA_AXES}
    texts |= {axis: f"{page.use(f'cluster_ctaid_{axis[-1]}')}()" for axis in CLUSTER_AXES if axis in wanted}
    assert wanted <= set(texts), f"{page.plan.name}: nothing defines {', '.join(sorted(wanted - set(texts)))}"
    return [(n, text) for n, text in texts.items() if n in wanted]


def _render_role(page: _Page, role: Role, first: int) -> dict[str, Any]:
    used = _free_names(role.steps, page.wgid)
    registers = [_noted(m) for m in page.plan.memories if m.space == "register" and m.name in used]
    body = _render_steps(page, role.steps, noted=True)
    name, end = printable(role.name), first + role.threads
    return {"name": name, "threads": role.threads, "end": end, "registers": registers, "body": body}


def _render_steps(page: _Page, steps: Iterable[Step], noted: bool = False) -> str:
    return "\n".join(_render_step(page, step, noted).strip("\n") for step in steps)


def _render_step(page: _Page, step: Step, noted: bool) -> str:
    """One step through its macro. ``noted``: calls say which operation they carry out."""
    macros = page.steps
    body = partial(_render_steps, page, getattr(step, "body", ()), noted)
    match step:
        case Let(var, value):
            return str(macros.let(_int_type(var), var.name, to_c(value)))
        case Repeat(var, n, unroll=unroll):
            return str(macros.repeat(_int_type(var), var.name, to_c(Op("<", (var, n), 2)), unroll, body()))
        case When(condition):
            return str(macros.when(to_c(condition), body()))
        case Block():
            return _render_call(page, step, noted)
        case Move():
            return _render_move(page, step)
        case Map():
            return _render_map(page, step)
        case Sync(scope):
            return str(macros.sync(scope, to_c(page.wgid)))


def _render_move(page: _Page, move: Move) -> str:
    dst, src = DTYPES[move.dst.memory.dtype], DTYPES[move.src.memory.dtype]
    assert dst.bytes == src.bytes, f"a move of {src.name} to {dst.name} changes the size of an element"
    plain = move.elems == 1 and (dst == src or _hold_bits(dst, src))
    word = "" if plain else _WORD[move.elems * dst.bytes]
    valid = "" if move.valid is True else f"({to_c(move.valid)})" if isinstance(move.valid, Op) else to_c(move.valid)
    zero = _zero(dst) if plain else f"{word}{{}}" if word.startswith("uint") else "0"
    return str(page.steps.move(element(move.dst), element(move.src), word, valid, zero))


def _hold_bits(*dtypes: DType) -> bool:
    """All are names of C's unsigned type of their size."""
    return all(d.typedef or d.kind == "uint" for d in dtypes)


def _render_map(page: _Page, step: Map) -> str:
    names = {v.name for r in _refs(step) for v in variables(r.offset)} | {r.memory.name for r in _refs(step)}
    e = _fresh("e", names) if step.elems > 1 else ""
    at: Index = Var(e, step.elems) if e else 0
    dst, *srcs = (element(Ref(r.memory, (*r.at[:-1], add(r.at[-1], at)))) for r in _refs(step))
    if step.fn == "fill":
        value, note = literal(step.value, step.dst.memory.dtype)
    else:
        assert step.fn == "cast", f"no map {step.fn}"
        value, note = _cast(page, srcs[0], step.srcs[0].memory.dtype, step.dst.memory.dtype), ""
    return str(page.steps.map(dst, value, e, step.elems, note))


def _cast(page: _Page, x: str, src: str, dst: str) -> str:
    """The value of ``x``, of element type ``src``, as ``dst``: what NumPy and ml_dtypes give.

    Undefined there and here: a float beyond an integer type's range. Different here: a NaN stays a NaN, but its sign
    and payload may change.
    """
    parts = (_COMPLEX_PART.get(src), _COMPLEX_PART.get(dst))
    return str(page.macros("casts.cu.j2").cast(x, DTYPES[src], DTYPES[dst], *parts)).strip("\n")


# ---------------------------------------------------------------- functions
def _render_call(page: _Page, block: Block, noted: bool) -> str:
    formals = [f for f, _ in block.args]
    own = {f.name for f in (*formals, *block.registers)}
    captured = [x for n, x in _free_names(block.body, page.wgid).items() if n not in own]
    captured = sorted(captured, key=partial(_rank, page.plan))
    written = _written(block.body)
    signature = (tuple(_parameter(x, written) for x in (*captured, *formals)), tuple(map(_noted, block.registers)),
                 _render_steps(page, block.body))  # fmt: skip
    name = _define(page, block.name, signature, block.note)
    args = [*(x.name for x in captured), *(_argument(f, a, written) for f, a in block.args)]
    text = page.plan.operations[block.op].text if noted and 0 <= block.op < len(page.plan.operations) else ""
    return str(page.steps.call(name, args, " ".join(_comment(text))))


def _rank(plan: Plan, x: Var | Memory) -> int:
    """The order of captured parameters: threads, CTAs, runtime parameters, what loops define, memories."""
    order = [*thread_variables(plan.threads), *CTA_AXES, *CLUSTER_AXES, *(p.name for p in plan.params)]
    return len(order) + 1 if isinstance(x, Memory) else order.index(x.name) if x.name in order else len(order)


def _define(page: _Page, name: str, signature: Any, note: str) -> str:
    """The name of a function with that signature and body: an equal one is shared, another gets the next number."""
    steps = [s for role in page.plan.roles for s in walk(role.steps)]
    taken = {page.plan.name, *(m.name for m in page.plan.memories), *_prelude_names()}
    taken |= {s.var.name for s in steps if isinstance(s, (Let, Repeat))}
    names = (n for n in chain([name], (f"{name}_{i}" for i in count(2))) if n not in taken)
    candidate = next(n for n in names if page.functions.get(n, (signature,))[0] == signature)
    notes = page.functions.setdefault(candidate, (signature, []))[1]
    if note and note not in notes:
        notes.append(note)
    return candidate


def _function(page: _Page, name: str) -> str:
    (params, registers, body), notes = page.functions[name]
    lines = [piece for note in notes for piece in _comment(note)]
    return str(page.steps.function(lines, name, params, registers, body)).strip("\n")


def _fresh(name: str, taken: Iterable[str]) -> str:
    """``name``, or with the first number that makes it new."""
    known = set(taken)
    return next(n for n in chain([name], (f"{name}{i}" for i in count(2))) if n not in known)


# ---------------------------------------------------------------- long lines
def fold_line(line: str, columns: int = COLUMNS) -> list[str]:
    """A long statement on several lines, broken where the least is open: after ``=`` or a comma, before an operator.

    >>> fold_line("    dst[row * 8 + column] = src[column * 8 + row];", 40)
    ['    dst[row * 8 + column] =', '        src[column * 8 + row];']
    """
    code = line.split("  // ")[0]
    if len(code) <= columns or '"' in line or code.lstrip().startswith(("//", "#")):
        return [line]
    lead = len(line) - len(line.lstrip())
    places, depth = [], 0
    for i, c in enumerate(code):
        depth += (c in "([{") - (c in ")]}")
        if c == " " and lead + 8 < i <= columns and (code[i - 1] in ",=" or code[i + 1] in "?:+&"):
            places.append((depth, code[i - 1] != "=", -i))
    if not places:
        return [line]
    at = -min(places)[2]
    rest = " " * (lead + 4) + line[at + 1 :]
    return [line[:at], *(fold_line(rest, columns) if len(rest) < len(line) else [rest])]
