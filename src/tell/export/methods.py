"""What every estimator can do to leave Python."""

from __future__ import annotations

import os
from collections.abc import Sequence


class Exportable:
    """Models that can be written for other places."""

    def to_onnx(self, path: str | os.PathLike[str], *, double: bool = False) -> None:
        """Write the model as an ONNX file: the user's columns and units in, labels out.

        Needs the extra `onnx`. See `tell.export.onnx_model.to_onnx` for its inputs and outputs.
        """
        from tell.export.onnx_model import write_onnx

        write_onnx(self, path, double=double)  # type: ignore[arg-type] # the mixin of a model

    def to_sql(
        self, table: str = "rows", *, dialect: str = "standard", keep: Sequence[str] | None = None
    ) -> str:
        """One SELECT that labels the rows of a table, for models without an encoder."""
        from tell.export.sql import to_sql

        return to_sql(self, table, dialect, keep)  # type: ignore[arg-type]
