"""A committed record as labelled arrays and tables, by its name. No torch, no texts, only numbers.

>>> r = open_record("sst2-12").r                                # doctest: +SKIP
>>> lead = r.sel(explainer="cp-lrp") - r.sel(explainer="attnlrp")  # doctest: +SKIP
>>> at = {"map": "raw", "removal": "attention-mask", "target": "logit", "statistic": "pearson"}
>>> interval(lead.sel(site="word", tokens="no-special", **at))  # doctest: +SKIP
Interval(mean=-0.0211, low=-0.0282, high=-0.0141, n=872, undefined=0, level=0.95)
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from lrp_companion.checks import InputError, SourceError
from lrp_companion.extras import extra
from lrp_companion.lab.base_run import READ
from lrp_companion.lab.labelled import mean, r_with_loo
from lrp_companion.lab.load import AnswerRun, AnyRun, TextRun, load_run, nearby
from lrp_companion.masks import mask_label, masks_on_paths
from lrp_companion.metrics import bootstrap_mean
from lrp_companion.metrics.grid import cross_correlation
from lrp_companion.schema import MAP_CHOICES, TOKEN_CHOICES

NAMES = {
    "sst2-12": "sst2-companion",
    "sst2-6": "sst2-companion-6",
    "imdb-12": "imdb-companion",
    "imdb-6": "imdb-companion-6-seed-1",
}
"""Short names of the runs on whole data sets: data and layers."""
RECORDS, CACHE = "LRP_COMPANION_RECORDS", "LRP_COMPANION_CACHE"
"""Variables: the address that records are fetched from, and the folder where they are kept."""
CHECKSUMS = "checksums.txt"
LOO = "loo attention-mask"
COUNTED = {"words": "no-special", "no-first": "no-first", "all": "all"}
STATISTICS = ("pearson", "spearman")


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
    parts: Mapping[str, AnyRun | Arrays]

    def __repr__(self) -> str:
        sizes = {f"{len(self._rows(part)):,} texts" for part in self.parts.values() if self._rows(part)}
        trainings = f", {len(self.parts)} trainings" if len(self.parts) > 1 else ""
        return f"Record({self.name!r}, {', '.join(sorted(sizes)) or 'no texts'}{trainings})"

    @cached_property
    def config(self) -> dict[str, Any]:
        """What stands beside the numbers: model, data, fingerprint, seed, versions, start and commit."""
        name, part = next(iter(self.parts.items()))
        if not isinstance(part, Arrays):
            return dict(part.manifest)
        beside = self.folder / f"{name}.json"
        return json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}

    @cached_property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The arrays of a record that is a `.npz` file, by name."""
        (part,) = self.parts.values()
        if not isinstance(part, Arrays):
            hint = "read .r, .layers, .curves, .tokens() or .frame()"
            raise InputError("Record.arrays", got=f"the run {self.name}", expected="a .npz file", hint=hint)
        return part

    @cached_property
    def r(self) -> xr.DataArray:
        """Agreement with LOO of every method in every text, under every choice that was measured.

        Axes: explainer, site, tokens, map, removal, target, statistic, text; of several trainings, training
        first. NaN where r is undefined. (An axis called method could not be chosen from: `sel` has an option
        of that name.)
        """
        return self._of_each(lambda part: _r_of_maps(part) if isinstance(part, Arrays) else _r_of_run(part))

    @cached_property
    def r_of_maps(self) -> xr.DataArray:
        """The same from the maps that a record keeps, which are rounded: sites word and word+position;
        tokens, too, "no-first", all but the first one; LOO by the attention mask, of the logit.
        """
        return self._of_each(lambda part: _r_of_maps(part if isinstance(part, Arrays) else _parts_of(part)))

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
        frames = [
            frame.assign(training=name)
            for name, part in self.parts.items()
            for frame in (_tokens(part, site, methods),)
        ]
        out = pd.concat(frames, ignore_index=True)
        return out if len(self.parts) > 1 else out.drop(columns="training")

    def frame(self, table: str) -> pd.DataFrame:
        """A table of a run, such as "examples", as it is stored."""
        runs = [part for part in self.parts.values() if not isinstance(part, Arrays)]
        for run in runs:
            sys.audit(READ, run.manifest["key"], table, None, None, None)
        return pd.concat([run.tables[table].to_pandas() for run in runs])

    @staticmethod
    def _rows(part: Any) -> list[int]:
        if isinstance(part, Arrays):
            return np.sort(part["example"]).tolist() if "example" in part else []
        return list(part.examples) if isinstance(part, TextRun) else list(range(part.n))

    def _of_each(self, cells: Callable[[Any], Cells]) -> xr.DataArray:
        """The cells of each training, read when and as far as they are chosen."""
        of = {name: cells(part) for name, part in self.parts.items()}
        (first, *others) = of.values()
        axes = {
            name: [one for one in options if all(one in other.axes[name] for other in others)]
            for name, options in first.axes.items()
        }
        if not others:
            return first.labelled()

        def read(chosen: Mapping[str, list[Any]]) -> np.ndarray:
            rest = {name: chosen[name] for name in axes}
            return np.stack([of[name].read(rest) for name in chosen["training"]])

        return Cells({"training": list(of), **axes}, read, first.dtype).labelled()

    def _layers_of(self, part: Any) -> Cells:
        if isinstance(part, TextRun):
            masks = {mask_label(mask): mask for mask in part.masks}
            if not masks:
                raise InputError("Record.layers", got=self.name, expected="a run of masks", hint="see .r")
            axes = {name: list(part.options[name]) for name in ("site", "tokens", "removal", "target")}

            def read(chosen: Mapping[str, list[Any]]) -> np.ndarray:
                named = {label: masks[label] for label in chosen["bypassed"]}
                at = {name: chosen[name] for name in axes} | {"statistic": "pearson", "map": "raw"}
                return r_with_loo(part, named, **at).sel(example=chosen["text"]).values

            return Cells({"bypassed": list(masks), **axes, "text": part.examples.tolist()}, read)
        of = self.config["config"]
        readings = [(site, COUNTED[tokens], statistic) for site, tokens, statistic in of["readings"]]
        sites, tokens, statistics = (sorted(set(each)) for each in zip(*readings, strict=True))
        labels = [mask_label(mask) for mask in masks_on_paths(of["layers"])]
        texts = part["example"].tolist()

        def read_array(chosen: Mapping[str, list[Any]]) -> np.ndarray:
            out = np.full(tuple(map(len, chosen.values())), np.nan, np.float32)
            rows, columns = (
                [of.index(one) for one in chosen[name]]
                for of, name in ((texts, "text"), (labels, "bypassed"))
            )
            for place in np.ndindex(out.shape[1:4]):
                reading = tuple(
                    chosen[name][k] for name, k in zip(("site", "tokens", "statistic"), place, strict=True)
                )
                if reading in readings:
                    values = part.at("r", readings.index(reading))
                    out[(slice(None), *place)] = values[np.ix_(rows, columns)].T
            return out

        axes = {"bypassed": labels, "site": sites, "tokens": tokens, "statistic": statistics}
        return Cells(axes | {"text": sorted(texts)}, read_array, np.dtype(np.float32))


