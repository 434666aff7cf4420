"""The paper's claims, tested on runs. Rows of plain values; no torch, no model.

An effect is the mean over examples of a paired difference, with its 95 % bootstrap interval, and `judge`
compares it with the margin. A claim may have several effects, and is as good as the weakest of them. It is
judged at the first reading, which is the primary one on texts, over all models that were run, each with the
same weight; other readings, ranks and single models stand beside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from lrp_companion.lab.load import AnswerRun, AnyRun, Explanation, MnistGridRun, MnistRun, TextRun
from lrp_companion.lab.paper.claim_specs import COLUMNS, SPECS, Measures, Spec, Value
from lrp_companion.lab.paper.digit_variants import ACCURACY, mean_of_nets
from lrp_companion.lab.paper.primary import (
    CONTRADICTED,
    LEVEL,
    MARGIN,
    REPRODUCED,
    UNDECIDED,
    UNTESTED,
    judge,
)
from lrp_companion.lab.paper.published import DATA, on_paper_data, paper_table
from lrp_companion.lab.paper.tables import (
    HUB,
    MAP_SUFFIXES,
    PAIRS,
    PAPER_METHODS,
    dataset_of,
    defined_mean,
    named,
    table2,
)
from lrp_companion.masks import NONE
from lrp_companion.metrics import Interval, bootstrap_mean
from lrp_companion.metrics.statistics import detectable, interval_of, resampled
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, Protocol

WEAKEST_FIRST = (CONTRADICTED, LEVEL, UNDECIDED, REPRODUCED)
EVERY = "all models"
"""The name of the mean over all runs."""


@dataclass(frozen=True)
class Effect:
    """One number that tests a claim: an effect in one run, or in the mean of all, under one protocol.

    Attributes
    ----------
    run, protocol, what : where it was measured, how r was read (or "curves"), and what it is.
    value, rank : the effect by Pearson's r, and by Spearman's, None where there is none.
    low, high, margin : the limits that the claim names, and the margin, as `judge` takes them.
    paper : the same effect in the paper's tables, None where it has none.
    note : a remark on the data.
    """

    run: str
    protocol: str
    what: str
    value: Interval
    rank: Interval | None = None
    low: float = 0.0
    high: float = math.inf
    margin: float = MARGIN
    paper: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """`judge` of the effect by Pearson's r."""
        return judge(self.value, self.low, self.high, self.margin)

    @property
    def rank_verdict(self) -> str:
        """`judge` of the effect by rank; by Pearson's r where there are no ranks."""
        return judge(self.rank or self.value, self.low, self.high, self.margin)

    @property
    def detectable(self) -> float:
        """The smallest effect that these examples could have shown: see `metrics.statistics.detectable`."""
        return detectable(self.value)


