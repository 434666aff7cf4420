"""Run jobs, keep finished ones, and resume a stopped run, in one process or many.

A run is a configuration (hashed into a key), tables in a fixed order, and independent jobs in each. Of n
processes, each takes every n-th job. A job's rows are written when it is done, so a run that is stopped in
any way loses only the current job.
"""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from tqdm import tqdm

from lrp_companion import __version__
from lrp_companion.checks import InputError, as_path
from lrp_companion.lab.folder import (
    FORMAT,
    MANIFEST,
    RunFolder,
    key_of,
    open_folder,
    read_folder,
    read_manifest,
)


class Jobs:
    """A run for `execute`: a configuration and tables of independent jobs, which may read earlier tables.

    Attributes
    ----------
    config : all that the rows depend on.
    manifest : the manifest's entries besides it, `examples` among them.
    tables : names, in the order in which they are made.
    sample : jobs of each table, in the order in which they are run: rows of the data, as a rule.
    """

    config: Mapping[str, Any]
    manifest: Mapping[str, Any]
    tables: Sequence[str]
    sample: list[int]

    def jobs(self, table: str) -> list[int]:
        """The jobs of a table."""
        return self.sample

    def run(self, table: str, job: int, folder: RunFolder) -> pa.Table:
        """The rows of one job."""
        raise NotImplementedError

    def summaries(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        """Tables made from the rows of all jobs."""
        return {}


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
    progress: bool = True,
    state: Any = None,
) -> dict[str, Any]:
    """Run all jobs that `out` does not hold yet, and return the manifest.

    Parameters
    ----------
    resume : refuse to start a new run.
    progress : a bar with an estimate of the time left; off a terminal it moves once a minute.
    state : what `world` returned.
    """
    out = as_path("run", "--out", out)
    rank, size = (0, 1) if state is None else (state.process_index, state.num_processes)
    if resume and not (out / MANIFEST).is_file():
        got, hint = f"--resume and no run in {out}", "leave out --resume to begin one"
        raise InputError("run", got=got, expected="the --out of a run", hint=hint)
    if rank:
        state.wait_for_everyone()  # the first process makes the folder
    session = _session if rank == 0 else lambda *_: nullcontext()
    with open_folder(out, jobs.config, first=rank == 0) as folder, session(folder, jobs, size):
        if state is not None and rank == 0:
            state.wait_for_everyone()
        _run(jobs, folder, rank, size, progress=progress, state=state)
        if rank == 0:
            folder.gather()
            for name, table in jobs.summaries(read_folder(out)[1]).items():
                folder.summarise(name, table)
    return read_manifest(out) if rank == 0 else {}


def _run(jobs: Jobs, folder: RunFolder, rank: int, size: int, *, progress: bool, state: Any) -> None:
    """Run the unfinished jobs of this process."""
    todo = {
        table: [job for job in jobs.jobs(table)[rank::size] if job not in folder.done.get(table, ())]
        for table in jobs.tables
    }
    total = sum(map(len, todo.values()))
    pace = 0.1 if sys.stderr.isatty() else 60.0
    with tqdm(total=total, disable=rank > 0 or not progress or not total, mininterval=pace) as bar:
        for table, numbers in todo.items():
            bar.set_description(f"{jobs.config['task']}: {table}", refresh=False)
            for job in numbers:
                folder.add(table, job, jobs.run(table, job, folder))
                bar.update()
            if state is not None:
                state.wait_for_everyone()  # the next table may read this one


@contextmanager
def _session(folder: RunFolder, jobs: Jobs, processes: int) -> Iterator[None]:
    """One session of a run in its manifest: begun when it starts, ended however it ends (but for a kill)."""
    fresh: dict[str, Any] = {"format": FORMAT, "key": key_of(jobs.config), "config": dict(jobs.config)}
    fresh["sessions"] = []
    known = read_manifest(folder.path) if (folder.path / MANIFEST).is_file() else fresh
    most = max(known.get("examples", 0), jobs.manifest["examples"])
    # An earlier session that never ended may have asked for more.
    whole = jobs.manifest["examples"] == most or known.get("finished", False)
    row = {"start": _now(), "end": None, "seconds": None, "processes": processes, **surroundings()}
    sessions = [*known["sessions"], row]
    manifest = {**known, **jobs.manifest, "examples": most, "sessions": sessions, "finished": False}
    folder.write_manifest(manifest)
    began = time.monotonic()
    try:
        yield
        manifest["finished"] = whole
    except BaseException as error:
        row["stopped by"] = type(error).__name__
        raise
    finally:
        row |= {"end": _now(), "seconds": round(time.monotonic() - began, 1)}
        folder.write_manifest(manifest)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


PACKAGES = ("torch", "transformers", "numpy", "captum", "accelerate", "pyarrow")


def surroundings() -> dict[str, Any]:
    """Return versions, commit and hardware, for a manifest."""
    versions = {
        "python": platform.python_version(),
        "lrp_companion": __version__,
        **{name: _version(name) for name in PACKAGES},
    }
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cpu = next(names, platform.processor() or platform.machine())
    hardware: dict[str, Any] = {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        hardware["gpus"] = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {"versions": versions, "commit": _commit(), "hardware": hardware}


def _version(name: str) -> str | None:
    """The version of a package; None where it is not installed, as extras may be."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout that this package runs from, with "+" if files differ; None outside one."""
    here = Path(__file__).parents[2]
    command = ["git", "-C", str(here), "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return told.strip() if (here / ".git").exists() else None
