"""How far the rows of each cluster lie from its centre: what tells a member from an outlier.

A histogram of squared distances per cluster, in shares of the cluster's own mean: counts can be
added, faded and scaled, so a stream keeps them exactly as a fit makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tell.core.assignment import wide

PER_OCTAVE = 16  # bins: each 4.4 % wider than the one before
LOWEST, OCTAVES = -6, 16  # from 1/64 of the mean to 1,024 times as much
BINS = PER_OCTAVE * OCTAVES
PRIOR_ROWS = 50.0  # of the shape that all clusters share: few rows do not show their own tail


@dataclass(frozen=True)
class Radii:
    """What is known of the distances in each of k clusters."""

    counts: Tensor  # (k, BINS) weight of the rows in each bin
    unit: Tensor  # (k,) squared distance that the bins are shares of

    @classmethod
    def measure(
        cls, labels: Tensor, distances: Tensor, weight: Tensor | None, n_clusters: int
    ) -> Radii:
        """Of rows that the centres were fitted to.

        These lie closer to their centre than new ones: the mean of n rows takes 1/n of the loss
        away and misses the true mean by as much, so squared distances grow by (n + 1)/(n − 1).
        """
        distances = wide(distances)
        members = torch.bincount(labels, minlength=n_clusters).to(distances)
        rows, losses = members, distances
        if weight is not None:
            rows = torch.bincount(labels, wide(weight), minlength=n_clusters)
            losses = wide(weight) * distances
        sums = torch.bincount(labels, losses, minlength=n_clusters)
        growth = (members + 1) / (members - 1).clamp(min=1)
        empty = cls.of_sums(rows, sums * growth)
        return empty.after(labels, distances * growth[labels], weight, 1.0)

    @classmethod
    def of_sums(cls, rows: Tensor, losses: Tensor) -> Radii:
        """Nothing counted yet, for clusters of so many rows (k,) with these losses (k,) in all."""
        usual = float(losses.sum() / rows.sum().clamp(min=1e-300))
        own = torch.where(rows > 0, losses / rows.clamp(min=1e-300), usual)
        # A cluster of equal rows has no width of its own.
        unit = own.clamp(min=max(1e-6 * usual, 1e-300))
        return cls(unit.new_zeros(len(unit), BINS), unit)

    def after(self, labels: Tensor, distances: Tensor, weight: Tensor | None, keep: float) -> Radii:
        """With further rows; the earlier ones count `keep` times as much as before."""
        k = len(self.unit)
        place = self._position(labels, distances).floor().clamp_(0, BINS - 1).long()
        weights = None if weight is None else wide(weight)
        added = torch.bincount(labels * BINS + place, weights, minlength=k * BINS)
        return replace(self, counts=self.counts * keep + added.view(k, BINS).to(self.counts))

    def scaled(self, factor: float) -> Radii:
        """With all weights so many times as large."""
        return replace(self, counts=self.counts * factor)

    def forgotten(self, clusters: Tensor) -> Radii:
        """Without the rows of some clusters, which begin anew with the usual width."""
        counts, unit = self.counts.clone(), self.unit.clone()
        counts[clusters] = 0
        unit[clusters] = self.unit.median()
        return Radii(counts, unit)

    def joined(self, other: Radii) -> Radii:
        """With further clusters behind these."""
        pairs = ((self.counts, other.counts), (self.unit, other.unit))
        return Radii(*(torch.cat([own, more.to(own)]) for own, more in pairs))

    def only(self, clusters: Tensor) -> Radii:
        """Of some clusters, in this order."""
        return Radii(self.counts[clusters], self.unit[clusters])

    def _position(self, labels: Tensor, distances: Tensor) -> Tensor:
        """Where squared distances (n,) fall, in bins; the first holds all that are smaller."""
        shares = wide(distances) / self.unit[labels]
        return (torch.log2(shares.clamp(min=2.0**LOWEST)) - LOWEST) * PER_OCTAVE

    def _below(self) -> tuple[Tensor, Tensor]:
        """Share of a cluster's rows below the end of each bin (k, BINS), and rows (k,) behind it.

        Few rows do not show their own tail: they share that of all clusters.
        """
        pooled = self.counts.sum(dim=0)
        prior = PRIOR_ROWS * pooled / pooled.sum().clamp(min=1e-300)
        smooth = (self.counts + prior).cumsum(dim=1)
        return smooth / smooth[:, -1:].clamp(min=1e-300), smooth[:, -1]

    def limits(self, reject: float) -> Tensor:
        """Squared distance (k,) beyond which this share of a cluster's rows lies."""
        below, _ = self._below()
        level = torch.full((len(below), 1), 1 - reject).to(below)
        at = torch.searchsorted(below, level).clamp_(max=BINS - 1)
        end = below.gather(1, at)
        start = torch.where(at > 0, below.gather(1, (at - 1).clamp(min=0)), 0)
        part = ((level - start) / (end - start).clamp(min=1e-300)).clamp(0, 1)
        return self.unit * torch.exp2((at + part)[:, 0] / PER_OCTAVE + LOWEST)

    def farther(self, labels: Tensor, distances: Tensor) -> Tensor:
        """Share (n,) of the cluster's rows that lie farther out than each of these.

        Beyond the farthest row it goes on falling, with the square of the distance.
        """
        below, rows = self._below()
        position = self._position(labels, distances)
        place = position.floor().clamp_(0, BINS - 1).long()
        end = below[labels, place]
        start = torch.where(place > 0, below[labels, (place - 1).clamp(min=0)], 0)
        share = 1 - (start + (position - place).clamp(0, 1) * (end - start))
        last = (below < 1 - 1e-12).sum(dim=1)  # the bin of the farthest row
        reach = self.unit * torch.exp2((last + 1) / PER_OCTAVE + LOWEST)
        tail = 0.5 / (float(rows.sum()) + 1)  # of all clusters, so that ranks compare
        beyond = (reach[labels] / wide(distances).clamp(min=1e-300)).clamp(max=1)
        return share.clamp(min=0) * (1 - tail) + tail * beyond
