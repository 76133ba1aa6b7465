"""Files are whole or not there: kills, full disks, links and several writers at once."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tell import files
from tell.files import remove_leftovers, whole_file, write_whole


@pytest.fixture(params=["nameless", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to make a new file: without a name until it is whole, and with one at once."""
    if request.param == "named":
        monkeypatch.setattr(files.sys, "platform", "darwin")
    elif sys.platform != "linux":
        pytest.skip("only Linux has files without a name")
    return str(request.param)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_and_replaces_the_old_one(tmp_path: Path, way: str) -> None:
    target = tmp_path / "x.bin"
    target.write_bytes(b"old")
    with whole_file(target) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
        assert len(names(tmp_path)) == (1 if way == "nameless" else 2)
    assert target.read_bytes() == b"new"
    assert names(tmp_path) == ["x.bin"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, way: str, error: type[BaseException]
) -> None:
    target = tmp_path / "x.bin"
    target.write_bytes(b"old")
    with pytest.raises(error), whole_file(target) as file:  # noqa: PT012
        file.write(b"new")
        raise error
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["x.bin"]


def test_links_in_the_folder_lead_nowhere(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even one with the very name that will be used: the file is made anew or not at all."""
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    folder = tmp_path / "folder"
    folder.mkdir()
    for guess in (".x.bin.part", ".x.bin.tmp", "x.bin.partial"):
        (folder / guess).symlink_to(victim)
    write_whole(folder / "x.bin", b"new")
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0" * 2 * n)
    (folder / f".y.bin.{'0' * 16}.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(folder / "y.bin", b"new")
    assert victim.read_text() == "precious"


def test_a_target_that_is_a_link_is_replaced_and_not_followed(tmp_path: Path, way: str) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    (tmp_path / "x.bin").symlink_to(victim)
    write_whole(tmp_path / "x.bin", b"new")
    assert victim.read_text() == "precious"
    assert (tmp_path / "x.bin").read_bytes() == b"new"


def test_a_full_disk_leaves_no_file_behind_and_is_named(tmp_path: Path, way: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(OSError, match=r"x\.bin") as caught:
            write_whole(tmp_path / "x.bin", bytes(1 << 17))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
    assert caught.value.errno == errno.EFBIG
    assert names(tmp_path) == []


def test_rights_are_those_that_the_user_usually_gives(tmp_path: Path, way: str) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "x", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_names_of_any_length_and_alphabet(tmp_path: Path, way: str) -> None:
    for name in ("ü" * 120, "a" * 250, "[*]?", "x\ny"):
        write_whole(tmp_path / name, b"1")
        write_whole(tmp_path / name, b"2")
        assert (tmp_path / name).read_bytes() == b"2"
    assert len(names(tmp_path)) == 4


KILLED = """
    import os, signal, sys
    from tell import files
    if sys.argv[2] == "named":
        files.sys.platform = "darwin"
    else:  # the one moment at which such a file has a name and is not in its place
        files.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    with files.whole_file(sys.argv[1]) as file:
        file.write(b"half")
        file.flush()
        if sys.argv[2] == "named":
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_writer_removes_what_a_dead_one_left(tmp_path: Path, way: str) -> None:
    target = tmp_path / "x.bin"
    target.write_bytes(b"old")
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(target), way]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    assert len(names(tmp_path)) == 2
    (tmp_path / ".x.bin.part").write_text("not ours")
    write_whole(target, b"new")
    assert names(tmp_path) == [".x.bin.part", "x.bin"]


def test_the_file_of_a_living_writer_is_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.sys, "platform", "darwin")
    target = tmp_path / "x.bin"
    with whole_file(target) as file:
        file.write(b"first")
        remove_leftovers(target)
        write_whole(target, b"second")
    assert target.read_bytes() == b"first"
    assert names(tmp_path) == ["x.bin"]


def test_many_writers_of_one_file(tmp_path: Path, way: str) -> None:
    target, failures, end = tmp_path / "x.bin", list[Any](), time.monotonic() + 1.0

    def write(letter: bytes) -> None:
        try:
            while time.monotonic() < end:
                write_whole(target, letter * 10_000)
                seen = target.read_bytes()
                assert len(seen) == 10_000
                assert len(set(seen)) == 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert names(tmp_path) == ["x.bin"]


def test_a_missing_folder_is_named(tmp_path: Path, way: str) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"), whole_file(tmp_path / "nowhere" / "x"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be locked there")
def test_folders_of_killed_processes_go_however_young(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "work-abandoned").mkdir()
    (tmp_path / ".work-new").mkdir()
    with files.scratch_folder("work-") as outer, files.scratch_folder("work-") as inner:
        assert not (tmp_path / "work-abandoned").exists()
        assert outer.exists()  # its lock tells the second that it is in use
        assert inner.exists()
        assert (tmp_path / ".work-new").exists()  # it may be about to get its lock
    assert names(tmp_path) == [".work-new"]
    monkeypatch.setattr(files, "_SETTLING", 0.0)
    with files.scratch_folder("work-"):
        pass
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be locked there")
def test_a_scratch_folder_goes_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ZeroDivisionError), files.scratch_folder("work-"):
        _ = 1 / 0
    assert names(tmp_path) == []
