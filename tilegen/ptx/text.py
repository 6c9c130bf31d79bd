"""PTX text -> a kernel as frozen data: instructions with resolved names, registers, variables, lines of the CUDA text.

Reads what NVRTC and nvcc print: one module, scopes in braces (of inline asm too), ``.loc`` with ``inlined_at``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace


class PtxError(ValueError):
    """Text that cannot be read, or an instruction that the table does not have."""


@dataclass(frozen=True)
class Instruction:
    """``@guard op operands;``: names are unique in the kernel, a label's operand is ``label@index``.

    ``line``: of the PTX text, from 1. ``lines``: of the CUDA text, the innermost first, the kernel's own last.
    """

    op: str
    operands: tuple[str, ...]
    guard: str = ""
    is_negated: bool = False
    line: int = 0
    lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        guard = f"@{'!' * self.is_negated}{self.guard} " if self.guard else ""
        return f"{guard}{self.op} {', '.join(self.operands)}".rstrip() + ";"


@dataclass(frozen=True)
class Variable:
    """Bytes with a name in a state space. ``size`` 0: as many as the launch gives (``extern``)."""

    name: str
    space: str
    size: int
    align: int
    content: bytes = b""


@dataclass(frozen=True)
class KernelText:
    """One ``.entry`` of a module. ``registers``: name -> bits, 1 for predicates; ``labels``: name -> instruction."""

    name: str
    target: str
    params: tuple[Variable, ...]
    registers: Mapping[str, int]
    variables: tuple[Variable, ...]
    code: tuple[Instruction, ...]
    labels: Mapping[str, int]
    directives: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


_BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "b128": 128}
_BITS |= {f"{kind}{bits}": bits for kind in "busf" for bits in (32, 64)}
_LABEL = re.compile(r"([A-Za-z_$][\w$]*):(?!:)")
_NAME = re.compile(r"%\w+\.[xyzw]|[%A-Za-z_$][\w$]*")
_VARIABLE = re.compile(
    r"\.(shared|local|const|global|param)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$%]+)((?:\[\d*\])*)(?:\s*=\s*(.*))?$",
    re.S,
)
_LOC = re.compile(r"\.loc\s+\d+\s+(\d+)\s+(\d+)(?:.*inlined_at\s+\d+\s+(\d+)\s+(\d+))?")


def parse_kernel(text: str, name: str) -> KernelText:
    """The ``.entry`` of this name. Raises PtxError for text that is none, and where there is no such kernel.

    >>> text = ".target sm_80\\n.visible .entry k()\\n{\\n.reg .b32 %r<2>;\\nmov.u32 %r1, 7;\\nret;\\n}"
    >>> kernel = parse_kernel(text, "k")
    >>> kernel.registers, [str(one) for one in kernel.code]
    ({'%r0': 32, '%r1': 32}, ['mov.u32 %r1, 7;', 'ret;'])
    """
    clean = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    clean = "\n".join(line.split("//")[0] for line in clean.split("\n"))
    head = re.search(rf"\.entry\s+{re.escape(name)}\s*\((.*?)\)([^{{;]*)\{{", clean, re.S)
    if head is None:
        raise PtxError(f"the PTX text has no kernel {name!r}")
    target = re.search(r"\.target\s+(\w+)", clean)
    shared = [v for s in _module_statements(clean[: head.start()]) if (v := _read_variable(s))]
    params = [v for part in head[1].split(",") if (v := _read_variable(part.strip()))]
    directives = {m[1]: tuple(map(int, re.findall(r"\d+", m[2]))) for m in re.finditer(r"\.(\w+)([\s\d,]*)", head[2])}
    found = tuple(params)
    body = _Body(clean, head.end(), clean.count("\n", 0, head.end()) + 1)
    body.read()
    code, labels = body.resolve()
    return KernelText(
        name, target[1] if target else "", found, body.registers, (*shared, *body.variables), code, labels, directives
    )  # fmt: skip


def _module_statements(text: str) -> Iterator[str]:
    for statement in re.split(r";|\n(?=\s*\.(?:visible|extern|global|const|shared))", text):
        stripped = re.sub(r"^\s*(?:\.visible|\.extern|\.weak)\s+", "", statement).strip()
        if stripped.startswith((".shared", ".global", ".const")):
            yield stripped


def _read_variable(text: str) -> Variable | None:
    text = re.sub(r"\.param\s+\.(\w+)\s+\.ptr[^,]*?([\w$]+)$", r".param .\1 \2", text)
    found = _VARIABLE.match(text)
    if not found:
        return None
    space, align, kind, name, extents, content = found.groups()
    size = _BITS[kind] // 8
    count = 1
    for extent in re.findall(r"\[(\d*)\]", extents):
        count *= int(extent or 0)
    data = b"".join(int(n, 0).to_bytes(size, "little") for n in re.findall(r"\d\w*", content or ""))
    return Variable(name, space, size * count, int(align or size), data)


class _Body:
    """Reads a kernel's braces statement by statement; names get their scope's number behind them."""

    def __init__(self, text: str, start: int, line: int):
        self.text, self.at, self.line = text, start, line
        self.scopes: list[dict[str, str]] = [{}]
        self.registers: dict[str, int] = {}
        self.variables: list[Variable] = []
        self.labels: dict[str, int] = {}
        self.found: list[tuple[Instruction, tuple[dict[str, str], ...]]] = []
        self.outer: dict[tuple[int, int], tuple[int, int]] = {}
        self.lines: tuple[int, ...] = ()
        self.scope_count = 0

    def read(self) -> None:
        while True:
            self._skip_space()
            if self.at >= len(self.text):
                raise PtxError("the kernel's body does not end")
            c = self.text[self.at]
            if c == "{":
                self.scope_count += 1
                self.scopes.append({"": str(self.scope_count)})
                self.at += 1
            elif c == "}":
                self.at += 1
                self.scopes.pop()
                if not self.scopes:
                    return
            elif label := _LABEL.match(self.text, self.at):
                self.labels[self._declare(label[1])] = len(self.found)
                self.at = label.end()
            elif self.text.startswith((".loc", ".file"), self.at):
                end = self.text.index("\n", self.at)
                self._locate(self.text[self.at : end])
                self.at = end
            else:
                end = self.text.find(";", self.at)
                if end < 0:
                    raise PtxError(f"line {self.line}: a statement without its end")
                self._take(self.text[self.at : end].strip())
                self.line += self.text.count("\n", self.at, end)
                self.at = end + 1

    def _skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.line += self.text[self.at] == "\n"
            self.at += 1

    def _declare(self, name: str) -> str:
        mark = self.scopes[-1].get("", "")
        unique = f"{name}.{mark}" if mark else name
        self.scopes[-1][name] = unique
        return unique

    def _locate(self, directive: str) -> None:
        found = _LOC.match(directive)
        if not found:
            return
        here = int(found[1]), int(found[2])
        lines, outer = [here[0]], None
        if found[3]:
            outer = int(found[3]), int(found[4])
            self.outer[here] = outer
        while outer is not None and len(lines) < 32:
            lines.append(outer[0])
            outer = self.outer.get(outer)
        self.lines = tuple(lines)

    def _take(self, statement: str) -> None:
        if statement.startswith(".reg"):
            kind, names = re.match(r"\.reg\s+\.(\w+)\s+(.*)", statement, re.S).groups()  # type: ignore[union-attr]
            for name in (n.strip() for n in names.split(",")):
                many = re.match(r"(.*)<(\d+)>", name)
                for one in [f"{many[1]}{k}" for k in range(int(many[2]))] if many else [name]:
                    self.registers[self._declare(one)] = _BITS[kind]
        elif statement.startswith("."):
            if variable := _read_variable(statement):
                self.variables.append(replace(variable, name=self._declare(variable.name)))
            elif not statement.startswith((".pragma", ".loc")):
                raise PtxError(f"line {self.line}: the directive {statement.split()[0]} is not known")
        else:
            found = re.match(r"(?:@(!?)([\w%$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", statement, re.S)
            if not found:
                raise PtxError(f"line {self.line}: {statement!r} is no instruction")
            no, guard, op, operands = found.groups()
            one = Instruction(op, tuple(_split(operands)), guard or "", bool(no), self.line, self.lines)
            self.found.append((one, tuple(reversed(self.scopes))))

    def resolve(self) -> tuple[tuple[Instruction, ...], dict[str, int]]:
        def unique(name: str, scopes: tuple[dict[str, str], ...]) -> str:
            return next((scope[name] for scope in scopes if name in scope), name)

        code = []
        for one, scopes in self.found:
            names = tuple(_NAME.sub(lambda m, s=scopes: unique(m[0], s), x) for x in one.operands)  # type: ignore[misc]
            code.append(replace(one, operands=names, guard=unique(one.guard, scopes) if one.guard else ""))
            if one.op.startswith("bra") and not set(names) <= self.labels.keys():
                raise PtxError(f"line {one.line}: no label {one.operands[0]} is in scope")
        return tuple(code), self.labels


def _split(operands: str) -> list[str]:
    parts, depth, part = [], 0, ""
    for c in operands:
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [*parts, part.strip()] if part.strip() else parts


def list_names(operand: str) -> list[str]:
    """The names of a vector operand, or the one of another.

    >>> list_names("{%r1, %r2}"), list_names("%p1")
    (['%r1', '%r2'], ['%p1'])
    """
    return [name.strip() for name in operand.strip("{} ").split(",")]
