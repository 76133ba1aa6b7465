from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.cluster import KMeans

from tell.explanations import Explanation, explain, plots
from tell.explanations.mapping import project


@pytest.fixture(scope="module", params=[2, 10, 50])
def facts(digits: Any, request: pytest.FixtureRequest) -> Explanation:
    model = KMeans(request.param, n_init=1, random_state=0).fit(digits.X)
    return explain(model, digits.X, digits.y, map_method="pca", quality=False)


FIGURES: dict[str, Callable[[Explanation, Any], Any]] = {
    "map": lambda f, ax: plots.plot_map(f.sample.map, f.sample.labels, f.sample.map_centers, ax=ax),
    "labels": lambda f, ax: plots.plot_map(f.sample.map, f.sample.known, title="epoch 3", ax=ax),
    "centers": lambda f, ax: plots.plot_centers([c.center for c in f.clusters], (8, 8), ax=ax),
}


def overlapping(texts: Iterable[Text]) -> list[tuple[str, str]]:
    boxes = [
        (t.get_text(), t.get_window_extent()) for t in texts if t.get_text() and t.get_visible()
    ]
    return [
        (a, b)
        for i, (a, first) in enumerate(boxes)
        for b, second in boxes[i + 1 :]
        if first.x0 < second.x1 - 1
        and second.x0 < first.x1 - 1
        and first.y0 < second.y1 - 1
        and second.y0 < first.y1 - 1
    ]


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn_and_their_labels_do_not_overlap(facts: Explanation, name: str) -> None:
    ax = FIGURES[name](facts, None)
    ax.get_figure().savefig(io.BytesIO(), dpi=60)
    written = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()]
    assert overlapping(written) == []


@pytest.mark.parametrize("name", FIGURES)
def test_figures_draw_on_given_axes(digits_facts: Explanation, name: str) -> None:
    ax = Figure().add_subplot()
    assert FIGURES[name](digits_facts, ax) is ax


def test_losses_and_metrics_stand_on_two_axes() -> None:
    curve = np.linspace(1, 0.2, 30)
    ax = plots.plot_history({"loss": curve}, {"ACC": 1 - curve})
    twin = next(other for other in ax.get_figure().axes if other is not ax)
    assert [line.get_label() for line in ax.lines] == ["ACC"]
    assert [line.get_label() for line in twin.lines] == ["loss"]
    assert (ax.get_ylabel(), twin.get_ylabel()) == ("clustering metrics", "loss")
    alone = plots.plot_history({"loss": curve})
    assert len(alone.get_figure().axes) == 1


def test_stages_are_named_where_they_begin() -> None:
    ax = plots.plot_history({"loss": [3, 2, 1]}, stages={"distil": 0, "refine": 1})
    assert [text.get_text().strip() for text in ax.texts] == ["distil", "refine"]
    assert [text.get_position()[0] for text in ax.texts] == [0, 1]


def test_centres_on_the_map_can_have_names() -> None:
    places = np.random.default_rng(0).normal(size=(20, 2))
    ax = plots.plot_map(places, [0, 1] * 10, places[:2], names=["seven", "–"])
    assert [text.get_text() for text in ax.texts] == ["seven", "–"]


def test_the_toy_loss_stays_within_its_bound() -> None:
    ax = plots.plot_loss_bound(limit=50, temperature=0.5)
    loss, lower, upper = (np.asarray(line.get_ydata()) for line in ax.lines)
    assert (lower[0], upper[0]) == (loss.min(), loss.max())
    assert lower[0] == pytest.approx(-0.5 * 50)
    assert upper[0] == pytest.approx(0.5 * 0.278, abs=1e-2)  # the largest -p z
    slope = np.abs(np.diff(loss) / np.diff(ax.lines[0].get_xdata())).max()
    assert f"at most {slope:.2f}, theorem 1 allows ε = 50.5" in ax.lines[0].get_label()


def test_epochs_are_rows_of_centres(digits: Any) -> None:
    centers = digits.model.cluster_centers_
    ax = plots.plot_centers({"TELL, epoch 1": centers, "AE + k-means": centers}, (8, 8))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["TELL, epoch 1", "AE + k-means"]


@pytest.mark.slow
def test_seventy_thousand_points_are_laid_out() -> None:
    from tell.data.datasets import load

    data = load("mnist")
    rows = np.asarray(data.X, np.float64).reshape(len(data.X), -1)[:, ::13] / 255
    flat, _ = project(rows, rows[:10], method="tsne")
    plots.plot_map(flat, data.y).get_figure().savefig(io.BytesIO())


@pytest.mark.filterwarnings("error")
def test_foreign_names_are_written_as_they_are() -> None:
    names = ["in US$ (2020$)", "cost_$", "rev_$^{_$", "two\nlines\t$x^2$ \\frac{1}{", "$" * 40]
    X = np.random.default_rng(0).normal(size=(60, 5))
    labels = np.array(names)[np.arange(60) % 5]
    model = KMeans(3, n_init=1, random_state=0).fit(X)
    facts = explain(model, X, labels, feature_names=names, map_method="pca", quality=False)
    places = facts.sample.map
    drawn = [
        plots.plot_map(places, labels, title=names[2]),
        plots.plot_map(places, labels, facts.sample.map_centers, names=names[:3]),
        plots.plot_centers(dict.fromkeys(names, X[:3, :4]), (2, 2)),
        plots.plot_history({names[2]: [2, 1]}, {names[1]: [1, 2]}, stages={names[0]: 0}),
    ]
    for ax in drawn:
        ax.get_figure().savefig(io.BytesIO(), dpi=40)
    ticks = [label.get_text() for label in drawn[2].get_yticklabels()]
    assert r"in US\$ (2020\$)" in ticks
    assert r"two lines \$x^2\$ \frac{1}{" in ticks


def test_rows_without_a_label_are_drawn_without_a_name() -> None:
    places = np.random.default_rng(0).normal(size=(20, 2))
    ax = plots.plot_map(places, ["a", None, "b", None] * 5)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert sum(len(group.get_offsets()) for group in ax.collections) == 20
