"""The OpenAPI document is true: what it allows is answered as it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient

from tell.serving.app import Settings, make_app
from tell.serving.bodies import ARROW, CSV, LINES, RowLimits
from tell.serving.service import Service

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")


@schemathesis.serializer(CSV, LINES, ARROW)
def as_bytes(context: Any, value: Any) -> bytes:
    """Texts and bytes as they are."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")


def test_schemathesis_finds_nothing(folder: Callable[[str], Path]) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    app = make_app(Service(folder("shop"), RowLimits()), Settings(), learn=True)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    asked: set[str] = set()

    def check(operation: Any) -> None:
        @settings(
            max_examples=12 if operation.method.lower() == "post" else 2,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
            deadline=None,
        )
        @given(case=operation.as_strategy())
        def run(case: Any) -> None:
            asked.add(case.path)
            case.call_and_validate(checks=checks)

        run()

    with TestClient(app):  # begins and ends the learning
        for found in schema.get_all_operations():
            check(found.ok())
    assert asked == {
        "/predict", "/explain", "/update", "/model", "/clusters", "/healthz", "/metrics",
    }  # fmt: skip
