"""The report: one HTML file that needs no network, for people who do not read code.

The map is a small canvas script of our own rather than a plotting library: the page stays below
a megabyte for tables (plotly alone is 4.5), opens at once, and can be driven from the keyboard.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path

import numpy as np

from tell.contract import Reals, Run
from tell.exceptions import MissingDependencyError
from tell.explanations.choice_curves import ChoiceCurve
from tell.explanations.clusters import ClusterFacts, Member
from tell.explanations.comparison import Comparison
from tell.explanations.directions import Direction, describe_directions, learn_meanings
from tell.explanations.facts import Explanation
from tell.explanations.layer_walk import Walk, walk
from tell.explanations.moves import Moves
from tell.explanations.palette import cluster_colors, ink_on
from tell.explanations.points import ATTRIBUTED
from tell.explanations.rejections import share_asked, share_text
from tell.explanations.scan import BORDERLINE
from tell.explanations.sheet import Sheet, heat_map, make_sheet
from tell.explanations.terms import Cell, cell_text, number_text
from tell.explanations.words import counted, percent, short, signed_short
from tell.export.rules import Rule
from tell.files import write_whole

_TEMPLATES = Path(__file__).parent / "templates"
#: Rows of tables up to this wide are shown whole when the map is pointed at.
MAX_HOVER_COLUMNS = 30
#: Known labels are tabled by cluster up to this many of either.
MAX_LABELS = 50
#: Categories of a column that have a colour of their own on the map.
MAX_LEVELS = 10
#: Features of the heat map: those that differ most between the clusters.
MAX_HEAT = 24
#: Directions of an embedding that are shown of a row: those that add most to its margin.
MAX_DIRECTIONS = 5
#: Rejected rows that are shown: those farthest out.
MAX_REJECTED = 40

# What the numbers of a training record are called.
_CURVES = {
    "loss": "Clustering loss",
    "clustering": "Clustering loss",
    "total": "Minimised loss",
    "reconstruction": "Reconstruction error",
    "distil": "Cross-entropy to the partition",
    "changed": "Share of rows that changed cluster",
    "smallest": "Rows in the smallest cluster",
    "movement": "Movement of the centres",
}


def report(
    facts: Explanation,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    comparison: Comparison | None = None,
    moves: Moves | None = None,
    command: str | None = None,
) -> Path:
    """Write an explanation as one self-contained HTML file.

    Parameters
    ----------
    facts : what `explain` returned
    path : where to write; a file already there is replaced in one step
    title : default: the name of the data
    comparison, moves : what `compare` and `explain_change` returned, for a section on an older
        model
    command : the command line to note under "How this was made"

    Returns
    -------
    Path
    """
    target = Path(path)
    page = render_report(facts, title=title, comparison=comparison, moves=moves, command=command)
    write_whole(target, page.encode())
    return target


def render_report(
    facts: Explanation,
    *,
    title: str | None = None,
    comparison: Comparison | None = None,
    moves: Moves | None = None,
    command: str | None = None,
) -> str:
    """The report as one text. All text from data is escaped by the template."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise MissingDependencyError(
            "a report needs jinja2, which is not installed; "
            'install it with pip install "tell-clustering[report]"'
        ) from error
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": percent,
        "counted": counted,
        "number": number_text,
        "short": short,
        "signed_short": signed_short,
        "curve": curve,
        "metric_name": metric_name,
    }
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    colors = cluster_colors(facts.model.n_clusters)
    directions = _directions(facts)
    through = _walk(facts)
    return environment.get_template("report.html.j2").render(
        facts=facts,
        title=title or facts.data.name,
        comparison=comparison,
        moves=moves,
        unlike=_unlike(facts),
        made=_made(facts, command),
        headline=_headline(facts),
        clear_share=float(np.mean(facts.sample.clearness >= BORDERLINE)),
        colors=colors,
        inks=[ink_on(color) for color in colors],
        figures=_figure_sheet(facts, directions),
        directions=directions,
        walk=through,
        walked=_walked_strips(through) if facts.data.shape is None else {},
        hover=_hover_sheet(facts),
        heat=_heat_maps(facts),
        rules=_rules(facts),
        heat_columns=_heat_columns(facts),
        telling_columns=_telling_columns,
        cell=_cell_of(facts),
        title_of=facts.cluster_title,
        levels_index=lambda profile, level: profile.levels.index(level),
        more_loss=_more_loss(facts),
        rejected=facts.rejections.rows[:MAX_REJECTED] if facts.rejections else (),
        share_asked=share_asked,
        share_text=share_text,
        row_title=facts.row_title,
        curves=_curves(facts),
        banded=banded,
        max_labels=MAX_LABELS,
        map_data=_map_data(facts, colors),
        style=(_TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script=script,
        script_digest=digest,
    )


def _curves(facts: Explanation) -> dict[str, tuple[float, ...]]:
    """The curves that are not flat, by a name that says what they show."""
    moving = {n: v for n, v in facts.model.history.items() if min(v) < max(v)}
    return {_CURVES.get(name, name.capitalize()): values for name, values in moving.items()}


def metric_name(name: str) -> str:
    """A score as papers write it.

    >>> metric_name("nmi"), metric_name("homogeneity"), metric_name("v_measure")
    ('NMI', 'Homogeneity', 'V-measure')
    """
    return name.upper() if len(name) == 3 else name.replace("_", "-").capitalize()


def curve(values: Iterable[float]) -> str:
    """Points of an SVG polyline in a box of 100 by 40."""
    heights = np.asarray(list(values), np.float64)
    low, span = heights.min(), np.ptp(heights) or 1.0
    across = np.linspace(0, 100, len(heights)) if len(heights) > 1 else np.array([50.0])
    up = 38 - 36 * (heights - low) / span
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in zip(across, up, strict=True))


