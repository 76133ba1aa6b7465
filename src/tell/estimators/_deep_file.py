"""What a model folder keeps of a `DeepTELL`, and how it comes back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tell.estimators._deep_input import InputScale, network_shape
from tell.estimators._deep_networks import network_name, new_model
from tell.estimators._deep_recipes import RECIPES
from tell.estimators._deep_run import DeepModel
from tell.exceptions import ModelFileError
from tell.persistence import SavedModel

if TYPE_CHECKING:
    from tell.estimators.deep import DeepTELL

KEPT_OPTIONS = ("n_clusters", "embedding_dim", "epochs", "n_init", "max_time", "device", "verbose")
KEPT_RESULTS = ("loss_", "table_loss_", "n_iter_", "history_", "runs_", "stream_", "n_features_in_")


def describe(estimator: DeepTELL) -> dict[str, Any]:
    """Return the JSON-able part of a fitted estimator."""
    recipe = estimator._recipe()
    augment, state = estimator.augment, estimator.random_state
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "options": {name: getattr(estimator, name) for name in KEPT_OPTIONS}
        | {
            "encoder": network_name(estimator.encoder, "encoder"),
            "decoder": network_name(estimator.decoder, "decoder"),
            # A callable cannot be kept, but it must not be forgotten that there was one.
            "augment": augment if augment is None or isinstance(augment, str) else repr(augment),
            "random_state": int(state) if isinstance(state, int | np.integer) else None,
        },
        "recipe": {"name": recipe.name, "options": asdict(recipe)},
        "results": {name: getattr(estimator, name) for name in KEPT_RESULTS},
        "input_shape": list(estimator.input_shape_),
        "feature_names": None if names is None else [str(name) for name in names],
        "metadata": getattr(estimator, "metadata_", {}),
    }


def tensors_of(estimator: DeepTELL) -> dict[str, Tensor]:
    """Return the numbers of a fitted estimator."""
    model = DeepModel(estimator.encoder_, estimator.decoder_, estimator.layer_)
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"input.{name}": value for name, value in estimator.scale_.tensors().items()}
    return tensors | {"labels": torch.from_numpy(estimator.labels_)}


def restore(kind: type[DeepTELL], saved: SavedModel) -> DeepTELL:
    """Rebuild a fitted estimator."""
    config, tensors = saved.config, saved.tensors
    try:
        recipe = RECIPES[config["recipe"]["name"]](**config["recipe"]["options"])
        estimator = kind(recipe=recipe, **config["options"])
        shape = tuple(config["input_shape"])
        with torch.random.fork_rng(devices=[]):  # what new networks draw is overwritten at once
            model = new_model(estimator, recipe, network_shape(shape))
        _copy_into(model, tensors)
        estimator.input_shape_ = shape
        if config["feature_names"] is not None:
            estimator.feature_names_in_ = np.array(config["feature_names"], dtype=object)
        estimator.scale_ = InputScale.from_tensors(
            {name: tensors[f"input.{name}"] for name in ("offset", "scale")}
        )
        estimator._set_model(model, tensors["labels"].numpy())
        for name in KEPT_RESULTS:
            setattr(estimator, name, config["results"][name])
        estimator.metadata_ = config["metadata"]
    except (KeyError, TypeError) as error:
        raise ModelFileError(
            f"model file must describe a DeepTELL, got {type(error).__name__}: {error}; fit again"
        ) from error
    return estimator


def _copy_into(model: DeepModel, tensors: dict[str, Tensor]) -> None:
    """Overwrite the model's numbers with the file's."""
    for name, value in model.state_dict().items():
        kept = tensors.get(f"model.{name}")
        if kept is None or kept.shape != value.shape:
            found = "nothing" if kept is None else f"shape {tuple(kept.shape)}"
            raise ModelFileError(
                f"model file must hold {name} of shape {tuple(value.shape)}, got {found}; "
                "was the network's code changed after saving?"
            )
        value.data.copy_(kept)  # .data: as in Loop.restore
