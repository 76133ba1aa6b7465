"""The tutorials' examples run in a folder of their own that holds the tutorials' data."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(Path(__file__).with_name("data"), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
