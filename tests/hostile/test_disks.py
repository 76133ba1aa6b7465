"""Full disks, folders that cannot be written, clocks that jump: old models stay as they were."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tell
from tell import TELL
from tell.cli.main import run

from .test_writers import environment

ROWS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let writing fail as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)


@pytest.mark.parametrize("size", [0, 100, 1000])
def test_a_full_disk_leaves_the_old_model_and_no_other_file(tmp_path: Path, size: int) -> None:
    model = TELL(3, random_state=0).fit(ROWS)
    model.save(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    model.partial_fit(ROWS)
    with files_of_at_most(size):
        for folder in ("model", "new"):
            with pytest.raises(OSError) as caught:
                model.save(tmp_path / folder)
            assert caught.value.errno in (errno.EFBIG, errno.ENOSPC)
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
    assert not (tmp_path / "new").exists()
    model.save(tmp_path / "model")  # and there is room again
    assert tell.load(tmp_path / "model")._state.seen == 120


def test_a_command_on_a_full_disk_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    TELL(3, random_state=0).fit(ROWS).save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", np.tile(ROWS, (50, 1)))
    program = """
import resource, signal, sys
from tell.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
sys.exit(main())
"""
    words = ["predict", "model", "rows.npy", "--out", "labels.csv"]
    result = subprocess.run(
        [sys.executable, "-c", program, *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
    )
    assert result.returncode == 1
    assert "labels.csv" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "rows.npy"]


@contextmanager
def not_the_owner(folder: Path) -> Iterator[None]:
    """Become somebody who may read the folder and not write there; root becomes nobody."""
    if os.geteuid():
        folder.chmod(0o555)
    else:
        for path in (folder, *folder.parents):
            path.chmod(path.stat().st_mode | 0o055)
            if path.name.startswith("pytest-of"):
                break
        os.seteuid(65534)
    try:
        yield
    finally:
        if os.getuid():
            folder.chmod(0o755)
        else:
            os.seteuid(0)


def test_the_folder_of_somebody_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = TELL(3, random_state=0).fit(ROWS)
    folder = tmp_path / "model"
    model.save(folder)
    np.save(tmp_path / "rows.npy", ROWS)
    (tmp_path / "rows.npy").chmod(0o644)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    words = ["tell", "update", str(folder), str(tmp_path / "rows.npy")]
    with not_the_owner(folder):
        mine = tell.load(folder)  # readers need no lock file
        np.testing.assert_array_equal(mine.predict(ROWS), model.predict(ROWS))
        mine.partial_fit(ROWS)
        with pytest.raises(PermissionError):
            mine.save(folder)
        monkeypatch.setattr(sys, "argv", words)
        assert run() == 2
    complaint = capsys.readouterr().err
    assert str(folder) in complaint
    assert "ermission" in complaint
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_clock_that_jumps_backwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TELL(3, random_state=0).fit(ROWS)
    model.save(tmp_path / "model")
    real = time.time
    for jump in (-1e9, 1e9, -1e9):
        monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
        os.utime(tmp_path / "model" / "model.json", (1e9 + jump / 10, 1e9 + jump / 10))
        model.partial_fit(ROWS)
        model.save(tmp_path / "model")
        assert tell.load(tmp_path / "model")._state.seen == model._state.seen
