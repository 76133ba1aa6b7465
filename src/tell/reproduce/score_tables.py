"""Results as tables beside the paper's numbers, in Markdown and LaTeX; nothing is typed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from scipy.stats import mannwhitneyu, spearmanr

from tell.reproduce.results import Result, chosen, finished, read_result, reported
from tell.reproduce.spec import Row, Run, Scale, Spec

LABELS = {
    "acc": "ACC",
    "nmi": "NMI",
    "ari": "ARI",
    "ami": "AMI",
    "homogeneity": "Homo.",
    "completeness": "Comp.",
    "v_measure": "V-Mea.",
    "table_loss": "L_clu",
}
LIKELY = 0.05
MANY_COLUMNS = 5
EMPTY = "the chosen run left a cluster empty in its last epoch"
SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "max": max,
    "mean": fmean,
    "median": median,
}


@dataclass(frozen=True)
class Entry:
    """One number of ours beside the paper's; None where there is none."""

    ours: float | None
    paper: float | None
    digits: int = 2

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper


@dataclass(frozen=True)
class Table:
    """A grid of entries with its headings, what it comes to, and what else must be said."""

    spec: Spec
    scale: Scale
    headings: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Entry, ...]], ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...]


def build_table(spec: Spec, scale: Scale, folder: Path) -> Table:
    """Collect the results of a table that are there."""
    if spec.kind == "runs":
        return _runs_table(spec, scale, folder)
    single = len(spec.metrics) == 1
    headings = [
        column.label
        if single
        else (f"{column.label} {LABELS[m]}" if len(spec.columns) > 1 else LABELS[m])
        for column in spec.columns
        for m in spec.metrics
    ]
    lines = [(row.label, tuple(_entries(spec, row, scale, folder))) for row in spec.rows]
    findings = [
        *_match_note(lines),
        *_standing_note(spec, lines),
        *_claim_notes(spec, scale, folder),
    ]
    notes = [
        *([spec.remark] if spec.remark else []),
        *_churn_note(spec, scale, folder),
        *_count_note(spec, scale, folder),
        *_spread_note(spec, scale, folder),
        *_seed_note(spec, scale, folder),
        *_cell_notes(spec, scale, folder),
    ]
    headings += [name.capitalize() for name in spec.summaries]
    return Table(spec, scale, tuple(headings), tuple(lines), tuple(findings), tuple(notes))


def _entries(spec: Spec, row: Row, scale: Scale, folder: Path) -> list[Entry]:
    entries: list[Entry] = []
    for column in spec.columns:
        printed = spec.paper.get(row.key, {}).get(column.key)
        results = finished(folder, spec.cell(row, column, scale))
        for place, metric in enumerate(spec.metrics):
            ours = reported(results, metric) if results else None
            entries.append(Entry(ours, None if printed is None else printed[place]))
    values = [entry.ours for entry in entries if entry.ours is not None]
    whole = len(values) == len(spec.columns)
    for name in spec.summaries:
        printed = spec.paper.get(row.key, {}).get(name)
        entries.append(
            Entry(SUMMARIES[name](values) if whole else None, printed[0] if printed else None)
        )
    return entries


def _runs_table(spec: Spec, scale: Scale, folder: Path) -> Table:
    """Tables S1 and S2: the runs of one method one by one, and the choice among them."""
    runs = spec.cell(spec.rows[0], spec.columns[0], scale)
    found = {run.seed: result for run in runs if (result := _done(folder, run))}
    results = list(found.values())
    best = chosen(results)
    lines = []
    for seed in (run.seed for run in runs):
        result = found.get(seed)
        printed = spec.paper.get(f"run{seed + 1}", {}).get(spec.columns[0].key)
        entries = tuple(
            Entry(
                None if result is None else result.value(metric),
                None if printed is None else printed[place],
                9 if metric == "table_loss" else 2,
            )
            for place, metric in enumerate(spec.metrics)
        )
        mark = " (chosen)" if result is not None and result is best else ""
        lines.append((f"{seed + 1}{mark}", entries))
    headings = tuple(LABELS[metric] for metric in spec.metrics)
    notes = ["Runs differ in their seeds alone; the paper's run of the same number is unrelated."]
    notes += [spec.remark] if spec.remark else []
    findings = [*_choice_note(best, results), *_correlation(results)] if best else []
    return Table(spec, scale, headings, tuple(lines), tuple(findings), tuple(notes))


def _choice_note(chosen: Result, results: list[Result]) -> list[str]:
    if len(results) < 2:  # nothing to choose among
        return []
    values = [result.value("acc") for result in results]
    return [
        f"The run chosen by L_clu has ACC {chosen.value('acc'):.2f}; all {len(results)} runs lie "
        f"between {min(values):.2f} and {max(values):.2f}."
    ]


