"""One pass over new rows for a model that was fitted before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn, optim

from tell.core.batches import Batches
from tell.core.loop import Loop
from tell.core.objective import Clustering
from tell.core.schedule import Always
from tell.estimators.deep.model import DeepModel

BATCH_ROWS = 256
# The layer scales its gradient to a tenth of a centre's length, of which one batch goes a tenth.
CENTER_RATE = 0.1
NETWORK_RATE = 1e-4


def one_pass(
    model: DeepModel, x: Tensor, *, encoder: bool, seed: int, weight: float
) -> dict[str, Any]:
    """Show the rows to the model once; return what happened.

    Parameters
    ----------
    model : DeepModel
    x : Tensor (n, ...)
    encoder : bool
        Let the networks learn too, not the centres alone.
    seed : int
        Of the order of the rows and of what the networks draw.
    weight : float
        λ of eq. 15, where the networks learn.
    """
    if encoder and len(x) > 1:  # a single row has no batch statistics
        objective = Clustering(
            model.encoder, model.layer, model.decoder, alternation=Always(), weight=weight
        )
        networks = [p for name, p in objective.named_parameters() if not name.startswith("layer.")]
        # Adam's steps do not know how long the layer's weight is.
        rates: list[dict[str, Any]] = [
            {"params": networks},
            {"params": [model.layer.weight], "lr": NETWORK_RATE * model.layer.alpha},
        ]
        rule: optim.Optimizer = optim.Adam(rates, lr=NETWORK_RATE)
        batches = Batches(x, BATCH_ROWS, seed=seed)
    else:
        objective = Clustering(nn.Identity(), model.layer, alternation=Always(encoder=False))
        rule = optim.SGD(objective.parameters(), lr=CENTER_RATE)
        batches = Batches(model.embed(x), BATCH_ROWS, seed=seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # of dropout
        (record,) = Loop(objective, batches, rule, epochs=1, name="stream").run()
    return {"rows": len(x), "loss": record["clustering"], "movement": record["movement"]}
