"""Running a recipe: stages one after another, each a loop, each resumable.

A recipe is a list of stages. What one stage hands to the next lives in the model and in its
objective, so the file of a finished stage is enough to start the next one in another process.
"""

from __future__ import annotations

import copy
import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from tell.core.assignment import wide
from tell.core.checkpoint import (
    random_tensors,
    read_checkpoint,
    restore_random,
    write_checkpoint,
)
from tell.core.loop import OUT_OF_TIME, Hook, Loop, Record
from tell.core.team import Team
from tell.estimators.deep.model import Assigned, DeepModel
from tell.estimators.deep.recipes.recipe import Recipe, Stage, Task
from tell.exceptions import ModelFileError, ParameterError
from tell.schema import TEXT, check, list_of, record, whole

CHECKPOINT_SECONDS = 60.0
# Options that may change between an interrupted fit and its continuation.
_PLAN = record(
    {"fingerprint": TEXT, "seeds": list_of(whole(0, 1 << 33)), "networks": TEXT},
    may_lack={"networks"},  # of earlier versions
)
HARMLESS = {"checkpoint", "hooks", "max_time", "n_jobs", "verbose"}


@dataclass
class Trained:
    """A run that is over."""

    model: DeepModel
    seed: int
    assigned: Assigned
    number: int
    history: list[Record]
    cut: str = ""  # how far it came, if max_time ended it
    stopped: str | None = None  # why its last stage ended before its last epoch

    @property
    def loss(self) -> float:
        """Mean clustering loss of all rows, by which runs are compared."""
        return float(wide(self.assigned.loss).mean())


