"""Theme: measuring agreement."""

from __future__ import annotations

import math

import numpy as np

from lrp_book.exercises.checking import THEMES, Case, Exercise, Slip


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's r by its definition; NaN for a constant side."""
    a, b = a - a.mean(), b - b.mean()
    below = math.sqrt(math.fsum(a * a) * math.fsum(b * b))
    return math.fsum(a * b) / below if below > 0 else math.nan


def _ranks(a: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(a)).astype(float)


def agreement(scores: np.ndarray, loo: np.ndarray, special: np.ndarray) -> float:
    """Pearson's r over the tokens that are not special."""
    words = [k for k in range(len(scores)) if not special[k]]
    return correlation(scores[words], loo[words])


def _with_p_value(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """r and its p-value, as `scipy.stats.pearsonr` returns them."""
    from scipy.stats import pearsonr

    return tuple(pearsonr(a, b))


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _map_cases(rng: np.random.Generator) -> list[Case]:
    def draw(count: int) -> tuple:
        special = np.zeros(count, dtype=bool)
        special[[0, -1]] = True
        return rng.normal(size=count) + 1, rng.normal(size=count) + 0.5, special

    inside = np.array([False, True, False, False, True, False])
    return [
        Case("of eight tokens, special ones at both ends", draw(8)),
        Case("of six tokens, special ones inside", (rng.normal(size=6), rng.normal(size=6) + 2, inside)),
        Case("of twelve tokens", draw(12)),
    ]


def morf_order(scores: np.ndarray, special: np.ndarray) -> np.ndarray:
    """Indices of the words, the most relevant first; equal scores in reading order."""
    left = [k for k in range(len(scores)) if not special[k]]
    out = []
    while left:
        best = max(left, key=lambda k: scores[k])  # the first of the largest
        out.append(best)
        left.remove(best)
    return np.array(out)


def _order(scores: np.ndarray, special: np.ndarray, *, kind: str) -> np.ndarray:
    words = np.flatnonzero(~special)
    kept = scores[words]
    return {
        "lerf": words[np.argsort(kept, kind="stable")],
        "absolute": words[np.argsort(-np.abs(kept), kind="stable")],
        "special too": np.argsort(-scores, kind="stable"),
        "inside": np.argsort(-kept, kind="stable"),
        "ties": words[np.argsort(kept, kind="stable")[::-1]],
        "ranks": np.argsort(np.argsort(-kept, kind="stable"), kind="stable"),
        "only special": np.flatnonzero(special),
        "unstable": words[np.argsort(-kept, kind="quicksort")],
    }[kind]


def _rank_cases(rng: np.random.Generator) -> list[Case]:
    ends = np.array([True, False, False, False, False, False, True])
    return [
        Case("of seven tokens", (rng.normal(size=7), ends)),
        Case("with equal scores", (np.array([0.0, 1.0, 2.0, 2.0, 1.0, -3.0, 9.0]), ends)),
        Case(
            "with a large negative score",
            (np.array([5.0, 0.5, -4.0, 1.0, 0.2]), np.array([True, False, False, False, True])),
        ),
        # NumPy sorts a few entries stably whatever it is asked for.
        Case("of 200 tokens with four scores", (rng.integers(0, 4, 200).astype(float), np.arange(200) < 1)),
    ]


def mean_logit(logits: np.ndarray) -> float:
    """`1/K sum_{k=1..K} f_k`: what is recorded after each removal, the whole input left out."""
    total = 0.0
    for value in logits[1:]:
        total += float(value)
    return total / (len(logits) - 1)


def _mean(values: np.ndarray) -> float:
    """The mean; of nothing, NaN without a word."""
    return float(values.mean()) if len(values) else math.nan


def _curve_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("of four removals", (np.array([3.0, 2.0, 0.5, -1.0, -1.5]),)),
        Case("of nine removals", (rng.normal(size=10) + 1,)),
        Case("of one removal", (np.array([2.0, 1.0]),)),
    ]


def sum_to_one(maps: np.ndarray) -> np.ndarray:
    """Row by row, divided by the row's sum with its sign."""
    return np.array([[value / math.fsum(row) for value in row] for row in maps])


def _batch_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("of two maps of three tokens", (rng.normal(size=(2, 3)) + 1,)),
        Case("with a negative sum", (np.array([[1.0, -3.0, 1.0, 0.5], [2.0, 1.0, -1.0, 0.5]]),)),
        Case("of as many maps as tokens", (rng.normal(size=(4, 4)) - 0.7,)),
    ]


