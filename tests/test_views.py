"""Views: no token is ever markup, values are shown in text, figures hold the numbers they were given."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrp_companion.attribution import Attribution
from lrp_companion.metrics import Interval
from lrp_companion.show import table, terminal_table, token_heatmap
from lrp_companion.show.palette import INK, diverging, hexes

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script>",
    "</style>",
    "&amp;",
    "&",
    '" onmouseover="x',
    "שלום",
    "مرحبا",
    "🎬",
    "👩‍👩‍👧",
    "映画",
    "\x1b[31m",
    "\u202eevil",
    "$x^2$",
)
pytestmark = pytest.mark.filterwarnings("error")


class Page(HTMLParser):
    """Elements, their attributes, and the text of each list item and cell of a fragment."""

    VOID = ("br", "img", "hr", "meta", "link", "input")

    def __init__(self, fragment: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.items: list[str] = []
        self.feed(fragment)
        self.close()
        assert not self.open, "elements left open"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("li", "td", "th"):
            self.items.append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"li", "td", "th"} & set(self.open):
            self.items[-1] += data

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def record(tokens, scores, *, special=None, method="loo"):
    return Attribution(
        tuple(tokens), scores, 1, 2.5, special if special is not None else [False] * len(tokens), method
    )


def contrast(colour):
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_sign_is_in_the_hue_and_size_in_equal_steps_of_lightness():
    values = np.linspace(-1, 1, 21)
    colours = diverging(values)
    assert (colours[:10, 2] > colours[:10, 0]).all() and (colours[11:, 0] > colours[11:, 2]).all()
    light = np.array([contrast(c) for c in hexes(values)])
    assert (np.diff(light[:11]) > 0).all() and (np.diff(light[10:]) < 0).all()
    # OKLab's lightness of the two sides is equal by construction; luminance follows it within a few
    # hundredths
    assert np.abs(light - light[::-1]).max() < 0.03
    ink = contrast(INK)
    assert ((light + 0.05) / (ink + 0.05)).min() > 4.5


def test_tokens_are_text_and_never_markup():
    shown = token_heatmap(
        record(HOSTILE, np.linspace(-1, 1, len(HOSTILE))), titles=["<b>bold</b> & more"]
    )._repr_html_()
    page = Page(shown)
    assert {tag for tag, _ in page.elements} == {"div", "style", "p", "ol", "li", "span"}
    assert all(set(attributes) <= {"class", "style", "title", "dir"} for _, attributes in page.elements)
    assert all(not name.startswith("on") for _, attributes in page.elements for name in attributes)
    expected = [t.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e") for t in HOSTILE]
    assert [item.rsplit(" ", 1)[0] for item in page.items] == expected
    assert "\x1b" not in shown and "\u202e" not in shown


@given(st.lists(st.text(max_size=8), min_size=1, max_size=6))
def test_any_text_survives_as_text(tokens):
    heat = token_heatmap(record(tokens, np.arange(len(tokens)) - 1.0))
    page = Page(heat._repr_html_())
    assert len(page.items) == len(tokens)
    assert {tag for tag, _ in page.elements} <= {"div", "style", "p", "ol", "li", "bdi", "span"}
    for text in (
        repr(heat),
        terminal_table(record(tokens, np.arange(len(tokens)) - 1.0), colour=False, width=60),
    ):
        assert "\x1b" not in text and "\r" not in text


def test_scores_are_in_text_and_signs_in_a_line():
    page = Page(
        token_heatmap(
            record(
                ["[CLS]", "good", "bad", "so"], [4.0, 0.5, -0.25, 0.001], special=[True, False, False, False]
            )
        )._repr_html_()
    )
    items = page.named("li")
    assert [item.rsplit(" ", 1)[1] for item in page.items] == ["+4.000", "+0.500", "-0.250", "+0.001"]
    assert [i["class"] for i in items] == ["lrp-for lrp-special", "lrp-for", "lrp-against", ""]
    # scaled by the words: [CLS] and the largest word both have the end's colour
    assert items[0]["style"] == items[1]["style"] == f"background:{hexes(1.0)[0]}"
    assert items[2]["style"] == f"background:{hexes(-0.5)[0]}"


def test_loo_comes_first_and_every_row_tells_its_r():
    loo = record(["[CLS]", "a", "b", "c"], [9.0, 1.0, 2.0, 3.0], special=[True, False, False, False])
    rows = [
        record(loo.tokens, [-9.0, 3.0, 2.0, 1.0], special=loo.special, method="attnlrp"),
        record(loo.tokens, [0.0] * 4, special=loo.special, method="ig"),
    ]
    text = repr(token_heatmap(rows, loo=loo)).splitlines()
    assert text[0] == "LOO, target 1, logit 2.500"
    assert text[2] == "attnlrp, target 1, logit 2.500; r with LOO -1.00"
    assert text[4].endswith("r with LOO undefined")
    assert text[1] == "  [CLS] +9.000  a +1.000  b +2.000  c +3.000"


def test_tables_are_accessible_and_escaped():
    rows = [
        {"method": "<b>x</b>", "r": Interval(0.5, 0.4, 0.6, 9, 2), "paper": None},
        {"method": "y", "r": float("nan"), "paper": 0.25},
    ]
    shown = table(
        rows, columns={"method": "method", "r": "r & more", "paper": "r"}, caption='A "caption" <i>'
    )
    page = Page(shown._repr_html_())
    tags = {"figure", "figcaption", "div", "style", "table", "thead", "tbody", "tr", "th", "td"}
    assert {tag for tag, _ in page.elements} == tags
    assert page.named("div")[0]["aria-label"] == 'A "caption" <i>' and page.named("div")[0]["tabindex"] == "0"
    assert [h["scope"] for h in page.named("th")] == ["col"] * 3 + ["row"] * 2
    body = ["<b>x</b>", "0.50 [0.40, 0.60] (2 undefined)", "", "y", "undefined", "0.25"]
    assert page.items == ["method", "r & more", "r", *body]


# --- figures
