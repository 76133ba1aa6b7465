"""The report in a real browser: no error, no request, and it reacts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tell.explanations import Explanation
from tell.explanations import report as write

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
FLAGS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(params=["wine_facts", "digits_facts"])
def report(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(request.getfixturevalue(request.param), tmp_path / "report.html")


class Visit:
    """An open page, and everything it complained about or asked for."""

    def __init__(self, browser: Any, path: Path, width: int = 1200, scheme: str = "light") -> None:
        size = {"width": width, "height": 800}
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.trouble: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on("request", self._note)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("[data-ready=true]")

    def _note(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:")):
            self.trouble.append(request.url)

    def panel(self) -> str:
        return str(self.page.inner_text("#map-panel"))

    def close(self) -> None:
        self.page.close()
        assert self.trouble == []


def test_map_and_cards_react(browser: Any, report: Path) -> None:
    visit = Visit(browser, report)
    page = visit.page
    assert "All clusters by size" in visit.panel()
    page.click("[data-cluster='1']")
    assert "Cluster 1" in visit.panel()
    assert page.get_attribute("[data-cluster='1']", "aria-pressed") == "true"
    assert "chosen" in (page.get_attribute("#cluster-1", "class") or "")
    page.click("[data-cluster='1']")
    assert "All clusters by size" in visit.panel()
    page.click("[data-show='2']")
    assert "Cluster 2" in visit.panel()
    visit.close()


def test_pointing_at_the_map_shows_the_row(browser: Any, report: Path) -> None:
    visit = Visit(browser, report)
    visit.page.locator("#map-canvas").scroll_into_view_if_needed()
    box = visit.page.locator("#map-canvas").bounding_box()
    x, y = visit.page.evaluate(
        "() => { const d = JSON.parse(document.getElementById('map-data').textContent);"
        " return d.places[0]; }"
    )
    at = (
        box["x"] + 20 + x / 1e4 * (box["width"] - 40),
        box["y"] + box["height"] - 20 - y / 1e4 * (box["height"] - 40),
    )
    visit.page.mouse.move(*at)
    assert visit.page.inner_text("#map-tip").startswith("Row ")
    visit.page.mouse.click(*at)
    assert "Cluster " in visit.panel()
    assert "Row " in visit.panel()
    visit.page.mouse.move(0, 0)
    assert not visit.page.is_visible("#map-tip")
    visit.close()


def test_everything_works_from_the_keyboard(browser: Any, report: Path) -> None:
    visit = Visit(browser, report)
    page = visit.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#map-canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#map-live").startswith("Row ")
    page.keyboard.press("Enter")
    assert "Cluster " in page.inner_text("#map-live")
    page.keyboard.press("Escape")
    assert page.inner_text("#map-live") == "All clusters shown."
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.get_attribute("html", "data-theme") == "dark"
    visit.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_shows_all_without_scrolling_sideways(
    browser: Any, report: Path, scheme: str
) -> None:
    visit = Visit(browser, report, width=400, scheme=scheme)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 400
    light = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(250, 250, 248)") == (scheme == "light")
    visit.close()


def test_controls_have_names_and_text_has_contrast(browser: Any, report: Path) -> None:
    for scheme in ("light", "dark"):
        visit = Visit(browser, report, scheme=scheme)
        nameless = visit.page.evaluate(
            "() => [...document.querySelectorAll('button, select, a, [role=img], canvas')]"
            ".filter(e =>"
            " !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')"
            " || e.closest('[role=img][aria-label]') !== e && e.closest('[role=img]')))"
            ".map(e => e.outerHTML.slice(0, 80))"
        )
        assert nameless == []
        for name in ("--ink", "--muted", "--accent", "--for", "--against"):
            assert contrast(visit, name, "--card") >= 4.5, (scheme, name)
        visit.close()


def contrast(visit: Visit, first: str, second: str) -> float:
    def luminance(name: str) -> float:
        text = visit.page.evaluate(
            "name => getComputedStyle(document.documentElement).getPropertyValue(name)", name
        ).strip()
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_hostile_names_do_nothing(browser: Any, tmp_path: Path) -> None:
    import numpy as np
    from sklearn.cluster import KMeans

    from tell.explanations import explain

    names = [
        "<img src=x onerror=alert(1)>",
        "</script><script>alert(2)</script>",
        "\"'><svg onload=alert(3)>",
    ]
    X = np.random.default_rng(0).normal(size=(40, 3))
    labels = np.array(names)[np.arange(40) % 3]
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    facts: Explanation = explain(model, X, labels, feature_names=names, map_method="pca")
    visit = Visit(browser, write(facts, tmp_path / "report.html", title=names[1]))
    visit.page.focus("#map-canvas")
    for key in ("ArrowRight", "Enter"):
        visit.page.keyboard.press(key)
    assert names[0] in visit.panel()  # shown as text
    assert visit.page.locator("img, svg").count() == 0
    visit.close()
