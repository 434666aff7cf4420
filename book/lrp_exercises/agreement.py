"""Theme: measuring agreement."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np

from lrp_exercises.cards import Array, Function, exercise

card = partial(exercise, theme="measuring agreement")


def correlation(a: Array, b: Array) -> float:
    """Pearson's r by its definition; NaN for a constant side."""
    a, b = a - a.mean(), b - b.mean()
    below = math.sqrt(math.fsum(a * a) * math.fsum(b * b))
    return math.fsum(a * b) / below if below > 0 else math.nan


@card("""agreement: Agreement with LOO -> r
Return Pearson's r of two maps, shape (T,), over the tokens that are not special
(special is bool, shape (T,)), as one number. At least two are left; where a map is constant r is undefined:
NaN or an error.
## inputs
of eight tokens, special ones at both ends: n(8) + 1, n(8) + 0.5, np.arange(8) % 7 == 0
of six tokens, special ones inside: n(6), n(6) + 2, np.array([0, 1, 0, 0, 1, 0], dtype=bool)
of twelve tokens, three of them special: n(12) + 1, n(12) + 0.5, np.arange(12) % 5 == 0
with a constant map: np.full(8, 2.0), n(8), np.arange(8) % 7 == 0
with equal scores: np.array([3.0, 0, 1, 1, 0, 2]), np.array([1.0, 0, 2, 2, 3, 5]), np.arange(6) % 5 == 0
of drawn size: n(p + 5), n(p + 5), np.arange(p + 5) % 3 == 0
## solution
def agreement(scores, loo, special):
    return np.corrcoef(scores[~special], loo[~special])[0, 1]
## slips
[~special] ->  # Special tokens are counted: leave them out of both maps before anything else.
~ ->  # The mask is reversed: special tokens are kept and the words are left out. Use ~special.
~special -> ~special.astype(int)
# Of whole numbers ~ makes -1 and -2, places from the end: special has to stay bool.
[~special] -> * ~special
# Special tokens are set to 0 and still counted: take them out, so that fewer tokens are left.
s, g = scores[~special], loo[~special]; return s @ g / np.sqrt((s @ s) * (g @ g))
# The means are not subtracted: this is the cosine of the maps, not their correlation.
s, g = ((x - x.mean())[~special] for x in (scores, loo)); return s @ g / np.sqrt((s @ s) * (g @ g))
# The mean is taken before the special tokens are left out: leave them out first, then centre.
s, g = (np.argsort(np.argsort(x[~special])) for x in (scores, loo)); return np.corrcoef(s, g)[0, 1]
# This is the correlation of ranks (Spearman). Pearson's r uses the scores themselves.
[0, 1] -> [0, 1] ** 2  # This is r squared: its sign is lost.
return abs(np.corrcoef(scores[~special], loo[~special])[0, 1])
# The sign of r is lost: a reversed map has a negative r.
[0, 1] ->  # This is the whole matrix of np.corrcoef. r is one entry of it: [0, 1].
corrcoef -> cov  # This is the covariance: divide by both standard deviations.
s, g = scores[~special], loo[~special]; return np.cov(s, g)[0, 1] / (s.std() * g.std())
# Two kinds of variance are mixed: the covariance divides by n - 1, the standard deviations by n.
## hints
Which tokens count, and what is Pearson's r of those that do?
First leave out the special tokens, then centre both maps, then divide by the two norms.
keep = ~special; return np.corrcoef(scores[keep], loo[keep])[0, 1]
""")
def agreement(scores: Array, loo: Array, special: Array) -> float:
    """Pearson's r over the tokens that are not special."""
    words = [k for k in range(len(scores)) if not special[k]]
    return correlation(scores[words], loo[words])


