"""Rows that callers bring: learned whole or not at all, and on the disk before the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.serving.conftest import blob_rows, flower_table, records
from tests.serving.test_answers import csv_body

import tell
from tell import TELL
from tell.exceptions import ModelFileError
from tell.persistence import JOURNAL, LEARNER
from tell.runtime.journal import MOST_EVENTS, MOST_POINTS, MOST_ROWS, Journal
from tell.serving.bodies import RowLimits
from tell.serving.refusals import RequestError
from tell.serving.service import Service
from tell.serving.updates import Updates, in_steps

Start = Callable[..., TestClient]


def served(client: TestClient) -> Service:
    found: Service = client.app.state.service  # type: ignore[attr-defined]
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LEARNER}


def test_rows_are_learned_as_partial_fit_learns_them_and_saved(client: Start) -> None:
    asked = client("blobs", learn=True)
    folder = served(asked).folder
    by_hand, rows = tell.load(folder), blob_rows()[:1500]
    by_hand.partial_fit(rows[:1024])
    by_hand.partial_fit(rows[1024:])
    found = asked.post("/update", json=rows.tolist())
    assert found.status_code == 200, found.text
    assert (found.json()["rows"], found.json()["rows_seen"]) == (1500, 3500)
    assert found.json()["running_loss"] == pytest.approx(by_hand.loss_)
    on_disk = tell.load(folder)
    np.testing.assert_array_equal(on_disk.cluster_centers_, by_hand.cluster_centers_)
    assert on_disk.n_seen_ == 3500
    assert on_disk.metadata_["rows_seen"] == 1500  # the command's own count, from its first save
    assert asked.get("/model").json()["rows_seen"] == 3500


def test_a_service_without_learn_refuses_rows(client: Start) -> None:
    found = client("blobs").post("/update", json=blob_rows()[:5].tolist())
    assert found.status_code == 403
    assert "--learn" in found.json()["error"]


@pytest.mark.parametrize(
    "body", [b"sepal length,sepal width,petal length,petal width\n1,2,3,4\n1,2,x,4\n", b"a\n1\n"]
)
def test_nothing_of_a_bad_batch_is_learned(client: Start, body: bytes) -> None:
    asked = client("flowers", learn=True)
    before = contents(served(asked).folder)
    found = asked.post("/update", content=body, headers={"content-type": "text/csv"})
    assert found.status_code == 422
    assert contents(served(asked).folder) == before
    assert asked.get("/model").json()["rows_seen"] == 150


def test_a_step_that_fails_takes_the_steps_before_it_back(
    client: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, rows = client("blobs", learn=True), blob_rows()
    learn = TELL.partial_fit

    def fails_at_the_end(self: TELL, X: Any) -> TELL:
        if len(X) < 1024:
            raise tell.exceptions.InputError("the last step cannot be taken")
        return learn(self, X)

    monkeypatch.setattr(TELL, "partial_fit", fails_at_the_end)
    refused = asked.post("/update", json=rows[:1500].tolist())
    assert (refused.status_code, refused.json()["error"]) == (422, "the last step cannot be taken")
    monkeypatch.undo()
    folder = served(asked).folder
    by_hand = tell.load(folder).partial_fit(rows[:10])
    assert asked.post("/update", json=rows[:10].tolist()).json()["rows_seen"] == 2010
    np.testing.assert_array_equal(tell.load(folder).cluster_centers_, by_hand.cluster_centers_)


def test_what_cannot_be_saved_is_not_learned(
    client: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = client("blobs", learn=True)

    def full(self: TELL, folder: Path, metadata: Any = None) -> None:
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(TELL, "save", full)
    refused = asked.post("/update", json=blob_rows()[:50].tolist())
    assert refused.status_code == 503
    assert str(served(asked).folder) not in refused.text
    monkeypatch.undo()
    assert asked.get("/model").json()["rows_seen"] == 2000
    assert asked.post("/update", json=blob_rows()[:50].tolist()).json()["rows_seen"] == 2050


def test_many_callers_at_a_time_lose_nothing(client: Start) -> None:
    asked, rows = client("blobs", learn=True), blob_rows()
    codes: list[int] = []

    def teach(part: Any) -> None:
        codes.append(asked.post("/update", json=part.tolist()).status_code)

    threads = [threading.Thread(target=teach, args=(part,)) for part in np.split(rows[:400], 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [200] * 20
    assert tell.load(served(asked).folder).n_seen_ == 2400


def test_rows_that_another_process_saved_meanwhile_are_kept(client: Start) -> None:
    asked = client("blobs", learn=True)
    folder = served(asked).folder
    other = tell.load(folder)
    other.partial_fit(blob_rows()[:100])
    other.save(folder)
    found = asked.post("/update", json=blob_rows()[100:150].tolist())
    assert found.status_code == 200
    assert tell.load(folder).n_seen_ == 2150


def test_only_one_service_learns_into_a_folder(folder: Callable[[str], Path]) -> None:
    place = folder("blobs")
    first = Updates(Service(place, RowLimits()))
    with pytest.raises(ModelFileError, match="being served with --learn by another process"):
        Updates(Service(place, RowLimits()))
    first.close()
    assert not (place / LEARNER).exists()
    Updates(Service(place, RowLimits())).close()


def test_a_batch_that_nobody_waits_for_is_not_learned(folder: Callable[[str], Path]) -> None:
    service = Service(folder("blobs"), RowLimits())
    updates = Updates(service)
    with service.turn:  # the first waits for its turn, the second behind it
        chunks = service.served.reader.read(b"[[1,2,3,4,5,6,7,8]]", "application/json")
        first, second = updates.submit(chunks), updates.submit(chunks)
        while not first.running():
            pass
        assert second.cancel() or second.running()
    first.result(timeout=30)
    updates.close()
    assert tell.load(service.folder).n_seen_ == 2001 + int(not second.cancelled())


def test_steps_are_those_of_the_command() -> None:
    from tell.data.chunks import Chunk

    chunks = [Chunk(np.zeros((2500, 2)), None, 0), Chunk(np.zeros((3, 2)), None, 0)]
    steps = list(in_steps(chunks))
    assert [(step.start, len(step)) for step in steps] == [
        (0, 1024), (1024, 1024), (2048, 452), (2500, 3),
    ]  # fmt: skip


def test_drift_is_told_and_noted(client: Start) -> None:
    asked = client("flowers", learn=True)
    drifted = flower_table() + 4.0
    found = asked.post("/update", content=csv_body(drifted), headers={"content-type": "text/csv"})
    assert found.json()["drift"] is True
    assert "the data drifts from what the model learned" in found.json()["warnings"][0]
    journal = Journal.read(served(asked).folder)
    assert next(event["kind"] for event in journal.events) == "drift"
    assert journal.points[-1]["sizes"] == tell.load(served(asked).folder).cluster_sizes_.tolist()
    values = asked.get("/metrics").text
    assert "tell_drift 1.0" in values
    assert "tell_drift_limit" in values


def test_rows_that_do_not_fit_are_noted_with_their_reason(client: Start) -> None:
    asked, rows = client("flowers", learn=True), records(flower_table())
    odd = rows[0] | {"petal width": 30.0}
    asked.post("/update", json=[*rows[:20], odd])
    found = [row for row in Journal.read(served(asked).folder).rows if row["rejected"]]
    assert found[0]["row"] == 150 + 20
    assert "petal width = 30" in found[0]["reason"]
    assert "of the distance" in found[0]["reason"]


def test_the_journal_is_bounded_and_forgiving(folder: Callable[[str], Path]) -> None:
    place = folder("flowers")
    model, journal = tell.load(place), Journal.read(place)
    for seen in range(3 * MOST_POINTS):
        model._state = type(model._state)(**{**vars(model._state), "seen": 151.0 + seen})
        journal.add_model(model)
        journal.add_event("drift", "x", seen)
    assert len(journal.points) <= MOST_POINTS
    assert journal.points[-1]["seen"] == 150 + 3 * MOST_POINTS
    assert len(journal.events) == MOST_EVENTS
    journal.write(place)
    assert len(Journal.read(place).points) == len(journal.points)
    assert len(Journal.read(place).rows) <= MOST_ROWS
    for damage in (b"", b"[1]", b'{"points": 3}', b"\xff", b"[" * 100_000):
        (place / JOURNAL).write_bytes(damage)
        assert Journal.read(place).points == []


def test_a_journal_that_fails_stops_nobody(client: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client("blobs", learn=True)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Journal, "add_model", broken)
    for seen in (2010, 2020):
        found = asked.post("/update", json=blob_rows()[:10].tolist())
        assert (found.status_code, found.json()["rows_seen"]) == (200, seen)
    assert tell.load(served(asked).folder).n_seen_ == 2020


def test_another_fit_has_another_past(folder: Callable[[str], Path]) -> None:
    place = folder("flowers")
    model, journal = tell.load(place), Journal()
    journal.add_model(model)
    journal.write(place)
    model.save(place)
    assert (place / JOURNAL).exists()
    TELL(2, random_state=0).fit(flower_table()).save(place)
    assert not (place / JOURNAL).exists()


def test_requests_know_their_status() -> None:
    error = RequestError(413, "too much")
    assert (error.status, str(error)) == (413, "too much")


def test_clusters_that_are_born_and_retired_keep_their_numbers(tmp_path: Path) -> None:
    from tell.serving.app import Settings, make_app

    random = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0], [60.0, 60.0]])

    def rows(*clusters: int, count: int = 200) -> Any:
        where = random.choice(clusters, count)
        return (places[where] + random.standard_normal((count, 2))).tolist()

    model = TELL(3, geometry="euclidean", grow=100, random_state=0).fit(rows(0, 1, 2, count=600))
    first = int(model.predict([places[0].tolist()])[0])
    model.save(tmp_path / "growing")
    service = Service(tmp_path / "growing", RowLimits())
    with TestClient(make_app(service, Settings(), learn=True)) as asked:
        news: list[str] = asked.post("/update", json=rows(0, 1, 2)).json()["warnings"]
        for _ in range(8):  # none of the first one any more, and some of a new one
            news += asked.post("/update", json=rows(1, 2, 3)).json()["warnings"]
        assert any("cluster 3 was born" in text for text in news)
        assert any(f"cluster {first} was retired" in text for text in news)
        clusters = asked.get("/clusters").json()["clusters"]
        assert [one["retired"] for one in clusters] == [j == first for j in range(4)]
        born = [places[3].tolist()]
        found = asked.post("/explain", json=born).json()
        assert (found["cluster"], asked.post("/predict", json=born).json()) == (3, {"cluster": [3]})
        assert str(first) not in found["attention"]
        journal = Journal.read(service.folder)
        assert {"growth"} <= {event["kind"] for event in journal.events}
        assert len(journal.points[-1]["sizes"]) == 4
        assert len(journal.points[0]["sizes"]) == 3  # from before the birth
        asked.post("/update", json=[*rows(1), [64.5, 64.5], [15.0, 15.2]])
    noted = Journal.read(service.folder).rows
    last = [row["cluster"] for row in noted if row["row"] >= 600 + 9 * 200]
    assert last
    assert first not in last
