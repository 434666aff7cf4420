"""The colours, markers and dashes of every view.

Colour is never the only sign: methods differ in marker and dash, positive and negative in a line or a
direction. NumPy only, so that the terminal needs no plotting library. Everything is drawn on white, which
reads on light and dark pages alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from lrp_companion.registry import Style, label_of, method_named

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

INK, QUIET, RULE = "#1b1b1b", "#595959", "#c9c9c9"  # text, quiet text (7:1 on white), hairlines
# OKLab lightness at 0 and at +-1: ink on any of the colours has a contrast above 4.5:1.
LIGHTEST, DARKEST = 0.985, 0.64
ORANGE, BLUE = (0.155, 55.0), (0.14, 250.0)  # chroma and hue in degrees at +1 and at -1


STYLES = {
    "left": Style("left", "#30616b", "D", "-"),
    "right": Style("right", "#a8216b", "X", (0, (3, 1.5))),
    "flat": Style("equal shares", "#6e5a00", "P", (0, (4, 1.5, 1, 1.5))),
    "front-to-back": Style("front to back", "#30616b", "o", "-"),
    "back-to-front": Style("back to front", "#a8216b", "s", "-"),
    "single": Style("single layer", "#8a5d00", "^", "-"),
}
"""How groupings and paths are drawn; methods say how they are in `lrp_companion.registry`."""
SPARE = ("#30616b", "#a8216b", "#6a6a6a", "#6e5a00", "#8a4b3d", "#1b1b1b")
"""Hues for what is neither relevance, whose are red-orange and blue, nor a method: data, models, words."""


def styles(names: Iterable[str]) -> dict[str, Style]:
    """Return the style of each name: that of a known method or path, or the next spare one.

    >>> styles(["loo", "mine"])["loo"].label, styles(["loo", "mine"])["mine"].label
    ('LOO', 'mine')
    """
    out: dict[str, Style] = {}
    spare = 0
    for name in dict.fromkeys(names):
        style = STYLES.get(name) or method_named(name).style
        if style is None:
            dash = (0, (5, 1 + spare % 3))
            style = Style(label_of(name), SPARE[spare % len(SPARE)], "Pp*hd<"[spare % 6], dash)
            spare += 1
        out[name] = style
    return out


def diverging(values: Any) -> np.ndarray:
    """Colours of numbers in [-1, 1]: blue below 0, white at 0, orange above; numbers outside are clipped.

    Lightness falls in equal steps with |value|, on both sides alike, so order and size survive in grey (but
    not the sign: views show it by a line or a direction as well). Colours are mixed in OKLab (Ottosson 2020).
    Values of any shape give sRGB in [0, 1], shape (..., 3); NaN is grey.

    >>> hexes([-1, 0, 1])
    ['#3f90dd', '#fafafa', '#d16e0d']
    """
    clipped = np.clip(np.asarray(values, dtype=np.float64), -1, 1)
    size = np.abs(np.nan_to_num(clipped))
    chroma, hue = (np.where(clipped >= 0, warm, cold) for warm, cold in zip(ORANGE, BLUE, strict=True))
    light = np.where(np.isnan(clipped), 0.8, LIGHTEST + (DARKEST - LIGHTEST) * size)
    angle = np.deg2rad(hue)
    return oklab_to_srgb(light, chroma * size * np.cos(angle), chroma * size * np.sin(angle))


def hexes(values: Any) -> list[str]:
    """Return `diverging(values)` as a list of `#rrggbb`."""
    colours = diverging(np.ravel(values))
    return ["#" + "".join(f"{round(255 * channel):02x}" for channel in colour) for colour in colours]


def diverging_map() -> Colormap:
    """The same colours as a matplotlib colour map, for images drawn with `vmin=-m, vmax=m`."""
    from matplotlib.colors import ListedColormap  # only views that draw need it

    colours = ListedColormap(diverging(np.linspace(-1, 1, 257)), name="lrp-diverging")
    return colours.with_extremes(bad=hexes(np.nan)[0])


def oklab_to_srgb(light: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Colours from OKLab to sRGB, 0 to 1, shape (..., 3); what no screen shows is clipped."""
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = np.stack(
        [
            4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
        ],
        axis=-1,
    ).clip(0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
