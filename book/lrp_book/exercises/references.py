"""Theme: measuring agreement. What an r is worth compared with another training's LOO."""

from __future__ import annotations

import itertools
import math

import numpy as np

from lrp_book.exercises.agreement import correlation
from lrp_book.exercises.checking import THEMES, Case, Exercise, Slip


def _rest(a: np.ndarray, given: np.ndarray, *, constant: bool = True) -> np.ndarray:
    """What is left of a after least squares on `given` (and a constant)."""
    columns = [given, np.ones_like(given)] if constant else [given]
    x = np.stack(columns, 1)
    return a - x @ np.linalg.lstsq(x, a, rcond=None)[0]


def partial_agreement(scores: np.ndarray, loo: np.ndarray, other: np.ndarray) -> float:
    """r of the two remainders after least squares on the other training's LOO."""
    return correlation(_rest(scores, other), _rest(loo, other))


def _three(scores: np.ndarray, loo: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    return correlation(scores, loo), correlation(scores, other), correlation(loo, other)


def _partial(scores: np.ndarray, loo: np.ndarray, other: np.ndarray, *, kind: str) -> float:
    ab, ac, bc = _three(scores, loo, other)
    above, first, second = ab - ac * bc, 1 - ac**2, 1 - bc**2
    return {
        "above": above,
        "no root": above / (first * second),
        "plus": (ab + ac * bc) / math.sqrt(first * second),
        "unsquared": above / math.sqrt((1 - abs(ac)) * (1 - abs(bc))),
        "given loo": (ac - ab * bc) / math.sqrt((1 - ab**2) * second),
        "given scores": (bc - ab * ac) / math.sqrt((1 - ab**2) * first),
        "beyond": ab - ac,
        "scores alone": above / math.sqrt(first),
        "loo alone": above / math.sqrt(second),
        "of r squared": (ab**2 - ac**2) / (1 - ac**2),
    }[kind]


def _reference_cases(rng: np.random.Generator) -> list[Case]:
    def draw(count: int) -> tuple[np.ndarray, ...]:
        both = rng.normal(size=count)
        return tuple(both + rng.normal(size=count) + shift for shift in (0.0, 0.5, 2.0))

    scores, loo, other = draw(40)
    return [
        Case("of eight tokens", draw(8)),
        Case("of thirty tokens", draw(30)),
        Case("of forty tokens, scores of the other sign", (-scores, loo, other)),
    ]


def mean_pair_r(maps: np.ndarray) -> float:
    """The mean r over pairs of two different trainings, computed one by one."""
    pairs = list(itertools.combinations(range(len(maps)), 2))
    return math.fsum(correlation(maps[i], maps[j]) for i, j in pairs) / len(pairs)


def _pairs(maps: np.ndarray, *, kind: str) -> float:
    count = len(maps)
    r = np.array([[correlation(a, b) for b in maps] for a in maps])
    upper = r[np.triu_indices(count, 1)]
    mean = maps.mean(0)
    if kind == "columns":
        with np.errstate(all="ignore"):
            across = np.corrcoef(maps, rowvar=False)
        return float(across[np.triu_indices(len(across), 1)].mean())
    return {
        "with itself": float(r.mean()),
        "half": float(upper.sum() / count**2),
        "sum": float(upper.sum()),
        "squared": float((upper**2).mean()),
        "absolute": float(np.abs(upper).mean()),
        "neighbours": float(np.mean([r[k, k + 1] for k in range(count - 1)])),
        "first": float(r[0, 1:].mean()),
        "with the mean": float(np.mean([correlation(row, mean) for row in maps])),
        "by trainings": float(upper.sum() / count),
        "largest": float(upper.max()),
    }[kind]


def _training_cases(rng: np.random.Generator) -> list[Case]:
    def draw(count: int, tokens: int) -> np.ndarray:
        return rng.normal(size=tokens) + rng.normal(size=(count, tokens)) + rng.normal(size=(count, 1))

    return [
        Case("of three trainings, eight tokens", (draw(3, 8),)),
        Case("of as many trainings as tokens", (draw(4, 4),)),
        Case(
            "of five trainings, some of another sign", (draw(5, 6) * np.array([[1.0], [1], [-1], [1], [1]]),)
        ),
    ]


EXERCISES = (
    Exercise(
        name="partial-agreement",
        title="What a map shares with LOO beyond another training",
        theme=THEMES[3],
        signature="partial_agreement(scores, loo, other)",
        task=(
            "Return Pearson's partial correlation of scores and loo given other, the LOO of another training "
            "of the same model; all have shape (T,), special tokens are left out already. One number."
        ),
        answer=partial_agreement,
        cases=_reference_cases,
        parts=("the partial r",),
        slips=(
            Slip(
                lambda s, g, o: correlation(s, g),
                "This is r with this model's LOO. What another training would give is still in it.",
            ),
            Slip(
                lambda s, g, o: correlation(s, o),
                "This is r with the other training's LOO: it is what has to be taken out.",
            ),
            Slip(
                lambda *a: _partial(*a, kind="beyond"),
                "This is a difference of two r. The partial r takes `other` out of both maps instead.",
            ),
            Slip(
                lambda *a: _partial(*a, kind="above"),
                "The denominator is missing: divide by the root of (1 - r_ac^2) (1 - r_bc^2).",
            ),
            Slip(lambda *a: _partial(*a, kind="no root"), "The root in the denominator is missing."),
            Slip(lambda *a: _partial(*a, kind="plus"), "A sign was dropped: r_ac r_bc is subtracted."),
            Slip(
                lambda *a: _partial(*a, kind="unsquared"),
                "The r in the denominator are not squared: 1 - r^2 is what the other does not explain.",
            ),
            Slip(
                lambda *a: _partial(*a, kind="given loo"),
                "The roles are mixed: this is the partial r of scores and other, given this model's LOO.",
            ),
            Slip(
                lambda *a: _partial(*a, kind="given scores"),
                "The roles are mixed: this is the partial r of the two LOO, given the scores.",
            ),
            Slip(
                lambda *a: _partial(*a, kind="scores alone"),
                "`other` is taken out of the scores alone (a semi-partial r): take it out of loo, too.",
            ),
            Slip(
                lambda *a: _partial(*a, kind="loo alone"),
                "`other` is taken out of loo alone (a semi-partial r): take it out of the scores, too.",
            ),
            Slip(
                lambda s, g, o: correlation(_rest(s, o, constant=False), _rest(g, o, constant=False)),
                "The least squares have no constant: centre the maps first, or add a column of ones.",
            ),
        ),
        hints=(
            "What is left of both maps, once all that `other` predicts of them is taken out?",
            (
                "Either correlate the two remainders after least squares on other (with a constant), or "
                "use the three r: r_ab minus r_ac r_bc, over the root of (1 - r_ac^2) (1 - r_bc^2)."
            ),
            "(ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))",
        ),
    ),
    Exercise(
        name="mean-pair-r",
        title="How well trainings agree with one another",
        theme=THEMES[3],
        signature="mean_pair_r(maps)",
        task=(
            "The array maps (S, T) holds the LOO map of each of S trainings for one text. Return the mean of "
            "Pearson's r over all pairs of two different trainings, as one number."
        ),
        answer=mean_pair_r,
        cases=_training_cases,
        parts=("the mean r",),
        slips=(
            Slip(
                lambda x: _pairs(x, kind="with itself"),
                "Each training is paired with itself, too: these r are 1 and raise the mean. "
                "Leave the diagonal out.",
            ),
            Slip(
                lambda x: _pairs(x, kind="columns"),
                "The correlations are those of tokens: a training is a row, correlate rows.",
            ),
            Slip(
                lambda x: _pairs(x, kind="neighbours"),
                "Only neighbouring rows are paired: every training goes with every other.",
            ),
            Slip(
                lambda x: _pairs(x, kind="first"),
                "Only pairs with the first training are in your mean: take all pairs.",
            ),
            Slip(
                lambda x: _pairs(x, kind="with the mean"),
                "This is r with the mean map, of which each training is a part. Pair trainings instead.",
            ),
            Slip(lambda x: _pairs(x, kind="sum"), "This is the sum over the pairs: divide by their number."),
            Slip(
                lambda x: _pairs(x, kind="by trainings"),
                "You divide by the number of trainings: there are S (S - 1) / 2 pairs.",
            ),
            Slip(
                lambda x: _pairs(x, kind="half"),
                "You divide by S squared: there are S (S - 1) / 2 pairs of different trainings.",
            ),
            Slip(lambda x: _pairs(x, kind="absolute"), "The signs of r are lost: no absolute values here."),
            Slip(lambda x: _pairs(x, kind="squared"), "These are squares of r: their signs are lost."),
            Slip(lambda x: _pairs(x, kind="largest"), "This is the largest r of a pair: take the mean."),
        ),
        hints=(
            "How many pairs of two different trainings are there?",
            "There are S (S - 1) / 2: the entries above the diagonal of the matrix of correlations.",
            "np.corrcoef(maps)[np.triu_indices(len(maps), 1)].mean()",
        ),
    ),
)