def verdict(effects: Iterable[Effect], *, rank: bool = False) -> str:
    """The weakest verdict of some effects, as a claim needs all of them; of one reading, as a rule.

    >>> gain, loss = (Effect("a run", "words", "d", Interval(m, m - 0.1, m + 0.1, 50)) for m in (0.2, -0.2))
    >>> [verdict(effects) for effects in ([gain], [gain, loss], [])]
    ['reproduced', 'contradicted', 'not testable here']
    """
    found = {effect.rank_verdict if rank else effect.verdict for effect in effects}
    return next((word for word in WEAKEST_FIRST if word in found), UNTESTED)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, in our words, with the effects that test it.

    `where` names sections and tables of the paper; `rule` says which effects are on its side; `why` says why
    nothing could be tested. A `reading` is of the paper's tables: its text does not claim it.
    """

    number: int
    where: str
    says: str
    rule: str
    effects: tuple[Effect, ...]
    why: str = ""
    reading: bool = False

    def verdict_at(self, protocol: str = "", run: str = "", *, rank: bool = False) -> str:
        """`verdict` of a protocol, the first by default, in a run, by default in all together."""
        protocol = protocol or next((effect.protocol for effect in self.effects), "")
        here = [effect for effect in self.effects if effect.protocol == protocol]
        run = run or (EVERY if any(effect.run == EVERY for effect in here) else "")
        return verdict((effect for effect in here if run in (effect.run, "")), rank=rank)

    @property
    def verdict(self) -> str:
        """`verdict_at` the first protocol, in all runs together."""
        return self.verdict_at()

    @property
    def detectable(self) -> float:
        """The largest of the smallest effects that could have been shown where the claim is judged."""
        first = [effect for effect in self.effects if effect.protocol == self.effects[0].protocol]
        pooled = [effect for effect in first if effect.run == EVERY] or first
        return max((effect.detectable for effect in pooled), default=math.nan)

    def by_run(self) -> dict[str, str]:
        """The verdict of each run separately."""
        return {name: self.verdict_at(run=name) for name in dict.fromkeys(e.run for e in self.effects)}


class _Missing(Exception):
    """A run has no such explanation."""


def claims(runs: Sequence[AnyRun], *, trained_again: Sequence[AnyRun] = ()) -> list[Claim]:
    """Test the paper's claims on runs: the effects of each claim, and from them the verdict.

    On texts every effect in r is measured under the three `PROTOCOLS`, by Pearson and, where the records have
    it, by rank; on digits for raw maps and for maps that sum to one. Runs of models that were trained again
    count only where a claim compares two data sets, which needs runs of one model on both.

    >>> [claim.verdict for claim in claims([])][:2]
    ['not testable here', 'not testable here']
    """
    known = named(runs)
    out: list[Claim] = []
    for spec in SPECS:
        found, lacking = {}, []
        for run in known:
            if run.task.removesuffix("-grid") == spec.task and not isinstance(run, AnswerRun):
                try:
                    found[run.name] = dict(_measured(spec, run))
                except _Missing as error:
                    lacking.append(f"{run.name} has no {error}")
        why = "" if found else "; ".join(lacking) or f"no run of {spec.task} here"
        effects = tuple(_effects(spec, found, {run.name: run for run in known}))
        says = (spec.where, spec.says, _rule(spec.low, spec.high))
        out.append(Claim(len(out) + 1, *says, effects, why, spec.reading))
    out.append(_smaller_gain(len(out) + 1, [*known, *trained_again]))
    out += [_printed(len(out) + 1 + k, task, known) for k, task in enumerate(HUB)]
    return out


def _rule(low: float, high: float) -> str:
    if low == -math.inf:
        return f"below {high:g}"
    return f"above {low:g}" if high == math.inf else f"from {low:g} to {high:g}"


Measured = Mapping[tuple[str, str], tuple[np.ndarray, np.ndarray | None, float]]
"""Of a protocol and an effect: values per example, the same by rank, and the margin."""


def _effects(spec: Spec, found: Mapping[str, Measured], runs: Mapping[str, AnyRun]) -> Iterator[Effect]:
    """The effects of a claim in each run, and if there are several in the mean over all."""
    paper = (
        _paper_effects(spec) if any(on_paper_data(runs[name].manifest["config"]) for name in found) else {}
    )
    for protocol, what in next(iter(found.values()), {}):
        groups = {name: [name] for name in found} | ({EVERY: list(found)} if len(found) > 1 else {})
        for name, members in groups.items():
            columns, ranks, margins = zip(*(found[one][protocol, what] for one in members), strict=True)
            rank = None if any(one is None for one in ranks) else pooled(ranks)
            limits = spec.low, spec.high, float(np.mean(margins))
            note = _joined(*(_stand_in(runs[one]) for one in members))
            yield Effect(name, protocol, what, pooled(columns), rank, *limits, paper.get(what), note)


def pooled(columns: Sequence[np.ndarray]) -> Interval:
    """The mean over runs of their means over examples, with its 95 % bootstrap interval over examples.

    Runs on the same examples share draws; so this says nothing of other models.

    >>> print(pooled([np.array([0.1, 0.3]), np.array([0.3, 0.5])]).text(2))
    0.30 [0.20, 0.40]
    """
    if len(columns) == 1:
        return bootstrap_mean(columns[0])
    means, draws, defined = zip(*(resampled(np.asarray(one)[:, None]) for one in columns), strict=True)
    n = int(np.sum(defined))
    return interval_of(float(np.mean(means)), np.mean(draws, axis=0)[:, 0], n, sum(map(len, columns)) - n)


def _measured(spec: Spec, run: AnyRun) -> Iterator[tuple[tuple[str, str], tuple]]:
    """Effects of a claim in a run, example by example."""
    for protocol, value, ranked in _columns(spec, run):
        layers, margin = run.layers if isinstance(run, TextRun) else 0, MARGIN
        if spec.column == "delta":
            margin *= abs(defined_mean(value("attnlrp")))
        try:
            by_rank = spec.effects(ranked, layers) if ranked else {}
        except _Missing:  # masks have Pearson's r only
            by_rank = {}
        for what, values in spec.effects(value, layers).items():
            yield (protocol, what), (values, by_rank.get(what), margin)


def _columns(spec: Spec, run: AnyRun) -> Iterator[tuple[str, Value, Value | None]]:
    """Protocols of a column: name, values per example, and the same by rank."""
    if isinstance(run, (MnistRun, MnistGridRun)):
        for form in MAP_SUFFIXES:
            yield f"{form} maps", _digit_column(run, form), None
    elif isinstance(run, TextRun) and spec.column == "r":
        ranks = "spearman" in run.options["statistic"]
        for name, protocol in PROTOCOLS.items():
            ranked = _text_column(run, "r", replace(protocol, statistic="spearman")) if ranks else None
            yield name, _text_column(run, "r", protocol), ranked
    elif isinstance(run, TextRun):
        yield "curves", _text_column(run, spec.column, None), None


def _text_column(run: TextRun, column: str, protocol: Protocol | None) -> Value:
    def value(explanation: Explanation) -> np.ndarray:
        if isinstance(explanation, str) and explanation not in run.methods:
            raise _Missing(f"method {explanation}")
        if not isinstance(explanation, str) and explanation not in run.masks:
            raise _Missing("masks of bypassed layers")
        if protocol and protocol.statistic != "pearson" and not isinstance(explanation, str):
            raise _Missing("ranks of masks")
        return run.r(explanation, protocol) if protocol else run.column(explanation, column)

    return value


def _digit_column(run: MnistRun | MnistGridRun, form: str) -> Value:
    """Of a run over variants the mean over those whose nets are at least as accurate as the paper's."""

    def value(which: tuple[str, str]) -> np.ndarray:
        explainer, pair = which[0], COLUMNS[which[1]]
        if isinstance(run, MnistRun):
            if explainer not in run.explainers:
                raise _Missing(f"explainer {explainer}")
            return run.values(explainer, f"r {pair}{MAP_SUFFIXES[form]}")
        accurate = [k for k in range(len(run.variants)) if run.accuracy(k).mean() >= ACCURACY]
        if not accurate:
            raise _Missing("variant as accurate as the paper's nets")
        return mean_of_nets(
            np.stack([mean_of_nets(run.values(k, explainer, pair, map=form)) for k in accurate])
        )

    return value


