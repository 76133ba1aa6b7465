"""Who may ask, how much and how long; and what an answer must never tell."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.serving.conftest import flower_table, records

from tell.exceptions import ParameterError
from tell.serving.bodies import RowLimits
from tell.serving.gate import Gate, RequestLimits, local_hosts, read_body
from tell.serving.service import Service

Start = Callable[..., TestClient]
TOKEN = "correct-horse-battery-staple"


def test_every_call_but_one_needs_the_token(client: Start) -> None:
    asked = client(token=TOKEN)
    assert asked.get("/healthz").json() == {"status": "ok"}
    for path in ("/", "/model", "/clusters", "/metrics", "/docs", "/openapi.json", "/events", "/x"):
        refused = asked.get(path)
        assert refused.status_code == 401, path
        assert "Bearer" in refused.headers["www-authenticate"]
    row = records(flower_table())[:1]
    assert asked.post("/predict", json=row).status_code == 401
    for wrong in ("Bearer ", "Bearer x", f"bearer {TOKEN}x", f"Token {TOKEN}", TOKEN, "Basic !!"):
        headers = {"authorization": wrong}
        assert asked.post("/predict", json=row, headers=headers).status_code == 401, wrong
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert asked.post("/predict", json=row, headers=headers).status_code == 200
    assert asked.get("/model", headers=headers).status_code == 200


def test_a_browser_may_look_with_the_token_as_password_but_not_teach(client: Start) -> None:
    asked = client(token=TOKEN)
    headers = {"authorization": "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()}
    assert asked.get("/", headers=headers).status_code == 200
    row = records(flower_table())[:1]
    assert asked.post("/predict", json=row, headers=headers).status_code == 401


def test_only_known_hosts_may_be_asked(client: Start) -> None:
    asked = client(hosts=local_hosts(("models.example",)))
    for host, status in (
        ("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:8000", 200),
        ("models.example", 200), ("evil.example", 421), ("localhost.evil.example", 421),
    ):  # fmt: skip
        assert asked.get("/model", headers={"host": host}).status_code == status, host


def test_bodies_have_a_limit(client: Start) -> None:
    asked = client(requests=RequestLimits(body_bytes=2000))
    rows = records(flower_table())
    assert asked.post("/predict", json=rows[:10]).status_code == 200
    assert asked.post("/predict", json=rows).status_code == 413

    def pieces() -> Any:  # without a length
        yield b"["
        for _ in range(100):
            yield json.dumps(rows[0]).encode() + b","

    refused = asked.post("/predict", content=pieces(), headers={"content-type": "application/json"})
    assert refused.status_code == 413
    assert "at most 2,000 bytes" in refused.json()["error"]


def test_rows_and_columns_have_limits(client: Start) -> None:
    asked, rows = client(rows=RowLimits(rows=5, columns=6)), records(flower_table())
    text = flower_table().to_csv(index=False).encode()
    assert asked.post("/predict", json=rows[:5]).status_code == 200
    for found in (
        asked.post("/predict", json=rows[:6]),
        asked.post("/predict", content=text, headers={"content-type": "text/csv"}),
    ):
        assert found.status_code == 413
        assert "at most 5 rows" in found.json()["error"]
    wide = rows[0] | {f"more {i}": 1 for i in range(9)}
    refused = asked.post("/predict", json=[wide])
    assert (refused.status_code, "at most 6 columns" in refused.text) == (422, True)
    header = ",".join(f"c{i}" for i in range(9)).encode()
    refused = asked.post("/predict", content=header, headers={"content-type": "text/csv"})
    assert refused.status_code == 422


def test_work_has_a_limit_of_time(client: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client(requests=RequestLimits(seconds=0.2))

    def slow(*_: object) -> Any:
        time.sleep(1)

    monkeypatch.setattr(Service, "explain", slow)
    found = asked.post("/explain", json=records(flower_table())[:1])
    assert found.status_code == 504
    assert "longer than 0.2 s" in found.json()["error"]


def ask(app: Any, path: str = "/x") -> Any:
    """One request, as a server passes it on; gives the status that comes."""
    scope = {"type": "http", "path": path, "method": "GET", "headers": []}
    status: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def run() -> int:
        await app(scope, receive, send)
        return status[0]

    return run()


class _Silent:
    def answered(self, *_: object) -> None:
        pass


def test_requests_at_a_time_have_a_limit() -> None:
    async def check() -> None:
        free = asyncio.Event()

        async def behind(scope: Any, receive: Any, send: Any) -> None:
            await free.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        gate = Gate(behind, RequestLimits(concurrent=2), _Silent())  # type: ignore[arg-type]
        waiting = [asyncio.create_task(ask(gate)) for _ in range(2)]
        await asyncio.sleep(0)
        assert await ask(gate) == 503
        free.set()
        assert [await one for one in waiting] == [200, 200]
        assert await ask(gate) == 200

    asyncio.run(check())


def test_a_body_that_never_comes_is_given_up() -> None:
    from tell.serving.refusals import RequestError

    async def never() -> Any:
        await asyncio.sleep(60)

    with pytest.raises(RequestError) as caught:
        asyncio.run(read_body({"headers": []}, never, RequestLimits(seconds=0.05)))
    assert caught.value.status == 408


def test_a_mistake_tells_nothing(client: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client()
    secret = f"{served_folder(asked)}: row 3 holds 4711"

    def broken(*_: object) -> Any:
        raise ZeroDivisionError(secret)

    monkeypatch.setattr(Service, "explain", broken)
    found = asked.post("/explain", json=records(flower_table())[:1])
    assert found.status_code == 500
    assert found.json() == {"error": "a mistake in the service; its log says more"}


def test_a_folder_that_is_gone_is_not_named(client: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from tell.exceptions import ModelFileError

    asked = client()

    def gone(*_: object) -> Any:
        raise ModelFileError(f"{served_folder(asked)} is gone")

    monkeypatch.setattr(Service, "explain", gone)
    found = asked.post("/explain", json=records(flower_table())[:1])
    assert found.status_code == 503
    assert str(served_folder(asked)) not in found.text


def served_folder(client: TestClient) -> Path:
    return Path(client.app.state.service.folder)  # type: ignore[attr-defined]


def test_unknown_paths_and_methods(client: Start) -> None:
    asked = client()
    assert asked.get("/nothing").json() == {"error": "not found"}
    found = asked.get("/predict")
    assert (found.status_code, found.headers["allow"]) == (405, "POST")


def test_encoded_bodies_are_not_unpacked(client: Start) -> None:
    found = client().post(
        "/predict",
        content=b"x",
        headers={"content-type": "application/json", "content-encoding": "gzip"},
    )
    assert found.status_code == 415


@pytest.mark.parametrize("text", ["", "short", "two words that are long enough", "ü" * 40])
def test_a_token_that_could_be_guessed_is_refused(tmp_path: Path, text: str) -> None:
    from tell.cli.serve import read_token

    (tmp_path / "token").write_text(text)
    with pytest.raises(ParameterError, match="at least 16"):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert read_token(tmp_path / "token") == TOKEN


def test_which_addresses_are_of_this_machine_alone() -> None:
    from tell.cli.serve import is_loopback

    assert all(map(is_loopback, ["127.0.0.1", "localhost", "::1", "127.1.2.3"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.168.1.2", "models.example"]))
