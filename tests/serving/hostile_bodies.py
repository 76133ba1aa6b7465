"""Bodies that nobody means well with, made from good ones by a seed.

More of them: `python -m tests.serving.hostile_bodies --cases 100000`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.serving.conftest import flower_table, records, shop_table
from tests.serving.test_answers import ARROW, arrow_body

PATHS = ("/predict", "/predict?proba=1&distances=1", "/predict?reject=0.1", "/explain", "/update")
KINDS = ("application/json", "text/csv", "application/x-ndjson", ARROW)
CELLS: tuple[Any, ...] = (
    None, True, False, 0, -1, 1e308, -1e308, 1e-320, 10**30, 10**400, -(10**25), "", " ", "NaN",
    "inf", "-Infinity", "1e999", "\x00", "\ud800", "x" * 5000, "1,2", '"', "'", "2024-02-30", "yes",
    "ı", "🙂", [], [1], {}, {"a": 1}, [[[[]]]],
)  # fmt: skip
WORDS = (b"NaN", b"Infinity", b"1e999", b"\x00", b"\xff\xfe", b'"', b"\n", b"\r", b",", b"{", b"]",
         b"-", b"\\ud800", b"9" * 5000, b"[" * 3000, b"\xef\xbb\xbf", b"ARROW1")  # fmt: skip


def cases(count: int, seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Path, content type and body of each request."""
    draw = random.Random(seed)
    good = _good()
    for _ in range(count):
        kind, body = draw.choice(good)
        wreck = draw.choice((_cells, _bytes, _bytes, _cut, _words, _shape))
        sent = kind if draw.random() < 0.9 else draw.choice(KINDS)
        yield draw.choice(PATHS), sent, wreck(draw, kind, body)


def _good() -> list[tuple[str, bytes]]:
    found = []
    for table in (flower_table().iloc[:3], shop_table().iloc[:3]):
        rows = records(table)
        text = table.assign(note="a").to_csv(index=False)
        coded = table.astype(dict.fromkeys(table.columns[:1], "category"))
        found += [
            (KINDS[0], json.dumps({"rows": rows}).encode()),
            (KINDS[0], json.dumps([list(row.values()) for row in rows]).encode()),
            (KINDS[1], text.encode()),
            (KINDS[1], text.encode("utf-16")),
            (KINDS[2], "\n".join(map(json.dumps, rows)).encode()),
            (ARROW, arrow_body(table)),
            (ARROW, arrow_body(coded)),
            (ARROW, arrow_body(table, options=pa.ipc.IpcWriteOptions(compression="lz4"))),
        ]
    return found


def _cells(draw: random.Random, kind: str, body: bytes) -> bytes:
    """Put a strange value into a row of JSON."""
    if kind != KINDS[0]:
        return _words(draw, kind, body)
    content = json.loads(body)
    rows = content["rows"] if isinstance(content, dict) else content
    row = draw.choice(rows)
    place = draw.choice(list(row)) if isinstance(row, dict) else draw.randrange(len(row))
    row[place] = draw.choice(CELLS)
    if draw.random() < 0.2 and isinstance(row, dict):
        del row[place]
    return json.dumps(content).encode()


def _shape(draw: random.Random, kind: str, body: bytes) -> bytes:
    """Give something else than rows."""
    other = draw.choice(CELLS)
    rows = [other] * draw.randrange(4)
    return json.dumps(draw.choice([other, rows, {"rows": other}, {"rows": rows}])).encode()


def _bytes(draw: random.Random, kind: str, body: bytes) -> bytes:
    """Change some bytes."""
    changed = bytearray(body)
    for _ in range(draw.choice((1, 1, 2, 8, 40))):
        changed[draw.randrange(len(changed))] = draw.choice((0, 255, 127, draw.randrange(256)))
    return bytes(changed)


def _cut(draw: random.Random, kind: str, body: bytes) -> bytes:
    """Leave something out, or say it twice."""
    first, last = sorted(draw.randrange(len(body) + 1) for _ in range(2))
    return draw.choice((body[:last], body[first:], body[:first] + body[last:], body + body[first:]))


def _words(draw: random.Random, kind: str, body: bytes) -> bytes:
    """Put something in between."""
    place = draw.randrange(len(body) + 1)
    return body[:place] + draw.choice(WORDS) + body[place:]


def attack(folder: Path, count: int, seed: int) -> tuple[Counter[int], list[str]]:
    """Ask a service with all cases; count the answers, and describe those that must not be."""
    from tell.serving.app import Settings, make_app
    from tell.serving.bodies import RowLimits
    from tell.serving.service import Service

    app = make_app(Service(folder, RowLimits()), Settings(), learn=True)
    codes: Counter[int] = Counter()
    wrong: list[str] = []

    async def run() -> None:
        async with app.router.lifespan_context(app):
            for path, kind, body in cases(count, seed):
                status, content = await ask(app, path, kind, body)
                codes[status] += 1
                if status >= 500 or str(folder) in content or "Traceback" in content:
                    wrong.append(f"{status} {path} {kind} {body[:200]!r} {content[:200]}")

    asyncio.run(run())
    return codes, wrong


async def ask(app: Any, path: str, kind: str, body: bytes) -> tuple[int, str]:
    """One POST, without a client in between that takes time."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
        "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        "headers": [(b"host", b"localhost"), (b"content-type", kind.encode())], "state": {},
    }  # fmt: skip
    sent: dict[str, Any] = {"status": 0, "body": b""}

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            sent["status"] = message["status"]
        else:
            sent["body"] += message.get("body", b"")

    try:
        await app(scope, receive, send)
    except Exception as error:  # it is raised again for the log, behind a 500
        sent["body"] += repr(error).encode()
    return sent["status"], sent["body"].decode(errors="replace")


if __name__ == "__main__":
    from tell import TELL

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp()) / "shop"
    TELL(4, geometry="euclidean", prepare=True, random_state=0).fit(shop_table()).save(home)
    counted, failed = attack(home, asked.cases, asked.seed)
    shutil.rmtree(home.parent)
    print(dict(sorted(counted.items())), *failed[:20], sep="\n")
    raise SystemExit(bool(failed))
