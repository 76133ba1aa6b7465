"""Files that are whole or not there, whatever kills the process or fills the disk.

A new file is written beside its place, confirmed by the disk, and moved there in one step. It is
made anew under a name that nobody can guess, so no link that lies in the folder leads the writing
astray. Where the system allows it the file has no name at all until it is whole; where it has
one, its writer holds a lock on it, and the next writer removes what a dead one left.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_TOKEN = 8  # bytes of chance in a temporary name
_LONGEST = 40  # characters of the target's name in it; a name may have 255 bytes
_FRESH = os.O_RDWR | os.O_CREAT | os.O_EXCL
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LOCKS = (errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.ENOLCK)
_PAUSE = 0.005  # seconds between two tries for a lock, or for a file that is being read
_PATIENCE = 5.0
_SETTLING = 5.0  # seconds in which a new scratch folder gets its lock and its name
LOCK = ".lock"  # the file that is locked where a folder cannot be
PART = re.compile(rf"\..+\.[0-9a-f]{{{2 * _TOKEN}}}\.part")  # every temporary name made here


def write_whole(path: str | os.PathLike[str], payload: bytes) -> None:
    """Write a file whole or not at all, and the folders above it where they are missing.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "new" / "greeting.txt"
    >>> write_whole(file, b"hello")
    >>> file.read_bytes(), [path.name for path in file.parent.iterdir()]
    (b'hello', ['greeting.txt'])
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(payload)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file that takes the place of `path` when the block succeeds, and only then."""
    target = Path(path)
    remove_leftovers(target)
    part = _part_name(target)
    try:
        handle, named = _create(part)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if not named:
                _give_name(file.fileno(), part)
            if sys.platform != "win32":
                part.replace(target)  # before the lock on it goes
        if sys.platform == "win32":  # where no open file can be moved
            _move_patiently(part, target)
        sync_folder(target.parent)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            error.filename = str(target)
        raise


@contextmanager
def locked(folder: Path, seconds: float = 60.0) -> Iterator[None]:
    """Keep other writers of a folder out, threads and processes alike; wait `seconds` for them.

    The folder itself is locked, so nothing is left behind, and the system ends the lock with the
    process that holds it. On Windows and on some network drives a file in the folder is locked
    instead, which stays. Readers need no lock.

    Raises
    ------
    TimeoutError
        If another writer does not finish in time.
    """
    end = time.monotonic() + seconds
    handle = _locked_handle(folder)
    while handle is None:
        if time.monotonic() > end:
            raise TimeoutError(
                errno.ETIMEDOUT, f"another process has kept it locked for {seconds:g} s", folder
            )
        time.sleep(_PAUSE)
        handle = _locked_handle(folder)
    try:
        yield
    finally:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_UN)  # a forked child may hold a copy of the handle
        os.close(handle)


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Keep a file locked while the block runs; it is made for that and goes again.

    The system ends the lock with the process that holds it, so a file that is left tells nothing.

    Raises
    ------
    BlockingIOError
        If another process, or another thread, holds it.
    """
    handle = _try_lock(file, create=True)
    if handle is None:
        raise BlockingIOError(errno.EAGAIN, "another process holds it", file)
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()  # before the lock on it goes; an open file stays on Windows
        os.close(handle)


@contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """Give a new folder among the system's temporary ones that goes when the block ends.

    Those of this user that a killed process left under the same prefix go too.
    """
    _remove_abandoned(prefix)
    folder = Path(tempfile.mkdtemp(prefix=f".{prefix}"))
    try:
        with nullcontext() if sys.platform == "win32" else locked(folder):
            # Only with its lock it gets a name that others look for: one without is abandoned.
            folder = folder.rename(folder.with_name(folder.name[1:]))
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _remove_abandoned(prefix)  # into which a killed process's worker was still writing