@card(
    """morf-order: Most relevant first -> the order
Return the indices of the tokens in the order in which MoRF removes them: the most relevant first, equal
scores in reading order, special tokens never; a list or an array.
## inputs
of seven tokens: n(7), np.arange(7) % 6 == 0
with equal scores: np.array([0.0, 1.0, 2.0, 2.0, 1.0, -3.0, 9.0]), np.arange(7) % 6 == 0
with a large negative score: np.array([5.0, 0.5, -4e12, 1.0, 0.2]), np.arange(5) % 4 == 0
with scores of 0 and below: np.array([-5.0, -1, 0, -2, 0, -1, 0]), np.arange(7) % 6 == 0
without special tokens, close to one another: 1 + n(5) / 1000, np.zeros(5, dtype=bool)
of 200 tokens with four scores: rng.integers(0, 4, 200).astype(float), np.arange(200) < 1
of drawn size: rng.integers(0, 4, 3 * p).astype(float), np.arange(3 * p) % p == 0
## solution
def morf_order(scores, special):
    words = np.flatnonzero(~special)
    return words[np.argsort(-scores[words], kind="stable")]
## slips
-scores -> scores  # The order is LeRF's, the least relevant first: MoRF begins with the largest score.
-scores[words] -> -abs(scores[words])
# You rank by absolute value. A large negative score speaks against the class: MoRF removes it last.
return np.argsort(-scores, kind="stable")
# Special tokens are removed, too: leave them out of the order.
return np.argsort(-scores[words], kind="stable")
# The indices count within the words: translate them to places in the whole text.
return words[np.argsort(scores[words], kind="stable")[::-1]]
# Equal scores leave in reverse order. argsort()[::-1] reverses ties: sort -scores with kind='stable'.
stable -> quicksort
# Equal scores leave in an order of the sort's own: it is not stable. Use kind='stable'.
return np.argsort(np.argsort(-scores[words], kind="stable"), kind="stable")
# These are ranks, the place of each token in the order. Return the order itself.
return np.flatnonzero(special)  # The mask is reversed: only special tokens are in your order.
return np.argsort(-scores, kind="stable")[~special]
# The mask is put on the sorted order: it belongs to the tokens in reading order. Leave them out first.
return np.argsort(-scores * ~special, kind="stable")[: len(words)]
# Special tokens get the score 0 and take places in the order: leave them out first.
(~special) -> (~special & (scores > 0))
# Words without a positive score are left out. MoRF removes them, too, after the others.
## hints
Which tokens may be removed at all, and which of two equal ones goes first?
Sort the words alone, from large to small, by a sort that leaves equal scores as they stand (a stable one),
 and translate back to places in the text.
words = np.flatnonzero(~special); return words[np.argsort(-scores[words], kind='stable')]
""",
    whole=True,
)
def morf_order(scores: Array, special: Array) -> Array:
    """Indices of the words, the largest left first; `max` takes the first of equal ones."""
    left = [k for k in range(len(scores)) if not special[k]]
    out = []
    while left:
        out.append(max(left, key=lambda k: scores[k]))
        left.remove(out[-1])
    return np.array(out)


@card("""mean-logit: The mean logit of a curve -> the mean logit
The array logits holds f_0 (the whole input) to f_K (after K removals), shape (K + 1,). Return the mean logit
1/K sum_{k=1..K} f_k.
## inputs
of four removals: np.array([3.0, 2.0, 0.5, -1.0, -1.5])
of nine removals: n(10) + 1
of one removal: np.array([2.0, 1.0])
that are all negative: -1 - rng.random(5)
with logits of 0: np.array([0.0, 2, 0, -1, 2])
of drawn size: n(p)
## solution
def mean_logit(logits):
    return logits[1:].mean()
## slips
[1:] ->
# The logit of the whole input, f_0, is in your mean: average what is recorded after each removal, f_1 to f_K.
return (logits[0] - logits).mean()
# This is AOPC, the mean drop from f_0, a different quantity with the other direction.
return (logits[0] - logits[1:]).mean()
# This is the mean drop from f_0. The mean logit does not subtract.
mean -> sum  # This is the sum: divide by K.
mean() -> sum() / len(logits)  # You divide by K + 1: f_0 is left out, so K entries are left.
mean() -> sum() / (len(logits) - 2)
# You divide by K - 1. The entries f_1 to f_K are K, one less than logits has.
1: -> :-1  # The last entry is left out in place of the first: f_0 is the whole input.
1: -> 1:-1  # Both ends are left out. Only f_0 is: the last logit, f_K, counts.
1: -> 2:  # Off by one: the logit after the first removal, f_1, is left out, too.
return ((logits[1:] + logits[:-1]) / 2).mean()
# This is the area by trapezoids, in which f_0 counts half. Here it does not count.
return logits.sum() / (len(logits) - 1)  # You divide by K, but f_0 is still in the sum: leave it out.
return logits[1:-1].sum() / (len(logits) - 1)
# The last logit, f_K, is missing in the sum: does a range end one too early?
return (1 / (1 + np.exp(-logits[1:]))).mean()  # These are probabilities: take the mean of the logits.
return np.median(logits[1:])  # This is the median: take the mean.
## hints
How many entries count?
The whole input, f_0, does not; every other entry does, the last one too.
return logits[1:].mean()
""")
def mean_logit(logits: Array) -> float:
    """`1/K sum_{k=1..K} f_k`: what is recorded after each removal, the whole input left out."""
    return math.fsum(logits[k] for k in range(1, len(logits))) / (len(logits) - 1)


