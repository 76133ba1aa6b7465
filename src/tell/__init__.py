"""Interpretable neural clustering: k-means as a neural layer that can say why.

Names load on first use, so that `import tell` costs nothing and `tell --help` answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "ClusterLayer": "tell.core.layer",
    "ClusterOutput": "tell.core.layer",
    "TELL": "tell.estimators",
    "DeepTELL": "tell.estimators",
    "load": "tell.estimators",
    "NotFittedError": "tell.estimators",
    "evaluate": "tell.metrics",
}

__all__ = [
    "TELL",
    "ClusterLayer",
    "ClusterOutput",
    "DeepTELL",
    "NotFittedError",
    "evaluate",
    "load",
]

if TYPE_CHECKING:
    from tell.core.layer import ClusterLayer, ClusterOutput
    from tell.estimators import TELL, DeepTELL, NotFittedError, load
    from tell.metrics import evaluate


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tell' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
