"""How fast a service answers: `tell serve` against a bare FastAPI service with scikit-learn.

Single rows come at a fixed rate over kept connections; a latency counts from the moment at which a
request was due, so that waiting behind others is part of it. Batches come as Arrow streams, as fast
as they are answered. Updates are timed too: their answer waits for the save. Rounds are
interleaved; run it on an idle machine.

    python benchmarks/serve.py --rounds 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
from sklearn.cluster import KMeans

from recording import record
from tell import TELL

FEATURES, CLUSTERS, ROWS, BATCH = 64, 20, 100_000, 10_000
ARROW = "application/vnd.apache.arrow.stream"
CONNECTIONS = 16


def planted_rows(seed: int = 0) -> np.ndarray:
    """Return rows around as many centres as are looked for."""
    random = np.random.default_rng(seed)
    centers = random.standard_normal((CLUSTERS, FEATURES))
    noise = 0.5 * random.standard_normal((ROWS, FEATURES))
    return (centers[random.integers(CLUSTERS, size=ROWS)] + noise).astype(np.float32)


@contextmanager
def service(*command: object) -> Iterator[int]:
    """Run a service in a process of its own; give its port."""
    process = subprocess.Popen(
        list(map(str, command)),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                yield int(found.group(1))
                return
        raise RuntimeError(f"{command} did not start")
    finally:
        process.terminate()
        process.wait(timeout=30)


def post(path: str, kind: str, body: bytes) -> bytes:
    """One request as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\naccept: {kind}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection:
    """A kept connection that asks one thing at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        """Connect to a service."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def ask(self, request: bytes) -> bytes:
        """The body of a good answer."""
        self._writer.write(request)
        await self._writer.drain()
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])  # type: ignore[index]
        body = await self._reader.readexactly(length)
        if b" 200 " not in head[:20]:
            raise RuntimeError(body[:300].decode())
        return body

    def close(self) -> None:
        """End it."""
        self._writer.close()


async def at_a_rate(port: int, requests: list[bytes], rate: float, seconds: float) -> list[float]:
    """Seconds from when each request was due to its answer; a free connection takes the next."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await Connection.open(port))
    latencies: list[float] = []
    count = int(rate * seconds)

    async def one(number: int, due: float) -> None:
        connection = await free.get()
        await connection.ask(requests[number % len(requests)])
        latencies.append(time.perf_counter() - due)
        free.put_nowait(connection)

    began = time.perf_counter() + 0.1
    tasks = []
    for number in range(count):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(number, due)))
    await asyncio.gather(*tasks)
    while not free.empty():
        free.get_nowait().close()
    return latencies


async def flat_out(port: int, request: bytes, callers: int, seconds: float) -> list[float]:
    """Seconds of each request, by callers who ask again as soon as they have an answer."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def caller() -> None:
        connection = await Connection.open(port)
        while (began := time.perf_counter()) < end:
            await connection.ask(request)
            latencies.append(time.perf_counter() - began)
        connection.close()

    await asyncio.gather(*(caller() for _ in range(callers)))
    return latencies


def spread(latencies: list[float]) -> dict[str, float]:
    """Milliseconds: the middle and the slow end."""
    found = np.percentile(np.array(latencies) * 1e3, [50, 99, 99.9])
    return dict(zip(("p50_ms", "p99_ms", "p99.9_ms"), found.round(3).tolist(), strict=True)) | {
        "requests": len(latencies)
    }


def arrow_body(X: np.ndarray) -> bytes:
    """Rows as an Arrow stream, one column per feature."""
    columns = [pa.array(np.ascontiguousarray(column)) for column in X.T]
    table = pa.Table.from_arrays(columns, names=[f"x{i}" for i in range(X.shape[1])])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def singles(X: np.ndarray, path: str = "/predict") -> list[bytes]:
    """Requests of one row each."""
    bodies = (json.dumps({"rows": [row]}).encode() for row in X[:500].tolist())
    return [post(path, "application/json", body) for body in bodies]


def one_round(port: int, X: np.ndarray, arrow_path: str, options: Any) -> dict[str, Any]:
    """Latency of single rows and rate of batches of one service."""
    requests, batch = singles(X), post(arrow_path, ARROW, arrow_body(X[:BATCH]))
    asyncio.run(at_a_rate(port, requests, options.rate, 0.5))  # warm
    latencies = asyncio.run(at_a_rate(port, requests, options.rate, options.seconds))
    asyncio.run(flat_out(port, batch, 1, 0.5))
    found = {"single": spread(latencies)}
    for callers in (1, 2):
        began = time.perf_counter()
        answered = len(asyncio.run(flat_out(port, batch, callers, options.seconds)))
        rate = answered * BATCH / (time.perf_counter() - began)
        found[f"arrow_rows_per_second_{callers}"] = round(rate)  # type: ignore[assignment]
    return found


def updates(folder: Path, X: np.ndarray, seconds: float) -> dict[str, Any]:
    """Latency of /update with ten rows, whose answer waits for the save."""
    request = post("/update", "application/json", json.dumps({"rows": X[:10].tolist()}).encode())
    command = [sys.executable, "-c", "from tell.cli.main import main; main()"]
    with service(*command, "serve", folder, "--port", 0, "--learn") as port:
        asyncio.run(flat_out(port, request, 1, 0.5))
        return {
            f"{callers}_callers": spread(asyncio.run(flat_out(port, request, callers, seconds)))
            for callers in (1, 16)
        }


def median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of every number over the rounds."""
    return {
        key: median([one[key] for one in rounds])
        if isinstance(value, dict)
        else statistics.median(one[key] for one in rounds)
        for key, value in rounds[0].items()
    }


def main() -> None:
    """Run all rounds and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--rate", type=float, default=500.0, help="single rows per second")
    parser.add_argument("--trial", action="store_true", help="print, and write nothing down")
    options = parser.parse_args()
    began, X = time.perf_counter(), planted_rows()
    with tempfile.TemporaryDirectory() as home:
        folder, file = Path(home) / "model", Path(home) / "kmeans.joblib"
        TELL(CLUSTERS, random_state=0).fit(X).save(folder)
        joblib.dump(KMeans(CLUSTERS, n_init=1, random_state=0).fit(X), file)
        rounds: dict[str, list[dict[str, Any]]] = {"tell serve": [], "bare FastAPI": []}
        bare = Path(__file__).with_name("bare_service.py")
        ours = [sys.executable, "-c", "from tell.cli.main import main; main()"]
        for _ in range(options.rounds):
            with service(*ours, "serve", folder, "--port", 0) as port:
                rounds["tell serve"].append(one_round(port, X, "/predict", options))
            with service(sys.executable, bare, file) as port:
                rounds["bare FastAPI"].append(one_round(port, X, "/arrow", options))
        learned = updates(folder, X, options.seconds)
    results = {
        "services": {name: median(found) for name, found in rounds.items()},
        "updates": learned,
        "rounds": rounds,
    }
    settings = {"rows_per_batch": BATCH, "features": FEATURES, "clusters": CLUSTERS}
    settings |= {"rate": options.rate, "seconds": options.seconds, "connections": CONNECTIONS}
    if options.trial:
        print(json.dumps(results["services"] | {"updates": learned}, indent=1))
        return
    record("serve", settings, results, began=began)


if __name__ == "__main__":
    main()