@dataclass
class Control:
    """What surrounds all the runs of a fit."""

    folder: Path | None = None
    deadline: float | None = None
    hooks: Sequence[Hook] = ()
    compiled: bool = False
    precision: str = "float32"
    visible: bool = False
    team: Team | None = None  # of processes that train every run together

    @property
    def share(self) -> tuple[int, int]:
        """The part of the rows that this process trains on."""
        return (0, 1) if self.team is None else (self.team.rank, self.team.size)

    def file(self, name: str) -> Path | None:
        """Name a file of the checkpoint folder."""
        return None if self.folder is None else self.folder / f"{name}.safetensors"

    def first_seed(self, drawn: int) -> int:
        """Return the first seed of the interrupted fit in the folder, or else the one drawn.

        The sample of a file larger than memory comes from it, so it is asked for before there are
        rows to compare.
        """
        kept = self._plan()
        return int(kept["seeds"][0]) if kept and kept["seeds"] else drawn

    def agree(self, options: dict[str, Any], x: Tensor, seeds: list[int]) -> list[int]:
        """Return the seeds of the interrupted run in the folder; note down those of a new one."""
        file = self.file("plan")
        if file is None:
            return seeds
        decisive = {name: _described(options[name]) for name in sorted(options.keys() - HARMLESS)}
        digest = hashlib.sha256(repr(decisive).encode())
        digest.update(x.contiguous().cpu().numpy().data)
        facts = {"fingerprint": digest.hexdigest(), "seeds": seeds}
        kept = self._plan()
        if kept is None:
            write_checkpoint(file, {}, facts)
            return seeds
        if kept["fingerprint"] != facts["fingerprint"]:
            raise ParameterError(
                f"checkpoint={self.folder} must belong to this run, got the state of a run with "
                "other settings or other rows; pass another folder or delete it"
            )
        return [int(seed) for seed in kept["seeds"]]

    def begun_with(self, networks: Mapping[str, Any]) -> dict[str, Any]:
        """Return networks as they were when the interrupted fit in the folder began.

        Whoever builds a network anew for the continuation mostly draws other weights; runs and
        stages that have yet to begin need those of the first time. Those of a new fit are kept.
        """
        file = self.file("networks")
        own = {name: value for name, value in networks.items() if isinstance(value, nn.Module)}
        if file is None or not own:
            return dict(networks)
        if not file.exists():
            write_checkpoint(file, _drawn(own), {})
            return dict(networks)
        tensors = read_checkpoint(file)[0]
        own = copy.deepcopy(own)  # `fit` must not change the options
        for name, value in _drawn(own).items():
            value.copy_(tensors[name])
        return {**networks, **own}

    def _plan(self) -> dict[str, Any] | None:
        """Read what was noted down of the fit in the folder, if there is one."""
        file = self.file("plan")
        if file is None or not file.exists():
            return None
        kept = read_checkpoint(file)[1]
        try:
            check(kept, _PLAN, f"checkpoint {file}")
        except ValueError as error:
            raise ModelFileError(f"{error}; delete the folder to start anew") from None
        return kept

    def shared(self, find: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return what all runs need, from the folder if an interrupted fit has found it."""
        file = self.file("shared")
        if file is not None and file.exists():
            return read_checkpoint(file)[0]
        found = find()
        if file is not None and found:
            write_checkpoint(file, found, {})
        return found

    def clear(self) -> None:
        """Delete the state of a fit that is complete."""
        if self.folder is None:
            return
        for pattern in ("plan", "networks", "shared", "run-*-stage-*"):
            for file in self.folder.glob(f"{pattern}.safetensors*"):
                file.unlink(missing_ok=True)
        with suppress(OSError):  # something else is in there
            self.folder.rmdir()


class Course(NamedTuple):
    """How the stages of a run went."""

    history: list[Record]
    cut: str = ""
    stopped: str | None = None


def train(recipe: Recipe, task: Task, control: Control, number: int = 0) -> Trained:
    """Train the task's model stage by stage, until the last one is complete or the time is up."""
    course = _train_stages(recipe, task, control, f"run-{number}")
    assigned = task.model.assign(task.model.embed(task.x))
    return Trained(task.model, task.seed, assigned, number, *course)


def _train_stages(recipe: Recipe, task: Task, control: Control, name: str) -> Course:
    course = Course([])
    for number, stage in enumerate(recipe.stages(task)):
        file = control.file(f"{name}-stage-{number}")
        tensors, facts = read_checkpoint(file) if file and file.exists() else ({}, {})
        modules = {"model": task.model, "objective": stage.objective}
        if facts.get("finished"):
            _restore(modules, tensors, task.x.device)
            course = Course(facts["history"], stopped=facts.get("stopped"))
            continue
        if not facts and stage.prepare is not None:
            stage.prepare()
        _check_schedule(stage, facts, control.folder)
        loop = _loop(stage, control, file, len(course.history))
        course = Course(course.history + loop.run(), stopped=loop.stopped)
        if loop.stopped == OUT_OF_TIME:
            cut = f"{_epochs_done(loop)} of {stage.epochs} epochs of stage {stage.name!r}"
            return course._replace(cut=cut)
        if file is not None:
            state = _state(modules) | random_tensors(task.x.device)
            kept = {"finished": True, "history": course.history, "stopped": course.stopped}
            write_checkpoint(file, state, kept)
    return course


def _schedule(stage: Stage) -> dict[str, Any]:
    """What a stage's learning rates follow from, which may be a recipe's own choice."""
    return {
        "epochs": stage.epochs,
        "rates": [group["lr"] for group in stage.optimizer.param_groups],
    }


def _check_schedule(stage: Stage, kept: Mapping[str, Any], folder: Path | None) -> None:
    """Refuse to go on with a schedule other than the one that an interrupted stage began with."""
    for name, value in _schedule(stage).items():
        if kept.get(name, value) != value:  # earlier files have neither
            raise ParameterError(
                f"checkpoint={folder} must have been begun with the {name} that stage "
                f"{stage.name!r} has now, {value}, got {kept[name]}, perhaps the default of "
                "another version; pass another folder or delete it"
            )


def _epochs_done(loop: Loop) -> str:
    epoch, step = loop.position
    return str(epoch) if step == 0 else f"{epoch + step / loop.batches.steps:.1f}"


def _described(option: object) -> str:
    """Describe an option the same way in every process: without addresses."""
    if isinstance(option, np.random.RandomState):
        return "RandomState"  # the seeds that were drawn from it are kept
    name: str | None = getattr(option, "__qualname__", None)
    # A callable object, or a function inside of something, may show no more than its address.
    return name or re.sub(r" at 0x[0-9a-fA-F]+", "", repr(option))


def _drawn(networks: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Return the state of networks, but for lazy weights that have yet to be drawn."""
    state = _state(networks)
    return {name: value.detach() for name, value in state.items() if not is_lazy(value)}


def remaining(deadline: float | None) -> bool:
    """Say whether there is time left."""
    return deadline is None or time.monotonic() < deadline


def _loop(stage: Stage, control: Control, file: Path | None, epochs_before: int) -> Loop:
    return Loop(
        stage.objective,
        stage.batches,
        stage.optimizer,
        epochs=stage.epochs,
        epochs_before=epochs_before,
        rate=stage.rate,
        hooks=[*stage.hooks, *control.hooks],
        checkpoint=file,
        checkpoint_seconds=CHECKPOINT_SECONDS,
        facts=_schedule(stage),
        deadline=control.deadline,
        least_steps=stage.least_steps,
        compiled=control.compiled,
        precision=control.precision,
        name=stage.name,
        visible=control.visible,
        team=control.team,
    )


def _state(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    return {
        f"{name}.{key}": value
        for name, module in modules.items()
        for key, value in module.state_dict().items()
    }


def _restore(
    modules: Mapping[str, nn.Module], tensors: dict[str, Tensor], device: torch.device
) -> None:
    for name, module in modules.items():
        for key, value in module.state_dict().items():
            value.data.copy_(tensors[f"{name}.{key}"])  # .data: as in Loop.restore
    restore_random(tensors, device)
