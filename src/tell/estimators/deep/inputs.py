"""Rows and images of any usual shape and range as the tensor that a network takes, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

from tell.core.autoencoder import BUILDERS
from tell.data.preparation import Preparation
from tell.data.sources import Source
from tell.estimators.deep.layer_text import is_named
from tell.estimators.scaling import BLOCK_NUMBERS, column_sums
from tell.estimators.validation import first_gap, open_rows
from tell.exceptions import InputError


def open_images(estimator: BaseEstimator, X: Any, *, reset: bool) -> Source:
    """Open X (n, d), (n, h, w) or (n, c, h, w), with numbers as they are stored.

    Where nothing is reset, flat rows are also taken for images of the fitted shape.
    """
    source = open_rows(
        estimator, X, reset=reset, check=lambda rows: _check_rows(estimator, rows, reset=reset)
    )
    if reset:
        _check_channels(estimator, (source.n_rows or 0, *source.row_shape))
    return source.as_stored()


def _check_rows(estimator: BaseEstimator, X: Any, *, reset: bool) -> np.ndarray:
    """Check what is in memory by scikit-learn's rules."""
    try:
        # What is neither an array nor nested lists is left to scikit-learn, as a table.
        if (np.ndim(X) if isinstance(X, list | tuple) else getattr(X, "ndim", 2)) < 3:
            return np.asarray(validate_data(estimator, X, dtype="numeric", reset=reset))
        images = check_array(X, dtype="numeric", allow_nd=True, input_name="X", estimator=estimator)
    except ValueError as error:
        raise InputError(first_gap(estimator, X) or str(error)) from error
    if images.ndim > 4 or 0 in images.shape:
        raise InputError(
            f"X must have the shape (n, d), (n, h, w) or (n, c, h, w), got {images.shape}; "
            "reshape it"
        )
    if reset:
        estimator.n_features_in_ = int(np.prod(images.shape[1:]))
        vars(estimator).pop("feature_names_in_", None)  # of a table that was fitted before
    elif images.shape[1:] != estimator.input_shape_:
        raise InputError(
            f"X must have rows of shape {estimator.input_shape_} as in fit, "
            f"got {images.shape[1:]}; reshape it"
        )
    return images


def _check_channels(estimator: BaseEstimator, shape: tuple[int, ...]) -> None:
    """Refuse colours in the last place, which our networks would take for very narrow images."""
    if is_named(estimator.encoder) and len(shape) == 4 and shape[3] == 3 and shape[1] > 4:
        raise InputError(
            f"X must have its channels before height and width, got {shape}; pass "
            "X.transpose(0, 3, 1, 2)"
        )


def network_shape(input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return what a network sees: (d,) stays, (h, w) gets a channel, (c, h, w) stays.

    >>> network_shape((28, 28)), network_shape((3, 32, 32)), network_shape((7,))
    ((1, 28, 28), (3, 32, 32), (7,))
    """
    return (1, *input_shape) if len(input_shape) == 2 else input_shape


def choose_scale(
    encoder: object, table_network: str, rows: np.ndarray, prepared: Preparation | None = None
) -> InputScale:
    """Scale as the network needs it: columns for perceptrons, [0, 1] for the paper's networks.

    The features of a prepared table have weights of their own. A network of the user's own gets
    the values as they are.
    """
    if encoder == "auto":
        encoder = table_network if rows.ndim == 2 else "cnn"
    if encoder == "mlp" and prepared is not None:
        return InputScale(prepared.offset, prepared.scale)
    if encoder == "mlp":
        return InputScale.columns(rows)
    return InputScale.unit_interval(rows) if encoder in BUILDERS else InputScale.none()


class InputScale:
    """The linear map from the user's values to the network's: `(x - offset) / scale`.

    Parameters
    ----------
    offset, scale : ndarray that broadcast against rows of the network's shape
    """

    def __init__(self, offset: np.ndarray, scale: np.ndarray) -> None:
        self.offset = np.asarray(offset, dtype=np.float64)
        self.scale = np.asarray(scale, dtype=np.float64)

    @classmethod
    def none(cls) -> InputScale:
        """Leave values as they are: networks of the user's own."""
        return cls(np.zeros(()), np.ones(()))

    @classmethod
    def unit_interval(cls, X: np.ndarray) -> InputScale:
        """Map to [0, 1]: bytes by 255, values already inside stay, others by their range.

        >>> scale = InputScale.unit_interval(np.array([[0.0, 16.0]]))
        >>> float(scale.offset), float(scale.scale)
        (0.0, 16.0)
        """
        if X.dtype == np.uint8:
            return cls(np.zeros(()), np.full((), 255.0))
        low, high = float(X.min()), float(X.max())
        if low >= 0 and high <= 1:
            return cls.none()
        return cls(np.full((), low), np.full((), (high - low) or 1.0))

    @classmethod
    def columns(cls, X: np.ndarray) -> InputScale:
        """Standardise every column; constant ones become zero.

        Constant is also what differs by no more than the last bits of its type.
        """
        # A column of huge values overflows its squares in float64: scale it down first.
        ends = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
        size = np.maximum(*map(np.abs, ends))
        size[size == 0] = 1.0
        mean = column_sums(X, lambda rows: rows / size) / len(X)
        squares = column_sums(X, lambda rows: np.square(rows / size - mean))
        deviation = np.sqrt(squares / len(X))
        rounding = 4 * np.finfo(X.dtype).eps if np.issubdtype(X.dtype, np.floating) else 0.0
        deviation[(ends[0] == ends[1]) | (deviation <= rounding)] = 1.0
        return cls(mean * size, deviation * size)

    def apply(self, X: np.ndarray) -> Tensor:
        """Return the network's float32 tensor; only a few rows at a time are in float64."""
        x = torch.empty(X.shape, dtype=torch.float32)
        size = max(1, BLOCK_NUMBERS // max(1, X[:1].size))
        for start in range(0, len(X), size):
            part = x[start : start + size]
            part.numpy()[:] = self._scaled(X[start : start + size])
            if not bool(part.isfinite().all()):
                raise InputError(
                    "X must fit into float32 after scaling, got values beyond its range; "
                    "rescale or clip the extreme values"
                )
        return x

    def resembles_fit(self, x: Tensor) -> bool:
        """Whether scaled images lie in about [0, 1], as all of the fit did.

        Columns have no range that new rows must keep, and images may well be dark.
        """
        return self.offset.ndim > 0 or (float(x.min()) > -1 and float(x.max()) < 2)

    def __str__(self) -> str:
        """Return the range that becomes [0, 1]."""
        low = float(self.offset)
        return f"{low:g} to {low + float(self.scale):g}"

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        if not self.offset.any() and np.all(self.scale == 1.0):
            return X
        return np.asarray((X - self.offset) / self.scale)

    def undo(self, x: Tensor) -> np.ndarray:
        """Return values in the user's units."""
        values: np.ndarray = x.cpu().numpy() * self.scale + self.offset
        # A column of a table may be a time in milliseconds: more digits than float32 has.
        return values if self.offset.ndim else values.astype(np.float32)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a model file keeps."""
        return {"offset": torch.from_numpy(self.offset), "scale": torch.from_numpy(self.scale)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Any]) -> InputScale:
        """Read what `tensors` returned."""
        return cls(tensors["offset"].numpy(), tensors["scale"].numpy())
