"""A Pipeline that ends in TELL, converted by skl2onnx: the same labels in onnxruntime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tell import TELL
from tell.exceptions import ParameterError
from tell.export.sklearn_onnx import register

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")


def converted(pipeline: Pipeline, X: Any) -> Any:
    register(TELL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of skl2onnx's own parts
        made = skl2onnx.to_onnx(pipeline, X[:1], target_opset=18)
    return onnxruntime.InferenceSession(made.SerializeToString())


def clear(model: Any, Z: Any) -> Any:
    """Rows whose two nearest centres differ by more than rounding."""
    near = np.sort(model.transform(Z) ** 2, axis=1)
    return near[:, 1] - near[:, 0] > 1e-4


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pipeline_gives_the_same_answers(geometry: Any, dtype: Any) -> None:
    X = load_digits().data.astype(dtype)
    steps = [("scale", StandardScaler()), ("pca", PCA(12, random_state=0))]
    pipeline = Pipeline([*steps, ("tell", TELL(10, geometry=geometry, random_state=0))]).fit(X)
    random = np.random.default_rng(0).uniform(0, 16, (2000, 64)).astype(dtype)
    rows = np.vstack([X, random])
    label, distances, assignment = converted(pipeline, X).run(None, {"X": rows})
    model, Z = pipeline["tell"], pipeline[:-1].transform(rows)
    sure = clear(model, Z)
    assert sure.mean() > 0.99
    np.testing.assert_array_equal(label[sure], pipeline.predict(rows)[sure])
    np.testing.assert_allclose(distances, pipeline.transform(rows), rtol=2e-4, atol=1e-4)
    np.testing.assert_allclose(assignment, model.predict_proba(Z), atol=2e-3)


def test_tell_alone_and_standardised() -> None:
    X = load_iris().data
    pipeline = Pipeline([("tell", TELL(3, standardize=True, random_state=0))]).fit(X)
    label, *_ = converted(pipeline, X).run(None, {"X": X})
    np.testing.assert_array_equal(label, pipeline.predict(X))


def test_a_prepared_table_is_sent_elsewhere() -> None:
    frame = load_iris(as_frame=True).data.assign(kind=["a", "b", "c"] * 50)
    pipeline = Pipeline([("tell", TELL(3, random_state=0))]).fit(frame)
    register(TELL)
    from skl2onnx.common.data_types import FloatTensorType

    with pytest.raises(ParameterError, match=r"convert it alone, with model\.to_onnx"):
        skl2onnx.convert_sklearn(
            pipeline, initial_types=[("X", FloatTensorType([None, 7]))], target_opset=18
        )
