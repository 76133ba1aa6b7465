"""DeepTELL: contract, shapes, bad input, interruption, files."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from tell import load
from tell.core.layer import ClusterLayer
from tell.core.loop import Hook, Loop
from tell.estimators.deep.estimator import DeepTELL
from tell.estimators.deep.model import DeepModel
from tell.estimators.deep.partial import one_pass
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.paper import PaperRecipe
from tell.estimators.deep.recipes.tell_recipe import TellRecipe
from tell.exceptions import (
    ConvergenceWarning,
    DivergedError,
    DriftWarning,
    InputError,
    ModelFileError,
    ParameterError,
)
from tell.metrics import accuracy
from tell.persistence import read_model

IMAGES = load_digits().images[:120]
# Trainings are cut so short here that clusters may stay empty; one test looks at the warning.
pytestmark = pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")
QUICK = TellRecipe(epochs=1, start=GraphStart(epochs=1, layout_epochs=5, distil_steps=2))


@pytest.fixture(scope="module")
def fitted() -> DeepTELL:
    return DeepTELL(4, recipe=QUICK, random_state=0).fit(IMAGES)


@parametrize_with_checks(
    [
        DeepTELL(
            2,
            embedding_dim=4,
            epochs=3,
            recipe=TellRecipe(start=GraphStart(layout_epochs=20, distil_steps=60)),
        )
    ]
)
def test_scikit_learn_contract(estimator, check, threads) -> None:
    check(estimator)


def test_colours_in_the_last_place_are_refused() -> None:
    X = np.random.default_rng(0).random((20, 8, 8, 3))
    with pytest.raises(InputError, match=r"channels before height.*X.transpose\(0, 3, 1, 2\)"):
        DeepTELL(2).fit(X)
    assert DeepTELL(2, epochs=1, random_state=0).fit(X.transpose(0, 3, 1, 2)).n_features_in_ == 192


@pytest.mark.parametrize("shape", [(64,), (8, 8), (1, 8, 8), (4, 4, 4), (3, 5, 4)])
def test_every_input_shape(shape: tuple[int, ...]) -> None:
    values = load_digits().data[:60, : np.prod(shape)]
    X = values.reshape(60, *shape)
    model = DeepTELL(3, recipe=QUICK, random_state=0).fit(X)
    assert model.input_shape_ == shape
    assert model.n_features_in_ == np.prod(shape)
    assert model.labels_.shape == model.predict(X).shape == (60,)
    assert np.array_equal(model.labels_, model.predict(X))
    Z = model.embed(X)
    assert Z.shape == (60, 10)
    assert model.transform(X).shape == (60, 3)
    assert list(model.get_feature_names_out()) == ["deeptell0", "deeptell1", "deeptell2"]
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, rtol=1e-5)
    assert model.decode(Z).shape == X.shape
    assert model.centers_in_units().shape == (3, *shape)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    assert model.score(X) == pytest.approx(-model.loss_, rel=1e-4)
    assert model.cluster_sizes_.sum() == 60


def test_flat_rows_are_taken_for_images_of_the_fitted_shape(fitted: DeepTELL) -> None:
    assert np.array_equal(fitted.predict(IMAGES.reshape(120, 64)), fitted.labels_)


def test_decoded_values_are_in_the_units_of_the_data(fitted: DeepTELL) -> None:
    decoded = fitted.decode(fitted.embed(IMAGES))
    assert 1 < decoded.max() <= 16
    assert decoded.min() >= 0


def test_bytes_and_floats_give_the_same_model() -> None:
    bytes_ = (IMAGES * 255 / 16).astype(np.uint8)
    models = [
        DeepTELL(3, recipe=QUICK, random_state=1).fit(X)
        for X in (bytes_, bytes_.astype(np.float32) / 255)
    ]
    np.testing.assert_allclose(*(m.cluster_centers_ for m in models), atol=1e-4)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((20, 8, 8), np.nan), "NaN"),
        (np.full((20, 8, 8), np.inf), "infinity"),
        (np.full((20, 3), np.nan), "NaN in row 0, column 0 .* pass a frame"),
        (np.zeros((2, 8, 8)), "n_clusters=4 needs at least 4 rows, got n_samples=2"),
        (np.zeros((20, 1, 1, 8, 8)), "shape"),
        (np.zeros((0, 8, 8)), "0 sample"),
        (np.zeros((20, 0, 8)), "shape"),
        (np.full((20, 3), "a"), "Convert"),
    ],
)
def test_bad_rows_are_named_and_leave_the_model_alone(X, message: str) -> None:
    model = DeepTELL(4, recipe=QUICK, random_state=0).fit(IMAGES)
    centers, features = model.cluster_centers_, model.n_features_in_
    with pytest.raises(InputError, match=message):
        model.fit(X)
    assert model.cluster_centers_ is centers
    assert model.n_features_in_ == features


def test_other_shapes_are_refused_after_fit(fitted: DeepTELL) -> None:
    for X in (np.zeros((5, 7)), np.zeros((5, 8, 7)), np.zeros((5, 3, 8, 8))):
        with pytest.raises(InputError):
            fitted.predict(X)
    with pytest.raises(InputError, match="Z must have 10 columns, got 3"):
        fitted.decode(np.zeros((2, 3)))


@pytest.mark.parametrize(
    "options",
    [
        {"n_clusters": 0},
        {"n_clusters": 2.5},
        {"embedding_dim": 0},
        {"epochs": -1},
        {"n_init": 0},
        {"recipe": "slow"},
        {"encoder": "unet"},
        {"decoder": "unet"},
        {"encoder": None},
        {"augment": "cutout"},
        {"encoder": nn.Linear(3, 2)},
        {"encoder": nn.Conv2d(1, 2, 3)},
        {"max_time": -1.0},
        {"max_time": "3"},
        {"checkpoint": __file__},
        {"augment": lambda x, generator: x[:, :, 1:]},
        {"augment": lambda x, generator: None},
        {"augment": lambda x, generator: x.double()},
    ],
)
def test_bad_options_are_named(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        DeepTELL(**{"n_clusters": 3, "recipe": QUICK, **options}).fit(IMAGES)


def test_recipes_check_their_options() -> None:
    with pytest.raises(ParameterError, match="optimizer='sgd'"):
        PaperRecipe(optimizer="sgd")


@pytest.mark.parametrize("X", [np.zeros((30, 5)), np.ones((30, 8, 8)), np.zeros((30, 8, 8))])
def test_constant_rows_do_not_break_the_fit(X: np.ndarray) -> None:
    model = DeepTELL(2, recipe=QUICK, random_state=0).fit(X)
    assert np.isfinite(model.loss_)


def test_empty_clusters_are_reported() -> None:
    with pytest.warns(ConvergenceWarning, match="n_clusters=6 but . of the clusters are empty"):
        DeepTELL(6, recipe="paper", epochs=1, n_init=1, random_state=0).fit(np.ones((30, 8, 8)))


def test_files_and_names_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", IMAGES)
    model = DeepTELL(3, recipe=QUICK, random_state=0).fit(tmp_path / "images.npy")
    assert model.input_shape_[-2:] == (8, 8)
    assert np.array_equal(model.predict(tmp_path / "images.npy"), model.labels_)


def test_extreme_columns_are_standardised() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1e-300, 1.0, 1e300]
    model = DeepTELL(2, recipe=QUICK, random_state=0).fit(X)
    np.testing.assert_allclose(model.embed(X).std(), model.embed(X).std())
    assert np.isfinite(model.loss_)


def test_a_column_may_lie_far_from_zero() -> None:
    """Milliseconds since 1970 that differ by seconds, beside those of a column of last bits."""
    X, known = make_blobs(90, 3, centers=3, cluster_std=0.5, random_state=1)
    far = X * 5000.0 + 1.7e12
    bits = np.nextafter(np.full((90, 1), 0.3), np.arange(90.0)[:, None] % 2)
    model = DeepTELL(3, random_state=0).fit(np.hstack([far, bits]))
    assert accuracy(known, model.labels_) == 1.0
    assert model.scale_.scale[3] == pytest.approx(0.3)  # constant but for rounding: not blown up
    assert model.centers_in_units().dtype == np.float64
    middles = [far[known == group].mean(axis=0) for group in range(3)]
    nearest = np.abs(model.centers_in_units()[:, None, :3] - middles).max(axis=2).min(axis=1)
    assert (nearest < 20_000).all()  # float32 has steps of 131,072 there


def test_images_on_another_scale_are_pointed_out(tmp_path: Path) -> None:
    small = DeepTELL(3, recipe=QUICK, random_state=0).fit(IMAGES / 16)
    large = DeepTELL(3, recipe=QUICK, random_state=0).fit(IMAGES)
    with pytest.warns(DriftWarning, match=r"another scale than those of the fit \(0 to 1\)"):
        small.predict(IMAGES)
    large.save(tmp_path / "model")
    with pytest.warns(DriftWarning, match=r"\(0 to 16\)"):
        load(tmp_path / "model").predict(IMAGES * 16)
    # Without a word, since warnings are errors here: rows of the fit, be they dark, and dark rows.
    for rows in (IMAGES, IMAGES / 16, IMAGES / 1000, (IMAGES > 8).astype(np.uint8)):
        model = DeepTELL(3, recipe=QUICK, random_state=0).fit(rows)
        model.predict(rows)
        model.predict(rows * 0)
    own = DeepTELL(3, encoder=nn.Sequential(nn.Flatten(), nn.Linear(64, 5)), recipe=QUICK)
    own.fit(IMAGES).predict(IMAGES * 100)  # its scale is its own matter


def test_frames_without_rows_are_named() -> None:
    frame = pd.DataFrame({"size": range(40), "kind": list("abcd") * 10})
    model = DeepTELL(3, recipe=QUICK, random_state=0).fit(frame)
    with pytest.raises(InputError, match="must hold at least one row, got none"):
        model.predict(frame[:0])


# --- recipes -----------------------------------------------------------------------------------


def test_digits_are_clustered_well_by_default() -> None:
    digits = load_digits()
    model = DeepTELL(10, random_state=0).fit(digits.images)
    assert accuracy(digits.target, model.labels_) > 0.88  # k-means has 0.79
    assert model.cluster_sizes_.min() > 100
    stages = list(dict.fromkeys(line["stage"] for line in model.history_))
    assert stages == ["distil", "refine", "views", "tell"]


def test_paper_recipe_keeps_the_run_with_the_smallest_loss() -> None:
    model = DeepTELL(3, recipe="paper", epochs=2, n_init=3, random_state=0).fit(IMAGES)
    losses = [run["loss"] for run in model.runs_]
    assert len(set(losses)) == 3
    assert model.loss_ == min(losses)
    assert [run["chosen"] for run in model.runs_] == [loss == min(losses) for loss in losses]
    assert model.table_loss_ == pytest.approx(0.01 * (2 - (2 - model.loss_) / 3))
    assert model.layer_.alpha == 0.001


def test_paper_recipe_switches_for_the_ablations() -> None:
    recipe = PaperRecipe(epochs=1, n_init=1, optimizer="adam", normalize_gradient=False)
    model = DeepTELL(3, recipe=recipe, encoder="fcn", random_state=0).fit(IMAGES)
    assert not model.layer_.normalize_gradient
    assert model.n_iter_ == 1


def test_two_stage_fixes_the_features() -> None:
    recipe = PaperRecipe(epochs=2, n_init=1, two_stage=True)
    seen: list[torch.Tensor] = []

    class Watch(Hook):
        def on_epoch_end(self, loop: Loop, record: dict[str, object]) -> None:
            if record["stage"] == "features":
                seen.append(next(loop.objective.encoder.parameters()).detach().clone())

    model = DeepTELL(3, recipe=recipe, random_state=0, hooks=[Watch()]).fit(IMAGES)
    assert [line["stage"] for line in model.history_] == ["features"] * 2 + ["centers"] * 2
    assert torch.equal(next(model.encoder_.parameters()), seen[-1])
    assert model.history_[-1]["movement"] > 0


def test_augmentation_takes_names_and_callables() -> None:
    calls: list[int] = []

    def noise(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        calls.append(len(x))
        return x + 0.1 * torch.rand(x.shape, generator=generator)

    for augment in ("affine", noise):
        model = DeepTELL(3, recipe=QUICK, augment=augment, random_state=0).fit(IMAGES)
        assert np.isfinite(model.loss_)
    assert calls


def test_max_time_stops_early_with_a_model() -> None:
    model = DeepTELL(3, recipe="paper", max_time=1.0, random_state=0).fit(IMAGES)
    assert len(model.runs_) < 5
    assert model.predict(IMAGES).shape == (120,)


def test_same_seed_same_model_whatever_torch_drew_before() -> None:
    models = []
    for draws in (1, 5):
        torch.rand(draws)
        models.append(DeepTELL(3, recipe=QUICK, encoder="fcn", random_state=3).fit(IMAGES))
    assert np.array_equal(models[0].cluster_centers_, models[1].cluster_centers_)


# --- streams -----------------------------------------------------------------------------------


def test_partial_fit_moves_the_centres_and_on_request_the_networks() -> None:
    model = DeepTELL(4, recipe=QUICK, random_state=0).partial_fit(IMAGES[:60])
    weight = next(model.encoder_.parameters()).detach().clone()
    centers = model.cluster_centers_.copy()
    model.partial_fit(IMAGES[60:])
    assert torch.equal(next(model.encoder_.parameters()), weight)
    assert not np.array_equal(model.cluster_centers_, centers)
    model.partial_fit(IMAGES[60:], encoder=True)
    assert not torch.equal(next(model.encoder_.parameters()), weight)
    assert [line["rows"] for line in model.stream_] == [60, 60]
    model.partial_fit(IMAGES[:1], encoder=True)
    assert model.labels_.shape == (1,)


def test_failed_partial_fit_leaves_the_model_alone(fitted: DeepTELL) -> None:
    model = clone(fitted).fit(IMAGES)
    centers = model.cluster_centers_
    with pytest.raises(InputError):
        model.partial_fit(np.full((5, 8, 8), np.nan))
    assert model.cluster_centers_ is centers


# --- networks of the user's own ----------------------------------------------------------------


class OwnEncoder(nn.Sequential):
    """Importable and buildable without arguments."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 5))


