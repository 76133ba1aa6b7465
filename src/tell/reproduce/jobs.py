"""Tasks side by side in processes of one thread each, which do not outlive their parent."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")

_SPAWN = get_context("spawn")  # a fork of a process that has threads may hang
# Read when the libraries are imported; idle threads sleep, because others work here too.
_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_ONE_THREAD = {**dict.fromkeys(_LIBRARIES, "1"), "OMP_WAIT_POLICY": "PASSIVE"}


class ProcessEndedError(RuntimeError):
    """A process was ended in the midst of its task, for example because memory ran out."""


def side_by_side(
    work: Callable[[Task], Answer],
    tasks: Sequence[Task],
    jobs: int,
    *,
    makes: Callable[[Task], Hashable | None] = lambda task: None,
) -> Iterator[tuple[Task, Answer | ProcessEndedError]]:
    """Call `work` with every task in at most `jobs` processes; yield answers as they come.

    What `work` raises is raised here and ends all; that a process was killed is an answer.

    Parameters
    ----------
    work : function of a module, or a `functools.partial` of one
    makes : names what a task makes that others need too: they wait until it has ended
    """
    pending = list(tasks)
    idle: list[_Worker] = []
    busy: dict[_Worker, tuple[Task, Hashable | None]] = {}
    try:
        while pending or busy:
            made = {name for _, name in busy.values() if name is not None}
            task = next((task for task in pending if makes(task) not in made), None)
            if task is not None and len(busy) < jobs:
                pending.remove(task)
                worker = idle.pop() if idle else _Worker(work)
                worker.pipe.send(task)
                busy[worker] = task, makes(task)
                continue
            worker = _first_ready(busy)
            task, _ = busy[worker]
            answer = worker.answer()
            del busy[worker]
            if not isinstance(answer, ProcessEndedError):
                idle.append(worker)
            if isinstance(answer, _Raised):
                raise answer.error
            yield task, answer
    finally:
        for worker in (*idle, *busy):
            worker.end()


class _Worker:
    """A process that does one task after another."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(theirs, work))
        with _one_thread():
            self.process.start()
        theirs.close()

    def answer(self) -> Any:
        """Wait for what the task gave, or for the end of the process."""
        try:
            return self.pipe.recv()
        except EOFError:
            self.end()
            return ProcessEndedError(f"its process ended with code {self.process.exitcode}")

    def end(self) -> None:
        """End the process at once: whatever it was writing is whole or not there."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


class _Raised:
    """What a task raised, on its way to the parent."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _first_ready(workers: dict[_Worker, Any]) -> _Worker:
    ready = wait([worker.pipe for worker in workers])[0]
    return next(worker for worker in workers if worker.pipe is ready)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that are started inside import their libraries with a single thread."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """Do the tasks that come through the pipe, in the process of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            answer = work(task)
        except Exception as error:  # raised again where the answer is read
            answer = _Raised(error)
        pipe.send(answer)


def _end_with_parent() -> None:
    """End this process when its parent is gone, even in the midst of a task."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)
