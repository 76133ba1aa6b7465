"""Interpretable neural clustering: k-means as a neural layer that can say why.

Names load on first use, so that `import tell` costs nothing and `tell --help` answers at once.
`dir(tell)` is the table of contents.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tell.contract import ClusterModel
    from tell.core.layer import ClusterLayer, ClusterOutput
    from tell.data.sources import open_source
    from tell.data.table_preparation import TablePreparation
    from tell.estimators import TELL, DeepTELL, NotFittedError, load, network_builder
    from tell.estimators.deep.recipes.distil import DistilRecipe
    from tell.estimators.deep.recipes.paper import PaperRecipe
    from tell.estimators.deep.recipes.recipe import Recipe
    from tell.estimators.deep.recipes.tell_recipe import TellRecipe
    from tell.estimators.deep.recipes.views import Views
    from tell.estimators.how_many import choose
    from tell.exceptions import (
        CompilerWarning,
        ConvergenceWarning,
        DataUnavailableError,
        DivergedError,
        DriftWarning,
        GrowthWarning,
        InputError,
        MissingDependencyError,
        ModelChangedError,
        ModelFileError,
        ParameterError,
        TellError,
        TellWarning,
        UntrustedModelError,
        WorkerError,
    )
    from tell.explanations import explain, explain_change, report
    from tell.metrics import evaluate

__all__ = [
    "TELL",
    "ClusterLayer",
    "ClusterModel",
    "ClusterOutput",
    "CompilerWarning",
    "ConvergenceWarning",
    "DataUnavailableError",
    "DeepTELL",
    "DistilRecipe",
    "DivergedError",
    "DriftWarning",
    "GrowthWarning",
    "InputError",
    "MissingDependencyError",
    "ModelChangedError",
    "ModelFileError",
    "NotFittedError",
    "PaperRecipe",
    "ParameterError",
    "Recipe",
    "TablePreparation",
    "TellError",
    "TellRecipe",
    "TellWarning",
    "UntrustedModelError",
    "Views",
    "WorkerError",
    "__version__",
    "choose",
    "evaluate",
    "explain",
    "explain_change",
    "load",
    "network_builder",
    "open_source",
    "report",
]

_ELSEWHERE = {
    "ClusterLayer": "tell.core.layer",
    "ClusterModel": "tell.contract",
    "ClusterOutput": "tell.core.layer",
    "DeepTELL": "tell.estimators",
    "DistilRecipe": "tell.estimators",
    "NotFittedError": "tell.estimators",
    "PaperRecipe": "tell.estimators",
    "Recipe": "tell.estimators.deep.recipes.recipe",
    "TELL": "tell.estimators",
    "TellRecipe": "tell.estimators",
    "Views": "tell.estimators",
    "TablePreparation": "tell.data.table_preparation",
    "choose": "tell.estimators.how_many",
    "evaluate": "tell.metrics",
    "explain": "tell.explanations",
    "explain_change": "tell.explanations",
    "load": "tell.estimators",
    "network_builder": "tell.estimators",
    "open_source": "tell.data.sources",
    "report": "tell.explanations",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'tell' has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "tell.exceptions")), name)


def __dir__() -> list[str]:
    return sorted(__all__)