def open_record(name: str, *, results: str | os.PathLike[str] = "results", address: str = "") -> Record:
    """Open a record by its name: from a folder here or above, else fetched, its checksum compared.

    Parameters
    ----------
    name : one of "sst2-12", "sst2-6", "imdb-12", "imdb-6", or a path in the folder of the records, such as
        "maps/sst2-companion" or "base/sst2-seed-0-maps"; with `*` several trainings that explain the same
        texts, such as "trainings/sst2-companion-6-short-seed-*".
    results : the folder of the records, here or in a folder above.
    address : where a release has the zips of its records and `checksums.txt`; by default the variable
        `LRP_COMPANION_RECORDS`. Without one nothing is fetched.

    Raises
    ------
    SourceError : no such record.

    >>> open_record("sst2-12")                    # doctest: +SKIP
    Record('sst2-12', 872 texts)
    """
    folder, path = nearby(results), NAMES.get(name, name)
    parts = _parts(folder, path)
    if not parts and (address := address or os.environ.get(RECORDS, "")):
        folder = _fetched(path, address)
        parts = _parts(folder, path)
    if not parts:
        no_address = "" if address else f", and {RECORDS} names no address to fetch it from"
        got, expected = f"{name!r}, not in {folder}{no_address}", "a record, such as sst2-12"
        raise SourceError("open_record", got=got, expected=expected, hint="results/README.md lists them")
    return Record(name, folder, parts)


