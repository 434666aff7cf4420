"""What an r is worth: references to lay it beside. No torch.

An r of 0.75 with LOO is neither high nor low by itself. It can be placed between things whose r is known: the
LOO of *another training* of the same model (it knows the data and the recipe, not this model), the LOO of
another depth, and this model's LOO by *another removal* (another question to the same model). A method that
does not pass the first has not shown that it explains this model; how much it shares with LOO beyond what any
training would give is its partial r given the other training's LOO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from lrp_companion.checks import InputError, choose
from lrp_companion.lab.labelled import r_with_loo
from lrp_companion.lab.load import TextRun
from lrp_companion.metrics.faithfulness import CORRELATIONS
from lrp_companion.schema import TOKEN_CHOICES, Protocol

METHODS = ("mask-gradient:groups=8", "mask-gradient", "attnlrp", "cp-lrp")
WHAT = ("own", "other", "beyond", "partial", "ceiling", "lead")
"""What `worth` gives of each method."""
TOKENS = {"no-special": "words only", "all": "all tokens"}
REMOVALS = {
    "attention-mask": "attention mask",
    "mask-token": "[MASK]",
    "pad-token": "[PAD]",
    "delete": "deletion",
}


def correlations(
    a: Sequence[np.ndarray],
    b: Sequence[np.ndarray],
    kept: Sequence[np.ndarray],
    *,
    statistic: str = "pearson",
) -> np.ndarray:
    """r of two maps on each example, over the tokens that are kept, (n,).

    NaN where fewer than two tokens are kept or a map is constant or undefined.
    """
    out = np.full(len(a), np.nan)
    for k, (x, y, keep) in enumerate(zip(a, b, kept, strict=True)):
        if keep.sum() > 1 and np.isfinite(x[keep]).all() and np.isfinite(y[keep]).all():
            out[k] = CORRELATIONS[statistic](x[keep], y[keep])
    return out


def r_without(run: TextRun, method: str, zeroed: Mapping[str, Any]) -> np.ndarray:
    """r with LOO at words + positions, all tokens, with relevance set to 0: part to places, (n,).

    The run has its maps (--keep-maps).
    """
    maps = []
    for parts in run.map_parts(method):
        word = np.array(parts["word"])
        kept = {"word": word, "position": np.array(parts.get("position", np.zeros_like(word)))}
        for part, places in zeroed.items():
            kept[part][places] = 0
        maps.append(kept["word"] + kept["position"])
    return correlations(maps, run.loo(), kept_tokens(run, "all"))


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
    out = [np.ones(length, dtype=bool) for length in run.example_column("tokens").tolist()]
    if tokens == "no-special":
        for keep, special in zip(out, run.specials(), strict=True):
            keep[special] = False
    return out


def shared_examples(run: TextRun, other: TextRun) -> tuple[np.ndarray, np.ndarray]:
    """Places in both runs of the examples that both hold."""
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


def other_loo(
    run: TextRun,
    other: TextRun,
    maps: Sequence[np.ndarray] | None = None,
    *,
    tokens: str = "no-special",
    statistic: str = "pearson",
) -> np.ndarray:
    """r of a map (T,) of each example of `run`, or of its LOO, with LOO of another run, (n,).

    NaN where `other` lacks the example or predicts another class, so that the two explain different logits.
    """
    here, there = shared_examples(run, other)
    same = run.example_column("target")[here] == other.example_column("target")[there]
    here, there = here[same], there[same]
    mine, theirs, kept = maps or run.loo(), other.loo(), kept_tokens(run, tokens)
    out = np.full(run.n, np.nan)
    chosen = [mine[k] for k in here], [theirs[k] for k in there], [kept[k] for k in here]
    out[here] = correlations(*chosen, statistic=statistic)
    return out


def worth(
    run: TextRun,
    others: Sequence[TextRun],
    methods: Sequence[str] = METHODS,
    *,
    tokens: str = "no-special",
    statistic: str = "pearson",
) -> xr.DataArray:
    """What r of each method is worth beside other trainings: axes explainer, what and example.

    On the axis `what`: `own` is r with this model's LOO; `other` r with the LOO of another training, mean
    over these; `beyond` own minus other; `partial` the partial r with this model's LOO given the other's,
    mean; `ceiling` r of LOO with LOO, mean; `lead` own minus ceiling: above 0, the method is closer to this
    model's LOO than another training's LOO is. NaN where undefined, and where every other training predicts
    another class.

    Parameters
    ----------
    run : a run with --keep-maps.
    others : runs of other trainings.
    """
    if not others:
        hint = "pass the runs of other trainings"
        raise InputError("worth", got="no other run", expected="at least one", hint=hint)
    read = Protocol(tokens=tokens, statistic=statistic)
    own = r_with_loo(run, list(methods), **vars(read)).values
    r = partial(other_loo, run, tokens=tokens, statistic=statistic)
    between = np.stack([r(other) for other in others])[:, None]
    maps = [run.maps(method) for method in methods]
    theirs = np.stack([[r(other, of) for of in maps] for other in others])
    beside, theirs = _known_mean(partial_r(own, theirs, between)), _known_mean(theirs)
    ceiling = np.broadcast_to(_known_mean(between), own.shape)
    columns = [own, theirs, own - theirs, beside, ceiling, own - ceiling]
    coords = {"explainer": list(methods), "what": list(WHAT), "example": run.examples}
    return xr.DataArray(np.stack(columns, 1), coords, list(coords))


def _known_mean(columns: np.ndarray) -> np.ndarray:
    """The mean over the first axis, over what is defined."""
    known = ~np.isnan(columns)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, columns, 0).sum(0) / known.sum(0)


def worth_over_trainings(
    runs: Sequence[TextRun],
    methods: Sequence[str] = METHODS,
    *,
    tokens: str = "no-special",
    statistic: str = "pearson",
) -> xr.DataArray:
    """`worth` of every training of one model beside all others: axes training, explainer, what and example.

    `runs.labelled.mean` gives the means, with intervals over trainings and examples together.
    """
    if len(runs) < 2:
        hint = "train the model again with another --seed"
        raise InputError("worth_over_trainings", got=f"{len(runs)} runs", expected="two or more", hint=hint)
    if any(not np.array_equal(run.examples, runs[0].examples) for run in runs):
        got = f"runs of other examples: {', '.join(run.name for run in runs)}"
        hint = "take a pair apart with worth"
        raise InputError("worth_over_trainings", got=got, expected="the same examples", hint=hint)
    read = {"tokens": tokens, "statistic": statistic}
    each = [worth(run, [one for one in runs if one is not run], methods, **read) for run in runs]
    return xr.concat(each, "training").assign_coords(training=[run.name for run in runs])
