"""One generator of damage: what storage, transfers, other programs and attackers do to bytes."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

# Values that stand for what a liar writes: other types, extremes, deep and long things.
LIES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(2**63), 1e9, 1e308, -0.0, float("nan"),
    float("inf"), "", "x", "\ud800", "\0", "../../x", "os:abort", "a" * 10_000, [], {}, [[]], [1],
    {"x": 1}, [None] * 100, {"": {"": {}}},
)  # fmt: skip


def flip(rng: random.Random, raw: bytes) -> bytes:
    """Turn a few bits."""
    damaged = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 32))):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def truncate(rng: random.Random, raw: bytes) -> bytes:
    """Cut the end off, more often a little of it or almost all."""
    part = rng.choice((rng.random(), rng.random() ** 8, 1 - rng.random() ** 8))
    return raw[: int(part * len(raw))]


def splice(rng: random.Random, raw: bytes) -> bytes:
    """Copy one part over, or into, another."""
    length = 1 + int(rng.random() ** 3 * len(raw))
    start, end = rng.randrange(len(raw)), rng.randrange(len(raw))
    return raw[:end] + raw[start : start + length] + raw[end + rng.choice((0, length)) :]


def overwrite(rng: random.Random, raw: bytes) -> bytes:
    """Put extreme bytes where numbers and lengths stand."""
    piece = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\n", b'"', b",", b"9")) * rng.choice(
        (1, 2, 4, 8, 64)
    )
    at = rng.randrange(len(raw))
    return raw[:at] + piece + raw[at + len(piece) :]


def insert(rng: random.Random, raw: bytes) -> bytes:
    """Put bytes between others."""
    at = rng.randrange(len(raw) + 1)
    return raw[:at] + rng.randbytes(rng.choice((1, 2, 7, 300))) + raw[at:]


def lie_in_numbers(rng: random.Random, raw: bytes) -> bytes:
    """Write another number where digits stand, as in headers."""
    places = list(re.finditer(rb"\d+", raw[:100_000]))
    if not places:
        return flip(rng, raw)
    place = rng.choice(places)
    number = rng.choice((b"0", b"-1", b"1e400", b"99999999999999999999", b"18446744073709551616"))
    return raw[: place.start()] + number + raw[place.end() :]


BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flip,
    truncate,
    splice,
    overwrite,
    insert,
    lie_in_numbers,
)


def damaged(rng: random.Random, raw: bytes) -> bytes:
    """Damage bytes in one way or in two."""
    for _ in range(rng.choice((1, 1, 2))):
        raw = rng.choice(BYTES)(rng, raw) if raw else raw
    return raw


def lied(rng: random.Random, content: Any) -> Any:
    """Copy JSON with one part replaced, removed, renamed or added."""
    content = json.loads(json.dumps(content))
    places = list(_places(content))
    parent, key = rng.choice(places)
    action = rng.random()
    if action < 0.7:
        parent[key] = rng.choice(LIES)
    elif action < 0.85:
        del parent[key]
    elif isinstance(parent, dict):
        parent[f"{key}x"] = parent.pop(key)
    else:
        parent.insert(key, rng.choice(LIES))
    return content


def _places(content: Any) -> Any:
    keys = content if isinstance(content, dict) else range(len(content))
    for key in keys:
        yield content, key
        if isinstance(content[key], dict | list) and content[key]:
            yield from _places(content[key])
