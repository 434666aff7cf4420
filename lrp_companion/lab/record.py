"""A committed record as labelled arrays and tables, by its name. No torch, no texts, only numbers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from lrp_companion.checks import InputError, SourceError, choose
from lrp_companion.lab.load import MAPS, AnswerRun, AnyRun, Run, TextRun, load_run, nearby
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.metrics.faithfulness import cross_correlation
from lrp_companion.metrics.statistics import bootstrap_columns, mean_over
from lrp_companion.schema import AXIS_OPTIONS, TOKEN_CHOICES, mask_label, masks_on_paths
from lrp_companion.sources.release import ADDRESS, fetched

NAMES = {
    "sst2-12": "sst2-companion",
    "sst2-6": "sst2-companion-6",
    "imdb-12": "imdb-companion",
    "imdb-6": "imdb-companion-6-seed-1",
}
"""Short names of the runs on whole data sets: data and layers."""
LOO = "loo attention-mask"
COUNTED = {"words": "no-special", "no-first": "no-first", "all": "all"}
STATISTICS = ("pearson", "spearman")
ENDS = {"word": "", "word+position": "+position", "embedding": "+embedding"}
"""How the name of a map ends that is read at a site."""


@dataclass(frozen=True)
class Record:
    """What one run, or several trainings of one model, left behind.

    Attributes
    ----------
    name, folder : as asked for, and where it was found.
    parts : name of each training to what it holds: a run, or the arrays of a `.npz` file.
    """

    name: str
    folder: Path
    parts: Mapping[str, AnyRun | Mapping[str, np.ndarray]]

    def __repr__(self) -> str:
        if len(self.parts) == 1 and isinstance(part := next(iter(self.parts.values())), Run):
            return repr(part)
        parts = self.parts.values()
        counts = {part.n if isinstance(part, Run) else len(part.get("example", ())) for part in parts}
        sizes = ", ".join(f"{count:,} texts" for count in sorted(counts) if count) or "no texts"
        trainings = f", {len(self.parts)} trainings" if len(self.parts) > 1 else ""
        return f"Record({self.name!r}, {sizes}{trainings})"

    @cached_property
    def config(self) -> dict[str, Any]:
        """What stands beside the numbers: model, data, fingerprint, seed, versions, start and commit."""
        name, part = next(iter(self.parts.items()))
        if not isinstance(part, Mapping):
            return dict(part.manifest)
        beside = self.folder / f"{name}.json"
        return json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}

    @cached_property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The arrays of a record that is a `.npz` file, by name; of a run its maps."""
        (part,) = self.parts.values()
        return _arrays(part)

    @cached_property
    def r(self) -> xr.DataArray:
        """Agreement with LOO of every method in every text, under every choice that was measured; NaN where r
        is undefined. Axes: explainer (`sel` has an option called method), site, tokens, map, removal, target,
        statistic, text; of several trainings, training first.
        """
        return self._of_each(_r_of)

    @cached_property
    def r_of_maps(self) -> xr.DataArray:
        """The same from the maps that a record keeps, which are rounded: sites word and word+position;
        tokens, too, "no-first", all but the first one; LOO by the attention mask, of the logit.
        """
        return self._of_each(lambda part: _r_of_maps(_arrays(part)))

    @cached_property
    def layers(self) -> xr.DataArray:
        """r of Pearson with LOO by which layers are bypassed (CP-LRP's rule there, AttnLRP's elsewhere).

        Axes: bypassed ("none", "3", "1 to 6", ...), then those of `r` that the record has, text last.
        """
        return self._of_each(self._layers_of)

    @cached_property
    def curves(self) -> xr.DataArray:
        """Areas under perturbation curves, axes explainer, curve ("morf", "lerf", "delta") and text."""
        return self._of_each(_curves_of)

    def tokens(self, *, site: str = "word", methods: Collection[str] | None = None) -> pd.DataFrame:
        """One row for each token of each text: `training`, `text`, `place` (from 0), `special`, `loo` and a
        column for each method, or for these, its relevance at a site. For records that keep their maps, also
        of Shapley values, whose "tokens" are units.
        """
        choose("Record.tokens", "site", site, tuple(ENDS))
        asked = [methods] if isinstance(methods, str) else methods
        frames = {name: _tokens(_arrays(part, asked), site, asked) for name, part in self.parts.items()}
        named = [frame.assign(training=name) for name, frame in frames.items()]
        out = pd.concat(named, ignore_index=True)
        return out if len(self.parts) > 1 else out.drop(columns="training")

    def frame(self, table: str) -> pd.DataFrame:
        """A table of a run, such as "examples", as it is stored."""
        runs = [part for part in self.parts.values() if not isinstance(part, Mapping)]
        return pd.concat([run.tables[table].to_pandas() for run in runs])

    def _of_each(self, read: Callable[[Any], xr.DataArray]) -> xr.DataArray:
        each = [read(part) for part in self.parts.values()]
        if len(each) == 1:
            return each[0]
        return xr.concat(each, "training", join="inner").assign_coords(training=list(self.parts))

    def _layers_of(self, part: Any) -> xr.DataArray:
        if isinstance(part, TextRun):
            if not (masks := {mask_label(mask): mask for mask in part.masks}):
                got, hint = f"{part.name}, which has no masks", "run it with --masks paths"
                raise InputError("Record.layers", got=got, expected="a run with masks of layers", hint=hint)
            r = part.agreement(masks).sel(statistic="pearson", map="raw", drop=True)
            return r.rename(explainer="bypassed", example="text")
        of, order = self.config["config"], np.argsort(part["example"])
        labels = [mask_label(mask) for mask in masks_on_paths(of["layers"])]
        named = [(site, COUNTED[tokens], statistic) for site, tokens, statistic in of["readings"]]
        readings = pd.MultiIndex.from_tuples(named, names=["site", "tokens", "statistic"])
        coords = xr.Coordinates.from_pandas_multiindex(readings, "reading")
        flat = xr.DataArray(part["r"][order], dims=["text", "reading", "bypassed"]).assign_coords(coords)
        r = flat.assign_coords(bypassed=labels, text=np.sort(part["example"])).unstack("reading")
        return r.transpose("bypassed", "site", "tokens", "statistic", "text")