def banded(curve: ChoiceCurve, marks: Iterable[int | None]) -> tuple[str, str, list[float]]:
    """A curve, the band of its errors and the places of some numbers, in a box of 100 by 40."""
    error = np.zeros(len(curve.values)) if curve.error is None else curve.error
    edges = np.concatenate([curve.values + error, (curve.values - error)[::-1]])
    low, span = edges.min(), np.ptp(edges) or 1.0
    ks = curve.n_clusters
    across = 100 * (ks - ks[0]) / (ks[-1] - ks[0])

    def points(x: Reals, y: Reals) -> str:
        up = 38 - 36 * (y - low) / span
        return " ".join(f"{a:.2f},{b:.2f}" for a, b in zip(x, up, strict=True))

    band = points(np.concatenate([across, across[::-1]]), edges)
    return points(across, curve.values), band, [float(across[ks == k][0]) for k in marks if k in ks]


def _headline(facts: Explanation) -> str:
    if facts.model.n_clusters == 1:
        return "A single cluster holds all rows: there is no boundary to explain."
    there = [cluster for cluster in facts.clusters if cluster.size]
    largest = max(there, key=lambda cluster: cluster.size)
    name = "" if largest.name is None else f" ({largest.name})"
    share = percent(largest.share)
    text = f"The largest cluster, {largest.index}{name}, holds {share} of the rows."
    hardest = max(there, key=lambda cluster: cluster.confused_share)
    if hardest.confused_with is not None:
        text += (
            f" Hardest to tell apart: {percent(hardest.confused_share)} of cluster {hardest.index}"
            f" lies at its boundary with cluster {hardest.confused_with}."
        )
    return text


def _made(facts: Explanation, command: str | None) -> dict[str, str]:
    made = {"Data": facts.data.name, "Model": facts.model.kind}
    return made | ({"Command": command} if command else {}) | dict(facts.made)


def _rules(facts: Explanation) -> dict[int, list[Rule]]:
    """The rules of the tree by cluster: all of those whose agreement is stated."""
    surrogate = facts.quality.surrogate if facts.quality else None
    if surrogate is None or facts.data.shape is not None:
        return {}
    found: dict[int, list[Rule]] = {cluster.index: [] for cluster in facts.clusters}
    for rule in surrogate.rules:
        found[rule.cluster].append(rule)
    return found


