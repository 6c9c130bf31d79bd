"""Which recipe a gemm is carried out by: all that the fields leave open, ranked by a model of their time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilegen.arch import Arch
from tilegen.cost.adding import estimate_sum
from tilegen.cost.tally import Tally, Work
from tilegen.cost.time import Time, estimate, find_measurer
from tilegen.decisions import TILING, Candidate, Choice, count_words
from tilegen.errors import SpecError
from tilegen.ops.gemm.pins import UNSAID, check_pins, has_pins, read_pins, refuse_pins, unpin
from tilegen.ops.gemm.problem import Problem, read_problem, typical_sides, typical_values
from tilegen.ops.gemm.recipe import Recipe
from tilegen.ops.gemm.recipes import VARIANTS, GemmVariant, count_useful_stages
from tilegen.ops.gemm.split import describe_adding, has_parts, list_parts, say_short, share_k
from tilegen.ops.tally import tally_spec
from tilegen.spec.data import Spec, WholeCall

_EXPANDED = 8  # recipes, the best by closed forms, whose statements are counted
_MOST_EXPANDED = 12  # of other numbers of CTAs that share K
_COUNTS = "a launch"
_COUNTED = "of the pick, as its statements say: bytes, multiply-adds, waits and arrivals at mbarriers"
_FEW_ROWS = 64  # of d, which fill no tile of wgmma's


@dataclass(frozen=True)
class Ranked:
    """A recipe, what it does in a launch by closed forms, and what the model says of its time."""

    recipe: Recipe
    work: Work
    time: Time


@dataclass(frozen=True)
class Picked:
    """The recipe with the least time, the spec that it is, and the choices that say why."""

    recipe: Recipe
    spec: Spec
    choices: tuple[Choice, ...]


def choose_recipe(call: WholeCall, problem: Problem, arch: Arch, expand: Callable[[Recipe], Spec]) -> Picked:
    """The recipe with the least time of the best that can be carried out, each costed by what its statements do.

    ``expand(recipe)``: the spec that a recipe is; of one whose K several CTAs share, that of the first kernel.

    Raises SpecError at the field: TG302 where no recipe has all that is pinned, and what ``check_pins`` does; and what
    ``expand`` does of the best recipe where it does of all.
    """
    check_pins(call, problem)
    ranked, refusals = rank_recipes(problem, arch, call.fields)
    if not ranked:
        raise SpecError(
            refuse_pins(call, refusals, lambda fields: [r.recipe for r in rank_recipes(problem, arch, fields)[0]])
        )
    costed: list[tuple[Time, Ranked, Spec, Tally]] = []
    refused: list[SpecError] = []
    for one in _vary_parts(ranked):
        try:
            spec = expand(one.recipe)
        except SpecError as error:
            refused.append(error)
            continue
        tally = tally_spec(spec, typical_values(problem))
        time = replace(estimate(one.work, arch.name, tally), sum=one.time.sum)
        costed.append((time, one, spec, tally))
        if len(costed) == max(_EXPANDED, min(_MOST_EXPANDED, len({one.recipe.split for one in ranked}))):
            break
    if not costed:
        raise refused[0]
    costed.sort(key=lambda each: each[0].total)
    measurer = next(filter(None, (find_measurer(one.recipe.variant) for _, one, _, _ in costed)), "")
    candidates = tuple(
        Candidate(one.recipe.fields(), None, _say_time(time, costed[0][0], measurer)) for time, one, _, _ in costed
    )
    said = "".join(f"; {variant}: {reason}" for variant, reason in refusals.items())
    said += f"; the statements of {count_words(len(refused), 'recipe', 'recipes')} are refused" if refused else ""
    proof = f"the least time by what their statements do, of the best {len(costed)} of {len(ranked)} recipes by closed "
    proof += f"forms (cost/time.py){said}"
    proof += f"; rates of {measurer}, which rank the recipes and promise no time" if measurer else ""
    _, best, spec, tally = costed[0]
    choices = [
        Choice("gemm", best.recipe.fields(), candidates, proof),
        Choice(_COUNTS, _say_counts(tally), (), _COUNTED),
    ]
    if (atom := best.recipe.find_product(problem.turned() if best.recipe.is_turned else problem)) is not None:
        choices.append(Choice(TILING, best.recipe.spell_tiling(atom), (), "what the recipe's atoms cover"))
    return Picked(best.recipe, spec, tuple(choices))


def _say_time(time: Time, least: Time, measurer: str) -> str:
    """A time as it is, or, by rates that are not ours, beside the least."""
    return f"{time.total / least.total:.2f} of the least time, by rates of {measurer}" if measurer else str(time)


def _vary_parts(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The best recipe for each number of CTAs that share K, and then the others, by time."""
    best: dict[int, Ranked] = {}
    for one in ranked:
        best.setdefault(one.recipe.split, one)
    return [*best.values(), *(one for one in ranked if best[one.recipe.split] is not one)]


