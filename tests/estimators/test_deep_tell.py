"""The default recipe: a start, then eq. 15 to where it no longer falls."""

from __future__ import annotations

import copy
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_wine
from torch import Tensor, nn, optim

import tell.estimators.deep.recipes.graph as graph_start
from tell.core.batches import Batch, Batches
from tell.core.layer import ClusterLayer, unit
from tell.core.loop import Hook, Loop
from tell.core.objective import Clustering, Losses
from tell.core.schedule import Always
from tell.estimators import load
from tell.estimators.deep.estimator import DeepTELL
from tell.estimators.deep.model import DeepModel
from tell.estimators.deep.recipes.distil import DistilRecipe
from tell.estimators.deep.recipes.given_labels import LabelStart
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.kmeans import KMeansStart
from tell.estimators.deep.recipes.paper import PaperRecipe
from tell.estimators.deep.recipes.recipe import Recipe, Stage, Task
from tell.estimators.deep.recipes.tell_recipe import Settling, TellRecipe
from tell.estimators.deep.recipes.views import Views
from tell.exceptions import InputError, ModelFileError, ParameterError, UntrustedModelError
from tell.metrics import accuracy
from tell.persistence import read_model, write_model

DIGITS = load_digits()
WINE = load_wine()
IMAGES = DIGITS.images[:120]
QUICK_START = GraphStart(epochs=1, layout_epochs=5, distil_steps=2)
QUICK = TellRecipe(epochs=1, start=QUICK_START, views=Views(epochs=1))
pytestmark = pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")


def last_stage(model: DeepTELL) -> list[dict[str, Any]]:
    return [line for line in model.history_ if line["stage"] == "tell"]


# --- a place where eq. 15 no longer falls -------------------------------------------------------


@pytest.fixture(scope="module")
def settled() -> DeepTELL:
    return DeepTELL(10, random_state=0).fit(DIGITS.images)


def test_the_last_stage_minimises_both_losses_until_the_labels_settle(settled: DeepTELL) -> None:
    lines = last_stage(settled)
    assert settled.history_[-1] is lines[-1]
    assert settled.runs_[0]["settled"]
    assert all(line["relabelled"] <= 0.001 for line in lines[-2:])
    for line in lines:
        assert line["weight"] > 0
        weighted = line["reconstruction"] + line["weight"] / 10 * line["clustering"]
        assert line["total"] == pytest.approx(weighted, rel=1e-3)
    totals = [line["total"] for line in lines]
    assert totals[-1] < 0.8 * totals[0]
    rises = np.diff(totals) / totals[:-1]
    assert rises.max() < 0.02  # the noise of batches


def test_going_on_changes_hardly_anything(settled: DeepTELL) -> None:
    model = copy.deepcopy(DeepModel(settled.encoder_, settled.decoder_, settled.layer_))
    objective = Clustering(
        model.encoder,
        model.layer,
        model.decoder,
        alternation=Always(),
        weight=last_stage(settled)[-1]["weight"],
        idle_centers="skip",
    )
    rule = optim.Adam(objective.parameters(), lr=3e-5)
    x = settled._tensor(DIGITS.images)
    history = Loop(objective, Batches(x, 59, drop_last=True), rule, epochs=3).run()
    before = last_stage(settled)[-1]["total"]
    assert history[-1]["total"] == pytest.approx(before, rel=0.05)
    labels = model.assign(model.embed(x)).labels.numpy()
    assert (labels != settled.labels_).mean() <= 0.001


def test_centres_are_the_mean_directions_of_their_rows(settled: DeepTELL) -> None:
    z = settled._model().embed(settled._tensor(DIGITS.images)).numpy()
    for label, center in enumerate(settled.cluster_centers_):
        mean = z[settled.labels_ == label].mean(axis=0)
        assert mean @ center / np.linalg.norm(mean) > 0.99  # within 8 degrees
    cosine = (z * settled.cluster_centers_[settled.labels_]).sum(axis=1)
    assert cosine.mean() > 0.93  # the paper's best run on MNIST
    assert settled.loss_ == pytest.approx((2 - 2 * cosine).mean(), rel=1e-4)


