"""Reading runs: one loader for reports, pages and notebooks. No torch, no texts, only numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from lrp_companion.checks import SourceError
from lrp_companion.paths import as_path
from lrp_companion.runs.answer_run import AnswerRun
from lrp_companion.runs.base_run import ANSWERS_TASK, Explanation, Run
from lrp_companion.runs.digit_runs import MnistGridRun, MnistRun, full_table
from lrp_companion.runs.folder import JOB, read_folder
from lrp_companion.runs.manifest import check_complete
from lrp_companion.runs.text_run import TextRun

__all__ = [
    "AnswerRun",
    "AnyRun",
    "Explanation",
    "MnistGridRun",
    "MnistRun",
    "Run",
    "TextRun",
    "load_run",
    "load_runs",
    "nearby",
]

AnyRun = TextRun | AnswerRun | MnistRun | MnistGridRun


def load_run(path: str | os.PathLike[str]) -> AnyRun:
    """Read the folder of a run, finished or not.

    Raises
    ------
    SourceError : no such folder, no run in it, or a file that cannot be read or belongs to another run.
    """
    manifest, tables = read_folder(path)
    place = as_path("load_run", "folder", path)
    check_complete(place, manifest)
    name = place.resolve().name
    if manifest["config"]["task"].startswith("mnist"):
        if "images" not in tables:
            raise SourceError(
                "load_run",
                got=f"{path}, without explained images",
                expected="at least one finished image",
                hint="let the run go on",
            )
        if manifest["config"]["task"] == "mnist-grid":
            return MnistGridRun(name, manifest, tables)
        images = tables["images"]
        seeds = pa.array(images[JOB].to_numpy() // 1_000_000, pa.int32())
        return full_table(MnistRun(name, manifest, {**tables, "images": images.append_column("seed", seeds)}))
    answers = manifest["config"]["task"] == ANSWERS_TASK
    if ("answers" if answers else "methods") not in tables:
        raise SourceError(
            "load_run",
            got=f"{path}, without explained examples",
            expected="at least one finished example",
            hint="let the run go on",
        )
    return (AnswerRun if answers else TextRun)(name, manifest, tables)


def nearby(folder: str | os.PathLike[str]) -> Path:
    """The folder of this name here or in the closest folder above; the path as given if there is none."""
    here = Path.cwd()
    places = (place / folder for place in (here, *here.parents))
    return next((place for place in places if place.is_dir()), Path(folder))


def load_runs(paths: Sequence[str | os.PathLike[str]]) -> list[AnyRun]:
    """Read several runs; a folder without a manifest means the runs in it."""
    out: list[AnyRun] = []
    for path in (as_path("load_run", "folder", given) for given in paths):
        inside = [] if (path / "manifest.json").is_file() else sorted(path.glob("*/manifest.json"))
        out += [load_run(manifest.parent) for manifest in inside] or [load_run(path)]
    return out