def open_record(name: str, *, results: str | os.PathLike[str] = "results", address: str = "") -> Record:
    """Open a record by its name: from a folder here or above, else fetched, its checksum compared.

    Parameters
    ----------
    name : one of "sst2-12", "sst2-6", "imdb-12", "imdb-6", or a path in the folder of the records, such as
        "maps/sst2-companion" or "base/sst2-seed-0-maps"; with `*` several trainings that explain the same
        texts, such as "trainings/sst2-companion-6-short-seed-*"; or the folder of a run of yours.
    results : the folder of the records, here or in a folder above.
    address : where a release has the zips of its records and `checksums.txt`; by default the variable
        `LRP_COMPANION_RECORDS`. Without one nothing is fetched.

    Raises
    ------
    SourceError : no such record.

    >>> open_record("sst2-12")                    # doctest: +SKIP
    TextRun sst2-companion: n = 872 of sst2/validation ...; methods loo, ...; model companion; commit ...
    """
    folder, path = nearby(results), NAMES.get(name, name)
    parts = _parts(folder, path)
    if not parts and (Path(path) / "manifest.json").is_file():
        folder, parts = Path(), {path: load_run(path)}
    if not parts and (address := address or os.environ.get(ADDRESS, "")):
        folder = fetched(path, address) / "results"
        parts = _parts(folder, path)
    if not parts:
        no_address = "" if address else f", and {ADDRESS} names no address to fetch it from"
        got, expected = f"{name!r}, not in {folder}{no_address}", "a record, such as sst2-12"
        hint = "keep a chapter's notebook beside its zip's results; in a checkout results/README.md lists all"
        raise SourceError("open_record", got=got, expected=expected, hint=hint)
    return Record(name, folder, parts)


def _parts(folder: Path, path: str) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for each in [path] if "*" not in path else sorted(_matching(folder, path)):
        if (folder / each / "manifest.json").is_file():
            parts[each] = load_run(folder / each)
        elif (folder / f"{each}.npz").is_file():
            parts[each] = dict(np.load(folder / f"{each}.npz"))
        elif (folder / f"{each}.json").is_file():
            parts[each] = {}  # all that it has is its config
    return parts


