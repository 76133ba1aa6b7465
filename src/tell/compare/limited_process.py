"""One method in a process of its own, under limits of time and memory."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tell.metrics import has_class
from tell.schema import NUMBER, TEXT, mapping_of, one_of, optional, record, rule, whole

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Limits:
    """What one run may take: it is ended beyond `seconds` or `gigabytes`.

    `threads` of the linear algebra, or None for as many as there are cores. One thread gives
    times that can be repeated on a machine that others use too.
    """

    seconds: float = 600.0
    gigabytes: float = 8.0
    threads: int | None = None


@dataclass(frozen=True)
class Run:
    """One method with one seed.

    Attributes
    ----------
    status : {"done", "failed", "time", "memory"}
    reason : str
        Why it is not done.
    measures : dict
        Scores, silhouette, calinski_harabasz, seconds and peak_mb (of the whole process).
    note : str
        What a reader of the numbers must know, for example that a sample was clustered.
    sample : int or None
        Rows that a method with n² memory was told to cluster.
    limits : dict
        Under which it ran: a run that hit one is worth repeating under a higher one.
    """

    fingerprint: str
    method: str
    seed: int
    status: str
    reason: str = ""
    measures: dict[str, float] = field(default_factory=dict)
    note: str = ""
    sample: int | None = None
    limits: dict[str, float | None] = field(default_factory=dict)
    labels_file: str = ""


# The line of a run in `runs.jsonl`.
RUN = record(
    {
        **dict.fromkeys(("fingerprint", "method", "reason", "note"), TEXT),
        "labels_file": rule("a name", lambda v: isinstance(v, str) and Path(v).name == v),
        "seed": whole(-(1 << 63), 1 << 63),
        "status": one_of("done", "failed", "time", "memory"),
        "measures": mapping_of(NUMBER),
        "sample": optional(whole(1, 1 << 63)),
        "limits": mapping_of(optional(NUMBER)),
    },
    may_lack=("reason", "measures", "note", "sample", "limits", "labels_file"),
)


@dataclass(frozen=True)
class Job:
    """What the process reads: files with rows and classes, and the method to run."""

    rows: str
    classes: str | None
    n_clusters: int
    shape: tuple[int, ...]
    limits: Limits
    method: str = ""
    sample: int | None = None
    fingerprint: str = ""
    labels_folder: str = ""

    @classmethod
    def prepare(
        cls,
        scratch: Path,
        X: NDArray[np.float32],
        y: NDArray[Any] | None,
        n_clusters: int,
        shape: tuple[int, ...],
        limits: Limits,
    ) -> Job:
        """Write the rows once for all methods."""
        rows, classes = scratch / "rows.npy", scratch / "classes.npy"
        np.save(rows, X)
        if y is not None:
            known = has_class(y)  # the others get -1 and are not scored
            numbers = np.full(len(y), -1)
            numbers[known] = np.unique(np.asarray(y)[known], return_inverse=True)[1]
            np.save(classes, numbers)
        file = None if y is None else str(classes)
        return cls(str(rows), file, n_clusters, tuple(shape), limits)

    def of(self, method: str, sample: int | None, fingerprint: str, labels_folder: Path) -> Job:
        """The same rows for one method."""
        return replace(
            self,
            method=method,
            sample=sample,
            fingerprint=fingerprint,
            labels_folder=str(labels_folder.absolute()),
        )

    def run(self, seed: int, status: str, **facts: Any) -> Run:
        """A run of this job."""
        limits = asdict(self.limits)
        return Run(
            self.fingerprint, self.method, seed, status, sample=self.sample, limits=limits, **facts
        )


def supervise(job: Job, seeds: Sequence[int]) -> Iterator[Run]:
    """Run the seeds in one child process; the first failure or excess ends the method."""
    job_file = Path(job.rows).with_name("job.json")
    job_file.write_text(json.dumps({**asdict(job), "seeds": list(seeds)}))
    complaints = job_file.with_name("stderr.txt")
    with complaints.open("w") as errors:
        process = _start(job_file, errors, job.limits.threads)
    try:
        yield from _watch(process, job, seeds, complaints)
    finally:
        process.kill()
        process.communicate()  # waits, and closes the pipe


def _start(job_file: Path, errors: IO[str], threads: int | None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tell.compare.method_worker", str(job_file)]
    # Idle OpenMP threads sleep: a comparison often shares its machine.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    if threads is not None:
        libraries = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment.update(dict.fromkeys(libraries, str(threads)))
    # Nothing is ever written to the child's input: its end tells the child that we are gone.
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=environment,
    )


def _watch(
    process: subprocess.Popen[str], job: Job, seeds: Sequence[int], complaints: Path
) -> Iterator[Run]:
    """Read the child's messages; between them, hold it against the limits."""
    messages: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_forward, args=(process, messages), daemon=True).start()
    waiting = list(seeds)
    started: float | None = None  # None while the child is still importing
    while waiting:
        try:
            message = messages.get(timeout=POLL_SECONDS)
        except queue.Empty:
            excess = _excess(process.pid, started, job.limits)
            if excess is None:
                continue
            yield job.run(waiting[0], excess[0], reason=excess[1])
            return
        if message is None:
            yield job.run(waiting[0], "failed", reason=_last_words(process, complaints))
            return
        content = json.loads(message)
        if content.get("event") == "start":
            started = time.monotonic()
            continue
        run = Run(**content)
        yield run
        if run.status != "done":
            return
        waiting.remove(run.seed)


def _forward(process: subprocess.Popen[str], messages: queue.Queue[str | None]) -> None:
    if process.stdout is not None:
        for line in process.stdout:
            messages.put(line)
    messages.put(None)


def _excess(pid: int, started: float | None, limits: Limits) -> tuple[str, str] | None:
    if started is not None and time.monotonic() - started > limits.seconds:
        return "time", f"ended after its limit of {limits.seconds:g} s"
    used = resident_bytes(pid) / 1e9
    if used > limits.gigabytes:
        return "memory", f"ended at {used:.1f} GB, over its limit of {limits.gigabytes:g} GB"
    return None


def resident_bytes(pid: int) -> float:
    """Memory that a process holds now; 0 where the system does not tell."""
    try:
        return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS") * 1024
    except OSError:
        pass
    try:
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True)
        return float(shown.stdout or 0) * 1024
    except OSError:
        return 0.0


def peak_megabytes() -> float:
    """The most memory that this process has held so far."""
    try:
        # Not getrusage: on Linux its maximum may be that of the process that started this one.
        return _kilobytes(Path("/proc/self/status"), "VmHWM") / 1024
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _kilobytes(status: Path, name: str) -> float:
    lines = (line.split() for line in status.read_text().splitlines())
    return float(next((words[1] for words in lines if words[0] == f"{name}:"), 0))


def _last_words(process: subprocess.Popen[str], complaints: Path) -> str:
    code = process.wait()
    lines = complaints.read_text(errors="replace").strip().splitlines()
    return f"the process ended with code {code}" + (f": {lines[-1]}" if lines else "")
