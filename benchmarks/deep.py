"""How long an epoch of the paper's procedure takes: our loop against a plain PyTorch one.

Both do the same arithmetic: the paper's network, batch 256, Adadelta, reconstruction + clustering
loss, normalised centre gradients. The plain one is what one writes from the paper: eager modules, a
`DataLoader`, one optimiser. Rounds are interleaved and the median ratio is reported.

    python benchmarks/deep.py --network cnn fcn --rounds 5
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tell.core.autoencoder import build_autoencoder
from tell.core.loop import Hook, Loop, Record
from tell.estimators._deep_networks import new_model
from tell.estimators._deep_paper import PaperRecipe
from tell.estimators._deep_run import Control, Task, train
from tell.estimators.deep import DeepTELL

ALPHA = 0.001
MNIST_ROWS = 70_000


class PlainLoop:
    """The paper's training, written plainly."""

    def __init__(self, network: str, x: torch.Tensor) -> None:
        torch.manual_seed(0)
        self.encoder, self.decoder = build_autoencoder(network, x.shape[1:])
        self.weight = nn.Parameter(torch.empty(10, 10))
        nn.init.kaiming_uniform_(self.weight)
        self.project()
        parameters = [*self.encoder.parameters(), *self.decoder.parameters(), self.weight]
        self.optimizer = torch.optim.Adadelta(parameters)
        self.loader = DataLoader(TensorDataset(x), batch_size=256, shuffle=True, drop_last=True)
        self.epoch_number = 0

    def project(self) -> None:
        with torch.no_grad():
            self.weight.copy_(nn.functional.normalize(self.weight, dim=1) * 2 * ALPHA)

    def epoch(self) -> None:
        """Train for one epoch."""
        for (x,) in self.loader:
            z = self.encoder(x)
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
        self.epoch_number += 1


class Interleave(Hook):
    """After each of our epochs, time one of the plain loop."""

    def __init__(self, plain: PlainLoop) -> None:
        self.plain = plain
        self.seconds: list[float] = []

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Run the other side."""
        started = time.perf_counter()
        self.plain.epoch()
        self.seconds.append(time.perf_counter() - started)


def compare(network: str, rows: int, rounds: int, compiled: bool) -> dict[str, object]:
    """Take turns, an even and an odd epoch each round; the first round is a warm-up."""
    x = torch.rand(rows, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    interleave = Interleave(PlainLoop(network, x))
    recipe = PaperRecipe(epochs=2 * (rounds + 1))
    model = new_model(DeepTELL(10, encoder=network), recipe, tuple(x.shape[1:]))
    control = Control(hooks=[interleave], compiled=compiled)
    history = train(recipe, Task(model, x, seed=0), control, "bench")
    ours = [line["seconds"] for line in history][2:]
    plain = interleave.seconds[2:]
    ratios = [p / t for p, t in zip(plain, ours, strict=True)]
    scale = MNIST_ROWS / rows
    return {
        "network": network,
        "compiled": compiled,
        "threads": torch.get_num_threads(),
        "plain_seconds_per_70000": statistics.median(plain) * scale,
        "tell_seconds_per_70000": statistics.median(ours) * scale,
        "median_ratio": statistics.median(ratios),
        "ratios": ratios,
        "first_epochs_with_compilation": [line["seconds"] for line in history[:2]],
    }


def main() -> None:
    """Parse, compare, print one JSON line per network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", nargs="+", default=["cnn", "fcn"], choices=["cnn", "fcn"])
    parser.add_argument("--rows", type=int, default=25_600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    options = parser.parse_args()
    for network in options.network:
        print(json.dumps(compare(network, options.rows, options.rounds, not options.eager)))


if __name__ == "__main__":
    main()
