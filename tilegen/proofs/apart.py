"""Which CTAs of a run are carried out together."""

from __future__ import annotations

from collections.abc import Sequence

from tilegen.interpret.threads import Cta, whole_clusters
from tilegen.spec.data import Spec


def list_apart(spec: Spec, ctas: Sequence[Cta]) -> list[tuple[Cta, ...]]:
    """The CTAs that run together: all, or a cluster at a time where elements of tables are sizes, as all CTAs read the
    same elements then, and may write what these name.
    """
    if not spec.elements:
        return [tuple(ctas)]
    clusters: dict[Cta, tuple[Cta, ...]] = {}
    for cta in ctas:
        first = whole_clusters([cta], spec.cluster)[0]
        clusters[first] = (*clusters.get(first, ()), cta)
    return [*clusters.values()]
