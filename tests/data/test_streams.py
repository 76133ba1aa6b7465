"""Rows that arrive by themselves: batches, loaders, lines on standard input."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from tell.data.chunks import Choice, Source
from tell.data.sources import open_source
from tell.data.streams import LineSource
from tell.exceptions import InputError

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)


def lines(content: str | bytes, **choice: object) -> Source:
    raw = content.encode() if isinstance(content, str) else content
    return LineSource(
        lambda: io.BufferedReader(io.BytesIO(raw)),
        "standard input",
        Choice(**choice),  # type: ignore[arg-type]
        65536,
        rereadable=False,
    )


def test_a_generator_is_one_pass_of_batches_of_any_size() -> None:
    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start, stop in ((0, 1), (1, 700), (700, 1797)):
            yield X[start:stop], Y[start:stop]

    source = open_source(batches(), chunk_rows=500)
    assert (source.shape, source.rereadable, source.n_rows) == ((64,), False, None)
    whole = source.read()
    np.testing.assert_array_equal(whole.X, X)
    np.testing.assert_array_equal(whole.y, Y)
    with pytest.raises(InputError, match="only once"):
        source.chunks()


def test_a_loader_is_read_again_and_keeps_the_shape_of_images() -> None:
    images = torch.from_numpy(X).reshape(-1, 1, 8, 8).requires_grad_()
    source = open_source(DataLoader(TensorDataset(images, torch.from_numpy(Y)), batch_size=100))
    assert (source.shape, source.rereadable) == ((1, 8, 8), True)
    for _ in range(2):
        np.testing.assert_array_equal(source.read().X, X)
    unlabelled = open_source(DataLoader(TensorDataset(images), batch_size=100))
    assert unlabelled.read().y is None


def test_bad_batches_are_numbered() -> None:
    with pytest.raises(InputError, match=r"batch 1 must hold rows of 3 values .* \(2, 4\)"):
        open_source(iter([np.ones((2, 3)), np.ones((2, 4))])).read()
    with pytest.raises(InputError, match=r"row 2, column 1 .* missing"):
        open_source(iter([np.ones((2, 3)), np.array([[1, np.nan, 2]])])).read()
    with pytest.raises(InputError, match="one label per row"):
        open_source(iter([(np.ones((2, 3)), np.ones(3))]))
    with pytest.raises(InputError, match="at least one row"):
        open_source(iter([]))
    with pytest.raises(InputError, match="reshape"):
        open_source(iter([np.ones(3)]))
    with pytest.raises(InputError, match="columns cannot be chosen"):
        open_source(iter([X]), drop=[0])


def test_csv_and_json_lines_are_recognised() -> None:
    for text in (
        "a,b,kind\n1,2,x\n3,4,y\n",
        '{"a": 1, "b": 2, "kind": "x"}\n\n{"kind": "y", "b": 4, "a": 3}',
    ):
        source = lines(text, label="kind")
        assert source.feature_names == ["a", "b"]
        whole = source.read()
        np.testing.assert_array_equal(whole.X, [[1, 2], [3, 4]])
        np.testing.assert_array_equal(whole.y, ["x", "y"])
    for text in ("1,2\n3,4", "[1, 2]\n[3, 4]\n"):
        source = lines(text)
        assert source.feature_names is None
        np.testing.assert_array_equal(source.read().X, [[1, 2], [3, 4]])


def test_lines_without_a_header_take_the_names_asked_for() -> None:
    """What `tail -f` gives begins in the middle of a file."""
    source = lines("1,2\n3,4\n", columns=["width", "height"])
    assert source.feature_names == ["width", "height"]
    np.testing.assert_array_equal(source.read().X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(lines("1,2\n", columns=["1", "0"]).read().X, [[2, 1]])
    with pytest.raises(InputError, match="no column 'width'"):
        lines("1,2,3\n", columns=["width", "height"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,x\n", "row 1 .* holds 'x' in column 'b'"),
        ("a,b\n1,2\n3\n", "row 1 .* has 1 fields"),
        ("a,b\n", "at least one row"),
        ("\n\n", "at least one row"),
        (b"\xff\xfe,1\n", "UTF-8"),
        ('{"a": 1}\n{"a": }\n', "row 1 is not JSON"),
        ('{"a": 1}\n{"b": 1}\n', "row 1, column 'a' .* missing"),
        ('{"a": 1}\n3\n', "row 1 must be a JSON object"),
        ('{"a": 1}\n{"a": "x"}\n', "column 'a' holds string .row 1: 'x'"),
        ('{"a": "x"}\n', "column 'a' holds string"),
        ('{"a": NaN}\n', "column 'a' .* missing"),
    ],
)
def test_bad_lines_are_numbered(text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lines(text).read()


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("a,b\n" + "1,2\n" * 7, "3\n"),
        ("a,b\n" + "1,2\n" * 7, "3,x\n1,2\n"),
        ("a,b\n" + "1,2\n" * 7, "inf,2\n1,2\n"),
        ("a,b,c\n" + '1,2,"in two\nlines"\n' * 7, '1,x,"in two\nlines"\n'),
        ('{"a": 1, "b": 2, "c": "\\""}\n' * 7, '{"a": 1, "b": }\n{"a": 1, "b": 2}\n'),
    ],
)
def test_rows_above_a_bad_line_are_given_first(text: str, bad: str) -> None:
    source = lines(text + bad, columns=["a", "b"])
    found: list[np.ndarray] = []
    with pytest.raises(InputError, match="row 7"):
        found.extend(chunk.X for chunk in source.chunks())
    np.testing.assert_array_equal(np.concatenate(found), [[1, 2]] * 7)


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_noise_is_refused_or_read(raw: bytes) -> None:
    with contextlib.suppress(InputError):
        assert np.isfinite(lines(raw).read().X).all()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30))
@settings(max_examples=30, deadline=None)
def test_lines_survive_being_cut_anywhere(sizes: list[int]) -> None:
    class Trickle(io.RawIOBase):
        """Gives a few bytes at a time, as a slow pipe does."""

        def __init__(self, raw: bytes) -> None:
            self.rest, self.turn = raw, 0

        def readable(self) -> bool:
            return True

        def readinto(self, target: memoryview) -> int:  # type: ignore[override]
            size = min(sizes[self.turn % len(sizes)], len(target), len(self.rest))
            target[:size], self.rest = self.rest[:size], self.rest[size:]
            self.turn += 1
            return size

    raw = "\n".join(",".join(map(str, row)) for row in X[:20, 20:24]).encode()
    source = LineSource(
        lambda: io.BufferedReader(Trickle(raw)), "pipe", Choice(), 7, rereadable=False
    )
    chunks = list(source.chunks())
    assert [chunk.start for chunk in chunks] == list(
        np.cumsum([0, *map(len, chunks)])[: len(chunks)]
    )
    np.testing.assert_array_equal(np.concatenate([c.X for c in chunks]), X[:20, 20:24])


def test_a_line_is_handed_on_before_the_next_one_is_written() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pen:
        pen.write(b"a,b\n1,2\n")
        source = LineSource(lambda: stream, "pipe", Choice(), 100, rereadable=False)
        chunks = source.chunks()
        stuck = threading.Timer(20, pen.close)
        stuck.start()
        for row in ([1, 2], [3, 4], [5, 6]):
            np.testing.assert_array_equal(next(chunks).X, [row])
            pen.write(",".join(str(value + 2) for value in row).encode() + b"\n")
        stuck.cancel()
        assert not pen.closed


def test_standard_input_and_files_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    rows = [{"a": float(row[20]), "b": float(row[21])} for row in X]
    path.write_text("\n".join(map(json.dumps, rows)))
    source = open_source(path, columns=["b", "a"])
    for _ in range(2):
        np.testing.assert_array_equal(source.read().X, X[:, [21, 20]])
    script = "from tell.data.sources import open_source; print(open_source('-').read().X.sum())"
    with path.open("rb") as file:
        done = subprocess.run([sys.executable, "-c", script], stdin=file, capture_output=True)
    assert float(done.stdout) == X[:, 20:22].sum(), done.stderr
