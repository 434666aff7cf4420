"""All masks of the layers: r by the number bypassed, Shapley values, interactions, and a table of choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from lrp_book.analysis.layer_game import LayerGame
from lrp_companion.metrics import Interval
from lrp_companion.registry import Style
from lrp_companion.show.canvas import LOOK, Drawing, Name, drawing, headline, label_points, settle
from lrp_companion.show.palette import INK, QUIET, diverging_map, styles
from lrp_companion.show.tables import Table, table

GREEDY = Style("greedy", "#6b4fa0", "p", (0, (2, 1)))
WALKS = ("front-to-back", "back-to-front", "greedy")


@mpl.rc_context(LOOK)
def layer_game_figure(game: LayerGame, *, title: str | None = None) -> Drawing:
    """Draw mean r of all masks by the number of bypassed layers, Shapley values, and interactions.

    Parameters
    ----------
    game : made by `layer_game`. Bars of Shapley values carry their 95 % intervals where the rows of examples
        are there.
    """
    values, shapley = game.means["all"], game.shapley()
    top = int(np.argmax([value.mean for value in shapley]))
    alt = (
        f"{title + '. ' if title else ''}Mean r with LOO of all {len(values):,} masks, "
        f"from {values.min():.2f} to {values.max():.2f}; "
        f"AttnLRP {values[0]:.2f}, CP-LRP {values[-1]:.2f}. "
        f"Largest Shapley value: layer {top + 1}, {shapley[top].mean:.3f}."
    )
    figure, (cloud, bars, heat) = drawing(alt, rows=3, height=8.4, height_ratios=[1.25, 1.0, 1.35])
    _mask_panel(cloud, game)
    _shapley_panel(bars, shapley)
    image = _interaction_panel(heat, game.interactions())
    figure.colorbar(image, ax=heat)
    headline(figure, title)
    settle(figure)
    return figure


def _mask_panel(axes: Axes, game: LayerGame) -> None:
    """The range of mean r over the masks with so many bypassed layers, and paths through them."""
    values = game.means["all"]
    sizes = np.bitwise_count(np.arange(len(values)))
    groups = [values[sizes == size] for size in range(game.layers + 1)]
    low, high = [group.min() for group in groups], [group.max() for group in groups]
    band: dict[str, Any] = {"color": QUIET, "alpha": 0.18, "linewidth": 0, "label": "all masks"}
    axes.fill_between(range(game.layers + 1), low, high, **band)
    names = [Name("all masks", game.layers / 2, (low[game.layers // 2] + high[game.layers // 2]) / 2, QUIET)]
    for name, path in game.paths().items():
        if name in WALKS:
            style = GREEDY if name == "greedy" else styles([name])[name]
            look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "linestyle": style.dash}
            axes.plot(range(len(path)), values[path], label=style.label, **look)
            middle = {"greedy": 1, "front-to-back": 2}.get(name, 1) * game.layers // 3
            names.append(Name(style.label, middle, values[path][middle], style.colour))
    axes.set_title("All masks")
    axes.set_xlabel("number of bypassed layers")
    axes.set_ylabel("mean r with LOO")
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
    axes.set_title("Shapley value of bypassing a layer")
    axes.set_xlabel("layer")
    axes.set_ylabel("r with LOO")
    axes.set_xticks(layers)


def _interaction_panel(axes: Axes, pairs: np.ndarray) -> AxesImage:
    """The interactions of all pairs of layers, (L, L), as an image, negative ones with a line."""
    count = len(pairs)
    size = float(np.nanmax(np.abs(pairs))) if count > 1 else 1.0
    extent = (0.5, count + 0.5, count + 0.5, 0.5)
    colours: dict[str, Any] = {"cmap": diverging_map(), "vmin": -(size or 1.0), "vmax": size or 1.0}
    image = axes.imshow(pairs, extent=extent, **colours)
    # Colour is not the only sign: pairs below zero carry a line.
    down, right = np.nonzero(pairs < -0.08 * size)
    axes.plot(right + 1, down + 1, linestyle="none", marker="_", markersize=5, color=INK)
    axes.grid(visible=False)
    axes.set_xticks(np.arange(1, count + 1))
    axes.set_yticks(np.arange(1, count + 1))
    axes.set_title("Interaction of two layers (a line: below 0)")
    axes.set_xlabel("layer")
    axes.set_ylabel("layer")
    return image


def mask_choices(game: LayerGame, *, chosen_on: str = "first half") -> Table:
    """Masks chosen on one half of the examples and judged on the other, with the gap to the best mask."""
    columns = {
        "choice": "mask", "layers": "bypassed", "chosen": "r where chosen",
        "judged": "r on the other half", "gap": "below the best",
    }  # fmt: skip
    rows = [{**row, "chosen": row["chosen"].mean} for row in game.choices(chosen_on=chosen_on)]
    return table(rows, columns=columns, caption=f"{game.caption}; chosen on the {chosen_on}", digits=3)
