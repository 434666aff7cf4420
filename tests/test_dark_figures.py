"""Figures on dark pages: what the filter makes of each colour, by the matrices of its standard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import ROOT

from lrp_companion.registry import METHODS
from lrp_companion.show.palette import INK, QUIET, SPARE, STYLES

PAGE = 18  # grey of the theme's dark pages
SHEET = (ROOT / "lrp_companion/page/static/pages.css").read_text(encoding="utf-8")
((INVERTED, TURNED),) = re.findall(r"filter: invert\(([\d.]+)\) hue-rotate\((\d+)deg\);", SHEET)
HALF_TURN = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])


def dark(colours: np.ndarray) -> np.ndarray:
    """Filter Effects Module Level 1: `invert` and `hue-rotate(180deg)` in sRGB."""
    assert TURNED == "180"
    inverted = float(INVERTED) + (1 - 2 * float(INVERTED)) * colours / 255
    return np.clip(inverted @ HALF_TURN.T, 0, 1) * 255


def rgb(colour: str) -> np.ndarray:
    return np.array([[int(colour[k : k + 2], 16) for k in (1, 3, 5)]])


def light(colours: np.ndarray) -> np.ndarray:
    part = colours / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def contrast(colours: np.ndarray) -> np.ndarray:
    return (light(dark(colours)) + 0.05) / (light(np.array([[PAGE] * 3])) + 0.05)


def test_white_is_the_page_and_ink_can_be_read() -> None:
    assert np.rint(dark(rgb("#ffffff"))).tolist() == [[PAGE] * 3]
    assert contrast(rgb(INK))[0] > 12 and contrast(rgb(QUIET))[0] > 4.5


def test_every_line_can_be_told_from_the_page() -> None:
    styles = [*STYLES.values(), *(method.style for method in METHODS.values() if method.style)]
    for colour in {*(style.colour for style in styles), *SPARE}:
        assert contrast(rgb(colour))[0] > 3, colour


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_page_shows_the_figure_of_its_mode(mode: str, html: Path, visit: Any) -> None:
    page = visit((html / "notebooks/06_protocol_audit.html").as_uri(), color_scheme=mode)
    page.wait_for_function("mode => document.documentElement.dataset.theme === mode", arg=mode)
    shown = page.evaluate(
        "[...document.querySelectorAll('article img')].filter(i => i.getClientRects().length).map(i => i.src)"
    )
    figures = [source for source in shown if "_images" in source]
    assert figures and len(figures) == len(set(figures))
    said = page.evaluate("getComputedStyle(document.querySelector('article img[src*=_images]')).filter")
    assert ("invert" in said) == (mode == "dark")


def test_every_figure_says_what_it_shows(html: Path) -> None:
    """No text alternative is a file's name; one sentence or more."""
    for page in sorted((html / "notebooks").glob("*.html")):
        for tag in re.findall(r"<img\b[^>]*_images/[^>]*>", page.read_text(encoding="utf-8")):
            (alt,) = re.findall(r'\balt="([^"]*)"', tag)
            assert len(alt) > 40 and ".png" not in alt and " " in alt, (page.name, alt)
