"""The training loop: the paper's step by hand, interruption, divergence, history."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from tell.core.autoencoder import convolutional, fully_connected, perceptron
from tell.core.batches import Batch, Batches
from tell.core.checkpoint import random_tensors, read_checkpoint, restore_random
from tell.core.layer import ClusterLayer
from tell.core.loop import Hook, Loop, StopWhenSettled
from tell.core.objective import Clustering, Losses, Objective, Reconstruction
from tell.core.schedule import Always, cosine_rate
from tell.exceptions import DivergedError, ModelFileError
from tell.progress import relayed_to


def digits(rows: int = 256) -> torch.Tensor:
    return torch.tensor(load_digits().images[:rows], dtype=torch.float32)[:, None] / 16


def small_objective(idle_centers: str = "decay") -> Clustering:
    torch.manual_seed(1)  # a seed at which no ReLU stands so near 0 that rounding switches it
    encoder, decoder = convolutional((1, 8, 8), 4)
    return Clustering(encoder, ClusterLayer(4, 3, alpha=0.001), decoder, idle_centers=idle_centers)


def adadelta_by_hand(p, grad, square, way):  # Zeiler's rule with ρ = 0.9, ε = 1e-6, rate 1
    square = 0.9 * square + 0.1 * grad**2
    delta = torch.sqrt(way + 1e-6) / torch.sqrt(square + 1e-6) * grad
    return p - delta, square, 0.9 * way + 0.1 * delta**2


def losses_by_hand(objective, x, weight, epoch):
    """Reconstruction mean over pixels + 0.01 · mean over samples and clusters of 2 - δ W·z."""
    z = objective.encoder(x)
    reconstruction = (x - objective.decoder(z)).square().mean()
    own = nn.functional.one_hot((z @ weight.T).argmax(1), 3)
    if epoch % 2 == 0:
        clustering = (2 - own * (z.detach() @ weight.T) / 0.001).mean()
    else:
        clustering = (2 - own * (z @ weight.detach().T) / 0.001).mean()
    return reconstruction + 0.01 * clustering


@pytest.mark.parametrize("idle_centers", ["decay", "skip"])
def test_paper_steps_equal_the_procedure_by_hand(idle_centers: str) -> None:
    x = digits(32)
    objective, copy = small_objective(idle_centers), small_objective(idle_centers)
    copy.train()
    optimizer = torch.optim.Adadelta(objective.parameters())
    loop = Loop(objective, Batches(x, batch_size=32, drop_last=True), optimizer, epochs=3)
    history = loop.run()

    named = dict(copy.named_parameters())
    averages = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in named.items()}
    for epoch in range(3):
        # The only batch of an epoch holds all rows, so their order does not matter.
        weight = named["layer.weight"]
        loss = losses_by_hand(copy, x, weight, epoch)
        gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        for (name, p), grad in zip(named.items(), gradients, strict=True):
            if grad is None:  # the centres in an odd epoch
                if idle_centers == "skip":
                    continue
                grad = torch.zeros_like(p)
            if name == "layer.weight":
                lengths = grad.norm(dim=1, keepdim=True)
                grad = torch.where(lengths > 0, grad / lengths * 0.2 * 0.001, grad)
            new, *averages[name] = adadelta_by_hand(p.detach(), grad, *averages[name])
            if name == "layer.weight" and epoch % 2 == 0:
                new = new / new.norm(dim=1, keepdim=True) * 2 * 0.001
            p.data.copy_(new)

    assert len(history) == 3
    for name, p in objective.named_parameters():
        torch.testing.assert_close(p, named[name], rtol=2e-4, atol=2e-6, msg=name)
    assert history[0]["movement"] > 0
    assert history[1]["movement"] == pytest.approx(0, abs=1e-6)


def test_total_is_the_authors_loss_up_to_its_constant() -> None:
    objective, x = small_objective(), digits(32)
    objective.begin_step(1, 0)
    total = objective.weighted_sum(objective.losses(Batch(x, torch.arange(32))))
    theirs = losses_by_hand(objective, x, objective.layer.weight, 1)
    constant = 0.01 * 2 * (1 - 1 / 3)  # two of three clusters count 2 for every sample
    assert total.item() == pytest.approx(theirs.item() - constant, rel=1e-5)


INTERRUPTED = """
    import os, signal, sys
    from pathlib import Path
    import torch
    from sklearn.datasets import load_digits
    from torch import nn
    from safetensors.torch import save_file
    from tell.core.augment import Affine
    from tell.core.autoencoder import perceptron
    from tell.core.layer import ClusterLayer
    from tell.core.loop import Hook, Loop
    from tell.core.objective import Clustering
    from tell.core.batches import Batches
    from tell.core.schedule import cosine_rate

    class Kill(Hook):
        def __init__(self, after):
            self.steps_left = after
        def on_step_end(self, loop, losses):
            self.steps_left -= 1
            if self.steps_left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def train(folder, kill_after):
        torch.manual_seed(0)
        encoder, decoder = perceptron((1, 8, 8), 4)
        encoder = nn.Sequential(nn.Dropout(0.2), encoder)  # draws from torch's own generator
        objective = Clustering(encoder, ClusterLayer(4, 3), decoder)
        x = torch.tensor(load_digits().images[:160], dtype=torch.float32)[:, None] / 16
        rows = Batches(x, batch_size=64, augment=Affine())
        optimizer = torch.optim.Adam(objective.parameters(), lr=1e-3)
        loop = Loop(objective, rows, optimizer, epochs=4, rate=cosine_rate,
                    hooks=[Kill(kill_after)], checkpoint=folder / "run.safetensors",
                    checkpoint_seconds=0)
        history = loop.run()
        for line in history:
            del line["seconds"]
        save_file({**objective.state_dict(), "labels": loop.labels}, folder / "final.safetensors")
        (folder / "history.txt").write_text(repr(history))

    for folder, kill_after in [("whole", 0), ("killed", 5), ("killed", 4), ("killed", 0)]:
        child = os.fork()
        if child == 0:
            train(Path(sys.argv[1]) / folder, kill_after)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_killed_and_resumed_equals_uninterrupted_bit_for_bit(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    for folder in ("whole", "killed"):
        (tmp_path / folder).mkdir()
    (tmp_path / "killed" / "run.safetensors.partial").write_bytes(b"half a file")
    output = subprocess.check_output([sys.executable, script, tmp_path], text=True)
    # Killed in the middle of the second epoch, then at the end of the third, then completed.
    assert output.split() == ["0", str(-signal.SIGKILL), str(-signal.SIGKILL), "0"]
    for name in ("final.safetensors", "history.txt"):
        whole, killed = (tmp_path / run / name for run in ("whole", "killed"))
        assert whole.read_bytes() == killed.read_bytes(), name


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_the_devices_own_generator_is_kept_too(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout draws from it there. No such device is needed to see that it is asked."""
    module, device = getattr(torch, kind), torch.device(kind)
    state = [torch.tensor([7], dtype=torch.uint8)]
    monkeypatch.setattr(module, "get_rng_state", lambda *_: state[0])
    monkeypatch.setattr(module, "set_rng_state", lambda new, *_: state.__setitem__(0, new))
    kept = random_tensors(device)
    own = torch.rand(3)
    state[0] = torch.tensor([9], dtype=torch.uint8)
    restore_random(random_tensors(torch.device("cpu")), device)  # nothing kept of the device
    assert state[0].item() == 9
    restore_random(kept, device)
    assert state[0].item() == 7
    torch.testing.assert_close(torch.rand(3), own, rtol=0, atol=0)


class Explodes(Objective):
    """Finite for two steps, then not a number."""

    def __init__(self) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.ones(()))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def begin_step(self, epoch: int, step: int) -> None:
        self.steps += 1

    def losses(self, batch: Batch) -> Losses:
        factor = float("nan") if self.steps > 2 else 1.0
        return Losses({"value": batch.x.sum(1) * self.p * factor})


def test_not_a_number_stops_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    objective, file = Explodes(), tmp_path / "run.safetensors"
    optimizer = torch.optim.SGD(objective.parameters(), lr=0.1)
    loop = Loop(
        objective,
        Batches(torch.ones(4, 2), batch_size=2),
        optimizer,
        epochs=5,
        checkpoint=file,
        checkpoint_seconds=0,
    )
    with pytest.raises(DivergedError, match=r"finite.*nan.*epoch 1, step 0.*run\.safetensors"):
        loop.run()
    tensors, facts = read_checkpoint(file)
    assert tensors["objective.p"].isfinite()
    assert facts["position"]["epoch"] == 1
    assert tensors["objective.p"].item() == pytest.approx(0.6)  # two good steps of 0.1 · 2


def test_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    file.write_bytes(b"not a checkpoint")
    with pytest.raises(ModelFileError, match=r"run\.safetensors"):
        read_checkpoint(file)


def test_history_counts_changes_and_smallest_cluster() -> None:
    objective = small_objective()
    objective.alternation = Always()
    rows = Batches(digits(), batch_size=64)
    optimizer = torch.optim.Adam(objective.parameters(), lr=1e-3)
    loop = Loop(objective, rows, optimizer, epochs=3)
    first, *_, last = loop.run()
    assert first["changed"] == 1.0  # every label is new
    assert 0 <= last["changed"] < 1
    assert last["smallest"] == torch.bincount(loop.labels, minlength=3).min()
    assert last["reconstruction"] < first["reconstruction"]
    assert set(last) >= {"total", "clustering", "movement", "seconds", "rate"}
    assert json.loads(json.dumps(loop.history)) == loop.history


def test_loop_stops_when_labels_settle(tmp_path: Path) -> None:
    objective = small_objective()
    optimizer = torch.optim.SGD(objective.parameters(), lr=0.0)
    loop = Loop(
        objective,
        Batches(digits(64), 64),
        optimizer,
        epochs=50,
        hooks=[StopWhenSettled(patience=2)],
        visible=True,
    )
    with relayed_to(tmp_path / "bar"):
        loop.run()
    assert loop.stopped == "settled"
    assert len(loop.history) < 50
    bar = json.loads((tmp_path / "bar").read_text())
    assert bar["completed"] == bar["total"]
    assert bar["values"] == "ended settled"


def test_deadline_stops_after_a_step() -> None:
    objective = small_objective()
    optimizer = torch.optim.Adam(objective.parameters())
    loop = Loop(
        objective, Batches(digits(), 16), optimizer, epochs=1000, deadline=time.monotonic() + 1
    )
    started = time.monotonic()
    loop.run()
    assert loop.stopped == "max_time"
    assert time.monotonic() - started < 5


class Sleep(Hook):
    """Lets the deadline pass in one step."""

    def __init__(self, after: int) -> None:
        self.left = after

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        self.left -= 1
        if self.left == 0:
            loop.deadline = time.monotonic()
            time.sleep(0.01)


def dropout_loop(**options: object) -> Loop:
    torch.manual_seed(0)
    encoder, decoder = fully_connected((1, 8, 8), 4)
    objective = Clustering(encoder, ClusterLayer(4, 3), decoder)
    optimizer = torch.optim.Adam(objective.parameters(), lr=1e-3)
    return Loop(objective, Batches(digits(), 64), optimizer, epochs=3, **options)


@pytest.mark.parametrize("after", [1, 4, 6])  # within an epoch, at its end, in the next one
def test_a_run_that_met_its_deadline_goes_on_bit_for_bit(after: int, tmp_path: Path) -> None:
    whole = dropout_loop()
    whole.run()
    file = tmp_path / "run.safetensors"
    first = dropout_loop(checkpoint=file, hooks=[Sleep(after)])
    first.run()
    assert first.stopped == "max_time"
    assert first.position == divmod(after, 4)
    assert read_checkpoint(file)[1]["stopped"] is None
    second = dropout_loop(checkpoint=file)
    second.run()
    assert second.stopped is None
    for name, value in whole.objective.state_dict().items():
        assert torch.equal(value, second.objective.state_dict()[name]), name


def test_the_last_step_ends_a_run_whatever_the_deadline() -> None:
    loop = dropout_loop(hooks=[Sleep(12)])
    assert len(loop.run()) == 3
    assert loop.stopped is None


def test_the_least_steps_are_taken_after_the_deadline_too() -> None:
    loop = dropout_loop(deadline=time.monotonic() - 1, least_steps=6)
    loop.run()
    assert loop.position == (1, 2)
    assert loop.stopped == "max_time"


def test_hooks_see_every_event_and_rate_follows_its_schedule() -> None:
    class Watch(Hook):
        def __init__(self) -> None:
            self.events: list[str] = []

        def on_epoch_start(self, loop: Loop) -> None:
            self.events.append("start")

        def on_step_end(self, loop: Loop, losses: Losses) -> None:
            self.events.append("step")

        def on_epoch_end(self, loop: Loop, record: dict[str, object]) -> None:
            self.events.append("end")

    torch.manual_seed(0)
    objective, watch = Reconstruction(*perceptron((3,), 2)), Watch()
    optimizer = torch.optim.Adam(objective.parameters(), lr=0.1)
    rows = Batches(torch.randn(8, 3), 4)
    history = Loop(objective, rows, optimizer, epochs=2, rate=cosine_rate, hooks=[watch]).run()
    assert watch.events == ["start", "step", "step", "end"] * 2
    assert history[0]["rate"] == pytest.approx(0.1 * cosine_rate(0.25))
    assert history[1]["rate"] == pytest.approx(0.1 * cosine_rate(0.75))


def test_encoder_alone_has_no_reconstruction() -> None:
    torch.manual_seed(0)
    encoder = fully_connected((1, 8, 8), 4).encoder
    objective = Clustering(encoder, ClusterLayer(4, 3))
    optimizer = torch.optim.Adam(objective.parameters())
    (record,) = Loop(objective, Batches(digits(64), 32), optimizer, epochs=1).run()
    assert "reconstruction" not in record
    assert record["clustering"] > 0
