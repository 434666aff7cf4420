"""Theme: rules and conservation. Blocks of newer Transformers, and the sum of embeddings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lrp_book.exercises.checking import THEMES, Case, Exercise, Slip

Pair = tuple[np.ndarray, np.ndarray]


def rms_norm_rule(g_y: np.ndarray, x: np.ndarray, gamma: np.ndarray, small: float) -> np.ndarray:
    """Entry by entry: with the root a constant, y_i = (gamma_i / root) x_i is a diagonal linear map."""
    out = np.zeros_like(x)
    for t in range(x.shape[0]):
        root = math.sqrt(math.fsum(value * value for value in x[t]) / x.shape[1] + small)
        for i in range(x.shape[1]):
            out[t, i] = gamma[i] / root * g_y[t, i]
    return out


def _rms(g_y: np.ndarray, x: np.ndarray, gamma: np.ndarray, small: float, *, kind: str) -> np.ndarray:
    """The same with one thing done otherwise."""
    axis = 0 if kind == "over tokens" else -1
    square = (x * x).mean(axis, keepdims=True)
    if kind == "sum":
        square = (x * x).sum(axis, keepdims=True)
    if kind == "deviation":
        square = x.var(axis, keepdims=True)
    root = np.sqrt(square + (0.0 if kind == "no small" else small))
    if kind == "outside":
        root = np.sqrt(square) + small
    if kind == "norm":
        root = np.linalg.norm(x, axis=-1, keepdims=True)
    if kind == "square":
        root = square + small
    h = (1.0 if kind == "no gamma" else gamma) * g_y / root
    if kind == "centred":
        return h - h.mean(-1, keepdims=True)
    if kind == "gradient":
        return h - x * (h * x).mean(-1, keepdims=True) / root**2
    if kind == "multiplied":
        return gamma * g_y * root
    return x * h if kind == "relevance" else h


def _rms_cases(rng: np.random.Generator) -> list[Case]:
    def draw(tokens: int, width: int, small: float) -> tuple:
        g_y, x = rng.normal(size=(tokens, width)), 2 * rng.normal(size=(tokens, width)) + 1
        return g_y, x, rng.normal(size=width) + 1, small

    return [
        Case("of two tokens, three wide", draw(2, 3, 1e-6)),
        Case("of as many tokens as it is wide", draw(4, 4, 1e-5)),
        Case("with a large constant inside the root", draw(3, 5, 0.5)),
    ]


def _sigma(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def gated_rule(g_y: np.ndarray, z: np.ndarray, u: np.ndarray) -> Pair:
    """On relevance, entry by entry: R = y g_y, half to each factor, R_z = R_silu by the identity rule.

    No entry of z or u is 0.
    """
    g_z, g_u = np.zeros_like(z), np.zeros_like(u)
    for place in np.ndindex(*z.shape):
        gate = z[place] / (1 + math.exp(-z[place]))
        half = gate * u[place] * g_y[place] / 2
        g_z[place], g_u[place] = half / z[place], half / u[place]
    return g_z, g_u


def _gated(
    g_y: np.ndarray, z: np.ndarray, u: np.ndarray, *, first: float = 0.5, second: float = 0.5, kind: str = ""
) -> Pair:
    s = _sigma(z)
    slope = {"gradient": s * (1 + z * (1 - s)), "no slope": np.ones_like(z), "gate": s * z}.get(kind, s)
    gate = s if kind == "sigma" else z if kind == "no sigma" else s * z
    return first * slope * u * g_y, second * gate * g_y


def _gated_cases(rng: np.random.Generator) -> list[Case]:
    def draw(*shape: int) -> tuple[np.ndarray, ...]:
        z, u = rng.normal(size=shape), rng.normal(size=shape)
        return rng.normal(size=shape), z + 0.1 * np.sign(z), u + 0.1 * np.sign(u)

    return [
        Case("of one token, four wide", draw(1, 4)),
        Case("of three tokens, two wide", draw(3, 2)),
        Case(
            "with large negative gates", (*draw(1, 2)[:1], np.array([[-6.0, 3.0]]), np.array([[1.0, -2.0]]))
        ),
    ]


def shifted_words(word: np.ndarray, g: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Token by token: every word embedding has c more, g of the sum is as before."""
    return np.array(
        [math.fsum((w + s) * h for w, s, h in zip(*row, strict=True)) for row in _rows(word, g, c)]
    )


