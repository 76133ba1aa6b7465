"""How long an epoch of the paper's procedure takes: our loop against a plain PyTorch one.

All do the same arithmetic: the paper's network, batch 256, Adadelta, reconstruction + clustering
loss, normalised centre gradients; in float32, but for the side "bfloat16", whose products are
taken of rounded numbers. The plain one is what one writes from the paper: eager modules, a
`DataLoader`, one optimiser. Each side has a process of its own, because ours changes how memory
is allocated. They take turns of 39 steps, the others wait while one runs; seven turns are an
epoch of MNIST. The first turn warms up (and compiles); the median ratio of the others is
reported. Run it on an idle machine: about seven minutes for both networks with one and with two
threads.

    tell data get mnist && python benchmarks/deep.py
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import nullcontext
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from recording import record
from tell.core import loop as loops
from tell.core.autoencoder import build_autoencoder
from tell.core.loop import Hook, Loop
from tell.core.objective import Losses
from tell.data.datasets import load
from tell.estimators.deep.estimator import DeepTELL
from tell.estimators.deep.networks import new_model
from tell.estimators.deep.recipes.paper import PaperRecipe
from tell.estimators.deep.recipes.recipe import Task
from tell.estimators.deep.training import Control, train

ALPHA = 0.001
BATCH = 256
STEPS_PER_EPOCH = 70_000 // BATCH
STEPS_PER_TURN = 39


def mnist() -> torch.Tensor:
    """Return all 70,000 images."""
    data = load("mnist")
    return torch.tensor(data.X, dtype=torch.float32).reshape(-1, *data.shape) / data.scale


# --- the plain side ----------------------------------------------------------------------------


def plain_cnn() -> tuple[nn.Sequential, nn.Sequential]:
    """Write down the paper's convolutional network."""

    def down(channels: int, out: int, stride: int) -> list[nn.Module]:
        return [nn.Conv2d(channels, out, 3, stride, 1), nn.BatchNorm2d(out), nn.ReLU()]

    def up(channels: int, out: int, stride: int) -> list[nn.Module]:
        conv = nn.ConvTranspose2d(channels, out, 3, stride, 1, output_padding=stride - 1)
        return [conv, nn.BatchNorm2d(out), nn.ReLU()]

    encoder = [*down(1, 16, 1), *down(16, 32, 2), *down(32, 32, 1), *down(32, 16, 2), nn.Flatten()]
    encoder += [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)]
    decoder = [nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 784), nn.Unflatten(1, (16, 7, 7))]
    decoder += [*up(16, 32, 2), *up(32, 32, 1), *up(32, 16, 2), nn.ConvTranspose2d(16, 1, 3, 1, 1)]
    return nn.Sequential(*encoder), nn.Sequential(*decoder, nn.Sigmoid())


def plain_fcn() -> tuple[nn.Sequential, nn.Sequential]:
    """Write down the paper's fully connected network."""
    encoder: list[nn.Module] = [nn.Flatten()]
    for wide, narrow in ((784, 500), (500, 500), (500, 2000)):
        encoder += [nn.Dropout(0.2), nn.Linear(wide, narrow), nn.ReLU()]
    encoder += [nn.Dropout(0.2), nn.Linear(2000, 10)]
    decoder: list[nn.Module] = []
    for narrow, wide in ((10, 2000), (2000, 500), (500, 500)):
        decoder += [nn.Linear(narrow, wide), nn.ReLU()]
    decoder += [nn.Linear(500, 784), nn.Sigmoid(), nn.Unflatten(1, (1, 28, 28))]
    return nn.Sequential(*encoder), nn.Sequential(*decoder)


class PlainLoop:
    """The paper's training, written plainly."""

    def __init__(self, network: str, x: torch.Tensor) -> None:
        torch.manual_seed(0)
        self.encoder, self.decoder = plain_cnn() if network == "cnn" else plain_fcn()
        self.start_like_ours(network)
        self.weight = nn.Parameter(torch.empty(10, 10))
        nn.init.kaiming_uniform_(self.weight)
        self.project()
        parameters = [*self.encoder.parameters(), *self.decoder.parameters(), self.weight]
        self.optimizer = torch.optim.Adadelta(parameters)
        self.loader = DataLoader(TensorDataset(x), batch_size=BATCH, shuffle=True, drop_last=True)
        self.epoch_number = 0

    @torch.no_grad()
    def start_like_ours(self, network: str) -> None:
        """Copy the start of our networks, which fails unless both have the same layers."""
        plain = [*self.encoder.parameters(), *self.decoder.parameters()]
        encoder, decoder = build_autoencoder(network, (1, 28, 28))
        ours = [*encoder.parameters(), *decoder.parameters()]
        for mine, theirs in zip(plain, ours, strict=True):
            mine.set_(theirs.detach().reshape(mine.shape))

    @torch.no_grad()
    def project(self) -> None:
        """Put the centres back on the sphere."""
        self.weight.copy_(nn.functional.normalize(self.weight, dim=1) * 2 * ALPHA)

    def steps(self) -> Iterator[None]:
        """Train without end, and say so after every step."""
        while True:
            yield from self.epoch()

    def epoch(self) -> Iterator[None]:
        """Train for one epoch."""
        for (x,) in self.loader:
            z = nn.functional.normalize(self.encoder(x), dim=1)
            reconstruction = nn.functional.mse_loss(self.decoder(z), x)
            if self.epoch_number % 2 == 0:
                scores = z.detach() @ self.weight.T / ALPHA
            else:
                scores = z @ self.weight.detach().T / ALPHA
            own = nn.functional.one_hot(scores.argmax(1), 10)
            loss = reconstruction + 0.01 * (2 - own * scores).mean()
            self.optimizer.zero_grad()
            loss.backward()
            if self.weight.grad is not None:
                self.weight.grad = nn.functional.normalize(self.weight.grad, dim=1) * 0.2 * ALPHA
            self.optimizer.step()
            self.project()
            yield
        self.epoch_number += 1


