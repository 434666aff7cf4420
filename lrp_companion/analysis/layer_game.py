"""What all 2**L bypass masks say about the layers: best and worst mask, Shapley values, interactions, gaps of
paths. NumPy only.

A mask is a coalition of bypassed layers, its value the mean Pearson's r with LOO under that mask: bit l-1 of
a mask's number is set where layer l (from 1) is bypassed, so value 0 is AttnLRP's and the last one CP-LRP's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrp_companion.masks import PATHS, bypassed, mask_label, mask_number, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.runs.folder import JOB
from lrp_companion.runs.load import TextRun
from lrp_companion.schema import SITES, TOKEN_CHOICES, InputError, choose

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

    `I_lm = sum over S without l, m of |S|! (L - |S| - 2)! / (L - 1)! (v(S, l, m) - v(S, l) - v(S, m) + v(S))`: above 0,
    bypassing both gains more than the two gains apart. Shape (..., L, L), symmetric, NaN on the diagonal.

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
    for one in range(layers):
        for other in range(one):
            a, b = 1 << one, 1 << other
            without = numbers[numbers & (a | b) == 0]
            gain = (
                game[..., without | a | b]
                - game[..., without | a]
                - game[..., without | b]
                + game[..., without]
            )
            out[..., one, other] = out[..., other, one] = gain @ weight[without]
    return out


def greedy_path(values: Any) -> list[int]:
    """Numbers of the masks from none to all layers, each step bypassing the layer that raises the value most
    (the lowest if tied).

    >>> greedy_path([0.0, 1.0, 2.0, 0.5])
    [0, 2, 3]
    """
    game = _means("greedy_path", values)
    path = [0]
    while path[-1] != len(game) - 1:
        steps = [
            path[-1] | bit
            for bit in (1 << layer for layer in range(len(game).bit_length() - 1))
            if not path[-1] & bit
        ]
        path.append(max(steps, key=lambda mask: (game[mask], -mask)))
    return path


def best_mask(values: Any, among: Sequence[int] | None = None) -> int:
    """The number of the mask with the largest value; of equals the one that bypasses fewest layers.

    >>> best_mask([0.0, 1.0, 2.0, 2.0]), best_mask([0.0, 1.0, 2.0, 2.0], among=[0, 1])
    (2, 1)
    """
    game = _means("best_mask", values)
    return int(
        max(
            range(len(game)) if among is None else among,
            key=lambda mask: (game[mask], -int(mask).bit_count(), -mask),
        )
    )


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
    """

    means: Mapping[str, np.ndarray]
    n: int
    rows: np.ndarray | None = None
    caption: str = ""

    @property
    def layers(self) -> int:
        return len(self.means["all"]).bit_length() - 1

    def part(self, name: str) -> np.ndarray | None:
        """Rows of "all" examples or of one half; None where only means were kept."""
        if self.rows is None:
            return None
        return {"all": self.rows, HALVES[0]: self.rows[0::2], HALVES[1]: self.rows[1::2]}[name]

    def interval(self, mask: int, part: str = "all") -> Interval:
        """Mean r of one mask, with its 95 % bootstrap interval where rows are there."""
        rows = self.part(part)
        return self._bare(self.means[part][mask]) if rows is None else bootstrap_mean(rows[:, mask])

    def shapley(self) -> list[Interval]:
        """The Shapley value of each layer for agreement with LOO, layer 1 first, with its interval over
        examples.
        """
        if self.rows is None:
            return [self._bare(value) for value in shapley_values(self.means["all"])]
        return [bootstrap_mean(column) for column in shapley_values(self.rows).T]

    def interactions(self) -> np.ndarray:
        """The Shapley interaction index of each pair of layers, of the mean r, (L, L)."""
        return shapley_interactions(self.means["all"])

    def paths(self) -> dict[str, list[int]]:
        """Masks of the paper's three paths and of the greedy one, each from no layer on; greedy by the mean
        over all examples.
        """
        own = {
            name: [0, *(mask_number(mask) for mask in masks)]
            for name, masks in path_masks(self.layers).items()
        }
        return {**own, "greedy": greedy_path(self.means["all"])}

    def choices(self, *, chosen_on: str = "first half") -> list[dict[str, Any]]:
        """Masks chosen on one half of the examples and judged on the other, which had no part in the choice.

        One row each for AttnLRP, CP-LRP, the best mask on each of the paper's paths and on the greedy path,
        the best and the worst of all masks: `choice`, `mask` (its number), `layers` (in words), `chosen`
        (mean r on the half it was chosen on), `judged` (mean r on the other half) and `gap`, the best mask's
        r minus this one's on the other half, paired by example.
        """
        on = choose("LayerGame.choices", "chosen_on", chosen_on, HALVES)
        other = HALVES[1 - HALVES.index(on)]
        game = self.means[on]
        best = best_mask(game)
        among = {
            f"best, {name.replace('-', ' ')}": [0, *(mask_number(m) for m in path_masks(self.layers)[name])]
            for name in PATHS
        }
        masks = {
            "AttnLRP": 0,
            "CP-LRP": len(game) - 1,
            **{name: best_mask(game, path) for name, path in among.items()},
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
        rows = self.part(part)
        if rows is None:
            return self._bare(self.means[part][best] - self.means[part][mask])
        return paired_difference(rows[:, best], rows[:, mask])

    def _bare(self, value: float) -> Interval:
        return Interval(float(value), math.nan, math.nan, self.n)


def layer_game(run: TextRun, *, site: str = "word", tokens: str = "no-special") -> LayerGame:
    """Read the game of a run that holds all masks (`--masks all`); with the rows of its examples if they are
    there.

    Raises
    ------
    InputError : an unknown site or choice of tokens, or a run without all masks.

    >>> layer_game(load_run("results/sst2-companion-6")).layers  # doctest: +SKIP
    6
    """
    choose("layer_game", "site", site, SITES)
    choose("layer_game", "tokens", tokens, TOKEN_CHOICES)
    means = {part: run.mask_means(site=site, tokens=tokens, part=part) for part in ("all", *HALVES)}
    table, rows = run.tables["lattice_means"].to_pydict(), None
    n = max(
        count
        for count, *where in zip(*(table[c] for c in ("n", "part", "site", "tokens")), strict=True)
        if where == ["all", site, tokens]
    )
    if "lattice" in run.tables:
        lattice = run.tables["lattice"].sort_by(JOB)
        flat = lattice["r"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        rows = flat.reshape(len(lattice), len(SITES), len(TOKEN_CHOICES), -1)[
            :, SITES.index(site), TOKEN_CHOICES.index(tokens)
        ]
        rows = rows.astype(np.float64)
    return LayerGame(
        means,
        int(n),
        rows,
        f"{run.model} on {run.task}, n = {n:,}; r with LOO read at {site}, {tokens} tokens",
    )


def _weights(layers: int, size: int) -> np.ndarray:
    """`s! (L - s - k)! / (L - k + 1)!` for s = 0 to L, 0 where k layers no longer fit beside s; k =
    `size`.
    """
    f = math.factorial
    return np.array(
        [
            f(s) * f(layers - s - size) / f(layers - size + 1) if s + size <= layers else 0.0
            for s in range(layers + 1)
        ]
    )


def _game(operation: str, values: Any) -> np.ndarray:
    out = np.asarray(values, dtype=np.float64)
    count = out.shape[-1] if out.ndim else 0
    if count < 2 or count & (count - 1):
        raise InputError(
            operation,
            got=f"values of shape {out.shape}",
            expected="(..., 2**L), L at least 1",
            hint="pass one value per mask",
        )
    if np.isinf(out).any():
        raise InputError(
            operation,
            got="infinite values",
            expected="numbers, or NaN where undefined",
            hint="check r under every mask",
        )
    return out


def _means(operation: str, values: Any) -> np.ndarray:
    """Values of one game, all defined: no mask can be called best beside one that has none."""
    out = _game(operation, values)
    if out.ndim != 1 or np.isnan(out).any():
        raise InputError(
            operation,
            got=f"values of shape {out.shape}, {int(np.isnan(out).sum())} undefined",
            expected="(2**L,), all defined",
            hint="pass means over examples",
        )
    return out
