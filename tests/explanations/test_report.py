from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tell import TELL
from tell.explanations import Explanation, compare, explain, html_report, report
from tell.explanations.html_report import render_report

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"'><svg onload=alert(3)>",
    "{{ 7 * 7 }} {% raw %}",
    "]]>--><!--",
    "javascript:alert(4)//\u2028&amp;",
]


class Tags(HTMLParser):
    """Counts tags and collects attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value or "" for name, value in attrs if name == "id"]


@pytest.fixture(scope="module")
def hostile() -> Explanation:
    X = np.random.default_rng(0).normal(size=(60, 6))
    model = KMeans(3, n_init=2, random_state=0).fit(X)
    labels = np.array(HOSTILE)[np.arange(60) % 6]
    return explain(model, X, labels, feature_names=HOSTILE, map_method="pca")


def test_text_from_data_is_escaped(hostile: Explanation) -> None:
    page = render_report(hostile, title=HOSTILE[1], command=HOSTILE[0])
    found = Tags(page)
    assert found.tags.count("script") == 2  # the data of the map, and the page's own script
    assert "img" not in found.tags
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    for text in HOSTILE[:3]:
        assert text not in page
    assert "{{ 7 * 7 }}" in page  # shown as it is, not evaluated


@pytest.mark.parametrize("name", ["wine_facts", "digits_facts", "deep_facts"])
def test_pages_are_whole_small_and_offline(name: str, request: pytest.FixtureRequest) -> None:
    facts = request.getfixturevalue(name)
    page = render_report(facts)
    found = Tags(page)
    assert len(page) < 2_000_000
    assert len(found.ids) == len(set(found.ids))
    assert sum(tag == "article" for tag in found.tags) > len(facts.clusters)
    for attribute, value in found.attributes:
        if attribute in ("src", "href"):
            assert (value or "").startswith(("data:", "#")), value
            assert not (value or "").startswith("#") or (value or "")[1:] in found.ids, value
    assert not re.search(r"url\((?!\"data:)", page)
    for cluster in facts.clusters:
        assert f'id="cluster-{cluster.index}"' in page


def test_layouts_fit_the_data(wine_facts: Explanation, digits_facts: Explanation) -> None:
    table, images = render_report(wine_facts), render_report(digits_facts)
    assert "figure-sheet" not in table
    assert "As a rule" in table
    assert "figure-sheet" in images
    assert "As rules" not in images
    assert 'aria-label="centre of cluster 3"' in images


def test_plain_embeddings_without_names_and_map(digits: Any) -> None:
    model = KMeans(50, n_init=1, random_state=0).fit(digits.X)
    page = render_report(explain(model, digits.X, map_method=None, quality=False))
    assert "feature 26" in page
    assert 'id="map-canvas"' not in page
    assert 'id="cluster-49"' in page


def test_changes_and_command_are_told(wine: Any, wine_facts: Explanation) -> None:
    old = KMeans(4, n_init=2, random_state=0).fit(wine.values.astype(np.float32))
    found = compare(old, wine.model, wine.values)
    page = render_report(wine_facts, comparison=found, command="tell explain wine")
    assert "tell explain wine" in page
    assert found.fates[0].summary[1:] in page


def test_a_failed_write_leaves_the_old_report(
    wine_facts: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = report(wine_facts, tmp_path / "deep" / "report.html")
    before = path.read_bytes()

    def fail(*_: Any, **__: Any) -> str:
        return "half\ud800"  # cannot be written as UTF-8

    monkeypatch.setattr(html_report, "render_report", fail)
    with pytest.raises(UnicodeEncodeError):
        report(wine_facts, path)
    assert path.read_bytes() == before
    assert [child.name for child in path.parent.iterdir()] == ["report.html"]


@pytest.mark.slow
def test_mnist_fits_in_eight_megabytes(tmp_path: Path) -> None:
    model = TELL(10, random_state=0).fit("mnist")
    path = report(explain(model, "mnist", map_method="pca"), tmp_path / "report.html")
    assert path.stat().st_size < 8_000_000


def test_a_folder_of_images(digits: Any, tmp_path: Path) -> None:
    from PIL import Image

    folder = tmp_path / "pictures"
    folder.mkdir()
    for i, row in enumerate(digits.X[:60]):
        picture = Image.fromarray(np.uint8(255 * row.reshape(8, 8)))
        picture.save(folder / f"{i:03}.png")
    facts = explain(digits.model, folder, map_method="pca")
    assert facts.data.shape is not None
    assert facts.data.shape[-2:] == (8, 8)
    page = render_report(facts)
    assert "60 images" in page
    assert page.count("figure-sheet") > 60


def test_large_colour_images_shrink_and_stay_small(tmp_path: Path) -> None:
    """Colour images larger than a thumbnail are stored lossily."""
    random = np.random.default_rng(0)
    shades = random.uniform(size=(3, 3, 1, 1))
    noise = random.uniform(size=(400, 3, 48, 48)) * 0.3
    X = (0.7 * shades[np.arange(400) % 3] + noise).reshape(400, -1).astype(np.float32)
    model = KMeans(3, n_init=1, random_state=0).fit(X)
    facts = explain(model, X, shape=(3, 48, 48), map_method="pca", quality=False)
    path = report(facts, tmp_path / "report.html")
    assert path.stat().st_size < 8_000_000
    assert "image/webp" in path.read_text(encoding="utf-8")


def visible(page: str) -> str:
    """The text of a page without scripts and styles."""
    page = re.sub(r"(?s)<(script|style).*?</\1>", " ", page)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
def test_a_single_cluster_is_not_compared_with_itself(geometry: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3)) + 3
    model = TELL(1, geometry=geometry, random_state=0).fit(X)
    facts = explain(model, X, np.repeat(["a", "b"], 20), rows=[3], map_method="pca")
    text = visible(render_report(facts))
    for wrong in (
        "Clearly placed",
        "against cluster 0",
        "Margin to",
        "−0 ",
        "1 clusters",
        "% clear",
    ):
        assert wrong not in text
    assert "clearness" not in text
    assert "1 cluster in 40 rows" in text
    assert "Row 3 is in cluster 0, the only one." in text


def test_headings_do_not_jump(wine_facts: Explanation, digits_facts: Explanation) -> None:
    for facts in (wine_facts, digits_facts):
        found = Tags(render_report(facts)).tags
        levels = [int(tag[1]) for tag in found if re.fullmatch("h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_rows_without_a_label_have_none_on_the_page() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.array(["cat", None, float("nan"), ""] * 10, object)
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    facts = explain(model, X, y, map_method="pca", quality=False)
    page = render_report(facts)
    data = json.loads(re.findall(r'id="map-data">(.*?)</script>', page)[0])
    assert data["labels"] == ["cat"]
    assert data["known"] == [0, None, None, None] * 10
    for wrong in ("labelled None", "labelled nan", "labelled ."):
        assert wrong not in visible(page)


def test_a_change_to_a_third_cluster_names_it(wine: Any) -> None:
    model = TELL(6, geometry="euclidean", standardize=True, random_state=0).fit(wine.X)
    facts = explain(model, wine.X, rows=range(178), map_method=None, quality=False)
    point = next(p for p in facts.points if p.counterfactual.cluster != p.runner_up)
    text = visible(render_report(replace(facts, points=(point,))))
    assert f"What would move it to cluster {point.counterfactual.cluster}" in text
    assert f"Contributions to the margin against cluster {point.runner_up}" in text


def test_channels_that_cancel_stay_faint() -> None:
    from tell.explanations.sheet import heat_strength

    random = np.random.default_rng(0)
    amounts = random.normal(scale=0.01, size=(3, 4, 4))
    amounts[0] += 3
    amounts[2] -= 3
    assert np.abs(heat_strength(amounts.ravel(), (3, 4, 4))).max() < 0.05
    agreeing = heat_strength(np.abs(amounts).ravel(), (3, 4, 4))
    assert agreeing.max() == 1
    assert agreeing.min() > 0.9
    grey = heat_strength(np.array([0.0, -2.0, 1.0, 4.0]), (2, 2))
    assert grey.tolist() == [[0, -0.5], [0.25, 1]]


def test_trust_is_told_by_what_tells_clusters_from_a_division(
    wine_facts: Explanation, deep_facts: Explanation
) -> None:
    """Exact reasons agree with the model on any rows, so that the number would say nothing."""
    wine, deep = (
        render_report(facts).split('id="trust-title"')[1] for facts in (wine_facts, deep_facts)
    )
    assert wine_facts.quality is not None
    stable = wine_facts.quality.stability
    assert stable is not None
    assert stable.resampling is not None
    assert f'<p class="big">{stable.resampling.agreement:.2f}</p>' in wine
    assert "These clusters come out again." in wine
    assert "Are the named reasons the real ones?" not in wine
    assert "Are the named reasons the real ones?" in deep
    assert "Do they speak about the real model?" not in wine  # all of them do


def test_shuffled_columns_do_not_look_trustworthy(wine: Any) -> None:
    X = np.random.default_rng(0).permuted(wine.values, axis=0)
    model = TELL(3, standardize=True, random_state=0).fit(X)
    page = render_report(explain(model, X, map_method=None))
    assert "these may not be there" in page
