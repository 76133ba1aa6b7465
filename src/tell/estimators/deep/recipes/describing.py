"""A recipe as JSON and tensors for a model folder, and back.

Ours are kept by name, those of a user by import path, as networks are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tell.estimators.deep.import_paths import import_path, imported
from tell.estimators.deep.recipes import RECIPES
from tell.estimators.deep.recipes.distil import DistilRecipe
from tell.estimators.deep.recipes.given_labels import LabelStart
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.recipe import Recipe
from tell.estimators.deep.recipes.start import Start
from tell.estimators.deep.recipes.starts import STARTS
from tell.estimators.deep.recipes.views import Views
from tell.exceptions import ModelFileError, ParameterError

PARTS: dict[str, type] = {**RECIPES, **STARTS, LabelStart.name: LabelStart, Views.name: Views}


def describe_recipe(recipe: Recipe) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the JSON of a recipe, and the arrays among its options.

    >>> from tell.estimators import PaperRecipe
    >>> describe_recipe(PaperRecipe())[0]["name"]
    'paper'
    """
    tensors: dict[str, Tensor] = {}
    described: dict[str, Any] = _described(recipe, "recipe", tensors)
    return described, tensors


def _described(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Recipe | Start | Views):
        options = {
            field.name: _described(getattr(value, field.name), f"{place}.{field.name}", tensors)
            for field in fields(value)
            if field.init
        }
        return {**_kind(type(value)), "options": options}
    if isinstance(value, np.ndarray | Tensor):
        tensors[place] = torch.as_tensor(value)
        return {"tensor": place}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_described(part, f"{place}.{n}", tensors) for n, part in enumerate(value)]
    raise ParameterError(
        f"{place} must be a number, a string, an array or a start to be saved, got {value!r}; "
        "keep such things in the recipe's class"
    )


def _kind(kind: type) -> dict[str, str]:
    name = getattr(kind, "name", "")
    return {"name": name} if PARTS.get(name) is kind else {"class": import_path(kind)}


def restore_recipe(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Recipe:
    """Build the recipe that `describe_recipe` described."""
    if described.get("name") == "fast":
        return _older(dict(described["options"]))
    recipe = _restored(described, tensors)
    if not isinstance(recipe, Recipe):
        raise ModelFileError(f"model file must name a recipe, got {described}; fit again")
    return recipe


def _restored(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, Mapping) and "tensor" in value:
        return tensors[value["tensor"]].numpy()
    if isinstance(value, Mapping):
        options = {name: _restored(part, tensors) for name, part in value["options"].items()}
        return _class(value)(**options)
    if isinstance(value, list):
        return tuple(_restored(part, tensors) for part in value)
    return value


def _class(described: Mapping[str, Any]) -> Callable[..., Any]:
    if "class" not in described:
        return PARTS[described["name"]]
    found = imported(described["class"])
    if not (isinstance(found, type) and issubclass(found, Recipe | Start) and is_dataclass(found)):
        raise ModelFileError(
            f"{described['class']!r} must be a recipe or a start, got {found!r}; was its code "
            "changed after saving?"
        )
    return found


def _older(options: dict[str, Any]) -> DistilRecipe:
    """Read what was the recipe "fast" of earlier files."""
    epochs, n_init = options.pop("epochs"), options.pop("n_init")
    return DistilRecipe(epochs=epochs, n_init=n_init, start=GraphStart(**options))


def check_recipe_comes_back(recipe: Recipe) -> None:
    """Refuse a recipe whose class the reader of a model folder could not find or build."""
    try:
        again = restore_recipe(*describe_recipe(recipe))
    except (ModelFileError, TypeError) as error:
        raise ParameterError(
            f"recipe={recipe!r} must be importable and come back from its options to be saved, got "
            f"{error}; make it a dataclass in a module of yours"
        ) from error
    if again != recipe:
        raise ParameterError(
            f"recipe={recipe!r} must come back the same to be saved, got {again!r}; keep all that "
            "it needs in the fields of its dataclass"
        )
