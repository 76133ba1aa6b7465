"""What every estimator can do to leave Python."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tell.contract import GrowingModel
from tell.exceptions import ParameterError


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


def check_places(model: object) -> None:
    """Refuse a model whose clusters cannot be known by their place among the centres."""
    if isinstance(model, GrowingModel) and (retired := model.describe().retired):
        raise ParameterError(
            f"an exported model needs clusters without gaps in their numbers, but "
            f"{', '.join(map(str, retired))} was retired; export model.without_retired(), whose "
            "clusters are named by their numbers, or fit again (like=)"
        )
