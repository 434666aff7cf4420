"""Runs as they are read: one loader for reports, pages and notebooks. No torch, no texts, numbers only."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lrp_companion.masks import bypassed, mask_number
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.grid import at_map, place
from lrp_companion.runs.folder import JOB, read_folder
from lrp_companion.schema import (
    DEFAULT_PROTOCOL,
    SITES,
    TARGET_CHOICES,
    TOKEN_CHOICES,
    InputError,
    Protocol,
    SourceError,
    check_layers,
    choose,
)

EMBEDDING_PARTS = ("word", "position", "type")
TOP = (1, 3, 5)
"""How many tokens are compared in an overlap."""
Explanation = str | Iterable[int]
"""A method's name, or the layers that are bypassed (from 1)."""


@dataclass(frozen=True)
class Run:
    """A run and its rows, sorted by example; only examples that every table holds are read."""

    name: str
    manifest: Mapping[str, Any]
    tables: Mapping[str, pa.Table]

    @property
    def task(self) -> str:
        return self.manifest["config"]["task"]

    @property
    def model(self) -> str:
        return self.manifest["model"]["name"]

    @property
    def seconds(self) -> float:
        """Time of all sessions together; a session that was killed has none."""
        return float(sum(session["seconds"] or 0 for session in self.manifest["sessions"]))

    def describe(self) -> str:
        """Model, data, n and key in one line."""
        return f"{self.model} on {self.manifest['data']}, n = {self.n:,} (run {self.manifest['key']})"

    @property
    def n(self) -> int:
        raise NotImplementedError


