"""Networks of the user's own, and what a model folder makes of them and of changed options."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from tell import load
from tell.core.loop import Hook, Loop
from tell.core.objective import Losses
from tell.estimators.deep import training
from tell.estimators.deep.estimator import DeepTELL
from tell.estimators.deep.layer_text import build_layers, layer_text
from tell.estimators.deep.recipes import views
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.tell_recipe import TellRecipe
from tell.exceptions import ModelFileError, ParameterError
from tell.persistence import read_model

IMAGES = load_digits().images[:120] / 16
pytestmark = pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")
QUICK = TellRecipe(epochs=1, start=GraphStart(epochs=1, layout_epochs=5, distil_steps=2))


def reload(model: DeepTELL, folder: Path) -> DeepTELL:
    model.save(folder)
    return DeepTELL._from_saved(read_model(folder))


class Enc(nn.Module):
    """Its argument changes what it computes, but not the shape of any weight."""

    def __init__(self, slope: float = 0.0) -> None:
        super().__init__()
        self.slope = slope
        self.linear = nn.Linear(64, 16)
        self.last = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.linear(x.flatten(1))
        return self.last(h.sin() if self.slope else h.relu())


class TiedEnc(nn.Module):
    """One layer under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 5)
        self.again = self.linear

    def forward(self, x: Tensor) -> Tensor:
        return self.again(x.flatten(1))


class TiedDec(nn.Module):
    """Decodes by the encoder's own weights."""

    def __init__(self, encoder: TiedEnc | None = None) -> None:
        super().__init__()
        self.encoder = encoder or TiedEnc()

    def forward(self, z: Tensor) -> Tensor:
        return (z @ self.encoder.linear.weight).reshape(-1, 1, 8, 8)


class Reshaped(nn.Module):
    """A decoder whose rows have a shape of its own."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.linear = nn.Linear(5, int(np.prod(shape)))
        self.shape = shape

    def forward(self, z: Tensor) -> Tensor:
        return self.linear(z).reshape(-1, *self.shape)


class Pair(nn.Module):
    """Gives more than the embedding."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.flatten(1), x


