"""Between a start and eq. 15: two views of a row should pay the same attention to the centres.

A view is a neighbour of the row in the graph that the start has anyway, a moved copy of it, or a
moved neighbour; where no movement is known, an adversarial one may do. What is learned so holds for
every row, while a start's partition is a fixed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, optim

from tell.core.batches import Augment, Batches
from tell.core.information import TEMPERATURE, InvariantInformation
from tell.core.schedule import cosine_rate
from tell.estimators.deep.recipes.graph_features import BLOCK_ROWS
from tell.estimators.deep.recipes.partition import GRAPH_ROWS, Graph, find_graph
from tell.estimators.deep.recipes.recipe import AllRows, Stage, Task, check_counts
from tell.estimators.deep.recipes.start import variance
from tell.exceptions import ParameterError

EPOCHS, LEARNING_RATE, NEIGHBOURS = 5, 1e-3, 5
# With augmentation, which takes more time. A neighbour may be of another cluster (two percent of
# MNIST's are), a copy never is; but a neighbour differs more. So there are as many of each.
EPOCHS_AUGMENTED, LEARNING_RATE_AUGMENTED, NEIGHBOURS_AUGMENTED = 32, 2e-3, 3
# In this longer training rows of photographs that were uncertain gathered in one cluster: weight 1
# is too little where views often disagree.
BALANCE, BALANCE_AUGMENTED = 1.0, 5.0
LEAST_STEPS = 150  # where few rows would give fewer
BATCHES_OF_FEW_ROWS = 10
SMALLEST_BATCH = 64
# Weight of the mutual information: as a multiple of the error of a decoder that knows nothing but
# the mean row, so that it means the same for every kind of data.
RELATIVE_WEIGHT = 7.5
AUTO = "auto"
# IMSAT's adversarial movement: a quarter of the distance to the tenth neighbour, row by row.
RADIUS = 0.25
RADIUS_NEIGHBOUR = 10


@dataclass(frozen=True)
class Views:
    """Raise the mutual information of the soft assignments of two views (`core/information.py`).

    With augmentation both views are moved, and the second one is the row itself as often as one of
    its neighbours. Clusters are expected to keep the sizes that the start has found.

    Parameters
    ----------
    epochs : int, optional
        Default: 5, or 32 with augmentation; more where few rows would give under 150 steps.
    neighbours : int, optional
        The second view is one of so many nearest neighbours; 0 leaves moved copies alone. Default:
        5, or 3 with augmentation.
    batch_size : int
        Smaller for few rows.
    learning_rate : float, optional
        Of Adam, lowered to zero along a cosine. Default: 1e-3, or 2e-3 with augmentation.
    weight : float, optional
        Of the mutual information beside `L_rec`. Default: 7.5 times the mean variance of a pixel
        or column as the networks see it.
    balance : float, optional
        Weight of the sizes that clusters are expected to keep. Default: 1, or 5 with augmentation.
    temperature : float
        τ of eq. 7.
    adversarial : bool
        Move the second view to where its assignment changes most (VAT), also where nobody knows
        what may be done to a row. With `neighbours=0` it is the row itself that is moved, as in
        IMSAT.
    radius : float
        How far, as a part of the distance between the row and its tenth neighbour.

    Examples
    --------
    >>> from tell.estimators import TellRecipe, Views
    >>> TellRecipe(views=Views(neighbours=10)).views.neighbours
    10
    """

    epochs: int | None = None
    neighbours: int | None = None
    batch_size: int = 512
    learning_rate: float | None = None
    weight: float | None = None
    balance: float | None = None
    temperature: float = TEMPERATURE
    adversarial: bool = False
    radius: float = RADIUS

    name: ClassVar[str] = "views"

    def __post_init__(self) -> None:
        check_counts(self, "epochs")
        check_counts(self, "neighbours", least=0)
        check_counts(self, "batch_size", least=2)
        for option in ("learning_rate", "weight", "balance", "temperature", "radius"):
            value = getattr(self, option)
            if value is not None and not value > 0:
                raise ParameterError(f"{option} of views must be above 0, got {value}")

    def check_searched(self, neighbours: int) -> None:
        """Refuse a graph of so many neighbours, if it is too small for these views."""
        for option, most in (
            ("neighbours", self.neighbours or 0),
            ("adversarial", RADIUS_NEIGHBOUR if self.adversarial else 0),
        ):
            if most > neighbours:
                raise ParameterError(
                    f"{option}={getattr(self, option)} of views needs {most} neighbours in the "
                    f"start's graph, got {neighbours}; pass start=GraphStart(neighbours={most})"
                )

    def shared(self, rows: AllRows, found: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Search neighbours, once per fit, if the start has not."""
        nearest = self._count(rows.augment)
        if not (nearest or self.adversarial) or "neighbour" in found:
            return {}
        nearest = max(nearest, RADIUS_NEIGHBOUR if self.adversarial else 0)
        graph = find_graph(
            rows.x,
            rows.n_clusters,
            rows=GRAPH_ROWS,
            neighbours=nearest,
            seed=rows.seed,
            visible=rows.visible,
        )
        return graph._asdict()

    def stage(self, task: Task, place_centers: Callable[[Task], None]) -> Stage | None:
        """Give the stage, or None where a row has no other view."""
        partners = self.partners(task)
        if partners is None:
            return None
        model = task.model
        size = min(self.batch_size, max(SMALLEST_BATCH, len(task.x) // BATCHES_OF_FEW_ROWS))
        batches = Batches(
            task.x,
            size,
            drop_last=True,
            seed=task.seed,
            augment=task.augment,
            share=task.share,
            partners=partners,
        )
        balance = BALANCE_AUGMENTED if task.augment else BALANCE
        objective = InvariantInformation(
            model.encoder,
            model.layer,
            model.decoder,
            balance=self.balance or balance,
            temperature=self.temperature,
            radius=self.radii(task),
        )
        rate = LEARNING_RATE_AUGMENTED if task.augment else LEARNING_RATE
        rule = optim.Adam(objective.parameters(), lr=self.learning_rate or rate, fused=True)
        epochs = EPOCHS_AUGMENTED if task.augment else EPOCHS
        epochs = self.epochs or max(epochs, math.ceil(LEAST_STEPS / batches.steps))

        def prepare() -> None:
            place_centers(task)
            labels = model.assign(model.embed(task.x)).labels
            objective.prior.copy_(sizes(labels, model.layer.n_clusters))
            objective.weight.fill_(self.weight or RELATIVE_WEIGHT * variance(task.x) or 1.0)

        return Stage("views", objective, batches, rule, epochs, cosine_rate, prepare=prepare)

    def partners(self, task: Task) -> Tensor | None:
        """Return row numbers (n, m): the rows that are another view of each row."""
        itself = torch.arange(len(task.x), device=task.x.device)[:, None]
        most = self._count(task.augment)
        found = self._nearest(task, most) if most else None
        if found is None:
            moved = task.augment is not None or self.radii(task) is not None
            return itself if moved else None
        if task.augment is None:
            return found
        return torch.cat([itself.expand_as(found), found], dim=1)

    def _count(self, augment: Augment | None) -> int:
        """How many neighbours may be the second view."""
        if self.neighbours is not None:
            return self.neighbours
        return NEIGHBOURS if augment is None else NEIGHBOURS_AUGMENTED

    def radii(self, task: Task) -> Tensor | None:
        """Return how far the second view of each row (n,) is moved; None where it is not."""
        found = self._nearest(task, RADIUS_NEIGHBOUR) if self.adversarial else None
        if found is None:
            return None
        # The graph's own distances are those of its features; a movement is one of the row.
        parts = zip(task.x.split(BLOCK_ROWS), found[:, -1].split(BLOCK_ROWS), strict=True)
        ways = [(part - task.x[other]).flatten(1).norm(dim=1) for part, other in parts]
        return self.radius * torch.cat(ways)

    def _nearest(self, task: Task, most: int) -> Tensor | None:
        if "neighbour" not in task.shared:
            return None
        found = neighbours_of(Graph(**task.shared), len(task.x), most)
        return None if found is None else found.to(task.x.device)


def resolve_views(views: Any) -> Any:
    """Turn the option `views` into "auto", `Views` or None.

    >>> resolve_views({"neighbours": 3}).neighbours
    3
    """
    if isinstance(views, Mapping):
        try:
            return Views(**views)
        except TypeError as error:
            raise ParameterError(f"views must have known options, got {error}") from error
    if views is None or views == AUTO or isinstance(views, Views):
        return views
    raise ParameterError(
        f"views={views!r} must be 'auto', None, Views or a mapping with its options; pass one"
    )


def neighbours_of(graph: Graph, n_rows: int, most: int) -> Tensor | None:
    """Return the row numbers (n, m) of the nearest rows; None where a graph says nothing.

    >>> two = torch.tensor([0, 2])
    >>> graph = Graph(two, torch.tensor([[1], [0]]), torch.ones(2, 1), torch.tensor([[1]]))
    >>> neighbours_of(graph, 3, most=5).tolist()
    [[2], [2], [0]]
    """
    if not graph.neighbour.shape[1]:
        return None
    inside = torch.zeros(n_rows, dtype=torch.bool)
    inside[graph.rows] = True
    found = torch.empty(n_rows, min(most, graph.neighbour.shape[1]), dtype=torch.long)
    found[inside] = graph.rows[graph.neighbour[:, :most]]
    found[~inside] = graph.rows[graph.others[:, :most].long()]
    return found


def sizes(labels: Tensor, n_clusters: int) -> Tensor:
    """Return the share of the rows in each cluster (k,), as if each had one more.

    >>> sizes(torch.tensor([0, 0, 1]), 3).tolist()
    [0.5, 0.3333333432674408, 0.1666666716337204]
    """
    counts = torch.bincount(labels, minlength=n_clusters).float() + 1
    return counts / counts.sum()
