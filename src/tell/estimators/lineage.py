"""The numbers of clusters: the same after another fit, what became of each, none for retired."""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tell.contract import NAMES, Floats, Ints, cluster_names
from tell.core.assignment import Rows
from tell.core.engine import Fit
from tell.core.seeding import merge, split
from tell.data.prepared_tables import is_table, open_prepared
from tell.data.sources import Source, is_array_like
from tell.exceptions import InputError

if TYPE_CHECKING:
    from tell.estimators.scaling import Scaling
    from tell.estimators.tell import TELL

#: A fresh start replaces the warm one only where its loss is lower by this share.
MUCH_BETTER = 0.02
#: A cluster is kept if this share of its rows stays together and its centre moves no farther than
#: this part of its width; else it has moved.
KEPT_ROWS, KEPT_WIDTHS = 0.9, 0.25
#: It was split if two clusters have this share of its rows each, and merged if another took this.
SPLIT_ROWS, MERGED_ROWS = 0.25, 0.5


def check_like(model: TELL, like: Any) -> None:
    """Check that an earlier model speaks of the same kind of clusters."""
    from tell.estimators.tell import TELL

    if not isinstance(like, TELL) or not hasattr(like, "_state"):
        raise InputError(f"like must be a fitted TELL, got {type(like).__name__}")
    if like.geometry != model.geometry:
        raise InputError(
            f"like must have geometry={model.geometry!r} as this model, got {like.geometry!r}"
        )


def rows_like(model: TELL, X: Any, like: Any) -> Any:
    """Rows that an earlier model can be asked about too, read through its own preparation."""
    check_like(model, like)
    if not is_array_like(X) and not isinstance(X, str | os.PathLike | Source):
        raise InputError("like needs rows that can be read twice; pass an array or a file")
    learned = getattr(like, "preparation_", None)
    return X if learned is None or not is_table(X, learned) else open_prepared(X, learned)


def warm_start(like: TELL, n_clusters: int, scaling: Scaling, rows: Rows, seed: int) -> Tensor:
    """The earlier centres where these rows are clustered; more or fewer of them, if need be."""
    if like.n_features_in_ != rows.shape[1]:
        raise InputError(
            f"like must have the {rows.shape[1]} columns of these rows, got {like.n_features_in_}"
        )
    placed = torch.from_numpy(scaling.apply(like.centers_in_units().astype(np.float64)))
    if (live := like._state.live) is not None:
        placed = placed[live.cpu()]
    if like.geometry == "sphere":
        placed = torch.nn.functional.normalize(placed, dim=1)
    centers = placed.to(rows.example)
    more = n_clusters - len(centers)
    generator = torch.Generator().manual_seed(seed)
    if more > 0:
        return split(rows, centers, more, like.geometry, generator)
    return merge(rows, centers, -more, like.geometry)


def better_of(warm: Fit, fresh: Fit) -> Fit:
    """The warm start, unless the data has changed so much that a fresh one is far better."""
    return fresh if fresh.loss < (1 - MUCH_BETTER) * warm.loss else warm


