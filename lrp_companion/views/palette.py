"""The colours, markers and dashes of every view.

Colour is never the only sign: methods differ in marker and dash, positive and negative in a line or a
direction. NumPy only, so that the terminal needs no plotting library. Everything is drawn on white, which
reads on light and dark pages alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

INK, QUIET, RULE = "#1b1b1b", "#595959", "#c9c9c9"  # text, quiet text (7:1 on white), hairlines
LIGHTEST, DARKEST = (
    0.985,
    0.64,
)  # OKLab lightness at 0 and at +-1: ink on any of the colours has a contrast above 4.5:1
ORANGE, BLUE = (0.155, 55.0), (0.14, 250.0)  # chroma and hue in degrees at +1 and at -1


@dataclass(frozen=True)
class Style:
    """How one method or path is drawn and named; `dash` is a matplotlib line style."""

    label: str
    colour: str
    marker: str
    dash: Any


STYLES = {
    "loo": Style("LOO", "#1b1b1b", "o", "-"),
    "ig": Style("IG", "#946500", "^", (0, (6, 2))),
    "gradient-x-input": Style("gradient x input", "#8a4b3d", "v", (0, (6, 2, 1, 2))),
    "rollout": Style("rollout", "#6a6a6a", "s", (0, (1, 1.5))),
    "attnlrp": Style("AttnLRP", "#0067a5", "D", "-"),
    "cp-lrp": Style("CP-LRP", "#c44c00", "X", (0, (3, 1.5))),
    "pa-lrp": Style("PA-LRP", "#00755e", "P", (0, (4, 1.5, 1, 1.5))),
    "lrp": Style("LRP", "#6b4fa0", "p", (0, (2, 1))),
    "mask-gradient": Style("mask gradient", "#a8216b", "*", (0, (8, 2))),
    "hybrid": Style("hybrid", "#3d6b1f", "h", (0, (5, 1, 1, 1, 1, 1))),
    "sampled-loo": Style("sampled LOO", "#30616b", "d", (0, (1, 3))),
    "left": Style("left", "#0067a5", "D", "-"),
    "right": Style("right", "#c44c00", "X", (0, (3, 1.5))),
    "flat": Style("flat", "#00755e", "P", (0, (4, 1.5, 1, 1.5))),
    "front-to-back": Style("front to back", "#0067a5", "o", "-"),
    "back-to-front": Style("back to front", "#c44c00", "s", "-"),
    "single": Style("single layer", "#00755e", "^", "-"),
}
SPARE = ("#6b4fa0", "#a8216b", "#946500", "#00755e", "#0067a5", "#c44c00")


def styles(names: Iterable[str]) -> dict[str, Style]:
    """Return the style of each name: its own for what the package knows, one of the spare ones for the rest,
    in order.

    >>> styles(["loo", "mine"])["loo"].label, styles(["loo", "mine"])["mine"].label
    ('LOO', 'mine')
    """
    out: dict[str, Style] = {}
    for name in names:
        spare = sum(known not in STYLES for known in out)
        out[name] = STYLES.get(name) or Style(
            name, SPARE[spare % len(SPARE)], "Pp*hd<"[spare % 6], (0, (5, 1 + spare % 3))
        )
    return out


def diverging(values: Any) -> np.ndarray:
    """Colours of numbers in [-1, 1]: blue below 0, white at 0, orange above; what lies outside gets the end's
    colour.

    Lightness falls in equal steps with |value|, on both sides alike, so order and size survive in grey (but
    not the sign: views show it by a line or a direction as well). Colours are mixed in OKLab (Ottosson 2020).

    Parameters
    ----------
    values : any shape; NaN is grey.

    Returns
    -------
    ndarray
        sRGB in [0, 1], shape (..., 3).

    >>> hexes([-1, 0, 1])
    ['#3f90dd', '#fafafa', '#d16e0d']
    """
    given = np.clip(np.asarray(values, dtype=np.float64), -1, 1)
    size = np.abs(np.nan_to_num(given))
    chroma, hue = (np.where(given >= 0, warm, cold) for warm, cold in zip(ORANGE, BLUE, strict=True))
    light = np.where(np.isnan(given), 0.8, LIGHTEST + (DARKEST - LIGHTEST) * size)
    angle = np.deg2rad(hue)
    return _oklab_to_srgb(light, chroma * size * np.cos(angle), chroma * size * np.sin(angle))


def hexes(values: Any) -> list[str]:
    """Return `diverging(values)` as a list of `#rrggbb`."""
    return ["#" + "".join(f"{round(255 * part):02x}" for part in rgb) for rgb in diverging(np.ravel(values))]


def diverging_map() -> Colormap:
    """The same colours as a matplotlib colour map, for images drawn with `vmin=-m, vmax=m`."""
    from matplotlib.colors import ListedColormap  # only views that draw need it

    return ListedColormap(diverging(np.linspace(-1, 1, 257)), name="lrp-diverging").with_extremes(
        bad=hexes(np.nan)[0]
    )


def _oklab_to_srgb(light: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
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
