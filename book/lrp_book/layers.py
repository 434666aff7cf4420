"""What bypassing layers does: all masks as a game of layers, and the gain of each layer on a path. No torch.

A mask is a coalition of bypassed layers. Its value is the mean Pearson's r with LOO under that mask. Bit l-1
of a mask's number is set if layer l (from 1) is bypassed, so value 0 is AttnLRP's and the last one is
CP-LRP's. Chapters 3, 5, 6 and 7 read it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from lrp_book.labels import finished
from lrp_companion.arrays import real_array
from lrp_companion.checks import InputError, choose
from lrp_companion.lab.base_run import EXAMPLES_OF, layer_game_axes
from lrp_companion.lab.folder import JOB
from lrp_companion.lab.labelled import r_with_loo, side
from lrp_companion.lab.load import TextRun
from lrp_companion.lab.paper.protocol_grid import AXIS_LABELS, DISTINCT, needs_text
from lrp_companion.lab.paper.tables import needs_masks
from lrp_companion.masks import NONE, PATHS, bypassed, mask_label, mask_number, path_masks
from lrp_companion.metrics import Interval, bootstrap_mean, paired_difference
from lrp_companion.metrics.statistics import limits, resampled, side_of_zero
from lrp_companion.registry import Style
from lrp_companion.schema import Protocol
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_points
from lrp_companion.show.palette import INK, QUIET, RULE, styles
from lrp_companion.show.tables import Table, table

HALVES = ("first half", "second half")
GAINS = ListedColormap(mpl.colormaps["BrBG"](np.linspace(0.2, 0.8, 257)))  # relevance has red-orange, blue
GREEDY = Style("greedy", "#6a6a6a", "p", (0, (2, 1)))
CELL = ("site", "tokens", "map")

# -- the game -----------------------------------------------------------------------------------------


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
    return np.stack([_index(game, layer) for layer in range(game.shape[-1].bit_length() - 1)], -1)


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
    out = np.full((*game.shape[:-1], layers, layers), np.nan)
    for pair in itertools.combinations(range(layers), 2):
        out[(..., *pair)] = out[(..., *pair[::-1])] = _index(game, *pair)
    return out


def _index(game: np.ndarray, *players: int) -> np.ndarray:
    """What these layers gain together beyond parts of them, averaged over the orders of the others, (...)."""
    layers, size, f = game.shape[-1].bit_length() - 1, len(players), math.factorial
    bits, masks = [1 << layer for layer in players], np.arange(game.shape[-1])
    without = masks[masks & sum(bits) == 0]
    weights = [f(s) * f(layers - s - size) / f(layers - size + 1) for s in range(layers - size + 1)]
    parts = (part for few in range(size + 1) for part in itertools.combinations(bits, few))
    gain = sum((-1) ** (size - len(part)) * game[..., without | sum(part)] for part in parts)
    return np.asarray(gain @ np.array(weights)[np.bitwise_count(without)])


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

    def paths(self, on: str = "all") -> dict[str, list[int]]:
        """Masks of the paper's three paths and of the greedy one on a part, each from no layer on."""
        named = path_masks(self.layers).items()
        paths = {name: [0, *(mask_number(mask) for mask in masks)] for name, masks in named}
        return {**paths, "greedy": greedy_path(self.means[on])}

    def choices(self, *, chosen_on: str = "first half") -> list[dict[str, Any]]:
        """Masks chosen on one half of the examples and judged on the other.

        One row each for AttnLRP, CP-LRP, the best mask on each of the paper's paths and on the greedy path,
        the best and the worst of all masks: `choice`, `mask` (its number), `layers` (in words), `chosen`
        (mean r on the half it was chosen on), `judged` (mean r on the other half) and `gap`, the best mask's
        r minus this one's on the other half, paired by example.
        """
        on = choose("LayerGame.choices", "chosen_on", chosen_on, HALVES)
        other = HALVES[1 - HALVES.index(on)]
        game, paths = self.means[on], self.paths(on)
        best = best_mask(game)
        masks = {"AttnLRP": 0, "CP-LRP": len(game) - 1}
        masks |= {f"best, {name.replace('-', ' ')}": best_mask(game, paths[name]) for name in PATHS}
        masks |= {"best, greedy": best_mask(game, paths["greedy"])}
        masks |= {"best of all": best, "worst of all": best_mask(-game)}
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
    """
    protocol = Protocol(site=site, tokens=tokens)
    means = {part: run.mask_means(site=site, tokens=tokens, part=part) for part in EXAMPLES_OF}
    asked = {"part": "all", "site": site, "tokens": tokens}
    n = max(row["n"] for row in run.tables["lattice_means"].to_pylist() if asked.items() <= row.items())
    rows, columns = None, {}
    if "lattice" in run.tables:
        kept = run.tables["lattice"].sort_by(JOB)
        rows = layer_game_axes(run.layers).read(kept["r"], site=site, tokens=tokens).copy()
    else:
        columns = {mask_number(mask): run.r(mask, protocol) for mask in run.masks}
    caption = f"{run.model} on {run.data_name}, n = {n:,}; r with LOO read at {site}, {tokens} tokens"
    return LayerGame(means, int(n), rows, caption, columns)


def standing(run: TextRun, *, site: str = "word", tokens: str = "no-special") -> dict[str, Any]:
    """The ranks of AttnLRP and CP-LRP among all masks of a run, and the gain of each half of the layers.

    Returns
    -------
    dict
        `masks`, how many; `attnlrp` and `cp-lrp`, their rank by mean r (1 is the closest to LOO); `best`, the
        layers of the best mask; `total`, CP-LRP's mean r minus AttnLRP's; `later`, the fraction of it due to
        the later half of the layers by Shapley values, that is, over all orders of bypassing (NaN if the
        total is 0).
    """
    means = run.mask_means(site=site, tokens=tokens)
    rank = np.empty(len(means), dtype=int)
    rank[np.argsort(-means, kind="stable")] = np.arange(1, len(means) + 1)
    total, later = float(means[-1] - means[0]), float(shapley_values(means)[run.layers // 2 :].sum())
    return {
        "masks": len(means),
        "attnlrp": int(rank[0]),
        "cp-lrp": int(rank[-1]),
        "best": sorted(bypassed(int(means.argmax()))),
        "total": total,
        "later": later / total if total else math.nan,
    }


@mpl.rc_context(LOOK)
def layer_game_figure(game: LayerGame, *, title: str | None = None, pairs: bool = False) -> Drawing:
    """Draw mean r of all masks by how many layers are bypassed, Shapley values and, of `pairs`, interactions.

    Bars of Shapley values carry their 95 % intervals where the rows of examples are there.
    """
    values, shapley = game.means["all"], game.shapley()
    top = int(np.argmax([value.mean for value in shapley]))
    alt = (
        f"{title + '. ' if title else ''}Mean r with LOO of all {len(values):,} masks, "
        f"from {values.min():.2f} to {values.max():.2f}; "
        f"AttnLRP {values[0]:.2f}, CP-LRP {values[-1]:.2f}. "
        f"Largest Shapley value: layer {top + 1}, {shapley[top].mean:.3f}."
    )
    ratios = [1.25, 1.0, 1.35][: 2 + pairs]
    figure, (cloud, bars, *heat) = drawing(
        alt, rows=len(ratios), height=2.33 * sum(ratios), height_ratios=ratios
    )
    _mask_panel(cloud, game)
    _shapley_panel(bars, shapley)
    for panel in heat:
        figure.colorbar(_interaction_panel(panel, game.interactions()), ax=panel)
    return finished(figure, title)


def _mask_panel(axes: Axes, game: LayerGame) -> None:
    """The range of mean r by the number of bypassed layers, and paths through it."""
    values, sizes = game.means["all"], range(game.layers + 1)
    groups = [values[np.bitwise_count(np.arange(len(values))) == size] for size in sizes]
    low, high = [group.min() for group in groups], [group.max() for group in groups]
    axes.fill_between(sizes, low, high, color=QUIET, alpha=0.18, linewidth=0, label="all masks")
    names = [Name("all masks", game.layers / 2, (low[game.layers // 2] + high[game.layers // 2]) / 2, QUIET)]
    looks = {**styles(["front-to-back", "back-to-front"]), "greedy": GREEDY}
    for name, style in looks.items():
        path = values[game.paths()[name]]
        axes.plot(
            sizes, path, label=style.label, color=style.colour, marker=style.marker, linestyle=style.dash
        )
        middle = (2 if name == "front-to-back" else 1) * game.layers // 3
        names.append(Name(style.label, middle, path[middle], style.colour))
    axes.set(title="All masks", xlabel="number of bypassed layers", ylabel="mean r with LOO")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label_points(axes, names)


def _shapley_panel(axes: Axes, shapley: Sequence[Interval]) -> None:
    """A bar per layer, with its interval where there is one."""
    layers = np.arange(1, len(shapley) + 1)
    axes.bar(layers, [value.mean for value in shapley], color=QUIET, width=0.7)
    for layer, value in zip(layers, shapley, strict=True):
        if not np.isnan(value.low):
            axes.plot([layer, layer], [value.low, value.high], color=INK, linewidth=1.4)
    axes.axhline(0, color=INK, linewidth=0.9)
    axes.grid(visible=False, axis="x")
    axes.set(title="Shapley value of bypassing a layer", xlabel="layer", ylabel="r with LOO", xticks=layers)


def _interaction_panel(axes: Axes, pairs: np.ndarray) -> AxesImage:
    """The interactions of all pairs of layers, (L, L), as an image, negative ones with a line."""
    count = len(pairs)
    size = (float(np.nanmax(np.abs(pairs))) if count > 1 else 1.0) or 1.0
    extent = (0.5, count + 0.5, count + 0.5, 0.5)
    image = axes.imshow(pairs, extent=extent, cmap=GAINS, vmin=-size, vmax=size)
    # Colour is not the only sign: pairs below zero carry a line.
    down, right = np.nonzero(pairs < -0.08 * size)
    axes.plot(right + 1, down + 1, linestyle="none", marker="_", markersize=5, color=INK)
    axes.grid(visible=False)
    axes.set(xticks=np.arange(1, count + 1), yticks=np.arange(1, count + 1), xlabel="layer", ylabel="layer")
    axes.set_title("Interaction of two layers (a line: below 0)")
    return image


def mask_choices(game: LayerGame) -> Table:
    """Masks chosen on the first half of the examples, judged on the other, with the gap to the best mask."""
    columns = {
        "choice": "mask",
        "layers": "bypassed",
        "chosen": "r where chosen",
        "judged": "r on the other half",
        "gap": "below the best",
    }
    rows = [{**row, "chosen": row["chosen"].mean} for row in game.choices()]
    return table(rows, columns=columns, caption=f"{game.caption}; chosen on the first half", digits=3)


# -- layer by layer along a path ----------------------------------------------------------------------


def layer_gains(run: TextRun, *, path: str = "back-to-front") -> xr.Dataset:
    """The gain in mean r from bypassing each layer along a path, under every choice (Pearson only).

    Along the two paths of several steps the gain of a layer is r with it bypassed minus r one step before;
    alone ("single"), r with this layer bypassed minus AttnLRP's.

    Returns
    -------
    Dataset
        With the axes site, tokens, map, removal and target: `gains`, an interval per layer from 1 on;
        `total`, their sum; `later - first`, the gain of the later half of the layers minus that of the first
        half; `share`, the later half's fraction of the total, only where the total's whole interval is on one
        side of 0, else None; `largest`, the layer with the largest gain, and `largest in draws`, the fraction
        of the draws in which it is the largest. Intervals are over the examples where every step is defined.
    """
    needs_text("layer_gains", run)
    needs_masks("layer_gains", run)
    choose("layer_gains", "path", path, tuple(path_masks(run.layers)))
    return run.once(("layer gains", path), lambda: _layer_gains(run, path))


def _layer_gains(run: TextRun, path: str) -> xr.Dataset:
    masks = {mask_label(mask): mask for mask in [NONE, *path_masks(run.layers)[path]]}
    r = r_with_loo(run, masks, map=DISTINCT, statistic="pearson")
    r = r.where(r.notnull().all("explainer")).transpose("example", ..., "explainer")
    mean, draws, defined = resampled(r.values.reshape(run.n, -1))  # one set of draws for all
    steps = range(0, len(mean), len(masks))
    both = (np.concatenate([mean[None, k : k + len(masks)], draws[:, k : k + len(masks)]]) for k in steps)
    rows = [_gains(one, path, int(defined[k]), run.n) for one, k in zip(both, steps, strict=True)]
    coords = {name: r.coords[name].values for name in r.dims[1:-1]}
    cells = {name: np.empty(len(rows), dtype=object) for name in rows[0]}
    for name, column in cells.items():
        for k, row in enumerate(rows):
            column[k] = row[name]
    return xr.Dataset({name: (list(coords), x.reshape(r.shape[1:-1])) for name, x in cells.items()}, coords)


def _gains(both: np.ndarray, path: str, n: int, examples: int) -> dict[str, Any]:
    """A cell of `layer_gains` from mean r at each step of a path and from its draws, (1 + draws, steps)."""
    gains = both[:, 1:] - (both[:, :1] if path == "single" else both[:, :-1])
    if path == "back-to-front":
        gains = gains[:, ::-1]
    layers = gains.shape[1]
    total, later = gains.sum(1), gains[:, layers // 2 :].sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = np.column_stack([gains, total, 2 * later - total, later / total])
    ends = zip(columns[0].tolist(), *limits(columns[1:]).tolist(), strict=True)
    *of_layers, whole, halves, share = (
        Interval(mean, low, high, n, examples - n) for mean, low, high in ends
    )
    top = int(gains[0].argmax())
    return {
        "gains": tuple(of_layers),
        "total": whole,
        "later - first": halves,
        "share": share if side_of_zero(whole) in ("above", "below") else None,
        "largest": top + 1 if n else None,
        "largest in draws": float((gains[1:].argmax(1) == top).mean()) if n > 1 else None,
    }


def gain_under(gains: xr.Dataset, protocol: Protocol) -> dict[str, Any]:
    """The cell of `layer_gains` under a protocol, whose statistic is not used."""
    cell = gains.sel({name: getattr(protocol, str(name)) for name in gains.dims})
    return {str(name): value.item() for name, value in cell.items()}


@mpl.rc_context(LOOK)
def gain_map(gains: xr.Dataset, *, title: str) -> Drawing:
    """Draw the gain in mean r of each layer under each site, token choice and map; LOO is of the logit, by
    the attention mask.

    A number is printed where the whole interval lies on one side of 0 and two decimals show it.
    """
    chosen = gains.sel(removal="attention-mask", target="logit").stack(cell=CELL)
    lines = chosen["gains"].values.tolist()
    values = np.array([[gain.mean for gain in line] for line in lines])
    words = {name: options for name, (_, options) in AXIS_LABELS.items()}
    words["site"] = {"word": "words", "word+position": "words + pos.", "embedding": "embedding"}
    words["tokens"] = {"all": "all", "no-special": "no special"}
    cells = chosen["cell"].values.tolist()
    names = [", ".join(words[name][k] for name, k in zip(CELL, cell, strict=True)) for cell in cells]
    best = "; ".join(map("{}: layer {}".format, names, chosen["largest"].values))
    alt = f"{title}. Layer with the largest gain in r by protocol: {best}."
    figure, (axes,) = drawing(alt, height=1.3 + 0.26 * len(lines))
    largest = float(np.nanmax(np.abs(values))) or 1.0
    image = axes.imshow(values, cmap=GAINS, vmin=-largest, vmax=largest, aspect="auto")
    for k, line in enumerate(lines):
        for j, gain in enumerate(line):
            if (gain.low > 0 or gain.high < 0) and abs(gain.mean) >= 0.005:
                text = f"{gain.mean:+.2f}".replace("+0.", "+.").replace("-0.", "−.")
                axes.text(j, k, text, ha="center", va="center", fontsize=7.5 if len(line) > 8 else 9)
    axes.set_xticks(range(values.shape[1]), [str(j + 1) for j in range(values.shape[1])])
    axes.set_yticks(range(len(lines)), names)
    axes.grid(visible=False)
    axes.set_xlabel("layer")
    bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.6, aspect=40)
    bar.set_label("gain in mean r")
    bar.outline.set_edgecolor(RULE)
    headline(figure, title)
    return figure


def late_table(paths: Mapping[str, xr.Dataset], *, title: str) -> Table:
    """In how many cells of the `layer_gains` of each path the later half gains more, by path and tokens."""
    rows = []
    for path, gains in paths.items():
        for tokens in gains["tokens"].values.tolist():
            of_tokens = gains.sel(tokens=tokens)
            later, total = (side(of_tokens[name]).values for name in ("later - first", "total"))
            words = f"{path.replace('-', ' ')}; {AXIS_LABELS['tokens'][1][tokens]}"
            row: dict[str, Any] = {"path; tokens that count": words, "cells": later.size}
            heads = {"above": "later > first", "across": "open", "below": "first > later"}
            row |= {head: np.sum(later == at) for at, head in heads.items()}
            row |= {"r rises": np.sum(total == "above"), "r falls": np.sum(total == "below")}
            rows.append({**row, "rises, later > first": np.sum((later == "above") & (total == "above"))})
    caption = f"{title}: cells (site, map, removal, output; Pearson) by where the whole 95 % interval lies"
    return table(rows, caption=caption)
