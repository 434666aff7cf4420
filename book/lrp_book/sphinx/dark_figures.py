"""Sphinx extension: every figure of the book a second time, in the colours of the dark pages.

A figure is drawn once, on white. Its dark form keeps every hue and reverses the order of lightness, in OKLab
(Ottosson 2020), so that white becomes the page, ink becomes text, and two colours that are far apart stay so.
A page loads the one that it shows. The text alternative that a figure carries in its file is put beside it.
"""

from __future__ import annotations

import html
import re
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx

from lrp_companion.show.palette import INK, oklab_to_srgb

PAGE, TEXT = (18, 18, 18), 0.92
"""The colour of the theme's dark pages, and the lightness of what is drawn in ink."""
FIGURE = re.compile(
    r'<img\b(?P<before>[^>]*?)\bsrc="(?P<folder>(?:\.\./)*_(?:images|static)/)(?P<name>[\w.-]+)\.png"'
    r"(?P<after>[^>]*)>"
)
ALT = re.compile(r'\balt="[^"]*"')
SUFFIX = "-dark"


def dark(colours: np.ndarray) -> np.ndarray:
    """Colours on the dark page: white becomes the page, ink becomes text, hues stay.

    Parameters
    ----------
    colours : sRGB from 0 to 255, shape (n, 3).

    Returns
    -------
    numpy.ndarray
        uint8, (n, 3).

    >>> dark(np.array([[255, 255, 255]])).tolist()
    [[18, 18, 18]]
    """
    light, a, b = srgb_to_oklab(np.asarray(colours, dtype=np.float64) / 255)
    page = srgb_to_oklab(np.array([PAGE]) / 255)[:, 0]
    ink = srgb_to_oklab(np.array([[int(INK[k : k + 2], 16) for k in (1, 3, 5)]]) / 255)[0, 0]
    slope = (TEXT - page[0]) / (1 - ink)
    lifted = np.minimum(page[0] + (1 - light) * slope, 0.97)
    # What is nearly white takes the page's own tint.
    tinted = np.clip(light, 0, 1) ** 8
    mixed = oklab_to_srgb(lifted, a + page[1] * tinted, b + page[2] * tinted)
    return np.rint(np.clip(mixed, 0, 1) * 255).astype(np.uint8)


def srgb_to_oklab(colours: np.ndarray) -> np.ndarray:
    """Colours from sRGB, 0 to 1, shape (..., 3), to OKLab: lightness, a and b, shape (3, ...).

    >>> srgb_to_oklab(np.ones(3)).round(3).tolist()
    [1.0, 0.0, 0.0]
    """
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    red, green, blue = np.moveaxis(linear, -1, 0)
    long = np.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    medium = np.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = np.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return np.stack(
        [
            0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
            1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
            0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
        ]
    )


def write_dark(picture: Path) -> Path:
    """Write a figure's dark form next to it; return its path."""
    image: Image.Image = Image.open(picture)
    if image.mode != "P":
        image = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    palette = np.array(image.getpalette("RGB") or [], dtype=np.uint8).reshape(-1, 3)
    image.putpalette(dark(palette).ravel().tolist(), "RGB")
    target = picture.with_name(f"{picture.stem}{SUFFIX}.png")
    image.save(target, format="PNG", optimize=True)
    return target


def described(picture: Path) -> str:
    """What a figure says of itself (`show.canvas`), or "" if it says nothing."""
    with Image.open(picture) as image:
        return str(getattr(image, "text", {}).get("Description", ""))


def show_both(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Put a figure's dark form after it in a page, each shown on its own kind of page."""
    pictures: set[str] = app.env.__dict__.setdefault("companion_figures", set())
    sources = {name: Path(app.srcdir, source) for source, name in app.builder.images.items()}

    def both(match: re.Match[str]) -> str:
        folder = PurePosixPath(match["folder"]).name
        pictures.add(f"{folder}/{match['name']}.png")
        name = f"{match['folder']}{match['name']}"
        before, after = match["before"], match["after"]
        source = sources.get(f"{match['name']}.png")
        if source is not None and (told := described(source)):
            alt = f'alt="{html.escape(told, quote=True)}"'
            before, after = (ALT.sub(lambda _: alt, part) for part in (before, after))
        light = f'<img class="only-light"{before}src="{name}.png"{after}>'
        return f'{light}<img class="only-dark" loading="lazy"{before}src="{name}{SUFFIX}.png"{after}>'

    if "body" in context:
        context["body"] = FIGURE.sub(both, context["body"])


def write_all(app: Sphinx, error: Exception | None) -> None:
    """Write the dark forms of all figures that pages show."""
    for name in sorted(app.env.__dict__.get("companion_figures", ())) if error is None else ():
        write_dark(Path(app.outdir, name))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension (called by Sphinx)."""
    app.connect("html-page-context", show_both, priority=950)
    app.connect("build-finished", write_all)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
