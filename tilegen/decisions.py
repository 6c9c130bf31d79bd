"""Why a plan is as it is: costs, candidates and what was picked, as data and in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What one candidate costs, counted over one CTA; compared in this order."""

    sectors: int = 0
    wavefronts: int = 0
    instructions: int = 0
    shared_bytes: int = 0
    address_ops: int = 0

    @property
    def key(self) -> tuple[int, ...]:
        return (self.sectors, self.wavefronts, self.instructions, self.shared_bytes, self.address_ops)


@dataclass(frozen=True)
class Candidate:
    """One answer that a chooser considered: its value (plain JSON data), what it costs, and the verdict in words."""

    value: Any
    cost: Cost | None
    verdict: str


@dataclass(frozen=True)
class Choice:
    """A question that a chooser answered. ``proof`` says why no candidate is better, or what was searched."""

    question: str
    picked: Any
    candidates: tuple[Candidate, ...] = ()
    proof: str = ""


@dataclass(frozen=True)
class Refusal:
    """A variant that did not carry out the operation, and why (its cost, if it lost on cost)."""

    variant: str
    reason: str
    cost: Cost | None = None


@dataclass(frozen=True)
class Operation:
    """One op of the spec as dispatched: the variant that won, why the others did not, and every choice made."""

    op: str
    variant: str
    scope: str
    text: str  # as the user wrote it, e.g. "copy In -> A"
    line: int
    cost: Cost
    refused: tuple[Refusal, ...] = ()
    choices: tuple[Choice, ...] = ()
    pins: tuple[tuple[str, Any], ...] = ()  # fields of the op, beside its variant, that write out what was chosen


def judge(cost: Cost, best: Cost, is_picked: bool) -> str:
    """The verdict on a candidate, in words."""
    return "picked" if is_picked else "costs more" if cost.key > best.key else "the same cost"


def per_cta(choice: Choice, one: int, total: int) -> Choice:
    """A choice whose candidates were costed for one tile, costed over a CTA: ``one`` instructions become ``total``."""
    runs = total // one
    candidates = tuple(
        replace(c, cost=Cost(*(n * runs for n in c.cost.key)) if c.cost else None) for c in choice.candidates
    )
    return replace(choice, candidates=candidates)


# ---------------------------------------------------------------- in words
_COST_WORDS = {
    "sectors": ("sector", "sectors"), "wavefronts": ("wavefront", "wavefronts"),
    "instructions": ("instruction", "instructions"), "shared_bytes": ("shared byte", "shared bytes"),
    "address_ops": ("address operation", "address operations"),
}  # fmt: skip


def printable(text: str) -> str:
    """``text`` on one line, without characters that act on a terminal or a compiler."""
    return "".join(c if c.isprintable() else " " for c in text)


def count_words(n: int, singular: str, plural: str) -> str:
    """
    >>> count_words(1, "element", "elements"), count_words(4, "element", "elements")
    ('1 element', '4 elements')
    """
    return f"{n} {singular if n == 1 else plural}"


def describe_cost(cost: Cost) -> str:
    """What a cost counts, in the order in which costs are compared; what is zero is left out.

    >>> describe_cost(Cost(wavefronts=64, instructions=1))
    '64 wavefronts, 1 instruction'
    """
    return ", ".join(_field(cost, f.name) for f in fields(cost) if getattr(cost, f.name)) or "no cost"


def _field(cost: Cost, name: str) -> str:
    return count_words(getattr(cost, name), *_COST_WORDS[name])