def test_eq_15_does_not_cost_the_partition(settled: DeepTELL) -> None:
    alone = DeepTELL(10, recipe="distil", random_state=0).fit(DIGITS.images)
    assert settled.loss_ < 0.5 * alone.loss_
    scores = [accuracy(DIGITS.target, model.labels_) for model in (settled, alone)]
    assert scores[0] > scores[1] - 0.01
    assert not any("relabelled" in line for line in alone.history_)


@pytest.mark.parametrize("start", ["graph", "k-means++"])
@pytest.mark.parametrize("alternation", ["always", "epoch"])
def test_a_table_settles_too(start: str, alternation: str) -> None:
    recipe = TellRecipe(start=start, alternation=alternation)
    model = DeepTELL(3, recipe=recipe, random_state=0).fit(WINE.data)
    assert model.runs_[0]["settled"]
    lines = last_stage(model)
    assert np.mean([line["total"] for line in lines[-5:]]) < lines[0]["total"]
    z = model.embed(WINE.data)
    for label, center in enumerate(model.cluster_centers_):
        mean = z[model.labels_ == label].mean(axis=0)
        assert mean @ center / np.linalg.norm(mean) > 0.99


def test_what_does_not_settle_ends_at_its_cap_and_says_so() -> None:
    recipe = TellRecipe(epochs=2, start=QUICK_START, views=None, learning_rate=0.1)
    model = DeepTELL(10, recipe=recipe, random_state=0).fit(IMAGES)
    assert len(last_stage(model)) == 2 * 2
    assert not model.runs_[0]["settled"]


# --- by turns: labels, then an epoch of steps -----------------------------------------------------


def test_by_turns_a_row_is_pulled_to_the_centre_that_it_was_given() -> None:
    model = DeepModel(nn.Identity(), None, ClusterLayer(2, 2))
    model.layer.set_centers_(torch.eye(2))
    rows = torch.tensor([[0.6, 0.8], [1.0, 0.0]])
    batch = Batch(rows, torch.tensor([0, 1]))
    to_nearest = Settling(nn.Identity(), model, 2, Always())
    assert to_nearest.losses(batch).terms["clustering"].tolist() == pytest.approx([0.4, 0.0])
    by_turns = Settling(nn.Identity(), model, 2, Always(), by_turns=True)
    by_turns.predicted.copy_(torch.tensor([0, 0]))  # 2 - 2 · 0.6, though the other is nearer
    losses = by_turns.losses(batch)
    assert losses.terms["clustering"].tolist() == pytest.approx([0.8, 0.0])
    assert losses.labels is not None
    assert losses.labels.tolist() == [1, 0]  # what the model would say now
    unnumbered = Batch(rows, torch.empty(0, dtype=torch.long))  # rows of a file have no numbers
    assert by_turns.losses(unnumbered).terms["clustering"].tolist() == pytest.approx([0.4, 0.0])


def test_by_turns_moved_rows_need_no_second_look() -> None:
    model = DeepModel(nn.Identity(), None, ClusterLayer(2, 2))
    model.layer.set_centers_(torch.eye(2))
    by_turns = Settling(nn.Identity(), model, 1, Always(), by_turns=True)
    by_turns.predicted.fill_(1)
    batch = Batch(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), torch.tensor([[0.6, 0.8]]))
    losses = by_turns.losses(batch)
    assert losses.terms["clustering"].tolist() == pytest.approx([0.4])
    assert losses.labels is not None
    assert losses.labels.tolist() == [1]


class Turns(Hook):
    """Note the labels that each epoch of eq. 15 keeps to, and those after it."""

    def __init__(self) -> None:
        self.during: list[set[tuple[int, ...]]] = []
        self.after: list[tuple[int, ...]] = []

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        if loop.name == "tell":
            if loop.position[1] == 1:
                self.during.append(set())
            objective: Any = loop.objective
            self.during[-1].add(tuple(objective.predicted.tolist()))

    def on_epoch_end(self, loop: Loop, record: dict[str, Any]) -> None:
        if loop.name == "tell":
            objective: Any = loop.objective
            self.after.append(tuple(objective.predict(loop.batches).tolist()))