def _parts(folder: Path, path: str) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for each in [path] if "*" not in path else sorted(_matching(folder, path)):
        if (folder / each / "manifest.json").is_file():
            parts[each] = load_run(folder / each)
        elif (folder / f"{each}.npz").is_file():
            parts[each] = Arrays(each, np.load(folder / f"{each}.npz"))
        elif (folder / f"{each}.json").is_file():
            parts[each] = Arrays(each, {})  # all that it has is its config
    return parts


def _matching(folder: Path, pattern: str) -> Iterator[str]:
    for path in folder.glob(f"{pattern}/manifest.json"):
        yield path.parent.relative_to(folder).as_posix()
    for path in folder.glob(f"{pattern}.npz"):
        yield path.relative_to(folder).with_suffix("").as_posix()


def archive(name: str) -> str:
    """The file of a release that holds a record.

    >>> archive("maps/sst2-companion")
    'maps--sst2-companion.zip'
    """
    return f"{name.replace('/', '--')}.zip"


def _fetched(pattern: str, address: str) -> Path:
    """The folder with the records of an address that match, fetched unless they were."""
    with extra("open_record"):
        import pooch
    cache = os.environ.get(CACHE) or pooch.os_cache("lrp-companion")
    place = Path(cache, hashlib.sha256(address.encode()).hexdigest()[:12])
    release = pooch.create(place, f"{address.rstrip('/')}/", registry={CHECKSUMS: None})
    release.load_registry(release.fetch(CHECKSUMS))
    for file in fnmatch.filter(release.registry_files, archive(pattern)):
        release.fetch(file, processor=pooch.Unzip(extract_dir="results"))
    return Path(release.path) / "results"


def interval(values: Any) -> Any:
    """Mean over texts with its 95 % bootstrap interval; over trainings, too, where there are several.

    Parameters
    ----------
    values : a sequence of numbers, one per text, or an array with the axis text and, if it has several
        trainings, training. NaN is left out.

    Returns
    -------
    An `Interval` (`mean`, `low`, `high`, `n`) if `values` has no other axis; else an `xarray.Dataset` of
    `mean`, `low`, `high` and `n` over the other axes: `.to_dataframe()` is a table of them.

    >>> str(interval([0.2, 0.4, 0.6]))
    '0.400 [0.200, 0.600], n = 3'
    >>> r = xr.DataArray([[0.2, 0.4], [0.5, 0.7]], {"site": ["word", "embedding"]}, ["site", "text"])
    >>> interval(r)["mean"].values.round(3).tolist()
    [0.3, 0.6]
    """
    if not isinstance(values, xr.DataArray):
        return bootstrap_mean(values)
    means = mean(values.rename(text="example") if "text" in values.dims else values)
    if not isinstance(means, xr.DataArray):
        return means
    parts = {
        name: np.vectorize(lambda one, name=name: getattr(one, name), otypes=[float])(means) for name in PARTS
    }
    return xr.Dataset({name: (means.dims, part) for name, part in parts.items()}, means.coords)


PARTS = ("mean", "low", "high", "n")


