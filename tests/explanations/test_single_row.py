"""One row explained by the model alone: what is printed must hold as it does for a whole table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tell import TELL, explain
from tell.data.sources import open_source
from tell.explanations.single_row import explain_row


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_a_printed_change_moves_the_row(geometry: Any) -> None:
    random = np.random.default_rng(0)
    group = random.integers(0, 3, 300)
    frame = pd.DataFrame(
        {
            "size": np.array([50, 80, 120])[group] + random.normal(0, 6, 300),
            "rooms": np.array([2, 3, 5])[group] + random.integers(0, 2, 300),
            "balcony": np.where(random.random(300) < 0.5, "yes", "no"),
            "city": np.array(["Ulm", "Bonn", "Rome"])[group],
        }
    )
    model = TELL(4, geometry=geometry, random_state=0).fit(frame)
    X = model.preparation_.apply(open_source(frame)).read().X
    known = explain(model, frame, rows=range(60), map_method=None, quality=False)
    for point in known.points:
        alone = explain_row(model, X[point.row])
        assert alone.margin == pytest.approx(point.margin)
        change = alone.counterfactual
        assert change is not None
        assert all(one.before != one.after for one in change.changes)
        printed = frame.iloc[[point.row]].copy()
        for one in change.changes:
            after = one.after if isinstance(one.after, str) else round(one.after, one.decimals)
            printed[one.name] = after
        assert model.predict(printed)[0] == change.cluster
