"""The starts by name, and from whatever the option `start` may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tell.estimators.deep.recipes.given_labels import LabelStart
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.kmeans import KMeansStart
from tell.estimators.deep.recipes.start import RandomStart, Start
from tell.exceptions import ParameterError

STARTS: dict[str, type[Start]] = {
    start.name: start for start in (GraphStart, KMeansStart, RandomStart)
}


def resolve_start(start: Any) -> Start:
    """Turn a name, a mapping with options, labels or an object into the object.

    >>> resolve_start("k-means++").seedings
    10
    >>> resolve_start({"name": "graph", "neighbours": 8}).neighbours
    8
    >>> resolve_start([0, 1, 1]).soft(2).shape
    torch.Size([3, 2])
    """
    if isinstance(start, Start):
        return start
    if isinstance(start, Mapping):
        options = dict(start)
        return _named(options.pop("name", "graph"), options)
    if isinstance(start, str) or start is None:
        return _named(start, {})
    return LabelStart(labels=start)


def _named(name: Any, options: dict[str, Any]) -> Start:
    if name not in STARTS:
        names = ", ".join(map(repr, STARTS))
        raise ParameterError(f"start={name!r} must be {names}, labels or a start object; pass one")
    try:
        return STARTS[name](**options)
    except TypeError as error:
        raise ParameterError(f"start={name!r} must have known options, got {error}") from error