EXERCISES = (
    Exercise(
        name="agreement",
        title="Agreement with LOO",
        theme=THEMES[3],
        signature="agreement(scores, loo, special)",
        task=(
            "Return Pearson's r of two maps, shape (T,), "
            "over the tokens that are not special (special is bool, shape (T,)), as one number."
        ),
        answer=agreement,
        cases=_map_cases,
        parts=("r",),
        slips=(
            Slip(
                lambda s, g, m: correlation(s, g),
                "Special tokens are counted: leave them out of both maps before anything else.",
            ),
            Slip(
                lambda s, g, m: correlation(s[m], g[m]),
                "The mask is reversed: special tokens are kept and the words are left out. Use ~special.",
            ),
            Slip(
                lambda s, g, m: correlation(np.where(m, 0, s), np.where(m, 0, g)),
                "Special tokens are set to 0 and still counted: "
                "take them out, so that fewer tokens are left.",
            ),
            Slip(
                lambda s, g, m: _cosine(s[~m], g[~m]),
                "The means are not subtracted: this is the cosine of the maps, not their correlation.",
            ),
            Slip(
                lambda s, g, m: _cosine((s - s.mean())[~m], (g - g.mean())[~m]),
                "The mean is taken before the special tokens are left out: "
                "leave them out first, then centre.",
            ),
            Slip(
                lambda s, g, m: correlation(_ranks(s[~m]), _ranks(g[~m])),
                "This is the correlation of ranks (Spearman). Pearson's r uses the scores themselves.",
            ),
            Slip(lambda s, g, m: agreement(s, g, m) ** 2, "This is r squared: its sign is lost."),
            Slip(
                lambda s, g, m: abs(agreement(s, g, m)),
                "The sign of r is lost: a reversed map has a negative r.",
            ),
            Slip(
                lambda s, g, m: np.corrcoef(s[~m], g[~m]),
                "This is the whole matrix of np.corrcoef. r is one entry of it: [0, 1].",
            ),
            Slip(
                lambda s, g, m: _with_p_value(s[~m], g[~m]),
                "SciPy gives r and a p-value. Only r is asked for: .statistic, or [0].",
            ),
            Slip(
                lambda s, g, m: float(np.cov(s[~m], g[~m])[0, 1]),
                "This is the covariance: divide by both standard deviations.",
            ),
            Slip(
                lambda s, g, m: float(np.cov(s[~m], g[~m])[0, 1] / (s[~m].std() * g[~m].std())),
                "Two kinds of variance are mixed: "
                "the covariance divides by n - 1, the standard deviations by n.",
            ),
        ),
        hints=(
            "Which tokens count, and what is Pearson's r of those that do?",
            ("First leave out the special tokens, then centre both maps, then divide by the two norms."),
            "keep = ~special; return np.corrcoef(scores[keep], loo[keep])[0, 1]",
        ),
    ),
    Exercise(
        name="morf-order",
        title="Most relevant first",
        theme=THEMES[3],
        signature="morf_order(scores, special)",
        task=(
            "Return the indices of the tokens in the order in which MoRF removes them: "
            "the most relevant first, equal scores in reading order, special tokens never."
        ),
        answer=morf_order,
        cases=_rank_cases,
        parts=("the order",),
        whole=True,
        slips=(
            Slip(
                lambda *a: _order(*a, kind="lerf"),
                "The order is LeRF's, the least relevant first: MoRF begins with the largest score.",
            ),
            Slip(
                lambda *a: _order(*a, kind="absolute"),
                "You rank by absolute value. A large negative score speaks against the class: "
                "MoRF removes it last.",
            ),
            Slip(
                lambda *a: _order(*a, kind="special too"),
                "Special tokens are removed, too: leave them out of the order.",
            ),
            Slip(
                lambda *a: _order(*a, kind="inside"),
                "The indices count within the words: translate them to places in the whole text.",
            ),
            Slip(
                lambda *a: _order(*a, kind="ties"),
                "Equal scores leave in reverse order. argsort()[::-1] reverses ties: "
                "sort -scores with kind='stable'.",
            ),
            Slip(
                lambda *a: _order(*a, kind="unstable"),
                "Equal scores leave in an order of the sort's own: it is not stable. Use kind='stable'.",
            ),
            Slip(
                lambda *a: _order(*a, kind="ranks"),
                "These are ranks, the place of each token in the order. Return the order itself.",
            ),
            Slip(
                lambda *a: _order(*a, kind="only special"),
                "The mask is reversed: only special tokens are in your order.",
            ),
        ),
        hints=(
            "Which tokens may be removed at all, and which of two equal ones goes first?",
            (
                "Sort the words alone, from large to small, by a sort that leaves equal scores as "
                "they stand (a stable one), and translate back to places in the text."
            ),
            ("words = np.flatnonzero(~special); return words[np.argsort(-scores[words], kind='stable')]"),
        ),
    ),
    Exercise(
        name="mean-logit",
        title="The mean logit of a curve",
        theme=THEMES[3],
        signature="mean_logit(logits)",
        task=(
            "The array logits holds f_0 (the whole input) to f_K (after K removals), shape (K + 1,). "
            "Return the mean logit 1/K sum_{k=1..K} f_k."
        ),
        answer=mean_logit,
        cases=_curve_cases,
        parts=("the mean logit",),
        slips=(
            Slip(
                lambda f: float(f.mean()),
                "The logit of the whole input, f_0, is in your mean: "
                "average what is recorded after each removal, f_1 to f_K.",
            ),
            Slip(
                lambda f: float((f[0] - f).mean()),
                "This is AOPC, the mean drop from f_0, a different quantity with the other direction.",
            ),
            Slip(
                lambda f: float((f[0] - f[1:]).mean()),
                "This is the mean drop from f_0. The mean logit does not subtract.",
            ),
            Slip(lambda f: float(f[1:].sum()), "This is the sum: divide by K."),
            Slip(
                lambda f: float(f[1:].sum() / len(f)),
                "You divide by K + 1: f_0 is left out, so K entries are left.",
            ),
            Slip(
                lambda f: float(f[1:].sum() / (len(f) - 2)) if len(f) > 2 else float("inf"),
                "You divide by K - 1. The entries f_1 to f_K are K, one less than logits has.",
            ),
            Slip(
                lambda f: float(f[:-1].mean()),
                "The last entry is left out in place of the first: f_0 is the whole input.",
            ),
            Slip(
                lambda f: _mean(f[1:-1]),
                "Both ends are left out. Only f_0 is: the last logit, f_K, counts.",
            ),
            Slip(
                lambda f: _mean(f[2:]),
                "Off by one: the logit after the first removal, f_1, is left out, too.",
            ),
            Slip(
                lambda f: float(((f[1:] + f[:-1]) / 2).mean()),
                "This is the area by trapezoids, in which f_0 counts half. Here it does not count.",
            ),
        ),
        hints=(
            "How many entries count?",
            "The whole input, f_0, does not; every other entry does, the last one too.",
            "return logits[1:].mean()",
        ),
    ),
    Exercise(
        name="sum-to-one",
        title="Maps that sum to one",
        theme=THEMES[3],
        signature="sum_to_one(maps)",
        task="Divide every map, a row of maps (n, T), by its sum, as the paper does; shape (n, T).",
        answer=sum_to_one,
        cases=_batch_cases,
        parts=("the maps",),
        slips=(
            Slip(
                lambda x: x / np.abs(x).sum(1, keepdims=True),
                "You divide by the sum of absolute values, so the rows do not sum to one. "
                "Divide by the sum itself.",
            ),
            Slip(
                lambda x: x / np.abs(x.sum(1, keepdims=True)),
                "The sign of the sum is dropped: divided by a negative sum, a map is reversed. "
                "That is what sum to one does.",
            ),
            Slip(
                lambda x: x / x.sum(0, keepdims=True),
                "The sum runs over the wrong axis: every map is a row, sum over its tokens.",
            ),
            Slip(
                lambda x: x / x.sum(),
                "All maps together are divided by one sum: each row by its own (axis=1, keepdims=True).",
            ),
            Slip(
                lambda x: weights_of(x),
                "This is a softmax: it makes every score positive. Divide by the sum.",
            ),
            Slip(
                lambda x: x / np.linalg.norm(x, axis=1, keepdims=True),
                "You divide by the Euclidean norm: divide by the sum.",
            ),
            Slip(
                lambda x: x / np.abs(x).max(1, keepdims=True),
                "You divide by the largest score: divide by the sum.",
            ),
            Slip(
                lambda x: np.abs(x) / np.abs(x).sum(1, keepdims=True),
                "The signs of the scores are lost: no absolute values here.",
            ),
            Slip(
                lambda x: x / x.mean(1, keepdims=True),
                "You divide by the mean: the rows sum to T in place of one.",
            ),
        ),
        hints=(
            "What is a map divided by, if its sum is negative?",
            "By that sum itself, sign included, each row by its own.",
            "return maps / maps.sum(axis=1, keepdims=True)",
        ),
    ),
)


def weights_of(maps: np.ndarray) -> np.ndarray:
    """The softmax of each row."""
    e = np.exp(maps)
    return e / e.sum(1, keepdims=True)
