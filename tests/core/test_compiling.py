"""A compiled loop trains as the plain one: same dropout, same hooks, same centres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tell.core.autoencoder import fully_connected
from tell.core.batches import Batches
from tell.core.layer import ClusterLayer
from tell.core.loop import Loop
from tell.core.objective import Clustering
from tell.core.schedule import constant_rate, cosine_rate

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
