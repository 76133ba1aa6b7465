"""Variational deep embedding."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn

from tell.baselines.base import Matrix
from tell.baselines.pretraining import DeepClusterer, embed, is_share, train
from tell.core.autoencoder import Autoencoder
from tell.core.batches import Batch, Batches
from tell.core.objective import Losses, Objective
from tell.core.schedule import one_cycle_rate

LEARNING_RATE = 3e-4  # of the phase after pre-training, at the top of its cycle


class MixturePrior(nn.Module):
    """The prior of the embedding: k Gaussians (p dimensions) with diagonal covariances."""

    def __init__(self, weights: Matrix, means: Matrix, variances: Matrix) -> None:
        super().__init__()
        self.logits = nn.Parameter(_tensor(np.log(weights)))
        self.means = nn.Parameter(_tensor(means))
        self.log_variances = nn.Parameter(_tensor(np.log(variances)))

    def log_joint(self, z: Tensor) -> Tensor:
        """log π_c + log N(z; μ_c, σ_c²): (n, k)."""
        gap = (z[:, None] - self.means).square() / self.log_variances.exp()
        density = -0.5 * (math.log(2 * math.pi) + self.log_variances + gap).sum(dim=2)
        return torch.log_softmax(self.logits, dim=0) + density

    def cross_entropy(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        """−E[log N(z; μ_c, σ_c²)] under z ~ N(mean, variance): (n, k)."""
        spread = log_variance.exp()[:, None] + (mean[:, None] - self.means).square()
        terms = math.log(2 * math.pi) + self.log_variances + spread / self.log_variances.exp()
        return 0.5 * terms.sum(dim=2)


@torch.no_grad()
def start_prior(autoencoder: Autoencoder, mixture: GaussianMixture) -> MixturePrior:
    """Take over a mixture of full covariances, after a change of the embedding's basis.

    The basis of a pre-trained embedding is arbitrary, and diagonal covariances depend on it. In the
    new one, z ↦ A z, the mean covariance of the components is the identity and their means lie
    along the axes as far as they can (that of linear discriminant analysis), so that little is
    lost by keeping the diagonals. What the autoencoder rebuilds stays the same.

    >>> autoencoder = Autoencoder(nn.Sequential(nn.Linear(3, 2)), nn.Sequential(nn.Linear(2, 3)))
    >>> mixture = GaussianMixture(1, reg_covar=0).fit(np.array([[0, 0], [2, 0], [0, 2], [4, 4]]))
    >>> start_prior(autoencoder, mixture).log_variances.exp().round(decimals=3).tolist()
    [[1.0, 1.0]]
    """
    mean_covariance = np.tensordot(mixture.weights_, mixture.covariances_, axes=1)
    whitening = np.linalg.inv(np.linalg.cholesky(mean_covariance))
    scatter = np.cov(whitening @ mixture.means_.T, aweights=mixture.weights_, ddof=0)
    basis = np.linalg.eigh(np.atleast_2d(scatter)).eigenvectors.T @ whitening
    last = cast(nn.Linear, list(autoencoder.encoder.children())[-1])
    first = cast(nn.Linear, next(autoencoder.decoder.children()))
    forward, back = _tensor(basis), _tensor(np.linalg.inv(basis))
    last.weight.copy_(forward @ last.weight)
    last.bias.copy_(forward @ last.bias)
    first.weight.copy_(first.weight @ back)
    covariances = basis @ mixture.covariances_ @ basis.T
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    return MixturePrior(mixture.weights_, mixture.means_ @ basis.T, variances)


class VaDEObjective(Objective):
    """The negative evidence lower bound of every row (eq. 14 of VaDE), with one sample of z."""

    def __init__(self, autoencoder: Autoencoder, prior: MixturePrior, *, bernoulli: bool) -> None:
        super().__init__()
        *trunk, last = autoencoder.encoder.children()
        self.trunk, self.mean = nn.Sequential(*trunk), cast(nn.Linear, last)
        # Nearly no noise at first, so that the pre-trained embedding is not washed away.
        self.log_variance = nn.Linear(self.mean.in_features, self.mean.out_features)
        nn.init.zeros_(self.log_variance.weight)
        nn.init.constant_(self.log_variance.bias, -4.0)
        self.decoder, self.prior, self.bernoulli = autoencoder.decoder, prior, bernoulli

    def losses(self, batch: Batch) -> Losses:
        """Return −log p(x|z) and the divergence of q(z, c|x) from the prior."""
        hidden = self.trunk(batch.x)
        # Whatever the products' precision: z and its densities need all digits.
        mean, log_variance = self.mean(hidden).float(), self.log_variance(hidden).float()
        z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        log_gamma = torch.log_softmax(self.prior.log_joint(z), dim=1)
        gamma = log_gamma.exp()
        entropy_z = 0.5 * (math.log(2 * math.pi) + 1 + log_variance).sum(dim=1)
        log_pi = torch.log_softmax(self.prior.logits, dim=0)
        against_prior = self.prior.cross_entropy(mean, log_variance) + log_gamma - log_pi
        terms = {
            "reconstruction": self._reconstruction(batch.x, self.decoder(z).float()),
            "divergence": (gamma * against_prior).sum(dim=1) - entropy_z,
        }
        return Losses(terms, gamma.argmax(dim=1))

    def _reconstruction(self, x: Tensor, output: Tensor) -> Tensor:
        if self.bernoulli:
            return F.binary_cross_entropy_with_logits(output, x, reduction="none").sum(dim=1)
        return 0.5 * (x - output).square().sum(dim=1)

    def centers(self) -> Tensor:
        """Return the means of the mixture (k, p)."""
        return self.prior.means


class VaDE(DeepClusterer):
    """Variational deep embedding (Jiang et al., IJCAI 2017).

    A variational autoencoder whose prior is a mixture of k Gaussians, trained on the evidence
    lower bound ``E[log p(x|z)] − KL(q(z, c|x) ‖ p(z, c))`` with ``q(c|x) = p(c|z)``; a row's label
    is its most probable component. The autoencoder is pre-trained and the mixture fitted to its
    embedding first, the likeliest of ten. Rows without negative entries are scaled to [0, 1] and
    seen as Bernoulli means, others as Gaussian. Time O(n · weights) per epoch, memory
    O(n d + weights).

    Parameters
    ----------
    n_clusters : int
    hidden, embedding_dim, pretrain_epochs, epochs, batch_size
        As in `DEC`.
    random_state : int, RandomState or None
    checkpoint, precision, verbose
        As in `DEC`, with which the pre-training can be shared.

    Attributes
    ----------
    labels_ : ndarray (n,)
    cluster_centers_ : ndarray (n_clusters, embedding_dim)
        Means of the mixture.
    loss_ : float
        Minus the lower bound, in nats per row, over the last epoch. Of several seeds on the same
        rows the one with the smallest is the better model, known without labels.
    history_ : list of dict
        As in `DEC`.

    Examples
    --------
    >>> X = [[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]]
    >>> model = VaDE(2, hidden=(8,), embedding_dim=2, pretrain_epochs=5, epochs=5, random_state=0)
    >>> model.fit(X).cluster_centers_.shape
    (2, 2)
    """

    loss_: float

    def _train(self, batches: Batches, rng: np.random.RandomState) -> tuple[Tensor, Tensor]:
        autoencoder = self._pretrained(batches)
        embedding = embed(autoencoder.encoder, batches).numpy()
        mixture = GaussianMixture(self.n_clusters, reg_covar=1e-4, n_init=10, random_state=rng)
        mixture.fit(embedding.astype(np.float64))
        prior = start_prior(autoencoder, mixture)
        objective = VaDEObjective(autoencoder, prior, bernoulli=is_share(batches.stored))
        self.history_ += train(
            objective,
            batches,
            epochs=self.epochs,
            rate=LEARNING_RATE,
            schedule=one_cycle_rate,
            precision=self.precision,
            visible=self.verbose > 0,
        ).history
        self.loss_ = self.history_[-1]["total"]
        means = embed(nn.Sequential(objective.trunk, objective.mean), batches)
        with torch.no_grad():
            return objective.prior.log_joint(means).argmax(dim=1), objective.centers()


def _tensor(values: Matrix) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))
