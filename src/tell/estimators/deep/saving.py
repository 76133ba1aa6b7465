"""What a model folder keeps of a `DeepTELL`, and how it comes back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from tell.core.precision import PRECISIONS
from tell.estimators.deep.import_paths import is_import_path
from tell.estimators.deep.inputs import InputScale, network_shape
from tell.estimators.deep.layer_text import build_layers, is_layer_text, is_named
from tell.estimators.deep.model import DeepModel
from tell.estimators.deep.networks import (
    float32_by_default,
    network_name,
    new_model,
    not_saveable,
)
from tell.estimators.deep.recipes.communities import GraphChoice
from tell.estimators.deep.recipes.describing import (
    check_recipe_comes_back,
    describe_recipe,
    restore_recipe,
)
from tell.estimators.tell_saving import (
    kept_choice,
    kept_preparation,
    kept_prepare,
    restore_preparation,
)
from tell.estimators.validation import is_usable
from tell.exceptions import ModelFileError, ParameterError
from tell.persistence import SavedModel
from tell.schema import (
    ANYTHING,
    NUMBER,
    OBJECT,
    TEXT,
    TRUTH,
    check,
    either,
    list_of,
    one_of,
    optional,
    record,
    whole,
)

if TYPE_CHECKING:
    from tell.estimators.deep.estimator import DeepTELL

KEPT_OPTIONS = (
    "epochs",
    "n_init",
    "n_jobs",
    "max_time",
    "max_clusters",
    "compiled",
    "precision",
    "verbose",
)
KEPT_RESULTS = ("loss_", "table_loss_", "n_iter_", "history_", "runs_", "stream_", "n_features_in_")
PROBES = 16
MOST_VALUES = 1 << 24  # of one row, 4096 × 4096
_COUNT = whole(1, 1 << 31)
_LINES = list_of(OBJECT)
_BATCH = record({"batch": whole(0, 1 << 53)}, may_lack=("batch",), others=NUMBER)
_CHOICE = record(
    {
        "n_clusters": _COUNT,
        "runner_up": optional(whole(1, 1 << 31)),
        "reasons": TEXT,
        "numbers": list_of(_COUNT),
        "modularity": list_of(NUMBER),
        "bonds": list_of(NUMBER),
        "n_rows": _COUNT,
    }
)
# What `describe` writes; the recipe checks its own options.
SCHEMA = record(
    {
        "options": record(
            {
                "n_clusters": _COUNT,
                "embedding_dim": _COUNT,
                "epochs": optional(whole(1, 1 << 31)),
                "n_init": optional(whole(1, 1 << 31)),
                "max_time": optional(NUMBER),
                "max_clusters": optional(whole(2, 1 << 31)),
                "compiled": either(TRUTH, NUMBER),
                "precision": one_of(*PRECISIONS),
                "verbose": either(TRUTH, NUMBER),
                "device": TEXT,
                "encoder": TEXT,
                "decoder": optional(TEXT),
                "augment": optional(TEXT),
                "random_state": optional(whole(0, (1 << 32) - 1)),
            },
            may_lack=("compiled", "embedding_dim", "max_clusters", "precision"),
            others=ANYTHING,
        ),
        "recipe": OBJECT,  # checked by what restores it
        "results": record(
            {
                "loss_": NUMBER,
                "table_loss_": NUMBER,
                "n_iter_": whole(0, 1 << 53),
                "history_": _LINES,
                "runs_": _LINES,
                "stream_": list_of(_BATCH),
                "n_features_in_": _COUNT,
            },
            others=ANYTHING,
        ),
        "input_shape": list_of(whole(1, MOST_VALUES), longest=3),
        "feature_names": optional(list_of(TEXT)),
        "metadata": ANYTHING,
        "choice": optional(_CHOICE),
    },
    may_lack=("choice",),
    others=ANYTHING,
)


def describe(estimator: DeepTELL) -> dict[str, Any]:
    """Return the JSON-able part of a fitted estimator."""
    augment, state = estimator.augment, estimator.random_state
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "options": {name: getattr(estimator, name) for name in KEPT_OPTIONS}
        | {
            # Of the fit: the options may have been set anew since.
            "n_clusters": estimator.layer_.n_clusters,
            "embedding_dim": estimator.layer_.in_features
            if is_named(estimator.encoder)
            else estimator.embedding_dim,
            "device": str(estimator.device),
            "prepare": kept_prepare(estimator.prepare),
            "encoder": network_name(estimator.encoder, "encoder"),
            "decoder": network_name(estimator.decoder, "decoder"),
            # A callable cannot be kept, but it must not be forgotten that there was one.
            "augment": augment if augment is None or isinstance(augment, str) else repr(augment),
            "random_state": int(state) if isinstance(state, int | np.integer) else None,
        },
        "recipe": describe_recipe(estimator._recipe())[0],
        "results": {name: getattr(estimator, name) for name in KEPT_RESULTS},
        "input_shape": list(estimator.input_shape_),
        "feature_names": None if names is None else [str(name) for name in names],
        "metadata": getattr(estimator, "metadata_", {}),
        "preparation": kept_preparation(estimator),
        "choice": kept_choice(estimator) if estimator.n_clusters == "auto" else None,
    }


def tensors_of(estimator: DeepTELL) -> dict[str, Tensor]:
    """Return the numbers of a fitted estimator."""
    model = DeepModel(estimator.encoder_, estimator.decoder_, estimator.layer_)
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"input.{name}": value for name, value in estimator.scale_.tensors().items()}
    tensors |= {
        "labels": torch.from_numpy(estimator.labels_),
        "sizes": torch.from_numpy(estimator.cluster_sizes_),
    }
    tensors |= describe_recipe(estimator._recipe())[1]
    # Cloned, because safetensors refuses tensors that share memory, as tied weights do.
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def check_comes_back(estimator: DeepTELL, saved: SavedModel, kind: type[DeepTELL]) -> None:
    """Refuse a description from which another model would be built.

    A class may be buildable without arguments and yet mean something else than with them, and
    options may have been changed after the fit.
    """
    check_recipe_comes_back(estimator._recipe())
    try:
        again = restore(kind, saved)
    except (ModelFileError, ParameterError) as error:
        raise ParameterError(
            f"the options must be those of the fit to be saved, got {error}; "
            "undo what set_params changed or fit again"
        ) from error
    shape = network_shape(estimator.input_shape_)
    random = torch.Generator().manual_seed(0)
    rows = torch.rand(PROBES, *shape, generator=random, dtype=torch.float32)
    rows = rows.to(estimator.layer_.weight.device)  # the option may name another one by now
    z = _outputs(estimator.encoder_, rows)
    if not _same(z, _outputs(again.encoder_.to(rows.device), rows)):
        raise not_saveable(estimator.encoder, "encoder")
    if (estimator.decoder_ is None) != (again.decoder_ is None):
        raise not_saveable(estimator.decoder, "decoder")
    if estimator.decoder_ is not None and again.decoder_ is not None:
        decoded = _outputs(estimator.decoder_, z)
        if not _same(decoded, _outputs(again.decoder_.to(rows.device), z)):
            raise not_saveable(estimator.decoder, "decoder")
    if not np.allclose(estimator.cluster_centers_, again.cluster_centers_):
        raise ParameterError(
            f"recipe={estimator.recipe!r} must be that of the fit to be saved, got another one; "
            "undo what set_params changed or fit again"
        )


@torch.no_grad()
def _outputs(network: nn.Module, rows: Tensor) -> Tensor:
    network.eval()
    with torch.random.fork_rng(devices=[]):  # some draw numbers even here
        torch.default_generator.manual_seed(0)
        out: Tensor = network(rows)
    return out


def _same(one: Tensor, other: Tensor) -> bool:
    close = {"rtol": 1e-4, "atol": 1e-5}
    return one.shape == other.shape and torch.allclose(one, other, **close, equal_nan=True)


def named_code(config: dict[str, Any]) -> list[str]:
    """The code that a description asks to import, as "encoder 'package.module:name'"."""
    options = config.get("options")
    given = options if isinstance(options, dict) else {}
    networks = {role: given.get(role) for role in ("encoder", "decoder")}
    named = [f"{role} {path!r}" for role, path in networks.items() if is_import_path(path)]
    return named + [f"recipe {path!r}" for path in _named_classes(config.get("recipe"))]


def _named_classes(described: Any) -> list[str]:
    """The classes that a described recipe, or a start inside it, asks to import."""
    if isinstance(described, list):
        return [path for part in described for path in _named_classes(part)]
    if not isinstance(described, dict):
        return []
    own = [str(described["class"])] if "class" in described else []
    return own + [path for part in described.values() for path in _named_classes(part)]


def restore(kind: type[DeepTELL], saved: SavedModel) -> DeepTELL:
    """Rebuild a fitted estimator."""
    config, tensors = saved.config, saved.tensors
    try:
        check(config, SCHEMA, "model.json")
        _check_sizes(config, tensors)
        recipe = restore_recipe(config["recipe"], tensors)
        estimator = kind(recipe=recipe, **config["options"])
        if not is_usable(estimator.device):
            estimator.device = "cpu"  # written on a machine that had more
        shape = tuple(config["input_shape"])
        # What new networks draw is overwritten at once.
        with torch.random.fork_rng(devices=[]), float32_by_default():
            model = new_model(estimator, recipe, network_shape(shape))
        _copy_into(model, tensors)
        estimator.input_shape_ = shape
        if config["feature_names"] is not None:
            estimator.feature_names_in_ = np.array(config["feature_names"], dtype=object)
        estimator.scale_ = InputScale.from_tensors(
            {name: tensors[f"input.{name}"] for name in ("offset", "scale")}
        )
        labels = tensors["labels"].numpy()
        sizes = tensors.get("sizes")  # older files have none
        estimator._set_model(model, labels, None if sizes is None else sizes.numpy())
        for name in KEPT_RESULTS:
            setattr(estimator, name, config["results"][name])
        estimator.metadata_ = config["metadata"]
        restore_preparation(estimator, config.get("preparation"))
        if (choice := config.get("choice")) is not None:
            estimator.n_clusters, estimator.choice_ = "auto", GraphChoice.from_json(choice)
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
        raise ModelFileError(
            f"model file must describe a DeepTELL, got {type(error).__name__}: {error}; fit again"
        ) from error
    return estimator


def _check_sizes(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Refuse sizes that the tensors do not have, before networks of these sizes take memory."""
    options, shape = config["options"], config["input_shape"]
    values = math.prod(shape)
    if values > MOST_VALUES:
        raise ValueError(f"a row of {values} values, at most {MOST_VALUES} are read")
    centers = tensors["model.layer.weight"]
    if centers.ndim != 2 or len(centers) != options["n_clusters"]:
        raise ValueError(f"{options['n_clusters']} clusters, but centres {tuple(centers.shape)}")
    for role in ("encoder", "decoder"):
        if is_layer_text(options[role]):
            planned = build_layers(options[role], device="meta").state_dict().values()
            kept = [v for name, v in tensors.items() if name.startswith(f"model.{role}.")]
            if sum(v.numel() for v in planned) != sum(v.numel() for v in kept):
                raise ValueError(f"{role} {options[role][:80]}, but other weights")
    if is_named(options["encoder"]):
        if options.get("embedding_dim", centers.shape[1]) != centers.shape[1]:
            raise ValueError(f"embedding_dim {options['embedding_dim']}")
        weights = [v for name, v in tensors.items() if name.startswith("model.encoder.")]
        images = any(weight.ndim == 4 for weight in weights)
        if not images and not any(w.ndim == 2 and w.shape[1] == values for w in weights):
            raise ValueError(f"rows of {values} values, but no layer for them")


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
