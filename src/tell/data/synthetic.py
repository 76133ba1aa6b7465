"""Streams made on the spot, whose clusters stay, turn slowly or jump: the truth is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tell.data.chunks import FloatArray
from tell.exceptions import ParameterError

MOTIONS = {
    "steady": "centres stay",
    "rotating": "centres turn slowly",
    "swap": "centres jump once",
    "arrival": "one more cluster appears",
}


class Stream(NamedTuple):
    """Rows in the order of their arrival.

    Attributes
    ----------
    X : ndarray of shape (rows, n_features), float32
    y : ndarray of shape (rows,)
        The cluster that each row was drawn from.
    truth : ndarray of shape (rows, n_features), float32
        Where the centre of that cluster was at that moment.
    """

    X: FloatArray
    y: NDArray[np.int64]
    truth: FloatArray


def make_stream(
    motion: str,
    *,
    rows: int = 100_000,
    n_features: int = 16,
    n_clusters: int = 5,
    noise: float = 0.1,
    seed: int = 0,
) -> Stream:
    """Draw rows around centres of unit length that move while the stream goes on.

    Parameters
    ----------
    motion : {"steady", "rotating", "swap", "arrival"}
        "rotating" turns all centres together by half a turn from the first row to the last, in
        every plane of two neighbouring features; "swap" moves them all to new places at half time;
        "arrival" adds one more, as large as the others, at half time.
    noise : float, default=0.1
        Standard deviation of every feature around its centre.

    Examples
    --------
    >>> stream = make_stream("rotating", rows=1000, n_features=4)
    >>> stream.X.shape, stream.truth.shape
    ((1000, 4), (1000, 4))
    """
    if motion not in MOTIONS:
        raise ParameterError(f"motion must be one of {', '.join(MOTIONS)}, got {motion!r}")
    if n_features % 2:
        raise ParameterError(f"n_features must be even (planes of two), got {n_features}")
    random = np.random.default_rng(seed)
    y = random.integers(n_clusters, size=rows)
    centers = _unit(random.standard_normal((n_clusters, n_features)))
    truth = centers[y]
    if motion == "rotating":
        truth = _rotate(truth, np.linspace(0, np.pi, rows))
    elif motion == "swap":
        later = _unit(random.standard_normal((n_clusters, n_features)))
        truth[rows // 2 :] = later[y[rows // 2 :]]
    elif motion == "arrival":
        y[rows // 2 :] = random.integers(n_clusters + 1, size=rows - rows // 2)
        truth = np.concatenate([centers, _unit(random.standard_normal((1, n_features)))])[y]
    X = truth + noise * random.standard_normal(truth.shape)
    return Stream(X.astype(np.float32), y, truth.astype(np.float32))


def _unit(rows: NDArray[Any]) -> NDArray[Any]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _rotate(rows: NDArray[Any], angles: NDArray[Any]) -> NDArray[Any]:
    """Turn each row by its own angle: neighbouring features are a complex number."""
    turned = rows.view(np.complex128) * np.exp(1j * angles)[:, None]
    return turned.view(np.float64)