@dataclass(frozen=True)
class TextRun(Run):
    """A run on reviews: agreement with LOO under every choice, curves, and layers bypassed."""

    @cached_property
    def examples(self) -> np.ndarray:
        """Rows of the split, ascending: the examples that every table holds."""
        jobs = [set(table[JOB].to_pylist()) for name, table in self.tables.items() if "_" not in name]
        return np.array(sorted(set.intersection(*jobs)))

    @property
    def n(self) -> int:
        return len(self.examples)

    @property
    def layers(self) -> int:
        return int(self.manifest["model"]["layers"])

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.manifest["config"]["methods"])

    @cached_property
    def masks(self) -> tuple[frozenset[int], ...]:
        """Masks that were run beside the methods: sets of bypassed layers."""
        numbers: list[int] = (
            np.unique(self.tables["masks"]["mask"].to_numpy()).tolist() if "masks" in self.tables else []
        )
        return tuple(bypassed(number) for number in numbers)

    def example_column(self, name: str) -> np.ndarray:
        """A number per example: `label`, `target`, `tokens`, `whole` (tokens before truncation)."""
        return self._sorted("examples", None)[name].to_numpy()

    def column(self, explanation: Explanation, name: str) -> np.ndarray:
        """A number per example: `morf`, `lerf`, `delta`, and for methods `seconds`, `convergence_delta`."""
        if name == "delta":
            return self.column(explanation, "lerf") - self.column(explanation, "morf")
        return self._rows(explanation)[name].to_numpy().astype(np.float64)

    def r(self, explanation: Explanation, protocol: Protocol = DEFAULT_PROTOCOL) -> np.ndarray:
        """Agreement with LOO of each example under a protocol; NaN where undefined or not measured."""
        table, axes = self._rows(explanation), self.manifest["axes"]
        if protocol.removal not in axes["removal"]:
            expected = f"one of {', '.join(axes['removal'])}"
            raise InputError(
                "Run.r",
                got=f"removal {protocol.removal!r}",
                expected=expected,
                hint="this task was run with these only",
            )
        statistics = axes["statistic"] if isinstance(explanation, str) else ["pearson"]
        if protocol.statistic not in statistics:
            raise InputError(
                "Run.r",
                got=f"{protocol.statistic} for a mask",
                expected="pearson",
                hint="masks were run with Pearson's r only",
            )
        shape = (len(SITES), len(TOKEN_CHOICES), len(axes["removal"]), len(TARGET_CHOICES), len(statistics))
        where = list(place(protocol))
        where[2], where[4] = axes["removal"].index(protocol.removal), statistics.index(protocol.statistic)
        site, tokens, removal, target, statistic = where
        raw = _stack(table["r"], shape)[:, site, tokens, removal, target, statistic]
        own = [
            _stack(table[name], (len(SITES), len(TOKEN_CHOICES), len(TARGET_CHOICES)))[
                :, site, tokens, target
            ]
            for name in ("sum", "size")
        ]
        loo = self._loo_sums(protocol)
        return at_map(raw, protocol.map, sums=(own[0], loo[0]), sizes=(own[1], loo[1]))

    def agreement(self, explanation: Explanation, protocol: Protocol = DEFAULT_PROTOCOL) -> Interval:
        """Mean r with its 95 % bootstrap interval."""
        return bootstrap_mean(self.r(explanation, protocol))

    def difference(
        self, explanation: Explanation, other: Explanation, protocol: Protocol = DEFAULT_PROTOCOL
    ) -> Interval:
        """Mean paired difference of r, `explanation - other`, with its 95 % bootstrap interval."""
        return paired_difference(self.r(explanation, protocol), self.r(other, protocol))

    def negative_sum(
        self, explanation: Explanation, *, site: str = "word", tokens: str = "all", target: str = "logit"
    ) -> np.ndarray:
        """1 where the sum of the map is negative, else 0; NaN where there is no map."""
        sums = _stack(self._rows(explanation)["sum"], (len(SITES), len(TOKEN_CHOICES), len(TARGET_CHOICES)))
        own = sums[:, SITES.index(site), TOKEN_CHOICES.index(tokens), TARGET_CHOICES.index(target)]
        return np.where(np.isnan(own), np.nan, own < 0)

    def share(self, explanation: Explanation, *, token: str = "special", site: str = "word") -> np.ndarray:
        """The part of sum |R| that stands on "first" ([CLS]), "last" ([SEP]) or all "special" tokens, for the
        logit.
        """
        table = self._rows(explanation)
        sizes = _stack(table["size"], (len(SITES), len(TOKEN_CHOICES), len(TARGET_CHOICES)))[
            :, SITES.index(site), :, 0
        ]
        everything = sizes[:, TOKEN_CHOICES.index("all")]
        with np.errstate(invalid="ignore", divide="ignore"):
            if token == "special":
                return 1 - sizes[:, TOKEN_CHOICES.index("no-special")] / everything
            parts = _stack(table[token], (len(EMBEDDING_PARTS),))
            return np.abs(np.nansum(parts[:, : SITES.index(site) + 1], 1)) / everything

    def parts(self, explanation: Explanation, *, token: str = "first", site: str = "word") -> np.ndarray:
        """Relevance of the "first" ([CLS]) or "last" ([SEP]) token by part (word, position, type), signed,
        divided by sum |R|; (n, 3).
        """
        table = self._rows(explanation)
        sizes = _stack(table["size"], (len(SITES), len(TOKEN_CHOICES), len(TARGET_CHOICES)))
        with np.errstate(invalid="ignore", divide="ignore"):
            return (
                _stack(table[token], (len(EMBEDDING_PARTS),))
                / sizes[:, SITES.index(site), TOKEN_CHOICES.index("all"), :1]
            )

    def overlap(
        self, method: str, *, k: int = 3, site: str = "word", tokens: str = "no-special"
    ) -> np.ndarray:
        """The part of the k tokens with the largest |LOO| that is among the k with the largest |R|; NaN with
        fewer than k tokens.
        """
        if k not in TOP:
            raise InputError(
                "Run.overlap",
                got=f"k {k!r}",
                expected=f"one of {', '.join(map(str, TOP))}",
                hint="a run counts these only",
            )
        return self._near(method, "overlap", (len(TOP),), site, tokens)[:, TOP.index(k)]

    def error(self, method: str, *, site: str = "word", tokens: str = "no-special") -> np.ndarray:
        """How far a map is from LOO's own values: sum |R - LOO| / sum |LOO| of each example, 0 for LOO
        itself.
        """
        return self._near(method, "error", (), site, tokens)

    def passes(self, method: str) -> np.ndarray:
        """Forward and backward passes that each example cost, (n, 2)."""
        return _stack(self._near_column(method, "passes"), (2,))

    def _near(self, method: str, name: str, shape: tuple[int, ...], site: str, tokens: str) -> np.ndarray:
        choose(f"Run.{name}", "site", site, SITES)
        choose(f"Run.{name}", "tokens", tokens, TOKEN_CHOICES)
        found = _stack(self._near_column(method, name), (len(SITES), len(TOKEN_CHOICES), *shape))
        return found[:, SITES.index(site), TOKEN_CHOICES.index(tokens)]

    def _near_column(self, method: str, name: str) -> Any:
        if not isinstance(method, str) or name not in self.tables["methods"].column_names:
            expected = "a method of a run that names methods beyond the default six"
            got = f"{name} of {method!r} in {self.name}"
            raise InputError(
                f"Run.{name}", got=got, expected=expected, hint="such as --methods loo,attnlrp,mask-gradient"
            )
        return self._rows(method)[name]

    def logits(self) -> np.ndarray:
        """Logits (n, classes) of the whole texts."""
        return np.stack([after[0, 0] for after in self._after])

    def mask_means(self, *, site: str = "word", tokens: str = "no-special", part: str = "all") -> np.ndarray:
        """Mean r of all 2**L masks over the examples ("all") or over the "first half" or "second half"; shape
        (2**L,).
        """
        if "lattice_means" not in self.tables:
            raise InputError(
                "Run.mask_means",
                got=f"{self.name}, run without all masks",
                expected="a run with --masks all",
                hint="run it again with that",
            )
        rows = self.tables["lattice_means"].to_pydict()
        found = [
            rows["mean"][k]
            for k in range(len(rows["mean"]))
            if (rows["part"][k], rows["site"][k], rows["tokens"][k]) == (part, site, tokens)
        ]
        return np.array(found)

    def _rows(self, explanation: Explanation) -> pa.Table:
        if isinstance(explanation, str):
            if explanation not in self.methods:
                raise InputError(
                    "Run",
                    got=f"method {explanation!r}",
                    expected=f"one of {', '.join(self.methods)}",
                    hint="this run has no other",
                )
            return self._sorted("methods", explanation)
        layers = check_layers("Run", explanation, self.layers)
        if layers not in self.masks:
            raise InputError(
                "Run",
                got=f"layers {sorted(layers)}",
                expected="a mask on the paper's paths",
                hint="run it with --masks paths",
            )
        return self._sorted("masks", mask_number(layers))

    def _sorted(self, name: str, which: str | int | None) -> pa.Table:
        memory = self.__dict__.setdefault("_memory", {})
        if (name, which) not in memory:
            table = self.tables[name]
            keep = np.isin(table[JOB].to_numpy(), self.examples)
            if which is not None:
                keep &= np.asarray(table["method" if name == "methods" else "mask"].to_pylist()) == which
            memory[name, which] = table.filter(pa.array(keep)).sort_by(JOB)
        return memory[name, which]

    @cached_property
    def _after(self) -> list[np.ndarray]:
        table = self._sorted("examples", None)
        removals = len(self.manifest["axes"]["removal"])
        return [
            np.array(after).reshape(removals, tokens + 1, -1)
            for after, tokens in zip(table["after"].to_pylist(), table["tokens"].to_pylist(), strict=True)
        ]

    def loo(self, protocol: Protocol = DEFAULT_PROTOCOL) -> list[np.ndarray]:
        """LOO maps (T,) of the examples under a removal and a target, special tokens included."""
        where = self.manifest["axes"]["removal"].index(protocol.removal)
        return [
            loo_map(after[where], int(target), protocol.target)
            for after, target in zip(self._after, self.example_column("target"), strict=True)
        ]

    def _loo_sums(self, protocol: Protocol) -> tuple[np.ndarray, np.ndarray]:
        memory = self.__dict__.setdefault("_memory", {})
        at = "loo", protocol.removal, protocol.target, protocol.tokens
        if at not in memory:
            maps = self.loo(protocol)
            if protocol.tokens == "no-special":
                specials = self._sorted("examples", None)["special"].to_pylist()
                maps = [np.delete(one, special) for one, special in zip(maps, specials, strict=True)]
            memory[at] = np.array([one.sum() for one in maps]), np.array([np.abs(one).sum() for one in maps])
        return memory[at]


