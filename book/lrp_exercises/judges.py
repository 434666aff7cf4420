"""Theme: outliers and judges."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np

from lrp_exercises.agreement import correlation
from lrp_exercises.cards import Array, Function, exercise

card = partial(exercise, theme="outliers and judges")


@card("""without-each: What one token carries -> the r
Return, for each token, Pearson's r of two maps, shape (T,), over all other tokens; shape (T,). No map is
constant there.
## inputs
of six tokens: n(6) + 1, n(6)
with one token far out: np.append(n(9), 40.0), np.append(n(9), 30.0)
with one token far out on one side: np.append(n(9), -40.0), n(10)
with zeros and equal scores: np.array([0.0, 1, 1, 0, 2, 3]), np.array([1.0, 0, 0, 2, 2, 0])
of drawn size: n(p + 5), n(p + 5)
## solution
def without_each(scores, loo):
    maps = np.stack([scores, loo])
    left = [np.delete(maps, k, axis=1) for k in range(len(scores))]
    return np.array([np.corrcoef(two)[0, 1] for two in left])
## slips
np.delete(maps, k, axis=1) -> maps
# No token is left out: each entry is the r of all tokens.
np.delete(maps, k, axis=1) -> maps * (np.arange(len(scores)) != k)
# The token is set to 0 and still counted: take it out, so that T - 1 are left.
np.delete(maps, k, axis=1) -> np.where(np.arange(len(scores)) == k, maps.mean(1, keepdims=True), maps)
# The token is set to the mean and still counted: take it out, and let the mean be that of the others.
return np.corrcoef(scores, loo)[0, 1] - np.array([np.corrcoef(two)[0, 1] for two in left])
# This is by how much r falls without the token. Return the r that is left.
[0, 1] for -> [0, 1] ** 2 for  # These are squares of r: their signs are lost.
return np.array([two[0] @ two[1] / np.sqrt((two[0] @ two[0]) * (two[1] @ two[1])) for two in left])
# The means are not subtracted: this is a cosine.
np.delete(maps, k, axis=1) -> maps[:, k + 1:] if k < len(scores) - 2 else maps[:, :k]
# All tokens up to this one are left out: leave out this one alone.
np.corrcoef(two) -> np.corrcoef([(np.sign(np.subtract.outer(x, x))).sum(1) for x in two])
# These are correlations of ranks. Pearson's r uses the scores themselves.
s, g = ((x - x.mean()) / x.std() for x in maps); return ((s * g).sum() - s * g) / (len(s) - 1)
# Means and deviations are still those of all tokens: leave the token out before anything else.
## hints
How many points are left in each of the T correlations?
T - 1: take the token out of both maps, then centre what is left.
np.corrcoef(np.delete(scores, k), np.delete(loo, k))[0, 1]
""")
def without_each(scores: Array, loo: Array) -> Array:
    """r over the others, token by token."""
    keeps = [[j for j in range(len(scores)) if j != k] for k in range(len(scores))]
    return np.array([correlation(scores[keep], loo[keep]) for keep in keeps])


@card("""rank-agreement: The same by rank -> r
Return Spearman's r of two maps, shape (T,): Pearson's r of their ranks. Equal scores share the mean of the
ranks that they take up. One number; no map is constant.
## inputs
of eight tokens: n(8), n(8)
with one token far out: np.append(n(9), 40.0), np.append(n(9), 30.0)
with equal scores: np.array([2.0, 1.0, 1.0, 1.0, 3.0, 0.0]), n(6)
with equal scores in both: rng.integers(0, 3, 12) + 0.0, rng.integers(0, 3, 12) + 0.0
of drawn size: n(p + 4) / 1000, n(p + 4)
## solution
def rank_agreement(scores, loo):
    below = [np.greater.outer(x, x).sum(1) for x in (scores, loo)]
    equal = [np.equal.outer(x, x).sum(1) for x in (scores, loo)]
    ranks = [b + (e + 1) / 2 for b, e in zip(below, equal)]
    return np.corrcoef(ranks)[0, 1]
