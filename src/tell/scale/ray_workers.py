"""Shards as Ray actors, on this machine or on a cluster."""

from __future__ import annotations

import logging
import os
import pickle
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tell.data.chunks import Source
from tell.exceptions import MissingDependencyError, ParameterError, WorkerError
from tell.scale.shards import Shard, split
from tell.scale.workers import answer, values

RETRIES = 3  # times that a worker which died is started afresh
PATIENCE = 60.0  # seconds that a cluster which lost a node has to get another one


def import_ray() -> Any:
    """Import Ray, quietly."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of the change
    try:
        import ray
    except ImportError:
        raise MissingDependencyError(
            "workers needs Ray, which is not installed: pip install 'tell-clustering[ray]'"
        ) from None
    return ray


def start(workers: int | None = None, address: str | None = None) -> bool:
    """Connect to a cluster, or start one on this machine; say whether this call did it."""
    ray = import_ray()
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        cpus = max(workers or 1, os.cpu_count() or 1)
        options |= {"num_cpus": cpus, "include_dashboard": False, "address": "local"}
    else:
        options["address"] = address
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of Ray's own defaults
            ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise WorkerError(
            f"Ray cannot be reached at {address or 'this machine'} ({error}); start it with "
            "'ray start --head', or leave the address out"
        ) from None
    return True


def check_workers(ray: Any, workers: int | None) -> int:
    """How many workers there can be; None asks for all CPUs of the cluster."""
    cpus = int(ray.cluster_resources().get("CPU", 1))
    if workers is not None and workers > cpus:
        raise ParameterError(
            f"workers must be at most the {cpus} CPUs of the Ray cluster, got {workers}"
        )
    return workers or cpus


def last_line(error: Exception) -> str:
    """What an error of Ray says in the end, without the way it took."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


class _Actor:
    """A process with one shard. Requests and answers are bytes, so that they can be counted."""

    def __init__(self, source: Source, first: int, last: int, cache: int) -> None:
        self._shard = Shard(source, first, last, cache=cache, threads=1)

    def call(self, request: bytes) -> bytes:
        method, arguments = pickle.loads(request)
        return pickle.dumps(answer(self._shard, method, arguments))

    def done(self) -> int:
        """Rows that the call in another thread is through with."""
        return self._shard.done

    def pid(self) -> int:
        return os.getpid()


class RayWorkers:
    """One actor per shard.

    Parameters
    ----------
    workers : int or None
        None: as many as the cluster has CPUs.
    cache : int
        Bytes of rows that each worker keeps between passes.
    """

    told: Callable[[float], None] | None = None

    def __init__(self, source: Source, n_rows: int, workers: int | None, cache: int) -> None:
        self.actors: list[Any]
        self._started, self.actors = start(workers), []
        self._ray, self.bytes_moved, self._n_rows = import_ray(), 0, n_rows
        self._ranges = split(n_rows, source.n_features, self._affordable(workers))
        # Small arguments travel with the actor itself, and are there when it must start again.
        # One thread works, the other says how far it is.
        actor = self._ray.remote(
            num_cpus=1, max_restarts=RETRIES, max_task_retries=RETRIES, max_concurrency=2
        )(_Actor)
        self.actors = [actor.remote(source, first, last, cache) for first, last in self._ranges]
        self.n_workers = len(self.actors)

    def _affordable(self, workers: int | None) -> int:
        try:
            return check_workers(self._ray, workers)
        except ParameterError:
            self.close()
            raise

    def each(self, method: str, *arguments: Any) -> list[Any]:
        request = pickle.dumps((method, arguments))
        shared = self._ray.put(request)
        asked = [actor.call.remote(shared) for actor in self.actors]
        answers = self._collect(asked)
        self.bytes_moved += len(request) * len(asked) + sum(map(len, answers))
        return values([pickle.loads(reply) for reply in answers])

    def _collect(self, asked: list[Any]) -> list[bytes]:
        waiting, heard = list(asked), time.monotonic()
        while waiting:
            ready, waiting = self._ray.wait(waiting, timeout=1.0)
            if self.told is not None:
                self._tell(self.told)
            if ready or self._cpus() >= self.n_workers:
                heard = time.monotonic()
            elif time.monotonic() - heard > PATIENCE:
                raise WorkerError(
                    f"workers={self.n_workers} need as many CPUs, but the Ray cluster has lost "
                    f"nodes and only {self._cpus()} are left; add nodes or use fewer workers, and "
                    "fit again"
                )
        return [self._reply(task, rows) for task, rows in zip(asked, self._ranges, strict=True)]

    def _cpus(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def _tell(self, told: Callable[[float], None]) -> None:
        """Ask all workers how far they are; one that is just starting again is not waited for."""
        with suppress(self._ray.exceptions.RayError):
            done = self._ray.get([actor.done.remote() for actor in self.actors], timeout=1.0)
            told(sum(done) / self._n_rows)

    def _reply(self, task: Any, rows: tuple[int, int]) -> bytes:
        try:
            return bytes(self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            raise WorkerError(
                f"the worker for rows {rows[0]} to {rows[1]} failed {RETRIES + 1} times "
                f"({last_line(error)}); give it more memory or use more workers, and fit again"
            ) from error

    def close(self) -> None:
        """End the actors, and Ray if it was started for them."""
        for actor in self.actors:
            self._ray.kill(actor, no_restart=True)
        if self._started:
            self._ray.shutdown()