@card("""sum-to-one: Maps that sum to one -> the maps
Divide every map, a row of maps (n, T), by its sum with its sign, as the paper does; shape (n, T). No sum
is 0.
## inputs
of two maps of three tokens: n(2, 3) + 1
with a negative sum: np.array([[1.0, -3.0, 1.0, 0.5], [2.0, 1.0, -1.0, 0.5]])
of one map with a small sum: np.array([[1.0, -2, 1.001]])
of as many maps as tokens: n(4, 4) - 0.7
with zeros and equal scores: np.array([[0.0, 2, 0, 2], [0, -1, 0, 0]])
of drawn sizes: n(p, q) + 1
## solution
def sum_to_one(maps):
    return maps / maps.sum(axis=1, keepdims=True)
## slips
maps.sum -> abs(maps).sum
# You divide by the sum of absolute values, so the rows do not sum to one. Divide by the sum itself.
return maps / abs(maps.sum(axis=1, keepdims=True))
# The sign of the sum is dropped: divided by a negative sum, a map is reversed. That is what sum to one does.
axis=1 -> axis=0  # The sum runs over the wrong axis: every map is a row, sum over its tokens.
axis=1, keepdims=True ->
# All maps together are divided by one sum: each row by its own (axis=1, keepdims=True).
maps -> np.exp(maps)  # This is a softmax: it makes every score positive. Divide by the sum.
return maps / np.linalg.norm(maps, axis=1, keepdims=True)
# You divide by the Euclidean norm: divide by the sum.
maps.sum -> abs(maps).max  # You divide by the largest score: divide by the sum.
maps -> abs(maps)  # The signs of the scores are lost: no absolute values here.
sum -> mean  # You divide by the mean: the rows sum to T in place of one.
maps -> (maps - maps.min(axis=1, keepdims=True))
# The smallest score is subtracted first: divide the scores as they are.
## hints
What is a map divided by, if its sum is negative?
By that sum itself, sign included, each row by its own.
return maps / maps.sum(axis=1, keepdims=True)
""")
def sum_to_one(maps: Array) -> Array:
    """Row by row, divided by the row's sum with its sign."""
    return np.array([[value / math.fsum(row) for value in row] for row in maps])


