"""The service over HTTP: paths, content types and status codes around a `Service`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from tell.exceptions import MissingDependencyError, ModelFileError, ParameterError, TellError
from tell.serving import api_document as document
from tell.serving.bodies import ARROW, CSV, JSON, KINDS
from tell.serving.gate import EVENTS, HEALTH, Gate, RequestLimits, answer_of, read_body
from tell.serving.live_page import Viewers, render_docs, render_page
from tell.serving.measures import Measures
from tell.serving.refusals import RequestError
from tell.serving.replies import as_json, labels_reply, reasons
from tell.serving.service import Service, Wanted
from tell.serving.updates import Updates

PATHS = ("/", "/predict", "/explain", "/update", "/model", "/clusters", HEALTH, "/metrics",
         "/docs", "/openapi.json", EVENTS)  # fmt: skip
METRICS = "text/plain; version=0.0.4; charset=utf-8"
THREADS = 4
LOOK_SECONDS = 0.5  # between two looks whether somebody else has saved
SWITCH_SECONDS = 0.001  # for how long a thread with much to do may keep the others waiting

_TRUTHS = {"1": True, "true": True, "": True, "0": False, "false": False}


@dataclass(frozen=True)
class Settings:
    """How a service is to be run."""

    requests: RequestLimits = field(default_factory=RequestLimits)
    token: str | None = None
    hosts: tuple[str, ...] | None = None


class LiveHandlers:
    """The page, and what is new on it."""

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._page = render_page(service.folder.resolve().name).encode()
        self.viewers = Viewers(service, limits.viewers)

    async def page(self, request: Request) -> Response:
        return Response(self._page, media_type="text/html")

    async def events(self, request: Request) -> Response:
        return StreamingResponse(
            self.viewers.stream(),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )


class Handlers:
    """One method per path; each gives the whole answer."""

    def __init__(
        self, service: Service, settings: Settings, measures: Measures, updates: Updates | None
    ) -> None:
        self._service, self._limits = service, settings.requests
        self._measures, self._updates = measures, updates
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="rows")

    async def predict(self, request: Request) -> Response:
        wanted, kind = _wanted(request), _kind(request)
        body = await read_body(request.scope, request.receive, self._limits)
        accept = request.headers.get("accept", "")
        if not (ARROW in accept or CSV in accept):
            quick = self._service.quick_labels(body, kind, wanted)
            if quick is not None:
                self._measures.add_rows("/predict", len(quick["cluster"]))
                return Response(as_json(quick), media_type=JSON)

        def work() -> tuple[int, bytes, str]:
            columns, notes = self._service.predict(body, kind, wanted)
            return len(columns["cluster"]), *labels_reply(columns, notes, accept)

        rows, content, media = await self._in_thread(work, "labelling")
        self._measures.add_rows("/predict", rows)
        return Response(content, media_type=media)

    async def explain(self, request: Request) -> Response:
        kind = _kind(request)
        body = await read_body(request.scope, request.receive, self._limits)

        def work() -> bytes:
            return as_json(reasons(*self._service.explain(body, kind)))

        content = await self._in_thread(work, "explaining")
        self._measures.add_rows("/explain", 1)
        return Response(content, media_type=JSON)

    async def update(self, request: Request) -> Response:
        if self._updates is None:
            raise RequestError(403, "this service does not learn; start it with --learn")
        kind = _kind(request)
        body = await read_body(request.scope, request.receive, self._limits)
        chunks, notes = await self._in_thread(
            lambda: self._service.read_rows(body, kind), "reading the rows"
        )
        learned = await answer_of(self._updates.submit(chunks), self._limits, "learning")
        self._measures.add_rows("/update", learned["rows"])
        return Response(
            as_json(learned | {"warnings": [*notes, *learned["warnings"]]}), media_type=JSON
        )

    async def model(self, request: Request) -> Response:
        about = self._service.describe()
        found = about | {"learns": self._updates is not None, "tell": version("tell-clustering")}
        return Response(as_json(found), media_type=JSON)

    async def clusters(self, request: Request) -> Response:
        return Response(as_json(self._service.clusters()), media_type=JSON)

    async def metrics(self, request: Request) -> Response:
        return Response(self._measures.text(), media_type=METRICS)

    async def _in_thread(self, work: Callable[[], Any], what: str) -> Any:
        return await answer_of(self._pool.submit(work), self._limits, what)

    def close(self) -> None:
        """Let nobody wait any longer."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def make_app(service: Service, settings: Settings, *, learn: bool = False) -> FastAPI:
    """The whole application; with `learn` it claims the folder until it is shut down.

    Raises
    ------
    ModelFileError
        If another service learns into the folder.
    """
    updates = Updates(service) if learn else None
    measures = Measures(service)
    handlers = Handlers(service, settings, measures, updates)

    @asynccontextmanager
    async def at_work() -> AsyncIterator[None]:
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            yield
        finally:
            sys.setswitchinterval(before)
            handlers.close()
            if updates is not None:
                await asyncio.to_thread(updates.close)

    app = _bare_app(service, settings, measures, at_work, follow=not learn)
    _add_paths(app, handlers, service, learn=learn)
    app.add_api_route("/docs", _docs(app), methods=["GET"], include_in_schema=False)
    return app


def make_watch_app(service: Service, settings: Settings) -> FastAPI:
    """The page alone, of a model that others teach."""
    return _bare_app(service, settings, Measures(service), nothing, follow=True)


@asynccontextmanager
async def nothing() -> AsyncIterator[None]:
    """No work to begin or to end."""
    yield


