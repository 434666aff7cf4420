"""Reading runs on texts, answers and digits, with one loader for reports, pages and notebooks. No torch, no
texts, only numbers.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import xarray as xr

from lrp_companion.checks import InputError, SourceError, as_path, choose, scores_at
from lrp_companion.lab.folder import (
    ANSWERS_TASK,
    EMBEDDING_PARTS,
    JOB,
    MANIFEST,
    OWN_TASK,
    SUMS,
    WHOLE,
    Axes,
    Tables,
    points,
    read_manifest,
)
from lrp_companion.metrics.faithfulness import AXES, at_map
from lrp_companion.schema import (
    AXIS_OPTIONS,
    DEFAULT_PROTOCOL,
    MAP_CHOICES,
    MULTI_LABEL,
    STATISTICS,
    TARGET_CHOICES,
    TOKEN_CHOICES,
    Protocol,
    bypassed,
    counted,
    mask_number,
)

Explanation = str | Iterable[int]
"""A method's name, or the layers that are bypassed (from 1)."""
MAPS = MAP_CHOICES[:2]
"""Maps that can differ in r: the third is the first, divided by a positive number."""
SIGN, SIGN_AXES = "sign", ("site", "tokens", "target", "removal")
"""The column that has `TextRun.signs` in a record that was cut, in place of sums, and its axes."""
KEPT = {"map": "maps", "after": "LOO maps", "sum": "sums"}
"""What a column holds that a run may lack."""
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run and its rows, sorted by example; only examples that every table holds are read."""

    name: str
    manifest: Mapping[str, Any]
    tables: Tables
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    table: ClassVar[str] = "methods"

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The result of `make`, computed at the first call with this key and kept as long as the run."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def __repr__(self) -> str:
        told, config = self.manifest, self.manifest["config"]
        methods = ", ".join(config.get("methods") or config["explainers"])
        commits = ", ".join(dict.fromkeys(str(session["commit"]) for session in told["sessions"]))
        kind = f"{type(self).__name__} {self.name}: n = {self.n:,} of {told['data']}"
        return f"{kind}; methods {methods}; model {self.model}; commit {commits}"

    @property
    def task(self) -> str:
        return self.manifest["config"]["task"]

    @property
    def own(self) -> bool:
        """Whether it is on the user's own data."""
        return self.task in (OWN_TASK, ANSWERS_TASK)

    @property
    def data_name(self) -> str:
        """The name of the data: the task, or the name of the user's own data."""
        return self.manifest["config"].get("name", self.task)

    @property
    def model(self) -> str:
        return self.manifest["model"]["name"]

    @property
    def seconds(self) -> float:
        """Total time of all sessions; a killed session has none."""
        return float(sum(session["seconds"] or 0 for session in self.manifest["sessions"]))

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.manifest.get("axes", {}).get("explainer", self.manifest["config"]["methods"]))

    @property
    def n(self) -> int:
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class TextRun(Run):
    """A run on reviews: agreement with LOO under every choice, curves, and layers bypassed."""

    @cached_property
    def examples(self) -> np.ndarray:
        """Rows of the split, ascending: the examples that every table holds."""
        jobs = [set(self.tables.column(name, JOB).to_pylist()) for name in self.tables if "_" not in name]
        return np.array(sorted(set.intersection(*jobs)))

    @property
    def n(self) -> int:
        return len(self.examples)

    @property
    def layers(self) -> int:
        return int(self.manifest["model"]["layers"])

    @property
    def options(self) -> dict[str, tuple[str, ...]]:
        """Every choice of a protocol, and the options that the run was made with."""
        config, axes = self.manifest["config"], self.manifest["axes"]
        made = {**axes, "target": [name for name in axes["target"] if name in config.get("targets", (name,))]}
        return {name: tuple(made.get(name, options)) for name, options in AXIS_OPTIONS.items()}

    @cached_property
    def masks(self) -> tuple[frozenset[int], ...]:
        """Masks that were run besides the methods: sets of bypassed layers."""
        if "masks" not in self.tables:
            return ()
        numbers = np.unique(self.tables.column("masks", "mask").to_numpy())
        return tuple(bypassed(number) for number in numbers.tolist())

    def example_column(self, name: str) -> np.ndarray:
        """A number per example: `label`, `target`, `tokens`, `whole` (tokens before truncation)."""
        return self._column("examples", name).to_numpy()

    def column(self, explanation: Explanation, name: str) -> np.ndarray:
        """A number per example: `morf`, `lerf`, `delta`, and for methods `seconds`, `convergence_delta`."""
        if name == "delta":
            return self.column(explanation, "lerf") - self.column(explanation, "morf")
        return self._column(explanation, name).to_numpy().astype(np.float64)

    def r(self, explanation: Explanation, protocol: Protocol = DEFAULT_PROTOCOL) -> np.ndarray:
        """Agreement with LOO of each example under a protocol; NaN where undefined or not measured.

        Raises
        ------
        KeyError : a removal that was not run, or a statistic other than Pearson's of a set of layers.
        """
        at = {name: getattr(protocol, name) for name in AXIS_OPTIONS}
        at["map"] = at["map"] if at["map"] in MAPS else MAPS[0]
        return self._r_of(explanation).sel(at).values

    def agreement(self, explainers: Sequence[str] | Mapping[str, Explanation] | None = None) -> xr.DataArray:
        """r of every example under every choice of the run, with the axes explainer, site, tokens, map,
        removal, target, statistic and example: of methods (None: all), or by name of methods and masks (sets
        of bypassed layers), which were run with Pearson's r only.
        """
        names = self.methods if explainers is None else explainers
        named = names if isinstance(names, Mapping) else {name: name for name in names}
        each = [self._r_of(explanation) for explanation in named.values()]
        r = xr.concat(each, pd.Index(list(named), dtype=object, name="explainer"), join="exact")
        return r.sel(target=list(self.options["target"])).rename("r")

    def _r_of(self, explanation: Explanation) -> xr.DataArray:
        key = explanation if isinstance(explanation, str) else frozenset(explanation)
        return self.once(("r", key), lambda: self._r_of_maps(key))

    def _r_of_maps(self, explanation: Explanation) -> xr.DataArray:
        axes = self.manifest["axes"] | ({} if isinstance(explanation, str) else {"statistic": ["pearson"]})
        raw = Axes({name: axes[name] for name in AXES}).read(self._column(explanation, "r"))
        r = xr.concat([raw, raw * self.signs(explanation)], pd.Index(MAPS, dtype=object, name="map"))
        return r.transpose(*AXIS_OPTIONS, "example").assign_coords(example=self.examples)

    def signs(self, explanation: Explanation) -> xr.DataArray:
        """What r is multiplied by where both maps are divided by their sums: 1 or -1; NaN where a sum is 0.
        Axes example, site, tokens, target and removal.
        """
        if SIGN in self.tables.columns(self._table(explanation)):
            axes = {name: self.manifest["axes"][name] for name in SIGN_AXES}
            return Axes(axes).read(self._column(explanation, SIGN))
        sizes = SUMS.read(self._column(explanation, "size"))
        each = xr.broadcast(self.sums(explanation), sizes, *self._loo_sums)
        total, size, total_of_loo, size_of_loo = (of.values for of in each)
        of = {"sums": (total, total_of_loo), "sizes": (size, size_of_loo)}
        return each[0].copy(data=at_map(np.ones_like(total), MAPS[1], **of))

    def sums(self, explanation: Explanation) -> xr.DataArray:
        """Sum R of every map, with the axes example, site, tokens and target."""
        return SUMS.read(self._if_kept(explanation, "sum"))

    def maps(self, method: str, *, site: str = "word") -> list[np.ndarray]:
        """Maps (T,) of the logit at a site, special tokens included; of a run with --keep-maps."""
        rows = self._if_kept(method, "map").to_pylist()
        stacked = [np.array(values).reshape(len(EMBEDDING_PARTS), -1) for values in rows]
        parts = (zip(EMBEDDING_PARTS, of, strict=True) for of in stacked)
        return [scores_at({k: part for k, part in of if not np.isnan(part).any()}, site) for of in parts]

    def specials(self) -> list[np.ndarray]:
        """Which tokens of each example are special, bool (T,)."""
        columns = (self._column("examples", name).to_pylist() for name in ("tokens", "special"))
        return [np.isin(np.arange(tokens), special) for tokens, special in zip(*columns, strict=True)]

    def mask_means(self, *, site: str = "word", tokens: str = "no-special", part: str = "all") -> np.ndarray:
        """Mean r of all 2**L masks over the examples ("all") or over half of them ("first half", "second
        half"); shape (2**L,). Of a run with --masks all.
        """
        rows = self.tables["lattice_means"].to_pylist()
        asked = {"part": part, "site": site, "tokens": tokens}
        return np.array([row["mean"] for row in rows if asked.items() <= row.items()])

    def loo(self, protocol: Protocol = DEFAULT_PROTOCOL) -> list[np.ndarray]:
        """LOO maps (T,) of the examples under a removal and a target, special tokens included."""
        where = self.manifest["axes"]["removal"].index(protocol.removal)
        return [maps[where, TARGET_CHOICES.index(protocol.target)] for maps in self._loo]

    @cached_property
    def _loo(self) -> list[np.ndarray]:
        """LOO of each example, (removal, target, T)."""
        removals = len(self.manifest["axes"]["removal"])
        multi_label = self.manifest["model"].get("problem_type") == MULTI_LABEL
        columns = (self._if_kept("examples", name).to_pylist() for name in ("after", "tokens", "target"))
        return [
            loo_maps(np.array(after).reshape(removals, tokens + 1, -1), target, multi_label=multi_label)
            for after, tokens, target in zip(*columns, strict=True)
        ]

    @cached_property
    def _loo_sums(self) -> tuple[xr.DataArray, xr.DataArray]:
        """Sum LOO and sum |LOO| over the tokens that count."""
        pairs = list(zip(self._loo, self.specials(), strict=True))
        kept = [[maps[..., counted(special, name)] for name in TOKEN_CHOICES] for maps, special in pairs]
        axes = {"tokens": TOKEN_CHOICES, "removal": self.options["removal"], "target": TARGET_CHOICES}
        coords = {name: list(options) for name, options in axes.items()}
        each = [[np.array([of.sum(-1), np.abs(of).sum(-1)]) for of in one] for one in kept]
        total, size = (xr.DataArray(np.array(each)[:, :, k], coords, ["example", *coords]) for k in (0, 1))
        return total, size

    def _table(self, of: Explanation) -> str:
        return "examples" if of == "examples" else "methods" if isinstance(of, str) else "masks"

    def _column(self, of: Explanation, column: str) -> pa.ChunkedArray:
        """A column of the table "examples", or of an explanation, by the examples in their order."""
        rows = self.rows(of)
        return self.tables.column(self._table(of), column).take(rows)

    def _if_kept(self, of: Explanation, column: str) -> pa.ChunkedArray:
        """A column that not every run keeps."""
        if column not in self.tables.columns(self._table(of)):
            cut = WHOLE in self.manifest and column != "map"
            again = "run it again with --keep-maps, and --loo-from this run"
            hint = f"it is whole in {self.manifest[WHOLE]}" if cut else again
            got = f"{self.name}, which keeps no {KEPT[column]}"
            raise InputError("Run", got=got, expected=f"a run with its {KEPT[column]}", hint=hint)
        return self._column(of, column)

    def rows(self, of: Explanation) -> np.ndarray:
        """Where the examples, or the explanations of one kind of them, stand in their table."""
        layers = of if isinstance(of, str) else frozenset(of)
        return self.once(("rows", layers), lambda: self._rows(layers))

    def _rows(self, of: str | frozenset[int]) -> np.ndarray:
        name = self._table(of)
        if not isinstance(of, str) and of not in self.masks:
            got, hint = f"layers {sorted(of)}", "run it with --masks paths"
            raise InputError("Run", got=got, expected="a mask on the paper's paths", hint=hint)
        jobs = self.tables.column(name, JOB).to_numpy()
        kept = np.isin(jobs, self.examples)
        if name == "methods":
            method = choose("Run", "method", of, self.methods)
            kept &= pc.equal(self.tables.column(name, "method"), method).to_numpy(zero_copy_only=False)
        elif not isinstance(of, str):
            kept &= self.tables.column(name, "mask").to_numpy() == mask_number(of)
        rows = np.flatnonzero(kept)
        return rows[np.argsort(jobs[rows], kind="stable")]