def describe_value(question: str, value: Any) -> str:
    """An answer to a question, in words.

    >>> describe_value("vector_width", {"elems": 4, "bytes": 16})
    '4 elements, 16 bytes'
    >>> describe_value("xor_k", {"k": 2, "shift": 3, "mask": 3})
    'k = 2, shift 3, mask 3'
    >>> describe_value("dims", [{"extent": 8, "src": 4, "dst": 1}, {"extent": 4, "src": 1, "dst": 8}])
    'extent = 8, src 4, dst 1; extent = 4, src 1, dst 8'
    """
    if question == "vector_width" and isinstance(value, Mapping) and {"elems", "bytes"} <= set(value):
        return f"{count_words(value['elems'], 'element', 'elements')}, {count_words(value['bytes'], 'byte', 'bytes')}"
    if isinstance(value, Mapping):
        first, *rest = value.items() or [("nothing", "")]
        return ", ".join([f"{first[0]} = {_plain(first[1])}", *(f"{k} {_plain(v)}" for k, v in rest)])
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, Mapping) for v in value):
        return "; ".join(describe_value(question, v) for v in value)
    return _plain(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def describe_choice(choice: Choice) -> str:
    """The question, the answer with its cost, each other candidate with the first figure that differs, the proof.

    >>> wide = Candidate({"elems": 4, "bytes": 16}, Cost(wavefronts=64), "picked")
    >>> narrow = Candidate({"elems": 1, "bytes": 4}, Cost(wavefronts=128), "more wavefronts")
    >>> describe_choice(Choice("vector_width", wide.value, (wide, narrow), "floor reached"))
    'vector_width: 4 elements, 16 bytes (64 wavefronts; 1 element: 128); floor reached'
    """
    picked = next((c for c in choice.candidates if c.value == choice.picked), None)
    shown = _deciding_field(picked, choice.candidates)
    said = [_field(picked.cost, shown)] if picked and picked.cost and shown else []
    names = _short_names(choice)
    others = [(n, c) for n, c in zip(names, choice.candidates, strict=True) if c is not picked]
    said += [f"{name}: {_against(c, picked, shown)}" for name, c in others]
    words = f"{choice.question}: {describe_value(choice.question, choice.picked)}"
    words += f" ({'; '.join(said)})" if said else ""
    return printable(f"{words}; {choice.proof}" if choice.proof else words)


def _short_names(choice: Choice) -> list[str]:
    """The candidates by their first part alone (``1 element``, ``k = 0``) where that tells them apart."""
    full = [describe_value(choice.question, c.value) for c in choice.candidates]
    pairs = zip(full, choice.candidates, strict=True)
    short = [words.split(", ")[0] if isinstance(c.value, Mapping) else words for words, c in pairs]
    return short if len(set(short)) == len(full) else full


def _deciding_field(picked: Candidate | None, candidates: tuple[Candidate, ...]) -> str:
    """The first figure in which a candidate differs from the picked one; else the first that is not zero."""
    if not picked or not picked.cost:
        return ""
    for f in fields(picked.cost):
        if any(c.cost and getattr(c.cost, f.name) != getattr(picked.cost, f.name) for c in candidates):
            return f.name
    return next((f.name for f in fields(picked.cost) if getattr(picked.cost, f.name)), "")


def _against(candidate: Candidate, picked: Candidate | None, shown: str) -> str:
    if not candidate.cost or not picked or not picked.cost:
        return candidate.verdict
    for f in fields(candidate.cost):
        figure = getattr(candidate.cost, f.name)
        if figure != getattr(picked.cost, f.name):
            return str(figure) if f.name == shown else _field(candidate.cost, f.name)
    return candidate.verdict or "the same cost"


def describe_refusal(refusal: Refusal) -> str:
    """
    >>> describe_refusal(Refusal("reg", "neither side is registers"))
    'not reg: neither side is registers'
    """
    cost = f" ({describe_cost(refusal.cost)})" if refusal.cost else ""
    return printable(f"not {refusal.variant}: {refusal.reason}{cost}")


def describe_operation(operation: Operation) -> list[str]:
    """The operation as written and the variant that carries it out, then every choice, a line each.

    >>> describe_operation(Operation("copy", "gmem_smem", "warp", "copy In -> A", 7, Cost(sectors=32)))
    ['copy In -> A: variant gmem_smem, scope warp, 32 sectors']
    """
    head = f"{operation.text}: variant {operation.variant}, scope {operation.scope}, {describe_cost(operation.cost)}"
    return [printable(head), *(describe_choice(c) for c in operation.choices)]
