"""What the compared methods see: raw rows, or features of an autoencoder or of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.exceptions import InputError, ParameterError


def features_of(
    X: NDArray[np.float32], features: str, *, random_state: int = 0, trust: bool = False
) -> NDArray[Any]:
    """Rows for the methods.

    Parameters
    ----------
    X : ndarray (n, d)
    features : str
        "raw" for X itself; "ae" for the 10 features of an autoencoder pre-trained on X; else the
        folder of a saved `DeepTELL`, whose embedding is taken.
    random_state : int
        Seeds the autoencoder.
    trust : bool
        Whether the model may run code that its folder names.

    Examples
    --------
    >>> features_of(np.eye(3, dtype=np.float32), "raw").shape
    (3, 3)
    """
    if features == "raw":
        return X
    if features == "ae":
        from tell.baselines.pretraining import autoencoder_features

        return autoencoder_features(X, random_state=random_state)
    if not Path(features).is_dir():
        raise ParameterError(
            f"features must be raw, ae or the folder of a model, got {features!r}; "
            "write one with tell fit --deep --out model"
        )
    return _model_features(X, features, trust=trust)


def _model_features(X: NDArray[np.float32], folder: str, *, trust: bool) -> NDArray[Any]:
    from tell.contract import EncodedInput
    from tell.estimators import load

    model = load(folder, trust=trust)
    if not isinstance(model.input_path, EncodedInput):
        raise InputError(
            f"{folder} holds a {model.describe().kind}, which learns no features; "
            "give a model of tell fit --deep, or use raw"
        )
    return np.asarray(model.embed(X.reshape(-1, *model.describe().input_shape)), dtype=np.float32)