def test_labels_change_between_the_epochs_of_eq_15_and_not_within() -> None:
    turns = Turns()
    recipe = TellRecipe(epochs=2, start=QUICK_START, learning_rate=3e-3, views=None)
    DeepTELL(5, recipe=recipe, hooks=[turns], random_state=0).fit(IMAGES)
    assert all(len(labels) == 1 for labels in turns.during)
    found = [next(iter(labels)) for labels in turns.during]
    assert found[1:] == turns.after[:-1]
    assert len(set(found)) > 1


def overlapping(rows: int = 600) -> NDArray[np.float32]:
    """Smooth patterns of light without any gaps between kinds of them."""
    draw = torch.Generator().manual_seed(0)
    coarse = torch.rand(rows, 1, 3, 3, generator=draw)
    return F.interpolate(coarse, 12, mode="bilinear")[:, 0].numpy()


@pytest.mark.parametrize("by_turns", [True, False])
def test_clusters_that_overlap_are_kept_by_turns(
    by_turns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GraphStart, "keeps_clusters", by_turns)
    turns = Turns()
    recipe = TellRecipe(learning_rate=3e-3, start=GraphStart(epochs=1), views=None)
    DeepTELL(8, recipe=recipe, hooks=[turns], random_state=0).fit(overlapping())
    first = np.array(next(iter(turns.during[0])))
    last = np.array(turns.after[-1])
    kept = min((last == first)[first == label].mean() for label in range(8))
    assert (kept > 0.5) == by_turns, kept


# --- λ ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_the_weight_has_the_units_of_the_reconstruction_error(size: float) -> None:
    x = size * torch.tensor([[0.0, 1.0], [2.0, 1.0]])  # variances 1 and 0
    for seed in (0, 7):  # the same for all runs, whose losses are compared
        task = Task(DeepModel(nn.Linear(2, 3), None, ClusterLayer(3, 5)), x, seed)
        assert TellRecipe()._weight(task) == pytest.approx(1.5 * 5 * size**2 / 2)
        assert TellRecipe(start="k-means++")._weight(task) == pytest.approx(0.45 * 5 * size**2 / 2)
        assert TellRecipe(weight=0.3)._weight(task) == 0.3
        assert TellRecipe(start="random")._weight(task) == 0.01


def test_equal_rows_still_leave_a_weight() -> None:
    model = DeepModel(nn.Linear(4, 3), None, ClusterLayer(3, 5))
    assert TellRecipe()._weight(Task(model, torch.zeros(9, 4), seed=0)) > 0


@pytest.mark.parametrize(
    "options",
    [
        {"weight": 0.0},
        {"learning_rate": 0.0},
        {"alternation": "never"},
        {"start": "grid"},
        {"epochs": 0},
        {"n_init": 0},
        {"batch_size": 0},
    ],
)
def test_bad_options_of_the_recipe_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        TellRecipe(**options)


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        (PaperRecipe, "epochs"),
        (DistilRecipe, "n_init"),
        (Views, "epochs"),
        (GraphStart, "epochs"),
        (GraphStart, "neighbours"),
        (GraphStart, "layout_epochs"),
        (KMeansStart, "epochs"),
        (KMeansStart, "seedings"),
    ],
)
@pytest.mark.parametrize("value", [0, 2.5, "3"])
def test_counts_of_nothing_are_named(kind: Any, option: str, value: Any) -> None:
    message = f"{option} of .* must be a whole number of at least 1, got {value!r}; pass one"
    with pytest.raises(ParameterError, match=message):
        kind(**{option: value})


# --- starts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "stages"),
    [
        (QUICK_START, ["distil", "refine", "views", "tell"]),
        (KMeansStart(epochs=2), ["reconstruct", "tell"]),
        ("random", ["tell"]),
    ],
)
@pytest.mark.parametrize("alternation", ["always", "epoch"])
def test_every_start_is_followed_by_eq_15(start: Any, stages: list[str], alternation: str) -> None:
    recipe = TellRecipe(epochs=2, alternation=alternation)
    model = DeepTELL(4, recipe=recipe, start=start, random_state=0).fit(IMAGES)
    assert list(dict.fromkeys(line["stage"] for line in model.history_)) == stages
    assert all(line["weight"] > 0 for line in last_stage(model))
    assert {"reconstruction", "clustering"} <= last_stage(model)[-1].keys()


