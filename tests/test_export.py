"""Heat maps as files: whole, alone, with the sign beside the colour; text stays text."""

from __future__ import annotations

import io
import json
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lrp_companion.attribution import Attribution
from lrp_companion.show import token_heatmap
from lrp_companion.show.tokens import FORMS

HOSTILE = r"\input{x} 50% $x_1$ & #{~^} <script>alert(1)</script> “ü” 中"
TOKENS = ("[CLS]", *HOSTILE.split(" "), "[SEP]")


MARKS = (
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2060\ufeff\xad\x85\U000e0041"
)


def told(*words: str) -> Attribution:
    """An explanation of these words, between two special tokens."""
    special = [True, *[False] * len(words), True]
    scores = np.linspace(-1, 1, len(words) + 2)
    return Attribution(("[CLS]", *words, "[SEP]"), scores, 1, 2.5, special, "loo")


@pytest.mark.parametrize("ending", [".html", ".svg"])
def test_marks_that_are_not_seen_are_spelled_out(ending: str, tmp_path: Path) -> None:
    record = told(*(f"a{mark}b" for mark in MARKS))
    token_heatmap(record, titles=[f"class {MARKS}"]).save(tmp_path / f"map{ending}")
    text = (tmp_path / f"map{ending}").read_text(encoding="utf-8")
    assert not set(text) & set(MARKS)
    assert text.count("\\u202e") >= 2 and text.count("\\U000e0041") >= 2


def row(method: str, *, seed: int = 0) -> Attribution:
    scores = np.random.default_rng(seed).normal(size=len(TOKENS))
    special = [True, *[False] * (len(TOKENS) - 2), True]
    return Attribution(TOKENS, scores, 1, 2.5, special, method)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One heat map of three methods in every form."""
    folder = tmp_path_factory.mktemp("saved")
    shown = token_heatmap([row("attnlrp"), row("cp-lrp", seed=1)], loo=row("loo", seed=2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for ending in FORMS:
            shown.save(folder / f"map{ending}")
    return folder


def test_json_holds_the_records(folder: Path) -> None:
    rows = json.loads((folder / "map.json").read_text(encoding="utf-8"))
    assert [r.pop("title")[:7] for r in rows] == ["LOO, ta", "attnlrp", "cp-lrp,"]
    assert Attribution.from_dict(rows[1]) == row("attnlrp")


def test_figures_hold_every_token_and_score(folder: Path) -> None:
    svg = ET.parse(folder / "map.svg").getroot()
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    for token, score in zip(TOKENS, row("attnlrp").scores, strict=True):
        assert texts.count(token) == 3 * TOKENS.count(token) and f"{score:+.3f}" in texts
    assert not list(svg.iter("{http://www.w3.org/2000/svg}script"))
    assert (folder / "map.pdf").read_bytes().startswith(b"%PDF")
    image = Image.open(folder / "map.png")
    assert image.size[0] == 1300 and "cp-lrp" in image.text["Description"]


def test_the_sign_does_not_hang_on_colour() -> None:
    """In grey, for and against are told apart: the two columns have their line on opposite sides."""
    drawn = []
    for score in (1.0, -1.0):
        out = FORMS[".png"](token_heatmap(Attribution(("film",), [score], 1, 1.0, [False], "loo")))
        drawn.append(np.asarray(Image.open(io.BytesIO(out)).convert("L"), dtype=int))
    below, above = (set(np.flatnonzero((grey[:, 30:60] < 60).mean(axis=1) > 0.3)) for grey in drawn)
    assert min(below - above) > max(above - below)  # the line of "for" is the lower one


def test_the_page_is_one_file(folder: Path, visit) -> None:
    page = visit((folder / "map.html").as_uri(), offline=True)
    assert page.locator("ol.lrp-tokens").count() == 3
    items = page.locator("ol.lrp-tokens >> nth=1 >> li").all_text_contents()
    assert [item.rsplit(" ", 1)[0] for item in items] == list(TOKENS)
    assert page.locator("script").count() == 0
