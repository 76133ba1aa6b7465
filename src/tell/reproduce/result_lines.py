"""Results in JSON Lines: one file per data set, one line per run, sorted by method and seed.

A file is replaced whole, under a lock that ends with its process: several processes may add runs
to one folder, and whatever kills one of them leaves the file as it was before or after its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tell.files import locked, write_whole

Record = dict[str, Any]
Identity = tuple[str, int, str]
#: What was read of a file, and the state of the file at that time.
_read: dict[Path, tuple[tuple[int, int, int], dict[Identity, Record]]] = {}


def identity(record: Record) -> Identity:
    """What tells a result from the others of its file: method, seed and the settings' fingerprint.

    >>> identity({"run": {"method": {"name": "sc"}, "seed": 2}, "fingerprint": "0f"})
    ('sc', 2, '0f')
    """
    run = record["run"]
    return str(run["method"]["name"]), int(run["seed"]), str(record["fingerprint"])


def read_lines(file: Path) -> dict[Identity, Record]:
    """Read all results of a file; a damaged line, such as one that was cut short, is none."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return {}
    state = found.st_ino, found.st_mtime_ns, found.st_size
    if file not in _read or _read[file][0] != state:  # tables ask for every run several times
        _read[file] = state, _parsed(file)
    return _read[file][1]


def add_lines(file: Path, records: Iterable[Record]) -> None:
    """Add results; one with the identity of an earlier one takes its place."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with locked(file.parent):
        known = _parsed(file) if file.exists() else {}
        lines = known | {identity(record): record for record in records}
        text = "".join(f"{_line(lines[name])}\n" for name in sorted(lines))
        write_whole(file, text.encode())


def _parsed(file: Path) -> dict[Identity, Record]:
    found: dict[Identity, Record] = {}
    for line in file.read_bytes().splitlines():
        with suppress(ValueError, KeyError, TypeError):
            record = json.loads(line)
            found[identity(record)] = record
    return found


def _line(record: Record) -> str:
    return json.dumps(record, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Turn NumPy's numbers and arrays into what JSON knows."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
