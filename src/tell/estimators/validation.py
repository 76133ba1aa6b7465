"""From what a user gave to rows that can be clustered: options, arrays, frames, gaps, columns."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import sklearn.exceptions
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.validation import validate_data
from torch import Tensor

from tell.core.assignment import Rows
from tell.core.seeding import Seeding
from tell.data.cells import is_numeric
from tell.data.limits import as_bytes
from tell.data.prepared_tables import held_table, is_table, open_prepared
from tell.data.sources import Source, is_array_like, is_frame, open_source, precision_of
from tell.data.table_preparation import TablePreparation
from tell.data.tables import TableSource
from tell.exceptions import ConvergenceWarning, InputError, ParameterError, TellError

if TYPE_CHECKING:
    from tell.estimators.deep.estimator import DeepTELL
    from tell.estimators.scaling import Scaling
    from tell.estimators.tell import TELL


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
    if not (reset or finite) and needs_no_checks(estimator, X):
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
        raise InputError(first_gap(estimator, X) or str(error)) from error


def first_gap(estimator: BaseEstimator, X: Any) -> str | None:
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


def needs_no_checks(estimator: BaseEstimator, X: Any) -> bool:
    """Whether X is the very array that validation would return: small batches save its time."""
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
        raise InputError(first_gap(estimator, X) or str(error)) from error
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


MOST_TRIES = 100_000  # restarts or steps: beyond it a fit would not come to its end
SEEDINGS = ("k-means++", "random", "kaiming")


def check_options(model: TELL) -> None:
    """Check what the constructor stored."""
    check_number_of_clusters(model)
    for name in ("n_init", "max_iter"):
        _check_count(name, getattr(model, name))
    for name in ("tol", "temperature"):
        value: Any = getattr(model, name)
        if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
            raise ParameterError(f"{name} must be a number of at least 0, got {value!r}")
    faded: Any = model.half_life
    if faded is not None and not (isinstance(faded, Real) and 0 < float(faded) < math.inf):
        raise ParameterError(
            f"half_life must be a positive number of rows or None, got {model.half_life!r}"
        )
    if not isinstance(model.grow, bool):
        _check_count("grow", model.grow, other=" of rows, True or False")
    as_bytes(model.memory)
    share: Any = model.trim
    if not (isinstance(share, Real) and 0 <= float(share) < 0.5):
        raise ParameterError(
            f"trim must be a share of the rows of at least 0 and below 0.5, got {model.trim!r}"
        )
    if share and (model.solver != "lloyd" or not isinstance(model.init, str)):
        raise ParameterError("trim must come with solver='lloyd' and an init by name; leave it out")
    if model.passes != "auto":
        _check_count("passes", model.passes, least=0, other=' or "auto"')
    check_workers(model.workers)
    if model.geometry not in ("sphere", "euclidean"):
        raise ParameterError(f"geometry must be 'sphere' or 'euclidean', got {model.geometry!r}")
    if isinstance(model.init, str) and model.init not in SEEDINGS:
        raise ParameterError(
            f"init must be one of {', '.join(SEEDINGS)} or an array of centres, got {model.init!r}"
        )
    if model.solver not in ("lloyd", "sgd"):
        raise ParameterError(f"solver must be 'lloyd' or 'sgd', got {model.solver!r}")
    if not is_usable(model.device):
        raise ParameterError(f"device must be usable here, got {model.device!r}; try 'cpu'")


def check_workers(workers: Any) -> None:
    """Check the number of processes that share a fit."""
    if workers is not None and workers != "torchrun":
        _check_count("workers", workers, other=', "torchrun" or None')


def check_number_of_clusters(model: TELL | DeepTELL) -> None:
    """Check a number, or "auto" and what belongs to it."""
    if model.max_clusters is not None:
        _check_count("max_clusters", model.max_clusters, least=2, other=" or None")
    if model.n_clusters != "auto":
        _check_count("n_clusters", model.n_clusters, other=' or "auto"')
        return
    if not isinstance(getattr(model, "init", ""), str):
        raise ParameterError(
            'n_clusters="auto" must come with an init by name, got an array of centres; pass their '
            "number, or leave init out"
        )


def _check_count(name: str, value: Any, least: int = 1, other: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ParameterError(
            f"{name} must be a whole number of at least {least}{other}, got {value!r}"
        )
    if name in ("n_init", "max_iter") and int(value) > MOST_TRIES:
        raise ParameterError(f"{name} must be at most {MOST_TRIES:,}, got {value!r}")


def check_reject(reject: Any) -> float:
    """A share of rows, strictly between none and all."""
    if isinstance(reject, Real) and 0 < float(reject) < 1:
        return float(reject)
    raise ParameterError(
        f"reject must be a share of rows between 0 and 1, such as 0.01 for 1 %, got {reject!r}"
    )


def is_usable(device: Any) -> bool:
    """Whether this machine can compute on a device of this name."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError):
        return False
    return True


def check_rows(model: TELL, rows: Rows) -> None:
    """Check that there is something to cluster."""
    n = rows.shape[0]
    if model.n_clusters != "auto" and n < int(model.n_clusters):
        raise InputError(
            f"n_clusters={model.n_clusters} needs at least {model.n_clusters} rows, got "
            f"n_samples={n}; pass more rows or lower n_clusters"
        )
    if model.geometry == "sphere" and not rows.length.any():
        raise InputError(
            "all rows are zero and have no direction; pass other rows or geometry='euclidean'"
        )


def given_centers(model: TELL, n_clusters: int, scaling: Scaling, rows: Rows) -> Seeding | Tensor:
    """The seeding's name, or the user's centres (k, d) moved from the data's units."""
    if isinstance(model.init, str):
        return model.init  # type: ignore[return-value]
    centers = np.asarray(model.init, dtype=np.float64)
    wanted = (n_clusters, rows.shape[1])
    if centers.shape != wanted or not np.isfinite(centers).all():
        raise ParameterError(
            f"init must be finite centres of shape {wanted}, got shape {centers.shape}"
        )
    centers = scaling.apply(centers)
    if model.geometry == "sphere":
        length = np.linalg.norm(centers, axis=1, keepdims=True)
        if not length.all():
            raise ParameterError("init must hold no centre of zeros on the sphere; give directions")
        centers = centers / length
    return torch.from_numpy(centers).to(rows.example)


def warn_about(model: TELL, counts: Tensor, *, converged: bool) -> None:
    """Say what the user should know of a fit; call it from the public method."""
    empty = int((counts == 0).sum())
    directions = ""
    if model.geometry == "sphere":
        directions = " in direction (geometry='euclidean' tells them apart by length too)"
    if empty:
        message = (
            f"{empty} of n_clusters={len(counts)} clusters are empty, because fewer rows "
            f"are distinct{directions}; lower n_clusters"
        )
    elif not converged:
        message = (
            f"stopped at max_iter={model.max_iter} before a step lowered the loss by less than "
            f"tol={model.tol}; raise max_iter"
        )
    else:
        return
    warnings.warn(message, ConvergenceWarning, stacklevel=3)
