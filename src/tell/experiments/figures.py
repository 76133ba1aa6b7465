"""Figures 5 to 8 and the theory's, drawn by the project's plots from recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tell.experiments.descent import Descent
from tell.experiments.inputs import feature_file
from tell.experiments.recording import Snapshot, read_snapshots
from tell.experiments.results import read_result, result_file
from tell.experiments.spec import Run, Scale, Spec
from tell.explain.mapping import project
from tell.explain.palette import cluster_colors
from tell.explain.plots import plot_centers, plot_history, plot_loss_bound, plot_map

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 150  # per inch


def draw(spec: Spec, scale: Scale, folder: Path) -> Path | None:
    """Draw a figure of the paper; None while the run behind it is missing."""
    figure = {"centers": _centers, "map": _map, "curves": _curves}[spec.kind](spec, scale, folder)
    if figure is None:
        return None
    return _save(figure, figure_file(spec.name, scale, folder))


def figure_file(name: str, scale: Scale, folder: Path) -> Path:
    """Where a figure lies."""
    return folder / scale.name / "figures" / f"{name}.png"


def snapshots_of(run: Run, folder: Path) -> dict[int, Snapshot]:
    """Snapshots of a run, or of the autoencoder whose features it clusters; empty without any."""
    if run.method.features in ("fcn", "cnn"):
        file = feature_file(folder, run).with_suffix(".snapshots.npz")
    else:
        file = result_file(folder, run).with_suffix(".snapshots.npz")
    return read_snapshots(file) if file.exists() else {}


def at_shares(found: dict[int, Snapshot], shares: Sequence[float]) -> dict[int, Snapshot]:
    """The snapshots nearest to these shares of the training.

    >>> list(at_shares({0: {}, 3: {}, 6: {}}, [0.0, 0.1, 0.4, 1.0]))
    [0, 3, 6]
    """
    last = max(found)
    nearest = (min(found, key=lambda epoch: abs(epoch - share * last)) for share in shares)
    return {epoch: found[epoch] for epoch in nearest}


def _centers(spec: Spec, scale: Scale, folder: Path) -> Figure | None:
    """Figure 5: the decoder's view of the centres, TELL above AE + k-means."""
    rows: dict[str, Any] = {}
    for row, _, runs in spec.cells(scale):
        found = snapshots_of(runs[0], folder)
        if not found:
            return None
        for epoch, shot in at_shares(found, spec.drawing["shares"]).items():
            rows[f"{row.label}, epoch {epoch}"] = _ordered(shot)
            shape = shot["decoded"].shape[1:]
    flat = {name: pictures.reshape(len(pictures), -1) for name, pictures in rows.items()}
    return _figure(plot_centers(flat, shape[-2:] if shape[0] == 1 else shape))


def _ordered(shot: Snapshot) -> Any:
    """Centres in the order of the class that most of their rows have: easier to compare."""
    nearest = np.argmax(shot["z"] @ shot["centers"].T, axis=1)
    members = [shot["y"][nearest == j] for j in range(len(shot["centers"]))]
    common = [float(np.bincount(ys).argmax()) if len(ys) else np.inf for ys in members]
    return shot["decoded"][np.argsort(common, kind="stable")]


def _map(spec: Spec, scale: Scale, folder: Path) -> Figure | None:
    """Figure 6: t-SNE of the embedding at several epochs, centres as stars."""
    from matplotlib.figure import Figure

    found = snapshots_of(spec.cell(spec.rows[0], spec.columns[0], scale)[0], folder)
    if not found:
        return None
    chosen = at_shares(found, spec.drawing["shares"])
    columns = 2 if len(chosen) == 4 else min(3, len(chosen))
    lines = -(-len(chosen) // columns)
    figure = Figure(figsize=(4.2 * columns, 4.2 * lines), layout="constrained")
    for place, (epoch, shot) in enumerate(chosen.items(), start=1):
        flat, stars = project(shot["z"], shot["centers"])
        ax = figure.add_subplot(lines, columns, place)
        plot_map(flat, list(shot["y"]), stars, title=f"epoch {epoch}", ax=ax)
    return figure


def _curves(spec: Spec, scale: Scale, folder: Path) -> Figure | None:
    """Figures 7 and 8: metrics and losses over the epochs."""
    result = read_result(folder, spec.cell(spec.rows[0], spec.columns[0], scale)[0])
    history = [] if result is None else result.history
    scored = {epoch: line for epoch, line in enumerate(history, start=1) if "acc" in line}
    if not scored:
        return None
    lines = list(scored.values())
    metrics = {name.upper(): [line[name] for line in lines] for name in ("acc", "nmi", "ari")}
    terms: tuple[str, ...] = ("reconstruction", "clustering")
    losses = {name: [line[name] for line in lines] for name in terms if name in lines[0]}
    return _figure(plot_history(losses, metrics, epochs=list(scored)))


def draw_theory(spec: Spec, scale: Scale, folder: Path, runs: Sequence[Descent]) -> list[Path]:
    """Draw the recorded runs under their bounds, and the toy figure of the appendix."""
    from matplotlib.figure import Figure

    rules = list(dict.fromkeys(run.rule for run in runs))
    figure = Figure(figsize=(4.4 * len(rules), 4.4), layout="constrained")
    for place, rule in enumerate(rules, start=1):
        ax = figure.add_subplot(1, len(rules), place)
        _descents(ax, [run for run in runs if run.rule == rule and run.temperature == 0])
        ax.set_title(f"step: {rule}")
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    toy = _figure(plot_loss_bound(limit=spec.drawing["limit"]))
    return [
        _save(figure, figure_file("theory", scale, folder)),
        _save(toy, figure_file("toy", scale, folder)),
    ]


def _descents(ax: Any, runs: Sequence[Descent]) -> None:
    for run, color in zip(runs, cluster_colors(len(runs)), strict=True):
        steps = np.arange(1, len(run.loss) + 1)
        start = f"from {'random directions' if run.start == 'kaiming' else 'random rows'}"
        ax.plot(steps, run.gap.clamp(min=1e-6), color=color, lw=2, label=f"gap, {start}")
        ax.plot(steps, run.sharp_bound, "--", color=color, lw=1, label="bound, gradients met")
        ax.plot(steps, run.bound, ":", color=color, lw=1.5, label="bound, ε of theorem 1")
    ax.set(xscale="log", yscale="log", xlabel="step")
    ax.set_ylabel("best loss so far − best loss")
    ax.spines[["top", "right"]].set_visible(False)


def _figure(ax: Any) -> Figure:
    return ax.get_figure(root=True)


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DOTS)
    return path
