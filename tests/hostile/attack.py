"""Damage files by the thousand and count what happens: `python -m tests.hostile.attack`.

Every case is determined by the seed and its number. A file must be read or refused with an error of
`tell`'s own; anything else (another error, a crash, more memory or time than allowed) is a failure.
Cases run in a process of their own, which is started again behind a case that ended it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 20.0  # of computing for one case: a busy machine is no failure
GIGABYTES = 2.0  # beyond what the process takes at its start
BATCH = 2_000  # cases of one process


class OvertimeError(BaseException):
    """A case took too long; not an `Exception`, so that nothing on the way takes it for one."""


def run_case(seed: int, number: int, formats: list[tuple[Any, Path, bytes]]) -> dict[str, Any]:
    """Damage one file, read it and say how that ended."""
    from tell.exceptions import TellError

    rng = random.Random(f"{seed}-{number}")
    format_, path, whole = formats[number % len(formats)]
    path.write_bytes(format_.hurt(rng, whole))
    outcome: dict[str, Any] = {"case": number, "format": format_.name}
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        format_.read(path)
        outcome["result"] = "read"
    except TellError:
        outcome["result"] = "refused"
    except (Exception, OvertimeError) as error:
        outcome["result"] = f"{type(error).__name__}"
        outcome["where"] = "".join(traceback.format_exception(error)[-3:])[-900:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        path.write_bytes(whole)
    return outcome


def work(seed: int, first: int, last: int) -> None:
    """Run cases and write one line about each to standard output."""
    from .formats import FORMATS

    def overtime(*_: object) -> None:
        raise OvertimeError

    signal.signal(signal.SIGPROF, overtime)
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print must not mix with it
    with tempfile.TemporaryDirectory() as scratch:
        formats = []
        for place, format_ in enumerate(FORMATS):
            folder = Path(scratch) / str(place)
            folder.mkdir()
            path = format_.make(folder)
            format_.read(path)  # whole, it is read
            formats.append((format_, path, path.read_bytes()))
        _limit_memory()
        for number in range(first, last):
            out.write(json.dumps(run_case(seed, number, formats)) + "\n")
            out.flush()


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(GIGABYTES * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def outcomes(seed: int, cases: int, end: float) -> Iterator[dict[str, Any]]:
    """Run cases in processes; one that dies is a failure of the case it was at."""
    number = 0
    while number < cases and time.monotonic() < end:
        last = min(number + BATCH, cases)
        command = [sys.executable, "-m", "tests.hostile.attack", "--work", str(seed)]
        command += [str(number), str(last)]
        first = number
        with (
            tempfile.TemporaryFile("w+") as complaints,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=complaints, text=True, cwd=ROOT
            ) as worker,
        ):
            assert worker.stdout is not None
            for line in worker.stdout:
                outcome = json.loads(line)
                number = outcome["case"] + 1
                yield outcome
                if time.monotonic() > end:
                    worker.kill()
                    return
            code = worker.wait()
            complaints.seek(0)
            words = complaints.read()[-900:]
        if number == first == 0:
            raise RuntimeError(f"no case was run: {words}")
        if number < last:
            result = f"process ended with {code}"
            yield {"case": number, "format": "?", "result": result, "where": words}
            number += 1


def attack(seed: int, cases: int, seconds: float) -> dict[str, Any]:
    """Run an attack and sum it up."""
    started = time.monotonic()
    by_format: dict[str, Counter[str]] = {}
    failures: Counter[str] = Counter()
    examples: list[dict[str, Any]] = []
    total = 0
    for outcome in outcomes(seed, cases, started + seconds):
        total += 1
        result = outcome["result"]
        by_format.setdefault(outcome["format"], Counter())[result] += 1
        if result not in ("read", "refused"):
            failures[f"{outcome['format']}: {result}"] += 1
            if len(examples) < 40:
                examples.append(outcome)
    return {
        "seed": seed,
        "cases": total,
        "failures": dict(failures.most_common()),
        "formats": {name: dict(found) for name, found in sorted(by_format.items())},
        "seconds": round(time.monotonic() - started),
        "examples": examples,
    }


def main() -> int:
    """Read the command line, attack, and end with 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--out", type=Path, help="file for the summary")
    parser.add_argument("--work", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*options.work)
        return 0
    summary = attack(options.seed, options.cases, options.seconds)
    text = json.dumps(summary, indent=1, ensure_ascii=True)
    if options.out:
        options.out.write_text(text + "\n")
    print(text)
    return 1 if summary["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
