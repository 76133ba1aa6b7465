"""Models to be served, fitted once for the whole session; every test gets a copy of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_blobs

from tell import TELL

pytest.importorskip("fastapi", reason="the extra serve is not installed")
from starlette.testclient import TestClient

from tell.serving.app import Settings, make_app
from tell.serving.bodies import RowLimits
from tell.serving.gate import RequestLimits
from tell.serving.service import Service

FLOWERS = ["sepal length", "sepal width", "petal length", "petal width"]


def flower_table() -> pd.DataFrame:
    return pd.DataFrame(load_iris().data, columns=FLOWERS)


def shop_table(rows: int = 400) -> pd.DataFrame:
    """Numbers with gaps and a long tail, a category, a truth value."""
    random = np.random.default_rng(0)
    age = random.integers(18, 80, rows).astype(float)
    age[::17] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "spent": random.lognormal(3, 2, rows),
            "city": random.choice(["Ulm", "Bonn", "Köln"], rows),
            "member": random.choice(["yes", "no"], rows),
        }
    )


def blob_rows() -> np.ndarray[Any, Any]:
    return np.asarray(make_blobs(2000, 8, centers=5, random_state=0)[0])


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("models")
    table = {"geometry": "euclidean", "prepare": True, "random_state": 0}
    TELL(3, **table).fit(flower_table()).save(home / "flowers")
    TELL(4, **table).fit(shop_table()).save(home / "shop")
    TELL(5, random_state=0).fit(blob_rows()).save(home / "blobs")
    return home


@pytest.fixture
def folder(models: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a model which the test may change."""
    return lambda name: Path(shutil.copytree(models / name, tmp_path / name))


@pytest.fixture
def client(folder: Callable[[str], Path]) -> Iterator[Callable[..., TestClient]]:
    """Ask a service in this process."""
    opened: list[TestClient] = []

    def start(
        name: str = "flowers",
        *,
        learn: bool = False,
        requests: RequestLimits | None = None,
        rows: RowLimits | None = None,
        token: str | None = None,
        hosts: tuple[str, ...] | None = None,
    ) -> TestClient:
        service = Service(folder(name), rows or RowLimits())
        settings = Settings(requests or RequestLimits(), token, hosts)
        app = make_app(service, settings, learn=learn)
        app.state.service = service
        opened.append(TestClient(app, raise_server_exceptions=False))
        return opened[-1].__enter__()

    yield start
    for one in opened:
        one.__exit__(None, None, None)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON has them: null for a gap."""
    return [
        {key: None if value != value else value for key, value in row.items()}
        for row in table.to_dict("records")
    ]
