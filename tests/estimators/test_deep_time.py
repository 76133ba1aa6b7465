"""max_time: what it leaves behind, what it says, and how the fit goes on."""

from __future__ import annotations

import functools
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import tell.estimators.deep.recipes.graph as deep_graph
import tell.estimators.deep.runs as deep_runs
from tell.core.loop import Hook, Loop
from tell.estimators.deep.estimator import DeepTELL
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.paper import PaperRecipe
from tell.estimators.deep.recipes.tell_recipe import TellRecipe
from tell.estimators.deep.training import _described
from tell.exceptions import ConvergenceWarning
from tell.metrics import accuracy

DIGITS = load_digits()
IMAGES = DIGITS.images[:120]


class TimeIsUp(Hook):
    """Ends a loop's time after so many steps, on machines of any speed."""

    def __init__(self, after: int) -> None:
        self.left = after

    def on_step_end(self, loop: Loop, losses: object) -> None:
        self.left -= 1
        if self.left == 0:
            loop.deadline = time.monotonic() - 1


def quietly(model: DeepTELL, X: np.ndarray = IMAGES) -> tuple[DeepTELL, str]:
    """Fit; return what the warnings said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X)
    assert all(line.filename == __file__ for line in caught)  # they point at the caller
    return model, "\n".join(str(line.message) for line in caught)


def test_a_partition_that_takes_all_the_time_still_trains_the_network() -> None:
    model, said = quietly(DeepTELL(10, random_state=0, max_time=0.01), DIGITS.images)
    assert accuracy(DIGITS.target, model.labels_) > 0.85
    assert model.n_iter_ == 5
    assert "max_time=0.01" in said
    assert "5 of 5 epochs of stage 'distil'" not in said  # that one is complete
    assert "0 of 3 epochs of stage 'refine'" in said
    assert "lower n_clusters" not in said


def test_an_untrained_network_is_called_so() -> None:
    model, said = quietly(
        DeepTELL(10, recipe="paper", epochs=2000, n_init=1, max_time=0.5, random_state=0),
        DIGITS.images,
    )
    assert model.n_iter_ < 2000
    assert f"{model.n_iter_}" in said
    assert "of 2000 epochs of stage 'train'" in said
    assert "run 1 of 1" in said
    assert "lower n_clusters" not in said
    assert said.count("\n") == 0  # one warning, not two
    with pytest.warns(ConvergenceWarning, match="max_time=0.01"):
        DeepTELL(3, recipe="paper", max_time=0.01, random_state=0).fit(IMAGES)


def test_runs_that_were_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = PaperRecipe(epochs=1, n_init=3, batch_size=64)
    monkeypatch.setattr(deep_runs, "remaining", lambda deadline: False)
    model, said = quietly(DeepTELL(2, recipe=recipe, max_time=1000.0, random_state=0), IMAGES[:64])
    assert len(model.runs_) == 1
    assert "1 of 3 runs" in said


def test_a_complete_run_is_kept_before_one_that_was_cut_short() -> None:
    recipe = PaperRecipe(epochs=3, n_init=2, batch_size=64)
    losses = []
    for after in (4, 5):  # in the second run, which has three steps
        hooks = [TimeIsUp(after)]
        model = DeepTELL(2, recipe=recipe, random_state=0, hooks=hooks, max_time=1000.0)
        model, said = quietly(model, IMAGES[:64])
        assert "run 2 of 2" in said
        assert [run["chosen"] for run in model.runs_] == [True, False]
        losses.append(model.loss_)
    assert losses[0] == losses[1]


@pytest.mark.parametrize("two_stage", [False, True])
@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_the_fit_goes_on_where_the_time_ended(after: int, two_stage: bool, tmp_path: Path) -> None:
    recipe = PaperRecipe(epochs=2, n_init=2, batch_size=40, two_stage=two_stage)
    options = {"recipe": recipe, "encoder": "fcn", "random_state": 0}  # fcn: with dropout
    whole, _ = quietly(DeepTELL(3, **options))
    options["checkpoint"] = tmp_path / "run"
    cut, said = quietly(DeepTELL(3, max_time=1000.0, hooks=[TimeIsUp(after)], **options))
    assert "checkpoint" in said
    assert (tmp_path / "run").is_dir()
    assert len(cut.history_) < 2 * (1 + two_stage)
    assert len(cut.runs_) == 1
    resumed, said = quietly(DeepTELL(3, max_time=1000.0, **options))
    assert "max_time" not in said
    assert not (tmp_path / "run").exists()
    np.testing.assert_array_equal(resumed.cluster_centers_, whole.cluster_centers_)
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)
    for one, other in zip(resumed.encoder_.parameters(), whole.encoder_.parameters(), strict=True):
        assert torch.equal(one, other)
    assert [run["loss"] for run in resumed.runs_] == [run["loss"] for run in whole.runs_]
    assert len(resumed.history_) == len(whole.history_)


def test_the_partition_is_not_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = TellRecipe(epochs=2, start=GraphStart(epochs=2, layout_epochs=5, distil_steps=2))
    whole, _ = quietly(DeepTELL(3, recipe=recipe, random_state=0))
    options = {"recipe": recipe, "random_state": 0, "checkpoint": tmp_path / "run"}
    quietly(DeepTELL(3, max_time=0.001, **options))
    monkeypatch.setattr(deep_graph, "find_graph", None)
    monkeypatch.setattr(deep_graph, "find_partition", None)
    resumed, _ = quietly(DeepTELL(3, **options))
    np.testing.assert_array_equal(resumed.cluster_centers_, whole.cluster_centers_)


# --- the options of the continuation -----------------------------------------------------------


class Noise:
    """A callable without a description of its own."""

    def __call__(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return x + 0.1 * torch.rand(x.shape, generator=generator)


def test_options_are_described_without_addresses() -> None:
    assert _described(Noise()) == _described(Noise())
    assert "Noise" in _described(Noise())
    bound = functools.partial(Noise(), generator=None)
    assert " at 0x" not in _described(bound)
    assert _described(Noise) != _described(Noise())
    # What checkpoints of earlier versions hold must still be found.
    assert _described("cnn") == "'cnn'"
    assert _described(PaperRecipe()) == repr(PaperRecipe())


def test_the_fit_goes_on_with_another_object_of_the_same_kind(tmp_path: Path) -> None:
    first, second = Noise(), Noise()
    recipe = PaperRecipe(epochs=3, n_init=1)
    options = {"recipe": recipe, "random_state": 0, "checkpoint": tmp_path / "run"}
    quietly(DeepTELL(3, augment=first, hooks=[TimeIsUp(after=1)], max_time=1000.0, **options))
    resumed, _ = quietly(DeepTELL(3, augment=second, **options))
    assert resumed.n_iter_ == 3
