"""What a reader should know before the clusters are believed: rows and columns that are special."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from tell.contract import AffineInput, EncodedInput
from tell.explanations.clusters import ClusterFacts, missing_by_column
from tell.explanations.matrices import column
from tell.explanations.scan import Scan
from tell.explanations.view import ModelView
from tell.explanations.words import counted, percent

#: A cluster of at most this many rows and this share of all is a handful of outliers.
FEW_ROWS, FEW_SHARE = 5, 0.02
#: Rows that must be seen before a column counts as the number of the row.
LEAST_ROWS = 20
#: Columns with gaps that are named.
MOST_TOLD = 3
_ID_NAME = re.compile(r"(^|[_\s])(id|index|key|nr|no|number|unnamed: \d+)$|^$", re.IGNORECASE)


def remarks(
    view: ModelView,
    found: Scan,
    clusters: Sequence[ClusterFacts],
    names: Sequence[str],
    *,
    image: bool,
) -> tuple[str, ...]:
    """One sentence for each thing that is easily overlooked; of images, what is not of columns."""
    if image:
        return tuple(_tight_by_training(view))
    return (
        *_tight_by_training(view),
        *_gaps(found),
        *_rows_without_direction(view, found),
        *_handfuls(view, found, clusters),
        *_numbering_columns(found, names),
    )


def _tight_by_training(view: ModelView) -> Iterator[str]:
    if isinstance(view.path, EncodedInput) and view.n_clusters > 1:
        yield (
            "Whether there are groups at all is not judged: an encoder was trained to draw the "
            "rows of each cluster together, which it does with rows without structure, too."
        )


def _gaps(found: Scan) -> Iterator[str]:
    """Which columns have gaps, the most first."""
    share = missing_by_column(found, np.ones(len(found.moments.sizes), bool))
    if not share:
        return
    most = sorted(share, key=lambda name: -share[name])
    told = ", ".join(f"{name} ({percent(share[name])})" for name in most[:MOST_TOLD])
    more = f" and {counted(len(most) - MOST_TOLD, 'more column')}" if len(most) > MOST_TOLD else ""
    yield (
        f"Values are missing in {told}{more}: filled for the clustering, left out of all numbers "
        "that say what clusters look like."
    )


def _rows_without_direction(view: ModelView, found: Scan) -> Iterator[str]:
    plain = isinstance(view.path, AffineInput) and view.path.scale is None
    if view.on_sphere and plain and found.moments.empty:
        rows = counted(found.moments.empty, "row")
        yield (
            f"{rows} of zeros: without a direction they are equally far from every centre, and are "
            f"counted in {view.called(0)} only because they must be counted somewhere."
        )


def _handfuls(view: ModelView, found: Scan, clusters: Sequence[ClusterFacts]) -> Iterator[str]:
    for one in clusters:
        if 0 < one.size <= FEW_ROWS and one.share <= FEW_SHARE:
            who = view.called(one.index)
            yield (
                f"{who[:1].upper()}{who[1:]} holds {counted(one.size, 'row')} of "
                f"{found.n_rows:,}: outliers rather than a group. Look at them, and try fewer "
                "clusters without them."
            )
        if one.size == 0:
            yield f"No row is nearest to the centre of {view.called(one.index)}: it is empty."


def _numbering_columns(found: Scan, names: Sequence[str]) -> Iterator[str]:
    """Columns that only number the rows: whole, all different, and in order or called an id."""
    sample, moments = found.sample, found.moments
    if found.terms.prepared or len(sample) < LEAST_ROWS or not isinstance(sample.X, np.ndarray):
        return
    wide = moments.high - moments.low >= found.n_rows - 1
    for f in np.flatnonzero(moments.whole & wide).tolist():
        values = column(sample.X, f)
        if len(np.unique(values)) < len(values):
            continue
        steps = np.diff(values)
        in_order = bool(np.all(steps > 0) or np.all(steps < 0))
        if in_order or _ID_NAME.search(names[f]):
            yield (
                f"Column {names[f]!r} looks like a number given to each row, not like a "
                "measurement, and was clustered all the same: leave it out."
            )
