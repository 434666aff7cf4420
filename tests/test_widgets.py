"""What all widgets share: the front ends as files, hostile text, the address, size, and the plain heat
map.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from browsing import complaints_of_axe

from lrp_companion.attribution import Attribution
from lrp_companion.show.palette import hexes
from lrp_companion.widgets import ProductTree, TokenHeatmap
from lrp_companion.widgets.base import SHARED, STATIC, embed, front_ends, page_script

HOSTILE = (
    "[CLS]",
    "<img src=x onerror=alert(1)>",
    "</script>",
    "&amp;",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u202eabc",
    "\U0001f600",
    "[SEP]",
)
SPECIAL = [True, *[False] * (len(HOSTILE) - 2), True]


def hostile_map(scale: float = 1.0) -> Attribution:
    return Attribution(
        HOSTILE,
        [scale * score for score in (0.3, -1.0, 0.5, 0.25, -0.125, 1.0, 0.01, 2.0)],
        1,
        2.5,
        SPECIAL,
        "loo",
    )


def style_of(name: str) -> str:
    """A front end's own style; it may have none."""
    path = STATIC / f"{name}.css"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@pytest.mark.parametrize("name", front_ends())
def test_a_front_end_is_one_small_module_and_one_style_of_our_own(name: str) -> None:
    script, style = page_script(name), style_of(name)
    assert not re.search(
        r"^\s*import\b|\bimport\(|\beval\(|innerHTML|insertAdjacentHTML|document\.write", script, re.MULTILINE
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script + style)
    most = 53_000 if name == "layer_toggles" else 46_000  # the workbench is the switches and the own sentence
    assert len(script.encode()) + len(style.encode()) < most, "a page's front end stays small"


def test_an_attribute_of_aria_is_a_word() -> None:
    """`true` alone would make an empty attribute, and an empty `aria-hidden` hides nothing."""
    for name in ("base", *SHARED, *front_ends()):
        assert not re.findall(r"\baria-\w+\W{1,3}(?:true|false)\b", (STATIC / f"{name}.js").read_text())


def test_no_two_widgets_share_a_class_name() -> None:
    """All styles of a page are one file, so a name that two widgets use must be the base's."""
    used: dict[str, set[str]] = {}
    for name in ("base", *SHARED, *front_ends()):
        for css_class in re.findall(r"\.(lrp-[\w-]+)", style_of(name)):
            used.setdefault(css_class, set()).add(name)
    shared = {"base", *SHARED}
    assert not {name: users for name, users in used.items() if len(users) > 1 and not users & shared}


@pytest.mark.parametrize("name", front_ends())
def test_a_front_end_declares_no_name_of_the_base_again(name: str) -> None:
    """The two are one module, in which a second function of a name silently takes the place of the first."""
    declared = re.compile(r"^(?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
    base, widget = (set(declared.findall((STATIC / f"{file}.js").read_text())) for file in ("base", name))
    assert "follow" in base and "render" in widget and not base & widget


def test_embedded_json_cannot_end_its_script_element() -> None:
    text = embed({"token": "</script><script>alert(1)</script><!--"})
    assert "<" not in text and json.loads(text)["token"].startswith("</script>")
    with pytest.raises(ValueError):
        embed({"score": float("nan")})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_heat_map_shows_hostile_tokens_as_text_with_values_on_focus(theme: str, show: Any) -> None:
    record = hostile_map()
    page = show(TokenHeatmap(record), theme=theme, axe=True, viewport={"width": 360, "height": 740})
    assert page.locator("li bdi").all_text_contents() == [
        token.replace("\u202e", "\\u202e") for token in HOSTILE
    ]
    shown = page.evaluate(
        "[...document.querySelectorAll('li')].map(e => [e.className, e.style.backgroundColor, "
        "e.querySelector('span').textContent])"
    )
    largest = 1.0  # among the words
    for (kinds, colour, value), score, special in zip(shown, record.scores, record.special, strict=True):
        assert float(value) == pytest.approx(score, abs=5e-4)
        assert ("lrp-for" in kinds) == (score >= 0.05 * largest) and ("lrp-against" in kinds) == (
            score <= -0.05 * largest
        )
        assert ("lrp-special" in kinds) == special
        assert (
            "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", colour))
            == hexes(score / largest)[0]
        )
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    focused = page.evaluate(
        "[document.activeElement.querySelector('bdi').textContent, "
        "getComputedStyle(document.activeElement.querySelector('span')).opacity]"
    )
    assert focused == [HOSTILE[1], "1"]
    page.keyboard.press("Tab")
    assert page.evaluate("!document.activeElement.closest('li')"), "a row of tokens is one tab stop"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('li span')).position") == "static"
    page.emulate_media(media="screen")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_axe_is_really_asked(show: Any) -> None:
    page = show(TokenHeatmap(hostile_map()))
    page.evaluate("document.querySelector('.lrp-widget').append(document.createElement('button'))")
    assert any("button-name" in rule for rule in complaints_of_axe(page, ".lrp-widget"))


def test_a_page_is_made_when_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends closes its channels when nothing can be painted any more."""
    widget = ProductTree((2, 3, 4))
    monkeypatch.setattr(ProductTree, "page_html", lambda self: 1 / 0)
    widget.grouping = "x1 (x2 x3)"
    widget.close()
    widget.layout = {"width": "10px"}
    assert widget.comm is None and set(widget.state()) == {"address", "data", "values", "grouping"}
