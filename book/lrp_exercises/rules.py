"""Theme: rules and conservation. Slow forms on relevance itself where the paper has them so."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lrp_exercises.cards import Array, Function, Pair, exercise

card = partial(exercise, theme="rules and conservation")


def linear(n: Function, inside: int, outside: int, bias: float = 1.0) -> tuple[Any, ...]:
    """Relevance, input, weight and bias of a linear map."""
    x, weight = n(inside), n(outside, inside)
    return n(outside), x, weight, bias * n(outside)


@card("""epsilon-rule: The epsilon rule of a linear map -> the relevance
For z = weight @ x + bias, weight (out, in), relevance (out,) at z: return the relevance of x by Eq. (1),
shape (in,). The bias is one more contribution and keeps its share; epsilon takes the sign of z, plus at 0.
No z is 0 if epsilon is.
## inputs
without bias, epsilon 0: *linear(n, 4, 3, 0.0), 0.0
with a bias, epsilon 0: *linear(n, 3, 5), 0.0
with a bias, epsilon 0.3: *linear(n, 6, 4), 0.3
with as many outputs as inputs, epsilon 0.1: *linear(n, 4, 4), 0.1
with an output of 0, epsilon 0.5: n(2), np.array([1.0, 2]), np.eye(2), np.array([-1.0, 2]), 0.5
with zeros among inputs, weights and relevance, epsilon 0.1: np.array([0.0, 1.5]), np.array([0.0, 1, 2]),
 np.array([[1.0, 0, 2], [0, -1, 0]]), np.array([0.0, 0.5]), 0.1
of drawn sizes, epsilon 0.2: *linear(n, p, q), 0.2
## solution
def epsilon_rule(relevance, x, weight, bias, eps):
    z = weight @ x + bias
    return x * (weight.T @ (relevance / (z + eps * np.where(z < 0, -1, 1))))
## slips
np.where(z < 0, -1, 1) -> np.sign(z)
# np.sign(0) is 0, so where z is 0 nothing stabilises the division: let 0 count as positive.
eps * np.where(z < 0, -1, 1) -> eps
# The stabiliser has no sign: with eps added to a negative z the division can blow up. Add eps * sign(z).
+ bias ->
# The bias is missing in the denominator: z is the whole output, the bias is one of its contributions.
return ((x[:, None] * weight.T + bias / len(x)) / (z + eps * np.where(z < 0, -1, 1)) * relevance).sum(1)
# You share the bias out among the inputs. Here it keeps its share, which reaches no input.
+ eps * np.where(z < 0, -1, 1) ->  # Epsilon is not used: the denominator is z + eps * sign(z).
z + eps * np.where(z < 0, -1, 1) -> abs(z) + eps
# The denominator is |z| + eps, so the sign of z is lost: use z + eps * sign(z).
z + eps -> z - eps
# The stabiliser has the wrong sign: it moves z away from zero, z + eps * sign(z), not towards it.
weight @ x + bias -> x * weight.sum(0)
return x * (weight.T @ relevance) / (z + eps * np.where(z < 0, -1, 1))
# The sum in the denominator runs over the wrong axis: for each output j, sum over the inputs.
return x * -> return  # This is g = R / x: the factor x_i is missing at the end.
z + eps -> 2 * z + eps
# One half too many: the 2 z of Eq. (3) is for products of two activations. In Eq. (1) weights get no share.
z < 0 -> z <= 0  # Where z is 0 epsilon counts as negative: its sign is plus there.
z + eps * np.where(z < 0, -1, 1) -> 1 + eps / np.where(z == 0, 1e-300, abs(z))
# This is x times g carried back, with R taken for g: R is shared out by x_i W_ji / z_j.
c = np.maximum(weight * x, 0); z = c.sum(1) + np.maximum(bias, 0) + eps; return (c.T * relevance / z).sum(1)
# Only positive contributions count for you (the z+ rule). In Eq. (1) all do, each with its sign.
## hints
Input i contributes x_i W_ji to output j. What fraction of z_j is that?
Eq. (1) gives R_i as a sum over j of that fraction times R_j. The bias is in z_j, and epsilon takes the sign
 of z_j.
