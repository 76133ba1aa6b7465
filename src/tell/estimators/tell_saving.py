"""What a model folder keeps of a `TELL`, and how it comes back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from tell.choosing.choice import Choice
from tell.core.assignment import Totals
from tell.core.growing import Growth
from tell.core.online import StreamState, Watch
from tell.core.radii import BINS, Radii
from tell.data.preparation import Preparation
from tell.data.table_preparation import TablePreparation
from tell.estimators.scaling import Floats, Scaling
from tell.estimators.tell_folder import GROWTH, PLAIN, SCHEMA, check_arrays, check_floats
from tell.estimators.validation import check_options, is_usable
from tell.exceptions import ModelFileError
from tell.persistence import SavedModel
from tell.schema import check

if TYPE_CHECKING:
    from tell.estimators.tell import TELL

_CSR = ("data", "indices", "indptr")


def describe(model: TELL) -> dict[str, Any]:
    """Everything that is not a tensor, as plain JSON."""
    state = model._fitted_state()
    # `set_params` may ask the next fit for another number; the file is about this one.
    options = model.get_params(deep=False)
    if options["n_clusters"] != "auto":
        options["n_clusters"] = len(state.centers)
    if not isinstance(options["init"], str):
        options["init"] = np.asarray(options["init"]).tolist()
    options = {name: getattr(value, "item", lambda v=value: v)() for name, value in options.items()}
    if not isinstance(options["random_state"], int | None):
        options["random_state"] = None  # a generator's future draws do not belong to the model
    options["prepare"] = kept_prepare(options["prepare"])
    learned = {name: getattr(model, name) for name in PLAIN if hasattr(model, name)}
    if hasattr(model, "feature_names_in_"):
        learned["feature_names_in_"] = [str(name) for name in model.feature_names_in_]
    return {
        "options": options,
        "learned": learned,
        "seed": getattr(model, "_seed", None),
        "usual_loss": model._usual_loss,
        "seen": state.seen,
        "revived_at": state.revived_at,
        "looked_at": None if state.growth is None else state.growth.looked_at,
        "watch": asdict(state.watch),
        "preparation": kept_preparation(model),
        "choice": kept_choice(model),
    }


def kept_prepare(prepare: Any) -> Any:
    """The parameter `prepare` as JSON: what it would learn for the next fit."""
    return prepare.get_params() if isinstance(prepare, TablePreparation) else prepare


def kept_choice(model: Any) -> dict[str, Any] | None:
    """How the number of clusters was chosen, as JSON."""
    choice = getattr(model, "choice_", None)
    return None if choice is None else choice.to_json()


def restore_choice(model: Any, content: dict[str, Any] | None) -> None:
    """Give a model the choice of its number back."""
    if content is not None:
        model.choice_ = Choice.from_json(content)


def kept_preparation(model: Any) -> dict[str, Any] | None:
    """What was learned of a table, as JSON."""
    learned = getattr(model, "preparation_", None)
    return None if learned is None else learned.to_json()


def restore_preparation(model: Any, content: dict[str, Any] | None) -> None:
    """Give a model its preparation back."""
    if isinstance(model.prepare, dict):
        model.prepare = TablePreparation(**model.prepare)
    if content is not None:
        model.preparation_ = Preparation.from_json(content)


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
    if state.radii is not None:
        tensors |= {"radii.counts": state.radii.counts, "radii.unit": state.radii.unit}
    if state.growth is not None:
        tensors |= {f"growth.{name}": getattr(state.growth, name) for name in GROWTH}
    for name in ("offset", "scale"):
        part = getattr(model._scaling, name)
        if part is not None:
            tensors[name] = torch.from_numpy(np.ascontiguousarray(part))
    for i, (X, weight) in enumerate(model._pending):
        for name, part in _parts(X, weight).items():
            tensors[f"pending.{i}.{name}"] = torch.from_numpy(np.ascontiguousarray(part))
    return {name: tensor.cpu().clone() for name, tensor in tensors.items()}


def _parts(X: Any, weight: Floats | None) -> dict[str, NDArray[Any]]:
    """A batch as plain arrays; a sparse one is not made dense."""
    sparse = sp.issparse(X)
    parts = {name: getattr(X, name) for name in _CSR} if sparse else {"rows": X}
    return parts if weight is None else {**parts, "weight": weight}


def _from_parts(parts: dict[str, NDArray[Any]], n_features: int) -> tuple[Any, Floats | None]:
    if "rows" in parts:
        return parts["rows"], parts.get("weight")
    shape = (len(parts["indptr"]) - 1, n_features)
    return sp.csr_array(tuple(parts[name] for name in _CSR), shape=shape), parts.get("weight")


def restore(model: TELL, saved: SavedModel) -> TELL:
    """Fill a fresh estimator with what `describe` and `tensors_of` gave."""
    try:
        check(saved.config, SCHEMA, "model.json")
        return _restore(model, saved.config, saved.tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
        raise ModelFileError(
            f"the model's description does not fit its tensors ({error}); restore the folder or "
            "fit again"
        ) from None


def _restore(model: TELL, config: dict[str, Any], tensors: dict[str, Tensor]) -> TELL:
    model.set_params(**config["options"])
    restore_preparation(model, config.get("preparation"))
    for name, value in config["learned"].items():
        if name not in (*PLAIN, "feature_names_in_"):
            raise KeyError(name)
        setattr(model, name, value)
    if "feature_names_in_" in config["learned"]:
        model.feature_names_in_ = np.asarray(model.feature_names_in_, dtype=object)
    offset, scale = (
        tensors[name].numpy() if name in tensors else None for name in ("offset", "scale")
    )
    model._scaling = Scaling(offset, scale)
    if not is_usable(model.device):
        model.device = "cpu"  # written on a machine that had more
    check_options(model)
    restore_choice(model, config.get("choice"))
    auto = model.n_clusters == "auto"
    k = model.choice_.n_clusters if auto else int(model.n_clusters)
    if auto and "growth.last" in tensors:  # more than were chosen may have been born since
        k = max(k, len(tensors["growth.last"]))
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    check_arrays(arrays, k, model.n_features_in_)
    if "radii.counts" in arrays:
        check_floats(arrays, {"radii.counts": (k, BINS), "radii.unit": (k,)})
    device = model.device
    model._usual_loss = config.get("usual_loss", model.loss_)
    if config["seed"] is not None:
        model._seed = config["seed"]
    model._state = StreamState(
        tensors["centers"].to(device),
        Totals(tensors["sums"].to(device), tensors["counts"].to(device)),
        tensors["lengths"].to(device),
        config["seen"],
        config["revived_at"],
        Watch(**config["watch"]),
        _radii(tensors, device),
        _growth(tensors, config.get("looked_at"), device),
    )
    model.labels_ = tensors["labels"].numpy()
    batches: dict[int, dict[str, NDArray[Any]]] = {}
    for name in tensors:
        if name.startswith("pending."):
            _, i, part = name.split(".")
            batches.setdefault(int(i), {})[part] = tensors[name].numpy()
    model._pending = [_from_parts(batches[i], model.n_features_in_) for i in sorted(batches)]
    return model


def _radii(tensors: dict[str, Tensor], device: str) -> Radii | None:
    """The distances in each cluster; models of earlier versions have none."""
    if "radii.counts" not in tensors:
        return None
    return Radii(tensors["radii.counts"].to(device), tensors["radii.unit"].to(device))


def _growth(tensors: dict[str, Tensor], looked_at: float | None, device: str) -> Growth | None:
    """Who waits outside of a stream that grows."""
    if looked_at is None:
        return None
    parts = {name: tensors[f"growth.{name}"].to(device) for name in GROWTH}
    return Growth(**parts, looked_at=looked_at)
