"""How much memory the rows and the single pieces of a file may take; one error for all damage."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from tell.exceptions import DataUnavailableError, InputError, ParameterError, TellError

VARIABLE = "TELL_MAX_BYTES"
DEFAULT = 1 << 28  # 256 MiB

#: Rows of files, and what fitting them needs per row, stay below this unless a user says otherwise.
DEFAULT_MEMORY = "1GiB"

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_LEAST = 1 << 20


def as_bytes(memory: Any) -> int:
    """Read an amount of memory.

    Parameters
    ----------
    memory : int or str
        Bytes, or a number with a unit: "500MB" (10⁶), "2GB" (10⁹), "1GiB" (2³⁰).

    Examples
    --------
    >>> as_bytes("2GB"), as_bytes("1.5 GiB"), as_bytes(1 << 30)
    (2000000000, 1610612736, 1073741824)
    """
    found = _AMOUNT.fullmatch(str(memory))
    if isinstance(memory, bool) or found is None:
        raise ParameterError(
            f"memory must be a number of bytes or a text such as '500MB' or '2GB', got {memory!r}"
        )
    number, unit, binary = found.groups()
    amount = int(float(number) * (_BINARY if binary else _UNITS)[unit.lower()])
    if amount < _LEAST:
        raise ParameterError(f"memory must be at least 1 MiB, got {memory!r}; pass such as '500MB'")
    return amount


def most_bytes() -> int:
    """The most memory that one indivisible piece of a file may take: a line, a row, an image.

    A few megabytes of a compressed file can ask for any amount; `TELL_MAX_BYTES` sets the limit.
    """
    text = os.environ.get(VARIABLE, str(DEFAULT))
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"{VARIABLE} must be a number of bytes, got {text!r}")
    return int(text)


def check_size(size: int, what: str, name: str) -> None:
    """Refuse a piece that is too large, before memory is taken for it.

    >>> check_size(10**10, "a row", "wide.npz")
    Traceback (most recent call last):
    tell.exceptions.InputError: wide.npz: a row takes 10,000,000,000 bytes, more than the limit of
    268,435,456; if it is meant so, set TELL_MAX_BYTES to a higher one
    """
    if size > (most := most_bytes()):
        raise InputError(
            f"{name}: {what} takes {size:,} bytes, more than the limit of {most:,}; if it is "
            f"meant so, set {VARIABLE} to a higher one"
        )


def read_line(stream: IO[bytes], name: str) -> bytes:
    """Read a line, if it is no longer than a quarter of the limit: as text it takes far more."""
    most = most_bytes() // 4
    line = stream.readline(most + 1)
    if len(line) > most:
        raise InputError(
            f"{name}: a line takes more than {most:,} bytes, a quarter of the limit; if it is "
            f"meant so, set {VARIABLE} to more than {4 * most:,}"
        )
    return line


def lines_of(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Give the lines of a stream, each within the limit."""
    while line := read_line(stream, name):
        yield line


@contextmanager
def decoding(name: str, kind: str) -> Iterator[None]:
    """Name the file, whatever a decoder says about its bytes.

    Decoders of foreign bytes fail in many ways; all mean the same to the reader.
    """
    try:
        yield
    except TellError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise DataUnavailableError(f"{name} cannot be read: {error.strerror}") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{name} is not a readable {kind} file ({reason}); write it again"
        ) from None
