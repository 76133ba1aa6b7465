"""The service as people start it: a process of its own, killed, doubled, stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from tests.serving.conftest import blob_rows

import tell

TOKEN = "correct-horse-battery-staple"


class Server:
    """`tell serve` with some options, until it is ended."""

    def __init__(self, *args: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from tell.cli.main import main; raise SystemExit(main())",
             "serve", *map(str, args), "--port", "0"],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip
        self.said = ""

    def address(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                return found.group()
        raise AssertionError(self.said)

    def ended(self) -> tuple[int, str]:
        """Exit code and all that was said."""
        _, rest = self.process.communicate(timeout=60)
        return self.process.returncode, self.said + rest


def call(url: str, content: Any = None, token: str | None = TOKEN) -> Any:
    headers = {"content-type": "application/json"}
    headers |= {} if token is None else {"authorization": f"Bearer {token}"}
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def begin(*args: object) -> Server:
        servers.append(Server(*args))
        return servers[-1]

    yield begin
    for server in servers:
        server.process.kill()
        server.process.communicate(timeout=30)


@pytest.mark.skipif(sys.platform == "win32", reason="kills as Linux does")
def test_killed_doubled_and_stopped(
    folder: Callable[[str], Path], start: Callable[..., Server], tmp_path: Path
) -> None:
    """One test, because every start loads torch."""
    place = folder("blobs")
    (tmp_path / "token").write_text(TOKEN)
    first = start(place, "--learn", "--token-file", tmp_path / "token")
    url = first.address()
    assert call(f"{url}/healthz", token=None) == {"status": "ok"}
    with pytest.raises(urllib.error.HTTPError, match="401"):
        call(f"{url}/model", token=None)
    second = start(place, "--learn")
    code, said = second.ended()
    assert code == 2
    assert "is being served with --learn by another process" in said
    assert "Traceback" not in said

    rows = blob_rows()[:40].tolist()
    answers: list[int] = []

    def teach() -> None:
        with suppress(OSError, HTTPException):
            while True:
                answers.append(call(f"{url}/update", rows)["rows"])

    callers = [threading.Thread(target=teach) for _ in range(3)]
    for caller in callers:
        caller.start()
    while len(answers) < 10:
        time.sleep(0.01)
    first.process.send_signal(signal.SIGKILL)
    for caller in callers:
        caller.join()
    kept = tell.load(place).n_seen_ - len(blob_rows())
    # All that was confirmed, and perhaps what was on its way.
    assert sum(answers) <= kept <= sum(answers) + 3 * 40

    again = start(place, "--learn")
    url = again.address()
    assert call(f"{url}/model", token=None)["rows_seen"] == kept + len(blob_rows())
    assert len(call(f"{url}/predict", rows, token=None)["cluster"]) == 40
    again.process.send_signal(signal.SIGTERM)
    code, said = again.ended()
    assert (code, "Traceback" in said) == (0, False), said
    assert not (place / ".learning").exists()


def test_a_port_that_is_taken_is_named(start: Callable[..., Server]) -> None:
    import socket

    from tell.cli.serve import listen
    from tell.exceptions import ParameterError

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ParameterError, match=f"port {port}: address already in use"):
            listen("127.0.0.1", port)
