"""What an ONNX runtime says of rows is what the model says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, load_wine

from tell import TELL, DeepTELL
from tell.adapter import as_model
from tell.contract import soft_assignment, squared_distances
from tell.estimators import DistilRecipe
from tell.exceptions import ParameterError

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_rows_in_any_order() -> None:
    """Draw the rows of a test alike, whichever tests its process has run before."""
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def answers(path: Path, feed: dict[str, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


def check_parity(model: Any, found: dict[str, Any], X: Any) -> None:
    distances = np.asarray(model.transform(X), np.float64)
    best = np.sort(distances, axis=1)
    clear = best[:, 1] - best[:, 0] > 1e-5
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(found["label"][clear], model.predict(X)[clear])
    # The file computes in double, the model in float32, where 64 roundings are no distance;
    # that rounding itself may be off by a few.
    precise = 72 * np.finfo(np.float32).eps
    np.testing.assert_allclose(found["distances"] ** 2, distances**2, rtol=2e-5, atol=precise)
    shares = found["assignment"]
    np.testing.assert_allclose(shares, model.predict_proba(X), atol=2e-3)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_arrays(load: Any, geometry: str, standardize: bool, tmp_path: Path) -> None:
    X = load().data.astype(np.float32)
    model = TELL(4, geometry=geometry, standardize=standardize, random_state=0).fit(X)
    model.to_onnx(tmp_path / "m.onnx")
    spread = X.std(axis=0) * RNG.normal(size=(10_000, X.shape[1]))
    rows = np.vstack([X, (X.mean(axis=0) + spread).astype(np.float32), np.zeros_like(X[:1])])
    check_parity(model, answers(tmp_path / "m.onnx", {"X": rows}), rows)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_double_agrees_to_a_millionth(geometry: str, tmp_path: Path) -> None:
    X = load_wine().data  # which `TELL` leaves in float64
    model = TELL(3, geometry=geometry, standardize=True, random_state=0).fit(X)
    model.to_onnx(tmp_path / "m.onnx", double=True)
    found = answers(tmp_path / "m.onnx", {"X": X})
    scaled = (X - model.input_path.offset) / model.input_path.scale
    expected = squared_distances(scaled, model.cluster_centers_, geometry)
    np.testing.assert_allclose(found["distances"], np.sqrt(expected), rtol=1e-6)
    shares = soft_assignment(expected, model.loss_)
    np.testing.assert_allclose(found["assignment"], shares, atol=1e-6)


def test_double_keeps_digits_that_float_has_not(tmp_path: Path) -> None:
    X = 1.7e9 + np.repeat([[0.0], [40.0]], 50, axis=0) + RNG.normal(size=(100, 1))
    model = TELL(2, geometry="euclidean", random_state=0).fit(X)
    model.to_onnx(tmp_path / "m.onnx", double=True)
    found = answers(tmp_path / "m.onnx", {"X": X})
    np.testing.assert_array_equal(found["label"], model.predict(X))


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_rejected_rows_are_those_that_predict_rejects(geometry: str, tmp_path: Path) -> None:
    X = load_wine().data
    model = TELL(3, geometry=geometry, standardize=True, random_state=0).fit(X)
    model.to_onnx(tmp_path / "m.onnx", double=True, reject=0.05)
    rows = np.vstack([X, X.mean(axis=0) + 3 * X.std(axis=0) * RNG.normal(size=(1_000, 13))])
    found = answers(tmp_path / "m.onnx", {"X": rows})
    expected = model.predict(rows, reject=0.05) < 0
    assert 50 < expected.sum() < 1_100
    np.testing.assert_array_equal(found["rejected"], expected)
    with pytest.raises(ParameterError, match="reject needs a TELL, got KMeans"):
        as_model(KMeans(2, n_init=1).fit(X)).to_onnx(tmp_path / "k.onnx", reject=0.05)  # type: ignore[attr-defined]


def test_gaps_are_nowhere(tmp_path: Path) -> None:
    model = TELL(2, random_state=0).fit(load_iris().data)
    model.to_onnx(tmp_path / "m.onnx")
    rows = load_iris().data[:2].astype(np.float32)
    rows[0, 2] = np.nan
    assert answers(tmp_path / "m.onnx", {"X": rows})["label"].tolist()[0] == -1


def customers(n: int = 400) -> pd.DataFrame:
    kind = RNG.integers(3, size=n)
    frame = pd.DataFrame(
        {
            "id": [f"c{i}" for i in range(n)],
            "age": (30 + 12 * kind + RNG.normal(0, 3, n)).round(),
            "income": np.exp(9 + kind + RNG.normal(0, 0.5, n)).round(2),
            "country": np.array(["DE", "FR", "CH"])[(kind + RNG.integers(2, size=n)) % 3],
            "member": np.where(kind == 1, "yes", "no"),
            "stars": RNG.integers(1, 4, size=n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(1500, size=n), "D"),
        }
    )
    frame.loc[::9, "income"] = np.nan
    frame.loc[::11, "country"] = None
    frame.loc[::13, "member"] = None
    return frame


def feed(frame: pd.DataFrame, columns: Any) -> dict[str, Any]:
    """A frame as the file wants it."""
    made = {}
    for column in columns:
        cells = frame[column.name]
        if column.treatment == "date":
            cells = (cells - pd.Timestamp(0)) / pd.Timedelta(days=1)
        text = column.treatment in ("one-hot", "0/1")
        values = cells.astype(object).where(cells.notna(), "") if text else cells.astype(float)
        made[column.name] = values.astype(str if text else float).to_numpy(
            object if text else float
        )
    return {name: values[:, None] for name, values in made.items()}


TYPES = {"since": "date", "stars": "category"}


@pytest.mark.parametrize("kind", ["shallow", "deep"])
def test_tables_with_their_own_columns(kind: str, tmp_path: Path) -> None:
    from tell import TablePreparation

    frame = customers()
    prepare = TablePreparation(types=TYPES)
    if kind == "shallow":
        model: Any = TELL(3, prepare=prepare, random_state=0).fit(frame)
    else:
        recipe = DistilRecipe(epochs=2, n_init=1)
        model = DeepTELL(3, recipe=recipe, prepare=prepare, random_state=0).fit(frame)
    model.name_clusters({1: "Families"})
    model.to_onnx(tmp_path / "m.onnx")
    columns = model.preparation_.used
    assert {c.treatment for c in columns} >= {"one-hot", "0/1", "date"}
    new = customers()
    found = answers(tmp_path / "m.onnx", feed(new, columns))
    check_parity(model, found, new)
    np.testing.assert_array_equal(found["name"] == "Families", found["label"] == 1)


def test_unknown_categories_and_other_spellings(tmp_path: Path) -> None:
    from tell import TablePreparation

    frame = customers()
    model = TELL(3, prepare=TablePreparation(types=TYPES), random_state=0).fit(frame)
    model.to_onnx(tmp_path / "m.onnx")
    new = customers()
    new["member"] = new["member"].str.upper()
    new.loc[:5, "country"] = "Atlantis"
    new["stars"] = new["stars"].astype(float)
    found = answers(tmp_path / "m.onnx", feed(new, model.preparation_.used))
    with pytest.warns(UserWarning, match="Atlantis"):
        labels = model.predict(new)
    np.testing.assert_array_equal(found["label"], labels)


@pytest.mark.parametrize("shape", [(64,), (8, 8)])
def test_deep_models(shape: tuple[int, ...], tmp_path: Path) -> None:
    X = load_digits().data[:300].astype(np.float32).reshape(-1, *shape)
    model = DeepTELL(4, recipe=DistilRecipe(epochs=1, n_init=1), random_state=0).fit(X)
    model.to_onnx(tmp_path / "m.onnx")
    more = np.vstack([X, RNG.uniform(0, 16, size=(500, *shape)).astype(np.float32)])
    found = answers(tmp_path / "m.onnx", {"X": more})
    check_parity(model, found, more)
    one = answers(tmp_path / "m.onnx", {"X": more[:1]})
    assert one["label"].shape == (1,)


def test_foreign_k_means(tmp_path: Path) -> None:
    X = load_wine().data
    fitted = KMeans(3, n_init=1, random_state=0).fit(X)
    as_model(fitted).to_onnx(tmp_path / "m.onnx", double=True)  # type: ignore[attr-defined]
    found = answers(tmp_path / "m.onnx", {"X": X})
    np.testing.assert_array_equal(found["label"], fitted.labels_)
    np.testing.assert_allclose(found["distances"], fitted.transform(X), rtol=1e-5)


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    import json

    import onnx

    TELL(3, random_state=0).fit(load_wine(as_frame=True).data).to_onnx(tmp_path / "m.onnx")
    made = onnx.load(tmp_path / "m.onnx")
    assert made.producer_name == "tell"
    assert {(opset.domain, opset.version) for opset in made.opset_import} == {
        ("", 18),
        ("ai.onnx.ml", 3),
    }
    (fact,) = made.metadata_props
    assert json.loads(fact.value)["feature_names"][0] == "alcohol"
