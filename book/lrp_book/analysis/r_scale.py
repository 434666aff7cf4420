"""What an r is worth: references to lay it beside. No torch.

An r of 0.75 with LOO is neither high nor low by itself. It can be placed between things whose r is known: the
LOO of *another training* of the same model (it knows the data and the recipe, not this model), the LOO of
another depth, and this model's LOO by *another removal* (another question to the same model). A method that
does not pass the first has not shown that it explains this model; how much it shares with LOO beyond what any
training would give is its partial r given the other training's LOO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from lrp_companion.checks import InputError, choose
from lrp_companion.metrics.faithfulness import pearson
from lrp_companion.metrics.paired import bootstrap_median
from lrp_companion.metrics.statistics import bootstrap_mean
from lrp_companion.paper.protocol_grid import needs_text, title
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import TOKEN_CHOICES, Protocol

Row = dict[str, Any]
KINDS = ("LOO of another training", "LOO of another depth", "LOO by another removal", "method")
"""What an r is of, in the order of a table."""


def correlations(a: Sequence[np.ndarray], b: Sequence[np.ndarray], kept: Sequence[np.ndarray]) -> np.ndarray:
    """Pearson's r of two maps on each example, over the tokens that are kept, (n,).

    NaN where fewer than two tokens are kept or a map is constant or undefined.
    """
    out = np.full(len(a), np.nan)
    for k, (x, y, keep) in enumerate(zip(a, b, kept, strict=True)):
        if keep.sum() > 1 and np.isfinite(x[keep]).all() and np.isfinite(y[keep]).all():
            out[k] = pearson(x[keep], y[keep])
    return out


def partial_r(ab: np.ndarray, ac: np.ndarray, bc: np.ndarray) -> np.ndarray:
    """Pearson's partial correlation of a and b given c, from the three r of the pairs.

    `(r_ab - r_ac r_bc) / sqrt((1 - r_ac**2) (1 - r_bc**2))`; NaN where c gives a or b exactly.

    >>> partial_r(np.array([0.8]), np.array([0.5]), np.array([0.5])).round(4).tolist()
    [0.7333]
    """
    spare = (1 - ac**2) * (1 - bc**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = (ab - ac * bc) / np.sqrt(spare)
    return np.where(spare > 1e-12, np.clip(out, -1, 1), np.nan)


def kept_tokens(run: TextRun, tokens: str) -> list[np.ndarray]:
    """Which tokens of each example count, bool (T,)."""
    choose("kept_tokens", "tokens", tokens, TOKEN_CHOICES)
    lengths = run.example_column("tokens").tolist()
    out = [np.ones(length, dtype=bool) for length in lengths]
    if tokens == "no-special":
        for keep, special in zip(out, run.specials(), strict=True):
            keep[special] = False
    return out


def shared_examples(run: TextRun, other: TextRun) -> tuple[np.ndarray, np.ndarray]:
    """Places in both runs of the examples that both hold.

    Raises
    ------
    InputError : other data, or texts that the two split into different tokens.
    """
    what = [one.manifest["config"]["data"] for one in (run, other)]
    if what[0] != what[1]:
        got = f"{run.name} on data {what[0]} and {other.name} on {what[1]}"
        hint = "compare runs on one data set"
        raise InputError("shared_examples", got=got, expected="one fingerprint", hint=hint)
    _, here, there = np.intersect1d(run.examples, other.examples, return_indices=True)
    mine, theirs = run.example_column("tokens")[here], other.example_column("tokens")[there]
    if not len(here) or not np.array_equal(mine, theirs):
        got = f"{len(here)} shared examples of {run.name} and {other.name}, or other tokens"
        hint = "compare models with one tokenizer"
        raise InputError("shared_examples", got=got, expected="examples with the same tokens", hint=hint)
    return here, there


def _at(columns: Sequence[np.ndarray], places: np.ndarray) -> list[np.ndarray]:
    return [columns[k] for k in places]


def _row(kind: str, what: str, tokens: str, run: TextRun, r: np.ndarray, **more: Any) -> Row:
    head = {"data": title(run), "layers": run.layers, "model": run.model}
    head |= {"kind": kind, "what": what, "tokens": tokens}
    return {**head, "r": bootstrap_mean(r), "median": bootstrap_median(r), "values": r, **more}


def removal_rows(run: TextRun, *, tokens: str = "no-special") -> list[Row]:
    """r of LOO by the attention mask with LOO by each other removal of the run, for the logit."""
    needs_text("removal_rows", run)
    kept = kept_tokens(run, tokens)
    first, *others = run.manifest["axes"]["removal"]
    mask = run.loo(Protocol(removal=first))
    return [
        _row(
            KINDS[2],
            f"LOO by {removal}",
            tokens,
            run,
            correlations(mask, run.loo(Protocol(removal=removal)), kept),
            removal=removal,
        )
        for removal in others
    ]


def training_rows(runs: Sequence[TextRun], *, tokens: str = "no-special") -> list[Row]:
    """r of LOO of one model with LOO of each other on the same data, each pair once.

    Models of one depth are another training, of two depths another depth. LOO is of each model's own
    predicted class; where the two predict different classes the example is left out (undefined).
    """
    first: dict[tuple[str, str], TextRun] = {}
    for run in runs:
        first.setdefault((run.manifest["config"]["data"], run.manifest["config"]["weights"]), run)
    rows = []
    for run, other in combinations(sorted(first.values(), key=lambda run: (-run.layers, run.model)), 2):
        if run.manifest["config"]["data"] == other.manifest["config"]["data"]:
            kind = KINDS[0] if run.layers == other.layers else KINDS[1]
            r = other_loo(run, other, run.loo(), tokens=tokens)
            rows.append(_row(kind, f"LOO of {other.model}", tokens, run, r, other=other.name))
    return rows


def other_loo(
    run: TextRun,
    other: TextRun,
    maps: Sequence[np.ndarray],
    *,
    tokens: str = "no-special",
) -> np.ndarray:
    """r of a map (T,) of each example of `run` with LOO of another run, (n,).

    NaN where `other` lacks the example or predicts another class, so that the two explain different logits.
    """
    here, there = shared_examples(run, other)
    same = run.example_column("target")[here] == other.example_column("target")[there]
    here, there = here[same], there[same]
    kept = _at(kept_tokens(run, tokens), here)
    out = np.full(run.n, np.nan)
    out[here] = correlations(_at(maps, here), _at(other.loo(), there), kept)
    return out


def method_rows(
    run: TextRun,
    others: Sequence[TextRun] = (),
    *,
    site: str = "word",
    tokens: str = "no-special",
    methods: Sequence[str] | None = None,
) -> list[Row]:
    """r of each method of a run that kept its maps: with this model's LOO by every removal, with another
    model's, and with this one's beyond that.

    Returns
    -------
    list
        A row per method and reference: `reference` ("attention-mask", ..., or another run's name), `r`,
        `median`, `values`; for another run also `partial` (interval): the mean partial r with this model's
        LOO given the other's, and `beyond`, mean of r with this model's LOO minus r with the other's.

    Raises
    ------
    InputError : the run keeps no maps.
    """
    needs_text("method_rows", run)
    kept = kept_tokens(run, tokens)
    rows = []
    for method in methods or [name for name in run.methods if name != "loo"]:
        maps = run.maps(method, site=site)
        for removal in run.manifest["axes"]["removal"]:
            r = correlations(maps, run.loo(Protocol(removal=removal)), kept)
            rows.append(_row(KINDS[3], method, tokens, run, r, reference=removal, site=site))
        with_mine = correlations(maps, run.loo(), kept)
        for other in others:
            with_other = other_loo(run, other, maps, tokens=tokens)
            between = other_loo(run, other, run.loo(), tokens=tokens)
            partial = partial_r(with_mine, with_other, between)
            row = _row(KINDS[3], method, tokens, run, with_other, reference=other.name, site=site)
            row |= {"partial": bootstrap_mean(partial), "beyond": bootstrap_mean(with_mine - with_other)}
            rows.append(row)
    return rows


def worth_columns(
    run: TextRun,
    others: Sequence[TextRun],
    method: str,
    *,
    site: str = "word",
    tokens: str = "no-special",
) -> dict[str, np.ndarray]:
    """What r of a method is worth beside other trainings, on each example, (n,).

    Returns
    -------
    dict
        `own`: r with this model's LOO; `other`: r with the LOO of another training, mean over these;
        `partial`: the partial r with this model's LOO given the other's, mean; `ceiling`: r of LOO with LOO,
        mean. NaN where undefined, and where every other training predicts another class.

    Raises
    ------
    InputError : the run keeps no maps, or no other training.
    """
    if not others:
        hint = "pass the runs of other trainings"
        raise InputError("worth_columns", got="no other run", expected="at least one", hint=hint)
    maps = run.maps(method, site=site)
    mine = run.r(method, Protocol(site=site, tokens=tokens))
    pairs = []
    for other in others:
        with_other = other_loo(run, other, maps, tokens=tokens)
        between = other_loo(run, other, run.loo(), tokens=tokens)
        pairs.append((with_other, partial_r(mine, with_other, between), between))
    means = [_mean_of_known(columns) for columns in zip(*pairs, strict=True)]
    return {"own": mine, **dict(zip(("other", "partial", "ceiling"), means, strict=True))}


def _mean_of_known(columns: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over columns of each example, over those that are defined."""
    table = np.stack(columns)
    known = ~np.isnan(table)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, table, 0).sum(0) / known.sum(0)


def scale(
    runs: Sequence[TextRun], *, tokens: str = "no-special", methods: Mapping[str, Sequence[str]] | None = None
) -> list[Row]:
    """Every reference of `KINDS` for runs on one data set, largest mean r first.

    Parameters
    ----------
    runs : several of one model may be among them, such as one with LOO by all removals and one with more
        methods.
    methods : method to the models for which its r is shown; default AttnLRP and CP-LRP of all models.

    Each row is as in `training_rows`; a method's r is the run's own, so no maps are needed.
    """
    wanted = methods or dict.fromkeys(("attnlrp", "cp-lrp"), tuple(run.model for run in runs))
    rows = training_rows(runs, tokens=tokens)
    for run in runs:
        if len(run.manifest["axes"]["removal"]) > 1:
            rows += removal_rows(run, tokens=tokens)
        for name, models in wanted.items():
            told = any(row["what"] == name and row["model"] == run.model for row in rows)
            if name in run.methods and run.model in models and not told:
                rows.append(_row(KINDS[3], name, tokens, run, run.r(name, Protocol(tokens=tokens))))
    return sorted(rows, key=lambda row: -row["r"].mean)
