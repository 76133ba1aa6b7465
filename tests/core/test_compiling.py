"""A compiled loop trains as the plain one: same dropout, same hooks, same centres."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tell.core import compiling
from tell.core.autoencoder import fully_connected
from tell.core.batches import Batches
from tell.core.layer import ClusterLayer
from tell.core.loop import Loop
from tell.core.objective import Clustering
from tell.core.schedule import constant_rate, cosine_rate
from tell.exceptions import CompilerWarning

# torch's own compiler still imports what torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


@pytest.fixture(autouse=True)
def precise() -> Iterator[None]:
    """In float32 a sum at zero, rounded another way, passes a ReLU here and not there."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(autouse=True)
def without_a_c_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = torch.compile

    def traced(function: Callable[..., Any], options: dict[str, Any] | None = None) -> Any:
        return compile_(function, backend="eager")  # traces, but leaves the arithmetic to torch

    monkeypatch.setattr(torch, "compile", traced)


def trained(*, compiled: bool, idle_centers: str = "decay", rate: Any = constant_rate) -> Loop:
    torch.manual_seed(0)
    encoder, decoder = fully_connected((6,), 4)
    layer = ClusterLayer(4, 3, alpha=0.001)
    objective = Clustering(encoder, layer, decoder, idle_centers=idle_centers)
    optimizer = torch.optim.Adadelta(objective.parameters())
    batches = Batches(torch.rand(64, 6), batch_size=32)
    loop = Loop(objective, batches, optimizer, epochs=2, rate=rate, compiled=compiled)
    loop.run()
    return loop


@pytest.mark.parametrize("idle_centers", ["decay", "skip"])
def test_compiled_steps_equal_plain_ones(idle_centers: str) -> None:
    plain, compiled = (trained(compiled=c, idle_centers=idle_centers) for c in (False, True))
    parameters = dict(compiled.objective.named_parameters())
    for name, p in plain.objective.named_parameters():
        torch.testing.assert_close(parameters[name], p, rtol=1e-4, atol=1e-6, msg=name)
    lengths = parameters["layer.weight"].norm(dim=1)  # the layer's hooks ran
    torch.testing.assert_close(lengths, torch.full_like(lengths, 2 * 0.001))


def test_a_changing_rate_is_not_compiled_into_the_step() -> None:
    loop = trained(compiled=True, rate=cosine_rate)
    assert loop._update == loop.optimizer.step


PROGRAM = """
import torch
from tell.core.compiling import compiled_losses
from tell.core.batches import Batch
from tell.core.layer import ClusterLayer
from tell.core.objective import Clustering

objective = Clustering(torch.nn.Linear(4, 4), ClusterLayer(4, 2))
batch = Batch(torch.randn(8, 4), torch.arange(8))
losses = compiled_losses(objective)
for _ in range(2):
    own = objective.losses(batch).terms["clustering"]
    assert torch.equal(losses(batch).terms["clustering"], own)
print("went on")
"""


def test_without_a_compiler_it_says_so_once_and_goes_on(tmp_path: Path) -> None:
    environment = {**os.environ, "CXX": "no-such-compiler", "PATH": "/nowhere"}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path)  # what was compiled before
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.strip() == "went on"
    assert ended.stderr.count("CompilerWarning: compiled=True needs a step") == 1


def test_an_error_that_is_not_the_compilers_comes_through() -> None:
    def fast() -> None:
        raise RuntimeError("no compiler")

    def plain() -> None:
        raise KeyError("of the rows")

    with (
        pytest.warns(CompilerWarning, match="no compiler"),
        pytest.raises(KeyError, match="of the rows"),
    ):
        compiling._or_plain(fast, plain)()


def test_what_fails_after_a_compiled_step_comes_through_as_it_is() -> None:
    answers = iter([1])
    call = compiling._or_plain(lambda: next(answers), lambda: 2)
    assert call() == 1
    with pytest.raises(StopIteration):  # as a device that runs out of memory would
        call()