def _remove_abandoned(prefix: str) -> None:
    """Remove the folders of killed processes."""
    place = Path(tempfile.gettempdir())
    for other in place.glob(f"{prefix}*"):
        _remove_if_abandoned(other, older=0.0)
    for other in place.glob(f".{prefix}*"):
        _remove_if_abandoned(other, older=_SETTLING)


def _remove_if_abandoned(folder: Path, *, older: float) -> None:
    if sys.platform == "win32":
        return  # an open file in it may be all that tells
    with suppress(OSError):  # in use, or not ours
        found = folder.lstat()
        old = time.time() - found.st_mtime >= older
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and old:
            with locked(folder, seconds=0):
                shutil.rmtree(folder)


def _locked_handle(folder: Path) -> int | None:
    """Lock the folder, or the file in it; None while somebody else has it."""
    if sys.platform == "win32":
        return _try_lock(folder / LOCK, create=True)
    try:
        return _try_lock(folder, create=False)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return _try_lock(folder / LOCK, create=True)
        raise


def _try_lock(place: Path, *, create: bool) -> int | None:
    made = os.O_RDWR | os.O_CREAT | _SAFE if create else os.O_RDONLY | os.O_CLOEXEC
    handle = os.open(place, made, 0o666)
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(place.stat(), os.fstat(handle)):
            return handle
    except FileNotFoundError:
        pass  # removed since it was opened; the next try says so
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            os.close(handle)
            raise
    os.close(handle)
    return None


def remove_leftovers(target: Path) -> None:
    """Remove the temporary files of writers of `target` that died before they were done."""
    beginning = f".{target.name[:_LONGEST]}."
    try:
        siblings = list(target.parent.iterdir())
    except OSError:  # it may be written and not listed
        return
    for path in siblings:
        if path.name.startswith(beginning) and PART.fullmatch(path.name):
            _remove_if_dead(path)


def sync_folder(folder: Path) -> None:
    """Have the disk confirm the names in a folder, where folders can be opened."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY | _SAFE & ~os.O_NOFOLLOW)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system can
            raise
    finally:
        os.close(handle)


def _part_name(target: Path) -> Path:
    token = secrets.token_hex(_TOKEN)
    return target.with_name(f".{target.name[:_LONGEST]}.{token}.part")


def _create(part: Path) -> tuple[int, bool]:
    """Make the new file and lock it; say whether it has its name already."""
    if sys.platform == "linux" and os.path.isdir("/proc/self/fd"):  # noqa: PTH112 (no Path yet)
        with suppress(OSError):  # some file systems cannot; a folder that is not there tells below
            handle = os.open(part.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
            _lock(handle)
            return handle, False
    while True:
        handle = os.open(part, _FRESH | _SAFE, 0o666)
        _lock(handle)
        if _is_still(part, handle):
            return handle, True
        os.close(handle)  # taken for a leftover before it was locked


def _give_name(handle: int, part: Path) -> None:
    folder = os.open(part.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:  # with a folder's handle, else Python would link the link
        os.link(f"/proc/self/fd/{handle}", part.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _move_patiently(part: Path, target: Path) -> None:
    """Windows refuses to replace a file while somebody reads it: try until it is free."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            part.replace(target)
        except PermissionError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _lock(handle: int) -> None:
    """Show others that the writer lives: the lock ends with its process."""
    if sys.platform != "win32":
        with suppress(OSError):  # without locks nothing is taken for a leftover either
            fcntl.flock(handle, fcntl.LOCK_EX)


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _remove_if_dead(part: Path) -> None:
    if sys.platform == "win32":
        with suppress(OSError):  # an open file cannot be removed there
            part.unlink()
        return
    try:
        handle = os.open(part, os.O_RDONLY | os.O_NONBLOCK | _SAFE)
    except OSError:
        return  # gone, a link, or somebody else's
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_still(part, handle):
            part.unlink()
    except OSError:
        pass  # its writer lives
    finally:
        os.close(handle)