def _unlike(facts: Explanation) -> dict[int, str]:
    """What each cluster is unlike its nearest neighbour; nothing for images and lone clusters."""
    sampled = set(facts.sample.labels.tolist())
    pairs = [(one.index, one.nearest) for one in facts.clusters if facts.data.shape is None]
    return {
        j: facts.contrast(j, k).summary
        for j, k in pairs
        if k is not None and {j, k} <= sampled and len(sampled) > 2  # of two all is said above
    }


def _more_loss(facts: Explanation) -> Callable[[Run], str]:
    """How much larger the loss of a restart was than that of the one that was kept."""
    kept = next((run.loss for run in facts.model.runs if run.chosen), None)

    def text(run: Run) -> str:
        if not kept:
            return "larger"
        more = run.loss / kept - 1
        return f"{100 * more:.2g} % larger" if more >= 1e-6 else "the same"

    return text


def _heat_columns(facts: Explanation) -> list[int]:
    """Columns of a table in which clusters differ most, strongest first."""
    if facts.data.shape is not None or len(facts.clusters) < 2:
        return []
    effects = np.array([cluster.effects for cluster in facts.clusters])
    strongest = np.where(facts.terms.readable, np.abs(effects).max(axis=0), 0.0)
    order = np.argsort(-strongest, kind="stable")[:MAX_HEAT]
    return [int(f) for f in order if strongest[f] > 0]


def _telling_columns(cluster: ClusterFacts, most: int = 4) -> list[str]:
    """The columns by which rows of a cluster are shown: those that it is told by."""
    return list(dict.fromkeys(fact.column for fact in cluster.features))[:most]


def _cell_of(facts: Explanation) -> Callable[[Member, str], str]:
    """How a cell of a row is printed."""
    columns = {column.name: column for column in facts.terms.columns}

    def text(one: Member, name: str) -> str:
        return cell_text(columns[name].cell(one.values), filled=name in one.filled)

    return text


def _hover_sheet(facts: Explanation) -> Sheet | None:
    if facts.data.shape is None or facts.sample.map is None:
        return None
    rows: dict[Hashable, Reals] = dict(enumerate(facts.sample.values))
    return make_sheet(rows, facts.data.shape)


def _directions(facts: Explanation) -> dict[int, tuple[Direction, ...]]:
    """By explained row of a deep model the directions that add most to its margin."""
    rows = [p.row for p in facts.points if p.method == ATTRIBUTED and p.cluster != p.runner_up]
    if not rows:
        return {}
    meanings = learn_meanings(facts)
    return {row: describe_directions(facts, row, meanings)[:MAX_DIRECTIONS] for row in rows}


def _walk(facts: Explanation) -> Walk | None:
    """The explained row whose attention is least on one centre, on its way through the layer."""
    if not facts.points or facts.model.n_clusters == 1:
        return None
    least = min(facts.points, key=lambda point: float(point.attention.max()))
    return walk(least, facts.clusters, on_sphere=facts.model.geometry == "sphere")


def _walked_strips(through: Walk | None) -> dict[str, str]:
    """The row, and the weights of every centre below each other, as coloured strips."""
    if through is None:
        return {}
    m = len(through.features)
    return {
        "x": heat_map(through.x, (1, m)),
        "W": heat_map(through.weights.ravel(), (len(through.lines), m)),
    }


