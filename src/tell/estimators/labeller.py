"""A saved `TELL` that labels rows at once, without waiting for torch and scikit-learn to load."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.contract import TakesSources
from tell.core.array_search import label_array
from tell.data.arrays import ArraySource
from tell.data.preparation import Preparation
from tell.estimators import restored
from tell.estimators.scaling import Floats, Scaling
from tell.estimators.tell_folder import SCHEMA, check_arrays
from tell.exceptions import ModelFileError
from tell.persistence import PackedModel, read_packed
from tell.schema import check

if TYPE_CHECKING:
    from tell.adapter import KMeansAdapter
    from tell.core.layer import Geometry
    from tell.estimators.deep.estimator import DeepTELL
    from tell.estimators.tell import TELL


class Labeller(TakesSources):
    """What `tell predict` needs of a `TELL`: its columns, its clusters and the labels of rows.

    Rows are scaled and searched by the same functions as in `TELL.predict`, and what these leave
    to the longer way (rows on top of their centre, of extreme length or of none) goes to the model
    itself, opened from the same bytes.
    """

    def __init__(self, packed: PackedModel, folder: str | os.PathLike[str]) -> None:
        config, arrays = packed.config, packed.arrays()
        check(config, SCHEMA, "model.json")
        options, learned = config["options"], config["learned"]
        if options["device"] != "cpu" or options["geometry"] not in ("sphere", "euclidean"):
            raise ValueError("other devices are left to torch, and other words to the model")
        k, self.n_features_in_ = len(arrays["centers"]), int(learned["n_features_in_"])
        if options["n_clusters"] not in (k, "auto"):
            raise ValueError("n_clusters and the centres differ")
        check_arrays(arrays, k, self.n_features_in_)
        self._packed, self._folder = packed, folder
        self._centers = arrays["centers"]
        self._geometry: Geometry = options["geometry"]
        self._scaling = Scaling(arrays.get("offset"), arrays.get("scale"))
        retired = arrays.get("growth.retired", np.zeros(k, bool))
        self._live = np.flatnonzero(~retired) if retired.any() else None
        self.metadata_ = learned.get("metadata_")
        if "feature_names_in_" in learned:
            self.feature_names_in_ = np.asarray(learned["feature_names_in_"], dtype=object)
        if config.get("preparation") is not None:
            self.preparation_ = Preparation.from_json(config["preparation"])

    @property
    def cluster_centers_(self) -> Floats:
        """Centres in the clustered space, of shape (k, d)."""
        return self._scaling.shown(self._centers)

    @cached_property
    def model(self) -> Any:
        """The whole model."""
        return restored(self._packed, self._folder)

    def predict(self, X: ArraySource) -> NDArray[np.int32]:
        """The nearest centre of each row, as `TELL.predict` gives it."""
        rows, found = X.matrix(), None
        if rows.shape[1] == self.n_features_in_:
            scaled = self._scaling.apply(rows)
            found = label_array(scaled, self._centers, self._geometry, self._live)
        if found is not None:
            return found
        labels: NDArray[np.int32] = self.model.predict(X)
        return labels


def open_labeller(
    folder: str | os.PathLike[str], *, trust: bool = False
) -> Labeller | TELL | DeepTELL | KMeansAdapter:
    """Open a model to label rows with it: a `TELL` without torch, any other as `load` does."""
    packed = read_packed(folder)
    if packed.kind == "TELL":
        try:
            return Labeller(packed, folder)
        except (ModelFileError, KeyError, TypeError, ValueError, AttributeError, IndexError):
            pass  # what is the matter says the model itself, or it can be opened all the same
    return restored(packed, folder, trust=trust)
