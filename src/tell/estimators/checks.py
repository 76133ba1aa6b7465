"""One sentence for every option out of its range, and for a fit that calls for another one."""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tell.core.assignment import Rows
from tell.core.seeding import Seeding
from tell.data.limits import as_bytes
from tell.exceptions import ConvergenceWarning, InputError, ParameterError

if TYPE_CHECKING:
    from tell.estimators.deep.estimator import DeepTELL
    from tell.estimators.scaling import Scaling
    from tell.estimators.tell import TELL

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


def given_centers(model: TELL, scaling: Scaling, rows: Rows) -> Seeding | Tensor:
    """The seeding's name, or the user's centres (k, d) moved from the data's units."""
    if isinstance(model.init, str):
        return model.init  # type: ignore[return-value]
    centers = np.asarray(model.init, dtype=np.float64)
    wanted = (model._planned, rows.shape[1])
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


def warn_about(model: TELL, counts: Tensor, *, converged: bool, stacklevel: int = 3) -> None:
    """Say what the user should know of a fit; call it from the public method."""
    empty = int((counts == 0).sum())
    directions = ""
    if model.geometry == "sphere":
        directions = " in direction (geometry='euclidean' tells them apart by length too)"
    if empty:
        message = (
            f"{empty} of n_clusters={model._planned} clusters are empty, because fewer rows "
            f"are distinct{directions}; lower n_clusters"
        )
    elif not converged:
        message = (
            f"stopped at max_iter={model.max_iter} before a step lowered the loss by less than "
            f"tol={model.tol}; raise max_iter"
        )
    else:
        return
    warnings.warn(message, ConvergenceWarning, stacklevel=stacklevel)