class Arrays(Mapping[str, np.ndarray]):
    """The arrays of a `.npz` file by name; each use of one is an audit event, as of the rows of a run."""

    def __init__(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        self.name, self._arrays = name, dict(arrays)

    def __getitem__(self, name: str) -> np.ndarray:
        sys.audit(READ, self.name, "", None, name, None)
        return self._arrays[name]

    def at(self, name: str, place: int) -> np.ndarray:
        """An array at one place of its second axis."""
        sys.audit(READ, self.name, "", None, name, [place])
        return self._arrays[name][:, place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def maps(self, like: str = "word") -> list[str]:
        """The names of those with a number for each token, as this one has."""
        shape = self._arrays[like].shape
        return [name for name, of in self._arrays.items() if name != like and of.shape == shape]


@dataclass(frozen=True)
class Cells(BackendArray):
    """An array by its axes, and how the values at some options of each are read."""

    axes: Mapping[str, list[Any]]
    read: Callable[[Mapping[str, list[Any]]], np.ndarray]
    dtype: np.dtype = np.dtype(float)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.axes.values()))

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        how = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, how, self._at)

    def _at(self, key: tuple[Any, ...]) -> np.ndarray:
        places = [np.arange(n)[one] for n, one in zip(self.shape, key, strict=True)]
        chosen = {
            name: [options[k] for k in np.atleast_1d(at)]
            for (name, options), at in zip(self.axes.items(), places, strict=True)
        }
        return self.read(chosen).reshape([at.size for at in places if at.ndim])

    def labelled(self) -> xr.DataArray:
        """The array, of which a value is read when it is used."""
        values = xr.Variable(list(self.axes), indexing.LazilyIndexedArray(self))
        return xr.DataArray(values, dict(self.axes), name="r")


def _made(r: xr.DataArray) -> Cells:
    """The same of an array whose values are there."""
    axes = {str(name): r[name].values.tolist() for name in r.dims}
    return Cells(axes, lambda chosen: r.sel(chosen).values, r.dtype)


def _r_of_run(run: Any) -> Cells:
    if isinstance(run, AnswerRun):
        return _made(run.r().rename(example="text"))
    options = {name: list(of) for name, of in run.options.items()}
    options["map"] = list(MAP_CHOICES[:2])  # divided by sum |R| it is the raw map's

    def read(chosen: Mapping[str, list[Any]]) -> np.ndarray:
        at = {name: chosen[name] for name in options}
        return r_with_loo(run, chosen["explainer"], **at).sel(example=chosen["text"]).values

    return Cells({"explainer": list(run.methods), **options, "text": run.examples.tolist()}, read)


def _r_of_maps(part: Arrays) -> Cells:
    """r from maps: sites word and, with learned positions, word+position."""
    names = _maps(part)
    removals = [name.removeprefix("loo ") for name in names if name.startswith("loo ")]
    axes: dict[str, list[Any]] = {
        "explainer": [name for name in names if not name.startswith("loo ") and "+" not in name],
        "site": ["word", "word+position"] if "attnlrp+position" in names else ["word"],
        "tokens": [*TOKEN_CHOICES, "no-first"],
        "map": list(MAP_CHOICES[:2]),
        "removal": removals,
        "statistic": list(STATISTICS),
        "text": np.sort(part["example"]).tolist(),
    }

    def read(chosen: Mapping[str, list[Any]]) -> np.ndarray:
        ends = ["" if site == "word" else "+position" for site in chosen["site"]]
        wanted = [f"{m}{e}" if f"{m}{e}" in names else m for m in chosen["explainer"] for e in ends]
        columns = {name: _by_text(part, name) for name in wanted}
        loos = [_by_text(part, f"loo {removal}") for removal in chosen["removal"]]
        word = _by_text(part, "word")
        out = np.full(tuple(map(len, chosen.values())), np.nan)
        for place, text in enumerate(chosen["text"]):
            k = axes["text"].index(text)
            kept = {"all": word[k] | True, "no-special": word[k], "no-first": np.arange(len(word[k])) > 0}
            seen = np.stack([columns[name][k] for name in wanted]).astype(float)
            judges = np.stack([of[k] for of in loos]).astype(float)
            for t, tokens in enumerate(chosen["tokens"]):
                if kept[tokens].sum() < 2:
                    continue
                a, b = seen[:, kept[tokens]], judges[:, kept[tokens]]
                signs = np.sign(a.sum(-1))[:, None] * np.sign(b.sum(-1))
                signs = np.where(signs == 0, np.nan, signs)
                for s, statistic in enumerate(chosen["statistic"]):
                    raw = cross_correlation(a, b, statistic)
                    by_map = np.stack([raw if of == "raw" else signs * raw for of in chosen["map"]], 1)
                    shape = len(chosen["explainer"]), len(ends), *by_map.shape[1:]
                    out[:, :, t, :, :, s, place] = by_map.reshape(shape)
        return out

    return Cells(axes, read)