def _correlation(results: list[Result]) -> list[str]:
    if len(results) < 3:
        return []
    losses = [result.loss or 0.0 for result in results]
    found = spearmanr(losses, [result.value("acc") for result in results])
    backed = "back" if found.statistic < 0 and found.pvalue < LIKELY else "do not back"
    return [
        f"Rank correlation between L_clu and ACC over our {len(results)} runs: "
        f"{found.statistic:+.2f} (p = {found.pvalue:.2f}). They {backed} the choice by the "
        "smallest L_clu."
    ]


def _match_note(lines: Sequence[tuple[str, tuple[Entry, ...]]]) -> list[str]:
    """Count the cells of the paper's own method in which we reach it."""
    gaps = [e.difference for label, entries in lines if label == "TELL" for e in entries]
    known = [gap for gap in gaps if gap is not None]
    reached = sum(gap >= 0 for gap in known)
    return [f"TELL is at or above the paper in {reached} of {len(known)} numbers."] if known else []


def _standing_note(spec: Spec, lines: Sequence[tuple[str, tuple[Entry, ...]]]) -> list[str]:
    """Say where the paper's method stands among the others, in both, and how those have fared."""
    table = dict(lines)
    own = table.pop("TELL", ())
    if spec.claims or not own or any(entry.ours is None for entry in own):
        return []
    cells = [number * len(spec.metrics) for number in range(len(spec.columns))]
    ours, paper = (
        sum(all(value(own[c]) > value(row[c]) for row in table.values()) for c in cells)
        for value in (_ours, _paper)
    )
    gaps = [row[c].difference for row in table.values() for c in cells]
    known = [gap for gap in gaps if gap is not None]
    higher = sum(gap > 0 for gap in known)
    metric = LABELS[spec.metrics[0]]
    text = (
        f"TELL has the largest {metric} in {ours} of {len(cells)} columns, in the paper in "
        f"{paper}. Of the other methods' {len(known)} {metric}s {higher} are above the paper's."
    )
    return [text]


def _ours(entry: Entry) -> float:
    return -math.inf if entry.ours is None else entry.ours


def _paper(entry: Entry) -> float:
    return -math.inf if entry.paper is None else entry.paper


def _seed_note(spec: Spec, scale: Scale, folder: Path) -> list[str]:
    """Say which seeds were chosen where there are many cells: it should not be always the same."""
    notes = []
    for row in spec.rows if len(spec.columns) >= MANY_COLUMNS else ():
        best = []
        for column in spec.columns:
            runs = spec.cell(row, column, scale)
            found = {run.seed: result for run in runs if (result := _done(folder, run))}
            least = chosen(list(found.values())) if len(found) > 1 else None
            best += [seed for seed, result in found.items() if result is least]
        if best:
            counts = ", ".join(f"seed {seed} in {best.count(seed)}" for seed in sorted(set(best)))
            notes.append(f"{row.label}'s smallest loss of {len(best)} columns: {counts}.")
    return notes


def _count_note(spec: Spec, scale: Scale, folder: Path) -> list[str]:
    """Say how many runs are behind the cells, and where some of them are missing."""
    counts: dict[str, list[str]] = {}
    for row in spec.rows:
        cells = [spec.cell(row, column, scale) for column in spec.columns]
        done = [len(finished(folder, cell)) for cell in cells]
        wanted = [len(cell) for cell in cells]
        if max(done):
            text = _span(done) if done == wanted else f"{_span(done)} of {_span(wanted)}"
            counts.setdefault(text, []).append(row.label)
    parts = (f"{text} ({', '.join(labels)})" for text, labels in sorted(counts.items()))
    return [f"Runs per cell: {'; '.join(parts)}."] if counts else []


def _spread_note(spec: Spec, scale: Scale, folder: Path) -> list[str]:
    """Say what a loss has chosen among: its choice is not always the best, nor the usual."""
    parts = []
    for row, column, cell in spec.cells(scale) if len(spec.columns) < MANY_COLUMNS else ():
        results = finished(folder, cell)
        if len(results) > 1 and chosen(results) is not None:
            values = [result.value("acc") for result in results]
            where = f"{row.label} ({column.label})" if len(spec.columns) > 1 else row.label
            parts.append(f"{where} {min(values):.2f} to {max(values):.2f}")
    return [f"ACC of all runs where the loss chose one: {', '.join(parts)}."] if parts else []


def _span(counts: list[int]) -> str:
    least, most = min(counts), max(counts)
    return str(most) if least == most else f"{least} to {most}"