@dataclass(frozen=True)
class DigitRun(Run):
    """What runs on digits share: images that are explained under every net."""

    @property
    def n(self) -> int:
        """Images explained under each net."""
        return len(set(self.tables["images"]["image"].to_pylist()))

    @property
    def explainers(self) -> tuple[str, ...]:
        return tuple(self.manifest["config"]["explainers"])


@dataclass(frozen=True)
class MnistRun(DigitRun):
    """A run on MNIST: nets of several seeds, and one row per net, image and explainer; each image stands
    under each net.
    """

    @property
    def seeds(self) -> list[int]:
        return sorted(set(self.tables["images"]["seed"].to_pylist()))

    def accuracy(self) -> np.ndarray:
        """Of every net, on the whole test split."""
        return self.tables["nets"].sort_by("seed")["accuracy"].to_numpy()

    def values(self, explainer: str, column: str, *, seed: int | None = None) -> np.ndarray:
        """A column of one explainer, one value per image: of one net, or the mean over the nets for each
        image.
        """
        if explainer not in self.explainers:
            expected = f"one of {', '.join(self.explainers)}"
            raise InputError(
                "Run", got=f"explainer {explainer!r}", expected=expected, hint="this run has no other"
            )
        table = self.tables["images"]
        keep = np.asarray(table["explainer"].to_pylist()) == explainer
        own = table.filter(pa.array(keep)).sort_by([("seed", "ascending"), ("image", "ascending")])
        values = own[column].to_numpy().astype(np.float64).reshape(len(self.seeds), -1)
        return values.mean(0) if seed is None else values[self.seeds.index(seed)]


