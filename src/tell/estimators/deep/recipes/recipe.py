"""What a recipe is: a cluster layer and a list of stages, each one loop.

To add a recipe here, subclass `Recipe` in a file of this folder and add it to the table in
`__init__.py`. A recipe of your own needs no table: pass the object, `DeepTELL(recipe=Mine())`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar

from torch import Tensor
from torch.optim import Optimizer

from tell.core.batches import Augment, Batches
from tell.core.layer import ClusterLayer
from tell.core.loop import Hook, Record
from tell.core.objective import PAPER_WEIGHT, Objective
from tell.core.schedule import Rate, constant_rate
from tell.estimators.deep.model import DeepModel
from tell.estimators.deep.streaming import SourceRows, StreamedBatches
from tell.exceptions import ParameterError


@dataclass(frozen=True)
class AllRows:
    """What a fit knows before any of its runs begins."""

    x: Tensor
    n_clusters: int
    seed: int  # of the first run
    augment: Augment | None = None
    visible: bool = False


@dataclass
class Task:
    """One run of a recipe: a model to train on rows from a seed.

    `x` are all rows, or a sample of those in `source`, where memory does not hold them. `shared`
    is what the recipe's `shared` found for all runs of the fit.
    """

    model: DeepModel
    x: Tensor
    seed: int
    augment: Augment | None = None
    visible: bool = False
    shared: Mapping[str, Tensor] = field(default_factory=dict)
    source: SourceRows | None = None
    share: tuple[int, int] = (0, 1)  # of the rows, among the processes that train together

    def batches(self, batch_size: int, *, embedded: bool = False) -> Batches:
        """Give out all rows, whole batches only; `embedded` by the encoder as it is by now."""
        x = self.model.embed(self.x) if embedded else self.x
        augment = None if embedded else self.augment
        if self.source is None:
            return Batches(
                x, batch_size, drop_last=True, seed=self.seed, augment=augment, share=self.share
            )
        return StreamedBatches(
            x,
            self.source,
            batch_size,
            through=self.model.embed if embedded else None,
            drop_last=True,
            seed=self.seed,
            augment=augment,
            share=self.share,
        )


@dataclass
class Stage:
    """One loop of a recipe.

    `prepare` runs once before the first step; what it finds out must end up in the objective,
    because an interrupted stage goes on without it. `least_steps` are taken even after `max_time`:
    those without which the model knows nothing of what `prepare` found.
    """

    name: str
    objective: Objective
    batches: Batches
    optimizer: Optimizer
    epochs: int
    rate: Rate = constant_rate
    hooks: Sequence[Hook] = ()
    prepare: Callable[[], None] | None = None
    least_steps: int = 0


@dataclass(frozen=True)
class Recipe(ABC):
    """How a model is trained: its cluster layer, its restarts and its stages.

    Subclasses are frozen dataclasses, so that their options can be compared, changed and written
    to a model folder. A saved model names the class of a recipe of your own by its import path.

    Parameters
    ----------
    epochs : int or None
        Of the main stage; None leaves it to the recipe.
    n_init : int
        Runs; the one with the smallest clustering loss is kept.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from torch.optim import Adam
    >>> from tell.core.objective import Clustering
    >>> @dataclass(frozen=True)
    ... class Plain(Recipe):
    ...     epochs: int = 2
    ...     n_init: int = 1
    ...     def stages(self, task):
    ...         model = task.model
    ...         objective = Clustering(model.encoder, model.layer, model.decoder, weight=0.1)
    ...         batches = task.batches(64)
    ...         yield Stage("train", objective, batches, Adam(objective.parameters()), self.epochs)
    >>> from tell import DeepTELL
    >>> from sklearn.datasets import load_iris
    >>> model = DeepTELL(3, recipe=Plain(), random_state=0).fit(load_iris().data)
    >>> [line["stage"] for line in model.history_]
    ['train', 'train']
    """

    epochs: int | None = None
    n_init: int = 1

    name: ClassVar[str] = ""  # in the table of recipes; one of your own needs none
    table_network: ClassVar[str] = "mlp"  # what encoder="auto" means for tables

    @property
    def minimised(self) -> tuple[str, ...]:
        """Terms that the last stage brings down, for the report; unknown unless a recipe says."""
        return ()

    def layer(self, embedding_dim: int, n_clusters: int) -> ClusterLayer:
        """Build the cluster layer."""
        return ClusterLayer(embedding_dim, n_clusters)

    def shared(self, rows: AllRows) -> dict[str, Tensor]:
        """Compute, once per fit, what all its runs need: a neighbour graph, for example."""
        return {}

    @abstractmethod
    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the stages; each is built after the one before has been trained."""

    def weight_of(self, history: Sequence[Record]) -> float:
        """λ of eq. 15 for rows that come after the fit with this history (`partial_fit`)."""
        return PAPER_WEIGHT


def check_counts(options: Any, *names: str, least: int = 1) -> None:
    """Refuse options of a recipe, a start or views that count less; None leaves one to them."""
    for name in names:
        value = getattr(options, name)
        if value is not None and not (isinstance(value, Integral) and int(value) >= least):
            of = f"{name} of {options.name or type(options).__name__}"
            raise ParameterError(
                f"{of} must be a whole number of at least {least}, got {value!r}; pass one"
            )
