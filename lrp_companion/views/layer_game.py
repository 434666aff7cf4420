"""All masks of the layers at a glance: r by how many layers are bypassed, Shapley values and interactions of
layers, a table of choices.
"""

from __future__ import annotations

import textwrap

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator

from lrp_companion.analysis.layer_game import LayerGame
from lrp_companion.views.canvas import LOOK, Drawing, drawing
from lrp_companion.views.palette import INK, QUIET, Style, diverging_map, styles
from lrp_companion.views.tables import Table, table

GREEDY = Style("greedy", "#6b4fa0", "p", (0, (2, 1)))
WALKS = ("front-to-back", "back-to-front", "greedy")


@mpl.rc_context(LOOK)
def layer_game_figure(game: LayerGame, *, title: str | None = None) -> Drawing:
    """Draw three panels: mean r of all masks by the number of bypassed layers with paths through them,
    Shapley values, interactions.

    Parameters
    ----------
    game : made by `layer_game`. Bars of Shapley values carry their 95 % intervals where the rows of examples
        are there.
    """
    values, shapley, pairs = game.means["all"], game.shapley(), game.interactions()
    layers = np.arange(1, game.layers + 1)
    top = int(np.argmax([one.mean for one in shapley]))
    alt = (
        f"{title + '. ' if title else ''}Mean r with LOO of all {len(values):,} masks, from {values.min():.2f} to "
        f"{values.max():.2f}; AttnLRP {values[0]:.2f}, CP-LRP {values[-1]:.2f}. "
        f"Largest Shapley value: layer {top + 1}, {shapley[top].mean:.3f}."
    )
    figure, (cloud, bars, heat) = drawing(alt, rows=3, height=8.4, height_ratios=[1.25, 1.0, 1.35])
    counts = np.bitwise_count(np.arange(len(values)))
    groups = [values[counts == count] for count in range(game.layers + 1)]
    cloud.fill_between(
        range(game.layers + 1),
        [min(g) for g in groups],
        [max(g) for g in groups],
        color=QUIET,
        alpha=0.18,
        linewidth=0,
        label="all masks",
    )
    for name, path in game.paths().items():
        if name in WALKS:
            look = GREEDY if name == "greedy" else styles([name])[name]
            cloud.plot(
                range(len(path)),
                values[path],
                color=look.colour,
                marker=look.marker,
                linestyle=look.dash,
                label=look.label,
            )
    cloud.set_title("All masks")
    cloud.set_xlabel("number of bypassed layers")
    cloud.set_ylabel("mean r with LOO")
    cloud.xaxis.set_major_locator(MaxNLocator(integer=True))
    cloud.legend(loc="best")

    bars.bar(layers, [one.mean for one in shapley], color=styles(["attnlrp"])["attnlrp"].colour, width=0.7)
    for layer, one in zip(layers, shapley, strict=True):
        if not np.isnan(one.low):
            bars.plot([layer, layer], [one.low, one.high], color=INK, linewidth=1.4)
    bars.axhline(0, color=INK, linewidth=0.9)
    bars.grid(visible=False, axis="x")
    bars.set_title("Shapley value of bypassing a layer")
    bars.set_xlabel("layer")
    bars.set_ylabel("r with LOO")
    bars.set_xticks(layers)

    size = float(np.nanmax(np.abs(pairs))) if game.layers > 1 else 1.0
    image = heat.imshow(
        pairs,
        cmap=diverging_map(),
        vmin=-(size or 1.0),
        vmax=size or 1.0,
        extent=(0.5, game.layers + 0.5, game.layers + 0.5, 0.5),
    )
    down, right = np.nonzero(pairs < -0.08 * size)
    heat.plot(
        right + 1, down + 1, linestyle="none", marker="_", markersize=5, color=INK
    )  # the sign does not hang on the colour
    heat.grid(visible=False)
    heat.set_xticks(layers)
    heat.set_yticks(layers)
    heat.set_title("Interaction of two layers (a line: below 0)")
    heat.set_xlabel("layer")
    heat.set_ylabel("layer")
    figure.colorbar(image, ax=heat)
    if title:
        figure.suptitle(textwrap.fill(title, 48), fontweight="bold")
    return figure


def mask_choices(game: LayerGame, *, chosen_on: str = "first half") -> Table:
    """Masks chosen on one half of the examples and judged on the other, with how far each stays behind the
    best mask.
    """
    columns = {
        "choice": "mask",
        "layers": "bypassed",
        "chosen": "r where chosen",
        "judged": "r on the other half",
        "gap": "below the best",
    }
    rows = [{**row, "chosen": row["chosen"].mean} for row in game.choices(chosen_on=chosen_on)]
    return table(rows, columns=columns, caption=f"{game.caption}; chosen on the {chosen_on}", digits=3)
