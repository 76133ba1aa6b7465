"""IDX, the format of MNIST and its relatives: a strict reader for unsigned bytes."""

from __future__ import annotations

import gzip
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.exceptions import InputError

_UNSIGNED_BYTE = 0x08
_MOST_DIMENSIONS = 8
# The largest set here, Fashion-MNIST, holds 47 million bytes; no more is ever decompressed.
_MOST_BYTES = 1 << 28


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, plain or gzipped.

    Parameters
    ----------
    path : Path

    Returns
    -------
    ndarray of uint8, with the shape that the file states

    Raises
    ------
    InputError
        If the file is damaged, truncated, too long or of another type.
    """
    raw = _content(path)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != _UNSIGNED_BYTE:
        raise _damaged(path, "it does not start like an IDX file of unsigned bytes")
    dimensions = raw[3]
    header = 4 + 4 * dimensions
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise _damaged(path, f"it states {dimensions} dimensions")
    if len(raw) < header:
        raise _damaged(path, "its header is cut off")
    shape = tuple(int(size) for size in np.frombuffer(raw, ">u4", dimensions, offset=4))
    if len(raw) - header != prod(shape):
        raise _damaged(path, f"it states the shape {shape} but holds {len(raw) - header} bytes")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def _content(path: Path) -> bytes:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            raw: bytes = file.read(_MOST_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(path, str(error)) from None
    if len(raw) > _MOST_BYTES:
        raise _damaged(path, f"it holds more than {_MOST_BYTES} bytes")
    return raw


def _damaged(path: Path, why: str) -> InputError:
    return InputError(f"{path} is not a whole IDX file: {why}; fetch it again")
