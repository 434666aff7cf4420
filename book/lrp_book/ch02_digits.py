"""Digits next to the maps that explain them, and agreement along a line of shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.axes import Axes

from lrp_companion.arrays import real_array
from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError
from lrp_companion.lab.digit_invariance import EXPLAINERS, NET_VARIANTS, RAW, invariance_table, train_pair
from lrp_companion.metrics import Interval, agreement, bootstrap_mean
from lrp_companion.show.canvas import FIGURE_WIDTH, LOOK, Drawing, drawing, headline, limits
from lrp_companion.show.palette import INK, STYLES, diverging_map, styles
from lrp_companion.sources.dataset import Dataset
from lrp_companion.toys.linear_attention import LinearAttention


@mpl.rc_context(LOOK)
def digit_maps(
    images: Any,
    maps: Mapping[str, Sequence[Any]],
    *,
    labels: Sequence[str] | None = None,
) -> Drawing:
    """Draw digits and their maps: one row per image, the digit first, then a column per method.

    Parameters
    ----------
    images : (n, side, side), values in [0, 1].
    maps : column heading to n arrays of side * side scores. Each map is scaled by its largest |score|: orange
        is above zero, blue below. Pixels below zero carry a dot, so that colour is not the only sign.
    labels : the text in front of each row, such as the predicted class.
    """
    pixels = real_array("digit_maps", "images", images)
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
    figure, panels = drawing(
        f"{len(pixels)} digits, each next to its map by {', '.join(maps)}.",
        rows=len(pixels),
        columns=columns,
        height=0.35 + FIGURE_WIDTH / columns * len(pixels),
    )
    for axes in panels:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.grid(visible=False)
    for axes, name in zip(panels, ["digit", *maps], strict=False):
        axes.set_title(name, fontsize=9, loc="center")
    for row, image in enumerate(pixels):
        first, *rest = panels[row * columns : (row + 1) * columns]
        first.imshow(image, cmap="gray_r", vmin=0, vmax=1)
        if labels is not None:
            first.set_ylabel(labels[row], fontsize=9)
        for axes, scores in zip(rest, maps.values(), strict=True):
            _map(axes, real_array("digit_maps", "a map", scores[row]).reshape(image.shape))
    return figure


def _map(axes: Axes, scores: np.ndarray) -> None:
    """One map, with a dot on every pixel that is clearly below zero."""
    largest = np.abs(scores).max() or 1.0
    axes.imshow(scores, cmap=diverging_map(), vmin=-largest, vmax=largest)
    down, right = np.nonzero(scores < -0.08 * largest)
    axes.plot(right, down, linestyle="none", marker=".", markersize=1.6, color=INK)


@mpl.rc_context(LOOK)
def share_line(
    points: Mapping[float, Interval], *, marks: Mapping[str, float], title: str | None = None
) -> Drawing:
    """Draw mean agreement with LOO along a line of shares, with its interval, and name some points on it."""
    x = np.array(list(points))
    mean, low, high = limits(points.values())
    best = x[mean.argmax()]
    head = f"{title}. " if title else ""
    ends = f"from {mean[0]:.2f} at share {x[0]:.2f} to {mean[-1]:.2f} at {x[-1]:.2f}"
    alt = f"{head}Mean r with LOO {ends}; largest, {mean.max():.2f}, at {best:.2f}."
    figure, (axes,) = drawing(alt, height=3.0)
    colour = styles(["attnlrp"])["attnlrp"].colour
    axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, mean, color=colour)
    for name, place in marks.items():
        look = STYLES.get(name) or styles(["lrp"])["lrp"]
        height = float(np.interp(place, x, mean))
        axes.plot(place, height, marker=look.marker, color=look.colour, markersize=8, linestyle="none")
        axes.annotate(
            look.label if name in STYLES else name, (place, height), (6, -14), textcoords="offset points"
        )
    axes.margins(y=0.12)
    axes.set_xlabel("share of Q")
    axes.set_ylabel("mean r with LOO")
    headline(figure, title)
    return figure


def share_curve(
    net: LinearAttention, images: np.ndarray, loo: Sequence[Attribution], *, steps: int = 21
) -> dict[float, Interval]:
    """Mean r with LOO along a line through the simplex of shares: Q receives a, K a quarter, V the rest.

    a goes from 0 to 3/4. Both groupings lie on it: left is a = 1/4, right a = 1/2. The three maps are
    computed once, and every point is a mixture.
    """
    with torch.no_grad():
        shares = net.share_maps(images, [record.target for record in loo])
    maps = {name: scores.cpu().numpy() for name, scores in shares.items()}
    out = {}
    for a in np.linspace(0, 0.75, steps):
        mixed = a * maps["query"] + 0.25 * maps["key"] + (0.75 - a) * maps["value"]
        out[float(a)] = bootstrap_mean(
            [agreement(m, record.scores, record.special, RAW) for m, record in zip(mixed, loo, strict=True)]
        )
    return out


def first_of_each_class(labels: Sequence[int] | np.ndarray) -> list[int]:
    """Return the index of the first image of every class, by class, a choice that depends on no result.

    >>> first_of_each_class([7, 2, 7, 0])
    [3, 1, 0]
    """
    return np.unique(np.asarray(labels), return_index=True)[1].tolist()


def compare_variants(
    train: Dataset,
    test: Dataset,
    *,
    variants: Mapping[str, Mapping[str, Any]] = NET_VARIANTS,
    seed: int = 0,
    device: str = "cpu",
    progress: bool | None = None,
) -> list[dict[str, Any]]:
    """AttnLRP in variants of the paper's nets: one row per variant and map, with accuracy and n."""
    if test.images is None:
        got = f"{test.name}, which has no images"
        raise InputError("compare_variants", got=got, expected="a data set of images", hint="load mnist")
    columns = ("left-right", "left-LOO", "right-LOO", "n", "negative left", "negative right")
    explainers = {"AttnLRP": EXPLAINERS["AttnLRP"]}
    rows = []
    for name, options in variants.items():
        left, _ = train_pair(train, seed=seed, device=device, **options)
        accuracy = left.accuracy(test.images, test.labels)
        result = invariance_table(left, test.images, explainers=explainers, one_loo=True, progress=progress)
        for map in ("raw", "sum-to-one"):
            loo, attnlrp = result.table(map)
            row = {"variant": name, "accuracy": accuracy, "map": map}
            row |= {column: attnlrp[column] for column in columns}
            rows.append(row | {"negative LOO": loo["negative left"]})
    return rows
