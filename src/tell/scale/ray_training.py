"""Training by several processes of Ray Train that are the ranks of one process group."""

from __future__ import annotations

import logging
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tell.exceptions import TellError, WorkerError
from tell.scale.ray_workers import check_workers, import_ray, start

Errand = TypeVar("Errand")
Result = TypeVar("Result")

RETRIES = 1  # times that training starts again after a process died: it ends at the same model


class _Mailbox:
    """Where processes leave what they found: the first error, and the result of rank 0."""

    def __init__(self) -> None:
        self._error: bytes | None = None
        self._result: bytes | None = None

    def put(self, good: bool, content: bytes) -> None:
        if good:
            self._result = content
        elif self._error is None:
            self._error = content

    def content(self) -> tuple[bool, bytes | None]:
        return self._error is None, self._result if self._error is None else self._error


def train_on_ray(work: Callable[[Errand], Result], errand: Errand, workers: int) -> Result:
    """Run work(errand) in so many processes with a process group; return rank 0's answer."""
    ray = import_ray()
    started = start(workers)
    try:
        check_workers(ray, workers)
        # Whoever runs out of memory must not take what the others said with it.
        mailbox = ray.remote(num_cpus=0)(_Mailbox).remote()
        given = ray.put(pickle.dumps(errand))
        config = {"work": work, "errand": [given], "mailbox": mailbox}
        good, content, failure = True, None, ""
        for _ in range(RETRIES + 1):
            failure = _fit(config, workers)
            good, content = ray.get(mailbox.content.remote())
            if content is not None:
                break
    finally:
        if started:
            ray.shutdown()
    if content is None:
        raise WorkerError(
            f"workers={workers} processes must live until training is over, got a dead one "
            f"({failure}); give them more memory, or use fewer"
        )
    answer = pickle.loads(content)
    if good:
        found: Result = answer
        return found
    raise answer


def _fit(config: dict[str, Any], workers: int) -> str:
    """Train; return the last line of what went wrong, if anything did."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    with tempfile.TemporaryDirectory(prefix="tell-training-") as folder, _quiet():
        trainer = TorchTrainer(
            _rank,
            train_loop_config=config,
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(storage_path=folder),
        )
        try:
            trainer.fit()
        except Exception as error:
            return str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
    return ""


def _rank(config: dict[str, Any]) -> None:
    """What each process does; an error in one of them ends all, as they wait for each other."""
    import ray
    import torch.distributed as dist

    mailbox = config["mailbox"]
    try:
        found = config["work"](pickle.loads(ray.get(config["errand"][0])))
    except TellError as error:
        ray.get(mailbox.put.remote(False, pickle.dumps(error)))
        raise
    if dist.get_rank() == 0:
        ray.get(mailbox.put.remote(True, pickle.dumps(found)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray Train's own reports off the screen, unless RAY_TRAIN_VERBOSE asks for them."""
    logger = logging.getLogger("ray.train")
    before = logger.level
    if not os.environ.get("RAY_TRAIN_VERBOSE"):
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Ray's own
            yield
    finally:
        logger.setLevel(before)