## slips
return np.corrcoef(scores, loo)[0, 1]  # This is Pearson's r of the scores: rank them first.
return np.corrcoef(np.argsort(scores), np.argsort(loo))[0, 1]
# argsort gives the order, not the ranks: the place of each token in that order is argsort of argsort.
return np.corrcoef(scores.argsort(kind="stable").argsort(), loo.argsort(kind="stable").argsort())[0, 1]
# Equal scores get different ranks, by their place in the text: give each the mean of their ranks.
(e + 1) / 2 -> 1
# Equal scores get the lowest of the ranks that they take up: give each the mean.
(e + 1) / 2 -> e  # Equal scores get the highest of the ranks that they take up: give each the mean.
return np.corrcoef(ranks[0], loo)[0, 1]  # Only the scores are ranked: rank LOO, too.
return np.corrcoef(scores, ranks[1])[0, 1]  # Only LOO is ranked: rank the scores, too.
return 1 - 6 * ((ranks[0] - ranks[1]) ** 2).sum() / (len(loo) ** 3 - len(loo))
# The short formula with squared differences holds only where no scores are equal.
x in (scores, loo) -> x in (abs(scores), abs(loo))
# Absolute values are ranked: a large negative score has the lowest rank.
return np.corrcoef(ranks)[0, 1] ** 2  # This is r squared: its sign is lost.
s, g = (np.argsort(x, kind="stable") for x in (scores, loo)); return np.corrcoef(s, g)[0, 1]
# You correlate the orders in which the tokens are sorted. A rank is the place of a token in its order.
s, g = (np.unique(x, return_inverse=True)[1] for x in (scores, loo)); return np.corrcoef(s, g)[0, 1]
# Equal scores count as one place, so later ranks are too small: three equal ones take up three places.
return np.corrcoef([np.sign(np.subtract.outer(x, x)).ravel() for x in (scores, loo)])[0, 1]
# This is Kendall's tau, a count of pairs in the same order. Spearman's r is Pearson's r of ranks.
s, g = (np.sign(np.subtract.outer(x, x)) for x in (scores, loo)); return (s * g).sum() / (s.size - len(s))
# This is Kendall's tau, not corrected for equal scores. Spearman's r is Pearson's r of ranks.
x in (scores, loo) -> x in [np.append(scores, loo)]
return np.corrcoef(ranks[0].reshape(2, -1))[0, 1]
# Both maps are ranked in one list: rank each among its own scores.
## hints
Which rank do three equal scores get, if they take up the places 2, 3 and 4?
Each 3, the mean. A rank is the number of smaller scores, and half of one more than the number of equal ones.
[np.greater.outer(x, x).sum(1) + (np.equal.outer(x, x).sum(1) + 1) / 2 for x in (scores, loo)]
""")
def rank_agreement(scores: Array, loo: Array) -> float:
    """r of ranks: each token's mean place over the sorted list."""
    places = [
        np.array([np.mean([k for k, y in enumerate(sorted(x)) if y == value]) for value in x])
        for x in (scores, loo)
    ]
    return correlation(*places)