def _stand_in(run: AnyRun) -> str:
    """A note on data that are not the paper's."""
    config = run.manifest["config"]
    if config["source"] == "embedded":
        return "embedded data, a stand-in"
    return "" if on_paper_data(config) else "other data than the paper's"


def _joined(*notes: str) -> str:
    return "; ".join(dict.fromkeys(note for note in notes if note))


def _paper_effects(spec: Spec) -> Measures:
    """The same effects in the paper's tables."""
    if spec.task == "mnist":
        rows = {row["explainer"]: row for row in paper_table("table1")}
        return spec.effects(lambda which: rows[which[0]][PAIRS[COLUMNS[which[1]]]], 0)
    name = "loo_r" if spec.column == "r" else spec.column
    table2_rows, tableA3_rows = (
        [row for row in paper_table(table) if row["dataset"] == DATA[spec.task]]
        for table in ("table2", "tableA3")
    )
    by_method = {row["method"]: row[name] for row in table2_rows}
    by_mask = {frozenset(row["bypass"]): row[name] for row in tableA3_rows}
    by_mask[NONE] = by_method["AttnLRP"]

    def value(explanation: Explanation) -> float:
        if isinstance(explanation, str):
            return by_method[PAPER_METHODS[explanation]]
        return by_mask[frozenset(explanation)]

    return spec.effects(value, 12)