def own_decoder() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 64), nn.Unflatten(1, (1, 8, 8)))


def test_an_encoder_alone_has_no_reconstruction_loss() -> None:
    encoder = OwnEncoder()
    before = encoder[1].weight.detach().clone()
    model = DeepTELL(3, encoder=encoder, recipe=QUICK, random_state=0).fit(IMAGES / 16)
    assert torch.equal(encoder[1].weight, before)  # the option is not trained, a copy is
    assert model.cluster_centers_.shape == (3, 5)
    assert all("reconstruction" not in line for line in model.history_)
    assert not model.can_decode
    assert model.centers_in_units() is None
    assert model.describe().minimised == ("clustering",)
    with pytest.raises(ParameterError, match="needs a decoder"):
        model.decode(model.cluster_centers_)


def test_a_pair_of_modules_reconstructs() -> None:
    model = DeepTELL(3, encoder=OwnEncoder(), decoder=own_decoder(), recipe=QUICK)
    model.fit(IMAGES / 16)
    assert model.history_[0]["reconstruction"] > 0
    assert model.centers_in_units().shape == (3, 8, 8)


# --- files -------------------------------------------------------------------------------------


def reload(folder: Path) -> DeepTELL:
    saved = read_model(folder)
    assert saved.kind == "DeepTELL"
    return DeepTELL._from_saved(saved)


