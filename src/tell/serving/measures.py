"""What Prometheus reads at /metrics: requests and rows as they pass, the model as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from tell.contract import cluster_names
from tell.runtime.journal import rows_seen
from tell.serving.service import Service

#: Upper ends of the latencies that are told apart, in seconds.
BUCKETS = (
    0.0005,
    0.001,
    0.002,
    0.003,
    0.005,
    0.0075,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    10,
)
#: What the latest entry of a stream says, and what it is called here.
_STREAM = {
    "loss": ("tell_batch_loss", "Mean loss of the batch learned last, before it was learned"),
    "running_loss": ("tell_running_loss", "Mean loss of the latest rows learned"),
    "baseline_loss": ("tell_baseline_loss", "Mean loss that is usual"),
    "drift_limit": ("tell_drift_limit", "Running loss beyond which the data is said to drift"),
    "far_share": ("tell_far_share", "Share of the last batch that lay unusually far out"),
    "movement": ("tell_center_movement", "How far the centres moved in the last step"),
    "drift": ("tell_drift", "1 while the data drifts from what the model learned"),
}


class Measures:
    """Counts what passes through a service."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "tell_requests", "Requests answered", ["path", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "tell_request_seconds",
            "Seconds from a request to its answer",
            ["path"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._rows = Counter(
            "tell_rows", "Rows labelled, explained or learned", ["path"], registry=self.registry
        )
        self.registry.register(_ModelCollector(service))

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Note one answer."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def add_rows(self, path: str, rows: int) -> None:
        """Note rows."""
        self._rows.labels(path).inc(rows)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return bytes(generate_latest(self.registry))


class _ModelCollector:
    """The state of the model, read when somebody asks."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        """One gauge after the other."""
        model = self._service.model
        about = model.describe()
        yield GaugeMetricFamily("tell_rows_seen", "Rows learned in all", value=rows_seen(model))
        if about.loss is not None:
            yield GaugeMetricFamily("tell_loss", "Mean clustering loss per row", value=about.loss)
        last = (getattr(model, "stream_", None) or [{}])[-1]
        for key, (name, text) in _STREAM.items():
            if key in last:
                yield GaugeMetricFamily(name, text, value=float(last[key]))
        if about.sizes is not None:
            names = cluster_names(model)
            sizes = GaugeMetricFamily(
                "tell_cluster_rows", "Rows behind each centre", labels=["cluster", "name"]
            )
            for j, size in enumerate(about.sizes):
                sizes.add_metric([str(j), names.get(j, "")], float(size))
            yield sizes
