"""What a model folder keeps of a `TELL`, and how it comes back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from tell.core.rows import Totals
from tell.core.stream import StreamState, Watch
from tell.estimators._rows import Scaling
from tell.exceptions import ModelFileError
from tell.persistence import SavedModel

if TYPE_CHECKING:
    from tell.estimators.tell import TELL

_PLAIN = ("loss_", "n_iter_", "history_", "runs_", "stream_", "metadata_", "n_features_in_")


def describe(model: TELL) -> dict[str, Any]:
    """Everything that is not a tensor, as plain JSON."""
    options = model.get_params()
    if not isinstance(options["init"], str):
        options["init"] = np.asarray(options["init"]).tolist()
    if not isinstance(options["random_state"], int | None):
        options["random_state"] = None  # a generator's future draws do not belong to the model
    options = {name: getattr(value, "item", lambda v=value: v)() for name, value in options.items()}
    learned = {name: getattr(model, name) for name in _PLAIN if hasattr(model, name)}
    if hasattr(model, "feature_names_in_"):
        learned["feature_names_in_"] = [str(name) for name in model.feature_names_in_]
    state = model._fitted_state()
    return {
        "options": options,
        "learned": learned,
        "seen": state.seen,
        "revived_at": state.revived_at,
        "watch": asdict(state.watch),
    }


def tensors_of(model: TELL) -> dict[str, Tensor]:
    """Centres, running memory, scaler, labels and rows that wait for a stream's seeding."""
    state = model._fitted_state()
    tensors = {
        "centers": state.centers,
        "sums": state.memory.sums,
        "counts": state.memory.counts,
        "lengths": state.lengths,
        "labels": torch.from_numpy(model.labels_),
    }
    for name in ("offset", "scale"):
        part = getattr(model._scaling, name)
        if part is not None:
            tensors[name] = torch.from_numpy(np.ascontiguousarray(part))
    for i, (X, weight) in enumerate(model._pending):
        dense = X.toarray() if sp.issparse(X) else X
        tensors[f"pending.{i}"] = torch.from_numpy(np.ascontiguousarray(dense))
        if weight is not None:
            tensors[f"pending_weight.{i}"] = torch.from_numpy(weight)
    return {name: tensor.cpu().clone() for name, tensor in tensors.items()}


def restore(model: TELL, saved: SavedModel) -> TELL:
    """Fill a fresh estimator with what `describe` and `tensors_of` gave."""
    try:
        return _restore(model, saved.config, saved.tensors)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(
            f"the model's description does not fit its tensors ({error})"
        ) from None


def _restore(model: TELL, config: dict[str, Any], tensors: dict[str, Tensor]) -> TELL:
    model.set_params(**config["options"])
    for name, value in config["learned"].items():
        if name not in (*_PLAIN, "feature_names_in_"):
            raise KeyError(name)
        setattr(model, name, value)
    if "feature_names_in_" in config["learned"]:
        model.feature_names_in_ = np.asarray(model.feature_names_in_, dtype=object)
    offset, scale = (
        tensors[name].numpy() if name in tensors else None for name in ("offset", "scale")
    )
    model._scaling = Scaling(offset, scale)
    device = model.device
    model._state = StreamState(
        tensors["centers"].to(device),
        Totals(tensors["sums"].to(device), tensors["counts"].to(device)),
        tensors["lengths"].to(device),
        config["seen"],
        config["revived_at"],
        Watch(**config["watch"]),
    )
    if model._state.centers.shape != (model.n_clusters, model.n_features_in_):
        raise ValueError(f"centres of shape {tuple(model._state.centers.shape)}")
    model.labels_ = tensors["labels"].numpy()
    n_pending = sum(name.startswith("pending.") for name in tensors)
    model._pending = [
        (tensors[f"pending.{i}"].numpy(), _optional(tensors.get(f"pending_weight.{i}")))
        for i in range(n_pending)
    ]
    return model


def _optional(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.numpy()