x * (weight.T @ (relevance / (z + eps * np.where(z < 0, -1, 1))))
""")
def epsilon_rule(relevance: Array, x: Array, weight: Array, bias: Array, eps: float) -> Array:
    """Eq. (1), contribution by contribution: `z_ij = x_i W_ji`. The bias is one more and keeps its share."""
    out = np.zeros_like(x)
    for j in range(len(relevance)):
        total = sum(x[i] * weight[j, i] for i in range(len(x))) + bias[j]
        for i in range(len(x)):
            out[i] += x[i] * weight[j, i] / stable(total, eps) * relevance[j]
    return out


def stable(z: Any, eps: float) -> Any:
    """z with epsilon of its sign; +1 at 0, so that a stabiliser never vanishes."""
    return z + eps * np.where(z < 0, -1.0, 1.0)


@card("""residual-rule: A residual sum -> R_x, R_branch
For z = x + branch with relevance at z, all of one shape: return (R_x, R_branch) by Eq. (1) with unit weights;
epsilon takes the sign of z, plus at 0. No z is 0 if epsilon is.
## inputs
with epsilon 0: n(3, 4), n(3, 4), n(3, 4), 0.0
with epsilon 0.2: n(2, 5), n(2, 5), n(2, 5), 0.2
that cancel, epsilon 0.1: np.array([1.0, 2.0]), np.array([3.0, 1.0]), np.array([-3.05, -0.95]), 0.1
of which one cancels, epsilon 0.1: n(2), np.array([1.0, 2.0]), np.array([-1.0, 1.0]), 0.1
with summands of 0, epsilon 0.1: n(3), np.array([0.0, 2, 0]), np.array([1.0, 0, 0]), 0.1
of drawn sizes, epsilon 0.3: n(p, q), n(p, q), n(p, q), 0.3
## solution
def residual_rule(relevance, x, branch, eps):
    z = x + branch
    part = relevance / (z + eps * np.where(z < 0, -1, 1))
    return x * part, branch * part
## slips
np.where(z < 0, -1, 1) -> np.sign(z)
# np.sign(0) is 0, so where z is 0 nothing stabilises the division: let 0 count as positive.
eps * np.where(z < 0, -1, 1) -> eps
# The stabiliser has no sign: with eps added to a negative z the division can blow up. Add eps * sign(z).
return relevance / 2, relevance / 2
# You halve. Halves are for products, Eq. (3); a sum shares by contribution, x / z and branch / z.
return 0 * relevance, relevance
# You forgot the residual path: everything goes through the branch, and x gets nothing.
return relevance, relevance
# Both summands get all of it. That is right for g, not for relevance, which is shared by contribution.
+ eps * np.where(z < 0, -1, 1) ->  # Epsilon is not used: the denominator is z + eps * sign(z).
z + eps * np.where(z < 0, -1, 1) -> abs(x) + abs(branch) + eps
# You divide by |x| + |branch|: the sum itself, with its sign, belongs there.
branch * part -> relevance
# The branch gets all of the relevance and x also gets its share: together that is too much.
z < 0 -> z <= 0  # Where z is 0 epsilon counts as negative: its sign is plus there.
return z * part, z * part
# Both summands get all that epsilon leaves. That is right for g; relevance is shared by contribution.
return part, part  # This is R / z, which is g: relevance is g times x, and g times the branch.
## hints
Which weights does a sum have as a linear map?
With unit weights each summand's fraction of z is x / z, and epsilon damps both alike.
scale = relevance / (z + eps * np.where(z < 0, -1, 1)); return x * scale, branch * scale
""")
def residual_rule(relevance: Array, x: Array, branch: Array, eps: float) -> Pair:
    """Eq. (1) with unit weights for `z = x + branch`, summand by summand."""
    z = stable(x + branch, eps)
    return x / z * relevance, branch / z * relevance


@card("""layer-norm-rule: LayerNorm with a constant standard deviation -> g_x
For y = gamma (x - mean) / sd + beta, with sd = sqrt(variance + small) held constant and epsilon 0: carry g
from y to x. g_y and x are (T, n), gamma is (n,); mean and variance run over the last axis, the variance
divides by n, the mean is not held constant; returns (T, n).
## inputs
of two tokens, three wide: n(2, 3), 2 * n(2, 3) + 1, n(3) + 1, 1e-12
of as many tokens as it is wide: n(4, 4), 2 * n(4, 4) + 1, n(4) + 1, 1e-5
of one token, with a large constant inside the root: n(1, 5), 2 * n(1, 5) + 1, n(5) + 1, 0.5
with zeros and a constant row: n(2, 3), np.array([[0.0, 1, 0], [2, 2, 2]]), np.array([1.0, 0, 2]), 0.1
of drawn sizes: n(p, q), n(p, q), n(q), 1e-5
## solution
def layer_norm_rule(g_y, x, gamma, small):
    h = gamma * g_y / np.sqrt(x.var(-1, keepdims=True) + small)
    return h - h.mean(-1, keepdims=True)
