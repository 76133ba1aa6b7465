"""Restarts side by side: the same bits, the same files, no child left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from tell.core.loop import Hook, Loop
from tell.core.objective import Losses
from tell.estimators.deep.estimator import DeepTELL
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.paper import PaperRecipe
from tell.estimators.deep.recipes.tell_recipe import TellRecipe
from tell.estimators.deep.recipes.views import Views
from tell.exceptions import ParameterError, WorkerError

IMAGES = load_digits().images[:120]
START = GraphStart(epochs=1, layout_epochs=5, distil_steps=2)
QUICK = TellRecipe(epochs=1, start=START, n_init=2)
ADVERSARIAL = TellRecipe(epochs=1, start=START, n_init=2, views=Views(epochs=1, adversarial=True))
pytestmark = pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def same(one: DeepTELL, other: DeepTELL) -> bool:
    weights = zip(one.encoder_.parameters(), other.encoder_.parameters(), strict=True)
    return (
        [run["loss"] for run in one.runs_] == [run["loss"] for run in other.runs_]
        and np.array_equal(one.cluster_centers_, other.cluster_centers_)
        and np.array_equal(one.labels_, other.labels_)
        and all(torch.equal(a, b) for a, b in weights)
    )


@pytest.mark.parametrize("recipe", [QUICK, ADVERSARIAL, PaperRecipe(epochs=2, n_init=3)])
def test_side_by_side_gives_the_very_bits_of_one_after_another(recipe, capfd) -> None:
    options = {"recipe": recipe, "encoder": "fcn", "random_state": 0}  # fcn: with dropout
    alone = DeepTELL(3, **options).fit(IMAGES)
    together = DeepTELL(3, n_jobs=2, verbose=1, **options).fit(IMAGES)
    assert same(alone, together)
    shown = capfd.readouterr().err
    assert all(f"run {number + 1}" in shown for number in range(recipe.n_init))


def test_networks_of_the_script_travel_too() -> None:
    class Own(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.Flatten(), nn.Linear(64, 5))

    model = DeepTELL(3, encoder=Own(), recipe=QUICK, n_jobs=2, random_state=0).fit(IMAGES / 16)
    assert isinstance(model.encoder_[0], Own)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all"])
def test_bad_numbers_of_jobs_are_named(n_jobs) -> None:
    with pytest.raises(ParameterError, match="n_jobs must be"):
        DeepTELL(3, recipe=QUICK, n_jobs=n_jobs).fit(IMAGES)


class Dies(Hook):
    """Kills the process that it is called in."""

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Fails(Hook):
    """Raises an error of its own."""

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        raise LookupError("of the hook")


class Stays(Hook):
    """Cannot leave its process."""

    def __reduce__(self):
        raise TypeError("cannot pickle Stays")


@pytest.mark.parametrize(
    ("hook", "error", "message"),
    [
        (Dies(), WorkerError, "n_jobs=2 processes must live.*checkpoint="),
        (Fails(), LookupError, "of the hook"),
        (Stays(), ParameterError, "sent to another process.*n_jobs=None"),
    ],
)
def test_what_goes_wrong_in_a_process_is_said_here(hook, error, message: str) -> None:
    model = DeepTELL(3, recipe=QUICK, n_jobs=2, hooks=[hook], random_state=0)
    with pytest.raises(error, match=message):
        model.fit(IMAGES)
    assert not hasattr(model, "labels_")


def test_a_fit_whose_process_died_goes_on_to_the_same_model(tmp_path: Path) -> None:
    whole = DeepTELL(3, recipe=QUICK, random_state=0).fit(IMAGES)
    options = {"recipe": QUICK, "random_state": 0, "checkpoint": tmp_path / "run"}
    with pytest.raises(WorkerError):
        DeepTELL(3, n_jobs=2, hooks=[Dies()], **options).fit(IMAGES)
    assert (tmp_path / "run" / "shared.safetensors").exists()  # the graph is not searched again
    resumed = DeepTELL(3, n_jobs=2, **options).fit(IMAGES)
    assert same(whole, resumed)
    assert not (tmp_path / "run").exists()


def test_time_ends_all_runs_and_each_goes_on(tmp_path: Path) -> None:
    recipe = PaperRecipe(epochs=3, n_init=2)
    options = {"recipe": recipe, "random_state": 0, "encoder": "mlp"}
    whole = DeepTELL(3, **options).fit(IMAGES)
    options["checkpoint"] = tmp_path / "run"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cut = DeepTELL(3, n_jobs=2, max_time=1e-3, **options).fit(IMAGES)
    assert any("max_time" in str(line.message) for line in caught)
    assert cut.n_iter_ < 3
    assert same(DeepTELL(3, n_jobs=2, max_time=1000.0, **options).fit(IMAGES), whole)


INTERRUPTED = """
    import os, sys
    from sklearn.datasets import load_digits
    from tell import DeepTELL
    from tell.core.loop import Hook

    class Tell(Hook):
        def on_epoch_end(self, loop, record):
            os.close(os.open(os.path.join(sys.argv[1], str(os.getpid())), os.O_CREAT))

    if __name__ == "__main__":
        X = load_digits().images[:200]
        DeepTELL(3, recipe="paper", n_init=2, n_jobs=2, hooks=[Tell()], random_state=0).fit(X)
"""


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc who is alive")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_children_end_with_their_parent(how: signal.Signals, tmp_path: Path) -> None:
    script, seen = tmp_path / "script.py", tmp_path / "seen"
    script.write_text(textwrap.dedent(INTERRUPTED))
    seen.mkdir()
    parent = subprocess.Popen([sys.executable, script, seen], stderr=subprocess.DEVNULL)
    patience = time.monotonic() + 120
    while len(list(seen.iterdir())) < 2 and time.monotonic() < patience:
        time.sleep(0.1)
    children = [int(file.name) for file in seen.iterdir()]
    assert len(children) == 2
    parent.send_signal(how)
    assert parent.wait(60) != 0
    while any(map(is_alive, children)) and time.monotonic() < patience:
        time.sleep(0.1)
    assert not any(map(is_alive, children))
