"""The two forms in which CIFAR comes: Python pickles (official) and PNG sheets with JSON labels."""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.exceptions import InputError, MissingDependencyError

_PIXELS = 32 * 32
# What the official files (protocol 2, written by Python 2) consist of, and nothing more.
_OPCODES = """
    PROTO STOP MARK NONE NEWFALSE NEWTRUE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2
    TUPLE3 APPEND APPENDS SETITEM SETITEMS BININT BININT1 BININT2 BINSTRING SHORT_BINSTRING
    BINUNICODE BINPUT LONG_BINPUT BINGET LONG_BINGET GLOBAL REDUCE BUILD
"""
_MOST_MEMOS = 1 << 18


class _Array:
    """Stand-in for a pickled ndarray: it only keeps what the file says of it."""

    state: Any = None

    def __init__(self, *_: Any) -> None: ...

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _DType(_Array):
    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments


class _Unpickler(pickle.Unpickler):
    """Builds nothing but containers, numbers, text and the inert stand-ins above."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
        ):
            return _Array
        if (module, name) == ("numpy", "dtype"):
            return _DType
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which CIFAR does not need")


def read_pickle(path: Path) -> dict[bytes, Any]:
    """Read the dictionary of an official CIFAR file without running anything that it contains.

    Returns
    -------
    dict
        Lists and, in the place of arrays, uint8 ndarrays.

    Raises
    ------
    InputError
        If the file is damaged, truncated or holds anything that CIFAR files do not.
    """
    raw = path.read_bytes()
    try:
        _check_opcodes(raw)
        content = _Unpickler(io.BytesIO(raw), encoding="bytes").load()
        if not isinstance(content, dict):
            raise pickle.UnpicklingError("it is not a dictionary")
        return {
            key: _array(value) if isinstance(value, _Array) else value
            for key, value in content.items()
        }
    except Exception as error:
        # Damaged pickles fail in the unpickler in dozens of ways; all mean the same to the reader.
        raise InputError(f"{path} is not a whole CIFAR file: {error}; fetch it again") from None


def _check_opcodes(raw: bytes) -> None:
    """Refuse whatever could run code or exhaust memory before anything is built."""
    allowed = frozenset(_OPCODES.split())
    for opcode, argument, _ in pickletools.genops(raw):
        if opcode.name not in allowed:
            raise pickle.UnpicklingError(f"opcode {opcode.name} has no place in it")
        if opcode.name.endswith("PUT") and int(argument or 0) > _MOST_MEMOS:
            raise pickle.UnpicklingError("it asks for too much memory")


def _array(array: _Array) -> NDArray[np.uint8]:
    _, shape, dtype, fortran, raw = array.state
    if not isinstance(dtype, _DType) or dtype.arguments[0] not in (b"u1", "u1") or fortran:
        raise pickle.UnpicklingError("its array is not made of rows of unsigned bytes")
    if not isinstance(raw, bytes) or len(raw) != prod(shape):
        raise pickle.UnpicklingError(f"its array states the shape {shape}, holds {len(raw)} bytes")
    return np.frombuffer(raw, np.uint8).reshape(shape)


def pickled_images(path: Path, *levels: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the images (rows, 3072), channel by channel, and the labels (rows, levels)."""
    content = read_pickle(path)
    columns = [_small_numbers(content.get(level), path) for level in levels]
    X, rows = content.get(b"data"), len(columns[0])
    if not isinstance(X, np.ndarray) or X.shape != (rows, 3 * _PIXELS):
        raise InputError(
            f"{path} must hold {rows} images of {3 * _PIXELS} bytes, one per label; fetch it again"
        )
    if any(len(column) != rows for column in columns):
        raise InputError(f"{path} must hold as many coarse labels as fine ones; fetch it again")
    return X, np.stack(columns, axis=1)


def sheet_images(path: Path) -> NDArray[np.uint8]:
    """Read a PNG sheet, one image of 32 × 32 RGB pixels per row, as the pickles have them."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingDependencyError(
            "reading PNG sheets needs pillow; install it: pip install 'tell-clustering[images]'"
        ) from None
    try:
        with Image.open(path, formats=["PNG"]) as sheet:
            if sheet.mode != "RGB" or sheet.width != _PIXELS or sheet.height > 60_000:
                raise ValueError(f"{sheet.mode} of {sheet.width} × {sheet.height} pixels")
            pixels = np.asarray(sheet)
    except Exception as error:
        # Decoders of foreign bytes fail in many ways; all mean the same to the reader.
        raise InputError(f"{path} is not a whole sheet of images: {error}; fetch it") from None
    return np.ascontiguousarray(pixels.transpose(0, 2, 1)).reshape(len(pixels), -1)


def json_labels(path: Path) -> NDArray[np.uint8]:
    """Read the list of labels that stands beside the sheets."""
    try:
        return _small_numbers(json.loads(path.read_bytes()), path)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a list of labels: {error}; fetch it again") from None


def _small_numbers(values: Any, path: Path) -> NDArray[np.uint8]:
    if not isinstance(values, list) or not all(
        type(value) is int and 0 <= value < 100 for value in values
    ):
        raise InputError(f"{path} must hold one label from 0 to 99 per image; fetch it again")
    return np.array(values, dtype=np.uint8)