def test_k_means_seedings_are_judged_by_the_loss() -> None:
    x = torch.from_numpy(DIGITS.data).float()
    losses = []
    for seedings in (1, 10):
        torch.manual_seed(0)
        model = DeepModel(nn.Linear(64, 8), None, ClusterLayer(8, 10))
        KMeansStart(seedings=seedings).place_centers(Task(model, x, seed=3))
        losses.append(float(model.assign(model.embed(x)).loss.mean()))
    assert losses[1] < losses[0]


def test_labels_of_the_user_are_learned_and_named_alike() -> None:
    labels = np.where(np.arange(len(WINE.data)) % 5 == 0, -1, WINE.target)
    model = DeepTELL(3, start=labels, random_state=0).fit(WINE.data)
    assert (model.labels_ == WINE.target).mean() > 0.95  # also of the unknown ones
    soft = np.eye(3)[WINE.target] * 2 + 0.1
    model = DeepTELL(3, start=soft, random_state=0).fit(WINE.data)
    assert (model.labels_ == WINE.target).mean() > 0.95


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        (np.zeros(7, dtype=int), InputError, "one label per row, got 7 for 120 rows"),
        (np.full(120, 3), InputError, "labels from 0 to 2, or -1"),
        (np.full(120, 0.5), InputError, "labels from 0 to 2"),
        (np.ones((120, 2)), InputError, r"assignments \(n, 3\)"),
        (-np.ones((120, 3)), InputError, "not negative"),
        (np.full(120, "a"), ParameterError, "number the clusters"),
        ("grid", ParameterError, "'graph', 'k-means\\+\\+', 'random', labels"),
    ],
)
def test_bad_starts_are_named(start: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DeepTELL(3, start=start, random_state=0).fit(IMAGES)


def test_a_recipe_without_a_start_takes_none() -> None:
    with pytest.raises(ParameterError, match="recipe='tell'"):
        DeepTELL(3, recipe="paper", start="graph").fit(IMAGES)
    with pytest.raises(ParameterError, match="'graph' or labels"):
        DistilRecipe(start="random")


def test_without_a_decoder_only_the_centres_move() -> None:
    """`L_clu` alone would be smallest where all rows are one point."""
    seen: list[Tensor] = []

    class Watch(Hook):
        def on_epoch_end(self, loop: Loop, record: dict[str, Any]) -> None:
            if record["stage"] == "views":
                seen.append(loop.objective.encoder[0][1].weight.detach().clone())

    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    model = DeepTELL(3, encoder=encoder, recipe=QUICK, random_state=0, hooks=[Watch()])
    model.fit(IMAGES / 16)
    assert torch.equal(model.encoder_[0][1].weight, seen[-1])
    assert last_stage(model)[-1]["movement"] > 0
    z = unit(model._model().embed(model._tensor(IMAGES / 16)))
    assert float(z.std(dim=0).sum()) > 0.1


@pytest.mark.parametrize(("n", "k"), [(5, 4), (12, 3), (178, 3)])
def test_few_rows_are_enough(n: int, k: int) -> None:
    recipe = TellRecipe(start=GraphStart(layout_epochs=10, distil_steps=20))
    model = DeepTELL(k, recipe=recipe, epochs=10, random_state=0).fit(WINE.data[:n])
    assert np.isfinite(model.loss_)
    assert model.labels_.shape == (n,)


def test_wine_is_clustered_well() -> None:
    model = DeepTELL(3, random_state=0).fit(WINE.data)
    assert accuracy(WINE.target, model.labels_) > 0.9


def test_the_graph_is_found_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    find = graph_start.find_graph

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return find(*args, **options)

    monkeypatch.setattr(graph_start, "find_graph", counted)
    model = DeepTELL(3, recipe=QUICK, n_init=3, random_state=0).fit(IMAGES)
    assert len(calls) == 1
    assert len({run["loss"] for run in model.runs_}) == 3
    assert model.loss_ == min(run["loss"] for run in model.runs_)


# --- files --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plain(Recipe):
    """A recipe of the user's own."""

    epochs: int = 2
    rate: float = 1e-3

    def stages(self, task: Task) -> Any:
        objective = Clustering(task.model.encoder, task.model.layer, task.model.decoder)
        rule = optim.Adam(objective.parameters(), lr=self.rate)
        yield Stage("plain", objective, Batches(task.x, 32, seed=task.seed), rule, self.epochs)


def test_a_recipe_of_ones_own_is_kept_by_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Path(__file__).read_text().split("@dataclass(frozen=True)\nclass Plain")[1]
    body = lines.split("\n\n\ndef test")[0]
    source = textwrap.dedent("""
        from dataclasses import dataclass
        from typing import Any
        from torch import optim
        from tell.core.batches import Batch, Batches
        from tell.core.objective import Clustering, Losses
        from tell.estimators import Recipe, Stage, Task
    """)
    (tmp_path / "own_recipe.py").write_text(f"{source}\n@dataclass(frozen=True)\nclass Plain{body}")
    monkeypatch.syspath_prepend(tmp_path)
    import own_recipe

    model = DeepTELL(3, recipe=own_recipe.Plain(rate=1e-4), random_state=0).fit(IMAGES)
    model.save(tmp_path / "model")
    with pytest.raises(UntrustedModelError, match="recipe 'own_recipe:Plain'"):
        load(tmp_path / "model")
    loaded = load(tmp_path / "model", trust=True)
    assert loaded.recipe == own_recipe.Plain(rate=1e-4)
    np.testing.assert_array_equal(loaded.predict(IMAGES), model.labels_)

    monkeypatch.delitem(__import__("sys").modules, "own_recipe")
    (tmp_path / "own_recipe.py").unlink()
    with pytest.raises(ModelFileError, match=r"own_recipe:Plain.*PYTHONPATH"):
        load(tmp_path / "model", trust=True)


def test_a_recipe_that_nobody_can_import_is_refused_by_name(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Local(Plain):
        pass

    model = DeepTELL(3, recipe=Local(), random_state=0).fit(IMAGES)
    with pytest.raises(ParameterError, match=r"recipe=.*Local.*in a module of yours"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_file_may_not_name_just_any_class(tmp_path: Path) -> None:
    model = DeepTELL(3, recipe=QUICK, random_state=0).fit(IMAGES)
    model.save(tmp_path / "model")
    saved = read_model(tmp_path / "model")
    saved.config["recipe"] = {"class": "subprocess:Popen", "options": {"args": "true"}}
    write_model(tmp_path / "other", *saved[:3])
    with pytest.raises(ModelFileError, match="must be a recipe or a start"):
        load(tmp_path / "other", trust=True)


@pytest.mark.parametrize(
    "recipe",
    [
        QUICK,
        TellRecipe(epochs=1, weight=0.2, start=KMeansStart(epochs=1), views=None),
        TellRecipe(epochs=1, start=LabelStart(labels=np.arange(120) % 3, distil_steps=2)),
        DistilRecipe(epochs=1, start=QUICK_START),
        PaperRecipe(epochs=1, n_init=1),
    ],
)
def test_recipes_come_back_with_all_their_options(recipe: Recipe, tmp_path: Path) -> None:
    model = DeepTELL(3, recipe=recipe, random_state=0).fit(IMAGES)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.recipe == recipe
    if isinstance(recipe, TellRecipe) and isinstance(recipe.start, LabelStart):
        np.testing.assert_array_equal(loaded.recipe.start.labels, recipe.start.labels)


def test_models_of_the_earlier_default_are_read(tmp_path: Path) -> None:
    model = DeepTELL(3, recipe=DistilRecipe(epochs=1, start=QUICK_START), random_state=0)
    model.fit(IMAGES).save(tmp_path / "model")
    saved = read_model(tmp_path / "model")
    flat = {"epochs": 1, "n_init": 1, "layout_epochs": 5, "distil_steps": 2}
    saved.config["recipe"] = {"name": "fast", "options": flat}
    write_model(tmp_path / "older", *saved[:3])
    loaded = load(tmp_path / "older")
    assert loaded.recipe.start.layout_epochs == 5
    np.testing.assert_array_equal(loaded.predict(IMAGES), model.labels_)
