"""Files as offices write them give the rows of a plain CSV."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tell import TablePreparation, open_source
from tell.exceptions import InputError

TABLE = pd.DataFrame(
    {
        "Größe": [1.5, 2.25, 1234.5, -0.125] * 6,
        "Zahl": [1.0, 2.0, 3.0, 5.0] * 6,
        "Stadt": ["Köln", "Ulm", "Köln", "Bonn"] * 6,
    }
)


def german(path: Path, encoding: str, delimiter: str = ";") -> None:
    lines = [delimiter.join(TABLE.columns)]
    for size, number, city in TABLE.itertuples(index=False):
        text = f"{size:,.3f}".replace(",", "_").replace(".", ",").replace("_", ".")
        lines.append(delimiter.join([text, f"{number:.0f}", city]))
    path.write_bytes(("\r\n".join(lines) + "\r\n").encode(encoding))


WRITERS: dict[str, Callable[[Path], None]] = {
    "utf8.csv": lambda path: german(path, "utf-8"),
    "mark.csv": lambda path: german(path, "utf-8-sig"),
    "latin.csv": lambda path: german(path, "latin-1"),
    "utf16.csv": lambda path: german(path, "utf-16"),
    "tabs.csv": lambda path: german(path, "cp1252", "\t"),
    "sheet.xlsx": lambda path: TABLE.to_excel(path, index=False),
    "array.json": lambda path: path.write_text(TABLE.to_json(orient="records")),
    "lines.json": lambda path: path.write_text(TABLE.to_json(orient="records", lines=True)),
    "plain.csv": lambda path: TABLE.to_csv(path, index=False),
}


@pytest.mark.parametrize("name", list(WRITERS))
def test_every_way_of_writing_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    expected = TablePreparation(types={"Zahl": "number"}).fit(TABLE)
    found = TablePreparation(types={"Zahl": "number"}).fit(tmp_path / name)
    assert found.preparation_ == expected.preparation_
    np.testing.assert_array_equal(found.transform(tmp_path / name), expected.transform(TABLE))


def test_a_decimal_comma_is_read_without_a_preparation_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1,5;2\n-3;0,25\n")
    assert open_source(tmp_path / "a.csv").read().X.tolist() == [[1.5, 2], [-3, 0.25]]
    (tmp_path / "b.csv").write_text("1,5;2\n3;0,25\n")
    assert open_source(tmp_path / "b.csv").read().X.tolist() == [[1.5, 2], [3, 0.25]]


def test_a_point_stays_a_point(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1.5;x,y\n2.5;z\n")
    found = open_source(tmp_path / "a.csv", columns=["a"]).read().X
    assert found.tolist() == [[1.5], [2.5]]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.xlsx", b"no zip", "not a readable Excel"),
        ("a.json", b"[1, 2", "not JSON"),
        ("a.json", b"[1, 2]", "row 0 .*object or an array"),
        ("a.json", b"[]", "at least one row"),
    ],
)
def test_broken_files_are_named(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        open_source(tmp_path / name)


def test_arrays_in_json_have_numbered_columns(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([[1, 2.5], [3, None]]))
    X = open_source(tmp_path / "a.json", columns=["0"]).read().X
    assert X.tolist() == [[1.0], [3.0]]