def _cell_notes(spec: Spec, scale: Scale, folder: Path) -> list[str]:
    """What happened in cells without numbers, and what those with numbers keep quiet about."""
    notes: dict[str, list[str]] = {}
    for row, column, cell in spec.cells(scale):
        where = f"{row.label} ({column.label})" if len(spec.columns) > 1 else row.label
        results = [read_result(folder, run) for run in cell]
        for result in results:
            if result is not None and (text := result.note or result.reason):
                notes.setdefault(text, []).append(where)
        best = chosen(finished(folder, cell))
        if best is not None and best.history and best.history[-1].get("smallest") == 0:
            notes.setdefault(EMPTY, []).append(where)
    return [f"{', '.join(dict.fromkeys(where))}: {text}." for text, where in notes.items()]


def _claim_notes(spec: Spec, scale: Scale, folder: Path) -> list[str]:
    """Hold the paper's conclusions against the medians over our seeds."""
    rows = {row.key: row for row in spec.rows}
    notes = []
    for name, (larger, relation, smaller) in spec.claims.items():
        for column in spec.columns:
            pair = [
                [r.value(spec.metrics[0]) for r in finished(folder, spec.cell(row, column, scale))]
                for row in (rows[larger], rows[smaller])
            ]
            if all(pair):
                high, low = (median(values) for values in pair)
                p = mannwhitneyu(*pair, alternative="greater").pvalue
                verdict = _verdict(high, low, relation, p)
                digits = 4 if high != low and f"{high:.2f}" == f"{low:.2f}" else 2
                notes.append(
                    f"Claim “{name.replace('-', ' ')}” ({column.label}): {verdict}; median ACC "
                    f"{high:.{digits}f} against {low:.{digits}f} over {len(pair[0])} and "
                    f"{len(pair[1])} runs (Mann-Whitney p = {p:.3f})."
                )
    return notes


def _verdict(high: float, low: float, relation: str, p: float) -> str:
    """To be no worse the medians are enough; to be better the runs must tell it from chance.

    >>> _verdict(0.9, 0.8, ">", 0.3)
    'is not decided'
    """
    if high < low or (high == low and relation == ">"):
        return "does not hold"
    # As printed: three runs each that do not overlap have p = 0.050.
    return "holds" if relation == ">=" or round(p, 3) <= LIKELY else "is not decided"


def _churn_note(spec: Spec, scale: Scale, folder: Path) -> list[str]:
    """How many labels change in the last epoch that moves the centres, in medians over runs."""
    parts = []
    for row, _, cell in spec.cells(scale) if spec.churn else ():
        moving = [
            [record["changed"] for record in result.history if record.get("movement")]
            for result in finished(folder, cell)
        ]
        if last := [changed[-1] for changed in moving if changed]:
            parts.append(f"{row.label} {100 * median(last):.0f} %")
    text = "Labels that change in the last epoch in which the centres move (median over the runs)"
    return [f"{text}: {', '.join(parts)}."] if parts else []


def _done(folder: Path, run: Run) -> Result | None:
    result = read_result(folder, run)
    return result if result is not None and result.status == "done" else None


def to_markdown(table: Table) -> str:
    """Write a table for the documentation: ours, then the paper's and the difference below."""
    head = " | ".join(["Method", *table.headings])
    rule = " | ".join(["---", *["---:"] * len(table.headings)])
    lines = [f"| {head} |", f"| {rule} |"]
    for label, entries in table.lines:
        cells = " | ".join(_markdown_cell(entry) for entry in entries)
        lines.append(f"| {label} | {cells} |")
    notes = [f"- {note}" for note in (*table.findings, *table.notes)]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _markdown_cell(entry: Entry) -> str:
    paper = f"paper {_number(entry.paper, entry.digits)}" if entry.paper is not None else ""
    if entry.ours is None:
        return f"not run<br>{paper}" if paper else "not run"
    ours = f"**{_number(entry.ours, entry.digits)}**"
    if entry.difference is None:
        return ours
    return f"{ours}<br>{paper}, {entry.difference:+.{entry.digits}f}"


def to_latex(table: Table) -> str:
    """Write a table for a paper (booktabs): ours with the difference, the paper's in brackets."""
    columns = "l" + "r" * len(table.headings)
    lines = [
        "\\begin{tabular}{" + columns + "}",
        "\\toprule",
        " & ".join(["Method", *map(_escaped, table.headings)]) + " \\\\",
        "\\midrule",
    ]
    for label, entries in table.lines:
        cells = (_latex_cell(entry) for entry in entries)
        lines.append(" & ".join([_escaped(label), *cells]) + " \\\\")
    comment = [f"% {note}" for note in (*table.findings, *table.notes)]
    return "\n".join([*comment, *lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _latex_cell(entry: Entry) -> str:
    ours = "---" if entry.ours is None else _number(entry.ours, entry.digits)
    if entry.difference is not None:
        ours += f"$_{{{entry.difference:+.{entry.digits}f}}}$"
    return ours if entry.paper is None else f"{ours} ({_number(entry.paper, entry.digits)})"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _escaped(text: str) -> str:
    return text.replace("_", "\\_").replace("†", "$^\\dagger$").replace("&", "\\&")
