"""The only training loop: step, epoch, history, hooks, checkpoints.

    Loop(objective, batches, optimizer, epochs=10).run()

Whatever is minimised is an `Objective`; whatever watches or intervenes is a `Hook`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from tell.core.batches import Batch, Batches
from tell.core.checkpoint import (
    optimizer_tensors,
    random_tensors,
    read_checkpoint,
    restore_optimizer,
    restore_random,
    write_checkpoint,
)
from tell.core.compiling import compiled_losses, compiled_step
from tell.core.memory import kept_memory
from tell.core.objective import Losses, Objective
from tell.core.precision import products_in
from tell.core.schedule import Rate, constant_rate
from tell.core.team import Team, averaged
from tell.exceptions import DivergedError, ModelFileError
from tell.progress import progress

Record = dict[str, Any]

OUT_OF_TIME = "max_time"


class Hook:
    """Watch or stop a loop: override what you need; `loop.stop("why")` ends it after the epoch."""

    def on_epoch_start(self, loop: Loop) -> None:
        """Called before the first step of an epoch."""

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        """Called after every step."""

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Called with the epoch's line of the history, which may be extended."""


class StopWhenSettled(Hook):
    """Stop when fewer than `share` of the labels changed in each of `patience` epochs."""

    def __init__(self, share: float = 0.001, patience: int = 2) -> None:
        self.share = share
        self.patience = patience

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Compare the last epochs."""
        last = [line["changed"] for line in loop.history[-self.patience :]]
        if len(last) == self.patience and all(c is not None and c < self.share for c in last):
            loop.stop("settled")


class Loop:
    """Train an objective on rows.

    Parameters
    ----------
    objective : Objective
    batches : Batches
    optimizer : torch.optim.Optimizer
        Over the objective's parameters.
    epochs : int
    epochs_before : int
        Of the stages of a training before this one, for hooks that count on.
    rate : callable, share of steps done -> factor of the optimiser's learning rate
    hooks : sequence of Hook
    checkpoint : path, optional
        File that holds the state of an unfinished run. If it exists, the run goes on from there
        and ends with the very weights of a run that was never interrupted.
    checkpoint_seconds : float
        At least so long between two writes; 0 writes after every step.
    facts : dict, optional
        JSON-able things to keep in the checkpoint.
    deadline : float, optional
        `time.monotonic()` at which to stop, after any step. The checkpoint is then written, and a
        run with a later deadline goes on from it.
    least_steps : int
        Steps to take whatever the deadline says.
    compiled : bool
        Compile the objective's losses with `torch.compile` and, if the rate is constant, the
        optimiser's step.
    precision : {"float32", "bfloat16"}
        Of the networks' products: see `tell.core.precision`.
    name : str
        Of the stage, for the progress bar and the history.
    visible : bool
        Show a progress bar.
    team : Team, optional
        The processes that take every step together; the batches are this one's share of the rows.
        Without a checkpoint.

    Attributes
    ----------
    history : list of dict, one per epoch: stage, epoch, total, the mean of every term, changed
        (share of labels that differ from the epoch before), movement (mean length of the centres'
        way), smallest (rows in the smallest cluster), rate, seconds. Of rows without numbers, such
        as those that are read from a file in every epoch, changed and smallest are not known: None.
    labels : Tensor (n,)
        The last assignment of every row seen while training; -1 before the first.
    stopped : str or None
        Why the run ended before its last epoch.

    Examples
    --------
    >>> from tell.core.autoencoder import perceptron
    >>> from tell.core.objective import Reconstruction
    >>> _ = torch.manual_seed(0)
    >>> objective = Reconstruction(*perceptron((4,), embedding_dim=2))
    >>> optimizer = torch.optim.Adam(objective.parameters(), lr=1e-3)
    >>> loop = Loop(objective, Batches(torch.randn(64, 4), batch_size=32), optimizer, epochs=3)
    >>> history = loop.run()
    >>> history[-1]["reconstruction"] < history[0]["reconstruction"]
    True
    """

    def __init__(
        self,
        objective: Objective,
        batches: Batches,
        optimizer: Optimizer,
        *,
        epochs: int,
        epochs_before: int = 0,
        rate: Rate = constant_rate,
        hooks: Sequence[Hook] = (),
        checkpoint: Path | None = None,
        checkpoint_seconds: float = 60.0,
        facts: dict[str, Any] | None = None,
        deadline: float | None = None,
        least_steps: int = 0,
        compiled: bool = False,
        precision: str = "float32",
        name: str = "train",
        visible: bool = False,
        team: Team | None = None,
    ) -> None:
        self.objective = objective
        self.batches = batches
        self.optimizer = optimizer
        self.epochs = epochs
        self.epochs_before = epochs_before
        self.rate = rate
        self.hooks = hooks
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.facts = facts or {}
        self.deadline = deadline
        self.least_steps = least_steps
        self.precision = precision
        self.name = name
        self.visible = visible
        self.team = team
        self._late = False  # whether the time is up, where all processes must agree on it
        self.history: list[Record] = []
        self.stopped: str | None = None
        self.labels = torch.full((len(batches),), -1, dtype=torch.long, device=batches.device)
        self._losses = compiled_losses(objective) if compiled else objective.losses
        steady = rate is constant_rate
        self._update = compiled_step(optimizer) if compiled and steady else optimizer.step
        self._base_rates = [group["lr"] for group in optimizer.param_groups]
        self._epoch, self._step, self._seconds = 0, 0, 0.0
        self._sums: dict[str, float] = {}
        self._labels_before = self.labels.clone()
        self._centers_before = self._centers()
        self._written = time.monotonic()

    def run(self) -> list[Record]:
        """Train until the last epoch, a hook's stop or the deadline; return the history."""
        if self.checkpoint is not None and self.checkpoint.exists():
            self._go_on(self.checkpoint)
        if self.team is not None:
            self.team.same_(self.objective)
            self._centers_before = self._centers()
        self.objective.train()
        total = self.epochs * self.batches.steps
        with kept_memory(), progress(self.name, total, visible=self.visible) as bar:
            # A hook's stop lets the epoch end, also one that was interrupted after the stop.
            while self._epoch < self.epochs and (self.stopped is None or self._step > 0):
                if self._overdue():
                    # Written first: to the file this is a run that goes on.
                    self._write_if_due(after=0.0)
                    self.stop(OUT_OF_TIME)
                    break
                self._run_epoch(bar.update)
            if self.stopped not in (None, OUT_OF_TIME):
                bar.update(total, ended=str(self.stopped))  # with fewer epochs than there might be
        return self.history

    def _go_on(self, checkpoint: Path) -> None:
        try:
            self.restore(*read_checkpoint(checkpoint))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(
                f"checkpoint {checkpoint} must hold the state of this training, got "
                f"{type(error).__name__}: {error}; delete it to start anew"
            ) from error

    def stop(self, reason: str) -> None:
        """End the run after this epoch."""
        self.stopped = reason

    @property
    def position(self) -> tuple[int, int]:
        """Epochs that are finished, and steps of the one that is not."""
        return self._epoch, self._step

    def step(self, batch: Batch) -> Losses:
        """Losses, weighted sum, gradients, one step of the optimiser."""
        self.objective.begin_step(self._epoch, self._step)
        with products_in(self.precision, batch.x.device):
            losses = self._losses(batch)
        total = self.objective.weighted_sum(losses)
        values = _values(total, losses)
        self._set_rate()
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        values = self._over_the_team(values)
        if not math.isfinite(values["total"]):  # in one process of a team, so in all of them
            raise DivergedError(self._divergence(values["total"]))
        self.objective.gradients_ready()
        self._update()
        self._remember(batch, losses, values)
        return losses

    def _over_the_team(self, values: dict[str, float]) -> dict[str, float]:
        """Average gradients and values over all processes, and agree on the time."""
        if self.team is None:
            return values
        found = averaged(self.objective)
        told = found[0].new_tensor([*values.values(), float(self._past_deadline())])
        self.team.average_([*found, told])
        *means, late = told.tolist()
        self._late = late > 0
        return dict(zip(values, means, strict=True))

    def _past_deadline(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _run_epoch(self, show: Callable[..., None]) -> None:
        started = time.monotonic() - self._seconds
        if self._step == 0:
            self.objective.begin_epoch(self._epoch, self.batches)
            self.objective.train()
            for hook in self.hooks:
                hook.on_epoch_start(self)
        for batch in self.batches.epoch(self._epoch, start=self._step):
            if self._step > 0 and self._overdue():
                return
            losses = self.step(batch)
            self._step += 1
            self._seconds = time.monotonic() - started
            for hook in self.hooks:
                hook.on_step_end(self, losses)
            show(self._epoch * self.batches.steps + self._step, **self._means())
            self._write_if_due(after=self.checkpoint_seconds)
        self._finish_epoch()

    def _overdue(self) -> bool:
        late = self._past_deadline() if self.team is None else self._late
        return late and self._epoch * self.batches.steps + self._step >= self.least_steps

    def _finish_epoch(self) -> None:
        record = self._record()
        self.history.append(record)
        self._labels_before = self.labels.clone()
        self._centers_before = self._centers()
        self._epoch, self._step, self._seconds, self._sums = self._epoch + 1, 0, 0.0, {}
        for hook in self.hooks:
            hook.on_epoch_end(self, record)
        if self.team is not None:
            self.stopped = self.team.first_of(self.stopped)
        finished = self._epoch == self.epochs or self.stopped is not None
        self._write_if_due(after=0.0 if finished else self.checkpoint_seconds)

    def _set_rate(self) -> None:
        done = (self._epoch + self._step / self.batches.steps) / self.epochs
        for group, base in zip(self.optimizer.param_groups, self._base_rates, strict=True):
            group["lr"] = base * self.rate(done)

    def _remember(self, batch: Batch, losses: Losses, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        if losses.labels is not None and len(batch.row):
            self.labels[batch.row] = losses.labels.to(self.labels.dtype)

    def _means(self) -> dict[str, float]:
        return {name: value / self._step for name, value in self._sums.items()}

    def _centers(self) -> Tensor | None:
        centers = self.objective.centers()
        return None if centers is None else centers.detach().clone()

    def _record(self) -> Record:
        record: Record = {"stage": self.name, "epoch": self._epoch, **self._means()}
        record.update(changed=None, smallest=None, movement=None)
        seen = self.labels >= 0
        if bool(seen.any()):
            record["changed"] = float((self.labels != self._labels_before)[seen].float().mean())
        now = self._centers()
        if now is not None and self._centers_before is not None:
            record["movement"] = float((now - self._centers_before).norm(dim=1).mean())
            if bool(seen.any()):
                sizes = torch.bincount(self.labels[seen], minlength=len(now))
                record["smallest"] = int(sizes.min())
        record["rate"] = self.optimizer.param_groups[0]["lr"]
        record["seconds"] = self._seconds
        return record

    def _divergence(self, value: float) -> str:
        kept = "pass checkpoint= to keep one" if self.checkpoint is None else self.checkpoint
        return (
            f"the loss must stay finite, got {value} in epoch {self._epoch}, step {self._step} of "
            f"{self.name!r}; look for extreme values in X or lower the learning rate "
            f"(last good state: {kept})"
        )

    # --- state ---------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything that the rest of the run depends on, as tensors and JSON."""
        tensors = {f"objective.{k}": v for k, v in self.objective.state_dict().items()}
        averages = optimizer_tensors(self.optimizer)
        tensors |= {f"optimizer.{k}": v for k, v in averages.items()}
        tensors |= {"labels": self.labels, "labels_before": self._labels_before}
        if self._centers_before is not None:
            tensors["centers_before"] = self._centers_before
        tensors |= random_tensors(self.labels.device)  # shuffling needs no state
        position = {"epoch": self._epoch, "step": self._step, "seconds": self._seconds}
        facts = {"sums": self._sums, "history": self.history, "stopped": self.stopped}
        return tensors, {**self.facts, "stage": self.name, "position": position, **facts}

    def restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        for name, value in self.objective.state_dict().items():
            # Through .data, so that the cluster layer does not take its weight for a foreign one
            # and project it again, which would change its last bits.
            value.data.copy_(tensors[f"objective.{name}"])
        prefix = "optimizer."
        averages = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        restore_optimizer(self.optimizer, averages)
        self.labels.copy_(tensors["labels"])
        self._labels_before.copy_(tensors["labels_before"])
        if "centers_before" in tensors:
            self._centers_before = tensors["centers_before"].to(self.labels.device)
        restore_random(tensors, self.labels.device)
        self._epoch, self._step = facts["position"]["epoch"], facts["position"]["step"]
        self._seconds, self._sums = facts["position"]["seconds"], facts["sums"]
        self.history, self.stopped = facts["history"], facts["stopped"]

    def _write_if_due(self, after: float) -> None:
        if self.checkpoint is None or time.monotonic() - self._written < after:
            return
        if all(bool(p.isfinite().all()) for p in self.objective.parameters()):
            write_checkpoint(self.checkpoint, *self.state())
        self._written = time.monotonic()


def _values(total: Tensor, losses: Losses) -> dict[str, float]:
    """Return the total and every term's mean, fetched at once: each fetch waits for the device."""
    means = [term.detach().mean() for term in losses.terms.values()]
    fetched = torch.stack([total.detach(), *means]).tolist()
    return dict(zip(("total", *losses.terms), fetched, strict=True))
