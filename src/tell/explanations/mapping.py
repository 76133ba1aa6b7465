"""A flat map of rows and centres, for the eye: t-SNE, or principal components."""

from __future__ import annotations

import numpy as np

from tell.exceptions import MissingDependencyError, ParameterError
from tell.explanations.view import Floats
from tell.progress import progress

MOST_EXPONENT = 60  # of two, in rows that are laid out as they are
METHODS = ("tsne", "pca")


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
    together = np.vstack([Z, centers])
    if fitting_method(together, method) == "tsne":
        flat = _tsne(_near_one(together), seed, visible)
    else:
        flat = _principal(together, 2, seed)
        flat = np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))  # one feature has no second axis
    return flat[: len(Z)], flat[len(Z) :]


def fitting_method(rows: Floats, method: str) -> str:
    """`method`, or "pca" for rows (n, p) that t-SNE cannot lay out: too few, flat or all alike."""
    if method not in METHODS:
        raise ParameterError(f"method needs one of {METHODS}, got {method!r}; choose one of them")
    enough = len(rows) >= 10 and rows.shape[1] >= 2 and _vary(rows)
    return method if enough else "pca"


def _vary(rows: Floats) -> bool:
    """Whether at least three rows differ, by more than rounding: t-SNE crashes on less."""
    tolerance = 1e-12 * float(np.abs(rows).max())
    others = rows[(np.abs(rows - rows[0]) > tolerance).any(axis=1)]
    return len(others) > 0 and bool((np.abs(others - others[0]) > tolerance).any())


def _near_one(rows: Floats) -> Floats:
    """Bring extreme rows near 1, by a power of two: t-SNE squares them and knows no unit."""
    exponent = int(np.frexp(np.abs(rows).max())[1])
    return rows if abs(exponent) <= MOST_EXPONENT else np.ldexp(rows, -exponent)


def _principal(rows: Floats, n_components: int, seed: int) -> Floats:
    from sklearn.decomposition import PCA

    count = min(n_components, *rows.shape)
    rows = rows - rows[0]  # large means would cancel the rest
    if not rows.any():
        return np.zeros((len(rows), count))
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

        def step(iteration: int, error: float, embedding: object) -> None:
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