@card("""shapley-values: A second judge -> the values
The array game has the logit for every set of n words, shape (2, ..., 2) with n axes: game[1, 0, 1] is the
logit of three words without the second, and that of no words need not be 0. Return the Shapley value of each
word, the mean over all orders of what it adds when it comes in; shape (n,).
## inputs
of three words: n(2, 2, 2)
of two words of which either suffices: np.array([[0.0, 1.0], [1.0, 1.0]]) * (1 + rng.random())
of two words that need each other: np.array([[0.0, 0.0], [0.0, 1.0]]) * (1 + rng.random())
of four words: n(2, 2, 2, 2)
with zeros: rng.integers(0, 2, (2, 2, 2)) + 0.0
of drawn size: n(*[2] * (2 + p % 3))
## solution
def shapley_values(game):
    out = np.zeros(game.ndim)
    for k in range(game.ndim):
        gain = np.take(game, 1, axis=k) - np.take(game, 0, axis=k)
        others = np.indices(gain.shape).sum(axis=0)
        by_size = [gain[others == size].mean() for size in range(game.ndim)]
        out[k] = np.mean(by_size)
    return out
## slips
np.mean(by_size) -> by_size[-1]
# This is LOO: what the word adds to all others. Average over all sets of words before it.
np.mean(by_size) -> by_size[0]  # This is what the word adds to none: average over all sets before it.
np.mean(by_size) -> gain.mean()
# Every set has the same weight (the Banzhaf value). In orders each number of words before it is as likely.
np.mean -> np.sum  # The sizes are summed up: take their mean, there are n of them.
by_size) -> by_size[1:])  # The empty set is left out: a word can be the first to come in.
by_size) -> by_size[:-1])  # The set of all others is left out: a word can be the last to come in.
- np.take(game, 0, axis=k) ->  # The logit before the word came in is not subtracted.
- np.take(game, 0, axis=k) -> - game[(0,) * game.ndim]
# The logit of no words is subtracted: take that of the words before it.
return out[::-1]  # The words are in reverse order: axis 0 is the first word.
return np.diff([game[(1,) * k + (0,) * (game.ndim - k)] for k in range(game.ndim + 1)])
# The words come in in one order alone, the reading order: average over all orders.
np.mean(by_size) -> (by_size[0] + by_size[-1]) / 2
# Only the first and the last place in an order count for you: average over all numbers of words before.
return np.full(game.ndim, (game[(1,) * game.ndim] - game[(0,) * game.ndim]) / game.ndim)
# What all words add together is split evenly: each word gets the mean of what it adds itself.
out = -> game = game.copy(); game[(0,) * game.ndim] = 0; out =
# The logit of no words counts as 0 for you: subtract it as it is where a word comes in first.
np.mean(by_size) -> sum((game.ndim - size) * m for size, m in enumerate(by_size)) / game.ndim
# A set of s words before it has the weight s! (n - 1 - s)! / n!: you have (n - s)! there.
np.mean(by_size) -> sum(by_size[1:]) / game.ndim
# The empty set is left out of the sum: a word can be the first to come in.
## hints
How many words may have come in before, and is each number as likely as the others?
In a random order 0, 1, ... or n - 1 words come before, each as often: a mean for each size, then their mean.
np.mean([gain[others == size].mean() for size in range(game.ndim)])
""")
def shapley_values(game: Array) -> Array:
    """By the definition: over all orders in which the words can come in."""
    out = np.zeros(game.ndim)
    for order in itertools.permutations(range(game.ndim)):
        there = [0] * game.ndim
        for word in order:
            before, there[word] = game[tuple(there)], 1
            out[word] += game[tuple(there)] - before
    return out / math.factorial(game.ndim)


def marks(rng: np.random.Generator, rows: int, count: int, each: int) -> Array:
    """Which tokens were planted: as many in each row."""
    return rng.random((rows, count)).argsort(1) < each


