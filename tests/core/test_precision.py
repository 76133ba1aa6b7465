"""Products in bfloat16: the networks round, the layer, the losses and the weights do not."""

from __future__ import annotations

import pytest
import torch

from tell.core.autoencoder import fully_connected
from tell.core.batches import Batches
from tell.core.information import information
from tell.core.layer import ClusterLayer
from tell.core.loop import Loop
from tell.core.objective import Clustering
from tell.core.precision import check_precision, products_in
from tell.exceptions import ParameterError


def trained(precision: str, epochs: int = 20) -> Loop:
    torch.manual_seed(0)
    encoder, decoder = fully_connected((16,), 4)
    objective = Clustering(encoder, ClusterLayer(4, 3), decoder)
    optimizer = torch.optim.Adam(objective.parameters(), lr=1e-3)
    x = torch.rand(256, 16, generator=torch.Generator().manual_seed(1))
    loop = Loop(objective, Batches(x, batch_size=64), optimizer, epochs=epochs, precision=precision)
    loop.run()
    return loop


def test_the_networks_round_and_learn_all_the_same() -> None:
    exact, rounded = trained("float32"), trained("bfloat16")
    first, last = rounded.history[0], rounded.history[-1]
    assert last["reconstruction"] < 0.8 * first["reconstruction"]
    assert last["reconstruction"] == pytest.approx(exact.history[-1]["reconstruction"], rel=0.05)
    # Not the very same numbers, or nothing would have been rounded.
    assert last["reconstruction"] != exact.history[-1]["reconstruction"]


def test_weights_gradients_and_averages_stay_in_float32() -> None:
    loop = trained("bfloat16", epochs=1)
    for name, parameter in loop.objective.named_parameters():
        assert parameter.dtype == torch.float32, name
        assert parameter.grad is None or parameter.grad.dtype == torch.float32, name
        for average in loop.optimizer.state[parameter].values():
            assert average.dtype == torch.float32, name


def test_scores_and_information_keep_their_digits() -> None:
    torch.manual_seed(0)
    layer, z = ClusterLayer(5, 4), torch.randn(50, 5)
    assignment = torch.softmax(5 * torch.randn(50, 4), dim=1)
    plain = layer(z).scores, information(assignment, assignment.flip(0))
    with products_in("bfloat16", z.device):
        inside = layer(z).scores, information(assignment, assignment.flip(0))
    for a, b in zip(plain, inside, strict=True):
        assert torch.equal(a, b)


def test_a_machine_that_cannot_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object) -> None:
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr("tell.core.precision.F.linear", fails)
    check_precision("float32", "cpu")
    with pytest.raises(ParameterError, match=r"could not create a primitive; pass 'float32'"):
        check_precision("bfloat16", "cpu")
    with pytest.raises(ParameterError, match=r"precision='half' must be one of"):
        check_precision("half", "cpu")
