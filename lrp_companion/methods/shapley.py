"""Shapley values: what a token adds to the explained output, averaged over the orders in which tokens come.

The players are the units that LOO removes, without special tokens: those always stay and have score 0, for
without any token a text cannot be run. So the scores of a text add up to `f(x) - f(x without any unit)`.
LOO_i is one term of the mean, the one where i comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from math import comb
from typing import Any

import numpy as np
import torch

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, whole
from lrp_companion.methods.common import Request, classes_of, to_numpy, unit_choice, watch
from lrp_companion.methods.perturbation import check_removal, kept_logits
from lrp_companion.registry import method

MOST_EXACT = 16
"""Units of a text up to which all subsets may be asked for: 65,536 forward passes."""
ROWS, NUMBERS = 32_768, 2**24
"""Subsets that are run in one call, and logits of one call, which a vocabulary of classes fills sooner."""


@method("shapley", takes=("output", "unit"))
def shapley(
    request: Request,
    *,
    removal: str = "attention-mask",
    exact: int = 12,
    permutations: int = 128,
    seed: int = 0,
) -> list[Attribution]:
    """Shapley values of tokens (or of a `unit`) by removal: `sum over S without i of
    |S|! (n - |S| - 1)! / n! (f(S and i) - f(S))` (Shapley 1953), special tokens always kept.

    Texts of at most `exact` units run all 2**n subsets. Longer ones run the subsets along `permutations`
    random orders, each with its reverse (Mitchell et al. 2022), every subset once. `details` has the
    "standard error" of each score (0 if exact), over the pairs of orders; "passes"; "value" and "empty",
    the explained output of the whole text and of the special tokens alone; and, if exact, the pairwise
    "interactions" (`interactions_of`), one row for each unit.
    """
    check_removal(request.clf, removal)
    hint = "2**n forward passes for n units; exact=0 samples every text"
    whole("attribute", "exact", exact, least=0, most=MOST_EXACT, hint=hint)
    if whole("attribute", "permutations", permutations, least=4, hint="try 128") % 2:
        got, expected = f"permutations {permutations}", "an even number: each order runs with its reverse"
        raise InputError("attribute", got=got, expected=expected, hint=f"try {permutations + 1}")
    groups = request.units()
    players = [np.flatnonzero(~units.special) for units in groups]
    keeps, along = [], []
    for text, units, some in zip(request.texts, groups, players, strict=True):
        n = len(some)
        orders = None if n <= exact else _orders(n, permutations, [seed, *text.key])
        rows, places = (subsets(n), None) if orders is None else _along(orders)
        along.append((orders, places))
        kept = np.ones((len(rows), len(units) + 1), dtype=bool)  # the last column: tokens of no unit
        kept[:, some] = rows
        keeps.append(kept[:, units.of_tokens(len(text))])
        reads_nothing = request.clf.encoder.wiring.causal and removal == "attention-mask"
        if not reads_nothing and not keeps[-1].any(1).all():
            got, expected = "a text without special tokens", "a token that stays in the empty subset"
            hint = "take 'attention-mask', or spans as units"
            raise InputError("attribute", got=f"{got} under {removal!r}", expected=expected, hint=hint)
    choices: dict[str, Any] = {"removal": removal, "exact": exact, "permutations": permutations, "seed": seed}
    choices |= {"output": request.output, **unit_choice(request.unit)}
    out = []
    for k, (values, target, logit) in enumerate(_values(request, keeps, removal)):
        errors, details = np.zeros(len(groups[k])), dict[str, Any]()
        scores = np.zeros(len(groups[k]))
        orders, places = along[k]
        if orders is None or places is None:
            scores[players[k]] = shapley_of(values)
            between = np.zeros((len(scores), len(scores)))
            between[np.ix_(players[k], players[k])] = interactions_of(values)
            details["interactions"] = between
        else:
            scores[players[k]], errors[players[k]] = _sampled(values[places], orders)
        details |= {"standard error": errors, "passes": (len(values), 0)}
        details |= {"value": values[-1], "empty": values[0]}
        known: dict[str, Any] = {"target": target, "logit": logit, "choices": choices, "details": details}
        out.append(request.record(request.texts[k], scores, units=groups[k], **known))
    return out


def subsets(players: int) -> np.ndarray:
    """All subsets of n players, bool (2**n, n), in the order of binary numbers with player 0 in front.

    >>> subsets(2).astype(int).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    places = np.arange(players)[::-1]
    return (np.arange(2**players)[:, None] >> places & 1).astype(bool)


