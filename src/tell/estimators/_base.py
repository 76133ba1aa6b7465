"""What every estimator shares: reading arrays, seeds, and undoing a failed call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sklearn.exceptions
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from tell.exceptions import InputError, TellError


class NotFittedError(TellError, sklearn.exceptions.NotFittedError):
    """The model was asked before it was fitted."""


def draw_seed(random_state: Any) -> int:
    """One seed from a number, a generator or None (a new one each time)."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def read_matrix(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Check rows (n, d) by scikit-learn's rules: a float array, or CSR without making it dense."""
    try:
        return validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype=["float64", "float32"],
            order="C",
            reset=reset,
        )
    except ValueError as error:
        raise InputError(str(error)) from error


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Give the estimator back as it was if the call fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
