"""The runs of a fit: one after another, or side by side in processes of one thread each."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor

from tell.core.batches import Augment
from tell.core.loop import Hook, Loop
from tell.core.objective import Losses
from tell.core.team import Team
from tell.estimators.deep.networks import Network, float32_by_default, new_model
from tell.estimators.deep.recipes.recipe import AllRows, Recipe, Task
from tell.estimators.deep.streaming import SourceRows
from tell.estimators.deep.training import Control, Trained, remaining, train
from tell.exceptions import ParameterError, WorkerError
from tell.progress import gathered, relayed_to


@dataclass
class Plan:
    """What all runs of a fit have in common."""

    n_clusters: int
    encoder: Network
    decoder: Network
    embedding_dim: int
    device: str | torch.device
    recipe: Recipe
    augment: Augment | None
    source: SourceRows | None = None  # of all rows, where those in memory are a sample


def find_shared(plan: Plan, x: Tensor, seed: int, control: Control) -> dict[str, Tensor]:
    """Find, once, what all runs need."""
    rows = AllRows(x, plan.n_clusters, seed, plan.augment, control.visible)
    return control.shared(lambda: plan.recipe.shared(rows))


def train_all(
    plan: Plan,
    x: Tensor,
    shared: Mapping[str, Tensor],
    seeds: Sequence[int],
    control: Control,
    *,
    n_jobs: int | None = None,
    workers: int | str | None = None,
) -> list[Trained]:
    """Train one model per seed."""
    if workers is not None:
        return together(plan, x, shared, seeds, control, workers)
    jobs = min(count_jobs(n_jobs), len(seeds))
    if jobs == 1:
        return one_after_another(plan, x, shared, seeds, control)
    return side_by_side(plan, x, shared, seeds, control, jobs)


def count_jobs(n_jobs: int | None) -> int:
    """Return the number of processes by joblib's conventions.

    >>> count_jobs(None), count_jobs(3)
    (1, 3)
    """
    from joblib import effective_n_jobs

    if n_jobs == 0 or not isinstance(n_jobs, int | np.integer | type(None)):
        raise ParameterError(
            f"n_jobs must be an integer other than 0 or None, got {n_jobs!r}; pass -1 for all cores"
        )
    return int(effective_n_jobs(n_jobs))


def one_after_another(
    plan: Plan,
    x: Tensor,
    shared: Mapping[str, Tensor],
    seeds: Sequence[int],
    control: Control,
) -> list[Trained]:
    """Train in this process; once the time is up no further run begins."""
    runs: list[Trained] = []
    for number, seed in enumerate(seeds):
        if runs and (runs[-1].cut or not remaining(control.deadline)):
            break
        runs.append(_train_run(plan, x, shared, seed, control, number))
    return runs


def _train_run(
    plan: Plan,
    x: Tensor,
    shared: Mapping[str, Tensor],
    seed: int,
    control: Control,
    number: int,
) -> Trained:
    with torch.random.fork_rng(devices=[]), float32_by_default():
        torch.manual_seed(seed)
        model = new_model(plan, plan.recipe, tuple(x.shape[1:]))
        task = Task(
            model, x, seed, plan.augment, control.visible, shared, plan.source, control.share
        )
        return train(plan.recipe, task, control, number)


# --- together ------------------------------------------------------------------------------------


def together(
    plan: Plan,
    x: Tensor,
    shared: Mapping[str, Tensor],
    seeds: Sequence[int],
    control: Control,
    workers: int | str,
) -> list[Trained]:
    """Train every run in several processes at once, each on its share of the rows."""
    if workers == "torchrun":
        return one_after_another(plan, x, shared, seeds, replace(control, team=Team()))
    from tell.scale.ray_training import train_on_ray

    errand = _JointErrand(plan, x, dict(shared), seeds, control, _on_the_clock(control.deadline))
    found: list[Trained] = train_on_ray(_run_jointly, errand, int(workers))
    return found


@dataclass(frozen=True)
class _JointErrand:
    """All runs, for every process of a team."""

    plan: Plan
    x: Tensor
    shared: dict[str, Tensor]
    seeds: Sequence[int]
    control: Control
    ends: float | None  # of `time.time`, which all processes share


def _run_jointly(errand: _JointErrand) -> list[Trained]:
    """Take part in all runs, as one of the ranks of the process group."""
    control = replace(errand.control, deadline=_deadline(errand.ends), team=Team())
    with float32_by_default():
        return one_after_another(
            errand.plan, errand.x, errand.shared, errand.seeds, replace(control, visible=False)
        )


def _on_the_clock(deadline: float | None) -> float | None:
    """A deadline of `time.monotonic` as one of `time.time`."""
    return None if deadline is None else time.time() + deadline - time.monotonic()


def _deadline(ends: float | None) -> float | None:
    return None if ends is None else time.monotonic() + ends - time.time()


# --- side by side ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Errand:
    """One run for another process; the rows lie in files that all of them map into memory."""

    plan: Plan
    folder: Path
    shared: tuple[str, ...]
    seed: int
    number: int
    control: Control
    ends: float | None  # of `time.time`, which all processes share

    @property
    def progress(self) -> Path:
        return self.folder / f"progress-{self.number}.json"


def side_by_side(
    plan: Plan,
    x: Tensor,
    shared: Mapping[str, Tensor],
    seeds: Sequence[int],
    control: Control,
    jobs: int,
) -> list[Trained]:
    """Train in processes of one thread each; the same bits as one after another with one thread."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import BrokenProcessPool

    ends = _on_the_clock(control.deadline)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tell-runs-")))
        for name, tensor in {"x": x, **shared}.items():
            np.save(folder / f"{name}.npy", tensor.cpu().numpy())
        errands = [
            _Errand(plan, folder, tuple(shared), seed, number, control, ends)
            for number, seed in enumerate(seeds)
        ]
        files = {f"run {errand.number + 1}": errand.progress for errand in errands}
        stack.enter_context(gathered(files, visible=control.visible))
        stack.enter_context(parallel_config(backend="loky", inner_max_num_threads=1))
        try:
            found = Parallel(n_jobs=jobs)(delayed(_run_errand)(errand) for errand in errands)
        except BrokenProcessPool as error:
            raise WorkerError(
                f"n_jobs={jobs} processes must live until their runs are over, got a dead one "
                "(killed, or out of memory); lower n_jobs, and pass checkpoint= to keep what is "
                "done"
            ) from error
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            if not isinstance(error, pickle.PicklingError) and "pickle" not in str(error):
                raise
            raise ParameterError(
                f"n_jobs={jobs} needs networks, hooks and augmentation that can be sent to another "
                f"process, got {error}; pass n_jobs=None"
            ) from error
    return [run for run in found if run is not None]


def _run_errand(errand: _Errand) -> Trained | None:
    """Do one run in a process of its own; None if its time is up before it begins."""
    torch.set_num_threads(1)
    deadline = _deadline(errand.ends)
    if errand.number > 0 and not remaining(deadline):
        return None
    hooks = [*errand.control.hooks, _EndWithParent()]
    control = replace(errand.control, deadline=deadline, hooks=hooks)
    x = _mapped(errand.folder, "x").to(errand.plan.device)
    shared = {name: _mapped(errand.folder, name) for name in errand.shared}
    with relayed_to(errand.progress):
        return _train_run(errand.plan, x, shared, errand.seed, control, errand.number)


def _mapped(folder: Path, name: str) -> Tensor:
    """Return a tensor in memory that all processes share until one of them writes to it."""
    return torch.from_numpy(np.load(folder / f"{name}.npy", mmap_mode="c"))


class _EndWithParent(Hook):
    """End a process whose parent was killed: nobody waits for its result."""

    def __init__(self) -> None:
        self.parent = os.getppid()

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        if os.getppid() != self.parent:
            os._exit(1)
