"""The readers of foreign files: right on whole files, one clear error on any other."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tell.data.cifar import json_labels, pickled_images, read_pickle, sheet_images
from tell.data.idx import read_idx
from tell.exceptions import InputError

fuzzed = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def read_or_refuse(read: Callable[[Path], Any], path: Path) -> Any:
    """Return what was read, or None after the one error that is allowed."""
    try:
        return read(path)
    except InputError as error:
        message = str(error)
    assert str(path) in message
    return None


def cifar_bytes(images: np.ndarray, labels: list[int]) -> bytes:
    """Write what Python 2 with an old NumPy wrote: byte strings, protocol 2, numpy.core."""

    def text(content: bytes) -> bytes:
        return b"T" + struct.pack("<i", len(content)) + content

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    dtype = (
        b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
        b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    )
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        + (number(0) + b"\x85" + text(b"b") + b"\x87R")
        + (b"(" + number(1) + number(images.shape[0]) + number(images.shape[1]) + b"\x86")
        + (dtype + b"\x89" + text(images.tobytes()) + b"tb")
    )
    listed = b"](" + b"".join(number(label) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + listed + b"u."


IMAGES = np.random.default_rng(0).integers(0, 256, (3, 3072), dtype=np.uint8)
LABELS = [3, 0, 9]


def damage(whole: bytes) -> st.SearchStrategy[bytes]:
    """Give files like `whole` with bytes cut off, changed or put in, and files of pure noise."""
    place = st.integers(0, len(whole) - 1)
    changed = st.tuples(place, st.binary(min_size=1, max_size=8), st.integers(0, 8)).map(
        lambda cut: whole[: cut[0]] + cut[1] + whole[cut[0] + cut[2] :]
    )
    return st.one_of(st.binary(max_size=200), place.map(lambda at: whole[:at]), changed)


def test_whole_files_are_read(tmp_path: Path) -> None:
    cube = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "cube").write_bytes(idx_bytes(cube))
    (tmp_path / "cube.gz").write_bytes(gzip.compress(idx_bytes(cube)))
    np.testing.assert_array_equal(read_idx(tmp_path / "cube"), cube)
    np.testing.assert_array_equal(read_idx(tmp_path / "cube.gz"), cube)

    (tmp_path / "batch").write_bytes(cifar_bytes(IMAGES, LABELS))
    X, Y = pickled_images(tmp_path / "batch", b"labels")
    np.testing.assert_array_equal(X, IMAGES)
    np.testing.assert_array_equal(Y, np.reshape(LABELS, (3, 1)))

    pixels = IMAGES.reshape(3, 3, 1024).transpose(0, 2, 1)
    Image.fromarray(pixels).save(tmp_path / "sheet.png")
    np.testing.assert_array_equal(sheet_images(tmp_path / "sheet.png"), IMAGES)

    (tmp_path / "labels.json").write_text("[3, 0, 9]")
    np.testing.assert_array_equal(json_labels(tmp_path / "labels.json"), LABELS)


@fuzzed
@given(st.data(), st.sampled_from(["", ".gz"]))
def test_damaged_idx_is_refused_or_harmless(tmp_path: Path, data: st.DataObject, end: str) -> None:
    array = np.arange(60, dtype=np.uint8).reshape(5, 3, 4)
    whole = gzip.compress(idx_bytes(array)) if end else idx_bytes(array)
    path = tmp_path / f"file{end}"
    path.write_bytes(data.draw(damage(whole)))
    array = read_or_refuse(read_idx, path)
    assert array is None or array.dtype == np.uint8


@fuzzed
@given(damage(cifar_bytes(IMAGES[:, :12], LABELS)))
def test_damaged_pickles_are_refused_or_harmless(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "batch"
    path.write_bytes(raw)
    content = read_or_refuse(read_pickle, path)
    assert content is None or isinstance(content, dict)
    images = read_or_refuse(lambda file: pickled_images(file, b"labels"), path)
    assert images is None or len(images[0]) == len(images[1])


@fuzzed
@given(st.data())
def test_damaged_sheets_are_refused_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "sheet.png"
    Image.fromarray(np.zeros((1, 1024, 3), np.uint8)).save(path)
    path.write_bytes(data.draw(damage(path.read_bytes())))
    images = read_or_refuse(sheet_images, path)
    assert images is None or images.shape[1] == 3072


@fuzzed
@given(damage(b"[1, 2, 3]") | st.just(b"[" * 100_000))
def test_damaged_labels_are_refused_or_harmless(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "labels.json"
    path.write_bytes(raw)
    labels = read_or_refuse(json_labels, path)
    assert labels is None or labels.max(initial=0) < 100


class Attack:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("attacked",)


@pytest.mark.parametrize(
    "raw",
    [
        *(pickle.dumps(Attack(), protocol) for protocol in range(6)),
        pickle.dumps({b"data": Attack()}, 2),
        b"\x80\x02cos\nmkdir\n(U\x08attackedtR.",
        b"\x80\x02cnumpy\nload\nU\x01x\x85R.",
        b"\x80\x02cbuiltins\neval\nU\x011\x85R.",
        # A memo number of two thousand million would allocate gigabytes in the unpickler.
        b"\x80\x02]r\xff\xff\xff\x7f.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    ],
)
def test_malicious_pickles_run_nothing(
    raw: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train"
    path.write_bytes(raw)
    with pytest.raises(InputError, match="not a whole CIFAR file"):
        read_pickle(path)
    assert not (tmp_path / "attacked").exists()


def test_a_bomb_is_not_unpacked_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tell.data.idx._MOST_BYTES", 1 << 16)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    with pytest.raises(InputError, match="more than 65536 bytes"):
        read_idx(path)