## slips
h = -> c = x - x.mean(-1, keepdims=True); v = (c * c).mean(-1, keepdims=True) + small; h =
return h - h.mean(-1, keepdims=True) - c * (h * c).mean(-1, keepdims=True) / v
# This is the full derivative: sd is differentiated, too. The rule holds it constant (detach it).
return h
# The mean is not taken back: x minus its mean is linear in x, so h - mean(h) comes back.
h.mean(-1 -> h.mean(0
# The mean on the way back runs over the wrong axis: over the entries of one token, not over tokens.
x.var(-1 -> x.var(0
# Mean and variance of x run over the wrong axis: LayerNorm takes them over the entries of one token.
gamma * ->  # The weight gamma is missing.
gamma * ->
return gamma * (h - h.mean(-1, keepdims=True))
# Gamma comes too late: in the backward pass it comes first, before the mean.
np.sqrt ->  # You divide by the variance: take its square root.
x.var(-1 -> x.var(-1, ddof=1  # The variance divides by n - 1. LayerNorm divides by n (torch: unbiased=False).
+ small ->  # The small constant inside the root is missing.
h - h.mean -> h + h.mean  # A sign was dropped: the mean is subtracted, h - mean(h).
x.var(-1, keepdims=True) -> (x**2).mean(-1, keepdims=True)
# You divide by the root of the mean square, as RMSNorm does: take the mean from x first.
np.sqrt(x.var(-1, keepdims=True) + small) -> (np.sqrt(x.var(-1, keepdims=True)) + small)
# The small constant is added to the root: it belongs inside.
x.var(-1 -> x.var(0
h.mean(-1 -> h.mean(0
# Both means run over the wrong axis: over the entries of one token, not over tokens.
## hints
With sd a constant, y is linear in x. What is its matrix?
The matrix is diag(gamma / sd) (I - 1 1^T / n), and g goes back by its transpose: scale first, then subtract
 the mean.
h = gamma * g_y / sd; return h - h.mean(-1, keepdims=True)
""")
def layer_norm_rule(g_y: Array, x: Array, gamma: Array, small: float) -> Array:
    "Row by row through the matrix of LayerNorm with sd held constant: `diag(gamma / sd) (I - 1 1^T / n)`."
    out = np.zeros_like(x)
    n = x.shape[1]
    for t, row in enumerate(x):
        sd = np.sqrt(sum((value - row.mean()) ** 2 for value in row) / n + small)
        out[t] = (np.diag(gamma / sd) @ (np.eye(n) - np.ones((n, n)) / n)).T @ g_y[t]
    return out


@card("""matmul-rule: A product of two activations -> g_a, g_v
For o = a @ v with a (n, k), v (k, m) and g_o (n, m): carry g to both factors by Eq. (3), g = R / activation:
(g_a, g_v), of the shapes of a and v. Where an activation is 0, take the limit; no o is 0 if epsilon is.
## inputs
of three different sizes, epsilon 0: n(2, 4), n(2, 3), n(3, 4), 0.0
of three different sizes, epsilon 0.3: n(4, 3), n(4, 2), n(2, 3), 0.3
that are square, epsilon 0.1: n(3, 3), n(3, 3), n(3, 3), 0.1
with activations of 0, epsilon 0: n(2, 2), np.array([[0.0, 2, 1], [1, 0, -3]]),
 np.array([[1.0, 0], [0, 2], [1, 1]]), 0.0
with outputs of 0, epsilon 0.3: n(2, 2), np.array([[0.0, 0], [1, 2]]), np.array([[2.0, 1], [-1, 1]]), 0.3
of drawn sizes, epsilon 0.2: n(p, s), n(p, q), n(q, s), 0.2
## solution
def matmul_rule(g_o, a, v, eps):
    o = a @ v
    g = np.abs(o) / (np.abs(o) + eps / 2) * g_o
    return g @ v.T / 2, a.T @ g / 2
## slips
return g @ v.T, a.T @ g  # A half is missing: each of the two factors receives half, Eq. (3).
eps / 2 -> eps  # The stabiliser is too strong: Eq. (3) adds eps to 2 o, so in s it is eps / 2.
eps / 2 -> eps
return g @ v.T, a.T @ g
# A half is missing: each factor receives half. With it eps is added to 2 o, so in s it is eps / 2.
np.abs(o) / (np.abs(o) + eps / 2) * g_o -> g_o
# Epsilon is not used: s = |o| / (|o| + eps / 2) multiplies g_o.
np.abs(o) / (np.abs(o) + eps / 2) * g_o -> g_o
return g @ v.T, a.T @ g
# This is the plain gradient. A half is missing for each factor, and the stabiliser.
np.abs(o) -> o
# The stabiliser has no sign: with eps added to a negative o the division can blow up. Add eps * sign(o).
return g @ v.T / 2, a.T @ g  # The half is missing at v: only a was halved.
return g @ v.T, a.T @ g / 2  # The half is missing at a: only v was halved.
eps / 2 -> eps
return 0 * g @ v.T, a.T @ g
# This is CP-LRP's rule: a held constant, v receiving all. Eq. (3) gives each factor half.
return a * (g @ v.T) / 2, v * (a.T @ g) / 2  # This is relevance, a * g_a and v * g_v: return g itself.
return v @ g.T / 2, g.T @ a / 2  # Both results are transposed: g has the shape of its activation.
np.abs(o) / (np.abs(o) + eps / 2) * g_o -> g_o / (o + eps / 2 * np.where(o < 0, -1, 1))
# g is taken for R: as R = g o, a factor o is missing before the division.
return g @ v.T / 2, a.T @ (np.abs(o) / (np.abs(o) + eps) * g_o)
# Only the way to a is halved: by Eq. (3) v gets half, too, and eps is added to 2 o there.
np.abs(o) / (np.abs(o) + eps / 2) -> o / (np.abs(a) @ np.abs(v) + eps / 2)
# You divide by the sum of absolute contributions: the output itself belongs there.
## hints
What are the two gradients of o = a @ v, and what does Eq. (3) change about them?
Each factor gets half of its gradient, after g_o was damped by s = |o| / (|o| + eps / 2).
s * g_o @ v.T / 2, a.T @ (s * g_o) / 2
""")
def matmul_rule(g_o: Array, a: Array, v: Array, eps: float) -> Pair:
    """Eq. (3a) and (3b), entry by entry; the activation is divided out, so R becomes g."""
    o, g_a, g_v = a @ v, np.zeros_like(a), np.zeros_like(v)
    for (j, p), value in np.ndenumerate(o):
        damped = value / stable(2 * value, eps) * g_o[j, p]
        for i in range(a.shape[1]):
            g_a[j, i] += v[i, p] * damped
            g_v[i, p] += a[j, i] * damped
    return g_a, g_v


@card("""rms-norm-rule: RMSNorm with a constant root -> g_x
For y = gamma x / root, with root = sqrt(mean of x squared + small) held constant and epsilon 0: carry g from
y to x. g_y and x are (T, n), gamma is (n,), the mean runs over the last axis; returns (T, n).
## inputs
of two tokens, three wide: n(2, 3), 2 * n(2, 3) + 1, n(3) + 1, 1e-6
of as many tokens as it is wide: n(4, 4), 2 * n(4, 4) + 1, n(4) + 1, 1e-5
of one token, with a large constant inside the root: n(1, 5), 2 * n(1, 5) + 1, n(5) + 1, 0.5
with zeros and a row of zeros: n(2, 3), np.array([[0.0, 1, 2], [0, 0, 0]]), np.array([1.0, 0, 2]), 0.1
of drawn sizes: n(p, q), n(p, q), n(q), 1e-5
## solution
def rms_norm_rule(g_y, x, gamma, small):
    root = np.sqrt((x**2).mean(-1, keepdims=True) + small)
    return gamma * g_y / root
## slips
h = gamma * g_y / root; return h - h.mean(-1, keepdims=True)
# The mean is subtracted, as for LayerNorm. RMSNorm subtracts no mean, so none comes back.
h = gamma * g_y / root; return h - x * (h * x).mean(-1, keepdims=True) / root**2
# This is the full derivative: the root is differentiated, too. The rule holds it constant.
(x**2).mean -> x.var
# You divide by the standard deviation. The root is that of the mean square: the mean is not subtracted
# from x.
gamma * ->  # The weight gamma is missing.
np.sqrt ->  # You divide by the mean square: take its square root.
mean -> sum  # You divide by the norm, the root of the sum of squares: take their mean, over n.
mean(-1, keepdims=True) + small -> sum(-1, keepdims=True)
# You divide by the norm of x. The root is that of the mean square, with `small` inside.
-1 -> 0
# The mean square runs over the wrong axis: over the entries of one token, not over tokens.
+ small ->  # The small constant inside the root is missing.
+ small) -> ) + small  # The small constant is added to the root: it belongs inside.
/ root -> * root  # You multiply by the root: forward divides by it, and so does the way back.
return -> return x *  # This is relevance, x * g_x: return g itself.
## hints
With the root a constant, which matrix takes x to y?
The matrix is diagonal, so every entry of g goes back alone, by gamma over the root.
gamma * g_y / np.sqrt((x**2).mean(-1, keepdims=True) + small)
""")
def rms_norm_rule(g_y: Array, x: Array, gamma: Array, small: float) -> Array:
    """Entry by entry: with the root a constant, y_i = (gamma_i / root) x_i is a diagonal linear map."""
    out = np.zeros_like(x)
    for t, i in np.ndindex(*x.shape):
        root = math.sqrt(math.fsum(value * value for value in x[t]) / x.shape[1] + small)
        out[t, i] = gamma[i] / root * g_y[t, i]
    return out


def gates(n: Function, *shape: int) -> tuple[Array, ...]:
    """g, z and u, of which no entry is near 0."""
    z, u = n(*shape), n(*shape)
    return n(*shape), z + 0.1 * np.sign(z), u + 0.1 * np.sign(u)


@card("""gated-rule: A gated MLP -> g_z, g_u
For y = silu(z) * u, entry by entry, silu(z) = z / (1 + exp(-z)): carry g to both inputs, (g_z, g_u), by the
uniform rule of products, Eq. (3) with epsilon 0, and the identity rule for silu, which hands R on unchanged.
All shapes equal; where an activation is 0, take the limit.
## inputs
of one token, four wide: *gates(n, 1, 4)
of three tokens, two wide: *gates(n, 3, 2)
with large gates: n(1, 3), np.array([[-6.0, 3.0, 800.0]]), np.array([[1.0, -2.0, 1.0]])
with activations of 0: n(2, 2), np.array([[0.0, 1], [2, 0]]), np.array([[1.0, 0], [3, 0]])
of drawn sizes: *gates(n, p, q)
## solution
def gated_rule(g_y, z, u):
    sigma = 1 / (1 + np.exp(-z))
    return sigma * u * g_y / 2, z * sigma * g_y / 2
## slips
g_y / 2 -> g_y  # A half is missing: silu(z) and u are two activations, and each receives half.
return sigma * (1 + z * (1 - sigma)) * u * g_y, z * sigma * g_y
# This is the plain gradient. Each factor receives half, and silu has the identity rule.
sigma * u -> sigma * (1 + z * (1 - sigma)) * u
# At silu you took the derivative. The identity rule passes relevance on as it is, so g is multiplied by
# silu(z) / z.
sigma * u -> u  # g_z is that of silu(z): the identity rule still multiplies g by silu(z) / z.
return 0 * g_y, z * sigma * g_y
# The gate is held constant and u receives all. The uniform rule gives each half.
return sigma * u * g_y * 3 / 4, z * sigma * g_y / 4
# These are the shares of z (sigma(z) u), grouped from the right. Here the product is silu(z) times u: half
# and half.
return sigma * u * g_y * 2 / 3, z * sigma * g_y / 3
# These are thirds of z sigma(z) u. Here the product has two factors, silu(z) and u.
z * sigma -> sigma  # u is multiplied by silu(z) = z sigma(z), not by sigma(z) alone.
z * sigma -> z  # u is multiplied by silu(z), not by z: the activation is missing in g_u.
sigma * u -> z * sigma * u
# A factor z too many in g_z: the identity rule has silu(z) / z, which is sigma(z).
return z * sigma * u * g_y / 2, u * z * sigma * g_y / 2
# This is relevance, z * g_z and u * g_u: return g itself.
1 / (1 + np.exp(-z)) -> np.exp(z) / (1 + np.exp(z))
# The exponential overflows for a large z: write sigma with exp(-z).
1 / (1 + np.exp(-z)) -> (z > 0)  # This is the rule of a ReLU: silu(z) is z sigma(z).
## hints
How many activations does the product have, and what does silu do to relevance?
Eq. (3) gives half to silu(z) and half to u; the identity rule gives silu's relevance to z, so g changes by
 silu(z) / z.
sigma * u * g_y / 2, z * sigma * g_y / 2
""")
def gated_rule(g_y: Array, z: Array, u: Array) -> Pair:
    """Entry by entry: half to each factor; R_z = R_silu by the identity rule, so g changes by silu(z) / z."""
    gate = np.array([[value / (1 + math.exp(-value)) for value in row] for row in z])
    slope = np.full(z.shape, 0.5)  # the limit at z = 0
    np.divide(gate, z, out=slope, where=z != 0)
    return slope * u * g_y / 2, gate * g_y / 2


@card("""shifted-words: Relevance at the words after a shift -> the relevance
A vector c (E,) is added to every word embedding and subtracted from every position embedding, so the function
stays the same. word is (T, E), g (T, E) is g at the sum of the embeddings, which does not change. Return the
relevance at the words alone, without the positions, after the shift, shape (T,).
## inputs
of five tokens, three wide: n(5, 3), n(5, 3), n(3)
of as many tokens as they are wide: n(4, 4), n(4, 4), n(4)
of one token, six wide: n(1, 6), n(1, 6), n(6)
with zeros: np.array([[0.0, 1], [2, 0], [0, 0]]), n(3, 2), np.array([1.0, 0])
of drawn sizes: n(p, q), n(p, q), n(q)
## solution
def shifted_words(word, g, c):
    return ((word + c) * g).sum(-1)
## slips
word + c -> word  # This is the relevance before the shift: the word embedding has c more now.
+ -> -  # The shift has the wrong sign: c is added to the words and subtracted from the positions.
word + c -> c  # This is the change alone: the relevance before it is missing.
-1 ->  # Everything is summed: a relevance per token is asked for, so sum over dimensions alone.
-1 -> 0  # The sum runs over the wrong axis: over the dimensions of a token, not over tokens.
.sum(-1) ->  # These are relevances per dimension: sum them over each token's dimensions.
return (word * g).sum(-1) + c.sum()  # c moves the relevance by its product with g, not by its sum.
return (word * g).sum(-1) + (c * g).sum(-1).mean()
# The mean change is added to every token. Each has its own g and moves by its own c . g.
return (word + c) @ g.T  # Every word is multiplied with the g of all tokens: each has its own, row by row.
sum -> mean  # This is the mean over dimensions: relevance of a token is their sum.
word + c -> word + c / len(word)  # The shift is shared out among the tokens: every word gets all of c.
## hints
Relevance is embedding times g. Which of the two does the shift change?
The embedding of every word has c more; g is as before; the dimensions of a token are summed.
((word + c) * g).sum(-1)
""")
def shifted_words(word: Array, g: Array, c: Array) -> Array:
    """Token by token: every word embedding has c more, g of the sum is as before."""
    rows = zip(word, g, strict=True)
    return np.array([math.fsum((w + s) * h for w, s, h in zip(row, c, of, strict=True)) for row, of in rows])


@card("""least-shift: The smallest shift that removes a word's relevance -> c
A word has the relevance R (a number), and g (E,) is g at its embedding, not 0 everywhere. Return the c of
smallest Euclidean norm, shape (E,), that brings this word's relevance to 0 if it is added to the word
embeddings.
## inputs
of three dimensions: 1.5, np.array([2.0, -1.0, 0.5])
of eight dimensions, negative relevance: -0.7, n(8)
of five dimensions, g of small norm: 0.4, 0.001 * n(5)
with zeros in g: 0.8, np.array([0.0, 2, 0, -1])
of drawn size: *n(1), n(p)
## solution
def least_shift(relevance, g):
    return -relevance * g / (g @ g)
## slips
-relevance -> relevance  # The sign is reversed: this c doubles the relevance. c . g must be -R.
-relevance -> -1  # R does not enter: c . g has to be -R, here it is -1.
(g @ g) -> np.sqrt(g @ g)  # You divide by the norm of g: by its square, so that c . g is -R.
/ (g @ g) ->  # c . g is -R times the squared norm of g here: divide by that.
return -relevance / (len(g) * g)
# This c does take R to 0, but it is not the smallest: where g is small it is large.
return np.where(abs(g) == abs(g).max(), -relevance / g, 0)
# This c does take R to 0, with one dimension alone. Spread along g it is smaller.
return np.divide(-relevance, (g != 0).sum() * g, out=0 * g, where=g != 0)
# This c takes R to 0 in equal parts, but it is not the smallest: where g is small it is large.
return -relevance / g  # Every dimension alone removes all of R, so all together remove E times as much.
(g @ g) -> g.sum() ** 2  # The squared norm is the sum of squares, not the square of the sum.
return np.full(len(g), -relevance / g.sum())
# This c, alike in all dimensions, takes R to 0, but it is not the smallest.
return -relevance * np.sign(g) / abs(g).sum()
# This c has the smallest largest entry, not the smallest Euclidean norm: go along g.
## hints
In which direction does c change c . g most, for its length?
Along g. The length follows from c . g = -R.
-relevance * g / (g @ g)
""")
def least_shift(relevance: float, g: Array) -> Array:
    """Along g, as far as c . g = -R asks: any other part of c adds to its norm alone."""
    return np.array([-relevance * value / math.fsum(other * other for other in g) for value in g])
