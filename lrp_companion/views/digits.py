"""Maps of pixels beside the digit they explain, and agreement along a line of shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from lrp_companion.metrics import Interval
from lrp_companion.schema import InputError
from lrp_companion.views.canvas import LOOK, Drawing, drawing
from lrp_companion.views.palette import INK, STYLES, diverging_map


@mpl.rc_context(LOOK)
def digit_maps(
    images: Any,
    maps: Mapping[str, Sequence[Any]],
    *,
    labels: Sequence[str] | None = None,
    title: str | None = None,
) -> Drawing:
    """Draw digits and their maps: one row per image, the digit first, then a column per method.

    Parameters
    ----------
    images : (n, side, side), values in [0, 1].
    maps : column heading to n arrays of side * side scores. Each map is scaled by its own largest size:
        orange is above zero, blue below, and pixels below zero carry a dot, so that the sign does not hang on
        the colour.
    labels : what stands before each row, such as the predicted class.
    """
    pixels = np.asarray(images, dtype=np.float64)
    if (
        pixels.ndim != 3
        or any(len(column) != len(pixels) for column in maps.values())
        or (labels is not None and len(labels) != len(pixels))
    ):
        raise InputError(
            "digit_maps",
            got=f"images of shape {pixels.shape}",
            expected="(n, side, side), with n maps in every column",
            hint="pass the same images to all",
        )
    columns = 1 + len(maps)
    alt = f"{title + '. ' if title else ''}{len(pixels)} digits, each beside its map by {', '.join(maps)}."
    figure, panels = drawing(
        alt,
        rows=len(pixels),
        columns=columns,
        height=0.35 + 0.95 * len(pixels),
        width=max(5.0, 0.95 * columns),
    )
    side = pixels.shape[1]
    for row, image in enumerate(pixels):
        for column, name in enumerate(["digit", *maps]):
            axes = panels[row * columns + column]
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(visible=False)
            if row == 0:
                axes.set_title(name, fontsize=8.5, loc="center")
            if column == 0:
                axes.imshow(image, cmap="gray_r", vmin=0, vmax=1)
                if labels is not None:
                    axes.set_ylabel(labels[row], fontsize=8.5)
                continue
            scores = np.asarray(maps[name][row], dtype=np.float64).reshape(side, side)
            size = np.abs(scores).max() or 1.0
            axes.imshow(scores, cmap=diverging_map(), vmin=-size, vmax=size)
            down, right = np.nonzero(scores < -0.08 * size)
            axes.plot(right, down, linestyle="none", marker=".", markersize=1.6, color=INK)
    if title:
        figure.suptitle(title, fontweight="bold")
    return figure


@mpl.rc_context(LOOK)
def share_line(
    points: Mapping[float, Interval], *, marks: Mapping[str, float], title: str | None = None
) -> Drawing:
    """Draw mean agreement with LOO along a line of shares, with the interval as a band, and name some points
    on it.
    """
    x = np.array(list(points))
    mean, low, high = (
        np.array([getattr(point, part) for point in points.values()]) for part in ("mean", "low", "high")
    )
    best = x[mean.argmax()]
    head = f"{title}. " if title else ""
    ends = f"from {mean[0]:.2f} at share {x[0]:.2f} to {mean[-1]:.2f} at {x[-1]:.2f}"
    alt = f"{head}Mean r with LOO {ends}; largest, {mean.max():.2f}, at {best:.2f}."
    figure, (axes,) = drawing(alt, height=3.0)
    axes.fill_between(x, low, high, color=STYLES["attnlrp"].colour, alpha=0.2, linewidth=0)
    axes.plot(x, mean, color=STYLES["attnlrp"].colour)
    for name, place in marks.items():
        look = STYLES.get(name, STYLES["lrp"])
        height = float(np.interp(place, x, mean))
        axes.plot(place, height, marker=look.marker, color=look.colour, markersize=8, linestyle="none")
        axes.annotate(name, (place, height), (6, -14), textcoords="offset points")
    axes.margins(y=0.12)
    axes.set_xlabel("share of Q")
    axes.set_ylabel("mean r with LOO")
    if title:
        axes.set_title(title)
    return figure
