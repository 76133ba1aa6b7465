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
# Colours of the figure; the ink stands for that of the page.
OWN, OTHERS, INK = "#d1495b", "#3f90da", "#010203"

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #16181d; --muted: #595f6b;
  --line: #dcdde0 }
@media (prefers-color-scheme: dark) {
  :root { --ground: #131519; --ink: #eceef1; --muted: #a6acb8; --line: #343842 }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--ground); color: var(--ink); overflow-wrap: anywhere }
h1 { font-size: clamp(1.3rem, 5vw, 2rem); line-height: 1.2 }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap }
th:nth-child(2), td:nth-child(2), td.note { text-align: left }
td.note { color: var(--muted); white-space: normal; min-width: 12rem }
figure { margin: 1rem 0; overflow-x: auto } figcaption { color: var(--muted) }
svg { width: 100%; min-width: 30rem; height: auto; color: var(--ink) }
.key { display: inline-flex; align-items: center; gap: .4rem; margin-right: 1.2rem }
.dot { width: .8em; height: .8em; border-radius: 50%; display: inline-block }
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
    # One run has no spread: "±0.0" would claim that it never varies.
    return text + (f"±{scale * spread:.{digits}f}" if deviation and row.n_runs > 1 else "")


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
        color = OWN if row.method in ("tell", "deep-tell") else OTHERS
        spread = deviation if row.n_runs > 1 else None
        axes.errorbar(seconds, mean, yerr=spread, fmt="o", color=color)
        axes.annotate(
            row.method, (seconds, mean), xytext=(6, 4), textcoords="offset points", color=INK
        )
    axes.set_xscale("log")
    axes.set_xlabel("seconds per run")
    axes.set_ylabel(TITLES[measure])
    axes.grid(alpha=0.3)
    axes.tick_params(colors=INK, which="both")
    for spine in axes.spines.values():
        spine.set_edgecolor(INK)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(INK)
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg", metadata={"Date": None}, transparent=True)
    text = drawing.getvalue()
    # The page's own ink, light or dark.
    return text[text.index("<svg") :].replace(INK, "currentColor")


def _legend(rows: Sequence[Row]) -> str:
    """What the colours and the bars of the figure mean."""
    keys = [("tell, by this package", OWN), ("other methods", OTHERS)]
    dots = "".join(
        f'<span class="key"><span class="dot" style="background:{color}"></span>{text}</span>'
        for text, color in keys
    )
    several = any(row.n_runs > 1 for row in rows)
    bars = " Bars are one standard deviation over the seeds." if several else ""
    return f"{dots} Up and to the left is better.{bars}"


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
<figure>{quality_against_time(rows)}<figcaption>{_legend(rows)}</figcaption></figure>
<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></div>
<ul>{listed}</ul>
</html>
""",
        encoding="utf-8",
    )
