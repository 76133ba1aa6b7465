"""Figures 7 and 8: one panel per row, the median over the seeds and their range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tell.reproduce.figures import _curves, draw
from tell.reproduce.results import Result, environment, write_result
from tell.reproduce.spec import load_scale, load_spec

CPU = load_scale("cpu")
FIG7 = load_spec("fig7")


def keep(folder: Path, row: int, histories: list[list[dict[str, Any]]]) -> None:
    runs = FIG7.cell(FIG7.rows[row], FIG7.columns[0], CPU)
    for run, history in zip(runs, histories, strict=False):
        result = Result("done", scores={"acc": 0.5}, history=history, facts=environment())
        write_result(folder, run, result)


def line(acc: float, clustering: float, **more: Any) -> dict[str, Any]:
    scores = {"acc": acc, "nmi": 0.5, "ari": 0.5}
    return {"stage": "train", "epoch": 0, "clustering": clustering, **scores, **more}


def test_nothing_is_drawn_without_a_run(tmp_path: Path) -> None:
    assert draw(FIG7, CPU, tmp_path) == []


def test_the_line_is_the_median_and_the_band_the_range_of_the_seeds(tmp_path: Path) -> None:
    within = [{**line(0.2 + e / 100, 1.0), "epoch": e / 10} for e in (1, 2, 3)]
    keep(tmp_path, 0, [[line(0.3, 0.9, evaluations=within)]])
    accuracies = [(0.1, 0.4), (0.2, 0.9), (0.6, 0.5)]
    keep(tmp_path, 1, [[line(a, 0.8), line(b, 0.7)] for a, b in accuracies])
    figure = _curves(FIG7, CPU, tmp_path)
    assert figure is not None
    panels = {ax.get_title(): ax for ax in figure.axes if ax.get_title()}
    assert list(panels) == ["TELL", "TELL as published, median and range of 3 seeds"]
    single, published = panels.values()
    accuracy = single.lines[0]
    assert list(accuracy.get_xdata()) == [0.1, 0.2, 0.3]  # within the epoch, because that is more
    assert not single.collections
    assert list(published.lines[0].get_xdata()) == [1, 2]
    assert list(published.lines[0].get_ydata()) == pytest.approx([0.2, 0.5])
    corners = published.collections[0].get_paths()[0].vertices  # type: ignore[union-attr]
    assert {(x, round(float(y), 9)) for x, y in corners} >= {(1, 0.1), (1, 0.6), (2, 0.4), (2, 0.9)}


def test_seeds_are_compared_where_all_have_been(tmp_path: Path) -> None:
    """A training that stopped early, and one that was also evaluated within its epochs."""
    short = [line(0.1, 0.9), line(0.2, 0.8)]
    within = [{**line(0.2, 1.0), "epoch": 0.5}, {**line(0.3, 1.0), "epoch": 1}]
    long = [line(0.3, 0.9, evaluations=within), line(0.4, 0.8), line(0.5, 0.7)]
    keep(tmp_path, 1, [short, long])
    figure = _curves(FIG7, CPU, tmp_path)
    assert figure is not None
    assert list(figure.axes[0].lines[0].get_xdata()) == [1, 2]
    assert list(figure.axes[0].lines[0].get_ydata()) == pytest.approx([0.2, 0.3])
