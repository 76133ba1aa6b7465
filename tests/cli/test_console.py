"""Safe text, pure JSON, short warnings."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tell.cli.console import plain, print_json, say, short_warnings


@given(st.text())
def test_plain_text_is_one_printable_line(text: str) -> None:
    assert plain(text).isprintable()
    assert plain(text).encode("utf-8").decode("utf-8") == plain(text)


def test_markup_and_half_characters_are_printed_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say("[bold]x[/nothing] \udcff \x1b[2J")
    assert capsys.readouterr().err == "[bold]x[/nothing] \\udcff \\x1b[2J\n"


def test_json_is_valid_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(
        {"a": np.float32("nan"), "b": [float("inf"), np.int64(3)], "c": np.eye(2), "é": None}
    )
    text = capsys.readouterr().out
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == {
        "a": None,
        "b": [None, 3],
        "c": [[1.0, 0.0], [0.0, 1.0]],
        "é": None,
    }


def test_warnings_are_single_lines_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    with short_warnings():
        for _ in range(3):
            warnings.warn("rows drift", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: rows drift\n"
