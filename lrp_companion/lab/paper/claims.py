"""The paper's claims, tested on runs. Rows of plain values; no torch, no model.

An effect is the mean over examples of a paired difference, with its 95 % bootstrap interval. A claim names
the side on which the paper's effect lies. An effect is on that side if its whole interval is, on the other
side if its whole interval is there, and open if the interval includes zero. Agreement of methods on texts is
taken by Pearson's r and by Spearman's. `verdict` sums up all effects.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from lrp_companion.lab.load import AnswerRun, AnyRun, Explanation, MnistGridRun, MnistRun, TextRun
from lrp_companion.lab.paper.claim_specs import COLUMNS, IG_CLAIM, SPECS, Measures, Spec, Value
from lrp_companion.lab.paper.digit_variants import ACCURACY, MAPS_COMPARED, digit_ig, mean_of_nets
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
from lrp_companion.metrics.statistics import detectable, side_of_band
from lrp_companion.registry import label_of
from lrp_companion.schema import PROTOCOLS, Protocol

EFFECT_SIDES = ("the paper's", "open", "the other")


@dataclass(frozen=True)
class Effect:
    """One number that tests a claim: an effect in one run under one protocol.

    Attributes
    ----------
    run, protocol, what : where it was measured, how r was read (or "curves"), and what it is.
    value : the effect.
    side : "the paper's", "open" or "the other".
    paper : the same effect in the paper's tables, None where it has none.
    note : a remark, such as "nets: 4 of 5": the means of four of five networks alone are on the paper's side.
    rank, rank_side : value and side by Spearman's r; None and "" where records have Pearson's alone.
    """

    run: str
    protocol: str
    what: str
    value: Interval
    side: str
    paper: float | None = None
    note: str = ""
    rank: Interval | None = None
    rank_side: str = ""

    @property
    def detectable(self) -> float:
        """The smallest effect that these examples could have shown: see `metrics.statistics.detectable`."""
        return detectable(self.value)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, in our words, with the effects that test it.

    `where` names sections and tables of the paper; `rule` says which effects are on its side; `why` says why
    nothing could be tested.
    """

    number: int
    where: str
    says: str
    rule: str
    effects: tuple[Effect, ...]
    why: str = ""

    @property
    def verdict(self) -> str:
        """`verdict` of all effects."""
        return verdict(self.effects)

    def by_run(self) -> dict[str, str]:
        """The verdict of each run separately."""
        names = dict.fromkeys(effect.run for effect in self.effects)
        return {name: verdict(effect for effect in self.effects if effect.run == name) for name in names}


def side(value: Interval, low: float, high: float) -> str:
    """On which side of (low, high) an interval lies: within is the paper's side.

    >>> side(Interval(0.2, 0.1, 0.3, 50), 0, math.inf), side(Interval(0.0, -0.1, 0.1, 50), 0, math.inf)
    ("the paper's", 'open')
    """
    papers, undecided, others = EFFECT_SIDES
    words = {"inside": papers, "above": others, "below": others}
    return words.get(side_of_band(value, low, high), undecided)


def verdict(effects: Iterable[Effect]) -> str:
    """A verdict: "reproduced" if all effects are on the paper's side, "partly" if some are and the others are
    open, "mixed" if some are on either side; without any on the paper's side "contradicted" if one is on the
    other, "inconclusive" if all are open. "depends on the statistic" if Pearson's r and Spearman's would give
    two verdicts.

    An effect of fewer than two examples has no interval and does not count; without any effect the claim is
    "not testable here".

    >>> from dataclasses import replace
    >>> gain = Interval(0.2, 0.1, 0.3, 50)
    >>> held = Effect("a run", "words only (default)", "CP-LRP - AttnLRP", gain, "the paper's")
    >>> left_open, other = replace(held, side="open"), replace(held, side="the other")
    >>> [verdict(effects) for effects in ([held], [held, left_open], [held, other], [left_open, other], [])]
    ['reproduced', 'partly', 'mixed', 'contradicted', 'not testable here']
    >>> verdict([replace(held, rank=gain, rank_side="the other")])
    'depends on the statistic'
    """
    counted = [effect for effect in effects if not math.isnan(effect.value.low)]
    by_pearson = _verdict({effect.side for effect in counted})
    by_rank = _verdict({effect.rank_side or effect.side for effect in counted})
    return by_pearson if by_pearson == by_rank else "depends on the statistic"


def _verdict(sides: set[str]) -> str:
    papers, _, other = EFFECT_SIDES
    if papers in sides:
        return "reproduced" if sides == {papers} else "mixed" if other in sides else "partly"
    if not sides:
        return "not testable here"
    return "contradicted" if other in sides else "inconclusive"


class _Missing(Exception):
    """A run has no such explanation."""