def test_saved_and_loaded_model_is_the_same(fitted: DeepTELL, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model", metadata={"data": "digits"})
    loaded = reload(tmp_path / "model")
    assert loaded.metadata_ == {"data": "digits"}
    for method in ("predict", "predict_proba", "transform"):
        assert np.array_equal(getattr(loaded, method)(IMAGES), getattr(fitted, method)(IMAGES))
    assert np.array_equal(loaded.centers_in_units(), fitted.centers_in_units())
    for name in ("loss_", "history_", "runs_", "n_iter_", "n_features_in_", "input_shape_"):
        assert getattr(loaded, name) == getattr(fitted, name), name
    assert np.array_equal(loaded.labels_, fitted.labels_)
    loaded.partial_fit(IMAGES[:20])
    assert len(loaded.stream_) == 1


def test_own_networks_are_kept_by_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = textwrap.dedent("""
        import tell
        from torch import nn
        class Net(nn.Sequential):
            def __init__(self):
                super().__init__(nn.Flatten(), nn.Linear(64, 5))
        @tell.network_builder
        def wide():
            return nn.Sequential(nn.Linear(5, 64), nn.Unflatten(1, (1, 8, 8)))
    """)
    (tmp_path / "own_networks.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import own_networks

    model = DeepTELL(3, encoder=own_networks.Net(), decoder="own_networks:wide", recipe=QUICK)
    model.fit(IMAGES / 16).save(tmp_path / "model")
    assert np.array_equal(reload(tmp_path / "model").labels_, model.labels_)

    monkeypatch.delitem(sys.modules, "own_networks")
    (tmp_path / "own_networks.py").unlink()
    with pytest.raises(ModelFileError, match=r"own_networks:Net.*PYTHONPATH"):
        reload(tmp_path / "model")


def test_networks_that_cannot_come_back_are_refused_at_once(tmp_path: Path) -> None:
    class Local(nn.Sequential):
        pass

    encoder = Local(nn.Flatten(), nn.Linear(64, 5))
    model = DeepTELL(3, encoder=encoder, recipe=QUICK).fit(IMAGES / 16)
    with pytest.raises(ParameterError, match=r"encoder=Local.*package\.module:function"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# --- interruption ------------------------------------------------------------------------------

KILLED = """
    import os, signal, sys
    from pathlib import Path
    import numpy as np
    from sklearn.datasets import load_digits
    import tell.estimators.deep.training as deep_run
    from tell.core.loop import Hook
    from tell.estimators.deep.estimator import DeepTELL
    from tell.estimators import GraphStart, KMeansStart, PaperRecipe, TellRecipe, Views

    deep_run.CHECKPOINT_SECONDS = 0

    class Kill(Hook):
        def __init__(self, after):
            self.left = after
        def on_step_end(self, loop, losses):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    X = load_digits().images[:120]
    start = GraphStart(epochs=1, layout_epochs=5, distil_steps=2, batch_size=64)
    recipe = {
        "paper": PaperRecipe(epochs=2, n_init=2, two_stage=True, batch_size=64),
        "tell": TellRecipe(epochs=1, n_init=2, start=start, batch_size=64,
                           views=Views(epochs=2)),
        "adversarial": TellRecipe(epochs=1, n_init=2, start=start, batch_size=64,
                                  views=Views(epochs=2, neighbours=0, adversarial=True)),
        "k-means++": TellRecipe(epochs=1, n_init=2, start=KMeansStart(epochs=1), batch_size=64),
    }[sys.argv[2]]
    for number, kill_after in enumerate([0, 1, 3, 2, 4, 0]):
        child = os.fork()
        if child == 0:
            place = Path(sys.argv[1])
            folder = place / ("whole" if number == 0 else "killed")
            model = DeepTELL(3, recipe=recipe, random_state=0, checkpoint=folder,
                             hooks=[Kill(kill_after)]).fit(X)
            numbers = [p.detach().numpy() for p in model.encoder_.parameters()]
            np.savez(place / f"{folder.name}.npz", model.cluster_centers_, model.labels_, *numbers)
            os._exit(folder.exists())  # the state of a complete run is cleared
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("recipe", ["paper", "tell", "adversarial", "k-means++"])
def test_killed_fit_goes_on_to_the_very_same_model(recipe: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(KILLED))
    output = subprocess.check_output([sys.executable, script, tmp_path, recipe], text=True)
    assert output.split() == ["0", "-9", "-9", "-9", "-9", "0"]
    whole, killed = (np.load(tmp_path / f"{name}.npz") for name in ("whole", "killed"))
    for name in whole.files:
        assert np.array_equal(whole[name], killed[name]), name


def test_checkpoint_of_other_rows_is_refused(tmp_path: Path) -> None:
    class Interrupt(Hook):
        def on_epoch_end(self, loop: Loop, record: dict[str, object]) -> None:
            raise KeyboardInterrupt

    model = DeepTELL(3, recipe=QUICK, checkpoint=tmp_path / "run", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        clone(model).set_params(hooks=[Interrupt()]).fit(IMAGES)
    with pytest.raises(ParameterError, match="other settings or other rows"):
        model.fit(IMAGES[::-1])
    model.fit(IMAGES)
    assert not (tmp_path / "run").exists()


class Explosive(nn.Module):
    """Turns to NaN after some calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 5)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += self.training
        z = self.linear(x.flatten(1))
        return z if self.calls < 3 else z * torch.nan


def test_divergence_is_reported_and_leaves_the_earlier_model() -> None:
    model = DeepTELL(3, encoder=OwnEncoder(), recipe=QUICK, random_state=0).fit(IMAGES / 16)
    centers = model.cluster_centers_
    model.set_params(encoder=Explosive(), epochs=5)
    with pytest.raises(DivergedError, match="finite"):
        model.fit(IMAGES / 16)
    assert model.cluster_centers_ is centers


def test_learning_on_with_the_encoder_is_seeded_and_leaves_the_callers_state() -> None:
    found = []
    for seed in (1, 2):
        model = DeepTELL(3, encoder="fcn", recipe=QUICK, random_state=0).fit(IMAGES)
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        model.partial_fit(IMAGES, encoder=True)
        assert torch.equal(torch.get_rng_state(), before)
        found.append(model.cluster_centers_)
    np.testing.assert_array_equal(*found)


def test_learning_on_from_the_rows_of_the_fit_makes_nothing_worse() -> None:
    """What the fit has minimised is minimised further: another λ has another minimum."""
    images = load_digits().images[:600]
    model = DeepTELL(10, random_state=0).fit(images)
    labels, before = model.labels_, -model.score(images)
    for _ in range(5):
        model.partial_fit(images, encoder=True)
    assert -model.score(images) < before
    assert (model.predict(images) != labels).mean() < 0.01


@pytest.mark.parametrize(("n_clusters", "embedding_dim"), [(3, 10), (10, 10), (5, 7), (8, 33)])
def test_a_row_is_judged_alike_wherever_it_stands(
    n_clusters: int, embedding_dim: int, threads: int
) -> None:
    model = DeepTELL(n_clusters, embedding_dim=embedding_dim, recipe=QUICK, random_state=0)
    model.fit(IMAGES)
    rows = load_digits().images
    order = np.random.default_rng(0).permutation(len(rows))
    for method in (model.predict_proba, model.transform, model.embed, model.predict):
        np.testing.assert_array_equal(method(rows)[order], method(rows[order]))


def test_centres_move_as_far_with_any_length_of_the_weight() -> None:
    """Adam's steps are as long as the rate, so that the layer's must know its weight's length."""
    moved = []
    for alpha in (1.0, 0.001):
        torch.manual_seed(0)
        layer = ClusterLayer(3, 2, alpha=alpha)
        model = DeepModel(nn.Linear(3, 3), None, layer)
        x = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
        moved.append(one_pass(model, x, encoder=True, seed=0, weight=0.1)["movement"])
    assert moved[0] == pytest.approx(moved[1], rel=0.05)


def test_images_after_a_frame_have_no_column_names() -> None:
    flat = pd.DataFrame(IMAGES.reshape(len(IMAGES), -1)).rename(columns=str)
    model = DeepTELL(3, recipe=QUICK, random_state=0).fit(flat)
    assert len(model.feature_names_in_) == 64
    assert not hasattr(model.fit(IMAGES), "feature_names_in_")


def test_a_run_seeded_by_a_generator_goes_on(tmp_path: Path) -> None:
    class Stop(Hook):
        def on_epoch_end(self, loop: Loop, record: dict[str, object]) -> None:
            raise KeyboardInterrupt

    options = {"recipe": QUICK, "checkpoint": tmp_path / "state"}
    with pytest.raises(KeyboardInterrupt):
        DeepTELL(2, random_state=np.random.RandomState(0), hooks=[Stop()], **options).fit(IMAGES)
    resumed = DeepTELL(2, random_state=np.random.RandomState(7), **options).fit(IMAGES)
    whole = DeepTELL(2, random_state=np.random.RandomState(0), recipe=QUICK).fit(IMAGES)
    np.testing.assert_array_equal(resumed.cluster_centers_, whole.cluster_centers_)
