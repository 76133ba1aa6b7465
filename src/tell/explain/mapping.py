"""A flat map of rows and centres, for the eye: t-SNE, or principal components."""

from __future__ import annotations

from typing import Any

import numpy as np

from tell.exceptions import MissingDependencyError, ParameterError
from tell.explain.view import Floats
from tell.progress import progress

METHODS = ("tsne", "pca")
#: t-SNE starts from this many principal components at most: neighbours stay, time does not.
MAX_DIMENSIONS = 50


def project(
    Z: Floats, centers: Floats, *, method: str = "tsne", seed: int = 0, visible: bool = False
) -> tuple[Floats, Floats]:
    """Lay layer rows (n, p) and centres (k, p) out on one plane: (n, 2) and (k, 2).

    Centres take part as further rows, so that they stand where a row of their place would stand.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(30, 5))
    >>> flat, stars = project(rows, rows[:3], method="pca")
    >>> flat.shape, stars.shape, np.allclose(flat[:3], stars)
    ((30, 2), (3, 2), True)
    """
    if method not in METHODS:
        raise ParameterError(f"method needs one of {METHODS}, got {method!r}; choose one of them")
    together = np.vstack([Z, centers])
    if method == "tsne" and len(together) >= 10:
        flat = _tsne(together, seed, visible)
    else:
        flat = _principal(together, 2, seed)
        flat = np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))  # one feature has no second axis
    return flat[: len(Z)], flat[len(Z) :]


def _principal(rows: Floats, n_components: int, seed: int) -> Floats:
    from sklearn.decomposition import PCA

    count = min(n_components, *rows.shape)
    return np.asarray(PCA(count, random_state=seed).fit_transform(rows), np.float64)


def _tsne(rows: Floats, seed: int, visible: bool) -> Floats:
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise MissingDependencyError(
            'a t-SNE map needs openTSNE, which is not installed; use method="pca" or install it '
            'with pip install "tell-clustering[report]"'
        ) from error
    small = (
        len(rows) < 10_000
    )  # measured: below, one thread of Barnes-Hut beats the grid of FFT-SNE
    early, late = 150, 350
    with progress("t-SNE", early + late, visible=visible) as bar:
        done = 0

        def step(iteration: int, error: float, embedding: Any) -> None:
            nonlocal done
            done += 50
            bar.update(done, error=float(error))

        tsne = TSNE(
            perplexity=min(30, (len(rows) - 1) / 3),
            initialization="pca",
            random_state=seed,
            negative_gradient_method="bh" if small else "fft",
            neighbors="exact" if small else "auto",
            n_jobs=1 if small else -1,
            early_exaggeration_iter=early,
            n_iter=late,
            callbacks=step,
            callbacks_every_iters=50,
        )
        return np.asarray(tsne.fit(rows), np.float64)
