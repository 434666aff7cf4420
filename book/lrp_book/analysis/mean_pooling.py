"""Does the order of the methods hang on the read-out at [CLS]? The same network with the mean read. No torch.

The three points are those of `results/predictions/2026-11-23-mean-pooling.md`, written down before any
6-layer model with the mean read was trained; they can be asked of any two groups of trainings that differ in
what the classifier reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrp_book.analysis.first_token import EVERYTHING, by_first_sign, first_loo
from lrp_book.analysis.predictions import Point, judged, one_sign
from lrp_companion.metrics.paired import over_trainings
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import Protocol

Row = dict[str, Any]
MEAN = "mean"
LARGEST_GAP = 0.1
WORDS = Protocol()


def first_share(run: TextRun) -> np.ndarray:
    """The share of [CLS] in sum |R| of AttnLRP, words + positions, all tokens, (n,)."""
    return run.share("attnlrp", token="first", site=EVERYTHING.site)


def sign_gap(run: TextRun) -> float:
    """CP-LRP minus AttnLRP where LOO at [CLS] is above 0, minus the same where it is below."""
    sides = by_first_sign(run)
    if sides["above"] is None or sides["below"] is None:
        return float("nan")
    return float(sides["above"].mean.mean - sides["below"].mean.mean)


def effect(run: TextRun, protocol: Protocol) -> float:
    """Mean difference of r, CP-LRP minus AttnLRP."""
    return float(run.difference("cp-lrp", "attnlrp", protocol).mean)


def pooling_points(reading_first: Sequence[TextRun]) -> tuple[Point, ...]:
    """The three points of the prediction; the first needs the trainings that read [CLS] as its measure."""
    half = float(np.mean([np.nanmean(first_share(run)) for run in reading_first])) / 2
    return (
        Point(1, f"the share of [CLS] in the sum of |R| is below {half:.3f}, half of that with [CLS] read",
              (MEAN,), lambda run: {"share": float(np.nanmean(first_share(run)))},
              lambda value: value["share"] < half),
        Point(2, "CP-LRP minus AttnLRP has one sign at the words and at words + positions, all tokens",
              (MEAN,), lambda run: {"words": effect(run, WORDS), "all": effect(run, EVERYTHING)}, one_sign),
        Point(3, "where LOO at [CLS] is above 0 and where it is below, the two are less than 0.1 apart",
              (MEAN,), lambda run: {"above - below": sign_gap(run)},
              lambda value: abs(value["above - below"]) < LARGEST_GAP),
    )  # fmt: skip


def pooling_outcomes(reading_first: Sequence[TextRun], reading_mean: Sequence[TextRun]) -> list[Row]:
    """The three points judged: rows of `predictions.judged`."""
    return judged(pooling_points(reading_first), {MEAN: reading_mean})


def pooling_rows(reading_first: Sequence[TextRun], reading_mean: Sequence[TextRun]) -> list[Row]:
    """Both read-outs side by side, over their trainings.

    Returns
    -------
    list
        Rows `layers`, `reads` ("[CLS]" or "mean"), `trainings`, `share` ([CLS] in sum |R|), `above` (share of
        examples with LOO at [CLS] above 0), `words` and `all`: CP-LRP minus AttnLRP at the words, and at
        words + positions with all tokens (intervals over trainings and examples), `gaps`: `sign_gap` of each.
    """
    rows = []
    for reads, runs in (("[CLS]", reading_first), ("mean", reading_mean)):
        row: Row = {"layers": runs[0].layers, "reads": reads, "trainings": len(runs), "n": runs[0].n}
        columns = {
            "share": first_share,
            "above": lambda run: (first_loo(run) > 0).astype(float),
            "words": lambda run: run.r("cp-lrp", WORDS) - run.r("attnlrp", WORDS),
            "all": lambda run: run.r("cp-lrp", EVERYTHING) - run.r("attnlrp", EVERYTHING),
        }
        for name, column in columns.items():
            row[name] = over_trainings({run.model: column(run) for run in runs})
        rows.append({**row, "gaps": tuple(sign_gap(run) for run in runs)})
    return rows
