"""Foreign bytes: how much memory one piece of them may take, and one error for all their damage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tell.exceptions import DataUnavailableError, InputError, ParameterError, TellError

VARIABLE = "TELL_MAX_BYTES"
DEFAULT = 1 << 28  # 256 MiB


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
