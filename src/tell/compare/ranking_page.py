"""The comparison as one HTML file: quality against time, and the ranked table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tell.compare.ranking import Row, quality_measure
from tell.exceptions import MissingDependencyError

# Short enough that the ranked table fits 80 columns.
TITLES = {
    "acc": "ACC",
    "nmi": "NMI",
    "ari": "ARI",
    "silhouette": "silh.",
    "calinski_harabasz": "CH",
}
SHARES = ("acc", "nmi", "ari")

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
th:nth-child(2), td:nth-child(2), td.note { text-align: left }
td.note { color: #666 } svg { width: 100%; height: auto }
@media (prefers-color-scheme: dark) { body { background: #fff; color: #111 } }
"""


def measure_names(rows: Sequence[Row]) -> list[str]:
    """The measures worth a column, in their order.

    >>> measure_names([Row(1, "kmeans", "done", "", 1, {"silhouette": (0.2, 0.0)})])
    ['silhouette']
    """
    return [name for name in TITLES if any(name in row.measures for row in rows)]


def headings(rows: Sequence[Row]) -> list[str]:
    """The columns of the table.

    >>> headings([])
    ['#', 'method', 'stab.', 'seconds', 'MB']
    """
    return ["#", "method", *map(TITLES.__getitem__, measure_names(rows)), "stab.", "seconds", "MB"]


def table_lines(rows: Sequence[Row]) -> list[list[str]]:
    """The ranked table as text under `headings`; a method without results says what ended it.

    >>> good = Row(1, "sc", "done", "", 2, {"acc": (0.5, 0.01), "seconds": (2.0, 0.1)}, 0.9)
    >>> for line in table_lines([good, Row(None, "zac", "time", "ended after 9 s", 0)]):
    ...     print(line)
    ['1', 'sc', '50.0±1.0', '0.90', '2.00', '–']
    ['–', 'zac', 'time', '–', '–', '–']
    """
    names = measure_names(rows)
    leading = quality_measure(rows)
    lines = []
    for row in rows:
        measures = [_text(row, name, deviation=name == leading) for name in names]
        if not row.measures and measures:
            measures[0] = row.status
        stability = "–" if row.stability is None else f"{row.stability:.2f}"
        place = "–" if row.rank is None else str(row.rank)
        cost = [_text(row, "seconds", digits=2), _text(row, "peak_mb", digits=0)]
        lines.append([place, row.method, *measures, stability, *cost])
    return lines


def _text(row: Row, name: str, *, digits: int = 1, deviation: bool = False) -> str:
    if name not in row.measures:
        return "–"
    scale = 100 if name in SHARES else 1
    digits = 3 if name == "silhouette" else 0 if name == "calinski_harabasz" else digits
    mean, spread = row.measures[name]
    text = f"{scale * mean:.{digits}f}"
    return text + (f"±{scale * spread:.{digits}f}" if deviation else "")


def note_of(row: Row) -> str:
    """What a reader must know of a row: why it ended early, or what its labels are.

    >>> note_of(Row(None, "zac", "time", "ended after 9 s", 0))
    'ended after 9 s'
    """
    return row.note if row.status == "done" else row.reason


def quality_against_time(rows: Sequence[Row]) -> str:
    """An SVG drawing of every finished method: seconds (logarithmic) against quality."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            'the figure needs matplotlib; pip install "tell-clustering[report]"'
        ) from error
    measure = quality_measure(rows)
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    for row in rows:
        if measure not in row.measures:
            continue
        (mean, deviation), (seconds, _) = row.measures[measure], row.measures["seconds"]
        own = row.method in ("tell", "deep-tell")
        axes.errorbar(seconds, mean, yerr=deviation, fmt="o", color="C3" if own else "C0")
        axes.annotate(row.method, (seconds, mean), xytext=(6, 4), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_xlabel("seconds per run")
    axes.set_ylabel(TITLES[measure])
    axes.grid(alpha=0.3)
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg", metadata={"Date": None})
    text = drawing.getvalue()
    return text[text.index("<svg") :]


def write_page(rows: Sequence[Row], path: Path, *, title: str, facts: Sequence[str]) -> None:
    """Write the page; `facts` are lines on how the numbers came about."""
    head = "".join(f"<th>{escape(text)}</th>" for text in [*headings(rows), ""])
    body = "\n".join(
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in line)
        + f'<td class="note">{escape(note_of(row))}</td></tr>'
        for row, line in zip(rows, table_lines(rows), strict=True)
    )
    listed = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    path.write_text(
        f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{STYLE}</style>
<h1>{escape(title)}</h1>
<figure>{quality_against_time(rows)}<figcaption>Up and to the left is better.</figcaption></figure>
<table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table>
<ul>{listed}</ul>
</html>
""",
        encoding="utf-8",
    )
