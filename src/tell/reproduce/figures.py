"""Figures 5 to 8 and the theory's, drawn by the project's plots from recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.core.precision import PRECISIONS
from tell.explanations.mapping import project
from tell.explanations.palette import cluster_colors
from tell.explanations.plots import plot_centers, plot_history, plot_loss_bound, plot_map
from tell.reproduce.recording import (
    Snapshot,
    nearest_center,
    read_snapshots,
    write_snapshots,
)
from tell.reproduce.results import Result, finished, read_result, run_file
from tell.reproduce.spec import Row, Run, Scale, Spec
from tell.reproduce.verdicts import read_verdicts
from tell.reproduce.workspace import feature_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 150  # per inch


def draw(spec: Spec, scale: Scale, folder: Path) -> list[Path]:
    """Draw the figures of a target; none while the run behind them is missing."""
    drawing = {"centers": _centers, "map": _map, "curves": _curves, "theory": _theory}[spec.kind]
    figure = drawing(spec, scale, folder)
    if figure is None:
        return []
    figures = {spec.name: figure}
    if spec.kind == "theory":
        figures["toy"] = _figure(plot_loss_bound(limit=spec.drawing["limit"]))
    return [_save(figure, figure_file(name, scale, folder)) for name, figure in figures.items()]


def figure_file(name: str, scale: Scale, folder: Path) -> Path:
    """Where a figure lies."""
    return folder / scale.name / "figures" / f"{name}.png"


def snapshots_of(run: Run, folder: Path) -> dict[float, Snapshot]:
    """Snapshots of a run, or of the autoencoder whose features it clusters; empty without any."""
    if run.method.features not in ("fcn", "cnn"):
        return read_snapshots(run_file(folder, run, ".snapshots.npz"))
    learned = [feature_file(folder, run, precision) for precision in PRECISIONS]
    kept = [file.with_suffix(".snapshots.npz") for file in learned]
    there = [file for file in kept if file.exists()]
    newest = max(there, key=lambda file: file.stat().st_mtime, default=kept[0])
    return read_snapshots(newest)


def at_shares(found: dict[float, Snapshot], shares: Sequence[float]) -> dict[float, Snapshot]:
    """The snapshots nearest to these shares of the training.

    >>> list(at_shares({0: {}, 3: {}, 6: {}}, [0.0, 0.1, 0.4, 1.0]))
    [0, 3, 6]
    """
    last = max(found)
    nearest = (min(found, key=lambda epoch: abs(epoch - share * last)) for share in shares)
    return {epoch: found[epoch] for epoch in nearest}


def _drawn(spec: Spec, row: Row, run: Run, folder: Path) -> dict[float, Snapshot]:
    """The snapshots that a figure shows; they are kept beside it, so that it can be drawn again."""
    if read_result(folder, run) is None:
        return {}
    figure = figure_file(spec.name, run.scale, folder)
    kept = figure.with_name(f"{spec.name}-{row.key}.npz")
    if found := snapshots_of(run, folder):
        write_snapshots(kept, at_shares(found, spec.drawing["shares"]))
    return read_snapshots(kept)


def _centers(spec: Spec, scale: Scale, folder: Path) -> Figure | None:
    """Figure 5: the decoder's view of the centres, TELL above AE + k-means."""
    rows: dict[str, Any] = {}
    for row, _, runs in spec.cells(scale):
        found = _drawn(spec, row, runs[0], folder)
        if not found:
            return None
        for epoch, shot in found.items():
            order = np.argsort(_classes(shot), kind="stable")  # easier to compare
            rows[f"{row.label}, epoch {epoch:g}"] = shot["decoded"][order]
            shape = shot["decoded"].shape[1:]
    flat = {name: pictures.reshape(len(pictures), -1) for name, pictures in rows.items()}
    return _figure(plot_centers(flat, shape[-2:] if shape[0] == 1 else shape))


def _classes(shot: Snapshot) -> list[float]:
    """The class that most rows of each centre have; infinite for a centre without rows."""
    nearest = nearest_center(shot)
    members = [shot["y"][nearest == j] for j in range(len(shot["centers"]))]
    return [float(np.bincount(ys).argmax()) if len(ys) else np.inf for ys in members]


def _map(spec: Spec, scale: Scale, folder: Path) -> Figure | None:
    """Figure 6: t-SNE of the embedding at several epochs; stars bear their rows' main class."""
    from matplotlib.figure import Figure

    row = spec.rows[0]
    shots = _drawn(spec, row, spec.cell(row, spec.columns[0], scale)[0], folder)
    if not shots:
        return None
    columns = 2 if len(shots) == 4 else min(3, len(shots))
    lines = -(-len(shots) // columns)
    figure = Figure(figsize=(4.2 * columns, 4.2 * lines + 0.4), layout="constrained")
    for place, (epoch, shot) in enumerate(shots.items(), start=1):
        flat, stars = project(shot["z"], shot["centers"])
        names = ["–" if np.isinf(c) else f"{c:.0f}" for c in _classes(shot)]
        ax = figure.add_subplot(lines, columns, place)
        plot_map(flat, list(shot["y"]), stars, names=names, title=f"epoch {epoch:g}", ax=ax)
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles, labels, title="class", loc="outside lower center", ncols=10, markerscale=3,
        frameon=False, handletextpad=0.1,
    )  # fmt: skip
    return figure


