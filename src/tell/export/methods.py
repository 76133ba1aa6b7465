"""What every estimator can do to leave Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tell.contract import GrowingModel
from tell.exceptions import ParameterError

if TYPE_CHECKING:
    from tell.export.rules import Rules


class Exportable:
    """Models that can be written for other places."""

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        double: bool = False,
        reject: float | None = None,
    ) -> None:
        """Write the model as an ONNX file: the user's columns and units in, labels out.

        Needs the extra `onnx`. See `tell.export.onnx_model.to_onnx` for its inputs and outputs.

        Parameters
        ----------
        path : of the file
        double : bool, default=False
            Take arrays in double, not in float.
        reject : float, optional
            Say `rejected` of rows that `predict(X, reject=...)` gives -1; for a `TELL`.
        """
        from tell.export.onnx_model import write_onnx

        check_places(self)
        write_onnx(self, path, double=double, reject=reject)  # type: ignore[arg-type]

    def to_sql(
        self, table: str = "rows", *, dialect: str = "standard", keep: Sequence[str] | None = None
    ) -> str:
        """One SELECT that labels the rows of a table, for models without an encoder."""
        from tell.export.sql import to_sql

        check_places(self)
        return to_sql(self, table, dialect, keep)  # type: ignore[arg-type]

    def to_rules(
        self,
        X: Any,
        *,
        n_leaves: int | None = None,
        sample_size: int = 20_000,
        random_state: int = 0,
    ) -> Rules:
        """Rules that stand in for the model: they predict, print, go to SQL, and state their price.

        A tree of thresholds on the data's own columns, grown to keep the model's loss low: one leaf
        per cluster by iterative mistake minimisation (Dasgupta et al. 2020), further ones where
        they take most off the loss (ExKMC, Frost et al. 2020). Works behind an encoder too.

        Parameters
        ----------
        X : rows like those of the fit, of whatever `fit` takes
        n_leaves : int, optional
            Rules in all, at least one per cluster; by default two per cluster.
        sample_size : int, default=20_000
            Of more rows than that a uniform sample is taken.
        random_state : int, default=0
            Seed of that sample.
        """
        from tell.export.rules import learn_rules

        check_places(self)
        return learn_rules(
            self,  # type: ignore[arg-type]
            X,
            n_leaves=n_leaves,
            sample_size=sample_size,
            random_state=random_state,
        )


def check_places(model: object) -> None:
    """Refuse a model whose clusters cannot be known by their place among the centres."""
    if isinstance(model, GrowingModel) and (retired := model.describe().retired):
        raise ParameterError(
            f"an exported model needs clusters without gaps in their numbers, but "
            f"{', '.join(map(str, retired))} was retired; export model.without_retired(), whose "
            "clusters are named by their numbers, or fit again (like=)"
        )
