"""Reading runs on texts, answers and digits, with one loader for reports, pages and notebooks. No torch, no
texts, only numbers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xarray as xr

from lrp_companion.checks import SourceError, as_path, choose
from lrp_companion.lab.base_run import ANSWERS_TASK, points
from lrp_companion.lab.base_run import Explanation as Explanation  # read from here, as the next two
from lrp_companion.lab.base_run import Run as Run
from lrp_companion.lab.folder import JOB, read_folder
from lrp_companion.lab.text_run import TextRun as TextRun
from lrp_companion.schema import STATISTICS


@dataclass(frozen=True)
class DigitRun(Run):
    """The common part of runs on digits: images that are explained under every net."""

    @property
    def n(self) -> int:
        """Images explained under each net."""
        return len(set(self.tables["images"]["image"].to_pylist()))

    @property
    def explainers(self) -> tuple[str, ...]:
        return tuple(self.manifest["config"]["explainers"])


@dataclass(frozen=True)
class MnistRun(DigitRun):
    """A run on MNIST: nets of several seeds, and one row per net, image and explainer, for all images."""

    @property
    def seeds(self) -> list[int]:
        return sorted(set(self.tables["images"]["seed"].to_pylist()))

    def accuracy(self) -> np.ndarray:
        """Of every net, on the whole test split."""
        return self.tables["nets"].sort_by("seed")["accuracy"].to_numpy()

    def values(self, explainer: str, column: str, *, seed: int | None = None) -> np.ndarray:
        """A column of one explainer, one value per image: of one net, or the mean over the nets."""
        choose("Run", "explainer", explainer, self.explainers)
        table = self.tables["images"]
        keep = np.asarray(table["explainer"].to_pylist()) == explainer
        rows = table.filter(pa.array(keep)).sort_by([("seed", "ascending"), ("image", "ascending")])
        values = rows[column].to_numpy().astype(np.float64).reshape(len(self.seeds), -1)
        return values.mean(0) if seed is None else values[self.seeds.index(seed)]


@dataclass(frozen=True)
class MnistGridRun(DigitRun):
    """A run over variants of the paper's MNIST nets: several seeds of each, some images under each net."""

    @cached_property
    def variants(self) -> list[dict[str, Any]]:
        """Options of the nets, the plainest first; a variant's number is its place."""
        return points(self.manifest["config"]["choices"])

    @cached_property
    def seeds(self) -> list[int]:
        """Seeds under which every variant was trained and explained."""
        count = len(self.variants)
        done = set(self.tables["images"][JOB].to_pylist()) & set(self.tables["nets"][JOB].to_pylist())
        return [
            seed
            for seed in range(1 + max(done) // count)
            if set(range(seed * count, (seed + 1) * count)) <= done
        ]

    def accuracy(self, variant: int) -> np.ndarray:
        """Of the nets of a variant, one per seed, on the whole test split."""
        jobs, values = self.tables["nets"][JOB].to_numpy(), self.tables["nets"]["accuracy"].to_numpy()
        at = dict(zip(jobs.tolist(), values.tolist(), strict=True))
        return np.array([at[seed * len(self.variants) + variant] for seed in self.seeds])

    def values(self, variant: int, explainer: str, pair: str, *, map: str = "raw") -> np.ndarray:
        """r of "left-right", "left-LOO" or "right-LOO", shape (seeds, images).

        Dividing maps by their sums changes r by the product of the signs only; dividing by sum |R| changes
        nothing.
        """
        rows = self._of(variant, explainer)
        r = rows[f"r {pair}"].to_numpy(zero_copy_only=False).astype(np.float64)
        if map == "sum-to-one":
            compared = self._of(variant, "LOO") if pair.endswith("LOO") else rows
            first = rows["negative left" if pair.startswith("left") else "negative right"]
            second = compared["negative right"]  # LOO is one map for both graphs
            r = r * _sign(first) * _sign(second)
        return r.reshape(len(self.seeds), -1)

    def negative(self, variant: int, explainer: str, side: str) -> np.ndarray:
        """Whether the sum of a map is negative, "left" or "right", shape (seeds, images)."""
        negative = self._of(variant, explainer)[f"negative {side}"].to_numpy(zero_copy_only=False)
        return negative.reshape(len(self.seeds), -1)

    def ig(self) -> list[dict[str, Any]]:
        """Rows of IG by `variant`, `seed`, `image`, `baseline`, `n_steps`: `r` with LOO and the convergence
        delta, `delta`.
        """
        seed, variant = np.divmod(self.tables["ig"][JOB].to_numpy(), len(self.variants))
        rows = self.tables["ig"].drop_columns(JOB)
        rows = rows.append_column("variant", pa.array(variant)).append_column("seed", pa.array(seed))
        return rows.to_pylist()

    def _of(self, variant: int, explainer: str) -> pa.Table:
        def rows() -> pa.Table:
            table = self.tables["images"]
            jobs = [seed * len(self.variants) + variant for seed in self.seeds]
            keep = np.isin(table[JOB].to_numpy(), jobs)
            keep &= np.asarray(table["explainer"].to_pylist()) == explainer
            return table.filter(pa.array(keep)).sort_by([(JOB, "ascending"), ("image", "ascending")])

        return self.once((variant, explainer), rows)


def _sign(negative: Any) -> np.ndarray:
    return np.where(negative.to_numpy(zero_copy_only=False), -1.0, 1.0)


def full_table(run: MnistRun) -> MnistRun:
    """The nets and images of an unfinished run that make the largest full table, with each image under each
    net.
    """
    images = run.tables["images"]
    seeds, rows = images["seed"].to_numpy(), images["image"].to_numpy()
    by_seed = {int(seed): set(rows[seeds == seed].tolist()) for seed in np.unique(seeds)}
    order = sorted(by_seed, key=lambda seed: (-len(by_seed[seed]), seed))
    choices = [
        (order[:k], set.intersection(*(by_seed[seed] for seed in order[:k])))
        for k in range(1, len(order) + 1)
    ]
    kept_seeds, kept = max(choices, key=lambda choice: len(choice[0]) * len(choice[1]))
    keep = np.isin(seeds, kept_seeds) & np.isin(rows, sorted(kept))
    nets = run.tables["nets"]
    nets = nets.filter(pa.array(np.isin(nets["seed"].to_numpy(), kept_seeds)))
    return replace(run, tables={**run.tables, "images": images.filter(pa.array(keep)), "nets": nets})


@dataclass(frozen=True)
class AnswerRun(Run):
    """A run on prompts and their completions: r with LOO of every method, token by token and of the sum."""

    @property
    def n(self) -> int:
        """Prompts explained."""
        return len(set(self.tables["answers"][JOB].to_pylist()))

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.manifest["config"]["methods"])

    def r(self) -> xr.DataArray:
        """r with LOO, for `runs.labelled.mean`.

        Returns
        -------
        DataArray with the axes explainer, statistic, of and example. `of` is "tokens", the mean over the
        tokens of an answer, or "sum", r of the two maps summed over the answer. NaN where r is undefined.
        """

        def read() -> xr.DataArray:
            rows = self.tables["answers"].to_pylist()
            examples = sorted({row[JOB] for row in rows})
            axes = {"explainer": list(self.methods), "statistic": list(STATISTICS), "of": ["tokens", "sum"]}
            out = np.full((*map(len, axes.values()), len(examples)), np.nan)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # an answer of which no r is defined
                for row in rows:
                    r = np.array(row["r"], dtype=np.float64).reshape(len(STATISTICS), -1)
                    at = axes["explainer"].index(row["method"]), ..., examples.index(row[JOB])
                    out[at] = np.stack([np.nanmean(r[:, :-1], axis=1), r[:, -1]], axis=1)
            return xr.DataArray(out, {**axes, "example": examples}, [*axes, "example"], name="r")

        return self.once("r", read)

    def maps(self, method: str) -> list[list[np.ndarray]]:
        """Scores by example and token of the answer, where the run keeps them: of the prompt's tokens and
        of the answer's before it.
        """
        out = []
        for row in self.tables["answers"].sort_by(JOB).to_pylist():
            if row["method"] == method:
                ends = np.cumsum(row["tokens"] + np.arange(len(row["logits"])))
                out.append(np.split(np.array(row["map"]), ends[:-1]))
        return out


AnyRun = TextRun | AnswerRun | MnistRun | MnistGridRun


def load_run(path: str | os.PathLike[str]) -> AnyRun:
    """Read the folder of a run, finished or not.

    Raises
    ------
    SourceError : no such folder, no run in it, or a file that cannot be read or belongs to another run.
    """
    manifest, tables = read_folder(path)
    place = as_path("load_run", "folder", path)
    name, task = place.resolve().name, manifest["config"]["task"]
    digits, answers = task.startswith("mnist"), task == ANSWERS_TASK
    if ("images" if digits else "answers" if answers else "methods") not in tables:
        what = "image" if digits else "example"
        got, expected = f"{path}, without explained {what}s", f"at least one finished {what}"
        raise SourceError("load_run", got=got, expected=expected, hint="let the run go on")
    if task == "mnist-grid":
        return MnistGridRun(name, manifest, tables)
    if digits:
        images = tables["images"]
        seeds = pa.array(images[JOB].to_numpy() // 1_000_000, pa.int32())
        return full_table(MnistRun(name, manifest, {**tables, "images": images.append_column("seed", seeds)}))
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