@card("""planted-on-top: Planted reasons -> the share
In each row of scores (n, T) some words were planted that are known to decide; planted (n, T) is True there.
Return the share of rows in which every planted word has a larger score than every other word; a tie is not
larger. Every row has planted words and others.
## inputs
of five texts, one word each: n(5, 6) + 2 * (m := marks(rng, 5, 6, 1)), m
of eight texts, pairs: n(8, 5) + 3 * (m := marks(rng, 8, 5, 2)), m
with equal scores: np.ones((4, 3)) + (m := marks(rng, 4, 3, 1)) * [[0], [1], [0], [1]], m
with large negative scores: np.array([[3.0, -9, 1], [5, 4, -7]]), np.array([[1, 0, 0], [1, 1, 0]]) > 0
that are all negative: 1e12 * (-1 - rng.random((6, 4)) + (m := marks(rng, 6, 4, 2))), m
with scores of 0: np.array([[0.0, -1, 0], [0, 2, -1], [3, 0, 0]]),
 np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0]]) > 0
of one planted word or three:
 np.array([[4.0, 2, 1, -1, 2], [4, 1, 2, 4, 3], [4, 5, 2, 1, 3], [3, 1, 4, 1, 2], [1, 2, 4, 3, 4]]),
 np.array([[1, 0, 0, 0, 0], [1, 0, 1, 1, 0], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [0, 1, 1, 0, 1]]) > 0
of drawn sizes: n(p + 3, q + 3) + 2 * (m := marks(rng, p + 3, q + 3, 2)), m
## solution
def planted_on_top(scores, planted):
    least = np.where(planted, scores, np.inf).min(axis=1)
    other = np.where(planted, -np.inf, scores).max(axis=1)
    return (least > other).mean()
## slips
least > other -> least >= other
# A tie counts as on top: the planted word has to have a larger score than every other.
np.inf).min -> -np.inf).max
# One planted word on top is enough for you: of a pair, both have to be.
scores -> abs(scores)  # You rank by size: a large negative score speaks against the class.
mean -> sum  # This is the number of rows: divide by how many there are.
(least > other).mean() -> float((least > other).all())
# This says whether all rows pass: their share is asked for.
axis=1 -> axis=0  # Columns are compared: a text is a row, so least and largest run over its tokens.
least > other -> least < other  # The comparison is reversed: the planted words have to have more.
return (scores.argmax(1) == planted.argmax(1)).mean()
# The place of the first planted word is compared with the largest score: a pair has two places.
return planted[np.arange(len(scores)), scores.argmax(1)].mean()
# A row counts for you if its largest score is a planted word's: every planted word has to be on top.
return (np.where(planted, scores, 0).sum(1) > np.where(planted, 0, scores).sum(1)).mean()
# Sums are compared: compare the smallest planted score with the largest other one.
return (np.where(planted, scores, 0).max(1) > np.where(planted, 0, scores).max(1)).mean()
# 0 stands in for what does not count and can be the largest itself, and the smallest planted score decides.
return np.mean([s[p].mean() > s[~p].mean() for s, p in zip(scores, planted)])
# Means are compared: the smallest planted score has to be above the largest other one.
least > other -> least > np.array([s[~p].mean() for s, p in zip(scores, planted)])
# The planted words only have to be above the mean of the others: the largest of the others counts.
return (scores > other[:, None])[planted].mean()
# This is the share of planted words that are on top: count rows in which all of them are.
return np.mean([p[np.argsort(-s, kind="stable")[: p.sum()]].mean() for s, p in zip(scores, planted)])
# This is the mean share of planted words among the largest scores: count rows in which it is all.
return np.mean([p[np.argsort(-s, kind="stable")[: p.sum()]].all() for s, p in zip(scores, planted)])
# By sorting, a tie is decided by the reading order: a tie is not on top.
return np.mean([p[np.argsort(-s, kind="stable")[: planted[0].sum()]].all() for s, p in zip(scores, planted)])
# How many words are planted is read from the first row: each row has its own number.
least > other -> least > other.max()
# The largest score of the others is taken over all rows: each row has its own.
return ((scores * planted).min(1) > (scores * ~planted).max(1)).mean()
# Times the mask, what does not count is 0 and takes part: put infinity there, of the sign that never decides.
-np.inf, scores).max -> np.inf, scores).min
# The least of the others decides for you: the planted words have to be above the largest.
## hints
Which planted word decides whether all are on top, and which of the others?
The planted one with the least score, and the other one with the largest.
(np.where(planted, scores, np.inf).min(1) > np.where(planted, -np.inf, scores).max(1)).mean()
""")
def planted_on_top(scores: Array, planted: Array) -> float:
    """Row by row, word by word."""
    rows = [(row[mark], row[~mark]) for row, mark in zip(scores, planted, strict=True)]
    return sum(all(a > b for a in mine for b in others) for mine, others in rows) / len(rows)


def answer(n: Function, prompt: int, tokens: int) -> Array:
    """Maps of an answer's tokens: a row sees the prompt and the answer before it."""
    seen = np.arange(prompt + tokens) < prompt + np.arange(tokens)[:, None]
    return np.where(seen, n(tokens, prompt + tokens), np.nan)


