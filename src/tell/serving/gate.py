"""Who may ask, how much, and how long: checked before a request reaches the service."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tell.serving.measures import Measures
from tell.serving.refusals import RequestError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH, EVENTS = "/healthz", "/events"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_CHALLENGE = b'Bearer realm="tell", Basic realm="tell"'


@dataclass(frozen=True)
class RequestLimits:
    """What one request, and all of them together, may take."""

    body_bytes: int = 16 << 20
    seconds: float = 30.0
    concurrent: int = 64
    viewers: int = 32  # pages that are open at a time


class Gate:
    """Wraps an application: host, token, number of requests; notes every answer.

    Parameters
    ----------
    app : the application behind it
    limits : RequestLimits
    measures : Measures
    token : str, optional
        Every call but /healthz needs it.
    hosts : tuple of str, optional
        Names by which the service may be asked for; None for any. A web page that a browser on
        this machine shows can have its own name lead here, but cannot hide that name.
    paths : tuple of str
        What is counted under its own name.
    """

    def __init__(
        self,
        app: App,
        limits: RequestLimits,
        measures: Measures,
        *,
        token: str | None = None,
        hosts: tuple[str, ...] | None = None,
        paths: tuple[str, ...] = (),
    ) -> None:
        self._app, self._limits, self._measures = app, limits, measures
        self._token = None if token is None else token.encode()
        self._hosts, self._paths = hosts, frozenset(paths)
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        path = scope["path"]
        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self._admitted(scope, receive, noted)
            else:
                await refuse(noted, *refusal)
        finally:
            if path != EVENTS:  # lasts as long as somebody looks
                known = path if path in self._paths else "other"
                self._measures.answered(known, status, time.perf_counter() - began)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == EVENTS:  # counts its viewers itself
            await self._app(scope, receive, send)
            return
        self._busy += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._busy -= 1

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason, if the request may not pass."""
        headers = dict(scope["headers"])
        if self._hosts is not None and _host(headers) not in self._hosts:
            return 421, "the host must be one that this service was started for; see --allow-host"
        if scope["path"] == HEALTH:
            return None
        if self._token is not None and not self._knows(headers, scope["method"]):
            return 401, "the call needs the header Authorization: Bearer TOKEN"
        if self._busy >= self._limits.concurrent:
            return 503, "too many requests at a time; try again"
        return None

    def _knows(self, headers: dict[bytes, bytes], method: str) -> bool:
        """Whether the caller has the token; compared in constant time.

        A browser cannot send it as a bearer, so pages may be opened with it as a password. What
        changes something may not: a browser would send the password along for any page that asks.
        """
        scheme, _, value = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"basic" and method == "GET":
            try:
                value = base64.b64decode(value.strip(), validate=True).partition(b":")[2]
            except (binascii.Error, ValueError):
                value = b""
        elif scheme.lower() != b"bearer":
            value = b""
        return hmac.compare_digest(value.strip(), self._token or b"")


def local_hosts(more: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of this machine for itself, and others that were allowed."""
    return (*_LOCAL, *(name.lower() for name in more))


def _host(headers: dict[bytes, bytes]) -> str:
    """The name in the header Host, without the port.

    >>> _host({b"host": b"localhost:8000"}), _host({b"host": b"[::1]:8000"})
    ('localhost', '::1')
    """
    text = headers.get(b"host", b"").decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if ":" in text else text


async def refuse(send: Send, status: int, reason: str) -> None:
    """Answer with an error."""
    headers = [(b"content-type", b"application/json")]
    if status == 401:
        headers.append((b"www-authenticate", _CHALLENGE))
    if status == 503:
        headers.append((b"retry-after", b"1"))
    body = json.dumps({"error": reason}).encode()
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def read_body(scope: Scope, receive: Receive, limits: RequestLimits) -> bytes:
    """The whole body, if it is small and quick enough."""
    most = limits.body_bytes
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if length.isdigit() and int(length[:18]) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "the caller went away")
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    raise _too_large(most)
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise RequestError(
            408, f"the body must arrive within {limits.seconds:g} s; send less at a time"
        ) from None


def _too_large(most: int) -> RequestError:
    return RequestError(413, f"body: at most {most:,} bytes; send the rows in parts")


async def answer_of(work: Future[Any], limits: RequestLimits, what: str) -> Any:
    """Wait for work in another thread, but not for ever."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(work), limits.seconds)
    except TimeoutError:
        raise RequestError(504, f"{what} took longer than {limits.seconds:g} s") from None
