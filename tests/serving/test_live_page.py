"""The live page in a real browser: a stream with planted drift, a restart, and no end of points."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, StreamingResponse
from starlette.routing import Route
from tests.explanations.test_browser import CHROMIUM, FLAGS
from tests.serving.conftest import flower_table, records
from tests.serving.test_process import call

import tell
from tell.data.arrays import ArraySource
from tell.runtime.journal import Journal
from tell.runtime.learner import Learning
from tell.serving.app import Settings, make_app, make_watch_app
from tell.serving.bodies import RowLimits
from tell.serving.live_page import live_state, render_page
from tell.serving.service import Service

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
PATIENCE = 20_000  # milliseconds; a machine may be busy


@contextmanager
def running(app: Any, port: int = 0) -> Iterator[str]:
    """Serve an application from another thread."""
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        if hasattr(app.state, "viewers"):
            app.state.viewers.ended = True
        server.should_exit = True
        thread.join(timeout=30)
        listener.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Visit:
    """An open page, and everything it complained about or asked others for."""

    def __init__(self, browser: Any, url: str, width: int = 1200, scheme: str = "light") -> None:
        size = {"width": width, "height": 900}
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.page.set_default_timeout(PATIENCE)
        self.trouble: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url, url))
        self.page.goto(url)
        self.page.wait_for_selector("[data-ready=true]")

    def _note(self, asked: str, home: str) -> None:
        if not asked.startswith((home, "data:")):
            self.trouble.append(asked)

    def wait(self, script: str) -> None:
        self.page.wait_for_function(script, timeout=PATIENCE)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def close(self) -> None:
        self.page.close()
        assert self.trouble == []


def teach(url: str, rows: list[dict[str, Any]]) -> None:
    """Post rows, as a program would."""
    assert "rows_seen" in call(f"{url}/update", rows, token=None)


@pytest.fixture
def learning(folder: Callable[[str], Path]) -> Iterator[tuple[str, Path]]:
    place = folder("flowers")
    app = make_app(Service(place, RowLimits()), Settings(), learn=True)
    with running(app) as url:
        yield url, place


@in_browser
def test_planted_drift_is_shown(browser: Any, learning: tuple[str, Path]) -> None:
    url, _ = learning
    visit = Visit(browser, url)
    assert "No batch has been learned" in visit.text("#verdict")
    rows = records(flower_table())
    odd = rows[0] | {"petal width": 30.0}
    for start in range(0, 150, 50):
        teach(url, rows[start : start + 50])
    visit.wait("() => document.documentElement.dataset.points === '3'")
    assert "Recent rows look like" in visit.text("#verdict")
    teach(url, [{name: value + 5 for name, value in row.items()} for row in rows])
    visit.wait("() => document.getElementById('verdict').textContent.includes('drifts')")
    assert "Drift" in visit.text("#event-list")
    assert "the data drifts from what the model learned" in visit.text("#event-list")
    assert visit.text("#seen") == "450"
    teach(url, [odd])
    visit.wait("() => document.getElementById('row-list').textContent.includes('30')")
    assert "would be rejected" in visit.text("#row-list")
    assert "petal width = 30" in visit.text("#row-list")
    assert visit.page.locator("#loss-chart .event").count() >= 1
    assert visit.page.locator("#sizes-chart .area").count() == 3
    visit.close()


@in_browser
def test_keys_read_single_values_and_choose_clusters(
    browser: Any, learning: tuple[str, Path]
) -> None:
    url, _ = learning
    rows = records(flower_table())
    for start in range(0, 90, 30):
        teach(url, rows[start : start + 30])
    visit = Visit(browser, url)
    page = visit.page
    page.focus("#loss-chart")
    page.keyboard.press("End")
    assert "After 240 rows" in visit.text("#loss-told")
    page.keyboard.press("ArrowLeft")
    assert "After 210 rows" in visit.text("#loss-told")
    page.keyboard.press("Escape")
    assert visit.text("#loss-told") == ""
    page.focus("#legend button:nth-child(2)")
    page.keyboard.press("Enter")
    assert page.get_attribute("#legend button:nth-child(2)", "aria-pressed") == "true"
    assert "cluster 1" in visit.text("#sizes-told")
    assert page.locator("#sizes-chart .area.dim").count() == 2
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    visit.close()


@in_browser
@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (400, "dark"), (1200, "dark")])
def test_nothing_sticks_out(
    browser: Any, learning: tuple[str, Path], width: int, scheme: str
) -> None:
    visit = Visit(browser, learning[0], width, scheme)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    visit.close()


@in_browser
def test_the_page_comes_back_after_a_restart(browser: Any, folder: Callable[[str], Path]) -> None:
    place = folder("flowers")
    with running(make_watch_app(Service(place, RowLimits()), Settings())) as url:
        visit = Visit(browser, url)
        assert visit.text("#state") == "Live"
    visit.wait("() => document.getElementById('state').dataset.state === 'lost'")
    learn_from(place, flower_table().to_numpy())
    port = int(url.rpartition(":")[2])
    with running(make_watch_app(Service(place, RowLimits()), Settings()), port):
        visit.wait("() => document.getElementById('state').dataset.state === 'live'")
        visit.wait("() => document.getElementById('seen').textContent === '300'")
        visit.page.close()  # it had reasons to complain meanwhile


def learn_from(place: Path, rows: Any) -> None:
    """What `tell update` does."""
    source = ArraySource(rows)
    update = Learning(tell.load(place), place, source, resume=False, score=False)
    for chunk in source.chunks():
        update.take(chunk)
    update.save(finished=True)


@in_browser
def test_watching_follows_the_folder(browser: Any, folder: Callable[[str], Path]) -> None:
    place = folder("flowers")
    with running(make_watch_app(Service(place, RowLimits()), Settings())) as url:
        visit = Visit(browser, url)
        with pytest.warns(tell.exceptions.DriftWarning):
            learn_from(place, flower_table().to_numpy() + 5)
        visit.wait("() => document.getElementById('event-list').textContent.includes('Drift')")
        assert visit.text("#seen") == "300"
        visit.close()


@in_browser
def test_points_without_end_do_not_grow(browser: Any, models: Path) -> None:
    state = live_state(tell.load(models / "flowers"), Journal())
    sizes = state["sizes_now"]

    async def events() -> AsyncIterator[bytes]:
        yield f"event: state\ndata: {json.dumps(state)}\n\n".encode()
        for first in range(0, 100_000, 1000):
            points = [[i, 1.0, 1.0, 0.9, 1.2, 0.0, 0.1] for i in range(first, first + 1000)]
            saves = [{"at": 0, "seen": p[0], "sizes": sizes} for p in points[::10]]
            more = state | {"points": points, "sizes": saves, "seen": first + 1000}
            yield f"event: more\ndata: {json.dumps(more)}\n\n".encode()

    app = Starlette(
        routes=[
            Route("/", lambda _: HTMLResponse(render_page("points"))),
            Route("/events", lambda _: StreamingResponse(events(), media_type="text/event-stream")),
        ]
    )
    with running(app) as url:
        visit = Visit(browser, url)
        visit.wait("() => document.getElementById('seen').textContent === '100,000'")
        visit.wait("() => document.documentElement.dataset.points === '2048'")
        assert visit.page.evaluate("document.querySelectorAll('*').length") < 200
        visit.page.close()


def test_only_what_is_new_is_sent(folder: Callable[[str], Path]) -> None:
    place = folder("flowers")
    learn_from(place, flower_table().to_numpy())
    model, journal = tell.load(place), Journal.read(place)
    assert [point[0] for point in live_state(model, journal)["points"]] == [300]
    assert live_state(model, journal, after=300)["points"] == []
    assert live_state(model, journal, after=300)["sizes"] == []
    assert live_state(model, journal)["sizes"][-1]["seen"] == 300