def claims(runs: Sequence[AnyRun], *, trained_again: Sequence[AnyRun] = ()) -> list[Claim]:
    """Test the paper's claims on runs: the effects of each claim, and from them the verdict.

    On texts every effect in r is measured under the three `PROTOCOLS`, by Pearson and, where the records have
    it, by rank; on digits for raw maps and for maps that sum to one. See `verdict`. Runs of models that were
    trained again count only where a claim compares two data sets, which needs runs of one model on both.

    >>> [claim.verdict for claim in claims([])][:2]
    ['not testable here', 'not testable here']
    """
    known = named(runs)
    out: list[Claim] = []
    for spec in SPECS:
        of_task = [run for run in known if run.task.removesuffix("-grid") == spec.task]
        fitting = [run for run in of_task if not isinstance(run, AnswerRun)]
        tested = [
            grid_effects(spec, run) if isinstance(run, MnistGridRun) else _tested(spec, run)
            for run in fitting
        ]
        effects = tuple(effect for of_run, _ in tested for effect in of_run)
        lacking = [why for _, why in tested if why]
        why = "" if effects else "; ".join(lacking) or f"no run of {spec.task} here"
        out.append(Claim(len(out) + 1, spec.where, spec.says, _rule(spec.low, spec.high), effects, why))
    out.append(_smaller_gain(len(out) + 1, [*known, *trained_again]))
    out += [_printed(len(out) + 1 + k, task, known) for k, task in enumerate(HUB)]
    return out


def _rule(low: float, high: float) -> str:
    if low == -math.inf:
        return f"below {high:g}"
    return f"above {low:g}" if high == math.inf else f"from {low:g} to {high:g}"


def _tested(spec: Spec, run: TextRun | MnistRun) -> tuple[list[Effect], str]:
    """Effects of a claim in a run, or why there are none."""
    effects: list[Effect] = []
    paper = _paper_effects(spec) if on_paper_data(run.manifest["config"]) else {}
    try:
        for protocol, value, notes in _columns(spec, run):
            made = spec.effects(value, run.layers if isinstance(run, TextRun) else 0)
            by_rank = _by_rank(spec, run, protocol)
            for what, values in made.items():
                interval, note = bootstrap_mean(values), _joined(notes(spec, what), _stand_in(run))
                lies = side(interval, spec.low, spec.high)
                rank = by_rank.get(what)
                ranked = (rank, side(rank, spec.low, spec.high)) if rank else (None, "")
                effects.append(
                    Effect(run.name, protocol, what, interval, lies, paper.get(what), note, *ranked)
                )
    except _Missing as error:
        return [], f"{run.name} has no {error}"
    return effects, ""


def _by_rank(spec: Spec, run: TextRun | MnistRun, protocol: str) -> dict[str, Interval]:
    """The effects by Spearman's r, where the run has them: of methods, not of masks."""
    if not isinstance(run, TextRun) or spec.column != "r" or "spearman" not in run.options["statistic"]:
        return {}
    ranked = replace(PROTOCOLS[protocol], statistic="spearman")
    column = _text_column(run, "r", ranked)

    def value(explanation: Explanation) -> np.ndarray:
        if not isinstance(explanation, str):
            raise _Missing("ranks of masks")
        return column(explanation)

    try:
        made = spec.effects(value, run.layers)
    except _Missing:
        return {}
    return {what: bootstrap_mean(values) for what, values in made.items()}


def _stand_in(run: AnyRun) -> str:
    """A note on data that are not the paper's."""
    config = run.manifest["config"]
    if config["source"] == "embedded":
        return "embedded data, a stand-in"
    return "" if on_paper_data(config) else "other data than the paper's"


def _joined(*notes: str) -> str:
    return "; ".join(dict.fromkeys(note for note in notes if note))


Notes = Callable[[Spec, str], str]


def _columns(spec: Spec, run: TextRun | MnistRun) -> list[tuple[str, Value, Notes]]:
    """Protocols of a column: name, values per example, and a note on an effect."""
    if isinstance(run, MnistRun):
        return [_digit_column(run, map) for map in MAP_SUFFIXES]
    protocols: Mapping[str, Protocol | None] = PROTOCOLS if spec.column == "r" else {"curves": None}
    return [
        (name, _text_column(run, spec.column, protocol), lambda *_: "")
        for name, protocol in protocols.items()
    ]


