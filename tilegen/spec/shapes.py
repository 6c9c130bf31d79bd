"""The shapes of an op's operands, which are equal but for extents of 1, and what would make them so."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence

from tilegen.errors import Mark
from tilegen.spec.data import Region
from tilegen.spec.findings import Flawed
from tilegen.spec.form import OpForm


def _say_shapes(reference: Region, region: Region) -> str:
    """What would make two regions alike."""
    if sorted(map(str, reference.shape)) == sorted(map(str, region.shape)) and len(region.shape) == 2:
        name = reference.buffer.name
        return f"a transposed view of '{name}' would fit: {name}_t: {{view: {name}, axes: [1, 0]}}"
    places = [r for r in (reference, region) if r.buffer.traits.is_array]
    if len(places) == 1:  # the other side is as large as its buffer was made
        (place,) = places
        wanted, given = drop_ones((region if place is reference else reference).shape), drop_ones(place.shape)
        unlike = [n for n, m in zip(wanted, given, strict=False) if n != m]
        if len(wanted) == len(given) and len(unlike) == 1:
            fits = f"'0 : {unlike[0]}' or 'lo : +{unlike[0]}' in '{place.buffer.name}[..]'"
            return f"a range of {unlike[0]} would fit: {fits}; past the edge with 'edge: clip'"
    return _say_part(reference, region) or _say_part(region, reference) or "extents of 1 do not count"


def _say_part(small: Region, large: Region) -> str:
    """The part of a whole buffer that is as large as another region, if there is one of as many dimensions."""
    buffer, wanted = large.buffer, drop_ones(small.shape)
    is_whole = large.lengths == buffer.shape and len(wanted) == len(buffer.shape)
    if not is_whole or any(n > m for n, m in zip(wanted, large.lengths, strict=True)):
        return ""
    return f"a part would fit: '{buffer.name}[{', '.join(f'0:{n}' for n in wanted)}]'"


def check_shapes(form: OpForm, regions: Dict[str, Region], mark: Mark) -> None:
    """All operands have one shape, extents of 1 aside; raises TG212."""
    named = list(regions.items())
    (first, reference), rest = named[0], named[1:]
    for name, region in rest:
        if drop_ones(region.shape) != drop_ones(reference.shape):
            message = (
                f"{form.name} needs equal shapes: {first} has {list(reference.shape)}, {name} has {list(region.shape)}"
            )
            raise Flawed("TG212", message, region.mark or mark, _say_shapes(reference, region))


def check_apart(form: OpForm, regions: Dict[str, Region], mark: Mark) -> None:
    """What is written lies elsewhere than what is read; raises TG212."""
    for region in (regions[name] for name in form.writes if name in regions):
        for source in (regions[name] for name in form.reads if name in regions):
            if is_same_place(source, region):
                message = f"this {form.name} writes '{region.text}' onto itself, which changes nothing"
                raise Flawed("TG212", message, region.mark or mark, ELSEWHERE)


ELSEWHERE = "name the buffer that is meant, or remove the op"


def is_same_place(a: Region, b: Region) -> bool:
    """Does each element of two regions lie where the element at its place in the other lies?"""
    one, other = a.buffer, b.buffer
    if one.name != other.name and (one.is_auto or (one.shape, one.layout) != (other.shape, other.layout)):
        return False
    return (one.root, one.dtype, a.begins, a.lengths) == (other.root, other.dtype, b.begins, b.lengths)


def drop_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without its extents of 1.

    >>> drop_ones((2, 1, 32))
    (2, 32)
    """
    return tuple(n for n in shape if n != 1)


def align_shapes(own: Sequence[int], shape: Sequence[int]) -> tuple[int | None, ...] | None:
    """For each dimension of ``shape`` the one of ``own`` that lies on it, None where ``own`` is stretched.

    Shapes are compared from the right, extents of 1 and missing ones stretch. Where that does not fit, extents of 1 do
    not count on either side, and the others are equal. None for shapes that do not fit at all.

    >>> align_shapes((8, 1), (2, 8, 4)), align_shapes((8, 1), (8,)), align_shapes((8, 1), (4,))
    ((None, 0, None), (0,), None)
    """
    spare = len(own) - len(shape)
    aligned = [k if 0 <= k < len(own) and own[k] > 1 else None for k in range(spare, len(own))]
    fits = all(k is None or own[k] == n for k, n in zip(aligned, shape, strict=True))
    if fits and all(n == 1 for n in own[: max(0, spare)]):
        return tuple(aligned)
    if drop_ones(tuple(own)) != drop_ones(tuple(shape)):
        return None
    long = iter(k for k, n in enumerate(own) if n > 1)
    return tuple(next(long) if n > 1 else None for n in shape)
