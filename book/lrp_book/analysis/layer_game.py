"""All 2**L bypass masks as a game of layers: Shapley values, interactions, best masks. NumPy only.

A mask is a coalition of bypassed layers. Its value is the mean Pearson's r with LOO under that mask. Bit l-1
of a mask's number is set if layer l (from 1) is bypassed, so value 0 is AttnLRP's and the last one is
CP-LRP's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrp_companion.arrays import real_array
from lrp_companion.attribution import SITES
from lrp_companion.checks import InputError, choose
from lrp_companion.masks import PATHS, bypassed, mask_label, mask_number, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.runs.axes import EXAMPLES_OF, layer_game_axes
from lrp_companion.runs.folder import JOB
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import TOKEN_CHOICES, Protocol

HALVES = ("first half", "second half")


def shapley_values(values: Any) -> np.ndarray:
    """The Shapley value of every layer (Shapley 1953), exact, from the values of all 2**L masks.

    `phi_l = sum over S without l of |S|! (L - |S| - 1)! / L! (v(S and l) - v(S))`: what bypassing layer l
    adds, averaged over all orders in which layers may be bypassed. They sum to `v(all) - v(none)`, here
    CP-LRP's r minus AttnLRP's.

    Parameters
    ----------
    values : shape (..., 2**L), L at least 1; NaN makes the Shapley values NaN.

    Returns
    -------
    ndarray
        shape (..., L), in the unit of the values.

    >>> shapley_values([0.0, 1.0, 2.0, 3.0]).tolist()
    [1.0, 2.0]
    """
    game = _game("shapley_values", values)
    layers = game.shape[-1].bit_length() - 1
    numbers = np.arange(2**layers)
    weight = _weights(layers, 1)[np.bitwise_count(numbers)]
    out = np.empty((*game.shape[:-1], layers))
    for layer in range(layers):
        without = numbers[numbers >> layer & 1 == 0]
        out[..., layer] = (game[..., without | 1 << layer] - game[..., without]) @ weight[without]
    return out


def shapley_interactions(values: Any) -> np.ndarray:
    """The Shapley interaction index of every pair of layers (Grabisch and Roubens 1999), exact.

    `I_lm = sum over S without l, m of |S|! (L - |S| - 2)! / (L - 1)! d_lm(S)`, where
    `d_lm(S) = v(S, l, m) - v(S, l) - v(S, m) + v(S)`: above 0, bypassing both gains more than the sum of the
    two separate gains. Shape (..., L, L), symmetric, NaN on the diagonal.

    >>> shapley_interactions([0.0, 1.0, 2.0, 5.0])[0, 1].item()
    2.0
    """
    game = _game("shapley_interactions", values)
    layers = game.shape[-1].bit_length() - 1
    numbers = np.arange(2**layers)
    out = np.full((*game.shape[:-1], layers, layers), np.nan)
    if layers < 2:
        return out
    weight = _weights(layers, 2)[np.bitwise_count(numbers)]
    for later in range(layers):
        for earlier in range(later):
            a, b = 1 << later, 1 << earlier
            without = numbers[numbers & (a | b) == 0]
            both, neither = game[..., without | a | b], game[..., without]
            gain = both - game[..., without | a] - game[..., without | b] + neither
            out[..., later, earlier] = out[..., earlier, later] = gain @ weight[without]
    return out


def greedy_path(values: Any) -> list[int]:
    """Numbers of the masks from none to all layers, each step bypassing the layer that raises the value most.

    Of tied layers, the lowest.

    >>> greedy_path([0.0, 1.0, 2.0, 0.5])
    [0, 2, 3]
    """
    game = _means("greedy_path", values)
    bits = [1 << layer for layer in range(len(game).bit_length() - 1)]
    path = [0]
    while path[-1] != len(game) - 1:
        steps = [path[-1] | bit for bit in bits if not path[-1] & bit]
        path.append(max(steps, key=lambda mask: (game[mask], -mask)))
    return path


def best_mask(values: Any, among: Sequence[int] | None = None) -> int:
    """The number of the mask with the largest value; of tied masks, the one that bypasses fewest layers.

    >>> best_mask([0.0, 1.0, 2.0, 2.0]), best_mask([0.0, 1.0, 2.0, 2.0], among=[0, 1])
    (2, 1)
    """
    game = _means("best_mask", values)
    masks = range(len(game)) if among is None else among
    return int(max(masks, key=lambda mask: (game[mask], -int(mask).bit_count(), -mask)))


@dataclass(frozen=True)
class LayerGame:
    """Agreement with LOO under every mask, over all examples and over two halves of them.

    Attributes
    ----------
    means : "all", "first half", "second half" to mean r of each mask, shape (2**L,) each.
    n : how many examples have an r.
    rows : r of each example and mask, (n, 2**L), in the order of the examples, or None where only means were
        kept. Even rows are the first half. NaN where undefined.
    caption : model, data, n and how r is read, for captions.
    columns : number of a mask to r of each example (n,), if rows were kept only for some masks.
    """

    means: Mapping[str, np.ndarray]
    n: int
    rows: np.ndarray | None = None
    caption: str = ""
    columns: Mapping[int, np.ndarray] = field(default_factory=dict)

    @property
    def layers(self) -> int:
        return len(self.means["all"]).bit_length() - 1

    def part(self, name: str) -> np.ndarray | None:
        """Rows of "all" examples or of one half; None where only means were kept."""
        if self.rows is None:
            return None
        return self.rows[EXAMPLES_OF[name]]

    def column(self, mask: int, part: str = "all") -> np.ndarray | None:
        """r of each example under one mask, or None where only its mean was kept."""
        if self.rows is not None:
            return self.rows[EXAMPLES_OF[part], mask]
        return self.columns[mask][EXAMPLES_OF[part]] if mask in self.columns else None

    def interval(self, mask: int, part: str = "all") -> Interval:
        """Mean r of one mask, with its 95 % bootstrap interval if its rows were kept."""
        column = self.column(mask, part)
        return self._bare(self.means[part][mask]) if column is None else bootstrap_mean(column)

    def shapley(self) -> list[Interval]:
        """The Shapley value of each layer for agreement with LOO, layer 1 first, each with its interval."""
        if self.rows is None:
            return [self._bare(value) for value in shapley_values(self.means["all"])]
        return [bootstrap_mean(column) for column in shapley_values(self.rows).T]

    def interactions(self) -> np.ndarray:
        """The Shapley interaction index of each pair of layers, of the mean r, (L, L)."""
        return shapley_interactions(self.means["all"])

    def paths(self) -> dict[str, list[int]]:
        """Masks of the paper's three paths and of the greedy one, each from no layer on.

        The greedy path follows the mean over all examples.
        """
        return {**self._paper_paths(), "greedy": greedy_path(self.means["all"])}

    def _paper_paths(self) -> dict[str, list[int]]:
        return {
            name: [0, *(mask_number(mask) for mask in masks)]
            for name, masks in path_masks(self.layers).items()
        }

    def choices(self, *, chosen_on: str = "first half") -> list[dict[str, Any]]:
        """Masks chosen on one half of the examples and judged on the other.

        One row each for AttnLRP, CP-LRP, the best mask on each of the paper's paths and on the greedy path,
        the best and the worst of all masks: `choice`, `mask` (its number), `layers` (in words), `chosen`
        (mean r on the half it was chosen on), `judged` (mean r on the other half) and `gap`, the best mask's
        r minus this one's on the other half, paired by example.
        """
        on = choose("LayerGame.choices", "chosen_on", chosen_on, HALVES)
        other = HALVES[1 - HALVES.index(on)]
        game = self.means[on]
        best, paths = best_mask(game), self._paper_paths()
        masks = {
            "AttnLRP": 0,
            "CP-LRP": len(game) - 1,
            **{f"best, {name.replace('-', ' ')}": best_mask(game, paths[name]) for name in PATHS},
            "best, greedy": best_mask(game, greedy_path(game)),
            "best of all": best,
            "worst of all": best_mask(-game),
        }
        return [
            {
                "choice": name,
                "mask": mask,
                "layers": mask_label(bypassed(mask)),
                "chosen": self.interval(mask, on),
                "judged": self.interval(mask, other),
                "gap": self._gap(best, mask, other),
            }
            for name, mask in masks.items()
        ]

    def _gap(self, best: int, mask: int, part: str) -> Interval:
        a, b = self.column(best, part), self.column(mask, part)
        if a is None or b is None:
            return self._bare(self.means[part][best] - self.means[part][mask])
        return paired_difference(a, b)

    def _bare(self, value: float) -> Interval:
        return Interval(float(value), math.nan, math.nan, self.n)


def layer_game(run: TextRun, *, site: str = "word", tokens: str = "no-special") -> LayerGame:
    """Read the game of a run with all masks (`--masks all`), with the rows of its examples if they were kept,
    else with those of the masks on the paper's paths.

    Raises
    ------
    InputError : an unknown site or choice of tokens, or a run without all masks.

    >>> layer_game(load_run("results/sst2-companion-6")).layers  # doctest: +SKIP
    6
    """
    choose("layer_game", "site", site, SITES)
    choose("layer_game", "tokens", tokens, TOKEN_CHOICES)
    means = {part: run.mask_means(site=site, tokens=tokens, part=part) for part in EXAMPLES_OF}
    asked = {"part": "all", "site": site, "tokens": tokens}
    n = max(row["n"] for row in run.tables["lattice_means"].to_pylist() if asked.items() <= row.items())
    rows, columns = None, {}
    if "lattice" in run.tables:
        table = run.tables["lattice"].sort_by(JOB)
        rows = layer_game_axes(run.layers).read(table["r"], site=site, tokens=tokens).copy()
    else:
        protocol = Protocol(site=site, tokens=tokens)
        columns = {mask_number(mask): run.r(mask, protocol) for mask in run.masks}
    caption = f"{run.model} on {run.data_name}, n = {n:,}; r with LOO read at {site}, {tokens} tokens"
    return LayerGame(means, int(n), rows, caption, columns)


def _weights(layers: int, size: int) -> np.ndarray:
    """`s! (L - s - k)! / (L - k + 1)!` for s = 0 to L with k = `size`, 0 where k more layers do not fit."""
    f = math.factorial
    weights = [f(s) * f(layers - s - size) / f(layers - size + 1) for s in range(layers - size + 1)]
    return np.array(weights + [0.0] * size)


def _game(operation: str, values: Any) -> np.ndarray:
    out = real_array(operation, "values", values)
    count = out.shape[-1] if out.ndim else 0
    if count < 2 or count & (count - 1):
        got, expected = f"values of shape {out.shape}", "(..., 2**L), L at least 1"
        raise InputError(operation, got=got, expected=expected, hint="pass one value per mask")
    if np.isinf(out).any():
        expected = "numbers, or NaN where undefined"
        raise InputError(operation, got="infinite values", expected=expected, hint="check r under every mask")
    return out


def _means(operation: str, values: Any) -> np.ndarray:
    """Values of one game, all defined: if one mask has no value, none can be called best."""
    out = _game(operation, values)
    if out.ndim != 1 or np.isnan(out).any():
        got = f"values of shape {out.shape}, {int(np.isnan(out).sum())} undefined"
        hint = "pass means over examples"
        raise InputError(operation, got=got, expected="(2**L,), all defined", hint=hint)
    return out


def standing(run: TextRun, *, site: str = "word", tokens: str = "no-special") -> dict[str, Any]:
    """The ranks of AttnLRP and CP-LRP among all masks of a run, and the gain of each half of the layers.

    Returns
    -------
    dict
        `masks`, how many; `attnlrp` and `cp-lrp`, their rank by mean r (1 is the closest to LOO); `best`, the
        layers of the best mask; `total`, CP-LRP's mean r minus AttnLRP's; `later`, the fraction of it due to
        the later half of the layers by Shapley values, that is, over all orders of bypassing (NaN if the
        total is 0).

    Raises
    ------
    InputError : the run was not made with --masks all.
    """
    means = run.mask_means(site=site, tokens=tokens)
    rank = np.empty(len(means), dtype=int)
    rank[np.argsort(-means, kind="stable")] = np.arange(1, len(means) + 1)
    shapley = shapley_values(means)
    total = float(means[-1] - means[0])
    later = float(shapley[run.layers // 2 :].sum() / total) if total else float("nan")
    return {
        "masks": len(means), "attnlrp": int(rank[0]), "cp-lrp": int(rank[-1]),
        "best": sorted(bypassed(int(means.argmax()))), "total": total, "later": later,
    }  # fmt: skip
