"""The interface of a back end, the one that needs none, and the one on torch.distributed.

A back end calls the same method of every shard and gives the answers in the order of the shards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any, Protocol

from tell.core.sums import Sums
from tell.data.chunks import Source
from tell.exceptions import TellError
from tell.scale.shards import Shard, Task, split


class Workers(Protocol):
    """All that passes over shards ask of a back end."""

    bytes_moved: int  # sent and received so far; 0 where nothing leaves the process
    n_workers: int
    # Is told now and then which part of the rows the present call is through with.
    told: Callable[[float], None] | None

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every `Shard`."""

    def close(self) -> None:
        """Let the workers go."""


def sums(workers: Workers, task: Task) -> Sums:
    """One pass: the sums of all rows for the task's centres."""
    return reduce(add, workers.each("sums", task))


class InProcess:
    """Shards in this process, one after another."""

    bytes_moved = 0
    told: Callable[[float], None] | None = None

    def __init__(self, shards: list[Shard]) -> None:
        self._shards, self.n_workers = shards, 1

    def each(self, method: str, *arguments: Any) -> list[Any]:
        return [getattr(shard, method)(*arguments) for shard in self._shards]

    def close(self) -> None:
        pass


class TorchWorkers:
    """One shard per rank of torch.distributed; every rank runs the same program (`torchrun`).

    All ranks get all answers, so all of them end with the same centres.
    """

    told: Callable[[float], None] | None = None

    def __init__(self, source: Source, n_rows: int, cache: int) -> None:
        import torch.distributed as dist

        self._gather: Callable[..., None] = dist.all_gather_object
        self.n_workers, self.bytes_moved = dist.get_world_size(), 0
        ranges = split(n_rows, source.n_features, self.n_workers)
        rank = dist.get_rank()
        self._shard = Shard(source, *ranges[rank], cache=cache) if rank < len(ranges) else None

    def each(self, method: str, *arguments: Any) -> list[Any]:
        answers: list[Any] = [None] * self.n_workers
        self._gather(answers, self._answer(method, arguments))
        return values([answer for answer in answers if answer is not None])

    def _answer(self, method: str, arguments: tuple[Any, ...]) -> Any:
        return None if self._shard is None else answer(self._shard, method, arguments)

    def close(self) -> None:
        pass


def answer(shard: Shard, method: str, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    """What a shard answers, or the error that its user can do something about."""
    try:
        return True, getattr(shard, method)(*arguments)
    except TellError as error:
        return False, error


def values(answers: list[tuple[bool, Any]]) -> list[Any]:
    """The answers of all shards; raises the first error among them."""
    for good, value in answers:
        if not good:
            raise value
    return [value for _, value in answers]