def _rows(word: np.ndarray, g: np.ndarray, c: np.ndarray) -> list[tuple[Any, Any, Any]]:
    return [(word[t], c, g[t]) for t in range(len(word))]


def _word_cases(rng: np.random.Generator) -> list[Case]:
    def draw(tokens: int, width: int) -> tuple:
        return rng.normal(size=(tokens, width)), rng.normal(size=(tokens, width)), rng.normal(size=width)

    return [
        Case("of five tokens, three wide", draw(5, 3)),
        Case("of as many tokens as they are wide", draw(4, 4)),
        Case("of two tokens, six wide", draw(2, 6)),
    ]


def least_shift(relevance: float, g: np.ndarray) -> np.ndarray:
    """Along g, as far as c . g = -R asks: any other part of c adds to its norm alone."""
    length = math.fsum(value * value for value in g)
    return np.array([-relevance * value / length for value in g])


def _one_entry(relevance: float, g: np.ndarray) -> np.ndarray:
    """The largest entry of g alone carries the shift."""
    out = np.zeros_like(g)
    largest = int(np.abs(g).argmax())
    out[largest] = -relevance / g[largest]
    return out


def _shift_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("of three dimensions", (1.5, np.array([2.0, -1.0, 0.5]))),
        Case("of eight dimensions, negative relevance", (-0.7, rng.normal(size=8))),
        Case("of five dimensions, g of small norm", (0.4, 0.1 * rng.normal(size=5))),
    ]


