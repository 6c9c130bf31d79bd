"""The parameters of an op's function, and how elements of its operands are addressed from inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tilegen.index import Formula, Index, Var, terms, total, variables
from tilegen.ops.operand import Operand, Refused
from tilegen.plan import Block, Memory, Ref, Step
from tilegen.scopes import SCOPES


class Formals:
    """The parameters of an op's function: one per operand, a base pointer for memories, an array for registers.

    ``see`` turns a reference into the one seen from inside. What it adds over variables that are constant during a call
    (CTA axes, loops around the op, the axes that number instances of its scope) moves to the base, once per call.

    ``own``: variables of the function itself. ``guarded``: operands whose accesses, each or all, stand behind a
    condition; what a thread adds to all of them moves to the base as well, unless they are in a loop over ``rolled``
    that is not unrolled. A compiler sees such a base itself, but not behind guards: there it makes each address anew
    (docs/performance.md).
    """

    def __init__(
        self, operands: Sequence[Operand], flat: Sequence[bool], scope: str, own: Iterable[str],
        guarded: Sequence[bool] = (), rolled: str = "",
    ):  # fmt: skip
        self.operands = tuple(operands)
        names = _formal_names(self.operands)
        self.formals = tuple(_formal_of(o, f, n) for o, f, n in zip(operands, flat, names, strict=True))
        self.own, self.rolled = frozenset(own), rolled
        self.guarded = [side for side, is_guarded in enumerate(guarded) if is_guarded]
        self.inner = SCOPES[scope].inner | self.own
        self.bases: dict[int, Ref] = {}

    def see(self, side: int, ref: Ref) -> Ref:
        """``ref``, an element of operand number ``side``, as the function addresses it."""
        formal = self.formals[side]
        if formal.traits.is_held:
            self.bases[side] = Ref(ref.memory, (0,))
            return Ref(formal, ref.at)
        known = self.bases.get(side) or self.share_base(side, (ref,))
        apart = [_take_away(x, base) for x, base in zip(ref.at, known.at, strict=True)]
        if any(rest is None for rest in apart):
            raise Refused(f"{formal.name} has no base that is the same for all of its elements in one function")
        inside = Ref(ref.memory, tuple(rest for rest in apart if rest is not None))
        return Ref(formal, (inside.offset,) if formal.pitches == (1,) else inside.at)

    def share_base(self, side: int, refs: Sequence[Ref]) -> Ref:
        """The base of an operand: what all these elements add over variables that are constant during a call.

        A swizzle XORs such variables with an element's own place, so that not all elements add the same.
        """
        inner = self.own if self._gains_by_own_base(side, refs) else self.inner
        outside = [[terms(split_terms(x, inner)[0]) for x in ref.at] for ref in refs]
        common = [[t for t in own if all(t in o[d] for o in outside)] for d, own in enumerate(outside[0])]
        self.bases[side] = Ref(refs[0].memory, tuple(total(c) for c in common))
        return self.bases[side]

    def _gains_by_own_base(self, side: int, refs: Sequence[Ref]) -> bool:
        """Should each thread have a base of its own, from which its accesses are constants away?"""
        named = frozenset[str]().union(*(_names(x) for ref in refs for x in ref.at))
        is_repeated = len(refs) > 1 or bool(named & self.own)
        return side in self.guarded and is_repeated and self.rolled not in named

    def block(
        self, name: str, body: tuple[Step, ...], op: int, registers: tuple[Memory, ...] = (), note: str = ""
    ) -> Block:
        """The call of a function with this body."""
        args = tuple((f, self.bases[k]) for k, f in enumerate(self.formals) if k in self.bases)
        return Block(name, args, body, registers, note, op)


def _take_away(x: Index, base: Index) -> Index | None:
    """``x`` without the terms of ``base``; None where it does not have them all."""
    rest = list(terms(x))
    for t in terms(base) if base != 0 else ():
        if t not in rest:
            return None
        rest.remove(t)
    return total(rest)


def _formal_of(operand: Operand, flat: bool, name: str) -> Memory:
    m = replace(operand.memory, cache=operand.cache)
    if not flat or m.traits.is_held:
        return replace(m, name=name)
    return replace(m, name=name, shape=(m.span,), pitches=(1,))


def _formal_names(operands: Sequence[Operand]) -> list[str]:
    """The operands' names, told apart by their fields, or names there, where one buffer is read and written."""
    names = [o.buffer.name for o in operands]
    if len(set(names)) == len(names):
        return names
    found = list[str]()
    for o in operands:
        name = f"{o.buffer.name}_{o.op_field.rpartition('.')[2]}"
        while name in found:
            name += "_"
        found.append(name)
    return found


def split_terms(x: Index, inner: frozenset[str]) -> tuple[Index, Index]:
    """``x`` as (the sum of its terms over none of the ``inner`` variables, the rest); constants stay inside.

    >>> s, lane = Var("s", 2), Var("laneid", 32)
    >>> [str(p) for p in split_terms(s * 128 + lane * 4 + 1, frozenset({"laneid"}))]
    ['s * 128', 'laneid * 4 + 1']
    """
    if isinstance(x, Formula) and x.symbol == "-":
        return 0, x
    outside = [t for t in terms(x) if t[1] != 1 and not _names(t[1]) & inner]
    inside = [t for t in terms(x) if t[1] == 1 or _names(t[1]) & inner]
    return total(outside), total(inside)


def _names(x: object) -> frozenset[str]:
    return frozenset(v.name for v in variables(x)) if isinstance(x, (Var, Formula)) else frozenset()
