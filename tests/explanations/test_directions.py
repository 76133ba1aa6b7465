"""A deep margin over the directions of the embedding: exact, and what they mean."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tell.exceptions import InputError
from tell.explanations import Explanation
from tell.explanations.directions import _correlations, _explained
from tell.explanations.html_report import render_report

from .conftest import Case


def test_the_directions_of_a_deep_margin_leave_no_rest(deep: Case, deep_facts: Explanation) -> None:
    (point,) = deep_facts.points
    found = deep_facts.directions(point.row)
    assert len(found) == deep.model.cluster_centers_.shape[1]
    assert sum(one.amount for one in found) == pytest.approx(point.margin, abs=1e-9)
    sizes = [abs(one.amount) for one in found]
    assert sizes == sorted(sizes, reverse=True)
    embedded = deep.model.embed(deep.X)
    first = found[0]
    assert first.value == pytest.approx(embedded[point.row, first.index], abs=1e-5)
    top = embedded[list(first.most), first.index]
    assert top.min() >= np.sort(embedded[:, first.index])[-6]
    assert first.columns[0][0].startswith("pixel ")
    assert all(0 <= one.explained <= 1 for one in found)


def test_strips_are_drawn_by_the_decoder_along_one_direction(
    deep: Case, deep_facts: Explanation
) -> None:
    (point,) = deep_facts.points
    embedded = deep.model.embed(deep.X).astype(float)
    row = embedded[point.row]
    for one in deep_facts.directions(point.row):
        assert one.strip is not None
        assert one.entries is not None
        low, high = np.quantile(embedded[:, one.index], (0.02, 0.98))
        assert one.entries[[0, -1]] == pytest.approx([low, high], abs=1e-5)
        place = row * np.sqrt((1 - low**2) / (1 - row[one.index] ** 2))
        place[one.index] = low
        drawn = deep.model.decode(place[None]).ravel()
        assert one.strip[0] == pytest.approx(drawn, abs=1e-4)
        again = deep.model.embed(one.strip.reshape(-1, 8, 8))[:, one.index]
        r = np.corrcoef(one.entries, again)[0, 1]
        assert one.redrawn == pytest.approx(max(r, 0) ** 2, abs=1e-3)
        name, at_low, at_high = one.moved[0]
        pixel = deep_facts.data.feature_names.index(name)
        assert (at_low, at_high) == pytest.approx(one.strip[[0, -1], pixel].tolist())


def test_the_report_shows_what_directions_add(deep_facts: Explanation) -> None:
    page = render_report(deep_facts)
    (point,) = deep_facts.points
    found = deep_facts.directions(point.row)[:5]
    body = page.split("Exactly, by the directions of the embedding")[1]
    shown = re.findall(r"Direction (\d+)<.*?class=\"value [\w-]+\">([+−\d.e]+)<", body, re.S)
    assert [int(d) for d, _ in shown] == [one.index for one in found]
    for (_, text), one in zip(shown, found, strict=True):
        assert float(text.replace("−", "-")) == pytest.approx(one.amount, rel=1e-2)
    assert body.count('class="thumbs strip"') == len(found)
    assert body.count('class="thumbs strip few"') == 2 * len(found)


def test_what_columns_can_say_of_a_direction() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    Z = np.stack([2 * X[:, 1], random.normal(size=400), np.ones(400)], axis=1)
    correlations = _correlations(X, Z)
    assert correlations[1, 0] == pytest.approx(1)
    assert abs(correlations[0, 0]) < 0.2
    assert correlations[:, 2].tolist() == [0, 0, 0]
    explained = _explained(X, Z)
    assert explained[0] > 0.99
    assert explained[1] < 0.1
    assert explained[2] == 0


def test_rows_that_were_not_explained_and_models_without_an_embedding(
    wine_facts: Explanation, deep_facts: Explanation
) -> None:
    with pytest.raises(InputError, match="an encoder's embedding"):
        wine_facts.directions(17)
    with pytest.raises(InputError, match=r"a row that was explained \(3\), got 5"):
        deep_facts.directions(5)
