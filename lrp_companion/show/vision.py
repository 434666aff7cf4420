"""Explanations of images: patches over the picture."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from lrp_companion.attribution import Attribution
from lrp_companion.checks import InputError, real_array
from lrp_companion.registry import label_of
from lrp_companion.show.canvas import FIGURE_WIDTH, LOOK, Drawing, drawing
from lrp_companion.show.export import write
from lrp_companion.show.palette import INK, diverging_map

PATCH = re.compile(r"patch (\d+),(\d+)")
FIGURES = ("png", "svg", "pdf")
FAINT = 0.08
"""Of the largest |score|: below zero by more than this carries a dot."""


def patch_grid(record: Attribution) -> np.ndarray:
    """Scores of the patches of an image as rows and columns; special tokens are left out.

    Raises
    ------
    InputError : a record of something else.

    >>> names = ("[CLS]", "patch 0,0", "patch 0,1")
    >>> patch_grid(Attribution(names, [9.0, 1.0, 2.0], 0, 1.0, [True, False, False], "loo")).tolist()
    [[1.0, 2.0]]
    """
    matches = [
        (PATCH.fullmatch(name), score) for name, score in zip(record.tokens, record.scores, strict=True)
    ]
    places = {(int(match[1]), int(match[2])): score for match, score in matches if match}
    if not places:
        got, hint = f"tokens such as {record.tokens[0]!r}", "explain an image with a model that reads images"
        raise InputError("patch_grid", got=got, expected="a record of an image, with patches", hint=hint)
    rows, columns = (1 + max(place[axis] for place in places) for axis in (0, 1))
    out = np.zeros((rows, columns))
    for place, score in places.items():
        out[place] = score
    return out


@mpl.rc_context(LOOK)
def patch_maps(
    images: Any,
    maps: Mapping[str, Sequence[Attribution]],
    *,
    labels: Sequence[str] | None = None,
    title: str | None = None,
) -> Drawing:
    """Draw images and the scores of their patches over them: one row per image, a column per method.

    Parameters
    ----------
    images : (n, H, W) or (n, C, H, W); each is drawn from its least to its largest value.
    maps : column heading to n records of `attribute`. Each map is scaled by its largest |score| of a patch:
        orange is above zero, blue below. Patches below zero carry a dot, so that colour is not the only sign.
    labels : the text in front of each row, such as the predicted class.

    Raises
    ------
    InputError : records of something else.
    ValueError : another number of records than of images.
    """
    pixels = real_array("patch_maps", "images", images)
    named = zip(labels or [""] * len(pixels), pixels, *maps.values(), strict=True)
    columns = 1 + len(maps)
    head = f"{title}. " if title else ""
    figure, panels = drawing(
        f"{head}{len(pixels)} images, each next to its patches by {', '.join(maps)}.",
        rows=len(pixels),
        columns=columns,
        height=0.35 + 1.2 * len(pixels),
        width=max(FIGURE_WIDTH, 1.2 * columns),
    )
    for axes, name in zip(panels, ["image", *maps], strict=False):
        axes.set_title(name, fontsize=8.5, loc="center")
    for row, (label, image, *records) in enumerate(named):
        ink = _darkness(image)
        first, *rest = panels[row * columns : (row + 1) * columns]
        first.imshow(ink, cmap="gray_r", vmin=0, vmax=1)
        first.set_ylabel(label, fontsize=8.5)
        for axes, record in zip(rest, records, strict=True):
            _over(axes, patch_grid(record), ink)
    for axes in panels:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.grid(visible=False)
    if title:
        figure.suptitle(title, fontweight="bold")
    return figure


def save_map(file: str, record: Attribution, image: Any) -> None:
    """Write one image and its patches as `.png`, `.svg` or `.pdf`; else as `record.save` does."""
    ending = file.lower().rpartition(".")[2]
    if ending not in FIGURES:
        record.save(file)
        return
    drawn = io.BytesIO()
    patch_maps([image], {label_of(record.method): [record]}).savefig(drawn, format=ending)
    write("explain", file, drawn.getvalue())


def _darkness(image: np.ndarray) -> np.ndarray:
    """An image (H, W) or (C, H, W) as one value from 0 to 1 per pixel."""
    plane = image if image.ndim == 2 else image.mean(0)
    spread = np.ptp(plane)
    return (plane - plane.min()) / (spread or 1.0)


def _over(axes: Axes, scores: np.ndarray, ink: np.ndarray) -> None:
    """Scores of patches with the picture drawn over them."""
    (height, width), largest = ink.shape, np.abs(scores).max() or 1.0
    whole: Any = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(scores, cmap=diverging_map(), vmin=-largest, vmax=largest, extent=whole)
    axes.imshow(np.zeros_like(ink), cmap="gray", vmin=0, vmax=1, alpha=0.45 * ink, extent=whole)
    down, right = np.nonzero(scores < -FAINT * largest)
    tall, wide = height / scores.shape[0], width / scores.shape[1]
    x, y = (right + 0.5) * wide - 0.5, (down + 0.5) * tall - 0.5
    axes.plot(x, y, linestyle="none", marker=".", markersize=2.4, color=INK)
