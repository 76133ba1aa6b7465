"""The start alone, for those who want labels quickly: it is not TELL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from tell.estimators.deep.recipes.distillation import DistilledStart
from tell.estimators.deep.recipes.recipe import AllRows, Recipe, Stage, Task, check_counts
from tell.estimators.deep.recipes.starts import resolve_start
from tell.exceptions import ParameterError


@dataclass(frozen=True)
class DistilRecipe(Recipe):
    """Labels alone; not TELL: distil a partition into the networks and stop there.

    The clustering loss has no weight in what is minimised. The centres are those of a classifier:
    rows lie on their side of a boundary, not around them, and `loss_` judges nothing that was
    trained. Use it where only `labels_` and `predict` matter.

    Parameters
    ----------
    epochs : int, optional
        Instead of the start's.
    n_init : int
        Runs; the one with the smallest clustering loss is kept.
    start : "graph", labels (n,) or (n, n_clusters), or GraphStart or LabelStart
    """

    epochs: int | None = None
    n_init: int = 1
    start: Any = "graph"

    name: ClassVar[str] = "distil"

    def __post_init__(self) -> None:
        check_counts(self, "epochs", "n_init")
        start = resolve_start(self.start)
        if not isinstance(start, DistilledStart):
            raise ParameterError(
                f"start={start.name!r} must be 'graph' or labels for recipe 'distil'; "
                "pass recipe='tell'"
            )
        object.__setattr__(self, "start", start)

    @property
    def minimised(self) -> tuple[str, ...]:
        """The terms of `Distillation`, in which the clustering loss is only watched."""
        return "reconstruction", "distil"

    def shared(self, rows: AllRows) -> dict[str, Tensor]:
        """Compute what all runs need."""
        found: dict[str, Tensor] = self.start.shared(rows)
        return found

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the stages of the start."""
        start = self.start if self.epochs is None else replace(self.start, epochs=self.epochs)
        yield from start.stages(task)
