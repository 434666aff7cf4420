"""Theme: softmax and attention."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lrp_exercises.cards import Array, exercise

card = partial(exercise, theme="softmax and attention")


def weights(row: Array) -> Array:
    """The softmax of one row, number by number."""
    powers = [math.exp(value - max(row)) for value in row]
    return np.array([power / math.fsum(powers) for power in powers])


@card("""softmax-rule: The softmax rule -> g_z
For A = softmax(z) over the last axis: carry g from A to z by Eq. (5), g = R / activation. All shapes
(queries, keys).
## inputs
of two queries and three keys: n(2, 3), n(2, 3)
of as many queries as keys: n(4, 4), 2 * n(4, 4)
of one query: n(1, 4), n(1, 4)
with scores near 2000 in one row: n(2, 3), [[2000.0], [0]] + n(2, 3)
with zeros and equal scores: np.array([[0.0, 1, 0], [2, 0, 0]]), np.array([[0.0, 0, 0], [1, 0, 1]])
of drawn sizes: n(p, q), n(p, q)
## solution
def softmax_rule(g_a, z):
    e = np.exp(z - z.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    return a * (g_a - (a * g_a).sum(-1, keepdims=True))
## slips
- z.max(-1, keepdims=True) ->
# The exponential overflows for large scores: subtract each row's largest score first. The softmax does not
# see it.
- z.max(-1, keepdims=True) -> - z.max()
# One maximum is taken from all rows: in a row far below it every exponential is 0, and 0 / 0 is NaN. Each
# row has its own.
return a * g_a
# The second term of Eq. (5) is missing: subtract the mean of g_A under the weights A.
g_a - -> g_a +  # A sign was dropped: the mean of g_A is subtracted.
a * (g_a -> -a * (g_a  # The difference is reversed: g_A minus its mean, not the mean minus g_A.
(a * g_a).sum -> g_a.mean
# You subtract the plain mean of g_A. The mean under the weights belongs there: sum_i A_i g_A_i.
(a * g_a).sum -> g_a.sum  # You subtract the sum of g_A: its weights are missing, sum_i A_i g_A_i.
return a * -> return  # The factor A in front is missing: g_z = A (g_A - sum_i A_i g_A_i).
return a * g_a - (a * g_a).sum(-1, keepdims=True)
# The factor A is missing in front of the mean: it multiplies both terms.
g_a).sum(-1 -> g_a).sum(0
# The sum runs over the wrong axis: over the keys of one query (the last axis), not over queries.
max(-1 -> max(0
e.sum(-1 -> e.sum(0
# The softmax runs over the wrong axis: each query's weights sum to one over the keys, the last axis.
-1 -> 0  # Softmax and sum run over the wrong axis: keys are the last axis.
return np.zeros_like(z)
# Nothing reaches z: that is CP-LRP, which holds the attention constant. Eq. (5) passes relevance on.
return a * (1 - a) * g_a
# Only the diagonal of the softmax's derivative is there: every key's score moves the weights of all keys.
return g_a - a * g_a.sum(-1, keepdims=True)
# This is Eq. (5) as printed, which is for R_A: with g, R_A = A g_A has to be put in first.
return z * (g_a - a * g_a.sum(-1, keepdims=True))
# This is Eq. (5) with g written for R. Put in R_A = A g_A and R_z = z g_z: A comes in, z cancels.
e / e.sum(-1, keepdims=True) -> z
# The scores z are where the weights belong: A = softmax(z) is missing.
g_a).sum(-1, keepdims=True) -> g_a).sum()
# One sum over everything is subtracted: each query has its own, over its keys (the last axis, keepdims=True).
return -> return z *  # This is relevance, R_z = z g_z: return g_z itself.
return a -> return a / 2
# One half too many: the half belongs to the product A V, Eq. (3), not to the softmax.
max(-1, keepdims=True) -> max()
e.sum(-1, keepdims=True) -> e.sum()
# One softmax runs over all scores: each query has its own, over its keys.
## hints
Eq. (5) is written for relevance. What is left of it once R = z g at the logits and R = A g at the weights?
In the form for g the rule is the softmax's plain derivative, row by row: z itself cancels.
return A * (g_a - (A * g_a).sum(-1, keepdims=True))
""")
def softmax_rule(g_a: Array, z: Array) -> Array:
    """Eq. (5) row by row and key by key, with `R_A = A g_A` put in and `R_Z = Z g_Z` divided out."""
    out = np.zeros_like(z)
    for j, i in np.ndindex(*z.shape):
        a = weights(z[j])
        out[j, i] = a[i] * g_a[j, i] - a[i] * math.fsum(a * g_a[j])
    return out


@card("""attention-values: Attention as CP-LRP sees it -> g_v
For o = softmax(z) @ v with z (queries, keys), v (keys, width), g_o (queries, width), and the attention held
constant: return g_v, of the shape of v, epsilon 0.
## inputs
of two queries, three keys, width four: n(2, 4), n(2, 3), n(3, 4)
of as many queries as keys: n(3, 2), n(3, 3), n(3, 2)
of one query: n(1, 1), n(1, 4), n(4, 1)
with scores near 800: n(2, 3), 800 + n(2, 4), n(4, 3)
with values of 0, one row of scores near -2000: n(2, 2), [[0.0], [-2000]] + n(2, 3),
 np.array([[0.0, 1], [2, 0], [0, 0]])
of drawn sizes: n(p, s), n(p, q), n(q, s)
## solution
def attention_values(g_o, z, v):
    e = np.exp(z - z.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    return a.T @ g_o
## slips
g_o -> g_o / 2
# Halved: that is Eq. (3). With the attention held constant there is no second factor, so v receives
# everything.
-1 -> 0
# The softmax runs over the wrong axis: each query's weights sum to one over the keys, the last axis.
return v * (a.T @ g_o)  # This is relevance, v g_v: return g_v itself.
a.T @ g_o -> a @ v  # This is o, the way forward: carry g_o back to v.
a.T -> z.T  # The scores z are where the attention belongs: the softmax is missing.
g_o -> np.ones_like(g_o)  # g_o is not used: you give back the weights alone.
- z.max(-1, keepdims=True) ->
# The exponential overflows for large scores: subtract each row's largest score first.
- z.max(-1, keepdims=True) -> - z.max()
# One maximum is taken from all rows: in a row far below it every exponential is 0, and 0 / 0 is NaN. Each
# row has its own.
-1, keepdims=True ->  # One softmax runs over all scores: each query has its own, over its keys.
e = np.exp -> z = z / np.sqrt(v.shape[1]); e = np.exp
# The scores are divided by the root of the width once more: z is what enters the softmax.
## hints
If A is a constant, what kind of map is o = A v?
A linear map by the matrix A: g goes back by its transpose, and nothing is halved.
return softmax(z).T @ g_o
""")
def attention_values(g_o: Array, z: Array, v: Array) -> Array:
    """Eq. (1) for o = A v with A as weights, epsilon 0, one contribution at a time."""
    out = np.zeros_like(v)
    for j, i, p in np.ndindex(*z.shape, v.shape[1]):
        out[i, p] += weights(z[j])[i] * g_o[j, p]
    return out


@card("""attention-loo: Leave-One-Out of one query -> the LOO scores
For o = sum_i A_i v_i with A = softmax(z), both (n,), n at least 2: return o minus the output when token i is
masked and the others share the attention, for every i, shape (n,).
## inputs
of three tokens: np.array([math.log(2), 0.1, -0.3]), np.array([4.0, 2.0, -2.0])
of six tokens: n(6), n(6)
with scores near 800: 800 + n(4), n(4)
of two tokens: n(2), n(2)
with zeros and equal scores: np.array([0.0, 1, 0, 1]), np.array([0.0, 2, 3, 0])
of drawn size: n(p), n(p)
## solution
def attention_loo(z, v):
    e = np.exp(z - z.max())
    a = e / e.sum()
    return a * (v - a @ v) / (1 - a)
## slips
return a * v
# The others do not share the attention again: A_i v_i is what CP-LRP says. Divide by the weights that
# are left.
/ (1 - a) ->
# The denominator 1 - A_i is missing: A_i (v_i - o) is the derivative, LOO is the whole step.
zero = np.exp(-z.max()); return a @ v - (e @ v + (zero - e) * v) / (e.sum() + zero - e)
# You set the score to 0. A score of 0 is a weight of e^0 = 1, not an absent token: leave it out, or set it to
# -inf.
zero = np.exp(-z.max()); return a @ v - (e @ v - e * v) / (e.sum() + zero - e)
# You set score and value to 0, so the token still takes attention: leave it out, or set its score to -inf.
return a -> return -a
# The sign is reversed: LOO is the whole output minus the output without the token.
return a -> return a @ v - a
# This is the output without token i: subtract it from the whole output.
return a -> return a / 2  # One half too many: LOO is not a relevance rule, and nothing is split.
return a * (v - (v.sum() - v) / (len(v) - 1))
# The token's attention is given to the others in equal parts: they share it by their own weights.
return a @ v - (v.sum() - v) / (len(v) - 1)
# The others' values have equal weights: take the softmax of their scores.
- z.max() ->  # The exponential overflows for large scores: subtract the largest score first.
## hints
Which weights do the other tokens have once token i is masked?
They share its attention: remove token i from z and v, and take the softmax of the rest.
o - softmax(np.delete(z, i)) @ np.delete(v, i)
""")
def attention_loo(z: Array, v: Array) -> Array:
    """Leave a token out of the softmax and read again, one token at a time."""
    rest = [weights(np.delete(z, i)) @ np.delete(v, i) for i in range(len(z))]
    return weights(z) @ v - np.array(rest)


@card(
    """detached-attention: CP-LRP as a modified gradient -> the output, the gradient at z, the gradient at v
With torch: return o = softmax(z) @ v, z (queries, keys), v (keys, width), so that autograd carries back what
CP-LRP does. The check differentiates it; no gradient at z counts as zeros.
## inputs
of two queries and three keys: n(2, 3), n(3, 4)
of as many queries as keys: n(3, 3), n(3, 2)
with scores near 800 in one row: [[800.0], [0]] + n(2, 4), n(4, 3)
with zeros: np.array([[0.0, 0, 1], [0, 2, 0]]), np.array([[0.0, 1], [2, 0], [0, 0]])
of drawn sizes: n(p, q), n(q, s)
## solution
def detached_attention(z, v):
    return z.softmax(-1).detach() @ v
## slips
.detach() ->
# No detach: the gradient still runs through the softmax to z. Hold the attention constant.
return z.softmax(-1) @ v.detach()
# The wrong factor is detached: the attention is held constant, not the values.
-1 -> 0  # The softmax runs over the wrong axis: keys are the last axis.
o = z.softmax(-1).detach() @ v; return o / 2 + o.detach() / 2
# Halved: with the attention held constant v receives everything, not half.
o = z.softmax(-1) @ v; return o / 2 + o.detach() / 2
# This halves the product, Eq. (3), and keeps the softmax: AttnLRP. CP-LRP detaches the attention.
z.softmax -> (z / v.shape[-1] ** 0.5).softmax
# The scores are divided by the root of the width once more: z is what enters the softmax.
## hints
Which factor is a constant for CP-LRP?
In torch a constant is made by detach(): autograd carries nothing back through it.
return z.softmax(-1).detach() @ v
""",
    autograd=True,
)
def detached_attention(z: Any, v: Any) -> Any:
    """CP-LRP's graph: attention as numbers, so that the gradient reaches v alone."""
    return v.new_tensor([weights(row) for row in z.detach().numpy()]) @ v