@card("""overrated-words: Which words a method overrates -> the differences
Each entry of words and texts (whole numbers, shape (T,)) says which word stands there, and in which text;
scores and loo are its scores by a method and by LOO, scaled alike. Return for each word, in the order of
their numbers, by how much the method overrates it: the mean of score minus LOO, where the occurrences of a
word in one text are averaged first, and each text with the word then counts once.
## inputs
of three words in three texts: np.array([0, 1, 0, 0, 2, 1, 2, 0, 1]), np.arange(9) // 3, n(9), n(9) + 0.5
of a word in one text only: np.array([2, 0, 0, 1, 0, 1]), np.array([0, 0, 0, 1, 1, 2]), n(6), n(6) + 1
with numbers that leave gaps: np.array([5, 1, 5, 5, 1, 9]), np.array([7, 7, 7, 3, 9, 3]), n(6), n(6) - 1
of texts that are mixed: np.arange(24) % 4, np.arange(24) % 3 // 2 + 1, n(24), n(24) + 0.3
of drawn size: np.arange(6 * p) % 4, np.arange(6 * p) // 6, n(6 * p), n(6 * p) + 1
## solution
def overrated_words(words, texts, scores, loo):
    gaps, out = scores - loo, []
    for word in np.unique(words):
        here = words == word
        each = [gaps[here & (texts == text)].mean() for text in np.unique(texts[here])]
        out.append(np.mean(each))
    return np.array(out)
## slips
np.mean(each) -> gaps[here].mean()
# A word that occurs twice in a text counts twice: average its occurrences in each text first.
scores - loo -> loo - scores  # The sign is reversed: overrated is score minus LOO.
scores - loo -> scores  # LOO is not subtracted: this is the mean score alone.
scores - loo -> loo  # This is LOO's mean alone: subtract it from the score.
scores - loo -> abs(scores - loo)
# The sign of each difference is lost: an underrated word would count as overrated.
scores - loo -> abs(scores) - abs(loo)
# You compare sizes: a score for the class in place of one against it is a difference, too.
scores - loo -> scores / loo  # This is a quotient: subtract LOO.
np.mean(each) -> np.sum(each)  # This is the sum over the texts: divide by how many have the word.
np.mean(each) -> np.sum(each) / len(np.unique(texts))
# You divide by the number of all texts: only those with the word count.
.mean() for -> .sum() for  # The occurrences in one text are added: take their mean.
.mean() for -> [0] for  # Only the first occurrence in each text counts in your mean: average all of them.
.mean() for -> .max() for  # Only the largest occurrence in each text counts: average all of them.
np.mean(each) -> np.median(each)  # This is the median over the texts: take the mean.
gaps[here & (texts == text)] -> gaps[texts == text]
# All words of a text are in your mean: only the places of this word count.
return np.sort(out)[::-1]  # You sorted the words by their differences: keep the order of their numbers.
## hints
What is the unit that counts once: a place, a word, or a text with the word?
For each word, and each text that has it, the mean of score minus LOO at its places; then the mean over texts.
each = [gaps[here & (texts == text)].mean() for text in np.unique(texts[here])]
""")
def overrated_words(words: Array, texts: Array, scores: Array, loo: Array) -> Array:
    """Word by word, place by place: sums in each text, divided there, then over the texts."""
    out = []
    for word in sorted(set(words.tolist())):
        gaps: dict[int, list[float]] = {}
        for k in range(len(words)):
            if words[k] == word:
                gaps.setdefault(int(texts[k]), []).append(scores[k] - loo[k])
        out.append(math.fsum(math.fsum(of) / len(of) for of in gaps.values()) / len(gaps))
    return np.array(out)


def three(n: Function, count: int) -> tuple[Array, ...]:
    """Scores, LOO and another training's LOO, which have something in common."""
    both = n(count)
    return tuple(both + n(count) + shift for shift in (0.0, 0.5, 2.0))


@card("""partial-agreement: What a map shares with LOO beyond another training -> the partial r
Return Pearson's partial correlation of scores and loo given other, the LOO of another training of the same
model; all have shape (T,), special tokens are left out already. One number; no two maps have
r = 1, -1 or NaN.
## inputs
of eight tokens: *(forty := three(n, 40), three(n, 8))[1]
of thirty tokens: *three(n, 30)
of forty tokens, scores of the other sign: -forty[0], *forty[1:]
with equal scores: np.array([0.0, 0, 1, 1, 2, 2]), np.array([0.0, 1, 1, 0, 3, 3]),
 np.array([1.0, 0, 0, 2, 2, 1])
of drawn size: *three(n, p + 5)
## solution
def partial_agreement(scores, loo, other):
    ab = np.corrcoef(scores, loo)[0, 1]
    ac = np.corrcoef(scores, other)[0, 1]
    bc = np.corrcoef(loo, other)[0, 1]
    return (ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))
## slips
return ab  # This is r with this model's LOO. What another training would give is still in it.
return ac  # This is r with the other training's LOO: it is what has to be taken out.
return ab - ac
# This is a difference of two r. The partial r takes `other` out of both maps instead.
return ab - ac * bc  # The denominator is missing: divide by the root of (1 - r_ac^2) (1 - r_bc^2).
np.sqrt ->  # The root in the denominator is missing.
ab - ac -> ab + ac  # A sign was dropped: r_ac r_bc is subtracted.
return (ab - ac * bc) / np.sqrt((1 - abs(ac)) * (1 - abs(bc)))
# The r in the denominator are not squared: 1 - r^2 is what the other does not explain.
return (ac - ab * bc) / np.sqrt((1 - ab**2) * (1 - bc**2))
# The roles are mixed: this is the partial r of scores and other, given this model's LOO.
return (bc - ab * ac) / np.sqrt((1 - ab**2) * (1 - ac**2))
# The roles are mixed: this is the partial r of the two LOO, given the scores.
* (1 - bc**2) ->
# `other` is taken out of the scores alone (a semi-partial r): take it out of loo, too.
(1 - ac**2) * ->
# `other` is taken out of loo alone (a semi-partial r): take it out of the scores, too.
s, g = (x - other * (x @ other) / (other @ other) for x in (scores, loo)); return np.corrcoef(s, g)[0, 1]
# The least squares have no constant: centre the maps first, or add a column of ones.
**2 ->  # The r in the denominator are not squared: 1 - r_ac^2 and 1 - r_bc^2 belong there.
np.sqrt((1 - ac**2) * (1 - bc**2)) -> (1 - ac**2)
# This is a coefficient of the regression of loo on both: divide by the root of both 1 - r^2.
return np.corrcoef(scores - other, loo - other)[0, 1]
# `other` is subtracted as it is: subtract what it predicts of each map, by least squares.
## hints
What is left of both maps, once all that `other` predicts of them is taken out?
Either correlate the two remainders after least squares on other (with a constant), or use the three r: r_ab
 minus r_ac r_bc, over the root of (1 - r_ac^2) (1 - r_bc^2).
(ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))
""")
def partial_agreement(scores: Array, loo: Array, other: Array) -> float:
    """r of the two remainders after least squares on the other training's LOO and a constant."""
    known = np.stack([other, np.ones_like(other)], 1)
    rest = [x - known @ np.linalg.lstsq(known, x, rcond=None)[0] for x in (scores, loo)]
    return correlation(*rest)