class Failing(nn.Module):
    """A decoder of another embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 64)

    def forward(self, z: Tensor) -> Tensor:
        return self.linear(z)


# --- files -------------------------------------------------------------------------------------


def test_a_network_that_would_come_back_different_is_refused(tmp_path: Path) -> None:
    model = DeepTELL(5, encoder=Enc(slope=0.5), recipe=QUICK, random_state=0).fit(IMAGES)
    before = torch.get_rng_state()
    with pytest.raises(ParameterError, match=r"encoder=Enc.*package\.module:function"):
        model.save(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)
    assert not (tmp_path / "model").exists()


def test_a_network_that_comes_back_the_same_is_kept(tmp_path: Path) -> None:
    model = DeepTELL(5, encoder=Enc(), recipe=QUICK, random_state=0).fit(IMAGES)
    before = torch.get_rng_state()
    loaded = reload(model, tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(loaded.predict(IMAGES), model.predict(IMAGES))


LAYERS = [
    nn.Linear(4, 2, bias=False),
    nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.LeakyReLU(0.3), nn.LayerNorm(16)),
    nn.Sequential(nn.Conv2d(1, 3, (3, 2), padding="same"), nn.BatchNorm2d(3, eps=0.1), nn.GELU()),
    nn.Sequential(nn.Dropout(0.2), nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.MaxPool2d(2))),
    nn.ConvTranspose2d(2, 1, 3, stride=2, output_padding=1),
]


@pytest.mark.parametrize("network", LAYERS, ids=lambda network: type(network).__name__)
def test_layers_of_torch_come_back_from_their_text(network: nn.Module) -> None:
    again = build_layers(layer_text(network))
    assert repr(again) == repr(network)
    assert {n: v.shape for n, v in again.state_dict().items()} == {
        n: v.shape for n, v in network.state_dict().items()
    }


def test_what_text_cannot_say_is_not_written() -> None:
    named = nn.Sequential(OrderedDict(first=nn.Linear(4, 2)))
    for network in (Enc(), named, nn.Sequential(nn.Linear(4, 2), Enc()), nn.ModuleList()):
        assert layer_text(network) is None


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Linear(in_features=__import__('os').getpid(), out_features=2)",
        "Sequential(print('x'))",
        "Linear(",
        "Linear(3)",
        "Linear(in_features='a', out_features=2)",
        "Sequential(" * 500 + ")" * 500,
        "(lambda: Linear)()",
        "Transformer(num_encoder_layers=1000000000)",
        "LSTM(input_size=2, hidden_size=2, num_layers=1000000000)",
    ],
)
def test_only_layers_are_built_of_a_text(text: str) -> None:
    with pytest.raises(ModelFileError, match="must be layers of torch"):
        build_layers(text)


def test_a_head_of_one_layer_is_kept(tmp_path: Path) -> None:
    rows = IMAGES.reshape(len(IMAGES), -1)
    decoder = nn.Sequential(nn.Linear(5, 64), nn.Sigmoid())
    head = DeepTELL(3, encoder=nn.Linear(64, 5), decoder=decoder, recipe=QUICK, random_state=0)
    head.fit(rows).save(tmp_path / "model")
    loaded = load(tmp_path / "model")  # without trust: no code is named
    np.testing.assert_array_equal(loaded.embed(rows), head.embed(rows))
    assert loaded.encoder == "Linear(in_features=64, out_features=5, bias=True)"
    assert loaded.fit(rows).embed(rows).shape == (len(rows), 5)


def test_a_text_of_more_weights_than_the_file_has_takes_no_memory(tmp_path: Path) -> None:
    rows = IMAGES.reshape(len(IMAGES), -1)
    DeepTELL(3, encoder=nn.Linear(64, 5), recipe=QUICK, random_state=0).fit(rows).save(tmp_path)
    saved = read_model(tmp_path)
    saved.config["options"]["encoder"] = "Linear(in_features=64, out_features=900000000000)"
    with pytest.raises(ModelFileError, match="other weights"):
        DeepTELL._from_saved(saved)


def test_tied_weights_are_kept(tmp_path: Path) -> None:
    model = DeepTELL(3, encoder=TiedEnc(), recipe=QUICK, random_state=0).fit(IMAGES)
    loaded = reload(model, tmp_path / "model")
    np.testing.assert_array_equal(loaded.embed(IMAGES), model.embed(IMAGES))


def test_a_decoder_tied_to_the_encoder_stays_tied(tmp_path: Path) -> None:
    encoder = TiedEnc()
    before = encoder.linear.weight.detach().clone()
    model = DeepTELL(3, encoder=encoder, decoder=TiedDec(encoder), recipe=QUICK, random_state=0)
    model.fit(IMAGES)
    assert torch.equal(encoder.linear.weight, before)
    assert not torch.equal(model.encoder_[0].linear.weight, before)
    assert model.decoder_.encoder is model.encoder_[0]
    loaded = reload(model, tmp_path / "model")
    np.testing.assert_array_equal(loaded.centers_in_units(), model.centers_in_units())
    model.partial_fit(IMAGES, encoder=True)
    assert model.decoder_.encoder is model.encoder_[0]


@pytest.mark.parametrize("changed", [{"n_clusters": 4}, {"embedding_dim": 3}, {"device": "meta"}])
def test_options_set_after_fit_do_not_spoil_the_file(changed, tmp_path: Path) -> None:
    model = DeepTELL(3, recipe=QUICK, random_state=0).fit(IMAGES)
    labels = model.predict(IMAGES)
    names = list(model.get_feature_names_out())
    model.set_params(**changed)
    assert list(model.get_feature_names_out()) == names
    np.testing.assert_array_equal(model.predict(IMAGES), labels)
    if "device" in changed:
        return
    loaded = reload(model, tmp_path / "model")
    assert (loaded.n_clusters, loaded.embedding_dim) == (3, 10)
    np.testing.assert_array_equal(loaded.predict(IMAGES), labels)
    assert list(loaded.get_feature_names_out()) == names
    assert model.partial_fit(IMAGES).cluster_sizes_.shape == (3,)


@pytest.mark.parametrize("changed", [{"encoder": "fcn"}, {"recipe": "paper"}, {"decoder": None}])
def test_options_that_build_another_model_are_refused(changed, tmp_path: Path) -> None:
    model = DeepTELL(3, recipe=QUICK, random_state=0).fit(IMAGES).set_params(**changed)
    with pytest.raises(ParameterError, match="fit again"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_plain_options_come_back(device, tmp_path: Path) -> None:
    model = DeepTELL(3, recipe=QUICK, random_state=0, device=device).fit(IMAGES)
    loaded = reload(model.set_params(compiled=True, precision="bfloat16"), tmp_path / "model")
    assert loaded.device == "cpu"
    assert loaded.compiled is True
    assert loaded.precision == "bfloat16"


def test_training_in_bfloat16_gives_a_model_that_predicts_in_float32(tmp_path: Path) -> None:
    plain, rounded = (
        DeepTELL(3, recipe=QUICK, random_state=0, precision=precision).fit(IMAGES)
        for precision in ("float32", "bfloat16")
    )
    assert rounded.loss_ != plain.loss_
    assert rounded.loss_ == pytest.approx(plain.loss_, rel=0.2)
    assert all(p.dtype == torch.float32 for p in rounded.encoder_.parameters())
    np.testing.assert_array_equal(rounded.predict(IMAGES), rounded.labels_)
    again = reload(rounded, tmp_path / "model")
    np.testing.assert_array_equal(again.transform(IMAGES), rounded.transform(IMAGES))
    with pytest.raises(ParameterError, match="precision='half' must be one of"):
        DeepTELL(3, recipe=QUICK, precision="half").fit(IMAGES)


# --- devices and types -------------------------------------------------------------------------


def missing_device() -> str:
    return "mps" if torch.cuda.is_available() else "cuda"


def test_a_device_that_is_not_here_is_named() -> None:
    with pytest.raises(ParameterError, match="device must be usable here"):
        DeepTELL(3, recipe=QUICK, device=missing_device()).fit(IMAGES)


def test_a_model_of_another_device_is_loaded_on_the_cpu(tmp_path: Path) -> None:
    model = DeepTELL(3, recipe=QUICK, random_state=0).fit(IMAGES)
    model.save(tmp_path / "model")
    saved = read_model(tmp_path / "model")
    saved.config["options"]["device"] = missing_device()
    loaded = DeepTELL._from_saved(saved)
    assert loaded.device == "cpu"
    np.testing.assert_array_equal(loaded.predict(IMAGES), model.predict(IMAGES))


@pytest.fixture
def double_by_default():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("own", [False, True])
def test_another_default_type_makes_no_difference(double_by_default, own, tmp_path: Path) -> None:
    encoder = Enc() if own else "auto"
    model = DeepTELL(3, encoder=encoder, recipe=QUICK, random_state=0).fit(IMAGES)
    model.partial_fit(IMAGES[:30], encoder=True)
    assert {p.dtype for p in model.encoder_.parameters()} == {torch.float32}
    assert model.cluster_centers_.dtype == np.float32
    assert torch.get_default_dtype() == torch.float64
    loaded = reload(model, tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(IMAGES), model.predict(IMAGES))
    if not own:
        torch.set_default_dtype(torch.float32)
        usual = DeepTELL(3, recipe=QUICK, random_state=0).fit(IMAGES)
        usual.partial_fit(IMAGES[:30], encoder=True)
        np.testing.assert_array_equal(usual.cluster_centers_, model.cluster_centers_)


# --- what networks return ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(8, 8), (64,)])
def test_a_decoder_may_give_rows_of_another_shape(shape: tuple[int, ...]) -> None:
    models = []
    for decoder in (Reshaped(1, 8, 8), Reshaped(*shape)):
        torch.manual_seed(0)
        decoder.linear.reset_parameters()
        encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
        models.append(
            DeepTELL(3, encoder=encoder, decoder=decoder, recipe=QUICK, random_state=0).fit(IMAGES)
        )
    usual, reshaped = (model.history_[-1]["reconstruction"] for model in models)
    assert reshaped == pytest.approx(usual)
    np.testing.assert_allclose(*(model.centers_in_units() for model in models))


def test_a_flat_decoder_behind_a_perceptron_gives_the_units_of_the_data() -> None:
    model = DeepTELL(
        3, encoder="mlp", embedding_dim=5, decoder=Reshaped(64), recipe=QUICK, random_state=0
    ).fit(IMAGES)
    assert model.centers_in_units().shape == (3, 8, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": Pair()}, "encoder must return one tensor.*got tuple"),
        ({"encoder": Enc(), "decoder": Reshaped(7, 9)}, r"decoder must .*\(n, 1, 8, 8\).*7, 9"),
        ({"encoder": Enc(), "decoder": Failing()}, r"decoder must .*\(n, 5\)"),
        ({"encoder": Enc(), "decoder": Pair()}, "decoder must .*got tuple"),
    ],
)
def test_networks_that_do_not_fit_are_named(options, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        DeepTELL(3, recipe=QUICK, **options).fit(IMAGES)


# --- sizes -------------------------------------------------------------------------------------


class StopAt(Hook):
    """Interrupt in the middle of an epoch of a stage, the given time that it comes there."""

    def __init__(self, stage: str, time: int = 1) -> None:
        self.stage, self.times = stage, time

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        if loop.name == self.stage and loop.position[1] == 2:
            self.times -= 1
            if self.times == 0:
                raise KeyboardInterrupt


def network(seed: int) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 5))


@pytest.mark.parametrize("stop", [StopAt("distil"), StopAt("tell"), StopAt("distil", time=2)])
def test_an_interrupted_fit_goes_on_from_its_own_weights(
    stop: StopAt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    options = {"recipe": QUICK, "random_state": 0, "n_init": 2}
    whole = DeepTELL(3, encoder=network(0), **options).fit(IMAGES)
    options["checkpoint"] = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        DeepTELL(3, encoder=network(0), hooks=[stop], **options).fit(IMAGES)
    other = network(1)  # as whoever builds it anew, without a seed
    other[2].running_mean += 1  # no parameter, but learned as well
    before = copy.deepcopy(other.state_dict())
    resumed = DeepTELL(3, encoder=other, **options).fit(IMAGES)
    np.testing.assert_array_equal(resumed.cluster_centers_, whole.cluster_centers_)
    np.testing.assert_array_equal(resumed.embed(IMAGES), whole.embed(IMAGES))
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())
    assert not options["checkpoint"].exists()


@pytest.mark.parametrize("stage", ["distil", "tell"])
def test_a_fit_of_lazy_layers_goes_on(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)

    def model(**options) -> DeepTELL:
        own = nn.Sequential(nn.Flatten(), nn.LazyLinear(5))
        return DeepTELL(3, encoder=own, recipe=QUICK, random_state=0, **options)

    whole = model().fit(IMAGES)
    with pytest.raises(KeyboardInterrupt):
        model(hooks=[StopAt(stage)], checkpoint=tmp_path / "run").fit(IMAGES)
    resumed = model(checkpoint=tmp_path / "run").fit(IMAGES)
    np.testing.assert_array_equal(resumed.cluster_centers_, whole.cluster_centers_)


def test_a_stage_goes_on_with_the_schedule_that_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    recipe = replace(QUICK, views=views.Views(batch_size=32))
    options = {"recipe": recipe, "random_state": 0, "checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        DeepTELL(3, hooks=[StopAt("views")], **options).fit(IMAGES)
    monkeypatch.setattr(views, "EPOCHS", 77)  # as another version may have it
    with pytest.raises(ParameterError, match=r"epochs that stage 'views' has now, 77, got \d"):
        DeepTELL(3, **options).fit(IMAGES)
    monkeypatch.undo()
    assert DeepTELL(3, **options).fit(IMAGES).n_iter_


def test_sizes_count_all_rows_of_a_stream(tmp_path: Path) -> None:
    model = DeepTELL(4, recipe=QUICK, random_state=0).fit(IMAGES)
    expected = np.bincount(model.labels_, minlength=4)
    for part in (IMAGES[:30], IMAGES[30:37]):
        model.partial_fit(part)
        expected = expected + np.bincount(model.labels_, minlength=4)
    np.testing.assert_array_equal(model.cluster_sizes_, expected)
    loaded = reload(model, tmp_path / "model")
    np.testing.assert_array_equal(loaded.cluster_sizes_, expected)
    assert loaded.labels_.shape == (7,)
    loaded.partial_fit(IMAGES[:5])
    assert loaded.cluster_sizes_.sum() == 162


def test_sizes_of_an_older_file_are_those_of_its_labels(tmp_path: Path) -> None:
    model = DeepTELL(4, recipe=QUICK, random_state=0).fit(IMAGES)
    model.save(tmp_path / "model")
    saved = read_model(tmp_path / "model")
    del saved.tensors["sizes"], saved.config["options"]["compiled"]
    del saved.config["options"]["precision"]
    loaded = DeepTELL._from_saved(saved)
    np.testing.assert_array_equal(loaded.cluster_sizes_, model.cluster_sizes_)