def _matching(folder: Path, pattern: str) -> list[str]:
    runs = [path.parent for path in folder.glob(f"{pattern}/manifest.json")]
    arrays = [path.with_suffix("") for path in folder.glob(f"{pattern}.npz")]
    return [path.relative_to(folder).as_posix() for path in (*runs, *arrays)]


def interval(values: Any) -> Any:
    """Mean over texts with its 95 % bootstrap interval; over trainings, too, where there are several.

    Parameters
    ----------
    values : a sequence of numbers, one per text, or an array with the axis text and, if it has several
        trainings, training. NaN is left out.

    Returns
    -------
    Interval or table
        An `Interval` (`mean`, `low`, `high`, `n`) if `values` has no other axis; else an `xarray.Dataset`
        of `mean`, `low`, `high` and `n` over the other axes: `.to_dataframe()` is a table of them.

    >>> r = xr.DataArray([[0.2, 0.4], [0.5, 0.7]], {"site": ["word", "embedding"]}, ["site", "text"])
    >>> interval(r)["mean"].values.round(3).tolist()
    [0.3, 0.6]
    """
    if not isinstance(values, xr.DataArray):
        return bootstrap_mean(values)
    rest = [str(name) for name in values.dims if name not in ("training", "text")]
    samples = [values.sizes[name] for name in ("training", "text") if name in values.dims]
    columns = values.transpose(*rest, ..., "text").values.reshape(-1, *samples)
    several = "training" in values.dims
    means = [mean_over(dict(enumerate(c))) for c in columns] if several else bootstrap_columns(list(columns))
    if not rest:
        return means[0]
    shape = [values.sizes[name] for name in rest]
    names = ("mean", "low", "high", "n")
    parts = {name: np.reshape([float(getattr(one, name)) for one in means], shape) for name in names}
    coords = {name: values.coords[name] for name in rest if name in values.coords}
    return xr.Dataset({name: (rest, part) for name, part in parts.items()}, coords)


def _r_of(part: Any) -> xr.DataArray:
    if isinstance(part, Mapping):
        return _r_of_maps(part)
    r = part.r() if isinstance(part, AnswerRun) else part.agreement()
    return r.rename(example="text")


def _r_of_maps(part: Mapping[str, np.ndarray]) -> xr.DataArray:
    """r from maps: sites word and, with learned positions, word+position; or as a record was cut to it."""
    if "explainer" in part:
        of = {name: part[name].tolist() for name in ("explainer", *AXIS_OPTIONS) if name in part}
        return xr.DataArray(part["r"], {**of, "text": np.sort(part["example"])}, [*of, "text"], name="r")
    maps = _maps(part)
    sites = ("word", "word+position") if "attnlrp+position" in maps else ("word",)
    methods = [name for name in maps if not name.startswith("loo ") and "+" not in name]
    removals = [name for name in maps if name.startswith("loo ")]
    axes: dict[str, Any] = {
        "explainer": methods,
        "site": list(sites),
        "tokens": [*TOKEN_CHOICES, "no-first"],
        "map": list(MAPS),
        "removal": [name.removeprefix("loo ") for name in removals],
        "statistic": list(STATISTICS),
    }
    columns = [maps.get(m if s == "word" else f"{m}+position", maps[m]) for m in methods for s in sites]
    texts = np.sort(part["example"])
    out = np.full((*map(len, axes.values()), len(texts)), np.nan)
    words = _by_text(part, "word")
    alike: dict[bytes, list[int]] = {}
    for k, word in enumerate(words):
        alike.setdefault(word.tobytes(), []).append(k)
    for group in alike.values():  # texts of one length, with special tokens at the same places, at once
        word, shape = words[group[0]], (len(group), len(methods), len(sites), 2, len(removals))
        stacked, loos = (
            np.array([[of[k] for of in by] for k in group], dtype=float)
            for by in (columns, [maps[n] for n in removals])
        )
        kept = {"all": word | True, "no-special": word, "no-first": np.arange(len(word)) > 0}
        for t, tokens in enumerate(axes["tokens"]):
            if kept[tokens].sum() < 2:
                continue
            seen, judges = stacked[..., kept[tokens]], loos[..., kept[tokens]]
            signs = np.sign(seen.sum(-1))[..., None] * np.sign(judges.sum(-1))[:, None]
            for s, statistic in enumerate(STATISTICS):
                raw = cross_correlation(seen, judges, statistic)
                both = np.stack([raw, np.where(signs == 0, np.nan, signs * raw)], 2)
                out[:, :, t, :, :, s, group] = both.reshape(shape)  # texts first
    return xr.DataArray(out, {**axes, "text": texts}, [*axes, "text"], name="r")


