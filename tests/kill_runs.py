"""Kill a run at every place of its life, repeat the command, and compare all rows.

A run's places are before and after each operation on files, and in the middle of each write. `places` counts
them in a run that nobody disturbs; `killed_at` dies at one of them by SIGKILL, in a fork. `test_faults.py`
takes 40 of them; `python tests/kill_runs.py [EVERY]` takes every one (or every so-many-th) of runs on reviews
and on digits, then kills both at random moments.
"""

from __future__ import annotations

import builtins
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from lrp_companion.lab.execute import Jobs, execute
from lrp_companion.lab.folder import read_folder
from lrp_companion.lab.load import load_run
from lrp_companion.sources import Dataset, load_dataset

Step = Callable[[], None]


class _Slow:
    """A file whose every write has a middle, at which a place is counted."""

    def __init__(self, file: Any, step: Step) -> None:
        self.file, self.step = file, step

    def write(self, content: Any) -> None:
        content = memoryview(content).cast("B")
        half = len(content) // 2
        self.file.write(content[:half])
        self.file.flush()
        self.step()
        self.file.write(content[half:])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> _Slow:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


@contextmanager
def watched(step: Step) -> Iterator[None]:
    """Call `step` before and after each operation on files, and in the middle of each write."""
    kept = [(os, name, getattr(os, name)) for name in ("replace", "fsync", "rename")]
    kept += [(Path, name, getattr(Path, name)) for name in ("unlink", "mkdir", "rmdir")]
    real_open = builtins.open

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            step()
            result = real(*given, **more)
            step()
            return result

        return call

    def slow_open(file: Any, mode: str = "r", *given: Any, **more: Any) -> Any:
        opened = real_open(file, mode, *given, **more)
        return _Slow(opened, step) if mode == "xb" and str(file).endswith(".part") else opened

    for owner, name, real in kept:
        setattr(owner, name, around(real))
    builtins.open = slow_open  # type: ignore[assignment]
    try:
        yield
    finally:
        builtins.open = real_open
        for owner, name, real in kept:
            setattr(owner, name, real)


def places(jobs: Jobs, out: Path) -> int:
    """How many places a run's life has; it is run to its end."""
    count = [0]

    def step() -> None:
        count[0] += 1

    with watched(step):
        execute(jobs, out, progress=False)
    return count[0]


def in_fork(work: Callable[[], object]) -> int:
    """Do the work in a fork and return how it ended: an exit code, or minus a signal."""
    sys.stdout.flush(), sys.stderr.flush()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(place: int, jobs: Jobs, out: Path) -> int:
    """Let a run die at a place (from 0)."""

    def work() -> None:
        left = [place]

        def step() -> None:
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1

        with watched(step):
            execute(jobs, out, progress=False)

    return in_fork(work)


def killed_after(seconds: float, jobs: Jobs, out: Path) -> int:
    """Let a run die at a moment."""

    def work() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        execute(jobs, out, progress=False)

    return in_fork(work)


def finished(out: Path) -> set[tuple[str, int]]:
    """Tables and jobs whose rows are there."""
    with suppress(OSError):
        return {
            (name, job)
            for name, table in read_folder(out)[1].items()
            if "_" not in name
            for job in table["job"].to_pylist()
        }
    return set()


def rows(out: Path) -> dict[str, str]:
    """All rows to the last bit, but for the seconds that they took."""
    load_run(out)  # the report can read it
    return {
        name: repr(table.drop_columns([c for c in table.column_names if c == "seconds"]).to_pylist())
        for name, table in read_folder(out)[1].items()
    }


def trial(place: int, jobs: Jobs, out: Path, whole: dict[str, str]) -> str:
    """Kill at a place and go on; "" if nothing was lost, else what was."""
    how = killed_at(place, jobs, out)
    if how != -signal.SIGKILL:
        return f"place {place}: ended with {how}"
    before = finished(out)
    seen: set[tuple[str, int]] = set()
    real = type(jobs).run

    def run(self: Any, table: str, job: int, folder: Any) -> Any:
        seen.add((table, job))
        return real(self, table, job, folder)

    type(jobs).run = run  # type: ignore[method-assign]
    try:
        execute(jobs, out, progress=False)
    finally:
        type(jobs).run = real  # type: ignore[method-assign]
    if lost := before & seen:
        return f"place {place}: {sorted(lost)[:3]} were done again"
    return "" if rows(out) == whole else f"place {place}: other rows"


def review_jobs(model: Path, limit: int = 3) -> Jobs:
    """A small run on reviews, with every table."""
    from lrp_companion.lab.review_jobs import TextJobs
    from lrp_companion.loading.classifier import load_classifier

    clf = load_classifier(model, dtype="float64")
    data = load_dataset("sst2", source="embedded")
    return TextJobs(clf, data, methods=("loo", "attnlrp"), masks="all", limit=limit)


def digit_jobs(limit: int = 2) -> Jobs:
    """A small run on drawn digits: two nets."""
    from lrp_companion.lab.digit_invariance import MnistJobs

    draw = np.random.default_rng(0)
    images, labels = draw.random((24, 14, 14)), np.arange(24) % 10
    ids = tuple(map(str, range(24)))
    train, test = (
        Dataset("mnist", split, "drawn", ids, labels, images=images) for split in ("train", "test")
    )
    return MnistJobs(train, test, nets=2, limit=limit)


def main(every: int = 1) -> int:
    """All kills; print what was lost; return the exit code."""
    from tiny_models import save

    problems, kills, start = [], 0, time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        for name, jobs in (
            ("reviews", review_jobs(save(place / "model", layers=3))),
            ("digits", digit_jobs()),
        ):
            count = places(jobs, place / name)
            whole = rows(place / name)
            for k in range(0, count, every):
                problems += filter(None, [trial(k, jobs, place / f"{name}-{k}", whole)])
                kills += 1
            print(f"{name}: {count} places, every {every}: {len(problems)} problems", flush=True)
            draw = random.Random(0)
            out = place / f"{name}-random"
            began = time.monotonic()
            execute(jobs, place / f"{name}-timed", progress=False)
            took = time.monotonic() - began
            for _ in range(33 // every or 1):
                kept = finished(out)
                killed_after(draw.random() * took, jobs, out)
                kills += 1
                problems += [] if kept <= finished(out) else [f"{name}: rows were lost at a random moment"]
            execute(jobs, out, progress=False)
            problems += [] if rows(out) == whole else [f"{name}: other rows after random kills"]
    print(f"{kills} kills, {len(problems)} problems, {time.monotonic() - start:.0f} s")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
