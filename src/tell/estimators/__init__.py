"""Estimators with scikit-learn's contract, and `load` for what they saved.

They load on first use: who clusters a table does not wait for the machinery of `DeepTELL`, and who
only labels rows with a saved model waits for neither torch nor scikit-learn.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from tell.exceptions import ModelFileError, UntrustedModelError
from tell.persistence import PackedModel, SavedModel, comes_from, read_packed

if TYPE_CHECKING:
    from tell.adapter import KMeansAdapter
    from tell.estimators.deep.estimator import DeepTELL
    from tell.estimators.deep.networks import network_builder
    from tell.estimators.deep.recipes.distil import DistilRecipe
    from tell.estimators.deep.recipes.given_labels import LabelStart
    from tell.estimators.deep.recipes.graph import GraphStart
    from tell.estimators.deep.recipes.kmeans import KMeansStart
    from tell.estimators.deep.recipes.paper import PaperRecipe
    from tell.estimators.deep.recipes.recipe import Recipe, Stage, Task
    from tell.estimators.deep.recipes.tell_recipe import TellRecipe
    from tell.estimators.deep.recipes.views import Views
    from tell.estimators.tell import TELL
    from tell.estimators.validation import NotFittedError

__all__ = [
    "TELL",
    "DeepTELL",
    "DistilRecipe",
    "GraphStart",
    "KMeansStart",
    "LabelStart",
    "NotFittedError",
    "PaperRecipe",
    "Recipe",
    "Stage",
    "Task",
    "TellRecipe",
    "Views",
    "load",
    "network_builder",
]

_ELSEWHERE = {
    "DeepTELL": "tell.estimators.deep.estimator",
    "DistilRecipe": "tell.estimators.deep.recipes.distil",
    "GraphStart": "tell.estimators.deep.recipes.graph",
    "KMeansStart": "tell.estimators.deep.recipes.kmeans",
    "LabelStart": "tell.estimators.deep.recipes.given_labels",
    "NotFittedError": "tell.estimators.validation",
    "PaperRecipe": "tell.estimators.deep.recipes.paper",
    "network_builder": "tell.estimators.deep.networks",
    "Recipe": "tell.estimators.deep.recipes.recipe",
    "Stage": "tell.estimators.deep.recipes.recipe",
    "TELL": "tell.estimators.tell",
    "Task": "tell.estimators.deep.recipes.recipe",
    "TellRecipe": "tell.estimators.deep.recipes.tell_recipe",
    "Views": "tell.estimators.deep.recipes.views",
}
_KINDS = ("TELL", "DeepTELL", "KMeansAdapter")


def __getattr__(name: str) -> object:
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module 'tell.estimators' has no attribute {name!r}")


def load(folder: str | os.PathLike[str], *, trust: bool = False) -> TELL | DeepTELL | KMeansAdapter:
    """Read a model that `save` wrote.

    Weights are never unpickled, and no code that a folder names is run unless you trust it.

    Parameters
    ----------
    folder : path
    trust : bool
        Whether a `DeepTELL` with networks of its own may import and call the classes and
        `network_builder` functions that the folder names. Say so only for folders from people
        whose programs you would run.

    Raises
    ------
    ModelFileError
        If the folder is missing, foreign, damaged or of a newer format.
    UntrustedModelError
        If it names code and `trust` is not set.
    """
    return restored(read_packed(folder), folder, trust=trust)


def restored(
    packed: PackedModel, folder: str | os.PathLike[str], *, trust: bool = False
) -> TELL | DeepTELL | KMeansAdapter:
    """The model that was read from a folder."""
    if packed.kind not in _KINDS:
        raise ModelFileError(
            f"{folder}: its kind must be one of {', '.join(_KINDS)}, got {packed.kind!r}"
        )
    saved = packed.opened()
    model = _restored(saved, folder, trust=trust)
    comes_from(model, folder, saved)
    return model


def _restored(
    saved: SavedModel, folder: str | os.PathLike[str], *, trust: bool
) -> TELL | DeepTELL | KMeansAdapter:
    if saved.kind == "TELL":
        from tell.estimators.tell import TELL

        return TELL._from_saved(saved)
    if saved.kind == "KMeansAdapter":
        from tell.adapter import KMeansAdapter

        return KMeansAdapter._from_saved(saved)
    from tell.estimators.deep.estimator import DeepTELL
    from tell.estimators.deep.saving import named_code

    if not trust and (code := named_code(saved.config)):
        raise UntrustedModelError(
            f"{folder} names code of its own ({', '.join(code)}), which loading would run; if you "
            "trust whoever made it, load(folder, trust=True) or --trust allows it"
        )
    return DeepTELL._from_saved(saved)
