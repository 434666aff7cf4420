"""Figures on dark pages: colours, files, and which of the two a page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lrp_book.sphinx.dark_figures import PAGE, dark, srgb_to_oklab, write_dark
from PIL import Image

from lrp_companion.registry import METHODS
from lrp_companion.show.canvas import drawing
from lrp_companion.show.palette import INK, QUIET, SPARE, STYLES, oklab_to_srgb


def rgb(colour: str) -> np.ndarray:
    return np.array([[int(colour[k : k + 2], 16) for k in (1, 3, 5)]])


def light(colours: np.ndarray) -> np.ndarray:
    part = colours / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def contrast(colours: np.ndarray) -> np.ndarray:
    return (light(dark(colours)) + 0.05) / (light(np.array([PAGE])) + 0.05)


def test_oklab_and_back() -> None:
    colours = np.random.default_rng(0).random((200, 3))
    np.testing.assert_allclose(oklab_to_srgb(*srgb_to_oklab(colours)), colours, atol=1e-4)


def test_white_is_the_page_and_ink_can_be_read() -> None:
    assert dark(rgb("#ffffff")).tolist() == [list(PAGE)]
    assert contrast(rgb(INK))[0] > 12 and contrast(rgb(QUIET))[0] > 4.5


def test_every_line_can_be_told_from_the_page() -> None:
    styles = [*STYLES.values(), *(method.style for method in METHODS.values() if method.style)]
    for colour in {*(style.colour for style in styles), *SPARE}:
        assert contrast(rgb(colour))[0] > 3, colour


def test_hues_stay() -> None:
    for colour in ("#0067a5", "#c44c00", "#00755e"):
        before, after = (srgb_to_oklab(each / 255)[1:, 0] for each in (rgb(colour), dark(rgb(colour))))
        cosine = before @ after / np.linalg.norm(before) / np.linalg.norm(after)
        assert cosine > 0.97, colour


def test_a_file_is_written_beside_the_figure(tmp_path: Path) -> None:
    figure, (axes,) = drawing("a line")
    axes.plot([0, 1], [0, 1], color="#0067a5")
    (tmp_path / "a.png").write_bytes(figure._repr_png_())
    target = write_dark(tmp_path / "a.png")
    before, after = (np.array(Image.open(path).convert("RGB")) for path in (tmp_path / "a.png", target))
    assert target.name == "a-dark.png" and before.shape == after.shape
    assert (after[before.min(-1) == 255] == PAGE).all()


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", ["notebooks/03_bert_layers", "notebooks/06_protocol_audit"])
def test_a_page_shows_the_figure_of_its_mode(name: str, mode: str, html: Path, visit: Any) -> None:
    page = visit((html / f"{name}.html").as_uri(), color_scheme=mode)
    page.wait_for_function("mode => document.documentElement.dataset.theme === mode", arg=mode)
    shown = page.evaluate(
        "[...document.querySelectorAll('article img')].filter(i => i.getClientRects().length).map(i => i.src)"
    )
    figures = [source for source in shown if "_images" in source or "findings" in source]
    assert figures and all(("-dark.png" in source) == (mode == "dark") for source in figures)


def test_every_figure_says_what_it_shows(html: Path) -> None:
    """No text alternative is a file's name; one sentence or more."""
    for page in sorted((html / "notebooks").glob("*.html")):
        for tag in re.findall(r"<img\b[^>]*_images/[^>]*>", page.read_text(encoding="utf-8")):
            (alt,) = re.findall(r'\balt="([^"]*)"', tag)
            assert len(alt) > 40 and ".png" not in alt and " " in alt, (page.name, alt)