@card("""answer-map: An answer of several tokens -> the map
Row k of maps (K, P + K) explains token k of an answer: it has scores for the P tokens of the prompt and for
the answer's tokens before it, and NaN for what comes later. Return one map of the whole answer over the
prompt, shape (P,): the sum of the rows there. P follows from the shape.
## inputs
of three tokens, a prompt of five: answer(n, 5, 3)
of one token: answer(n, 4, 1)
of six tokens, a prompt of one: answer(n, 1, 6)
with zeros: answer(n, 3, 2) * [0, 1, 1, 0, 1]
of drawn sizes: answer(n, p, q)
## solution
def answer_map(maps):
    prompt = maps.shape[1] - len(maps)
    return maps.T[:prompt].sum(axis=1)
## slips
return np.nansum(maps, axis=0)
# The answer's own tokens are in the map: only the prompt is asked for.
sum -> mean  # This is the mean over the answer: take the sum.
return maps.sum(axis=0)
# Where later tokens are NaN the sum is NaN: take the prompt's columns first.
.sum(axis=1) -> [:, 0]  # This explains the first token of the answer alone: sum over its tokens.
.sum(axis=1) -> [:, -1]  # This explains the last token of the answer alone: sum over its tokens.
maps.T[:prompt] -> (maps[:, :prompt] / maps[:, :prompt].sum(1, keepdims=True)).T
# Each row is divided by its sum first: add the rows as they are.
[:prompt] -> [-prompt:]
# The columns at the end are taken: the prompt comes first.
axis=1 -> axis=0  # You sum over the prompt: one number for each token of the answer. Sum over the answer.
maps.T -> abs(maps.T)  # The signs are lost: no absolute values here.
return np.nansum(maps[:, len(maps):], axis=0)
# As many columns as the answer has tokens are cut off at the start: they are at the end.
maps.T[:prompt].sum -> maps.T[:prompt, 1:].sum  # The first row is left out: every token of the answer counts.
## hints
Which columns are the prompt's, and how many are they?
The first P = (number of columns) - K; there no row has NaN.
return maps[:, : maps.shape[1] - len(maps)].sum(axis=0)
""")
def answer_map(maps: Array) -> Array:
    """Entry by entry over the prompt."""
    tokens, width = maps.shape
    return np.array([math.fsum(maps[k, t] for k in range(tokens)) for t in range(width - tokens)])


@card("""shifted-logits: A shift that no output sees -> the change
One query has scores z and values v, both (n,). A constant c is added to all scores, as a change of the key
bias can do: attention, output and LOO stay. With g = 1 at the output and epsilon 0, AttnLRP's relevance
starts from R_A = A v / 2, by Eq. (3), and goes on by Eq. (5), R_z = z (R_A - A sum R_A). Return by how much
R_z changes, new minus old.
## inputs
of four tokens: n(4), n(4), 2.0
with equal values: n(5), np.full(5, 1.5), -3.0
with a negative shift: n(4), n(4), -1.5
with scores near 800: np.array([800.5, 801, 799.25, 800]), n(4), 1.0
with zeros: np.array([0.0, 1, 0]), np.array([2.0, 0, 0]), 1.5
of drawn size: n(p), n(p), 2.5
## solution
def shifted_logits(z, v, c):
    a = np.exp(z - z.max())
    a = a / a.sum()
    relevance = a * v / 2
    return c * (relevance - a * relevance.sum())
## slips
c * -> z *  # This is R_z before the shift: what is asked for is the change.
c * -> (z + c) *  # This is R_z after the shift: subtract what it was before.
c * ->  # c is missing: the change grows with the shift.
a * v / 2 -> v / 2  # A is missing in R_A = A v / 2.
v / 2 -> v  # The half of Eq. (3) is missing: a product gives half to each factor.
- a * relevance.sum() -> - relevance.mean()
# The mean over tokens is taken away: Eq. (5) takes away the sum, shared out by attention.
- a * relevance.sum() -> - relevance.sum()
# The whole sum is taken away from each token: Eq. (5) shares it out by attention.
- a * relevance.sum() ->  # The second term of Eq. (5) is missing: minus A times the sum of R_A.
return np.zeros_like(z)
# Attention, output and LOO do not change, but R_z does: z itself is a factor of it.
return c * a * (1 - a) * v / 2
# The derivative of a token's own weight alone is in your answer: the others share the attention, too.
a = a / a.sum() ->  # The attention is not divided by its sum.
return c * (relevance - a * relevance.sum()) / (1 - a)
# This is half of LOO, times c: the derivative of the softmax has no denominator 1 - A.
c * (relevance -> c * a * (relevance
# A comes in once too often: R_A holds it already, as R = g A.
- z.max() ->  # The exponential overflows for large scores: subtract the largest score first.
## hints
Which factors of R_z see the shift, and which do not?
Only z does: A is the same, so R_A is. The rest is multiplied by z + c in place of z.
return c * (a * v / 2 - a * (a * v / 2).sum())
""")
def shifted_logits(z: Array, v: Array, c: float) -> Array:
    """R_z by its two equations, after the shift and before."""

    def relevance(z: Array) -> Array:
        a = [math.exp(one - max(z)) for one in z]
        a = [one / math.fsum(a) for one in a]
        half = [one * value / 2 for one, value in zip(a, v, strict=True)]
        total = math.fsum(half)
        return np.array([x * (r - w * total) for x, r, w in zip(z, half, a, strict=True)])

    return relevance(z + c) - relevance(z)