def _say_counts(tally: Tally) -> dict[str, Any]:
    """What a launch does, in the words of ``Tally``, kinds of loads written out."""
    counts = {name: value for name, value in vars(tally).items() if value and name != "fetched"}
    return {f"fetched by {kind}": value for kind, value in tally.fetched.items()} | counts


def rank_recipes(problem: Problem, arch: Arch, fields: Any) -> tuple[list[Ranked], dict[str, str]]:
    """Every recipe that has what ``fields`` pin, by the model's time; and why variants carry out none.

    The first variant that can carry the problem out leaves the others out, unless one is pinned: but for rows, and for
    those of their recipes whose warps share K, which few tiles have.
    """
    refusals: dict[str, str] = {}
    found: list[Ranked] = []
    seen: set[Recipe] = set()
    short: dict[str, str] = {}
    pins = read_pins(fields)
    listed = [fields, unpin(fields, [*pins])] if pins else [fields]  # what is listed anyway may have the pins too
    for name, variant in VARIANTS.items():
        if fields.variant not in ("auto", name):
            continue
        is_first = not found
        if reason := variant.refuse(share_k(problem, list_parts(problem, fields)[0]), arch):
            refusals |= {name: reason} if is_first else {}
            continue
        for is_turned, p in _list_problems(problem, variant, arch, fields):
            adds = estimate_sum(describe_adding(problem, p.parts, arch), arch.name) if p.parts > 1 else 0.0
            for asked, r in ((wished, r) for wished in listed for r in variant.recipes(p, arch, wished)):
                if not is_first and r.k_parts == 1 and not variant.is_always_listed:
                    continue
                stages = r.stages if asked.stages else min(r.stages, count_useful_stages(r, p))
                recipe = replace(r, stages=stages, is_turned=is_turned, overlap=_overlap(fields, arch), split=p.parts)
                if recipe in seen or not has_pins(recipe, fields):
                    continue
                if not has_parts(p, recipe.tile[2]):
                    short = say_short(problem, fields)
                elif recipe.fits(p, arch):
                    seen.add(recipe)
                    work = recipe.describe_work(p)
                    found.append(Ranked(recipe, work, replace(estimate(work, arch.name), sum=adds)))
    return sorted(found, key=lambda one: one.time.total), refusals if found else refusals | short


def list_candidates(call: WholeCall, arch: Arch) -> list[tuple[dict[str, Any], float]]:
    """Every recipe that has what the call pins, as fields that leave no other, and its seconds by closed forms.

    Raises SpecError as ``check_pins`` does.
    """
    problem = read_problem(call)
    check_pins(call, problem)
    ranked, _ = rank_recipes(problem, arch, call.fields)
    others = {name: UNSAID[name] for name in ("turned", "split", "k_parts")}  # which a chooser would take else
    return [(others | one.recipe.fields(), one.time.total) for one in ranked]


def _list_problems(problem: Problem, variant: GemmVariant, arch: Arch, fields: Any) -> Iterator[tuple[bool, Problem]]:
    """The problem, or its transpose, of CTAs that have all of K, or share it; and whether it is the transpose."""
    turns = _list_turns(problem, variant, fields)
    both = (*turns, *({False, True} - {*turns})) if variant.parts and fields.turned is None else turns
    for is_turned in both:
        p = problem.turned() if is_turned else problem
        for parts in list_parts(problem, fields, variant.parts(p, arch) if variant.parts else ()):
            if parts > 1 or is_turned in turns:
                yield is_turned, share_k(p, parts)


def _overlap(fields: Any, arch: Arch) -> str:
    return (fields.overlap or "") if "dependent_launch" in arch.features else ""


def _list_turns(problem: Problem, variant: GemmVariant, fields: Any) -> tuple[bool, ...]:
    """Whether the transpose is made: where d runs along columns; and where d has few rows, either way is looked at.

    Rows meet a column either way alike, so of them nothing is turned and a tile is one of d itself.
    """
    if fields.turned is not None:
        return (fields.turned,)
    if variant.is_its_transpose:
        return (False,)
    if not problem.d.runs_along_rows:
        return (True,)
    return (False, True) if typical_sides(problem)[0] <= _FEW_ROWS else (False,)
