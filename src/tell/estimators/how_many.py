"""`choose`: how many clusters, before anything is fitted."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from tell.choosing.choice import Choice
from tell.core.layer import Geometry
from tell.data.limits import DEFAULT_MEMORY
from tell.estimators.fit_plan import FitPlan
from tell.estimators.tell import TELL
from tell.estimators.validation import Prepare, check_options, draw_seed


def choose(
    X: Any,
    *,
    max_clusters: int | None = None,
    geometry: Geometry = "sphere",
    standardize: bool = False,
    trim: float = 0.0,
    prepare: Prepare = "auto",
    sample_weight: ArrayLike | None = None,
    random_state: Any = 0,
    memory: int | str = DEFAULT_MEMORY,
    verbose: int = 0,
) -> Choice:
    """How many clusters X has, with the evidence, a runner-up and the reasons in words.

    `TELL(n_clusters="auto")` with the same options and seed takes the same number. A sample of the
    rows is clustered with every number of a range, each solution started from its neighbour's.

    Parameters
    ----------
    X : whatever `TELL.fit` takes
    max_clusters : int or None, default=None
        The largest number that is tried. None tries 20, and twice as many as long as more clusters
        still pay.
    trim : float, default=0.0
        Share of the rows that has no say, those that lie farthest from all others: outliers take
        clusters for themselves and hide groups.
    geometry, standardize, prepare, random_state, memory, verbose : as those of `TELL`
    sample_weight : array of shape (n,), optional
        How often each row counts.

    Returns
    -------
    Choice
        `n_clusters`, 1 if no cluster structure was found; `runner_up`; `reasons`; and `evidence`,
        a curve over the numbers for each kind of it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from tell import choose
    >>> choice = choose(load_iris().data, geometry="euclidean", random_state=0)
    >>> choice.n_clusters
    3
    >>> print(choice)  # doctest: +ELLIPSIS
    3 clusters: they are ...% tighter than those of structureless rows of the same covariance...
    """
    model = TELL(
        "auto",
        max_clusters=max_clusters,
        geometry=geometry,
        standardize=standardize,
        trim=trim,
        prepare=prepare,
        random_state=random_state,
        memory=memory,
        verbose=verbose,
    )
    return choose_for(model, X, sample_weight)


def choose_for(model: TELL, X: Any, sample_weight: ArrayLike | None = None) -> Choice:
    """The choice that a model with n_clusters="auto" would make."""
    check_options(model)
    source = model._open_new(X)
    return FitPlan(model, draw_seed(model.random_state)).choose(source, sample_weight)
