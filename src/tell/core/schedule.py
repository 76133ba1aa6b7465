"""Schedules as objects: who feels the clustering loss when, and how the learning rate goes down."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

Rate = Callable[[float], float]


def constant_rate(done: float) -> float:
    """Keep the learning rate.

    >>> constant_rate(0.3)
    1.0
    """
    return 1.0


def cosine_rate(done: float) -> float:
    """Lower the learning rate to zero along half a cosine; `done` is the share of all steps.

    >>> cosine_rate(0.0), cosine_rate(1.0)
    (1.0, 0.0)
    """
    return 0.5 * (1 + math.cos(math.pi * done))


def one_cycle_rate(done: float) -> float:
    """Raise the learning rate from 4 % over the first fifth, then lower it to zero.

    >>> round(one_cycle_rate(0.0), 2), one_cycle_rate(0.2), one_cycle_rate(1.0)
    (0.04, 1.0, 0.0)
    """
    if done < 0.2:
        return 1 - 0.96 * cosine_rate(done / 0.2)
    return cosine_rate((done - 0.2) / 0.8)


def cosine_to(floor: float) -> Rate:
    """Lower the learning rate along half a cosine to `floor`, and keep it there after share 1.

    >>> rate = cosine_to(0.1)
    >>> rate(0.0), rate(1.0), rate(1.5)
    (1.0, 0.1, 0.1)
    """

    def rate(done: float) -> float:
        return floor + (1 - floor) * cosine_rate(min(done, 1.0))

    return rate


class PartOf:
    """A stretch of a longer schedule, for stages that share one.

    >>> PartOf(cosine_rate, 0.5, 1.0)(1.0)
    0.0
    """

    def __init__(self, rate: Rate, start: float, stop: float) -> None:
        self.rate = rate
        self.start = start
        self.stop = stop

    def __call__(self, done: float) -> float:
        """Return the factor at a share of the stretch."""
        return self.rate(self.start + done * (self.stop - self.start))


class Feels(NamedTuple):
    """Who feels the clustering loss in a step."""

    centers: bool
    encoder: bool


class Alternation(Protocol):
    """Says who feels the clustering loss in a step of an epoch."""

    def __call__(self, epoch: int, step: int) -> Feels:
        """Return the roles."""


class Always:
    """The same roles in every step: both together, centres only, or encoder only.

    >>> Always(centers=True, encoder=False)(7, 3)
    Feels(centers=True, encoder=False)
    """

    def __init__(self, *, centers: bool = True, encoder: bool = True) -> None:
        self._feels = Feels(centers, encoder)

    def __call__(self, epoch: int, step: int) -> Feels:
        """Return the roles."""
        return self._feels


class ByEpoch:
    """Even epochs move the centres on fixed features, odd epochs pull the encoder (the paper).

    >>> ByEpoch()(0, 5), ByEpoch()(1, 5)
    (Feels(centers=True, encoder=False), Feels(centers=False, encoder=True))
    """

    def __call__(self, epoch: int, step: int) -> Feels:
        """Return the roles."""
        return Feels(centers=epoch % 2 == 0, encoder=epoch % 2 == 1)


class ByBatch:
    """Even batches move the centres, odd batches pull the encoder.

    >>> ByBatch()(1, 4), ByBatch()(1, 5)
    (Feels(centers=True, encoder=False), Feels(centers=False, encoder=True))
    """

    def __call__(self, epoch: int, step: int) -> Feels:
        """Return the roles."""
        return Feels(centers=step % 2 == 0, encoder=step % 2 == 1)


ALTERNATIONS: dict[str, Callable[[], Alternation]] = {
    "epoch": ByEpoch,
    "batch": ByBatch,
    "always": Always,
}
