"""The page that shows a stream live: one file, and server-sent events that keep it up to date."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tell.contract import cluster_names
from tell.explanations.palette import cluster_colors
from tell.explanations.plain import as_plain
from tell.runtime.journal import Journal, rows_seen
from tell.serving.refusals import RequestError
from tell.serving.service import Json, Service

_HERE = Path(__file__).parent / "templates"
_REPORT = Path(__file__).parents[1] / "explanations" / "templates"
LOOK_SECONDS = 0.2  # between two looks for news
ALIVE_SECONDS = 10.0  # after which a silent connection says that it lives
#: Of one batch, in this order.
POINT = ("seen", "loss", "running_loss", "baseline_loss", "drift_limit", "far_share", "movement")


def render_page(title: str) -> str:
    """The page; what it shows comes by /events."""
    script = (_HERE / "live.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return _rendered("live.html.j2", title=title, script=script, script_digest=digest)


def render_docs(document: dict[str, Any]) -> str:
    """The OpenAPI document for people: every call, what it takes and what it gives."""
    calls = [
        (method.upper(), path, call)
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    ]
    return _rendered("calls.html.j2", about=document["info"], calls=calls)


def _rendered(name: str, **content: Any) -> str:
    """A template in the report's style."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined
    )
    style = "".join(
        file.read_text(encoding="utf-8") for file in (_REPORT / "report.css", _HERE / "live.css")
    )
    return environment.get_template(name).render(style=style, **content)


def live_state(model: Any, journal: Journal, after: float = -1.0) -> Json:
    """What the page shows; of points and sizes only those after so many rows."""
    about, stream = model.describe(), getattr(model, "stream_", None) or []
    last = stream[-1] if stream else {}
    names = cluster_names(model)
    return {
        "seen": rows_seen(model),
        "kind": about.kind,
        "names": [names.get(j) for j in range(about.n_clusters)],
        "colors": cluster_colors(about.n_clusters),
        "sizes_now": None if about.sizes is None else [float(size) for size in about.sizes],
        "drift": bool(last.get("drift", False)),
        "learned": bool(stream),
        "points": [
            [entry.get(key) for key in POINT] for entry in stream if entry.get("seen", -1) > after
        ],
        "sizes": [point for point in journal.points if point["seen"] > after],
        "events": journal.events,
        "rows": journal.rows,
    }


class Viewers:
    """Sends what is new to every page that is open."""

    def __init__(self, service: Service, most: int) -> None:
        self._service, self._most, self._open = service, most, 0
        self.ended = False

    def stream(self) -> AsyncIterator[bytes]:
        """Events for one more page, until it is closed."""
        if self._open >= self._most:
            raise RequestError(503, f"{self._most} pages are open already; close one")
        return self._events()

    async def _events(self) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            version, state = self._service.version, await self._state()
            seen = state["seen"]
            yield b"retry: 1000\n" + _event("state", state)
            silent = 0.0
            while not self.ended:
                await asyncio.sleep(LOOK_SECONDS)
                silent += LOOK_SECONDS
                if version != self._service.version:
                    version, before = self._service.version, seen
                    state = await self._state(before)
                    seen, silent = state["seen"], 0.0
                    # A model that has seen less is another one.
                    another = seen < before
                    yield _event("state", await self._state()) if another else _event("more", state)
                elif silent >= ALIVE_SECONDS:
                    silent = 0.0
                    yield b": alive\n\n"
        finally:
            self._open -= 1

    async def _state(self, after: float = -1.0) -> Json:
        service = self._service
        return live_state(service.model, await asyncio.to_thread(service.journal), after)


def _event(name: str, content: Json) -> bytes:
    return f"event: {name}\ndata: {json.dumps(as_plain(content))}\n\n".encode()
