"""Data sets by name: digits, MNIST, Fashion-MNIST, CIFAR-10, CIFAR-100 and synthetic streams."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tell.data.cache import cache_dir, cached, obtain
from tell.data.catalogue import ENTRIES, Entry
from tell.data.synthetic import MOTIONS, make_stream
from tell.exceptions import DataUnavailableError

_ENTRIES = {entry.name: entry for entry in ENTRIES}
_SUPER_CLASSES = 20


@dataclass(frozen=True)
class Dataset:
    """A named set.

    Attributes
    ----------
    X : ndarray of shape (rows, n_features)
        Images are unsigned bytes and may be memory-mapped; streams are float32.
    y : ndarray of shape (rows,)
        Classes 0, 1, …; they are used for scoring only.
    shape : tuple of int
        Shape of one sample.
    scale : float
        Divide `X` by it to bring the values to [0, 1]; 1 for streams.
    target_names : list of str
        What the classes are called.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    shape: tuple[int, ...]
    scale: float
    target_names: list[str]
    feature_names: list[str] | None = None


def names() -> list[str]:
    """Return every name that `load` takes, without the parts ``-train`` and ``-test``.

    >>> names()[:6]
    ['digits', 'mnist', 'fashion-mnist', 'cifar10', 'cifar100', 'cifar100-coarse']
    """
    groups = [f"cifar100-s{number}" for number in range(1, _SUPER_CLASSES + 1)]
    streams = [f"stream-{motion}" for motion in MOTIONS]
    return ["digits", *_ENTRIES, "cifar100-coarse", *groups, *streams]


class Summary(NamedTuple):
    """What a named set holds, known without loading it."""

    rows: int
    shape: tuple[int, ...]
    classes: int
    about: str


def describe(name: str) -> Summary:
    """Say what a named set holds.

    >>> describe("cifar100-s1")
    Summary(rows=3000, shape=(3, 32, 32), classes=5, about='super-class aquatic mammals')
    """
    if name == "digits":
        return Summary(1797, (1, 8, 8), 10, "handwritten digits, embedded")
    if name.startswith("stream-"):
        motion = name.removeprefix("stream-")
        return Summary(100_000, (16,), 5, f"synthetic stream, {MOTIONS[motion]}")
    entry, variant = _resolve(name)
    rows, classes, about = entry.n_train + entry.n_test, len(entry.classes[0]), entry.about
    if variant == "coarse":
        classes, about = _SUPER_CLASSES, "the same, labelled with the super-classes"
    elif variant:
        title = entry.classes[1][int(variant[1:]) - 1].replace("_", " ")
        rows, classes, about = rows // _SUPER_CLASSES, 5, f"super-class {title}"
    return Summary(rows, entry.shape, classes, about)


def is_name(name: str) -> bool:
    """Tell whether `name` is a data set, perhaps with ``-train`` or ``-test`` behind it.

    >>> is_name("mnist-test"), is_name("rows.csv")
    (True, False)
    """
    base, _ = _part(name)
    return base in names() and (base == name or base.startswith(tuple(_ENTRIES)))


def load(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    verbose: bool = False,
) -> Dataset:
    """Load a named set; the first time it is looked for and, unless forbidden, downloaded.

    Parameters
    ----------
    name : str
        One of `names()`; ``"mnist-train"`` or ``"mnist-test"`` give one part of an image set.
    data_dir : path, optional
        Folder with the published files or archives; default: the environment's `TELL_DATA`.
    download : bool, default=True
        Whether the network may be used.
    verbose : bool, default=False
        Show the progress of downloads.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.shape, digits.scale
    ((1797, 64), (1, 8, 8), 16)
    """
    _check_name(name)
    if name == "digits":
        return _digits()
    if name.startswith("stream-"):
        stream = make_stream(name.removeprefix("stream-"))
        classes = [str(cluster) for cluster in range(int(stream.y.max()) + 1)]
        return Dataset(name, stream.X, stream.y, stream.X.shape[1:], 1, classes)
    base, part = _part(name)
    entry, variant = _resolve(base)
    obtain(entry, None if data_dir is None else Path(data_dir), download=download, visible=verbose)
    return _images(name, entry, variant, part)


def path(name: str) -> Path | None:
    """Return where the cache keeps a named set, or None if it is not there or needs no files."""
    _check_name(name)
    if is_embedded(name):
        return None
    entry, _ = _resolve(_part(name)[0])
    return cache_dir() / entry.name if cached(entry) is not None else None


def is_embedded(name: str) -> bool:
    """Tell whether a set needs no files: it comes with scikit-learn or is made on the spot."""
    return name == "digits" or name.startswith("stream-")


def _check_name(name: str) -> None:
    if not is_name(name):
        raise DataUnavailableError(
            f"there is no data set {name!r}; see `tell data list`: {', '.join(names()[:6])}, …"
        )


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    names = [str(target) for target in bunch.target_names]
    return Dataset("digits", bunch.data.astype(np.uint8), bunch.target, (1, 8, 8), 16, names)


def _part(name: str) -> tuple[str, str]:
    for part in ("train", "test"):
        if name.endswith(f"-{part}"):
            return name.removesuffix(f"-{part}"), part
    return name, "all"


def _resolve(name: str) -> tuple[Entry, str]:
    """Split "cifar100-s3" into the images it is made of and the choice among them."""
    if name.startswith("cifar100-"):
        return _ENTRIES["cifar100"], name.removeprefix("cifar100-")
    return _ENTRIES[name], ""


def _images(name: str, entry: Entry, variant: str, part: str) -> Dataset:
    images = cached(entry)
    if images is None:
        raise DataUnavailableError(f"the cached copy of {entry.name} vanished; run again")
    rows = {
        "train": slice(entry.n_train),
        "test": slice(entry.n_train, None),
        "all": slice(None),
    }[part]
    X, Y = (array[rows] for array in images)
    make = partial(Dataset, name, shape=entry.shape, scale=255)
    if variant == "coarse":
        return make(X=X, y=Y[:, 1].astype(np.int64), target_names=list(entry.classes[1]))
    if variant:
        members = np.flatnonzero(Y[:, 1] == int(variant[1:]) - 1)
        fine, y = np.unique(Y[members, 0], return_inverse=True)
        return make(X=X[members], y=y, target_names=[entry.classes[0][label] for label in fine])
    return make(X=X, y=Y[:, 0].astype(np.int64), target_names=list(entry.classes[0]))
