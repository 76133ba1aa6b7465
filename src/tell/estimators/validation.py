"""What every estimator shares: opening rows, seeds, and undoing a failed call."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import sklearn.exceptions
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.validation import validate_data

from tell.core.assignment import Rows
from tell.data.sources import precision_of
from tell.exceptions import InputError, TellError


class NotFittedError(TellError, sklearn.exceptions.NotFittedError):
    """The model was asked before it was fitted."""


def draw_seed(random_state: Any) -> int:
    """One seed from a number, a generator or None (a new one each time)."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def read_matrix(estimator: BaseEstimator, X: Any, *, reset: bool, finite: bool = True) -> Any:
    """Check rows (n, d) by scikit-learn's rules: a float array, or CSR without making it dense.

    They are as precise as a file with columns of the same types would be.
    With finite=False the values are not looked at: for a caller who uses `check_finite`.
    """
    if not (reset or finite) and _needs_no_checks(estimator, X):
        return X
    try:
        return validate_data(
            estimator,
            X,
            accept_sparse="csr",
            dtype=precision_of(X),
            order="C",
            ensure_all_finite=finite,
            reset=reset,
        )
    except ValueError as error:
        raise InputError(_first_gap(estimator, X) or str(error)) from error


def _first_gap(estimator: BaseEstimator, X: Any) -> str | None:
    """Name the first value of an array or frame that is no finite number, if that is the matter."""
    if np.iscomplexobj(X):
        return None
    try:
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None  # text, or a sparse matrix
    if values.ndim != 2 or np.isfinite(values).all():
        return None
    row, column = (int(place) for place in np.argwhere(~np.isfinite(values))[0])
    names = getattr(X, "columns", getattr(estimator, "feature_names_in_", None))
    name = column if names is None else repr(str(names[column]))
    kind = "NaN" if np.isnan(values[row, column]) else "infinity"
    return (
        f"X must hold finite numbers, got {kind} in row {row}, column {name} (counting from 0); "
        "pass a frame, whose gaps are filled, fill such values, or drop the rows"
    )


def _needs_no_checks(estimator: BaseEstimator, X: Any) -> bool:
    """Whether X is the very array that validation would return: small batches spare its time."""
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float32, np.float64)
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == estimator.n_features_in_
        and X.flags.c_contiguous
        and not hasattr(estimator, "feature_names_in_")
    )


def check_finite(estimator: BaseEstimator, X: Any, rows: Rows) -> None:
    """Refuse NaN and infinity by the rows' lengths, which the engine needs anyway."""
    if torch.isfinite(rows.length.sum()):
        return
    try:
        assert_all_finite(X, estimator_name=type(estimator).__name__, input_name="X")
    except ValueError as error:
        raise InputError(_first_gap(estimator, X) or str(error)) from error
    raise InputError("X must hold rows whose length is a finite number; scale its values down")


@contextmanager
def unchanged_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Give the estimator back as it was if the call fails; other threads wait for their turn."""
    with _turn(estimator):
        before = dict(vars(estimator))
        try:
            yield
        except BaseException:
            vars(estimator).update(before)  # first: another thread may be predicting
            for name in vars(estimator).keys() - before.keys():
                del vars(estimator)[name]
            raise


# Not an attribute: estimators are copied and pickled, locks are not.
_TURNS: WeakKeyDictionary[BaseEstimator, AbstractContextManager[Any]] = WeakKeyDictionary()
_TURNS_LOCK = threading.Lock()


def _turn(estimator: BaseEstimator) -> AbstractContextManager[Any]:
    with _TURNS_LOCK:
        return _TURNS.setdefault(estimator, threading.RLock())