def _curves(spec: Spec, scale: Scale, folder: Path) -> Figure | None:
    """Figures 7 and 8: metrics and losses over the training, one panel per row of the spec."""
    from matplotlib.figure import Figure

    cells = ((row, finished(folder, runs)) for row, _, runs in spec.cells(scale))
    panels = [(row, results) for row, results in cells if results and _trainings(results)]
    if not panels:
        return None
    figure = Figure(figsize=(7.2 * len(panels), 4.2), layout="constrained")
    for place, (row, results) in enumerate(panels, start=1):
        ax = figure.add_subplot(1, len(panels), place)
        _training(ax, results)
        if len(spec.rows) > 1:
            seeds = f", median and range of {len(results)} seeds" if len(results) > 1 else ""
            ax.set_title(f"{row.label}{seeds}", pad=26)
    return figure


def _training(ax: Any, results: Sequence[Result]) -> None:
    """Draw one method's training: the median over its runs, and their range as a band."""
    runs = _trainings(results)
    epochs = sorted(set.intersection(*({line["epoch"] for line in lines} for lines in runs)))
    known = [{line["epoch"]: line for line in lines} for lines in runs]

    def curves(name: str) -> NDArray[Any]:
        return np.array([[lines[epoch][name] for epoch in epochs] for lines in known])

    terms = [
        name
        for name in ("reconstruction", "clustering")
        if all(name in lines[epoch] for lines in known for epoch in epochs)
    ]
    found = {name.upper(): curves(name) for name in ("acc", "nmi", "ari")}
    found |= {name: curves(name) for name in terms}
    medians = {name: list(np.median(values, axis=0)) for name, values in found.items()}
    ranges = {name: (list(v.min(axis=0)), list(v.max(axis=0))) for name, v in found.items()}
    history = results[0].history
    first = {line["stage"]: n for n, line in reversed(list(enumerate(history)))}
    stages = dict(sorted(first.items(), key=lambda item: item[1])) if len(first) > 1 else None
    plot_history(
        {name: medians[name] for name in terms},
        {name: values for name, values in medians.items() if name not in terms},
        epochs=epochs,
        stages=stages,
        ranges=ranges if len(runs) > 1 else None,
        ax=ax,
    )


def _trainings(results: Sequence[Result]) -> list[list[dict[str, Any]]]:
    """The lines of every run that a figure shows: of whole epochs, or those within them if more."""
    whole = [
        [{**line, "epoch": n} for n, line in enumerate(result.history, start=1) if "acc" in line]
        for result in results
    ]
    within = [
        [found for line in result.history for found in line.get("evaluations", [])]
        for result in results
    ]
    lines = max(whole, within, key=lambda runs: min(map(len, runs)))
    return lines if all(lines) else []


def _theory(spec: Spec, scale: Scale, folder: Path) -> Figure | None:
    """The recorded runs of the layer alone under their bounds."""
    from matplotlib.figure import Figure

    runs = [run for run in read_verdicts(folder, spec, scale) if run["temperature"] == 0]
    if not runs:
        return None
    rules = list(dict.fromkeys(run["rule"] for run in runs))
    figure = Figure(figsize=(4.4 * len(rules), 4.4), layout="constrained")
    for place, rule in enumerate(rules, start=1):
        ax = figure.add_subplot(1, len(rules), place)
        _descents(ax, [run for run in runs if run["rule"] == rule])
        ax.set_title(f"step: {rule}")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _descents(ax: Any, runs: Sequence[dict[str, Any]]) -> None:
    for run, color in zip(runs, cluster_colors(len(runs)), strict=True):
        curve = run["curve"]
        steps, gap = curve["step"], np.maximum(curve["gap"], 1e-6)
        start = f"from {'random directions' if run['start'] == 'kaiming' else 'random rows'}"
        ax.plot(steps, gap, color=color, lw=2, label=f"gap, {start}")
        ax.plot(steps, curve["sharp_bound"], "--", color=color, lw=1, label="bound, gradients met")
        ax.plot(steps, curve["bound"], ":", color=color, lw=1.5, label="bound, ε of the proof")
        if run["limit"] > 0:
            label = "limit of that bound (lemmas)"
            ax.axhline(run["limit"], ls=(0, (1, 4)), color=color, lw=1, label=label)
    ax.set(xscale="log", yscale="log", xlabel="step")
    ax.set_ylabel("best loss so far − best loss")
    ax.spines[["top", "right"]].set_visible(False)


def _figure(ax: Any) -> Figure:
    return ax.get_figure(root=True)


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DOTS)
    return path
