"""What docs/deploy.md shows is what the service answers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tell import TELL
from tell.cli.serve import command
from tell.serving.app import Settings, make_app
from tell.serving.bodies import RowLimits
from tell.serving.service import Service

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "deploy.md").read_text(encoding="utf-8")
CALLS = re.findall(r"^```sh\ncurl localhost:8000(\S+) --json '(.*?)'\n```\n```json\n(.*?)```", PAGE,
                   re.M | re.S)  # fmt: skip


@pytest.fixture(scope="module")
def customers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `tell fit customers.csv -k 5 --label status` makes it."""
    from tell.data.sources import open_source
    from tell.data.table_preparation import TablePreparation

    source = open_source(str(DOCS / "tutorials" / "data" / "customers.csv"), label="status")
    folder = tmp_path_factory.mktemp("customers") / "model"
    prepared = TablePreparation().learn(source).apply(source)  # type: ignore[arg-type]
    TELL(5, geometry="euclidean", random_state=0).fit(prepared).save(folder)
    return folder


def test_the_calls_of_the_page(customers: Path) -> None:
    assert len(CALLS) == 2
    with TestClient(make_app(Service(customers, RowLimits()), Settings())) as client:
        for path, body, answer in CALLS:
            headers = {"content-type": "application/json"}
            assert client.post(path, content=body, headers=headers).json() == json.loads(answer)


def test_the_limits_of_the_page() -> None:
    from inspect import signature

    options = {name: one.default for name, one in signature(command).parameters.items()}
    table = dict(re.findall(r"`--(max-\w+)` \| ([\d,]+(?: MiB)?) \|", PAGE))
    assert {name: text.replace(",", "").replace(" ", "") for name, text in table.items()} == {
        name.replace("_", "-"): f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in options.items()
        if name.startswith("max_")
    }
