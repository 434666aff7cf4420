"""Reading a run on reviews: agreement with LOO under every protocol, curves, maps, layers bypassed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from lrp_companion.attribution import CANCELLED, SITE_PARTS, SITES, scores_at
from lrp_companion.checks import InputError, choose
from lrp_companion.lab.base_run import (
    EMBEDDING_PARTS,
    ERRORS,
    OVERLAPS,
    PARTS,
    PASSES,
    READ,
    SUMS,
    TOP,
    Axes,
    Explanation,
    Rows,
    Run,
    agreement_axes,
    left_out,
)
from lrp_companion.lab.folder import JOB
from lrp_companion.masks import bypassed, mask_number
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.grid import at_map
from lrp_companion.schema import (
    AXIS_OPTIONS,
    DEFAULT_PROTOCOL,
    MULTI_LABEL,
    TOKEN_CHOICES,
    Protocol,
    check_layers,
)


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
    def multi_label(self) -> bool:
        return self.manifest["model"].get("problem_type") == MULTI_LABEL

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.manifest["config"]["methods"])

    @property
    def options(self) -> dict[str, tuple[str, ...]]:
        """Every choice of a protocol, and the options that the run was made with."""
        config, axes = self.manifest["config"], self.manifest["axes"]
        made = {"removal": axes["removal"], "target": config.get("targets", AXIS_OPTIONS["target"])}
        return {name: tuple(made.get(name, options)) for name, options in AXIS_OPTIONS.items()}

    @cached_property
    def masks(self) -> tuple[frozenset[int], ...]:
        """Masks that were run besides the methods: sets of bypassed layers."""
        if "masks" not in self.tables:
            return ()
        numbers = np.unique(self.tables["masks"]["mask"].to_numpy())
        return tuple(bypassed(number) for number in numbers.tolist())

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
        rows, axes = self._rows(explanation), self.manifest["axes"]
        choose("Run.r", "removal", protocol.removal, axes["removal"])
        statistics = axes["statistic"] if isinstance(explanation, str) else ["pearson"]
        if protocol.statistic not in statistics:
            raise InputError(
                "Run.r",
                got=f"{protocol.statistic} for a mask",
                expected="pearson",
                hint="masks were run with Pearson's r only",
            )
        at = {"site": protocol.site, "tokens": protocol.tokens, "target": protocol.target}
        stored = agreement_axes(axes["removal"], statistics)
        raw = rows.read(stored, "r", **at, removal=protocol.removal, statistic=protocol.statistic)
        if protocol.map != "sum-to-one":  # a positive scale, which r does not see
            return raw
        total, size = rows.read(SUMS, "sum", **at), rows.read(SUMS, "size", **at)
        loo = self.loo_signs(protocol)
        return at_map(raw, protocol.map, sums=(total, loo), sizes=(size, np.ones_like(loo)))

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
        """1 if the sum of the map is negative, else 0; NaN if there is no map."""
        sums = self._rows(explanation).read(SUMS, "sum", site=site, tokens=tokens, target=target)
        return np.where(np.isnan(sums), np.nan, sums < 0)

    def share(self, explanation: Explanation, *, token: str = "special", site: str = "word") -> np.ndarray:
        """The share of sum |R| on "first" ([CLS]), "last" ([SEP]) or all "special" tokens, for the logit."""
        rows = self._rows(explanation)
        whole = self._size(rows, site, "all")
        with np.errstate(invalid="ignore", divide="ignore"):
            if token == "special":
                return 1 - self._size(rows, site, "no-special") / whole
            parts = rows.read(PARTS, token, part=list(SITE_PARTS[site]))
            return np.abs(np.nansum(parts, 1)) / whole

    def parts(self, explanation: Explanation, *, token: str = "first", site: str = "word") -> np.ndarray:
        """Relevance of the "first" ([CLS]) or "last" ([SEP]) token by part (word, position, type), signed,
        divided by sum |R|; (n, 3).
        """
        rows = self._rows(explanation)
        with np.errstate(invalid="ignore", divide="ignore"):
            return rows.read(PARTS, token) / self._size(rows, site, "all")[:, None]

    def _size(self, rows: Rows, site: str, tokens: str) -> np.ndarray:
        """Sum |R| of the maps of the logit."""
        return rows.read(SUMS, "size", site=site, tokens=tokens, target="logit")

    def overlap(
        self, method: str, *, k: int = 3, site: str = "word", tokens: str = "no-special"
    ) -> np.ndarray:
        """The share of the k tokens with the largest |LOO| that are among the k with the largest |R|.

        NaN for a text with fewer than k tokens.
        """
        if k not in TOP:
            raise InputError(
                "Run.overlap",
                got=f"k {k!r}",
                expected=f"one of {', '.join(map(str, TOP))}",
                hint="a run counts these only",
            )
        return self._nearness(method, "overlap", OVERLAPS, site=site, tokens=tokens, k=k)

    def error(self, method: str, *, site: str = "word", tokens: str = "no-special") -> np.ndarray:
        """The distance of each map from LOO's values, sum |R - LOO| / sum |LOO|; 0 for LOO itself."""
        return self._nearness(method, "error", ERRORS, site=site, tokens=tokens)

    def passes(self, method: str) -> np.ndarray:
        """Forward and backward passes that each example cost, (n, 2)."""
        return self._near(method, "passes").read(PASSES, "passes")

    def _nearness(self, method: str, name: str, axes: Axes, **at: Any) -> np.ndarray:
        choose(f"Run.{name}", "site", at["site"], SITES)
        choose(f"Run.{name}", "tokens", at["tokens"], TOKEN_CHOICES)
        return self._near(method, name).read(axes, name, **at)

    def _near(self, method: str, name: str) -> Rows:
        if not isinstance(method, str) or name not in self.tables["methods"].column_names:
            expected = "a method of a run that names methods beyond the default six"
            got = f"{name} of {method!r} in {self.name}"
            raise InputError(
                f"Run.{name}", got=got, expected=expected, hint="such as --methods loo,attnlrp,mask-gradient"
            )
        return self._rows(method)

    def maps(self, method: str, *, site: str = "word") -> list[np.ndarray]:
        """Maps (T,) of the logit at a site, special tokens included; of a run with --keep-maps."""
        choose("Run.maps", "site", site, SITES)
        return [scores_at(parts, site) for parts in self.map_parts(method)]

    def map_parts(self, method: str) -> list[dict[str, np.ndarray]]:
        """The same by part of the embedding, each (T,); a method without parts has its map under "word"."""
        rows = self._rows(method)
        if "map" not in rows.table.column_names:
            got, hint = f"{self.name}, which keeps no maps", "run it again with that, and --loo-from this run"
            raise InputError("Run.maps", got=got, expected="a run with --keep-maps", hint=hint)
        stacked = [np.array(values).reshape(len(EMBEDDING_PARTS), -1) for values in rows["map"].to_pylist()]
        return [
            {
                name: part
                for name, part in zip(EMBEDDING_PARTS, parts, strict=True)
                if not np.isnan(part).any()
            }
            for parts in stacked
        ]

    def specials(self) -> list[np.ndarray]:
        """Places of the special tokens of each example, none where its model has none."""
        return [
            np.array(places, dtype=int) for places in self._sorted("examples", None)["special"].to_pylist()
        ]

    def logits(self) -> np.ndarray:
        """Logits (n, classes) of the whole texts."""
        sys.audit(READ, self.manifest["key"], "examples", None, "after", None)
        logits = np.stack([after[0, 0] for after in self._after])
        if np.isnan(logits).any():
            raise left_out("logits")
        return logits

    def mask_means(self, *, site: str = "word", tokens: str = "no-special", part: str = "all") -> np.ndarray:
        """Mean r of all 2**L masks over the examples ("all") or over half of them ("first half", "second
        half"); shape (2**L,).
        """
        if "lattice_means" not in self.tables:
            raise InputError(
                "Run.mask_means",
                got=f"{self.name}, run without all masks",
                expected="a run with --masks all",
                hint="run it again with that",
            )
        sys.audit(READ, self.manifest["key"], "lattice_means", None, None, None)
        rows = self.tables["lattice_means"].to_pylist()
        asked = {"part": part, "site": site, "tokens": tokens}
        return np.array([row["mean"] for row in rows if asked.items() <= row.items()])

    def _rows(self, explanation: Explanation) -> Rows:
        if isinstance(explanation, str):
            return self._sorted("methods", choose("Run", "method", explanation, self.methods))
        layers = check_layers("Run", explanation, self.layers)
        if layers not in self.masks:
            raise InputError(
                "Run",
                got=f"layers {sorted(layers)}",
                expected="a mask on the paper's paths",
                hint="run it with --masks paths",
            )
        return self._sorted("masks", mask_number(layers))

    def _sorted(self, name: str, which: str | int | None) -> Rows:
        """Rows of the examples in their order: all of a table, or those of a method or a mask."""

        def rows() -> Rows:
            table = self.tables[name]
            keep = np.isin(table[JOB].to_numpy(), self.examples)
            if which is not None:
                keep &= np.asarray(table["method" if name == "methods" else "mask"].to_pylist()) == which
            return Rows(table.filter(pa.array(keep)).sort_by(JOB), (self.manifest["key"], name, which))

        return self.once((name, which), rows)

    @cached_property
    def _after(self) -> list[np.ndarray]:
        rows, removals = self._sorted("examples", None), len(self.manifest["axes"]["removal"])
        lists = rows.table["after"].combine_chunks()
        flat = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
        each = np.split(flat, lists.offsets.to_numpy()[1:-1] - lists.offsets[0].as_py())
        sizes = rows["tokens"].to_pylist()
        return [after.reshape(removals, size + 1, -1) for after, size in zip(each, sizes, strict=True)]

    def loo(self, protocol: Protocol = DEFAULT_PROTOCOL) -> list[np.ndarray]:
        """LOO maps (T,) of the examples under a removal and a target, special tokens included."""
        where, alone = self.manifest["axes"]["removal"].index(protocol.removal), protocol.target == "logit"
        sys.audit(READ, self.manifest["key"], "examples", None, "after", [where, alone])
        return self._loo(protocol)

    def _loo(self, protocol: Protocol) -> list[np.ndarray]:
        where, alone = self.manifest["axes"]["removal"].index(protocol.removal), protocol.target == "logit"
        targets = self.example_column("target").tolist()
        pairs = [(after[where], target) for after, target in zip(self._after, targets, strict=True)]
        if any(np.isnan(after[:, target] if alone else after).any() for after, target in pairs):
            raise left_out(f"LOO by {protocol.removal} of the {protocol.target}")
        return [loo_map(*pair, protocol.target, multi_label=self.multi_label) for pair in pairs]

    def loo_signs(self, protocol: Protocol) -> np.ndarray:
        """The sign of the sum of LOO of each example over the tokens that count; 0 where terms cancel."""
        of = " ".join((protocol.removal, protocol.target, protocol.tokens))
        sys.audit(READ, self.manifest["key"], "manifest", None, "loo signs", [of])

        def signs() -> np.ndarray:
            if kept := self.manifest.get("loo signs", {}).get(of):  # in a chapter's zip
                return np.array([{"+": 1.0, "-": -1.0}.get(one, 0.0) for one in kept])
            maps = self._loo(protocol)
            if protocol.tokens == "no-special":
                maps = [np.delete(loo, special) for loo, special in zip(maps, self.specials(), strict=True)]
            total, size = (np.array([each.sum() for each in of]) for of in (maps, map(np.abs, maps)))
            return np.where(np.abs(total) > CANCELLED * size, np.sign(total), 0.0)

        return self.once(("loo signs", of), signs)


def loo_map(after: np.ndarray, target: int, output: str, *, multi_label: bool) -> np.ndarray:
    """LOO (T,) of an output ("logit", "margin", "probability") from logits (1 + T, C) of the whole text and
    without each token; with `multi_label` a probability is a sigmoid, and a margin is NaN: there is none. Of
    one output (a regression) both are NaN.

    >>> loo_map(np.array([[1.0, 3.0], [1.0, 2.5], [2.0, 3.0]]), 1, "margin", multi_label=False)
    array([0.5, 1. ])
    """
    chosen = after[:, target]
    if multi_label:
        margin = np.full_like(chosen, np.nan)
        chosen = {"logit": chosen, "margin": margin, "probability": 1 / (1 + np.exp(-chosen))}[output]
    elif after.shape[1] == 1 and output != "logit":
        chosen = np.full_like(chosen, np.nan)
    elif output == "probability":
        chosen = 1 / np.exp(after - after[:, target : target + 1]).sum(1)
    elif output == "margin":
        chosen = chosen - np.delete(after, target, axis=1).max(1)
    return chosen[0] - chosen[1:]
