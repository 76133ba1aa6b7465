"""Explanations as frames, and as what a terminal or a notebook shows of them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from tell.exceptions import MissingDependencyError, ParameterError
from tell.explanations.profiles import NumberProfile
from tell.explanations.terms import DATE, day
from tell.explanations.words import counted, percent

if TYPE_CHECKING:
    from tell.explanations.facts import Explanation

TABLES = ("clusters", "points", "profiles", "members", "rejected")
#: Clusters that a terminal shows.
MOST_SHOWN = 12


def to_frame(facts: Explanation, table: str) -> Any:
    """One of the tables as a pandas frame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingDependencyError(
            "a frame needs pandas, which is not installed; pip install pandas, or use to_dict()"
        ) from error
    if table not in TABLES:
        raise ParameterError(f"table needs one of {TABLES}, got {table!r}; choose one of them")
    records = {
        "clusters": _clusters,
        "points": _points,
        "profiles": _profiles,
        "members": _members,
        "rejected": _rejected,
    }[table](facts)
    return pd.DataFrame.from_records(records)


def _clusters(facts: Explanation) -> list[dict[str, object]]:
    """One line per cluster, largest first."""
    return [
        {
            "cluster": one.index,
            "name": one.name,
            "size": one.size,
            "share": one.share,
            "cohesion": one.cohesion,
            "nearest": one.nearest,
            "confused_with": one.confused_with,
            "main_label": one.main_label,
            "summary": one.summary,
        }
        for one in facts.by_size()
    ]


def _points(facts: Explanation) -> list[dict[str, object]]:
    """One line per row and column: what it adds to the margin."""
    return [
        {
            "row": point.row,
            "name": point.name,
            "cluster": point.cluster,
            "runner_up": point.runner_up,
            "feature": one.name,
            "value": one.value,
            "filled": one.filled,
            "amount": one.amount,
        }
        for point in facts.points
        for one in point.contributions
    ]


def _members(facts: Explanation) -> list[dict[str, object]]:
    """One line per cluster and column: what its members look like."""
    return [
        {
            "cluster": one.index,
            "feature": name,
            "mean": float(one.mean[f]),
            "median": float(one.median[f]),
            "deviation": float(one.deviation[f]),
            "effect": float(one.effects[f]),
            "missing": one.missing.get(facts.terms.of[f].name, 0.0),
        }
        for one in facts.by_size()
        for f, name in enumerate(facts.data.feature_names)
    ]


def _rejected(facts: Explanation) -> list[dict[str, object]]:
    """One line per rejected row, farthest out first."""
    return [
        {
            "row": one.row,
            "name": one.name,
            "cluster": one.cluster,
            "score": one.score,
            "distance": one.distance,
            "limit": one.limit,
            "unusual": ", ".join(column.name for column in one.unusual()),
            "reason": one.reason,
        }
        for one in (facts.rejections.rows if facts.rejections else ())
    ]


def _profiles(facts: Explanation) -> list[dict[str, object]]:
    """One line per cluster, column that was not clustered, and category or statistic."""
    lines: list[dict[str, object]] = []
    for profile in facts.profiles:
        for one in facts.by_size():
            there: dict[str, object] = {"cluster": one.index, "column": profile.name}
            if isinstance(profile, NumberProfile):
                for what in ("mean", "median", "low", "high", "missing"):
                    dated = profile.kind == DATE and what != "missing"
                    values = [day(v) if dated and v == v else v for v in getattr(profile, what)]
                    lines.append(
                        there | {"what": what, "here": values[one.index], "all": values[-1]}
                    )
                continue
            for place, level in enumerate(profile.levels):
                here, everywhere = profile.shares[one.index, place], profile.shares[-1, place]
                lines.append(there | {"what": level, "here": here, "all": everywhere})
            missing = profile.missing
            lines.append(
                there | {"what": "missing", "here": missing[one.index], "all": missing[-1]}
            )
    return lines


def as_text(facts: Explanation) -> str:
    """The verdict and one line per cluster: no more than a screen."""
    lines = [
        f"{facts.model.kind}: {counted(facts.model.n_clusters, 'cluster')} in "
        f"{counted(facts.data.n_rows, 'row')} of {facts.data.name}"
    ]
    lines += [] if facts.structure is None else [facts.structure.summary]
    lines += [f"Note: {remark}" for remark in facts.remarks[:3]]
    lines += [] if facts.rejections is None else [facts.rejections.summary(facts.data.n_rows)]
    for one in facts.by_size()[:MOST_SHOWN]:
        lines.append(f"  {facts.cluster_title(one.index)}: {one.summary}")
    if len(facts.clusters) > MOST_SHOWN:
        lines.append(f"  … and {len(facts.clusters) - MOST_SHOWN} smaller ones")
    lines.append("report(facts, 'report.html') draws it; facts.to_frame() has the numbers")
    return "\n".join(line if len(line) <= 160 else f"{line[:159]}…" for line in lines)


def as_html(facts: Explanation) -> str:
    """The same as a small table for notebooks; all text from data is escaped."""
    verdict = "" if facts.structure is None else f"<p><b>{escape(facts.structure.summary)}</b></p>"
    notes = "".join(f"<p>Note: {escape(remark)}</p>" for remark in facts.remarks)
    body = "".join(
        f"<tr><td>{escape(facts.cluster_title(one.index))}</td><td>{one.size:,}</td>"
        f"<td>{percent(one.share)}</td><td style='text-align:left'>{escape(one.summary)}</td></tr>"
        for one in facts.by_size()
    )
    head = "<tr><th>cluster</th><th>rows</th><th>share</th><th>summary</th></tr>"
    return f"{verdict}{notes}<table><thead>{head}</thead><tbody>{body}</tbody></table>"