def grid_effects(spec: Spec, run: MnistGridRun) -> tuple[list[Effect], str]:
    """A claim about digits over the variants of the nets that are at least as accurate as the paper's.

    Per map and side one effect: its value is that of the variant in the middle of those on this side, and
    its name says how many they are. The claim on IG has the other baselines of the records, too.
    """
    accurate = [k for k in range(len(run.variants)) if run.accuracy(k).mean() >= ACCURACY]
    if not accurate:
        return [], f"{run.name} has no variant as accurate as the paper's nets"
    effects: list[Effect] = []
    for map in MAPS_COMPARED:
        by_name: dict[str, list[Interval]] = {}
        for variant in accurate:
            for what, values in spec.effects(_variant_column(run, variant, map), 0).items():
                by_name.setdefault(what, []).append(bootstrap_mean(values))
        for what, intervals in by_name.items():
            effects += _by_side(spec, run, f"{map} maps", what, intervals)
    if spec.says == IG_CLAIM:
        for row in digit_ig(run):
            if (
                row["n_steps"] == max(other["n_steps"] for other in digit_ig(run))
                and row["baseline"] != "zero"
            ):
                what = f"IG from {row['baseline']}, variant {row['variant'] + 1} of {len(run.variants)}"
                lies = side(row["r"], spec.low, spec.high)
                effects.append(Effect(run.name, "raw maps", what, row["r"], lies))
    return effects, ""


def _variant_column(run: MnistGridRun, variant: int, map: str) -> Value:
    def value(which: tuple[str, str]) -> np.ndarray:
        return mean_of_nets(run.values(variant, which[0], COLUMNS[which[1]], map=map))

    return value


def _by_side(
    spec: Spec, run: AnyRun, protocol: str, what: str, intervals: Sequence[Interval]
) -> list[Effect]:
    """One effect for each side on which some of the intervals lie."""
    paper = _paper_effects(spec).get(what)
    out = []
    for name in EFFECT_SIDES:
        there = sorted(
            (value for value in intervals if side(value, spec.low, spec.high) == name),
            key=lambda value: value.mean,
        )
        if there:
            label = f"{what}: {len(there)} of {len(intervals)} variants"
            out.append(Effect(run.name, protocol, label, there[len(there) // 2], name, paper))
    return out


def _text_column(run: TextRun, column: str, protocol: Protocol | None) -> Value:
    def value(explanation: Explanation) -> np.ndarray:
        if isinstance(explanation, str) and explanation not in run.methods:
            raise _Missing(f"method {explanation}")
        if not isinstance(explanation, str) and explanation not in run.masks:
            raise _Missing("masks of bypassed layers")
        return run.r(explanation, protocol) if protocol else run.column(explanation, column)

    return value


def _digit_column(run: MnistRun, map: str) -> tuple[str, Value, Notes]:
    def of(seed: int | None) -> Value:
        def value(which: tuple[str, str]) -> np.ndarray:
            if which[0] not in run.explainers:
                raise _Missing(f"explainer {which[0]}")
            return run.values(which[0], f"r {COLUMNS[which[1]]}{MAP_SUFFIXES[map]}", seed=seed)

        return value

    def note(spec: Spec, what: str) -> str:
        means = [defined_mean(np.asarray(spec.effects(of(seed), 0)[what])) for seed in run.seeds]
        agree = sum(spec.low < mean < spec.high for mean in means)
        return f"nets: {agree} of {len(means)}"

    return f"{map} maps", of(None), note


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
    paper, what = gains["SST"] - gains["IMDB"], "gain on SST - gain on IMDB"
    effects = []
    for row in gains_on_both(runs):
        sst, imdb, value = (row[key] for key in ("sst2 run", "imdb run", "difference"))
        names, sizes = f"{sst.name}, {imdb.name}", f"n = {sst.n:,} on SST, {imdb.n:,} on IMDB"
        note = _joined(sizes, _stand_in(sst), _stand_in(imdb))
        printed_too = paper if dataset_of(sst) and dataset_of(imdb) else None
        lies = side(value, 0, math.inf)
        effects.append(Effect(names, row["protocol"], what, value, lies, printed_too, note))
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
    """The paper's values of r, which only its classifier can have: in the interval, up to its last digit."""
    effects = []
    for run in runs:
        if not isinstance(run, TextRun) or (run.task, run.model) != (task, HUB[task]):
            continue
        for name, protocol in PROTOCOLS.items():
            for row in table2(run, protocol=protocol):
                value, paper = row["r"], row["r, paper"]
                if paper is None or row["method"] == "loo":
                    continue
                within = value.low - 0.005 <= paper <= value.high + 0.005
                lies = EFFECT_SIDES[0] if within else EFFECT_SIDES[2]
                effects.append(Effect(run.name, name, label_of(row["method"]), value, lies, paper))
    says = f"on {DATA[task]}, the paper's own classifier has the values of r in Table 2"
    rule = "the interval holds the paper's value, up to its last digit"
    why = "" if effects else f"{HUB[task]} was not run here"
    return Claim(number, "4.3, RQ2; Table 2", says, rule, tuple(effects), why)