EXERCISES = (
    Exercise(
        name="rms-norm-rule",
        title="RMSNorm with a constant root",
        theme=THEMES[1],
        signature="rms_norm_rule(g_y, x, gamma, small)",
        task=(
            "For y = gamma x / root, with root = sqrt(mean of x squared + small) held constant and "
            "epsilon 0: carry g from y to x. g_y and x are (T, n), gamma is (n,), the mean runs over the "
            "last axis; returns (T, n)."
        ),
        answer=rms_norm_rule,
        cases=_rms_cases,
        parts=("g_x",),
        slips=(
            Slip(
                lambda *a: _rms(*a, kind="centred"),
                "The mean is subtracted, as for LayerNorm. RMSNorm subtracts no mean, so none comes back.",
            ),
            Slip(
                lambda *a: _rms(*a, kind="gradient"),
                "This is the full derivative: the root is differentiated, too. The rule holds it constant.",
            ),
            Slip(
                lambda *a: _rms(*a, kind="deviation"),
                "You divide by the standard deviation. "
                "The root is that of the mean square: the mean is not subtracted from x.",
            ),
            Slip(lambda *a: _rms(*a, kind="no gamma"), "The weight gamma is missing."),
            Slip(lambda *a: _rms(*a, kind="square"), "You divide by the mean square: take its square root."),
            Slip(
                lambda *a: _rms(*a, kind="sum"),
                "You divide by the norm, the root of the sum of squares: take their mean, over n.",
            ),
            Slip(
                lambda *a: _rms(*a, kind="norm"),
                "You divide by the norm of x. The root is that of the mean square, with `small` inside.",
            ),
            Slip(
                lambda *a: _rms(*a, kind="over tokens"),
                "The mean square runs over the wrong axis: over the entries of one token, not over tokens.",
            ),
            Slip(lambda *a: _rms(*a, kind="no small"), "The small constant inside the root is missing."),
            Slip(
                lambda *a: _rms(*a, kind="outside"),
                "The small constant is added to the root: it belongs inside.",
            ),
            Slip(
                lambda *a: _rms(*a, kind="multiplied"),
                "You multiply by the root: forward divides by it, and so does the way back.",
            ),
            Slip(lambda *a: _rms(*a, kind="relevance"), "This is relevance, x * g_x: return g itself."),
        ),
        hints=(
            "With the root a constant, which matrix takes x to y?",
            "The matrix is diagonal, so every entry of g goes back alone, by gamma over the root.",
            "gamma * g_y / np.sqrt((x**2).mean(-1, keepdims=True) + small)",
        ),
    ),
    Exercise(
        name="gated-rule",
        title="A gated MLP",
        theme=THEMES[1],
        signature="gated_rule(g_y, z, u)",
        task=(
            "For y = silu(z) * u, entry by entry, silu(z) = z / (1 + exp(-z)): carry g to both inputs, "
            "(g_z, g_u), by the uniform rule of products, Eq. (3) with epsilon 0, and the identity rule for "
            "silu. All shapes equal."
        ),
        answer=gated_rule,
        cases=_gated_cases,
        parts=("g_z", "g_u"),
        slips=(
            Slip(
                lambda *a: _gated(*a, first=1.0, second=1.0),
                "A half is missing: silu(z) and u are two activations, and each receives half.",
            ),
            Slip(
                lambda *a: _gated(*a, first=1.0, second=1.0, kind="gradient"),
                "This is the plain gradient. Each factor receives half, and silu has the identity rule.",
            ),
            Slip(
                lambda *a: _gated(*a, kind="gradient"),
                "At silu you took the derivative. The identity rule passes relevance on as it is, "
                "so g is multiplied by silu(z) / z.",
            ),
            Slip(
                lambda *a: _gated(*a, kind="no slope"),
                "g_z is that of silu(z): the identity rule still multiplies g by silu(z) / z.",
            ),
            Slip(
                lambda *a: _gated(*a, first=0.0, second=1.0),
                "The gate is held constant and u receives all. The uniform rule gives each half.",
            ),
            Slip(
                lambda *a: _gated(*a, first=0.75, second=0.25),
                "These are the shares of z (sigma(z) u), grouped from the right. "
                "Here the product is silu(z) times u: half and half.",
            ),
            Slip(
                lambda *a: _gated(*a, first=2 / 3, second=1 / 3),
                "These are thirds of z sigma(z) u. Here the product has two factors, silu(z) and u.",
            ),
            Slip(
                lambda *a: _gated(*a, kind="sigma"),
                "u is multiplied by silu(z) = z sigma(z), not by sigma(z) alone.",
            ),
            Slip(
                lambda *a: _gated(*a, kind="no sigma"),
                "u is multiplied by silu(z), not by z: the activation is missing in g_u.",
            ),
            Slip(
                lambda *a: _gated(*a, kind="gate"),
                "A factor z too many in g_z: the identity rule has silu(z) / z, which is sigma(z).",
            ),
            Slip(
                lambda g, z, u: (z * _gated(g, z, u)[0], u * _gated(g, z, u)[1]),
                "This is relevance, z * g_z and u * g_u: return g itself.",
            ),
        ),
        hints=(
            "How many activations does the product have, and what does silu do to relevance?",
            (
                "Eq. (3) gives half to silu(z) and half to u; the identity rule gives silu's relevance to z, "
                "so g changes by silu(z) / z."
            ),
            "sigma * u * g_y / 2, z * sigma * g_y / 2",
        ),
    ),
    Exercise(
        name="shifted-words",
        title="Relevance at the words after a shift",
        theme=THEMES[1],
        signature="shifted_words(word, g, c)",
        task=(
            "A vector c (E,) is added to every word embedding and subtracted from every position "
            "embedding, so the function stays the same. word is (T, E), g (T, E) is g at the sum of "
            "the embeddings, which does not change. Return the relevance at the words after the shift, "
            "shape (T,)."
        ),
        answer=shifted_words,
        cases=_word_cases,
        parts=("the relevance",),
        slips=(
            Slip(
                lambda w, g, c: (w * g).sum(-1),
                "This is the relevance before the shift: the word embedding has c more now.",
            ),
            Slip(
                lambda w, g, c: ((w - c) * g).sum(-1),
                "The shift has the wrong sign: c is added to the words and subtracted from the positions.",
            ),
            Slip(
                lambda w, g, c: (c * g).sum(-1),
                "This is the change alone: the relevance before it is missing.",
            ),
            Slip(
                lambda w, g, c: ((w + c) * g).sum(),
                "Everything is summed: a relevance per token is asked for, so sum over dimensions alone.",
            ),
            Slip(
                lambda w, g, c: ((w + c) * g).sum(0),
                "The sum runs over the wrong axis: over the dimensions of a token, not over tokens.",
            ),
            Slip(
                lambda w, g, c: (w + c) * g,
                "These are relevances per dimension: sum them over each token's dimensions.",
            ),
            Slip(
                lambda w, g, c: (w * g).sum(-1) + c.sum(),
                "c moves the relevance by its product with g, not by its sum.",
            ),
            Slip(
                lambda w, g, c: (w * g).sum(-1) + (c * g).sum(-1).mean(),
                "The mean change is added to every token. Each has its own g and moves by its own c . g.",
            ),
            Slip(
                lambda w, g, c: ((w + c) * g).mean(-1),
                "This is the mean over dimensions: relevance of a token is their sum.",
            ),
        ),
        hints=(
            "Relevance is embedding times g. Which of the two does the shift change?",
            "The embedding of every word has c more; g is as before; the dimensions of a token are summed.",
            "((word + c) * g).sum(-1)",
        ),
    ),
    Exercise(
        name="least-shift",
        title="The smallest shift that removes a word's relevance",
        theme=THEMES[1],
        signature="least_shift(relevance, g)",
        task=(
            "A word has the relevance R (a number), and g (E,) is g at its embedding. "
            "Return the c of smallest Euclidean norm, shape (E,), that brings this word's relevance to 0 if "
            "it is added to the word embeddings."
        ),
        answer=least_shift,
        cases=_shift_cases,
        parts=("c",),
        slips=(
            Slip(
                lambda r, g: r * g / (g @ g),
                "The sign is reversed: this c doubles the relevance. c . g must be -R.",
            ),
            Slip(
                lambda r, g: -r * g / np.sqrt(g @ g),
                "You divide by the norm of g: by its square, so that c . g is -R.",
            ),
            Slip(lambda r, g: -r * g, "c . g is -R times the squared norm of g here: divide by that."),
            Slip(
                lambda r, g: -r / (len(g) * g),
                "This c does take R to 0, but it is not the smallest: where g is small it is large.",
            ),
            Slip(
                _one_entry,
                "This c does take R to 0, with one dimension alone. Spread along g it is smaller.",
            ),
            Slip(
                lambda r, g: -r / g,
                "Every dimension alone removes all of R, so all together remove E times as much.",
            ),
            Slip(
                lambda r, g: -r * g / g.sum() ** 2,
                "The squared norm is the sum of squares, not the square of the sum.",
            ),
            Slip(
                lambda r, g: -np.full_like(g, r / g.sum()),
                "This c, alike in all dimensions, takes R to 0, but it is not the smallest.",
            ),
            Slip(
                lambda r, g: -np.sign(g) * r / np.abs(g).sum(),
                "This c has the smallest largest entry, not the smallest Euclidean norm: go along g.",
            ),
        ),
        hints=(
            "In which direction does c change c . g most, for its length?",
            "Along g. The length follows from c . g = -R.",
            "-relevance * g / (g @ g)",
        ),
    ),
)