def _arrays(part: Any, methods: Collection[str] | None = None) -> Mapping[str, np.ndarray]:
    """The maps of a run, or those of some methods, as a `.npz` file has them."""
    if isinstance(part, Mapping):
        return part
    unknown = {*(methods or ())} - {*part.methods}  # is told beside all that there are
    maps: dict[str, list[np.ndarray]] = {}
    for name in part.methods:
        if name != "loo" and (methods is None or unknown or name in methods):
            maps |= {f"{name}{end}": part.maps(name, site=site) for site, end in ENDS.items()}
    loo = part.loo()
    columns = {"word": [~special for special in part.specials()], LOO: loo} | maps
    sizes = {"example": part.examples, "tokens": np.array([len(of) for of in loo])}
    return sizes | {name: np.concatenate(of) for name, of in columns.items()}


def _curves_of(part: Any) -> xr.DataArray:
    if isinstance(part, TextRun):
        values = {name: [part.column(name, curve) for curve in ("morf", "lerf")] for name in part.methods}
        texts = part.examples
    else:
        order, texts = np.argsort(part["example"]), np.sort(part["example"])
        names = [name.removeprefix("morf ") for name in part if name.startswith("morf ")]
        values = {name: [part[f"{curve} {name}"][order] for curve in ("morf", "lerf")] for name in names}
    stacked = np.array([[*two, two[1] - two[0]] for two in (np.asarray(v, float) for v in values.values())])
    coords = {"explainer": list(values), "curve": ["morf", "lerf", "delta"], "text": texts}
    return xr.DataArray(stacked, coords, list(coords), name="curves")


def _by_text(part: Mapping[str, np.ndarray], name: str) -> list[np.ndarray]:
    """An array of tokens as one array for each text, texts ascending."""
    pieces = np.split(part[name], np.cumsum(part["tokens"])[:-1])
    return [pieces[k] for k in np.argsort(part["example"], kind="stable")]


def _maps(part: Mapping[str, np.ndarray]) -> dict[str, list[np.ndarray]]:
    if "word" not in part or LOO not in part:
        raise InputError("Record", got="no maps", expected="a record of maps", hint="read its .arrays")
    names = [name for name in part if name != "word" and part[name].shape == part["word"].shape]
    return {name: _by_text(part, name) for name in names}


def _tokens(part: Any, site: str, methods: Collection[str] | None) -> pd.DataFrame:
    if "units" in part:  # with Shapley values, as `python -m lrp_book.records.shapley` writes it
        rest = {name: of for name, of in part.items() if name != "special"}
        part = rest | {"tokens": part["units"], "word": ~part["special"], LOO: part["loo"]}
    maps, word = _maps(part), _by_text(part, "word")
    ends = tuple(filter(None, ENDS.values()))
    named = [name for name in maps if not name.endswith(ends) and not name.startswith("loo ")]
    lacks = [f"method {name}" for name in methods or () if name not in (*named, "loo")]
    lacks += [] if not named or any(name.endswith(ENDS[site]) for name in maps) else [f"site {site}"]
    if lacks:
        known = f"some of {', '.join(named)}, at a site that they have"
        raise InputError("Record.tokens", got=", ".join(lacks), expected=known, hint="tokens() has all")
    named = [name for name in named if methods is None or name in methods]
    columns = {"special": [~of for of in word], "loo": maps[LOO]}
    columns |= {name: maps.get(f"{name}{ENDS[site]}", maps[name]) for name in named}
    sizes = [len(of) for of in word]
    places = np.concatenate([np.arange(size) for size in sizes])
    out = {"text": np.repeat(np.sort(part["example"]), sizes), "place": places}
    return pd.DataFrame(out | {name: np.concatenate(of) for name, of in columns.items()})