def run_plain(turn: Connection, network: str, threads: int) -> None:
    """Train whenever it is our turn and say how long it took."""
    torch.set_num_threads(threads)
    steps = PlainLoop(network, mnist()).steps()
    while turn.recv():
        started = time.perf_counter()
        for _ in range(STEPS_PER_TURN):
            next(steps)
        turn.send(time.perf_counter() - started)


# --- our side ----------------------------------------------------------------------------------


class TakeTurns(Hook):
    """Wait for the turn before its first step, say how long it took after its last."""

    def __init__(self, turn: Connection) -> None:
        self.turn = turn
        self.steps = 0

    def on_epoch_start(self, loop: Loop) -> None:
        """Wait for the first turn."""
        if self.steps == 0:
            self.wait()

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        """Hand over."""
        self.steps += 1
        if self.steps % STEPS_PER_TURN == 0:
            self.turn.send(time.perf_counter() - self.started)
            self.wait()

    def wait(self) -> None:
        """Wait for the turn."""
        self.turn.recv()
        self.started = time.perf_counter()


def run_eager(turn: Connection, network: str, threads: int) -> None:
    """Train as `DeepTELL(10, encoder=network, recipe="paper")` does."""
    _run_ours(turn, network, threads)


def run_compiled(turn: Connection, network: str, threads: int) -> None:
    """Train as `DeepTELL(10, encoder=network, recipe="paper", compiled=True)` does."""
    _run_ours(turn, network, threads, compiled=True)


def run_given_back(turn: Connection, network: str, threads: int) -> None:
    """Train as `run_eager` does, but leave memory to the allocator: what `core/memory.py` gains."""
    loops.kept_memory = nullcontext
    _run_ours(turn, network, threads)


def run_bfloat16(turn: Connection, network: str, threads: int) -> None:
    """Train as `DeepTELL(10, encoder=network, recipe="paper", precision="bfloat16")` does."""
    _run_ours(turn, network, threads, precision="bfloat16")


def _run_ours(turn: Connection, network: str, threads: int, **options: Any) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x, recipe = mnist(), PaperRecipe(batch_size=BATCH)
    model = new_model(DeepTELL(10, encoder=network), recipe, tuple(x.shape[1:]))
    control = Control(hooks=[TakeTurns(turn)], **options)
    train(recipe, Task(model, x, seed=0), control)


# --- the comparison ----------------------------------------------------------------------------

SIDES = {
    "plain": run_plain,
    "eager": run_eager,
    "given-back": run_given_back,
    "bfloat16": run_bfloat16,
    "compiled": run_compiled,
}


def take_turns(sides: list[str], network: str, threads: int, rounds: int) -> list[dict[str, float]]:
    """Return the seconds of every side for every round; the first round warms up."""
    context = multiprocessing.get_context("spawn")
    turns: dict[str, Connection] = {}
    workers = []
    for side in sides:
        turns[side], theirs = context.Pipe()
        arguments = (theirs, network, threads)
        workers.append(context.Process(target=SIDES[side], args=arguments, daemon=True))
        workers[-1].start()
        theirs.close()  # so that a side that fails ends the wait for its answer
    found = [{side: _seconds(turn) for side, turn in turns.items()} for _ in range(1 + rounds)]
    for worker in workers:
        worker.terminate()
        worker.join()
    return found


def _seconds(turn: Connection) -> float:
    turn.send("go")
    return turn.recv()


def compare(network: str, threads: int, rounds: int, ours: list[str]) -> dict[str, Any]:
    """Return seconds per epoch of MNIST, and how many times faster each of our sides is."""
    first, *found = take_turns(["plain", *ours], network, threads, rounds)
    epochs = rounds * STEPS_PER_TURN / STEPS_PER_EPOCH
    result: dict[str, Any] = {"threads": threads, "warm_up_seconds": first}
    result["plain"] = {"seconds_per_70000": sum(seconds["plain"] for seconds in found) / epochs}
    for side in ours:
        ratios = [seconds["plain"] / seconds[side] for seconds in found]
        result[side] = {
            "seconds_per_70000": sum(seconds[side] for seconds in found) / epochs,
            "times_faster": statistics.median(ratios),
            "ratios": ratios,
        }
    return result


def main() -> None:
    """Compare, print and write results/deep_speed.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", nargs="+", default=["cnn", "fcn"], choices=["cnn", "fcn"])
    parser.add_argument("--rounds", type=int, default=STEPS_PER_EPOCH // STEPS_PER_TURN)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    ours = [side for side in SIDES if side != "plain"]
    parser.add_argument(
        "--ours", nargs="+", default=["eager", "given-back", "bfloat16"], choices=ours
    )
    options = parser.parse_args()
    settings = {**vars(options), "batch": BATCH, "wait_policy": os.environ.get("OMP_WAIT_POLICY")}
    began, results = time.perf_counter(), {}
    for network, threads in itertools.product(options.network, options.threads):
        found = compare(network, threads, options.rounds, options.ours)
        results[f"{network}-{threads}"] = found
        said = [
            f"{side} {found[side]['seconds_per_70000']:.1f} s, {found[side]['times_faster']:.2f}x"
            for side in options.ours
        ]
        plain = found["plain"]["seconds_per_70000"]
        print(f"{network}-{threads}: plain {plain:.1f} s; {'; '.join(said)}")
    record("deep_speed", settings, results, began=began)


if __name__ == "__main__":
    main()
