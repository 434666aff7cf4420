"""The paper's claims, tested on runs. Rows of plain values; no torch, no model.

An effect is the mean over examples of a paired difference, with its 95 % bootstrap interval, and `judge`
compares it with the margin. A claim may have several effects, and is as good as the weakest of them. It is
judged at the first reading, which is the primary one on texts, over all models that were run, each with the
same weight; other readings, ranks and single models stand beside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from lrp_companion.lab.load import AnyRun, MnistGridRun, MnistRun, TextRun
from lrp_companion.lab.paper.primary import (
    CONTRADICTED,
    LEVEL,
    MARGIN,
    PAIR,
    REPRODUCED,
    UNDECIDED,
    UNTESTED,
    judge,
)
from lrp_companion.lab.paper.published import DATA, SPECS, Spec, Weights, on_paper_data, paper_table, weights
from lrp_companion.lab.paper.tables import (
    HUB,
    MAP_SUFFIXES,
    PAIRS,
    PAPER_METHODS,
    accurate_variants,
    defined_mean,
    named,
    table2,
)
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.statistics import detectable, interval_of, resampled
from lrp_companion.registry import label_of
from lrp_companion.schema import NONE, PROTOCOLS

WEAKEST_FIRST = (CONTRADICTED, LEVEL, UNDECIDED, REPRODUCED)
EVERY = "all models"
"""The name of the mean over all runs."""
Value = Callable[[Any], np.ndarray]
"""A number per example of an explanation."""


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


def verdict(effects: Iterable[Effect], *, rank: bool = False) -> str:
    """The weakest verdict of some effects, as a claim needs all of them; of one reading, as a rule."""
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

    def at(self, protocol: str = "", run: str = "") -> list[Effect]:
        """The effects of a protocol, the first by default, in a run, by default in all together."""
        protocol = protocol or next((effect.protocol for effect in self.effects), "")
        here = [effect for effect in self.effects if effect.protocol == protocol]
        run = run or (EVERY if any(effect.run == EVERY for effect in here) else "")
        return [effect for effect in here if run in (effect.run, "")]

    def verdict_at(self, protocol: str = "", run: str = "", *, rank: bool = False) -> str:
        """`verdict` of these effects."""
        return verdict(self.at(protocol, run), rank=rank)

    @property
    def verdict(self) -> str:
        """`verdict_at` the first protocol, in all runs together."""
        return self.verdict_at()

    @property
    def detectable(self) -> float:
        """The largest of the smallest effects that could have been shown where the claim is judged: see
        `metrics.statistics.detectable`.
        """
        return max((detectable(effect.value) for effect in self.at()), default=math.nan)

    def by_run(self) -> dict[str, str]:
        """The verdict of each run separately."""
        return {name: self.verdict_at(run=name) for name in dict.fromkeys(e.run for e in self.effects)}


def claims(runs: Sequence[AnyRun], *, trained_again: Sequence[AnyRun] = ()) -> list[Claim]:
    """Test the paper's claims on runs: the effects of each claim, and from them the verdict.

    On texts every effect in r is measured under the three `PROTOCOLS`, by Pearson and, where the records have
    it, by rank; on digits for raw maps and for maps that sum to one. Runs of models that were trained again
    count only where a claim compares two data sets, which needs runs of one model on both.
    """
    known = named(runs)
    out = [_tested(number, spec, known) for number, spec in enumerate(SPECS, 1)]
    out.append(_smaller_gain(len(out) + 1, [*known, *trained_again]))
    return out + [_printed(len(out) + 1 + k, task, known) for k, task in enumerate(HUB)]


def _tested(number: int, spec: Spec, runs: Sequence[AnyRun]) -> Claim:
    lacks = {run.name: _lacking(spec, run) for run in runs if run.task.removesuffix("-grid") == spec.task}
    here = [run for run in runs if lacks.get(run.name) == ""]
    lacking = [f"{name} has no {what}" for name, what in lacks.items() if what]
    why = "" if here else "; ".join(lacking) or f"no run of {spec.task} here"
    rule = _rule(spec.low, spec.high)
    return Claim(number, spec.where, spec.says, rule, tuple(_effects(spec, here)), why, spec.reading)


def _rule(low: float, high: float) -> str:
    if low == -math.inf:
        return f"below {high:g}"
    return f"above {low:g}" if high == math.inf else f"from {low:g} to {high:g}"


def _lacking(spec: Spec, run: AnyRun) -> str:
    """What a run would need to test a claim, "" if nothing."""
    if isinstance(run, MnistGridRun):
        return "" if accurate_variants(run) else "variant as accurate as the paper's nets"
    needed = [each for effect in spec.effects for each in weights(effect, getattr(run, "layers", 0))]
    if isinstance(run, MnistRun):
        return next((f"explainer {name}" for name, _ in needed if name not in run.explainers), "")
    needed += ["attnlrp"] if spec.column == "delta" else []  # of its margin
    if missing := [name for name in needed if isinstance(name, str) and name not in run.methods]:
        return f"method {missing[0]}"
    masks = {name for name in needed if not isinstance(name, str)}
    return "" if isinstance(run, TextRun) and masks <= {*run.masks} else "masks of bypassed layers"


def _effects(spec: Spec, runs: Sequence[AnyRun]) -> Iterator[Effect]:
    """The effects of a claim in each run, and if there are several in the mean over all."""
    paper = _paper_value(spec) if any(on_paper_data(run.manifest["config"]) for run in runs) else None
    groups = {run.name: [run] for run in runs} | ({EVERY: list(runs)} if len(runs) > 1 else {})
    columns = {run.name: dict(_columns(spec, run)) for run in runs}
    for protocol, what in product(next(iter(columns.values()), {}), spec.effects):
        for name, members in groups.items():
            sums = [weights(what, getattr(run, "layers", 0)) for run in members]
            if not all(sums):
                continue
            of = list(zip((columns[run.name][protocol] for run in members), sums, strict=True))
            value = pooled([_sum(values, each) for (values, _, _), each in of])
            has_ranks = all(ranks and all(isinstance(e, str) for e in each) for (_, ranks, _), each in of)
            rank = pooled([_sum(ranks, each) for (_, ranks, _), each in of]) if has_ranks else None
            margin = float(np.mean([margin for (*_, margin), _ in of]))
            printed = None if paper is None else float(_sum(paper, weights(what, 12)))
            note = _joined(*map(_stand_in, members))
            yield Effect(name, protocol, what, value, rank, spec.low, spec.high, margin, printed, note)


def _sum(value: Callable[[Any], Any], terms: Weights) -> Any:
    return sum(weight * value(each) for each, weight in terms.items())


def pooled(columns: Sequence[np.ndarray]) -> Interval:
    """The mean over runs of their means over examples, with its 95 % bootstrap interval over examples.

    Runs on the same examples share draws; so this says nothing of other models.
    """
    if len(columns) == 1:
        return bootstrap_mean(columns[0])
    means, draws, defined = zip(*(resampled(np.asarray(one)[:, None]) for one in columns), strict=True)
    n = int(np.sum(defined))
    return interval_of(float(np.mean(means)), np.mean(draws, axis=0)[:, 0], n, sum(map(len, columns)) - n)


def _columns(spec: Spec, run: AnyRun) -> Iterator[tuple[str, tuple[Value, Any, float]]]:
    """Protocols of a column: values per example, the same by rank (None: no ranks), and the margin."""
    if isinstance(run, (MnistRun, MnistGridRun)):
        for form in MAP_SUFFIXES:
            yield f"{form} maps", (partial(_of_digits, run, form), None, MARGIN)
    elif isinstance(run, TextRun) and spec.column == "r":
        for name, protocol in PROTOCOLS.items():
            by_rank = replace(protocol, statistic="spearman")
            ranked = partial(run.r, protocol=by_rank) if "spearman" in run.options["statistic"] else None
            yield name, (partial(run.r, protocol=protocol), ranked, MARGIN)
    elif isinstance(run, TextRun):
        margin = MARGIN * abs(float(np.nanmean(run.column("attnlrp", spec.column))))
        yield "curves", (partial(run.column, name=spec.column), None, margin)


def _of_digits(run: MnistRun | MnistGridRun, form: str, which: tuple[str, str]) -> np.ndarray:
    """Of a run over variants the mean over those whose nets are at least as accurate as the paper's."""
    explainer, pair = which
    if isinstance(run, MnistRun):
        return run.values(explainer, f"r {pair}{MAP_SUFFIXES[form]}")
    of = [defined_mean(run.values(k, explainer, pair, map=form)) for k in accurate_variants(run)]
    return defined_mean(np.stack(of))


