"""Run jobs, keep finished ones, and resume a stopped run, in one process or many.

A run is a configuration (hashed into a key), tables in a fixed order, and independent jobs in each. Of n
processes, each takes every n-th job. A job's rows are written when it is done, so a run that is stopped in
any way loses only the current job.
"""

from __future__ import annotations

import datetime
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import torch
from tqdm import tqdm

from lrp_companion.checks import CompanionError, InputError, as_path, is_whole
from lrp_companion.lab.folder import (
    FORMAT,
    MANIFEST,
    RunError,
    RunFolder,
    are_sessions,
    key_of,
    open_folder,
    read_folder,
)
from lrp_companion.provenance import surroundings
from lrp_companion.terminal import BAD_INPUT, FAULT, complain


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
    """This process among those that `accelerate launch`, torchrun or `--processes` started; None if alone.

    Processes on the CPU communicate over gloo, even if there are GPUs.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return None
    _end_with_the_launcher()
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
    RunError : a shard cannot be written, or another process of the run died; finished jobs stay.
    """
    out = as_path("run", "--out", out)
    rank, size = (0, 1) if state is None else (state.process_index, state.num_processes)
    if resume and not (Path(out) / MANIFEST).is_file():
        got, hint = f"--resume and no run in {out}", "leave out --resume to begin one"
        raise InputError("run", got=got, expected="the --out of a run", hint=hint)
    if rank:
        _wait(state)  # the first process makes the folder
    with open_folder(out, jobs.config, first=rank == 0) as folder:
        session = _Session(folder, jobs, size) if rank == 0 else None
        with session or nullcontext():
            if state is not None and rank == 0:
                _wait(state)
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
                        _wait(state)  # the next table may read this one
            if session is not None:
                folder.gather()
                session.finish()
    return read_folder(out)[0] if rank == 0 else {}


def _missing(jobs: Jobs, folder: RunFolder, table: str, rank: int, size: int) -> list[int]:
    """The unfinished jobs of a table that belong to this process."""
    done = folder.done.get(table, ())
    return [job for job in list(jobs.jobs(table))[rank::size] if job not in done]


def _wait(state: Any) -> None:
    """Wait for the other processes; if one is gone, say so in one line, because its message says why."""
    try:
        state.wait_for_everyone()
    except RuntimeError as error:
        if "closed by peer" not in str(error) and "reset by peer" not in str(error):
            raise
        got, hint = "the end of another process of this run", "see the message of that process"
        raise RunError("run", got=got, expected="all of them to go on", hint=hint) from None


class _Session:
    """One session of a run in its manifest: begun when it starts, ended however it ends (but for a kill)."""

    def __init__(self, folder: RunFolder, jobs: Jobs, processes: int) -> None:
        self.folder, self.jobs = folder, jobs
        fresh = {"format": FORMAT, "key": key_of(jobs.config), "config": dict(jobs.config)}
        self.manifest: dict[str, Any] = folder.manifest() if (folder.path / MANIFEST).is_file() else fresh
        known = self.manifest.get("examples", 0)
        most = max(known if is_whole(known) else 0, jobs.manifest["examples"])
        self.manifest |= {**jobs.manifest, "examples": most}
        self.whole = jobs.manifest["examples"] == most or self.manifest.get("finished", False)
        earlier: Any = self.manifest.get("sessions", [])
        earlier = earlier if are_sessions(earlier) else []  # a manifest that somebody has changed
        follows = [*(row["start"] for row in earlier[1:]), _now()]  # none for a first session
        self.manifest["sessions"] = [
            self._ended(row, start) for row, start in zip(earlier, follows, strict=False)
        ]
        self.row: dict[str, Any] = {"start": _now(), "end": None, "seconds": None, "processes": processes}
        self.row |= surroundings()
        self.began = time.monotonic()

    def _ended(self, row: dict[str, Any], following: str) -> dict[str, Any]:
        """A session that was killed has no end: its last rows tell when it was at work, if no other session
        has written since.
        """
        last = self.folder.last_write
        if row["end"] is not None or last is None or last > _seconds(following) + 1:
            return row
        end = datetime.datetime.fromtimestamp(last, datetime.UTC).isoformat(timespec="seconds")
        why = "a kill; its end is that of its last rows"
        spent = round(max(0.0, last - _seconds(row["start"])), 1)
        return row | {"end": end, "seconds": spent, "stopped by": why}

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
    hardware = session.get("hardware")
    threads = hardware.get("threads") if isinstance(hardware, Mapping) else None
    return int(threads) if is_whole(threads) else None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _seconds(stamp: str) -> float:
    """Seconds since 1970 of a time as `_now` writes it."""
    return datetime.datetime.fromisoformat(stamp).timestamp()


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


def launch(processes: int, arguments: Sequence[str]) -> None:
    """Start this command in several processes on this machine, by torch's elastic launcher, and wait.

    Raises
    ------
    RunError : one of them died; the others were stopped, and all finished jobs are kept.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    os.environ[LAUNCHER] = str(os.getpid())
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=f"lrp-companion-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.2,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "lrp_companion.cli", *arguments)
    except SignalException:
        raise KeyboardInterrupt from None
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        raise _died(rank, processes, failure) from None


def _died(rank: int, processes: int, failure: Any) -> CompanionError:
    """The message for the process that failed first; a killed process had no time for its own."""
    if failure.exitcode < 0:
        how = f"{failure.signal_name()} from outside, perhaps for lack of memory"
    else:
        how = f"exit code {failure.exitcode}; its message is above"
    got = f"the end of process {rank + 1} of {processes} ({how})"
    hint = "remove the cause, then repeat the command: finished jobs are kept"
    kind = InputError if failure.exitcode == BAD_INPUT else RunError
    return kind("run", got=got, expected="all processes to finish", hint=hint)


LAUNCHER = "LRP_COMPANION_LAUNCHER"
"""The process that started this one; if it is gone, nobody waits for this one."""


def _end_with_the_launcher() -> None:
    """Let this process end when its launcher is gone; otherwise it would continue and hold the lock."""
    launcher = os.environ.get(LAUNCHER)
    if launcher is None or os.name == "nt":
        return

    def watch() -> None:
        while os.getppid() == int(launcher):
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)  # for the manifest; a process that waits for another one hears no signal
        os._exit(FAULT)  # rows are written whole or not at all

    threading.Thread(target=watch, daemon=True, name="watch the launcher").start()