def _parts_of(run: TextRun) -> Arrays:
    """The maps of a run as a `.npz` file has them."""
    loo, out = run.loo(), {"example": run.examples}
    special = [np.isin(np.arange(len(of)), at) for of, at in zip(loo, run.specials(), strict=True)]
    columns = {"word": [~of for of in special], LOO: loo}
    for name in run.methods:
        if name != "loo":
            columns |= {name: run.maps(name), f"{name}+position": run.maps(name, site="word+position")}
    sizes = {"tokens": np.array([len(of) for of in loo])}
    return Arrays(run.name, out | sizes | {name: np.concatenate(of) for name, of in columns.items()})


def _curves_of(part: Any) -> Cells:
    run = isinstance(part, TextRun)
    texts = (part.examples if run else np.sort(part["example"])).tolist()
    ends = part.methods if run else [name for name in part if name.startswith("morf ")]
    names = [name.removeprefix("morf ") for name in ends]

    def column(name: str, curve: str) -> np.ndarray:
        if run:
            return part.column(name, curve)
        return part[f"{curve} {name}"][np.argsort(part["example"])].astype(float)

    def read(chosen: Mapping[str, list[Any]]) -> np.ndarray:
        rows = [texts.index(text) for text in chosen["text"]]
        two = [[column(name, curve)[rows] for curve in ("morf", "lerf")] for name in chosen["explainer"]]
        of = [{"morf": morf, "lerf": lerf, "delta": lerf - morf} for morf, lerf in two]
        return np.array([[values[curve] for curve in chosen["curve"]] for values in of])

    return Cells({"explainer": names, "curve": ["morf", "lerf", "delta"], "text": texts}, read)


def _by_text(part: Mapping[str, np.ndarray], name: str) -> list[np.ndarray]:
    """An array of tokens as one array for each text, texts ascending."""
    pieces = np.split(part[name], np.cumsum(part["units" if "units" in part else "tokens"])[:-1])
    return [pieces[k] for k in np.argsort(part["example"], kind="stable")]


def _maps(part: Arrays) -> list[str]:
    if "word" not in part or LOO not in part:
        raise InputError("Record", got="no maps", expected="a record of maps", hint="read its .arrays")
    return part.maps()


def _tokens(part: Any, site: str, methods: Collection[str] | None) -> pd.DataFrame:
    if isinstance(part, TextRun):
        return _tokens_of_run(part, site, methods)
    # Shapley values are of units, as `python -m lrp_book.records.shapley` writes them
    loo, names = ("loo", part.maps("special")) if "units" in part else (LOO, _maps(part))
    special = _by_text(part, "special") if "units" in part else [~of for of in _by_text(part, "word")]
    ends = ("",) if site == "word" else ("+position", "")
    columns = {"special": special, "loo": _by_text(part, loo)}
    for name in names:
        method = name != "loo" and "+" not in name and not name.startswith("loo ")
        if method and (methods is None or name in methods):
            at = next(f"{name}{end}" for end in ends if f"{name}{end}" in names)
            columns[name] = _by_text(part, at)
    return _framed(np.sort(part["example"]), columns)


def _tokens_of_run(run: TextRun, site: str, methods: Collection[str] | None) -> pd.DataFrame:
    loo = run.loo()
    special = [np.isin(np.arange(len(of)), at) for of, at in zip(loo, run.specials(), strict=True)]
    wanted = [name for name in run.methods if name != "loo" and (methods is None or name in methods)]
    maps = {name: run.maps(name, site=site) for name in wanted}
    return _framed(run.examples, {"special": special, "loo": loo, **maps})


def _framed(texts: Any, columns: Mapping[str, list[np.ndarray]]) -> pd.DataFrame:
    sizes = [len(of) for of in columns["loo"]]
    places = np.concatenate([np.arange(size) for size in sizes])
    out = {"text": np.repeat(texts, sizes), "place": places}
    return pd.DataFrame(out | {name: np.concatenate(of) for name, of in columns.items()})