def shapley_of(values: np.ndarray) -> np.ndarray:
    """Shapley values (n,) of a game with the values (2**n,) of its `subsets`.

    >>> shapley_of(np.array([0.0, 0.0, 1.0, 3.0]))
    array([2., 1.])
    """
    n, sizes = _shape(values)
    cube = np.reshape(values, (2,) * n)
    out = np.empty(n)
    for i in range(n):
        before, after = np.moveaxis(cube, i, 0)
        out[i] = ((after - before).ravel() * _weights(sizes, n, i)).sum()
    return out


def interactions_of(values: np.ndarray) -> np.ndarray:
    """Shapley interactions (n, n) of a game with the values (2**n,) of its `subsets`; 0 on the diagonal.

    `I_ij = sum over S without i, j of |S|! (n - |S| - 2)! / (n - 1)! (f(S, i, j) - f(S, i) - f(S, j) + f(S))`
    (Grabisch and Roubens 1999): what two add together beyond what each adds.

    >>> interactions_of(np.array([0.0, 0.0, 1.0, 3.0])).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    n, sizes = _shape(values)
    cube = np.reshape(values, (2,) * n)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            (neither, right), (left, both) = np.moveaxis(cube, (i, j), (0, 1))
            gains = (both - left - right + neither).ravel()
            out[i, j] = out[j, i] = (gains * _weights(sizes, n, i, j)).sum()
    return out


def _shape(values: np.ndarray) -> tuple[int, np.ndarray]:
    """The number of players, and the number of members of each subset as a cube."""
    n = len(values).bit_length() - 1
    return n, subsets(n).sum(1).reshape((2,) * n)


def _weights(sizes: np.ndarray, players: int, *out: int) -> np.ndarray:
    """`|S|! (m - |S|)! / (m + 1)!` of each subset S of the m players that are not `out`."""
    m = players - len(out)
    sizes = np.moveaxis(sizes, out, range(len(out)))[(0,) * len(out)].ravel()
    return np.array([1 / ((m + 1) * comb(m, size)) for size in range(m + 1)])[sizes]


def _orders(players: int, permutations: int, seed: Sequence[int]) -> np.ndarray:
    """Random orders of n players, (P, n); the second half are the first half's reverses."""
    generator = np.random.default_rng(seed)
    orders = generator.permuted(np.tile(np.arange(players), (permutations // 2, 1)), axis=1)
    return np.concatenate([orders, orders[:, ::-1]])


def _along(orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct subsets along orders (P, n), bool (R, n), and where each order meets them, (P, n + 1)."""
    steps = np.arange(orders.shape[1] + 1)
    along = np.argsort(orders, axis=1)[:, None, :] < steps[:, None]  # none, the first, the first two ...
    rows, places = np.unique(along.reshape(-1, orders.shape[1]), axis=0, return_inverse=True)
    return rows, places.reshape(len(orders), -1)


def _sampled(along: np.ndarray, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n,) and standard errors (n,) from the values (P, n + 1) along the orders (P, n)."""
    gains = np.empty(orders.shape)
    np.put_along_axis(gains, orders, np.diff(along, axis=1), axis=1)
    first, second = np.split(gains, 2)
    pairs = (first + second) / 2
    return pairs.mean(0), pairs.std(0, ddof=1) / len(pairs) ** 0.5


def _values(
    request: Request, keeps: Sequence[np.ndarray], removal: str
) -> Iterator[tuple[np.ndarray, torch.Tensor, torch.Tensor]]:
    """Of each text the explained output with only the kept tokens of each row (R, T), all of them in the last
    row; the class; its logit with all of them.
    """

    def logits(jobs: Any) -> torch.Tensor:
        return kept_logits(
            request.clf, jobs, removal=removal, batch_tokens=request.batch_tokens, progress=False
        )

    if not keeps:
        return
    whole_text = logits([(text, rows[-1]) for text, rows in zip(request.texts, keeps, strict=True)])
    targets = classes_of(request.targets, whole_text)
    jobs = ((k, row) for k, rows in enumerate(keeps) for row in rows[:-1])
    count = sum(len(rows) - 1 for rows in keeps)
    at_once = max(1, min(ROWS, NUMBERS // whole_text.shape[1]))
    done = np.empty(count)
    for start in watch(range(0, count, at_once), progress=request.progress, label=request.name):
        some = list(islice(jobs, at_once))
        after = logits([(request.texts[k], row) for k, row in some])
        done[start : start + len(some)] = to_numpy(request.read(after, targets[[k for k, _ in some]]))
    last = to_numpy(request.read(whole_text, targets))
    start = 0
    for k, rows in enumerate(keeps):
        end = start + len(rows) - 1
        yield np.append(done[start:end], last[k]), targets[k], whole_text[k, targets[k]]
        start = end