def _bare_app(
    service: Service,
    settings: Settings,
    measures: Measures,
    at_work: Callable[[], AbstractAsyncContextManager[None]],
    *,
    follow: bool,
) -> FastAPI:
    """The page, errors, and the gate in front of it; `follow` what others save."""
    live = LiveHandlers(service, settings.requests)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        look = asyncio.create_task(_follow(service)) if follow else None
        try:
            async with at_work():
                yield
        finally:
            live.viewers.ended = True
            if look is not None:
                look.cancel()

    app = FastAPI(
        title="tell serve",
        version=version("tell-clustering"),
        description="Clusters of rows, why they are theirs, and learning from further rows.",
        lifespan=lifespan,
        docs_url=None,  # its page asks other hosts for scripts; ours does not
        redoc_url=None,
    )
    app.state.viewers = live.viewers
    for path, endpoint in (("/", live.page), (EVENTS, live.events), (HEALTH, healthz)):
        app.add_api_route(path, endpoint, methods=["GET"], include_in_schema=False)
    app.add_exception_handler(TellError, _tell_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _mistake)
    app.add_middleware(
        Gate,
        limits=settings.requests,
        measures=measures,
        token=settings.token,
        hosts=settings.hosts,
        paths=PATHS,
    )
    return app


async def healthz(request: Request) -> Response:
    """The service lives."""
    return Response(b'{"status":"ok"}', media_type=JSON)


def _docs(app: FastAPI) -> Callable[[Request], Awaitable[Response]]:
    async def docs(request: Request) -> Response:
        return Response(render_docs(app.openapi()).encode(), media_type="text/html")

    return docs


def _add_paths(app: FastAPI, handlers: Handlers, service: Service, *, learn: bool) -> None:
    body = document.rows_body(service.served.reader)

    def add(
        path: str,
        endpoint: Any,
        summary: str,
        responses: dict[int | str, dict[str, Any]],
        extra: dict[str, Any] | None = None,
    ) -> None:
        app.add_api_route(
            path,
            endpoint,
            methods=["POST" if extra is not None else "GET"],
            summary=summary,
            responses=responses,
            response_class=Response,
            openapi_extra=extra,
        )

    add(
        "/predict",
        handlers.predict,
        "The cluster of each row",
        document.answer("One cluster per row.", document.LABELS, CSV, ARROW)
        | document.errors(body=True),
        body | {"parameters": document.PREDICT_PARAMETERS},
    )
    add(
        "/explain",
        handlers.explain,
        "Why one row is where it is, and the smallest change that would move it",
        document.answer("Reasons.", document.REASONS) | document.errors(501, body=True),
        body,
    )
    add(
        "/update",
        handlers.update,
        "Learn from rows"
        if learn
        else "Learn from rows (this service was started without --learn)",
        document.answer("They are learned and saved.", document.LEARNED)
        | document.errors(403, body=True),
        body,
    )
    add("/model", handlers.model, "What the model is",
        document.answer("The model.", document.MODEL) | document.errors())  # fmt: skip
    add("/clusters", handlers.clusters, "Every cluster: name, rows, centre",
        document.answer("The clusters.", document.CLUSTERS) | document.errors())  # fmt: skip
    add(HEALTH, healthz, "Whether the service lives; needs no token",
        document.answer("It does.", document.HEALTHY) | document.errors())  # fmt: skip
    text: dict[str, Any] = {
        "description": "The measures.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
    add("/metrics", handlers.metrics, "Measures for Prometheus", document.errors() | {200: text})


async def _follow(service: Service) -> None:
    """Take in what others save, such as `tell update` in another process."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with suppress(TellError):  # a folder that is being moved: the next look tells
            await asyncio.to_thread(service.refresh)


def _kind(request: Request) -> str:
    """The content type of a body, if it is one that is read."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in KINDS:
        raise RequestError(
            415, f"the content type must be one of {', '.join(KINDS)}, got {kind[:60]!r}"
        )
    if "content-encoding" in request.headers:
        raise RequestError(415, "the body must not be encoded; send it as it is")
    return kind


def _wanted(request: Request) -> Wanted:
    """The parameters of /predict."""
    asked = request.query_params
    if not asked:
        return Wanted()
    reject = asked.get("reject")
    return Wanted(
        _truth(asked, "proba"),
        _truth(asked, "distances"),
        None if reject is None else _share(reject),
    )


def _truth(asked: Any, name: str) -> bool:
    text = asked.get(name, "false").lower()
    if text not in _TRUTHS:
        raise ParameterError(f"{name} must be true or false, got {text[:60]!r}")
    return _TRUTHS[text]


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ParameterError(f"reject must be a share of rows such as 0.01, got {text[:60]!r}")
    return share


async def _tell_error(_: Request, error: Exception) -> Response:
    """An error that names what is wrong with a request; of the folder nothing is told."""
    if isinstance(error, RequestError):
        return _error(error.status, str(error))
    if isinstance(error, MissingDependencyError):
        return _error(501, str(error))
    if isinstance(error, ModelFileError):
        return _error(503, "the model's folder cannot be used now; the service's log says why")
    return _error(422, str(error))


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    reason = str(getattr(error, "detail", "")) or "error"
    headers: dict[str, str] = dict(getattr(error, "headers", None) or {})
    return _error(status, reason.lower(), headers)


async def _mistake(_: Request, error: Exception) -> Response:
    """Nothing of the error is told to the caller; the server writes it to its log."""
    return _error(500, "a mistake in the service; its log says more")


def _error(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    if status == 503:
        headers = {"retry-after": "1"}
    return Response(
        as_json({"error": reason}), status_code=status, media_type=JSON, headers=headers
    )