def loo_maps(after: np.ndarray, target: int, *, multi_label: bool) -> np.ndarray:
    """LOO (..., target, T) of every output from logits (..., 1 + T, C) of the whole text and without each
    token; with `multi_label` a probability is a sigmoid and a margin NaN, of one output (a regression) both
    are NaN.
    """
    logit = after[..., target]
    margin = probability = np.full_like(logit, np.nan)
    if multi_label:
        probability = 1 / (1 + np.exp(-logit))
    elif after.shape[-1] > 1:
        margin = logit - np.delete(after, target, axis=-1).max(-1)
        probability = 1 / np.exp(after - logit[..., None]).sum(-1)
    outputs = np.stack([logit, margin, probability], -2)
    return outputs[..., :1] - outputs[..., 1:]


@dataclass(frozen=True, eq=False, repr=False)
class DigitRun(Run):
    """The common part of runs on digits: images that are explained under every net."""

    table: ClassVar[str] = "images"

    @property
    def n(self) -> int:
        """Images explained under each net."""
        return self.rows.sizes["image"]

    @property
    def explainers(self) -> tuple[str, ...]:
        return tuple(self.manifest["config"]["explainers"])

    @property
    def seeds(self) -> list[int]:
        return self.rows["seed"].values.tolist()

    @property
    def rows(self) -> xr.Dataset:
        """The columns of the table of images, by seed, explainer and image."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class MnistRun(DigitRun):
    """A run on MNIST: nets of several seeds, and one row per net, image and explainer, for all images."""

    @cached_property
    def rows(self) -> xr.Dataset:
        """Of an unfinished run the nets under which most images are explained."""
        images = self.tables["images"].to_pandas()
        images = images.assign(seed=images[JOB] // SPAN)
        count = images.groupby("seed")["image"].transform("nunique")
        images = images[count == count.max()].set_index(["seed", "explainer", "image"])
        return images.to_xarray().dropna("image", subset=[JOB])

    def accuracy(self) -> np.ndarray:
        """Of every net, on the whole test split."""
        nets = self.tables["nets"].to_pandas().set_index("seed")["accuracy"]
        return nets.loc[self.seeds].to_numpy()

    def values(self, explainer: str, column: str, *, seed: int | None = None) -> np.ndarray:
        """A column of one explainer, one value per image: of one net, or the mean over the nets."""
        values = self.rows[column].sel(explainer=explainer).values.astype(np.float64)
        return values.mean(0) if seed is None else values[self.seeds.index(seed)]


SPAN = 1_000_000
"""Jobs of one net of a `MnistRun`: seed * SPAN + row of the image."""


@dataclass(frozen=True, eq=False, repr=False)
class MnistGridRun(DigitRun):
    """A run over variants of the paper's MNIST nets: several seeds of each, some images under each net."""

    @cached_property
    def variants(self) -> list[dict[str, Any]]:
        """Options of the nets, the plainest first; a variant's number is its place."""
        return points(self.manifest["config"]["choices"])

    @cached_property
    def rows(self) -> xr.Dataset:
        """The columns of the table of images, by variant, seed, explainer and image: of the seeds under which
        every variant was trained and explained.
        """
        images = self._numbered("images")
        whole = images.groupby("seed")["variant"].transform("nunique") == len(self.variants)
        images = images[whole].astype({"explainer": str})
        return images.set_index(["variant", "explainer", "seed", "image"]).to_xarray()

    def accuracy(self, variant: int) -> np.ndarray:
        """Of the nets of a variant, one per seed, on the whole test split."""
        nets = self._numbered("nets").set_index(["variant", "seed"])["accuracy"]
        return nets.loc[variant].loc[self.seeds].to_numpy()

    def values(self, variant: int, explainer: str, pair: str, *, map: str = "raw") -> np.ndarray:
        """r of "left-right", "left-LOO" or "right-LOO", shape (seeds, images); dividing maps by their sums
        changes r by the product of the signs only.
        """
        r = self.rows[f"r {pair}"].sel(variant=variant, explainer=explainer).values.astype(np.float64)
        if map == "raw":
            return r
        second = explainer if pair == "left-right" else "LOO"  # LOO is one map for both graphs
        sides = self.negative(variant, explainer, pair.split("-")[0]), self.negative(variant, second, "right")
        return r * np.where(sides[0] == sides[1], 1.0, -1.0)

    def negative(self, variant: int, explainer: str, side: str) -> np.ndarray:
        """Whether the sum of a map is negative, "left" or "right", shape (seeds, images)."""
        return self.rows[f"negative {side}"].sel(variant=variant, explainer=explainer).values.astype(bool)

    def _numbered(self, table: str) -> pd.DataFrame:
        """A table with the seed and the variant of each job."""
        rows = self.tables[table].to_pandas()
        return rows.assign(seed=rows[JOB] // len(self.variants), variant=rows[JOB] % len(self.variants))


@dataclass(frozen=True, eq=False, repr=False)
class AnswerRun(Run):
    """A run on prompts and their completions: r with LOO of every method, token by token and of the sum."""

    table: ClassVar[str] = "answers"

    @property
    def n(self) -> int:
        """Prompts explained."""
        return len(self.r()["example"])

    def r(self) -> xr.DataArray:
        """r with LOO, axes explainer, statistic, of and example. `of` is "tokens", the mean over the tokens
        of an answer, or "sum", r of the two maps summed over the answer. NaN where r is undefined.
        """
        return self.once("r", self._read_r)

    def _read_r(self) -> xr.DataArray:
        rows = self.tables["answers"].to_pandas()
        rows["r"] = rows["r"].map(_of_answer)
        r = rows.pivot(index="method", columns=JOB, values="r").loc[list(self.methods)]
        axes = {"explainer": list(self.methods), "example": r.columns.tolist()}
        axes |= {"statistic": list(STATISTICS), "of": ["tokens", "sum"]}
        values = np.array(r.to_numpy().tolist())
        return xr.DataArray(values, axes, list(axes), name="r").transpose(..., "example")


def _of_answer(values: np.ndarray) -> np.ndarray:
    """r (statistic, of) of an answer from that of its tokens and of its sum."""
    r = np.asarray(values, dtype=np.float64).reshape(len(STATISTICS), -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an answer of which no r is defined
        return np.stack([np.nanmean(r[:, :-1], axis=1), r[:, -1]], axis=1)


AnyRun = TextRun | AnswerRun | MnistRun | MnistGridRun


def load_run(path: str | os.PathLike[str]) -> AnyRun:
    """Read the folder of a run, finished or not.

    Raises
    ------
    SourceError : no such folder, no run in it, or a file that cannot be read or belongs to another run.
    """
    place = as_path("load_run", "folder", path)
    manifest = read_manifest(place)
    tables, task = Tables(place, manifest), manifest["config"]["task"]
    kinds: dict[str, Any] = {"mnist": MnistRun, "mnist-grid": MnistGridRun, ANSWERS_TASK: AnswerRun}
    kind = kinds.get(task, TextRun)
    if kind.table not in tables:
        got = f"{path}, without explained {'images' if kind.table == 'images' else 'examples'}"
        raise SourceError("load_run", got=got, expected="some", hint="let the run go on")
    return kind(place.resolve().name, manifest, tables)


def nearby(folder: str | os.PathLike[str]) -> Path:
    """The folder of this name here or in the closest folder above; the path as given if there is none."""
    here = Path.cwd()
    places = (place / folder for place in (here, *here.parents))
    return next((place for place in places if place.is_dir()), Path(folder))


def load_runs(paths: Sequence[str | os.PathLike[str]]) -> list[AnyRun]:
    """Read several runs; a folder without a manifest means the runs in it."""
    out: list[AnyRun] = []
    for path in (as_path("load_run", "folder", given) for given in paths):
        inside = [] if (path / MANIFEST).is_file() else sorted(path.glob(f"*/{MANIFEST}"))
        out += [load_run(manifest.parent) for manifest in inside] or [load_run(path)]
    return out
