"""DEC and VaDE: their equations by hand, and that training them improves on their start."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_blobs
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from tell.baselines import pretraining
from tell.baselines.dec import DEC, DECObjective, student_assignment, target_distribution
from tell.baselines.pretraining import (
    StopWhenCollapsed,
    autoencoder_features,
    autoencoder_rows,
    embed,
    pretrained,
    seeded_batches,
    torch_seed,
    train,
)
from tell.baselines.vade import MixturePrior, VaDE, VaDEObjective, start_prior
from tell.core.autoencoder import Autoencoder
from tell.core.batches import Batch, Batches
from tell.core.checkpoint import read_checkpoint
from tell.core.loop import Loop
from tell.exceptions import ConvergenceWarning, ModelFileError, ParameterError
from tell.metrics import accuracy

SMALL = {"hidden": (16,), "embedding_dim": 2, "pretrain_epochs": 20, "epochs": 3}


@parametrize_with_checks([DEC(**SMALL), VaDE(**SMALL)])
def test_scikit_learn_contract(estimator, check, threads):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=5, return_X_y=True)
    return (X / 16).astype(np.float32), y


@pytest.mark.parametrize("method", [DEC, VaDE])
def test_clusters_digits_and_leaves_the_random_state_alone(method, digits):
    X, y = digits
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    model = method(
        5, hidden=(64, 64), embedding_dim=5, pretrain_epochs=30, epochs=8, random_state=0
    ).fit(X)
    torch.testing.assert_close(torch.rand(3), expected)
    assert accuracy(y, model.labels_) > 0.75
    assert model.cluster_centers_.shape == (5, 5)
    stages = [line["stage"] for line in model.history_]
    assert stages == ["pre-train"] * 30 + ["cluster"] * (len(stages) - 30)
    assert 30 < len(stages) <= 38


@pytest.mark.parametrize("method", [DEC, VaDE])
@pytest.mark.parametrize("name", ["embedding_dim", "pretrain_epochs", "epochs", "batch_size"])
def test_bad_options_are_refused_by_name(method, name):
    with pytest.raises(ParameterError, match=f"{name} must be at least 1, got 0"):
        method(2, **{**SMALL, name: 0}).fit(np.eye(4))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 20), st.integers(2, 6), st.integers(0, 10_000))
def test_target_distribution_is_a_sharper_assignment(n, k, seed):
    q = torch.softmax(torch.randn(n, k, generator=torch.Generator().manual_seed(seed)), dim=1)
    p = target_distribution(q)
    torch.testing.assert_close(p.sum(dim=1), torch.ones(n))
    # Where all clusters weigh the same, each row's favourite gains.
    balanced = torch.cat([q.roll(shift, dims=1) for shift in range(k)])
    sharp = target_distribution(balanced)
    assert bool((sharp.max(dim=1).values >= balanced.max(dim=1).values - 1e-6).all())


def test_dec_loss_by_hand():
    """One dimension, centres at 0 and 1, rows at 0 and 1: q = (2/3, 1/3), p = (4/5, 1/5)."""
    objective = DECObjective(nn.Identity(), torch.tensor([[0.0], [1.0]]), n_rows=2)
    x = torch.tensor([[0.0], [1.0]])
    objective.begin_epoch(0, Batches(x))
    losses = objective.losses(Batch(x, torch.arange(2)))
    expected = 0.8 * np.log(0.8 / (2 / 3)) + 0.2 * np.log(0.2 / (1 / 3))
    torch.testing.assert_close(losses.terms["divergence"], torch.full((2,), expected).float())
    assert losses.labels.tolist() == [0, 1]


def test_dec_training_lowers_the_divergence(digits):
    X, _ = digits
    with torch_seed(0):
        batches = seeded_batches(autoencoder_rows(X), 256, seed=0)
        (encoder, _), _ = pretrained(batches, (32,), 3, epochs=5)
        z = embed(encoder, batches)
        objective = DECObjective(encoder, z[:5].clone(), len(X))
        before = target_distribution(student_assignment(z, z[:5])).max(dim=1).values.mean()
        train(objective, batches, epochs=5, rate=1e-3)
        q = student_assignment(embed(encoder, batches), objective.cluster_centers)
    assert target_distribution(q).max(dim=1).values.mean() > before


def test_rows_are_scaled_by_one_number():
    np.testing.assert_allclose(autoencoder_rows(np.array([[0.0, 4.0], [2.0, 1.0]])).max(), 1.0)
    np.testing.assert_array_equal(autoencoder_rows(np.zeros((2, 2))), np.zeros((2, 2)))
    signed = autoencoder_rows(np.array([[-3.0, 4.0]]))
    np.testing.assert_allclose(np.square(signed).mean(), 1.0)
    np.testing.assert_allclose(signed[0, 0] / signed[0, 1], -3 / 4)


@pytest.mark.parametrize("signed", [False, True])
def test_pretraining_rebuilds_rows_with_and_without_negative_entries(digits, signed):
    X, _ = digits
    with torch_seed(0):
        batches = seeded_batches(autoencoder_rows(X - X.mean() if signed else X), 256, seed=0)
        (encoder, decoder), history = pretrained(batches, (64,), 8, epochs=20)
        with torch.no_grad():
            output = decoder(encoder(batches.stored))
    rebuilt = output if signed else output.sigmoid()  # of rows in [0, 1] the decoder gives logits
    error = (rebuilt - batches.stored).square().mean()
    assert error < 0.5 * batches.stored.var(dim=0).mean()
    assert history[-1]["reconstruction"] < history[0]["reconstruction"]


def test_a_finished_pretraining_is_shared_and_not_repeated(digits, tmp_path):
    X, _ = digits
    file = tmp_path / "pretrained.safetensors"
    options = {**SMALL, "n_clusters": 5, "random_state": 0}
    alone = VaDE(**options).fit(X)
    DEC(**options, checkpoint=file).fit(X)
    written = file.stat().st_mtime_ns
    shared = VaDE(**options, checkpoint=file).fit(X)
    assert file.stat().st_mtime_ns == written
    seconds = [line["seconds"] for line in shared.history_[:20]]  # those of the first training
    assert seconds == [line["seconds"] for line in read_checkpoint(file)[1]["history"]]
    np.testing.assert_array_equal(shared.labels_, alone.labels_)
    mirrored = X.reshape(-1, 8, 8)[:, :, ::-1].reshape(X.shape)  # as many rows, the same sum
    with pytest.raises(ModelFileError, match="seed and precision, got another rows"):
        DEC(**options, checkpoint=file).fit(mirrored)
    with pytest.raises(ModelFileError, match="epochs, seed and precision, got another batches"):
        DEC(**options, batch_size=16, checkpoint=file).fit(X)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ModelFileError, match="must be a file written by tell"):
        DEC(**options, checkpoint=file).fit(X)


@pytest.fixture
def prior():
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0, 0], [4, 4], [0, 6]], 20, 0)
    mixture = GaussianMixture(3, covariance_type="diag", random_state=0).fit(X)
    return MixturePrior(mixture.weights_, mixture.means_, mixture.covariances_)


def test_vade_prior_is_the_mixture(prior):
    mixture = MixtureSameFamily(
        Categorical(logits=prior.logits),
        MultivariateNormal(prior.means, torch.diag_embed(prior.log_variances.exp())),
    )
    z = torch.randn(7, 2)
    torch.testing.assert_close(prior.log_joint(z).logsumexp(dim=1), mixture.log_prob(z))


def test_vade_cross_entropy_is_the_expected_density(prior):
    mean, log_variance = torch.tensor([[1.0, 2.0]]), torch.tensor([[-1.0, 0.5]])
    with torch_seed(0):
        z = mean + torch.randn(200_000, 2) * (log_variance / 2).exp()
    sampled = (torch.log_softmax(prior.logits, 0) - prior.log_joint(z)).mean(dim=0)
    torch.testing.assert_close(
        prior.cross_entropy(mean, log_variance)[0], sampled, rtol=0.02, atol=0.02
    )


def test_vade_starts_from_the_mixture_in_its_own_basis_and_rebuilds_the_same(digits):
    X, _ = digits
    with torch_seed(0):
        batches = seeded_batches(autoencoder_rows(X), 256, seed=0)
        autoencoder, _ = pretrained(batches, (32,), 3, epochs=5)
        z = embed(autoencoder.encoder, batches)
        mixture = GaussianMixture(5, random_state=0).fit(z.numpy().astype(np.float64))
        with torch.no_grad():
            before = autoencoder.decoder(z)
            prior = start_prior(autoencoder, mixture)
            moved = embed(autoencoder.encoder, batches)
            after = autoencoder.decoder(moved)
            labels = prior.log_joint(moved).argmax(dim=1).numpy()
    torch.testing.assert_close(after, before, rtol=1e-3, atol=1e-3)
    mean_variance = prior.logits.softmax(dim=0) @ prior.log_variances.exp()
    torch.testing.assert_close(mean_variance, torch.ones(3), rtol=1e-4, atol=1e-4)
    assert np.mean(labels == mixture.predict(z.numpy().astype(np.float64))) > 0.85


def test_vade_bound_is_exact_for_a_single_component_at_the_posterior():
    """One component N(0, 1) and q(z|x) = N(0, 1): the divergence from the prior is zero."""
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3, 1))
    prior = MixturePrior(np.ones(1), np.zeros((1, 1)), np.ones((1, 1)))
    objective = VaDEObjective(Autoencoder(encoder, nn.Linear(1, 3)), prior, bernoulli=True)
    for layer in (objective.mean, objective.log_variance):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    terms = objective.losses(Batch(torch.rand(5, 3), torch.arange(5))).terms
    torch.testing.assert_close(terms["divergence"], torch.zeros(5), atol=1e-4, rtol=0)
    nn.init.constant_(objective.mean.bias, 2.0)  # KL(N(2, 1) ‖ N(0, 1)) = 2² / 2
    terms = objective.losses(Batch(torch.rand(5, 3), torch.arange(5))).terms
    torch.testing.assert_close(terms["divergence"], torch.full((5,), 2.0), atol=1e-3, rtol=0)


def test_a_collapsed_pretraining_starts_again_with_half_the_rate(digits, tmp_path, monkeypatch):
    """At a rate of 0.02 all units fall silent; whoever shares the file finds the healthy ones."""
    X = digits[0][:500]
    options = {"embedding_dim": 3, "epochs": 8, "random_state": 0}
    file = tmp_path / "pretrained.safetensors"
    monkeypatch.setattr(pretraining, "PRETRAINING_RATE", 0.02)
    found = autoencoder_features(X, **options, checkpoint=file)
    _, facts = read_checkpoint(file)
    errors = [line["reconstruction"] for line in facts["history"]]
    assert facts["rate"] in (0.01, 0.005, 0.0025)
    assert (len(errors), facts["stopped"]) == (8, None)
    assert errors[-1] < (X / X.max()).var(axis=0).mean()
    shared = autoencoder_features(X, **options, checkpoint=file)
    np.testing.assert_array_equal(found, shared)


def test_a_pretraining_that_no_rate_saves_is_told(digits, monkeypatch):
    monkeypatch.setattr(pretraining, "PRETRAINING_RATE", 0.02)
    monkeypatch.setattr(pretraining, "SMALLEST_RATE", 0.02)
    with pytest.warns(ConvergenceWarning, match="collapsed at all rates down to 0.02"):
        autoencoder_features(digits[0][:500], embedding_dim=3, epochs=8)


def test_vade_tells_the_bound_that_seeds_are_chosen_by(digits):
    model = VaDE(**SMALL, random_state=0).fit(digits[0])
    last = model.history_[-1]
    assert model.loss_ == pytest.approx(last["reconstruction"] + last["divergence"], rel=1e-5)


def test_an_error_that_leaps_is_a_collapse():
    hook = StopWhenCollapsed(torch.tensor([[0.0], [2.0]]))  # the mean row's error is 1
    for errors, collapsed in {
        (0.9, 0.2, 0.29): False,
        (0.9, 0.2, 0.31): True,
        (5.0, 4.0, 3.0, 2.0): False,  # slow, but on its way
        (5.0, 4.0, 4.0, 4.0): True,
        (0.5, 0.5, 0.5, 0.5): False,  # no progress, but better than the mean row
    }.items():
        loop = Mock(spec=Loop, epochs=4, history=[{"reconstruction": error} for error in errors])
        hook.on_epoch_end(loop, {})
        assert loop.stop.called == collapsed


def test_features_and_dec_share_one_pretraining(digits, tmp_path):
    X = digits[0][:200]
    file = tmp_path / "pretrained.safetensors"
    options = {"embedding_dim": 3, "random_state": 7, "checkpoint": file}
    features = autoencoder_features(X, epochs=2, **options)
    written = file.stat().st_mtime_ns
    dec = DEC(2, pretrain_epochs=2, epochs=1, **options).fit(X)
    assert file.stat().st_mtime_ns == written, "DEC trained again"
    assert [line["stage"] for line in dec.history_] == ["pre-train", "pre-train", "cluster"]
    again = autoencoder_features(X, epochs=2, **options | {"checkpoint": None})
    np.testing.assert_array_equal(features, again)


def test_autoencoder_features_keep_what_clusters_need(digits):
    X, _ = digits
    features = autoencoder_features(X, embedding_dim=5, epochs=2, random_state=0)
    again = autoencoder_features(X, embedding_dim=5, epochs=2, random_state=0)
    assert features.shape == (len(X), 5)
    np.testing.assert_array_equal(features, again)
    assert np.isfinite(features).all()
    assert features.std(axis=0).min() > 0


@pytest.mark.parametrize("method", [DEC, VaDE])
def test_products_in_bfloat16_find_the_same_clusters(method: type, tmp_path: Path) -> None:
    rows, kind = make_blobs(300, 6, centers=3, cluster_std=0.5, random_state=0)
    X = (rows - rows.min()) / (rows.max() - rows.min())
    options = {"hidden": (16,), "embedding_dim": 2, "pretrain_epochs": 8, "epochs": 4}
    file = tmp_path / "state.safetensors"
    rounded = method(3, precision="bfloat16", checkpoint=file, random_state=0, **options).fit(X)
    plain = method(3, random_state=0, **options).fit(X)
    assert accuracy(kind, rounded.labels_) > accuracy(kind, plain.labels_) - 0.02
    assert rounded.history_[0]["total"] != plain.history_[0]["total"]
    with pytest.raises(ModelFileError, match="got another precision"):
        method(3, checkpoint=file, random_state=0, **options).fit(X)
    with pytest.raises(ParameterError, match="precision"):
        method(3, precision="float8").fit(X)