def _smaller_gain(number: int, runs: Sequence[AnyRun]) -> Claim:
    """CP-LRP's gain over AttnLRP on SST minus that on IMDB, for the same model."""
    printed = {(row["dataset"], row["method"]): row["loo_r"] for row in paper_table("table2")}
    gains = {name: printed[name, "CP-LRP"] - printed[name, "AttnLRP"] for name in ("SST", "IMDB")}
    effects = []
    for row in gains_on_both(runs):
        sst, imdb = row["sst2 run"], row["imdb run"]
        note = _joined(f"n = {sst.n:,} on SST, {imdb.n:,} on IMDB", _stand_in(sst), _stand_in(imdb))
        effects.append(
            Effect(
                f"{sst.name}, {imdb.name}",
                row["protocol"],
                "gain on SST - gain on IMDB",
                row["difference"],
                paper=gains["SST"] - gains["IMDB"] if dataset_of(sst) and dataset_of(imdb) else None,
                note=note,
            )
        )
    why = "" if effects else "no model here was run on both"
    says = "CP-LRP's gain in r over AttnLRP is smaller on IMDB than on SST"
    return Claim(number, "4.3, RQ2; Table 2", says, _rule(0, math.inf), tuple(effects), why)


def gains_on_both(runs: Sequence[AnyRun]) -> list[dict[str, Any]]:
    """CP-LRP's gain over AttnLRP on SST-2 and on IMDB, for each model that was run on both.

    The examples are not the same, so the limits of the difference come from those of the two means (Zou and
    Donner 2008): d - sqrt((m1 - low1)**2 + (high2 - m2)**2), d + sqrt((high1 - m1)**2 + (m2 - low2)**2).

    Returns
    -------
    list
        Rows `sst2 run`, `imdb run`, `protocol` (a name of `PROTOCOLS`), `sst2` and `imdb` (mean differences
        of r, intervals), `difference` of the two; a row for each model and protocol.

    >>> gains_on_both([])
    []
    """
    with_both = [
        run for run in runs if isinstance(run, TextRun) and {"cp-lrp", "attnlrp"} <= set(run.methods)
    ]
    rows = []
    for sst, imdb in product(with_both, repeat=2):
        if (sst.task, imdb.task) != ("sst2", "imdb") or sst.model != imdb.model:
            continue
        for name, protocol in PROTOCOLS.items():
            on_sst, on_imdb = (run.difference("cp-lrp", "attnlrp", protocol) for run in (sst, imdb))
            between = independent_difference(on_sst, on_imdb)
            row = {"sst2 run": sst, "imdb run": imdb, "protocol": name, "sst2": on_sst, "imdb": on_imdb}
            rows.append({**row, "difference": between})
    return rows


def independent_difference(a: Interval, b: Interval) -> Interval:
    """Difference of two means over different examples, with limits from theirs (Zou and Donner 2008).

    Its n is the smaller one.

    >>> print(independent_difference(Interval(0.5, 0.47, 0.53, 90), Interval(0.2, 0.16, 0.24, 40)))
    0.300 [0.250, 0.350], n = 40
    """
    d = a.mean - b.mean
    low = d - math.hypot(a.mean - a.low, b.high - b.mean)
    high = d + math.hypot(a.high - a.mean, b.mean - b.low)
    return Interval(d, low, high, min(a.n, b.n), a.undefined + b.undefined, a.level)


def _printed(number: int, task: str, runs: Sequence[AnyRun]) -> Claim:
    """The paper's values of r, which only its classifier can have: the difference is within 0.05."""
    effects = tuple(
        Effect(run.name, name, f"{label_of(row['method'])}, here - there", value, None, -MARGIN, MARGIN)
        for run in runs
        if isinstance(run, TextRun) and (run.task, run.model) == (task, HUB[task])
        for name, protocol in PROTOCOLS.items()
        for row in table2(run, protocol=protocol)
        if row["r, paper"] is not None and row["method"] != "loo"
        for value in [pooled([run.r(row["method"], protocol) - row["r, paper"]])]
    )
    says = f"on {DATA[task]}, the paper's own classifier has the values of r in Table 2"
    why = "" if effects else f"{HUB[task]} was not run here"
    return Claim(number, "4.3, RQ2; Table 2", says, _rule(-MARGIN, MARGIN), effects, why, reading=True)