@card("""mean-pair-r: How well trainings agree with one another -> the mean r
The array maps (S, T) holds the LOO map of each of S trainings for one text. Return the mean of Pearson's r
over all pairs of two different trainings, as one number; no map is constant.
## inputs
of three trainings, eight tokens: n(8) + n(3, 8) + n(3, 1)
of as many trainings as tokens: n(4) + n(4, 4) + n(4, 1)
of five trainings, some of another sign: (n(6) + n(5, 6) + n(5, 1)) * [[1.0], [1], [-1], [1], [1]]
with two equal maps: n(3, 6)[[0, 1, 2, 1]]
of two opposed trainings: n(6) * [[1.0], [-1]] + 0.1 * n(2, 6)
of drawn sizes: n(p, q + 3)
## solution
def mean_pair_r(maps):
    above = np.triu_indices(len(maps), 1)
    return np.corrcoef(maps)[above].mean()
## slips
[above] ->
# Each training is paired with itself, too: these r are 1 and raise the mean. Leave the diagonal out.
(len(maps), 1) -> (len(maps))
# The upper triangle has the diagonal in it, where r is 1: start above it, with k = 1.
maps -> maps.T  # The correlations are those of tokens: a training is a row, correlate rows.
[above] -> .diagonal(1)  # Only neighbouring rows are paired: every training goes with every other.
[above].mean() -> [-2, -1]  # This is r of the last pair alone: take the mean over all pairs.
[above] -> [0, 1:]  # Only pairs with the first training are in your mean: take all pairs.
return np.mean([np.corrcoef(row, maps.mean(0))[0, 1] for row in maps])
# This is r with the mean map, of which each training is a part. Pair trainings instead.
mean -> sum  # This is the sum over the pairs: divide by their number.
mean() -> sum() / len(maps)
# You divide by the number of trainings: there are S (S - 1) / 2 pairs.
mean() -> sum() / len(maps) ** 2
# You divide by S squared: there are S (S - 1) / 2 pairs of different trainings.
return abs(np.corrcoef(maps)[above]).mean()  # The signs of r are lost: no absolute values here.
return (np.corrcoef(maps)[above] ** 2).mean()  # These are squares of r: their signs are lost.
mean -> max  # This is the largest r of a pair: take the mean.
return np.mean([np.corrcoef(row, maps.sum(0) - row)[0, 1] for row in maps])
# This is r with the mean of the other maps: pair trainings, one with one.
return np.tanh(np.arctanh(np.corrcoef(maps)[above]).mean())
# You average Fisher's z of the r: take the mean of the r themselves.
## hints
How many pairs of two different trainings are there?
There are S (S - 1) / 2: the entries above the diagonal of the matrix of correlations.
np.corrcoef(maps)[np.triu_indices(len(maps), 1)].mean()
""")
def mean_pair_r(maps: Array) -> float:
    """The mean r over pairs of two different trainings, computed one by one."""
    pairs = [correlation(a, b) for a, b in itertools.combinations(maps, 2)]
    return math.fsum(pairs) / len(pairs)
