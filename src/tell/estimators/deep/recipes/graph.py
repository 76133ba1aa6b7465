"""The start from the neighbour graph: it finds the good basin in minutes, without labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tell.estimators.deep.recipes.communities import GraphChoice
from tell.estimators.deep.recipes.distillation import DistilledStart
from tell.estimators.deep.recipes.partition import (
    GRAPH_ROWS,
    Graph,
    count_clusters,
    find_graph,
    find_partition,
)
from tell.estimators.deep.recipes.recipe import AllRows, Task, check_counts


@dataclass(frozen=True)
class GraphStart(DistilledStart):
    """Find a partition in the neighbour graph, distil it, let the networks correct it.

    Parameters
    ----------
    epochs : int, optional
        Over all rows, after the distillation. Default: 3, or 6 where it learns from moved rows.
    batch_size : int
        Smaller for few rows.
    learning_rate : float
        Of Adam, at the height of a cycle that starts and ends low.
    weight : float
        Of the cross-entropy to the partition, beside the reconstruction.
    temperature : float
        τ of eq. 7 in the cross-entropy.
    memory : float
        How much of a row's target stays when the network's own assignment is mixed into it.
    distil_steps : int
        At least so many before the refinement, where few rows would give fewer; `max_time` does
        not cut them, because the network knows the partition only by them.
    graph_rows : int
        Rows that the partition is found from; the others follow their neighbours among these.
    neighbours, layout_epochs : int
        Of the graph, and of its layout.

    Examples
    --------
    >>> from tell.estimators import TellRecipe
    >>> TellRecipe(start=GraphStart(neighbours=30)).start.neighbours
    30
    """

    graph_rows: int = GRAPH_ROWS
    neighbours: int = 15
    layout_epochs: int = 100

    name: ClassVar[str] = "graph"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "graph_rows", "neighbours", "layout_epochs")

    def shared(self, rows: AllRows) -> dict[str, Tensor]:
        """Search the nearest neighbours."""
        graph = find_graph(
            rows.x,
            rows.n_clusters,
            rows=self.graph_rows,
            neighbours=self.neighbours,
            seed=rows.seed,
            visible=rows.visible,
        )
        return graph._asdict()

    def count(self, shared: Mapping[str, Tensor], seed: int, most: int | None) -> GraphChoice:
        """How many clusters the graph has that `shared` found."""
        graph = Graph(**{name: shared[name] for name in Graph._fields})
        return count_clusters(graph, seed, most)

    def partition(self, task: Task) -> Tensor:
        """Lay out the graph and fit a mixture to it, by the seed of the run."""
        return find_partition(
            task.x,
            Graph(**task.shared),
            task.model.layer.n_clusters,
            seed=task.seed,
            epochs=self.layout_epochs,
            visible=task.visible,
        )
