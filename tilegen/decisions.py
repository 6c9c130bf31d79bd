"""Why a plan is as it is: costs, candidates and what was picked, as data and in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from textwrap import wrap
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

    @property
    def layout_key(self) -> tuple[int, ...]:
        """As layouts are compared, which say how wide accesses can be: wavefronts and instructions take a clock each.

        Rows of 15 elements that are stored one by one without a conflict took 1.02 times as long as with some conflicts
        and 16 bytes at a time; fewer address operations alone gained nothing (docs/results/layouts, H100).
        """
        clocks = self.wavefronts + self.instructions
        return (self.sectors, clocks, self.wavefronts, self.shared_bytes, self.address_ops)

    @property
    def partition_key(self) -> tuple[int, ...]:
        """As partitions are compared, some of which take few sectors more and half of the instructions.

        A sector takes two clocks of a multiprocessor's share of its memory, 14 to 16 bytes a clock on an A100 or H100.
        """
        return (2 * self.sectors + self.wavefronts + self.instructions, *self.key)


Key = Callable[[Cost], tuple[int, ...]]


@dataclass(frozen=True)
class Candidate:
    """One answer that a chooser considered: its value (plain JSON data), what it costs, and the verdict in words."""

    value: Any
    cost: Cost | None
    verdict: str


@dataclass(frozen=True)
class Choice:
    """A question that a chooser answered. ``proof`` says why no candidate is better, or what was searched.

    The proof's first clause, up to a semicolon, says it in a few words. ``variant``: the variant of the op that it was
    answered for, "" where it is the kernel's.
    """

    question: str
    picked: Any
    candidates: tuple[Candidate, ...] = ()
    proof: str = ""
    variant: str = ""


TILING = "tiling"  # the question of which elements each thread has of a product, answered by a text of tiled_mma
TILE = "tile"  # the question of a permute's box, whose answers a model of time counts by itself, over the grid
RESIDENT = "ctas_per_sm"  # the question of how many CTAs one multiprocessor holds at once


def say_resident(choice: Choice) -> str:
    """A kernel's answer to that, in a line.

    >>> say_resident(Choice(RESIDENT, 2, proof="at most 128 registers a thread"))
    '2 CTAs fit on one multiprocessor: at most 128 registers a thread.'
    """
    return f"{count_words(choice.picked, 'CTA fits', 'CTAs fit')} on one multiprocessor: {choice.proof}."


@dataclass(frozen=True)
class Refusal:
    """A variant that did not carry out the operation, and why; of one that lost its cost, and what it had chosen."""

    variant: str
    reason: str
    cost: Cost | None = None
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class Operation:
    """One op of the spec as dispatched: the variant that won and its choices, why the others did not and theirs."""

    op: str
    variant: str
    scope: str
    text: str  # as the user wrote it, e.g. "copy In -> A"
    line: int
    cost: Cost
    refused: tuple[Refusal, ...] = ()
    choices: tuple[Choice, ...] = ()
    pins: tuple[tuple[str, Any], ...] = ()  # fields of the op, beside its variant, that write out what was chosen


PICKED, ITS_PICK = "picked", "what it would have picked"


def judge(cost: Cost, best: Cost, is_picked: bool, key: Key = lambda cost: cost.key) -> str:
    """The verdict on a candidate, in words. Beside what a spec pins, others may cost less."""
    if is_picked:
        return PICKED
    mine, other = key(cost), key(best)
    return "the same cost" if mine == other else "costs more" if mine > other else "costs less"


def partition_key(cost: Cost) -> tuple[int, ...]:
    """``Cost.partition_key``.

    >>> partition_key(Cost(sectors=8, instructions=4)) < partition_key(Cost(sectors=7, instructions=8))
    True
    """
    return cost.partition_key


def compare_costs(mine: Cost, other: Cost) -> str:
    """The first figure in which two costs differ, "" where none does.

    >>> compare_costs(Cost(sectors=8, wavefronts=4), Cost(sectors=8, wavefronts=2))
    '4 wavefronts against 2'
    """
    for name, own, its in zip(asdict(mine), mine.key, other.key, strict=True):
        if own != its:
            return f"{own} {name.replace('_', ' ')} against {its}"
    return ""


def of_loser(choice: Choice) -> Choice:
    """The choice of a variant that lost: nothing in it was picked.

    >>> of_loser(Choice("outer", 4, (Candidate(4, None, "picked"),))).candidates[0].verdict
    'what it would have picked'
    """
    candidates = (replace(c, verdict=ITS_PICK) if c.verdict == PICKED else c for c in choice.candidates)
    return replace(choice, candidates=tuple(candidates))


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
    return ", ".join(count_words(n, *_COST_WORDS[name]) for name, n in asdict(cost).items() if n) or "no cost"


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


def describe_answer(question: str, value: Any) -> str:
    """An answer in words; of a vector whose two sides have accesses of different widths, both.

    >>> describe_answer("vector_width", {"elems": 4, "bytes": 16, "load_bytes": 4, "store_bytes": 16})
    '4 elements, 16 bytes (loads 4, stores 16)'
    """
    words = describe_value(question, value)
    if question == "vector_width" and isinstance(value, Mapping) and {"load_bytes", "store_bytes"} <= set(value):
        words += f" (loads {value['load_bytes']}, stores {value['store_bytes']})"
    return words


def describe_choice(choice: Choice) -> str:
    """The question, the answer and the reason in a few words: the first clause of the proof.

    >>> wide = {"elems": 4, "bytes": 16}
    >>> describe_choice(Choice("vector_width", wide, (), "the widest that each side allows; 2 of 3 were costed"))
    'vector_width: 4 elements, 16 bytes; the widest that each side allows'
    """
    words = f"{choice.question}: {describe_answer(choice.question, choice.picked)}"
    reason = choice.proof.split("; ")[0]
    return printable(f"{words}; {reason}" if reason else words)


def describe_operation(operation: Operation) -> list[str]:
    """The operation as written, the variant that won and its cost, every choice with its reason: a line each.

    >>> describe_operation(Operation("copy", "gmem_smem", "warp", "copy In -> A", 7, Cost(sectors=32)))
    ['copy In -> A, scope warp', 'variant: gmem_smem; 32 sectors']
    """
    variant = Choice("variant", operation.variant, (), describe_cost(operation.cost))
    head = f"{operation.text}, scope {operation.scope}"
    return [printable(head), *(describe_choice(c) for c in (variant, *operation.choices))]


# ---------------------------------------------------------------- in lines
COLUMNS = 110  # no line of a report or of a comment is longer
_LEAST_WIDTH = 12  # of a column of a table whose cells are folded


def wrap_line(text: str, hang: int = 2, columns: int = COLUMNS) -> list[str]:
    """The text in lines of so many columns at most, those after the first indented by ``hang`` more than it.

    >>> wrap_line("  because: two of five were searched", 4, 24)
    ['  because: two of five', '      were searched']
    """
    lead = len(text) - len(text.lstrip())
    first, rest = " " * lead, " " * (lead + hang)
    lines = wrap(text.strip(), columns, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return lines or [""]


def draw_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, indent: str = "", columns: int = 0
) -> list[str]:
    """Lines of columns as wide as they need; the first ``left`` columns are aligned left, the others right.

    ``columns``: the longest a line may be, as far as folding cells on the left can make it so; 0: as long as it needs.

    >>> print("\\n".join(draw_table(("name", "count"), [("a", "10"), ("long", "5")])))
    name  count
    a        10
    long      5
    >>> print("\\n".join(draw_table(("name", "count"), [("one of many words", "5")], columns=18)))
    name          count
    one of many       5
      words
    """
    return [line for row in draw_rows([head, *rows], left, indent, columns) for line in row]


def draw_rows(rows: Sequence[Sequence[str]], left: int, indent: str, columns: int) -> list[list[str]]:
    """The lines of each row of a table, as ``draw_table`` draws them."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    excess = len(indent) + sum(widths) + 2 * (len(widths) - 1) - columns if columns else 0
    columns_of_words = ([word for cell in cells for word in ["", *cell.split()]] for cells in zip(*rows, strict=True))
    unbroken = [max(map(len, words)) + 2 for words in columns_of_words]
    for least in (unbroken, [0] * len(widths)):  # words are broken only where folding between them is not enough
        while excess > 0 and (wide := [k for k in range(left) if widths[k] > max(_LEAST_WIDTH, least[k])]):
            widths[max(wide, key=lambda k: widths[k])] -= 1
            excess -= 1

    def draw(cells: Sequence[str]) -> str:
        aligned = (c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return (indent + "  ".join(aligned)).rstrip()

    folded = (map(_fold_cell, row, widths) for row in rows)
    return [[draw(cells) for cells in zip_longest(*row, fillvalue="")] for row in folded]


def _fold_cell(cell: str, width: int) -> list[str]:
    return wrap(cell, width, subsequent_indent="  ", break_on_hyphens=False) if len(cell) > width else [cell]
