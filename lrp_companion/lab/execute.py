"""Run jobs, keep finished ones, and resume a stopped run, in one process or many.

A run is a configuration (hashed into a key), tables in a fixed order, and independent jobs in each. Of n
processes, each takes every n-th job. A job's rows are written when it is done, so a run that is stopped in
any way loses only the current job.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import torch
from tqdm import tqdm

from lrp_companion.checks import InputError, as_path
from lrp_companion.lab.folder import FORMAT, MANIFEST, RunFolder, key_of, open_folder, read_folder
from lrp_companion.provenance import surroundings
from lrp_companion.terminal import complain


class Jobs(Protocol):
    """A run for `execute`: a configuration and tables of independent jobs, which may read earlier tables."""

    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def manifest(self) -> Mapping[str, Any]: ...
    @property
    def tables(self) -> Sequence[str]: ...

    def jobs(self, table: str) -> Sequence[int]: ...
    def cost(self, table: str, job: int) -> float: ...
    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table: ...
    def summaries(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]: ...


def world(device: str) -> Any:
    """This process among those that `accelerate launch` or torchrun started; None if alone.

    Processes on the CPU communicate over gloo, even if there are GPUs.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return None
    from accelerate import PartialState

    asked_for_cpu = device == "cpu" or os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"
    cpu = asked_for_cpu or not torch.cuda.is_available()
    return PartialState(cpu=cpu, timeout=datetime.timedelta(days=30))


def device_of(device: str, state: Any) -> str:
    """The device of this process: with many GPUs, `cuda` is the process's own."""
    return f"cuda:{state.local_process_index}" if device == "cuda" and state is not None else device


def execute(
    jobs: Jobs,
    out: str | os.PathLike[str],
    *,
    resume: bool = False,
    progress: bool | None = None,
    state: Any = None,
) -> dict[str, Any]:
    """Run all jobs that `out` does not hold yet, and return the manifest.

    Parameters
    ----------
    resume : refuse to start a new run.
    progress : a bar with an estimate of the time left: always, never, or (None) a bar on a terminal and a
        line a minute elsewhere.
    state : what `world` returned.

    Raises
    ------
    InputError : `out` cannot be written, holds another run, or is in use by a run.
    SourceError : a shard cannot be read.
    RunError : a shard cannot be written; finished jobs stay.
    """
    out = as_path("run", "--out", out)
    rank, size = (0, 1) if state is None else (state.process_index, state.num_processes)
    if resume and not (Path(out) / MANIFEST).is_file():
        got, hint = f"--resume and no run in {out}", "leave out --resume to begin one"
        raise InputError("run", got=got, expected="the --out of a run", hint=hint)
    if rank:
        state.wait_for_everyone()  # the first process makes the folder
    with open_folder(out, jobs.config, first=rank == 0) as folder:
        session = _Session(folder, jobs, size) if rank == 0 else None
        with session or nullcontext():
            if state is not None and rank == 0:
                state.wait_for_everyone()
            todo = {table: _missing(jobs, folder, table, rank, size) for table in jobs.tables}
            if session is not None and any(_missing(jobs, folder, table, 0, 1) for table in jobs.tables):
                session.warn_of_threads()
            with _bar(jobs, todo, rank, progress) as bar:
                for table, numbers in todo.items():
                    bar.set_description(f"{jobs.config['task']}: {table}", refresh=False)
                    for job in numbers:
                        folder.add(table, job, jobs.run(table, job, folder))
                        bar.update(jobs.cost(table, job))
                    if state is not None:
                        state.wait_for_everyone()  # the next table may read this one
            if session is not None:
                folder.gather()
                session.finish()
    return read_folder(out)[0] if rank == 0 else {}


def _missing(jobs: Jobs, folder: RunFolder, table: str, rank: int, size: int) -> list[int]:
    """The unfinished jobs of a table that belong to this process."""
    done = folder.done.get(table, ())
    return [job for job in list(jobs.jobs(table))[rank::size] if job not in done]


class _Session:
    """One session of a run in its manifest: begun when it starts, ended however it ends (but for a kill)."""

    def __init__(self, folder: RunFolder, jobs: Jobs, processes: int) -> None:
        self.folder, self.jobs = folder, jobs
        fresh = {"format": FORMAT, "key": key_of(jobs.config), "config": dict(jobs.config), "sessions": []}
        self.manifest: dict[str, Any] = folder.manifest() if (folder.path / MANIFEST).is_file() else fresh
        most = max(self.manifest.get("examples", 0), jobs.manifest["examples"])
        self.whole = jobs.manifest["examples"] == most or self.manifest.get("finished", False)
        self.manifest |= {**jobs.manifest, "examples": most}
        self.row: dict[str, Any] = {"start": _now(), "end": None, "seconds": None, "processes": processes}
        self.row |= surroundings()
        self.began = time.monotonic()

    def __enter__(self) -> _Session:
        self.manifest["sessions"].append(self.row)
        self.manifest["finished"] = False
        self.folder.write_manifest(self.manifest)
        return self

    def warn_of_threads(self) -> None:
        """Say so if rows of this run were made with another number of threads; every session records its."""
        now = _threads(self.row)
        known = {_threads(row) for row in self.manifest["sessions"][:-1]}
        others = sorted(count for count in known if count is not None and count != now)
        if others and any(self.folder.done.values()):
            there, count = " and ".join(map(str, others)), f"{now} thread{'' if now == 1 else 's'}"
            complain(
                f"run: this session has {count}, earlier ones had {there}: sums are added in "
                "another order, so new rows differ in their last digits, and where "
                f"words nearly tie, ranks and r may move; OMP_NUM_THREADS={others[0]} avoids it"
            )

    def finish(self) -> None:
        """Make the summaries; the run is finished unless an earlier session, never ended, asked for more."""
        for name, table in self.jobs.summaries(read_folder(self.folder.path)[1]).items():
            self.folder.summarise(name, table)
        self.manifest["finished"] = self.whole

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.row |= {"end": _now(), "seconds": round(time.monotonic() - self.began, 1)}
        if kind is not None:
            self.row["stopped by"] = kind.__name__
        self.folder.write_manifest(self.manifest)


def _threads(session: Mapping[str, Any]) -> int | None:
    """The threads of a session, None where an older manifest has no number."""
    return session.get("hardware", {}).get("threads")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _bar(jobs: Jobs, todo: Mapping[str, Sequence[int]], rank: int, progress: bool | None) -> tqdm:
    terminal = sys.stderr.isatty()
    form = "{desc} {percentage:.1f} % [{elapsed} gone, {remaining} left]"
    total = sum(jobs.cost(table, job) for table, numbers in todo.items() for job in numbers)
    hidden = rank > 0 or progress is False or not total
    form = "{l_bar}{bar}| " + form if terminal else form
    pace = {} if terminal else {"mininterval": 60, "miniters": 0, "file": _Lines()}
    return tqdm(total=total, disable=hidden, bar_format=form, smoothing=0.05, **pace)


class _Lines:
    """The output of a progress bar off a terminal: one plain line per state, none twice."""

    def __init__(self) -> None:
        self.last = ""

    def write(self, text: str) -> None:
        line = text.strip()
        if line and line != self.last:
            self.last = line
            print(line, file=sys.stderr, flush=True)

    def flush(self) -> None:
        sys.stderr.flush()