def _stand_in(run: AnyRun) -> str:
    """A note on data that are not the paper's."""
    config = run.manifest["config"]
    if config["source"] == "embedded":
        return "embedded data, a stand-in"
    return "" if on_paper_data(config) else "other data than the paper's"


def _joined(*notes: str) -> str:
    return "; ".join(dict.fromkeys(filter(None, notes)))


def _paper_value(spec: Spec) -> Callable[[Any], float]:
    """The paper's number for an explanation."""
    if spec.task == "mnist":
        rows = {row["explainer"]: row for row in paper_table("table1")}
        return lambda which: rows[which[0]][PAIRS[which[1]]]
    name, of = "loo_r" if spec.column == "r" else spec.column, {}
    ours = {theirs: method for method, theirs in PAPER_METHODS.items()}
    for row in (*paper_table("tableA3"), *paper_table("table2")):
        if row["dataset"] == DATA[spec.task]:
            of[frozenset(row["bypass"]) if "bypass" in row else ours[row["method"]]] = row[name]
    of[NONE] = of["attnlrp"]
    return of.__getitem__


def _smaller_gain(number: int, runs: Sequence[AnyRun]) -> Claim:
    """CP-LRP's gain over AttnLRP on SST minus that on IMDB, for each model that was run on both."""
    printed = {(row["dataset"], row["method"]): row["loo_r"] for row in paper_table("table2")}
    gains = [printed[name, "CP-LRP"] - printed[name, "AttnLRP"] for name in ("SST", "IMDB")]
    effects = []
    both = [run for run in runs if isinstance(run, TextRun) and {*PAIR} <= set(run.methods)]
    for sst, imdb in product(both, repeat=2):
        if (sst.task, imdb.task) != ("sst2", "imdb") or sst.model != imdb.model:
            continue
        of_paper = all(on_paper_data(run.manifest["config"]) for run in (sst, imdb))
        note = _joined(f"n = {sst.n:,} on SST, {imdb.n:,} on IMDB", _stand_in(sst), _stand_in(imdb))
        for name, at in PROTOCOLS.items():
            a, b = (paired_difference(*(run.r(rule, at) for rule in PAIR)) for run in (sst, imdb))
            what, printed_gain = "gain on SST - gain on IMDB", gains[0] - gains[1] if of_paper else None
            value = independent_difference(a, b)
            both_names = f"{sst.name}, {imdb.name}"
            effects.append(Effect(both_names, name, what, value, paper=printed_gain, note=note))
    why = "" if effects else "no model here was run on both"
    says = "CP-LRP's gain in r over AttnLRP is smaller on IMDB than on SST"
    return Claim(number, "4.3, RQ2; Table 2", says, _rule(0, math.inf), tuple(effects), why)


def independent_difference(a: Interval, b: Interval) -> Interval:
    """Difference of two means over different examples, with limits from theirs (Zou and Donner 2008):
    d - sqrt((m1 - low1)**2 + (high2 - m2)**2), d + sqrt((high1 - m1)**2 + (m2 - low2)**2); n is the smaller.
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