def numbers(table: Floats) -> Ints:
    """The number of each new cluster, so that it shares most rows with the old one of that number.

    >>> numbers(np.array([[0.0, 9.0], [8.0, 1.0]])).tolist()
    [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    n_new = table.shape[1]
    union = table.sum(axis=1)[:, None] + table.sum(axis=0)[None] - table
    shared = table / np.maximum(union, 1)
    found = np.full(n_new, -1)
    for old, new in zip(*linear_sum_assignment(-shared), strict=True):
        if shared[old, new] > 0 and old < n_new:
            found[new] = old
    free = iter(sorted(set(range(n_new)) - set(found.tolist())))
    return np.array([next(free) if number < 0 else number for number in found])


def keep_numbers(model: TELL, like: TELL, before: NDArray[np.integer]) -> None:
    """Number the clusters as an earlier model did; `before` are its labels of the fitted rows."""
    k, k_old = model.n_clusters_, like.n_clusters_
    table = np.zeros((k_old, k))
    np.add.at(table, (before, model.labels_), 1)
    number = numbers(table)
    order = np.argsort(number)
    _renumber(model, order, number)
    model.lineage_ = fates(table[:, order], *_shifts(model, like))


def _renumber(model: TELL, order: Ints, number: Ints) -> None:
    """Put the clusters into this order, everywhere."""
    model._state = model._state.only(torch.from_numpy(order))
    model.labels_ = number[model.labels_].astype(np.int32)
    model.cluster_losses_ = model.cluster_losses_[order]


def without_retired(model: TELL, live: Tensor) -> TELL:
    """A copy with the clusters at these places alone, called by the numbers that they had."""
    kept, names = live.tolist(), cluster_names(model)
    slim = copy.copy(model)
    slim._state = model._state.only(live)
    place = np.full(model.n_clusters_, -1, np.int32)
    place[kept] = np.arange(len(kept))
    slim.labels_ = np.where(model.labels_ < 0, model.labels_, place[model.labels_])
    called = {str(i): names.get(j, f"cluster {j}") for i, j in enumerate(kept)}
    slim.metadata_ = dict(getattr(model, "metadata_", None) or {}) | {NAMES: called}
    return slim


def _shifts(model: TELL, like: TELL) -> tuple[Floats, Floats]:
    """Distances between old and new centres (k_old, k), and widths (k_old,) of the old clusters."""
    old = model._scaling.apply(like.centers_in_units().astype(np.float64))
    new = model._scaling.apply(model.centers_in_units().astype(np.float64))
    if model.geometry == "sphere":
        old, new = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (old, new))
    radii = like._state.radii
    losses = np.full(len(old), like._usual_loss) if radii is None else radii.unit.cpu().numpy()
    apart = np.linalg.norm(old[:, None] - new[None], axis=2)
    return apart, np.sqrt(np.maximum(losses, 1e-300))


def fates(table: Floats, apart: Floats, widths: Floats) -> list[dict[str, Any]]:
    """What became of each old cluster, and which new ones were born.

    Parameters
    ----------
    table : (k_old, k) rows by old and by new number
    apart : (k_old, k) distances between their centres
    widths : (k_old,) root mean squared distance of the old clusters' rows
    """
    found = [_after(old, row, apart[old], widths[old]) for old, row in enumerate(table)]
    sizes = table.sum(axis=0)
    for entry in found:
        entry["rows"] = None if entry["cluster"] is None else int(sizes[entry["cluster"]])
    namesakes = {entry["was"] for entry in found if entry["was"] == entry["cluster"]}
    return found + [
        {"was": None, "cluster": j, "fate": "born", "rows": int(sizes[j])}
        for j in range(table.shape[1])
        if j not in namesakes
    ]


def _after(old: int, row: Floats, apart: Floats, width: float) -> dict[str, Any]:
    """The fate of one old cluster, whose rows went to the new ones in these numbers (k,)."""
    size = float(row.sum())
    if not size:
        return {"was": old, "cluster": None, "fate": "died", "rows_before": 0, "into": []}
    namesake = old < len(row) and row[old] > 0
    heir = old if namesake else int(row.argmax())
    into = np.flatnonzero(row >= SPLIT_ROWS * size).tolist()
    shared, shift = float(row[heir] / size), float(apart[heir] / width)
    return {
        "was": old,
        "cluster": heir,
        "fate": _fate(shared, shift, len(into), namesake=namesake),
        "rows_before": int(size),
        "shared": shared,
        "shift": shift,
        "into": into,
    }


def _fate(shared: float, shift: float, heirs: int, *, namesake: bool) -> str:
    if not namesake:
        return "merged" if shared >= MERGED_ROWS else "died"
    if heirs > 1:
        return "split"
    return "kept" if shared >= KEPT_ROWS and shift <= KEPT_WIDTHS else "moved"
