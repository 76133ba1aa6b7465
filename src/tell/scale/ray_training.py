"""Training by several Ray actors that are the ranks of one process group.

All ranks wait for each other in every step, so the first that fails ends all of them, at once;
training then begins again, and ends at the model of an undisturbed one.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from tell.exceptions import TellError, WorkerError
from tell.scale.ray_workers import check_workers, import_ray, last_line, start

Errand = TypeVar("Errand")
Result = TypeVar("Result")

RETRIES = 1  # times that training begins again after a process has died


class _Rank:
    """One process of the group."""

    def free_address(self) -> str:
        """An address at which the others can reach this process."""
        import ray

        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{probe.getsockname()[1]}"

    def run(
        self, work: Callable[[Any], Any], errand: bytes, place: str, rank: int, size: int
    ) -> tuple[bool, bytes]:
        """Work as this rank; give the result of rank 0, or the error that a user can act on."""
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"tcp://{place}", rank=rank, world_size=size)
        try:
            found = work(pickle.loads(errand))
        except TellError as error:  # the group stays, as the others may be in the middle of a step
            return False, pickle.dumps(error)
        dist.destroy_process_group()
        return True, pickle.dumps(found if rank == 0 else None)


def train_on_ray(work: Callable[[Errand], Result], errand: Errand, workers: int) -> Result:
    """Run work(errand) in so many processes with a process group; return rank 0's answer."""
    ray = import_ray()
    started, failure = start(workers), ""
    try:
        check_workers(ray, workers)
        given = ray.put(pickle.dumps(errand))
        for _ in range(RETRIES + 1):
            try:
                found: Result = _attempt(ray, work, given, workers)
            except ray.exceptions.RayError as error:
                failure = last_line(error)
            else:
                return found
    finally:
        if started:
            ray.shutdown()
    raise WorkerError(
        f"workers={workers} processes must live until training is over, got a dead one in each of "
        f"{RETRIES + 1} attempts ({failure}); give them more memory, or use fewer"
    )


def _attempt(ray: Any, work: Callable[[Any], Any], given: Any, workers: int) -> Any:
    """Train once; no actor is left behind, whatever happens."""
    ranks = [ray.remote(num_cpus=1)(_Rank).remote() for _ in range(workers)]
    try:
        place = ray.get(ranks[0].free_address.remote())
        tasks = [
            one.run.remote(work, given, place, number, workers) for number, one in enumerate(ranks)
        ]
        waiting = list(tasks)
        while waiting:
            done, waiting = ray.wait(waiting)
            for good, content in ray.get(done):
                if not good:
                    raise pickle.loads(content)
        return pickle.loads(ray.get(tasks[0])[1])
    finally:
        for one in ranks:
            ray.kill(one, no_restart=True)