def _figure_sheet(
    facts: Explanation, directions: Mapping[int, tuple[Direction, ...]]
) -> Sheet | None:
    """Centres, noteworthy members and chosen points, larger than on the map."""
    if facts.data.shape is None:
        return None
    rows: dict[Hashable, Reals] = {}
    for cluster in facts.clusters:
        rows["center", cluster.index] = cluster.picture
        for one in (*cluster.prototypes, *cluster.borderline, *cluster.outliers):
            rows["row", one.row] = one.values
    for far in facts.rejections.rows[:MAX_REJECTED] if facts.rejections else ():
        rows["row", far.row] = far.values
    for point in facts.points:
        rows["row", point.row] = point.values
        found = point.counterfactual
        if found is not None and found.boundary is not None:
            rows["reached", point.row] = found.boundary
        if found is not None and found.path is not None:
            rows |= {("path", point.row, i): step for i, step in enumerate(found.path)}
    place = {int(row): i for i, row in enumerate(facts.sample.rows)}
    for row, some in directions.items():
        for way in some:
            rows |= {("row", n): facts.sample.values[place[n]] for n in (*way.most, *way.least)}
            for i, step in enumerate(() if way.strip is None else way.strip):
                rows["strip", row, way.index, i] = step
    return make_sheet(rows, facts.data.shape)


def _heat_maps(facts: Explanation) -> dict[tuple[str, int], str]:
    if facts.data.shape is None:
        return {}
    maps = {("cluster", c.index): heat_map(c.effects, facts.data.shape) for c in facts.clusters}
    for point in facts.points:
        amounts = np.zeros(facts.data.n_features)
        amounts[[one.index for one in point.contributions]] = [
            one.amount for one in point.contributions
        ]
        maps["point", point.row] = heat_map(amounts, facts.data.shape)
    return maps


def _map_data(facts: Explanation, colors: list[str]) -> dict[str, object] | None:
    """What the script of the map needs, with places as whole numbers from 0 to 10,000."""
    sample = facts.sample
    if sample.map is None or sample.map_centers is None:
        return None
    everything = np.vstack([sample.map, sample.map_centers])
    low, extent = everything.min(axis=0), np.ptp(everything, axis=0)
    span = np.maximum(extent, 0.5 * extent.max() or 1.0)  # a flat cloud is stretched, not blown up
    shift = (span - extent) / 2
    places = np.round(10_000 * (everything - low + shift) / span).astype(int)
    names = sorted({name for name in sample.known or () if name is not None})
    number: dict[str | None, int] = {name: i for i, name in enumerate(names)}
    columns = _hover_columns(facts)
    titles = [facts.row_title(int(row)) for row in sample.rows]
    return {
        "colors": colors,
        "labelColors": cluster_colors(len(names)),
        "levelColors": cluster_colors(MAX_LEVELS),
        "labels": names,
        "summaries": [cluster.summary for cluster in facts.clusters],
        "places": places[: len(sample.rows)].tolist(),
        "centers": places[len(sample.rows) :].tolist(),
        "rows": sample.rows.tolist(),
        "titles": titles,
        "names": [facts.cluster_title(cluster.index) for cluster in facts.clusters],
        "cluster": sample.labels.tolist(),
        "runnerUp": sample.runner_up.tolist(),
        "clear": np.round(100 * sample.clearness).astype(int).tolist(),
        "known": [number.get(name) for name in sample.known] if sample.known else None,
        "columns": list(columns) or None,
        "values": list(map(list, zip(*columns.values(), strict=True))) or None,
    }


def _hover_columns(facts: Explanation) -> dict[str, list[float | str | None]]:
    """The sampled rows of a table column by column, as it has them; None where a cell is missing.

    Columns that were not clustered follow those that were.
    """
    sample, columns = facts.sample, facts.terms.columns
    if facts.data.shape is not None or len(columns) > MAX_HOVER_COLUMNS:
        return {}
    shown: dict[str, list[float | str | None]] = {}
    for column in columns:
        cells: list[float | str | None] = [_rounded(column.cell(row)) for row in sample.values]
        if sample.filled is not None:
            gaps = sample.filled[:, column.features[0]]
            cells = [None if gap else cell for cell, gap in zip(cells, gaps, strict=True)]
        shown[column.name] = cells
    for name, values in sample.beside.items():
        shown.setdefault(name, [None if cell is None else _rounded(cell) for cell in values])
    return shown


def _rounded(cell: Cell) -> Cell:
    """A number with the digits that are worth showing: four, or all before the point."""
    if isinstance(cell, str):
        return cell
    return float(round(cell)) if abs(cell) >= 1000 else float(f"{cell:.4g}")
