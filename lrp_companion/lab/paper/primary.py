"""The primary analysis: one difference, one unit of inference, one margin. No torch.

The difference is d, for each sentence r of CP-LRP with LOO minus r of AttnLRP. LOO takes a token out of the
attention mask, the output is the predicted class's logit, maps are raw, r is Pearson's, and relevance is read
at the word embeddings without special tokens. The mean of d is taken over the sentences of a training, over
the trainings of an encoder, and over encoders, each with the same weight; its interval is Student's, over
encoders. What else `READINGS` names is secondary. Less than `MARGIN` is no relevant difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from lrp_companion.checks import extra
from lrp_companion.lab.load import AnyRun, TextRun
from lrp_companion.metrics import Interval
from lrp_companion.metrics.statistics import intervals, mean_over, side_of_band
from lrp_companion.schema import DEFAULT_PROTOCOL, Protocol

PAIR = ("cp-lrp", "attnlrp")
EVERYTHING = Protocol(site="word+position", tokens="all")
READINGS = {
    "words, Pearson": DEFAULT_PROTOCOL,
    "words, rank": replace(DEFAULT_PROTOCOL, statistic="spearman"),
    "all tokens, Pearson": EVERYTHING,
    "all tokens, rank": replace(EVERYTHING, statistic="spearman"),
}
"""The primary reading first; with all tokens positions count, too."""
MARGIN = 0.05
"""A sixth of the paper's 0.30, its difference on SST."""
REPRODUCED, CONTRADICTED, LEVEL, UNDECIDED, UNTESTED = VERDICTS = (
    "reproduced",
    "contradicted",
    "no relevant difference",
    "undecided",
    "not testable here",
)
INDEX = ("sentence", "tokens")
Leads = Mapping[tuple[str, str], pd.DataFrame]
"""Of an encoder and a training the d of each sentence, a column for each of `READINGS`."""


def judge(value: Interval, low: float = 0.0, high: float = math.inf, margin: float = MARGIN) -> str:
    """A claim that an effect lies between two limits, judged by the effect's interval: one of `VERDICTS`.

    Where one of the limits is 0, the claim is about a direction. Then an interval within the margin on both
    sides of 0 shows that there is no relevant difference, and a mean within the margin decides nothing.

    >>> [judge(Interval(m, m - 0.03, m + 0.03, 9)) for m in (0.1, -0.1, 0.01, 0.04)]
    ['reproduced', 'contradicted', 'no relevant difference', 'undecided']
    """
    side, directed = side_of_band(value, low, high), 0 in (low, high)
    if side == "undefined":
        return UNTESTED
    if directed and -margin < value.low and value.high < margin:
        return LEVEL
    if side == "across" or (directed and abs(value.mean) < margin):
        return UNDECIDED
    return REPRODUCED if side == "inside" else CONTRADICTED


def ahead(value: Interval) -> str:
    """Which rules are ahead by a relevant difference: "CP-LRP", "AttnLRP", "level" or "open".

    >>> ahead(Interval(-0.015, -0.032, 0.002, 10))
    'level'
    """
    words = {REPRODUCED: "CP-LRP", CONTRADICTED: "AttnLRP", LEVEL: "level"}
    return words.get(judge(value), "open")


def leads(run: TextRun) -> pd.DataFrame:
    """d of each sentence of a run, a column for each of `READINGS`; NaN where it is undefined. The index has
    the sentence's number and its number of tokens.
    """
    return pd.DataFrame(
        {name: run.r(PAIR[0], reading) - run.r(PAIR[1], reading) for name, reading in READINGS.items()},
        index=pd.MultiIndex.from_arrays([run.examples, run.example_column("tokens")], names=INDEX),
    )


def leads_by_data(runs: Sequence[AnyRun]) -> dict[str, Leads]:
    """The `leads` of all runs that have them, by data; `name-seed-1` and so on are trainings of `name`."""
    out: dict[str, dict[tuple[str, str], pd.DataFrame]] = {}
    for run in runs:
        if (
            isinstance(run, TextRun)
            and {*PAIR} <= {*run.methods}
            and DEFAULT_PROTOCOL.removal in run.options["removal"]
            and DEFAULT_PROTOCOL.target in run.options["target"]
        ):
            key = run.model.partition("-seed-")[0], run.name
            out.setdefault(str(run.manifest["data"]), {})[key] = leads(run)
    return dict(out)


def by_training(of: Leads) -> pd.DataFrame:
    """Mean d of each training with its 95 % interval over sentences (`Interval`); by encoder and training."""
    rows = {key: intervals({name: d[name].to_numpy() for name in d}) for key, d in of.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(["encoder", "training"])


def summary(of: Leads) -> pd.DataFrame:
    """The analysis: a row for each of `READINGS`, the primary one first.

    Returns
    -------
    DataFrame
        `d`, an interval (its n: encoders; of a single encoder as `mean_over` has it), `ahead`, `encoders`,
        `below` (encoders with a mean below 0), `trainings`, `smallest`, `largest` (mean of a training).
    """
    means = by_training(of).map(lambda value: value.mean)
    encoders = means.groupby("encoder").mean()
    rows = {}
    for name in means:
        if len(encoders) > 1:
            value = _student(encoders[name].to_numpy())
        else:
            value = mean_over({training: d[name].to_numpy() for (_, training), d in of.items()})
        row: dict[str, Any] = {"d": value, "ahead": ahead(value), "encoders": len(encoders)}
        row |= {"below": int((encoders[name] < 0).sum()), "trainings": len(means)}
        rows[name] = row | {"smallest": means[name].min(), "largest": means[name].max()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("reading")


def _student(means: np.ndarray) -> Interval:
    with extra("summary"):
        from scipy import stats

    half = stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
    return Interval(float(means.mean()), float(means.mean() - half), float(means.mean() + half), len(means))
