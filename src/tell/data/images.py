"""A folder of images: every file a row, every sub-folder a label that is used for scoring only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.data.chunks import Block, Choice, Chunk, FloatArray, Source
from tell.data.limits import check_size
from tell.exceptions import InputError, MissingDependencyError, ParameterError

_SUFFIXES = frozenset(
    {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"}
)
_GREY = frozenset({"1", "L", "LA"})
_COLOUR = frozenset({"P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"})


def is_image_folder(folder: Path) -> bool:
    """Tell whether the first file in a folder or its sub-folders is an image."""
    return folder.is_dir() and next(_images(folder), None) is not None


def _images(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)


class ImageFolder(Source):
    """Images as rows of values in [0, 1], channel by channel.

    Parameters
    ----------
    folder : Path
    size : int or None
        Height and width: the shorter side is scaled to it, the longer one cropped around the
        middle. None takes the size of the first image and refuses any other.
    """

    def __init__(
        self, folder: Path, choice: Choice, chunk_rows: int, *, size: int | None = None
    ) -> None:
        if not choice.without_names().is_default:
            raise InputError(f"{folder}: images have no columns; labels are the sub-folders")
        if size is not None and size < 1:
            raise ParameterError(f"image_size must be at least 1, got {size}")
        self._paths = sorted(_images(folder))
        self._labels = _labels(self._paths, folder)
        with _open(self._paths[0]) as first:
            grey = first.mode in _GREY
            height, width = (size, size) if size else (first.height, first.width)
        self._crop = size is not None
        self.labelled = self._labels is not None
        super().__init__(
            str(folder),
            (1 if grey else 3, height, width),
            chunk_rows=chunk_rows,
            n_rows=len(self._paths),
        )

    def _rows(self) -> Iterator[Chunk]:
        for start in range(0, len(self._paths), self.chunk_rows):
            yield from self._block(start, self.chunk_rows)

    def blocks(self) -> list[Block]:
        rows = self.block_rows
        return [partial(self._block, at, rows) for at in range(0, len(self._paths), rows)]

    @property
    def files(self) -> NDArray[Any]:
        """Paths of the images below the folder, row by row."""
        return np.array([str(path.relative_to(self.name)) for path in self._paths])

    def classes(self) -> NDArray[Any] | None:
        return self._labels

    def _block(self, start: int, rows: int) -> Iterator[Chunk]:
        paths = self._paths[start : start + rows]
        # The decoders work outside Python's lock.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            X = np.stack(list(pool.map(self._pixels, paths)))
        y = None if self._labels is None else self._labels[start : start + rows]
        yield Chunk(X, y, start)

    def _pixels(self, path: Path) -> FloatArray:
        channels, height, width = self.shape
        with _open(path) as image:
            if self._crop:
                image = _cropped(image, height)
            if image.size != (width, height):
                raise InputError(
                    f"{path}: all images must have the size of the first, {width} × {height}, got "
                    f"{image.width} × {image.height}; pass image_size (--image-size) to scale and "
                    "crop them"
                )
            pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"), dtype=np.float32)
        pixels /= 255
        return pixels.reshape(-1) if channels == 1 else pixels.transpose(2, 0, 1).reshape(-1)


def _labels(paths: list[Path], folder: Path) -> NDArray[Any] | None:
    names = [path.relative_to(folder).parts[0] if path.parent != folder else "" for path in paths]
    return np.array(names) if any(names) else None


def _open(path: Path) -> Any:
    """Decode an image upright; whatever is wrong with the file, one error names it."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise MissingDependencyError(
            'reading images needs pillow; install it: pip install "tell-clustering[images]"'
        ) from None
    try:
        with Image.open(path) as image:
            if image.mode not in _GREY | _COLOUR:
                raise ValueError(f"pixels of type {image.mode} are not supported")
            check_size(4 * image.width * image.height, "the decoded image", str(path))
            return ImageOps.exif_transpose(image)
    except InputError:
        raise
    except Exception as error:
        # Decoders of foreign bytes fail in many ways; all mean the same to the reader.
        raise InputError(f"{path} is not a whole image ({error}); repair or remove it") from None


def _cropped(image: Any, size: int) -> Any:
    from PIL import Image, ImageOps

    return ImageOps.fit(image.convert("RGB"), (size, size), Image.Resampling.BILINEAR)
