"""Estimators with scikit-learn's contract, and `load` for what they saved."""

from __future__ import annotations

import os

from tell.estimators._base import NotFittedError
from tell.estimators.deep import DeepTELL
from tell.estimators.tell import TELL
from tell.exceptions import ModelFileError
from tell.persistence import read_model

__all__ = ["TELL", "DeepTELL", "NotFittedError", "load"]

_KINDS: dict[str, type[TELL] | type[DeepTELL]] = {"TELL": TELL, "DeepTELL": DeepTELL}


def load(folder: str | os.PathLike[str]) -> TELL | DeepTELL:
    """Read a model that `save` wrote.

    Nothing in the folder is executed or unpickled.
    """
    saved = read_model(folder)
    if saved.kind not in _KINDS:
        raise ModelFileError(
            f"{folder}: its kind must be one of {', '.join(_KINDS)}, got {saved.kind!r}"
        )
    return _KINDS[saved.kind]._from_saved(saved)
