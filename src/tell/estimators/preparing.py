"""The preparation inside an estimator: when a table needs one, and rows read through it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from tell.data.cells import is_numeric
from tell.data.sources import Source, is_array_like, is_frame, open_source
from tell.data.table_preparation import TablePreparation, held_table, is_table, open_prepared
from tell.data.tables import TableSource
from tell.exceptions import InputError, ParameterError

#: What the parameter `prepare` may be.
Prepare = bool | str | TablePreparation


def open_rows(
    estimator: BaseEstimator, X: Any, *, reset: bool, check: Callable[[Any], Any]
) -> Source:
    """Open rows for an estimator, which learns (`reset`) or expects its columns.

    What scikit-learn can take in is checked by scikit-learn's rules, by `check`. A table with
    more than numbers is read through the preparation that belongs to the model.
    """
    if reset:
        return _open_new(estimator, X, check)
    learned = getattr(estimator, "preparation_", None)
    if learned is not None and is_table(X, learned):
        return open_prepared(X, learned)
    if is_array_like(X):
        return open_source(check(X) if learned is None else _without_names(check, X))
    source = open_source(X)
    _check_columns(estimator, source)
    return source


def _without_names(check: Callable[[Any], Any], X: Any) -> Any:
    """Check features of a prepared table: the names are the preparation's, not the user's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return check(X)


def _open_new(estimator: BaseEstimator, X: Any, check: Callable[[Any], Any]) -> Source:
    vars(estimator).pop("preparation_", None)
    prepare = check_prepare(estimator)
    if is_array_like(X) and not (is_frame(X) and _is_wanted(prepare, X)):
        if isinstance(prepare, TablePreparation) and not is_frame(X):
            raise InputError(
                "prepare=TablePreparation(…) needs a table with columns, got an array; pass a "
                "frame, or prepare='auto'"
            )
        return open_source(check(X))
    source = open_source(X)
    if isinstance(source, TableSource) and source.preparation is None and prepare is not False:
        source = _prepared(source, prepare)
    if source.preparation is not None:
        estimator.preparation_ = source.preparation
    _take_columns(estimator, source)
    return source


def check_prepare(estimator: BaseEstimator) -> Prepare:
    """The parameter `prepare`, if it is one of those that there are."""
    prepare = estimator.prepare
    if isinstance(prepare, bool | TablePreparation) or (
        isinstance(prepare, str) and prepare == "auto"
    ):
        return prepare
    raise ParameterError(
        f"prepare must be 'auto', True, False or a TablePreparation, got {prepare!r}"
    )


def _is_wanted(prepare: Prepare, frame: Any) -> bool:
    return not _all_numbers(frame) if prepare == "auto" else prepare is not False


def _prepared(source: TableSource, prepare: Prepare) -> Source:
    """Read the table through what is learned of it, where that is wanted or needed."""
    if prepare == "auto" and (source.states_numbers or not source.rereadable):
        return source
    if not source.rereadable:
        source = held_table(source)
    learner = prepare if isinstance(prepare, TablePreparation) else TablePreparation()
    learned = learner.learn(source)
    # Complete numbers can be clustered as they are.
    needless = all(column.numeric and not column.missing for column in learned.columns)
    return source if prepare == "auto" and needless else learned.apply(source)


def _all_numbers(frame: Any) -> bool:
    """Whether a frame holds numbers alone, and no gap."""
    if hasattr(frame, "to_arrow"):
        columns = frame.head(0).to_arrow().columns
        return all(map(is_numeric, columns)) and sum(frame.null_count().row(0)) == 0
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in frame.dtypes]
    if not all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in kinds):
        return False
    return not bool(frame.isna().to_numpy().any())


def with_features(X: Any, model: BaseEstimator) -> Any:
    """Rows that are features already, for a further fit with the model's own preparation."""
    learned = getattr(model, "preparation_", None)
    if learned is None or isinstance(X, Source) or not is_array_like(X):
        return X
    source = open_source(X)
    source.preparation, source.feature_names = learned, learned.feature_names
    return source


def _take_columns(estimator: BaseEstimator, source: Source) -> None:
    """Keep how many columns there are and what they are called."""
    estimator.n_features_in_ = source.n_features
    if source.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
    else:
        vars(estimator).pop("feature_names_in_", None)


def _check_columns(estimator: BaseEstimator, source: Source) -> None:
    if source.n_features != estimator.n_features_in_:
        raise InputError(
            f"{source.name} must have {estimator.n_features_in_} columns as the model was fitted "
            f"with, got {source.n_features}; choose the columns"
        )
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and source.feature_names not in (None, list(names)):
        raise InputError(
            f"{source.name} must have the columns {', '.join(map(str, names[:5]))}… in this "
            "order, as the model was fitted with; choose them by name"
        )