@dataclass(frozen=True)
class MnistGridRun(DigitRun):
    """A run over variants of the paper's MNIST nets: several seeds of each, and some images under each
    net.
    """

    @cached_property
    def variants(self) -> list[dict[str, Any]]:
        """Options of the nets, the plainest first; a variant's number is its place."""
        choices = self.manifest["config"]["choices"]
        return [dict(zip(choices, point, strict=True)) for point in itertools.product(*choices.values())]

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
            other = self._of(variant, "LOO") if pair.endswith("LOO") else rows
            first = rows["negative left" if pair.startswith("left") else "negative right"]
            second = other["negative right"]  # LOO is one map for both graphs
            r = r * _sign(first) * _sign(second)
        return r.reshape(len(self.seeds), -1)

    def negative(self, variant: int, explainer: str, side: str) -> np.ndarray:
        """Whether the sum of a map is negative, "left" or "right", shape (seeds, images)."""
        return (
            self._of(variant, explainer)[f"negative {side}"]
            .to_numpy(zero_copy_only=False)
            .reshape(len(self.seeds), -1)
        )

    def ig(self) -> list[dict[str, Any]]:
        """Rows of IG by `variant`, `seed`, `image`, `baseline`, `n_steps`: `r` with LOO and `delta`, the
        convergence delta.
        """
        table = self.tables["ig"]
        jobs = table[JOB].to_numpy()
        extra = {"variant": pa.array(jobs % len(self.variants)), "seed": pa.array(jobs // len(self.variants))}
        return pa.table(
            {**{name: table[name] for name in table.column_names if name != JOB}, **extra}
        ).to_pylist()

    def _of(self, variant: int, explainer: str) -> pa.Table:
        memory = self.__dict__.setdefault("_memory", {})
        if (variant, explainer) not in memory:
            table = self.tables["images"]
            jobs = [seed * len(self.variants) + variant for seed in self.seeds]
            keep = np.isin(table[JOB].to_numpy(), jobs) & (
                np.asarray(table["explainer"].to_pylist()) == explainer
            )
            memory[variant, explainer] = table.filter(pa.array(keep)).sort_by(
                [(JOB, "ascending"), ("image", "ascending")]
            )
        return memory[variant, explainer]


def _sign(negative: Any) -> np.ndarray:
    return np.where(negative.to_numpy(zero_copy_only=False), -1.0, 1.0)


def _whole(run: MnistRun) -> MnistRun:
    """The nets and images of a run that is not finished: as many as make a full table, each image under each
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


AnyRun = TextRun | MnistRun | MnistGridRun


def load_run(path: str | os.PathLike[str]) -> AnyRun:
    """Read the folder of a run, finished or not.

    Raises
    ------
    SourceError : no such folder, no run in it, or a file that cannot be read or belongs to another run.
    """
    manifest, tables = read_folder(path)
    name = Path(path).resolve().name
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
        return _whole(MnistRun(name, manifest, {**tables, "images": images.append_column("seed", seeds)}))
    if "methods" not in tables:
        raise SourceError(
            "load_run",
            got=f"{path}, without explained examples",
            expected="at least one finished example",
            hint="let the run go on",
        )
    return TextRun(name, manifest, tables)


def nearby(folder: str | os.PathLike[str]) -> Path:
    """A folder that is looked for here and in the folders above; the path as given where there is none."""
    here = Path.cwd()
    return next(
        (place / folder for place in (here, *here.parents) if (place / folder).is_dir()), Path(folder)
    )


def load_runs(paths: Sequence[str | os.PathLike[str]]) -> list[AnyRun]:
    """Read several runs; a folder without a manifest stands for the runs in it."""
    out: list[AnyRun] = []
    for path in map(Path, paths):
        inside = (
            sorted(folder.parent for folder in path.glob("*/manifest.json"))
            if path.is_dir() and not (path / "manifest.json").is_file()
            else []
        )
        out += [load_run(folder) for folder in inside] or [load_run(path)]
    return out


def _stack(column: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A column of lists of one length as (n, *shape), float64."""
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    return flat.reshape(len(column), *shape)


def loo_map(after: np.ndarray, target: int, output: str) -> np.ndarray:
    """LOO (T,) of an output ("logit", "margin", "probability") from logits (1 + T, C) of the whole text and
    without each token.

    >>> loo_map(np.array([[1.0, 3.0], [1.0, 2.5], [2.0, 3.0]]), 1, "margin")
    array([0.5, 1. ])
    """
    chosen = after[:, target]
    if output == "probability":
        chosen = 1 / np.exp(after - after[:, target : target + 1]).sum(1)
    elif output == "margin":
        chosen = chosen - np.delete(after, target, axis=1).max(1)
    return chosen[0] - chosen[1:]
