"""A product of scalars as the tree that computes it, with its relevance (the paper's Figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from lrp_companion.show.canvas import (
    FIGURE_WIDTH,
    LOOK,
    Drawing,
    Name,
    drawing,
    headline,
    label_points,
    settle,
)
from lrp_companion.show.palette import INK, QUIET, SPARE, hexes
from lrp_companion.toys.product import Grouping, Product, write

ARROW = {"arrowstyle": "-|>", "color": QUIET, "linewidth": 1.2, "shrinkA": 15, "shrinkB": 15}


@mpl.rc_context(LOOK)
def product_figure(products: Mapping[str, Product], *, title: str | None = None) -> Drawing:
    """Draw each product as a tree: factors below, the output on top, each node with value and relevance.

    Parameters
    ----------
    products : panel title to product. Shading shows a node's relevance relative to the output's.
    """
    alt = " ".join(f"{name}: {'; '.join(map(str, product.steps()))}." for name, product in products.items())
    count = max(len(product.values) for product in products.values())
    figure, panels = drawing(
        f"{title + '. ' if title else ''}{alt}",
        columns=len(products),
        height=0.8 + 0.85 * count,
        width=max(FIGURE_WIDTH, 0.8 * count * len(products)),
    )
    for axes, (name, product) in zip(panels, products.items(), strict=True):
        axes.set_axis_off()
        _node(axes, product, product.grouping, {step.whole: step for step in product.steps()}, product.value)
        axes.set_title(name, loc="center")
        axes.margins(0.25 / len(product.values) + 0.08, 0.16)
    headline(figure, title)
    return figure


def _node(
    axes: Axes, product: Product, node: Grouping, steps: Mapping[str, Any], relevance: Any
) -> tuple[float, float]:
    """Draw a node above its children; return where it is."""
    if isinstance(node, int):
        x, y, label = float(node), 0.0, f"x{node + 1} = {_short(product.values[node])}"
    else:
        step = steps[write(node)]
        children = [_node(axes, product, child, steps, step.share) for child in node]
        x, y = sum(across for across, _ in children) / len(children), max(up for _, up in children) + 1
        for place in children:
            axes.annotate("", place, (x, y), arrowprops=ARROW)
        top = len(write(node)) == len(write(product.grouping))
        label = f"{'y' if top else write(node)} = {_short(step.value)}"
    share = abs(float(relevance) / float(product.value)) if product.value else 0.0
    colour = hexes([0.9 * share])[0]
    box = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": INK, "linewidth": 0.8}
    axes.text(x, y, f"{label}\nR = {_short(relevance)}", ha="center", va="center", fontsize=9, bbox=box)
    axes.plot([x], [y], alpha=0)  # the limits of the axes follow lines, not text
    return x, y


@mpl.rc_context(LOOK)
def share_dots(
    shares: Sequence[Sequence[Any]], *, labels: Sequence[str], equal: Any, title: str | None = None
) -> Drawing:
    """Draw the shares of every factor, a row of dots per grouping; the vertical line is the equal share."""
    alt = f"{title + '. ' if title else ''}" + " ".join(
        f"{name}: {', '.join(map(str, row))}." for name, row in zip(labels, shares, strict=True)
    )
    figure, (axes,) = drawing(alt, height=1.0 + 0.42 * len(shares))
    count = len(shares[0])
    for k in range(count):
        x = [float(row[k]) for row in shares]
        y = [row + 0.19 * (k - (count - 1) / 2) for row in range(len(shares))]
        look: dict[str, Any] = {"marker": "oDsX^P*v"[k % 8], "color": SPARE[k % len(SPARE)], "s": 34}
        axes.scatter(x, y, label=f"x{k + 1}", zorder=3, **look)
        label_points(axes, [Name(f"x{k + 1}", x[0], y[0], look["color"])])
    axes.axvline(float(equal), color=INK, linestyle=":", linewidth=1.2, label="equal shares")
    label_points(axes, [Name("equal shares", float(equal), len(shares) - 0.6, INK)])
    axes.set_yticks(range(len(shares)), labels)
    axes.set_ylim(len(shares) - 0.4, -0.9)
    axes.set_xlabel("share of the output's relevance")
    axes.set_xlim(left=0)
    headline(figure, title)
    settle(figure)
    return figure


def _short(number: Any) -> str:
    return f"{float(number):.3g}" if isinstance(number, float) else str(number)
