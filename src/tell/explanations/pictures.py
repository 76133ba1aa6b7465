"""Rows as pictures: from flat values to something an eye can look at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tell.contract import Reals
from tell.exceptions import InputError


def as_pictures(rows: Reals, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Flat images (n, d) of shape (h, w) or (c, h, w) as bytes (n, h, w) or (n, h, w, 3).

    All pictures share one scale, so that they can be compared; channels other than one or three
    are averaged.

    >>> as_pictures(np.array([[0.0, 1.0, 2.0, 4.0]]), (2, 2)).tolist()
    [[[0, 64], [128, 255]]]
    """
    if rows.shape[1] != np.prod(shape):
        raise InputError(
            f"shape needs {rows.shape[1]} entries in all, got {shape}; pass the shape of one image"
        )
    pictures = np.asarray(rows, np.float32).reshape(len(rows), *shape)
    if len(shape) == 3:
        pictures = pictures.transpose(0, 2, 3, 1) if shape[0] == 3 else pictures.mean(axis=1)
    low, high = min(0.0, float(pictures.min())), float(pictures.max())
    if low == 0 and high <= 1:
        high = 1.0  # values in [0, 1] keep their brightness
    span = high - low or 1.0
    return np.round((pictures - low) * (255 / span)).astype(np.uint8)
