"""What a service answers is what the model answers, however the rows come."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.serving.conftest import blob_rows, flower_table, records, shop_table

import tell
from tell.data.preparation import Column, Preparation
from tell.explanations import explain

ARROW = "application/vnd.apache.arrow.stream"
Start = Callable[..., TestClient]


def arrow_body(table: Any, **options: Any) -> bytes:
    table = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def csv_body(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def bodies(table: pd.DataFrame) -> dict[str, tuple[str, bytes]]:
    """The same rows in every form that is read."""
    rows = records(table)
    return {
        "objects": ("application/json", json.dumps({"rows": rows}).encode()),
        "bare list": ("application/json", json.dumps(rows).encode()),
        "lists": ("application/json", json.dumps([list(row.values()) for row in rows]).encode()),
        "csv": ("text/csv; charset=utf-8", csv_body(table)),
        "lines": ("application/x-ndjson", "\n".join(map(json.dumps, rows)).encode()),
        "arrow": (ARROW, arrow_body(table)),
    }


@pytest.mark.parametrize("name", ["flowers", "shop"])
def test_every_form_of_rows_gives_the_models_labels(client: Start, models: Path, name: str) -> None:
    table = (flower_table() if name == "flowers" else shop_table()).iloc[::7]
    expected = tell.load(models / name).predict(table).tolist()
    asked = client(name)
    for form, (kind, body) in bodies(table).items():
        found = asked.post("/predict", content=body, headers={"content-type": kind})
        assert found.status_code == 200, (form, found.text)
        assert found.json()["cluster"] == expected, form


def test_columns_are_matched_by_name_and_others_ignored(client: Start) -> None:
    table = flower_table().iloc[::40]
    turned = table[table.columns[::-1]].assign(note="x")
    asked = client()
    plain = asked.post("/predict", json=records(table)).json()
    for kind, body in bodies(turned).values():
        if kind != "application/json" or b"note" in body:
            found = asked.post("/predict", content=body, headers={"content-type": kind})
            assert found.json() == plain, kind


def test_arrays_are_asked_for_as_lists(client: Start, models: Path) -> None:
    rows = blob_rows()[:50]
    asked = client("blobs")
    expected = tell.load(models / "blobs").predict(rows).tolist()
    assert asked.post("/predict", json={"rows": rows.tolist()}).json()["cluster"] == expected
    refused = asked.post("/predict", json=[{"0": 1.0}])
    assert refused.status_code == 422
    assert "send each row as a list of 8 numbers" in refused.json()["error"]


def test_attention_distances_and_rejections(client: Start, models: Path) -> None:
    table = flower_table()
    far = table.copy()
    far.iloc[3] = 40.0
    model, asked = tell.load(models / "flowers"), client()
    call = "/predict?proba=true&distances=1&reject=0.01"
    found = asked.post(call, json=records(far)).json()
    assert found["cluster"] == model.predict(far, reject=0.01).tolist()
    assert found["cluster"][3] == -1
    np.testing.assert_allclose(found["probability"], model.predict_proba(far), atol=1e-6)
    np.testing.assert_allclose(found["distance"], model.transform(far), rtol=1e-5)


def test_labels_come_as_the_caller_accepts_them(client: Start, folder: Any) -> None:
    table, asked = flower_table().iloc[:9], client()
    tell.load(asked.app.state.service.folder)  # type: ignore[attr-defined]
    expected = asked.post("/predict", json=records(table)).json()["cluster"]
    call = {"json": records(table)}
    arrow = asked.post("/predict", **call, headers={"accept": ARROW})
    assert arrow.headers["content-type"] == ARROW
    with pa.ipc.open_stream(arrow.content) as reader:
        assert reader.read_all().column("cluster").to_pylist() == expected
    text = asked.post("/predict", **call, headers={"accept": "text/csv"})
    assert pd.read_csv(io.StringIO(text.text))["cluster"].tolist() == expected


def test_named_clusters_are_called_by_name(client: Start) -> None:
    asked = client()
    service = asked.app.state.service  # type: ignore[attr-defined]
    service.model.name_clusters({0: "first", 1: "second"})
    row = records(flower_table())[:1]
    label = asked.post("/predict", json=row).json()
    assert label["cluster_name"] == [{0: "first", 1: "second"}.get(label["cluster"][0], "")]


def test_a_text_that_the_model_never_saw_is_told(client: Start) -> None:
    row = records(shop_table().iloc[1:2])
    row[0]["city"] = "Atlantis"
    found = client("shop").post("/predict", json=row)
    assert found.status_code == 200
    assert "'Atlantis'" in found.json()["warnings"][0]


# What is wrong, and what the error has to name.
WRONG: list[tuple[Any, str, int]] = [
    ([{"age": 1, "spent": 2, "city": "x"}], "row 0 (counting from 0) lacks the column", 422),
    ([["x", 1, "Ulm", "yes"]], "row 0 (counting from 0) of column 'age' holds 'x'", 422),
    ([[1, 2, "Ulm", "yes"], [1, -5, "", "yes"]], "row 1 (counting from 0) of column 'spent'", 422),
    ([[1, 2, "Ulm", "perhaps"]], "row 0 (counting from 0) of column 'member' holds 'perhaps'", 422),
    ([[1, 1e999, "Ulm", "yes"]], "row 0 (counting from 0) of column 'spent' is infinite", 422),
    ([[1, 10**400, "Ulm", "yes"]], "row 0 (counting from 0) of column 'spent' is infinite", 422),
    ([[1, [2], "Ulm", "yes"]], "row 0 (counting from 0), column 'spent' must be a number", 422),
    ([[1, 2, "Ulm", "yes"], [1, 2]], "row 1 (counting from 0) must be a list of 4 values", 422),
    ([[1, 2]], "row 0 needs 4 values, got 2: age, spent, city, member", 422),
    ([[1, 2, "Ulm", "yes"], {"age": 1}], "row 1 (counting from 0) must be a list of 4 values", 422),
    ([7], "row 0 (counting from 0) must be an object or a list, got 7", 422),
    ([], "at least one row", 422),
    ({"row": []}, "needs a list of rows", 422),
    ("text", "needs a list of rows", 422),
]  # fmt: skip


@pytest.mark.parametrize(("content", "words", "status"), WRONG)
def test_errors_name_row_and_column(client: Start, content: Any, words: str, status: int) -> None:
    body = json.dumps(content).replace("Infinity", "1e999")
    found = client("shop").post(
        "/predict", content=body, headers={"content-type": "application/json"}
    )
    assert found.status_code == status, found.text
    assert words in found.json()["error"]


@pytest.mark.parametrize(
    ("kind", "body", "status", "words"),
    [
        ("application/json", b"[[1, 2, 3, NaN]]", 400, "NaN is not a value of JSON"),
        ("application/json", b"{", 400, "is not JSON"),
        ("application/json", b"[" * 100_000, 400, "is not JSON"),
        ("application/json", b"\xff", 400, "is not JSON"),
        ("text/csv", b"", 422, "at least one row"),
        ("text/csv", b"a,b\n1,2\n", 422, "there is no column 'sepal length'"),
        ("text/csv", b"1,2,3,4\n1,2,x,4\n", 422, "row 1 (counting from 0)"),
        (ARROW, b"no arrow", 400, "is not an Arrow stream"),
        ("text/html", b"", 415, "content type must be one of"),
    ],
)
def test_bodies_that_cannot_be_read(
    client: Start, kind: str, body: bytes, status: int, words: str
) -> None:
    found = client().post("/predict", content=body, headers={"content-type": kind})
    assert found.status_code == status, found.text
    assert words in found.json()["error"]


def test_arrow_streams_that_stand_for_more_than_they_hold(client: Start) -> None:
    asked, table = client(), flower_table()
    packed = arrow_body(table, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    names = table.columns.tolist()
    nulls = pa.table({name: pa.nulls(10**9) for name in names})
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 5000), pa.array(["x" * 100_000]))
    wide = pa.table(dict.fromkeys(names, long))
    nested = pa.table({name: pa.array([[1.0]]) for name in names})
    for body, status, words in (
        (packed, 415, "must not be compressed"),
        (arrow_body(nulls), 413, "at most 100,000 rows"),
        (arrow_body(wide), 413, "decodes to too much text"),
        (arrow_body(nested), 422, "column 'sepal length' must hold numbers"),
    ):
        found = asked.post("/predict", content=body, headers={"content-type": ARROW})
        assert (found.status_code, words in found.text) == (status, True), found.text


@pytest.mark.parametrize("name", ["flowers", "shop", "blobs"])
def test_reasons_are_those_of_explain(client: Start, models: Path, name: str) -> None:
    model = tell.load(models / name)
    if name == "blobs":
        data, row = blob_rows(), blob_rows()[17].tolist()
    else:
        data = flower_table() if name == "flowers" else shop_table()
        row = records(data)[17]
    asked = client(name)
    found = asked.post("/explain", json=[row])
    assert found.status_code == 200, found.text
    reasons = found.json()
    (point,) = explain(model, data, rows=[17], map_method=None, quality=False).points
    assert (reasons["cluster"], reasons["runner_up"]) == (point.cluster, point.runner_up)
    assert reasons["margin"] == pytest.approx(point.margin)
    expected = {one.name: one.amount for one in point.contributions}
    amounts = {one["column"]: one["amount"] for one in reasons["contributions"]}
    assert amounts == pytest.approx(expected)
    assert sum(amounts.values()) == pytest.approx(reasons["margin"])
    if name == "flowers":  # the change that is told moves the row
        moved = row | {one["column"]: float(one["to"]) for one in reasons["change"]["columns"]}
        assert asked.post("/predict", json=[moved]).json()["cluster"] == [
            reasons["change"]["cluster"]
        ]


def test_foreign_and_deep_models_are_served(tmp_path: Path) -> None:
    """What they cannot do is refused in words."""
    from sklearn.cluster import KMeans

    from tell.adapter import as_model
    from tell.exceptions import ParameterError
    from tell.serving.app import Settings, make_app
    from tell.serving.bodies import RowLimits
    from tell.serving.service import Service

    table = flower_table().iloc[::3]
    foreign = as_model(KMeans(3, n_init=1, random_state=0).fit(table.to_numpy()))
    foreign.save(tmp_path / "foreign")
    deep = tell.DeepTELL(2, epochs=1, random_state=0).fit(table)
    deep.save(tmp_path / "deep")
    with pytest.raises(ParameterError, match="--learn needs a model of tell fit"):
        make_app(Service(tmp_path / "foreign", RowLimits()), Settings(), learn=True)
    for name, model, part in (
        ("foreign", foreign, table.to_numpy()[:5]),
        ("deep", deep, table.iloc[:5]),
    ):
        rows = part.tolist() if name == "foreign" else records(part)
        app = make_app(Service(tmp_path / name, RowLimits()), Settings(), learn=name == "deep")
        with TestClient(app) as asked:
            found = asked.post("/predict?proba=1", json=rows).json()
            assert found["cluster"] == model.predict(part).tolist()
            assert np.shape(found["probability"]) == (5, len(model.cluster_centers_))
            reasons = asked.post("/explain", json=rows[:1]).json()
            assert reasons["cluster"] == found["cluster"][0]
            refused = asked.post("/predict?reject=0.1", json=rows)
            assert (refused.status_code, "reject needs" in refused.text) == (422, True)
            if name == "deep":
                assert asked.post("/update", json=rows).json()["rows_seen"] == 55


def test_one_row_is_explained_at_a_time(client: Start) -> None:
    found = client().post("/explain", json=records(flower_table())[:2])
    assert found.status_code == 422
    assert "exactly one row" in found.json()["error"]


def test_what_the_model_is(client: Start, models: Path) -> None:
    asked, model = client(), tell.load(models / "flowers")
    about = asked.get("/model").json()
    assert (about["n_clusters"], about["rows_seen"], about["learns"]) == (3, 150, False)
    assert about["columns"] == flower_table().columns.tolist()
    told = asked.get("/clusters").json()
    assert told["features"] == model.feature_names_in_.tolist()
    clusters = told["clusters"]
    assert [one["rows"] for one in clusters] == model.cluster_sizes_.tolist()
    np.testing.assert_allclose([one["center"] for one in clusters], model.centers_in_units())
    sphere = client("blobs").get("/clusters").json()["clusters"]
    assert "direction" in sphere[0]
    assert "center" not in sphere[0]


def test_measures_for_prometheus(client: Start) -> None:
    asked = client()
    asked.post("/predict", json=records(flower_table())[:7])
    asked.post("/predict", json=[])
    lines = [line for line in asked.get("/metrics").text.splitlines() if line[0] != "#"]
    values = {name: float(value) for name, _, value in (x.rpartition(" ") for x in lines)}
    assert values['tell_rows_total{path="/predict"}'] == 7
    assert values['tell_requests_total{path="/predict",status="200"}'] == 1
    assert values['tell_requests_total{path="/predict",status="422"}'] == 1
    assert values['tell_request_seconds_count{path="/predict"}'] == 2
    assert values["tell_rows_seen"] == 150
    sizes = [v for name, v in values.items() if name.startswith("tell_cluster_rows{")]
    assert sum(sizes) == 150


def test_the_calls_are_described(client: Start) -> None:
    asked = client("shop")
    document = asked.get("/openapi.json").json()
    assert {
        "/predict",
        "/explain",
        "/update",
        "/model",
        "/clusters",
        "/healthz",
        "/metrics",
    } == set(document["paths"])
    page = asked.get("/docs").text
    assert "POST /predict" in page
    assert "<code>spent</code>" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_what_others_save_is_followed(client: Start) -> None:
    asked = client("blobs")
    service = asked.app.state.service  # type: ignore[attr-defined]
    other = tell.load(service.folder)
    other.partial_fit(blob_rows()[:100])
    other.save(service.folder)
    assert service.refresh()
    assert asked.get("/model").json()["rows_seen"] == 2100
    assert not service.refresh()


NUMBERS = Preparation(
    (
        Column("a", treatment="standard", fill=1.5),
        Column("b", treatment="log", fill=3.0),
        Column("c", treatment="robust", fill=-2.0),
        Column("left", treatment="left out"),
    )
)
cells = st.one_of(st.none(), st.floats(-0.9, 1e6), st.just(float("inf")), st.floats(-9, -1))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=5))
def test_numbers_at_once_equal_columns_one_by_one(rows: list[tuple[float | None, ...]]) -> None:
    columns = dict(zip("abc", zip(*rows, strict=True), strict=True))
    batch = pa.record_batch({name: pa.array(part, pa.float64()) for name, part in columns.items()})
    expected = outcome(lambda: NUMBERS.encode(batch, "rows"))
    found = outcome(lambda: NUMBERS.encode_numbers(np.array(rows, np.float64), "rows"))
    np.testing.assert_equal(found, expected)


def outcome(encode: Callable[[], Any]) -> Any:
    """What comes of rows: features and gaps, or all complaints."""
    try:
        return encode()
    except tell.exceptions.InputError as error:
        return sorted(str(error).splitlines())
